"""Settings of the science as a form, and changes of them in the configuration file.

The form is made from the schema; no other keys can be set by it. What becomes a path, a command or
a limit of the machine is not in it: ``raw`` and ``samples`` are chosen in steps of their own, and
the rest is a matter of the file. Comments and everything else in the file stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from unglow.core.errors import ConfigError
from unglow.core.settings import schema_of, types_of
from unglow.workflow.config import load, parse_yaml
from unglow.workflow.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from unglow.core.settings import Schema


SECTIONS = ("", "plane", "register", "scale", "detect", "multiplexed", "exports")
"""Sections of the form, "" for keys that are in none."""
_OUTSIDE = ("channel", "light", "series")
"""Keys of the form that are in no section."""
_FIRST = {
    "detect.fwhm_px": "Width of a stained spot, px",
    "detect.fdr": "False-discovery rate",
    "channel": "Channel",
    "light": "Kind of image",
    "register.model": "Model of the registration",
    "register.field": "Smooth deformation",
    "scale.default": "Scale method",
    "detect.spoilt": "Spoilt places",
}
"""Keys that matter most, with titles: they are shown, and the others folded."""


def form(stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the keys of the form, those that matter most first.

    Parameters
    ----------
    stored
        The configuration as it is in the file.

    Returns
    -------
    For each key ``name`` (dotted), ``about``, ``types`` and rules as in JSON schema (``enum``,
    ``items``, ``minimum`` and so on), ``default``, ``value`` as a run would have it, ``set`` if the
    file has it, ``first`` if it matters most, and ``title`` then.
    """
    rules, settings = dict(_keys()), load(stored)
    names = [*_FIRST, *(name for name in rules if name not in _FIRST)]
    return [
        {
            **{k: v for k, v in rules[name].items() if k not in ("description", "type")},
            "name": name,
            "about": rules[name]["description"],
            "types": types_of(rules[name]),
            "value": _value(settings, name),
            "set": _is_set(stored, name),
            "first": name in _FIRST,
            "title": _FIRST.get(name, ""),
        }
        for name in names
    ]


def check_changes(
    stored: Mapping[str, Any], put: Mapping[str, Any], reset: Sequence[str]
) -> dict[str, Any]:
    """Return the values to set, with their types.

    Raises
    ------
    ConfigError
        A key is not in the form, or a value is not allowed.
    """
    rules = dict(_keys())
    for name in (*put, *reset):
        if name not in rules:
            raise ConfigError(
                f"The key '{name}' cannot be set here; edit config/config.yaml if it is meant."
            )
    changed = _unshared(stored)
    for name in reset:
        _remove(changed, name)
    for name, value in put.items():
        _set(changed, name, value)
    settings = load(changed)
    return {name: _value(settings, name) for name in put}


def _keys() -> Iterator[tuple[str, Schema]]:
    schema = schema_of(Settings)["properties"]
    for section in SECTIONS:
        keys = schema[section]["properties"] if section else {k: schema[k] for k in _OUTSIDE}
        for key, rule in keys.items():
            if "object" not in types_of(rule):
                yield f"{section}.{key}".removeprefix("."), rule


def _value(settings: Settings, name: str) -> Any:
    value: Any = settings
    for part in name.split("."):
        value = getattr(value, "from_" if part == "from" else part)
    return list(value) if isinstance(value, tuple) else value


def _is_set(stored: Mapping[str, Any], name: str) -> bool:
    inner, key = _section(stored, name)
    return isinstance(inner, dict) and (key in inner or (key == "on" and True in inner))


def _split(name: str) -> tuple[str, str]:
    section, _, key = name.rpartition(".")
    return section, key


def _section(config: Mapping[str, Any], name: str) -> tuple[Any, str]:
    """Return what should be the mapping that a key is in, and its name there."""
    section, key = _split(name)
    return config.get(section) if section else config, key


def _set(config: dict[str, Any], name: str, value: Any) -> None:
    section, key = _split(name)
    if section and not isinstance(config.get(section), dict):
        config[section] = {}
    (config[section] if section else config)[key] = value


def _remove(config: dict[str, Any], name: str) -> bool:
    """Remove a key; return whether it was there."""
    inner, key = _section(config, name)
    is_there = isinstance(inner, dict) and key in inner
    if is_there:
        del inner[key]
    return is_there


_MANUALLY = (
    "config/config.yaml: the app cannot change this file without rewriting it: edit it in an "
    "editor."
)


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
        wanted = _unshared(parse_yaml(text) or {})
        for name in reset:
            if _remove(wanted, name):
                text = _without(text, *_split(name))
        for name, value in put.items():
            _set(wanted, name, value)
            text = _with(text, *_split(name), value)
        made = parse_yaml(text) or {}
    except yaml.YAMLError as error:
        raise ConfigError(_MANUALLY) from error
    if _filled(made) != _filled(wanted):
        raise ConfigError(_MANUALLY)
    return text


def _unshared(value: Any) -> Any:
    """Return a copy in which nothing is there twice, as anchors make it."""
    if isinstance(value, dict):
        return {key: _unshared(inner) for key, inner in value.items()}
    return [_unshared(inner) for inner in value] if isinstance(value, list) else value


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
        raise ConfigError(_MANUALLY)
    start = name.start_mark.index - name.start_mark.column
    # what is behind a value on its line, and lines of a block up to its last one
    end = value.start_mark.index + len(text[value.start_mark.index : value.end_mark.index].rstrip())
    line_end = text.find("\n", end)
    return text[:start] + ("" if line_end < 0 else text[line_end + 1 :])
