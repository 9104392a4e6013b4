"""Settings of the science as a form, made from the schema; no others can be set by it.

What becomes a path, a command or a limit of the machine is not in it: ``raw`` and ``samples`` are
chosen in steps of their own, and the rest is a matter of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unglow.core.errors import ConfigError
from unglow.core.settings import schema_of, types_of
from unglow.workflow.config import load
from unglow.workflow.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
    changed: dict[str, Any] = {
        key: dict(value) if isinstance(value, dict) else value for key, value in stored.items()
    }
    for name in reset:
        section, _, key = name.rpartition(".")
        inner = changed.get(section) if section else changed
        if isinstance(inner, dict):
            inner.pop(key, None)
    for name, value in put.items():
        section, _, key = name.rpartition(".")
        if section and not isinstance(changed.get(section), dict):
            changed[section] = {}
        (changed[section] if section else changed)[key] = value
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
    section, _, key = name.rpartition(".")
    inner = stored.get(section) if section else stored
    return isinstance(inner, dict) and (key in inner or (key == "on" and True in inner))
