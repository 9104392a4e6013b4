"""Changes of single keys of a YAML file; comments and everything else stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from unglow.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MANUALLY = "the app cannot change this file without rewriting it: edit it in an editor."


def change_keys(text: str, put: Mapping[str, Any], reset: Iterable[str] = ()) -> str:
    """Return a configuration with keys set, and others removed.

    Parameters
    ----------
    text
        YAML of keys, and sections of keys.
    put
        Values by dotted names (``detect.fdr``).
    reset
        Dotted names of keys to remove.

    Raises
    ------
    ConfigError
        The file is written in a way in which single keys cannot be changed.
    """
    try:
        return _changed(text, put, reset)
    except yaml.YAMLError as error:
        raise ConfigError(f"config/config.yaml: {_MANUALLY}") from error


def _changed(text: str, put: Mapping[str, Any], reset: Iterable[str]) -> str:
    wanted = _unshared(yaml.safe_load(text) or {})
    for name in reset:
        section, key = _split(name)
        inner = wanted.get(section) if section else wanted
        if isinstance(inner, dict) and key in inner:
            del inner[key]
            text = _without(text, section, key)
    for name, value in put.items():
        section, key = _split(name)
        inner = wanted
        if section:
            if not isinstance(wanted.get(section), dict):
                wanted[section] = {}
            inner = wanted[section]
        inner[key] = value
        text = _with(text, section, key, value)
    made = yaml.safe_load(text) or {}
    if _filled(made) != _filled(wanted):
        raise ConfigError(f"config/config.yaml: {_MANUALLY}")
    return text


def _unshared(value: Any) -> Any:
    """Return a copy in which nothing is there twice, as anchors make it."""
    if isinstance(value, dict):
        return {key: _unshared(inner) for key, inner in value.items()}
    return [_unshared(inner) for inner in value] if isinstance(value, list) else value


def _split(name: str) -> tuple[str, str]:
    section, _, key = name.rpartition(".")
    return section, key


def _filled(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if value not in (None, {})}


def _node(text: str, section: str, key: str) -> tuple[Any, Any, Any]:
    """Return the mapping that a key is in, and the nodes of key and value; None if not there."""
    mapping = yaml.compose(text)
    if section:
        pairs = mapping.value if isinstance(mapping, yaml.MappingNode) else []
        mapping = next((value for name, value in pairs if name.value == section), None)
    if isinstance(mapping, yaml.MappingNode):
        for name, value in mapping.value:
            if name.value == key:
                return mapping, name, value
    return mapping, None, None


def _with(text: str, section: str, key: str, value: Any) -> str:
    mapping, name, found = _node(text, section, key)
    written = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10_000)
    written = written.removesuffix("\n").removesuffix("\n...")
    if found is not None:
        start, end = found.start_mark.index, found.end_mark.index
        if isinstance(found, yaml.CollectionNode) and not found.flow_style:
            end = start + len(text[start:end].rstrip())
            start = name.end_mark.index + 1
        before = text[:start] if text[start - 1 : start].isspace() else f"{text[:start]} "
        return f"{before}{written}{text[end:]}"
    if section and isinstance(mapping, yaml.MappingNode) and mapping.value:
        if mapping.flow_style:
            place = mapping.start_mark.index + 1
            return f"{text[:place]}{key}: {written}, {text[place:]}"
        first = mapping.value[0][0].start_mark
        place = first.index - first.column
        return f"{text[:place]}{' ' * first.column}{key}: {written}\n{text[place:]}"
    if section:
        text = _without(text, "", section) if _node(text, "", section)[1] is not None else text
        return f"{_lines(text)}{section}:\n  {key}: {written}\n"
    return f"{_lines(text)}{key}: {written}\n"


def _lines(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _without(text: str, section: str, key: str) -> str:
    """Return the text without the lines of a key."""
    mapping, name, value = _node(text, section, key)
    if mapping.flow_style:
        raise ConfigError(f"config/config.yaml: {_MANUALLY}")
    start = name.start_mark.index - name.start_mark.column
    # what is behind a value on its line, and lines of a block up to its last one
    end = value.start_mark.index + len(text[value.start_mark.index : value.end_mark.index].rstrip())
    line_end = text.find("\n", end)
    return text[:start] + ("" if line_end < 0 else text[line_end + 1 :])
