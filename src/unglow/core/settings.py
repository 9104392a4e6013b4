"""Typed settings: a section of the configuration is a class, and a key one of its fields.

The type of a field, with its limits, is the rule of the key (`msgspec`), so that values are checked
by it and the JSON schema follows from it (`schema_of`). ``config/write.py`` writes the schema,
``config/config.yaml`` and the table of ``config/README.md`` from them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta

import unglow.core.records  # noqa: F401 (without it a process may end with SIGSEGV)
from unglow.core.errors import ConfigError
from unglow.core.printable import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_Kind = TypeVar("_Kind")

Schema = Mapping[str, Any]
"""JSON schema of a key or of a section."""
Text = Annotated[str, Meta(min_length=1)]
All = Annotated[str, Meta(pattern="^all$")]
Auto = Literal["auto", "never"]

_WORDS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping of keys to values",
}
_PYTHON = {
    "integer": int, "number": int | float, "string": str, "boolean": bool, "null": type(None),
    "array": list, "object": dict,
}  # fmt: skip
_LIMITS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}
# Of a value in a sentence, characters.
_LONGEST_SHOWN = 200
_MOST_EXACT = 2.0**53
_TWICE = " holds a value twice"


def about(description: str, **limits: Any) -> Meta:
    """Return what an annotation says of a key: its meaning, and limits as `msgspec.Meta` has."""
    return Meta(description=description, **limits)


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A section of the configuration: no list has a value twice, and numbers are of one form."""

    def __post_init__(self) -> None:
        keys = self.__struct_fields__, self.__struct_encode_fields__, self.__struct_defaults__
        for field, name, default in zip(*keys, strict=True):
            value = getattr(self, field)
            if isinstance(value, tuple) and len({*value}) < len(value):
                raise ValueError(name + _TWICE)
            if isinstance(value, float) and value.is_integer() and abs(value) < _MOST_EXACT:
                same = default if value == default else int(value)
                msgspec.structs.force_setattr(self, field, same)


@cache
def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON schema of a section, without references; do not change it."""
    made = msgspec.json.schema(kind)
    orders = {frozenset(values): values for values in _list_literals(kind)}
    return _flatten(made, made["$defs"] | {"": {}}, orders)


def _list_literals(kind: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the values of each `Literal` in a type; a schema has them sorted."""
    if get_origin(kind) is Literal:
        yield get_args(kind)
    is_section = isinstance(kind, type) and issubclass(kind, Section)
    inner = [one.type for one in msgspec.structs.fields(kind)] if is_section else get_args(kind)
    for one in inner:
        yield from _list_literals(one)


def _flatten(rule: Schema, shared: Schema, orders: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a rule without references, and with a list of types in place of ``anyOf``."""
    flat = {**shared[rule.get("$ref", "").rpartition("/")[2]], **rule}
    for part in flat.pop("anyOf", ()):
        inner = _flatten(part, shared, orders)
        flat |= inner | {"type": [*types_of(flat), *types_of(inner)]}
    if "enum" in flat and "type" not in flat:
        flat["type"] = "integer" if isinstance(flat["enum"][0], int) else "string"
        flat["enum"] = list(orders[frozenset(flat["enum"])])
    if "enum" in flat and "null" in types_of(flat):
        flat["enum"] = [*flat["enum"], None]
    if "properties" in flat:
        flat["properties"] = {
            name: _flatten(inner, shared, orders) for name, inner in flat["properties"].items()
        }
        flat["default"] = {}
    for name in ("items", "additionalProperties"):
        if isinstance(flat.get(name), dict):
            flat[name] = _flatten(flat[name], shared, orders)
    if "items" in flat and "default" in flat:
        flat["uniqueItems"] = True
    order = ("type", *(name for name in flat if name not in _ENDS), *_ENDS)
    return {name: flat[name] for name in order if name in flat and name not in _DROPPED}


_ENDS = ("type", "default", "properties", "description")
_DROPPED = ("$ref", "$defs", "title", "required")


def types_of(rule: Schema) -> list[str]:
    """Return the types that a rule allows; all of them where it names none."""
    types = rule.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def fits(value: Any, types: Iterable[str]) -> bool:
    """Return whether a value is of one of some types of JSON Schema."""
    return any(
        isinstance(value, _PYTHON[name]) and (name == "boolean" or not isinstance(value, bool))
        for name in types
    )


def from_json(kind: type[_Kind], values: Any, where: str = "") -> _Kind:
    """Return a section from plain keys and values; defaults take the place of missing ones.

    Raises
    ------
    ConfigError
        One sentence: a key is not known, or its value not allowed. ``where`` is put before the
        name of the key.
    """
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(str(error), values, kind, where)) from error
    except UnicodeEncodeError as error:  # what it makes of such text for a number, for example
        shown = ascii(error.object)[:_LONGEST_SHOWN]
        raise ConfigError(f"{shown} in the configuration is not text; correct it.") from error


def _explain(problem: str, value: Any, kind: Any, where: str) -> str:
    """Return the sentence for what msgspec says, ``WHAT - at `$.section.key[0]```."""
    what, at, path = problem.rpartition(" - at ")
    what, path = (what, path) if at else (path, "")
    rule: Schema = schema_of(kind)
    for key, index in re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", path):
        if index == "...":  # of a mapping, it does not say which
            rule = rule["additionalProperties"]
            unfit = [name for name, one in value.items() if not fits(one, types_of(rule))]
            if not unfit:
                break
            value, where = value[unfit[0]], f"{where}.{unfit[0]}"
            continue
        value = value[key] if key else list(value)[int(index)]  # of a set of YAML, too
        rule = rule["properties"][key] if key else rule["items"]
        where = f"{where}.{key or index}".lstrip(".")
    if isinstance(value, dict) and (unknown := {*value} - {*rule.get("properties", value)}):
        name = str(min(unknown, key=str))
        key = clean(f"{where}.{name}".lstrip("."))[:_LONGEST_SHOWN]
        section, dot, rest = name.partition(".")
        if dot and "properties" in rule["properties"].get(section, {}):
            return f"config key '{key}' has a dot; write it as `{section}: {{{rest}: VALUE}}`."
        nearest = suggest(name[:_LONGEST_SHOWN], rule["properties"])
        return f"config key '{key}' is not known; {nearest}"
    needs = _say_needs(value, rule)
    if what.endswith(_TWICE):
        key, needs = what.removesuffix(_TWICE), _TWICE.strip()
        value, rule, where = value[key], rule["properties"][key], f"{where}.{key}".lstrip(".")
    shown = repr(value)
    shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}..."
    meaning = str(rule.get("description", "")).split(". ")[0].rstrip(".")
    end = f" ({meaning})." if meaning else "."
    return f"config key '{where or 'the configuration'}' is {shown} but {needs}{end}"


def _say_needs(value: Any, rule: Schema) -> str:
    """Return what a rule wants of a value, for the end of a sentence."""
    types = types_of(rule)
    limits = [f"{said} {rule[name]:g}" for name, said in _LIMITS.items() if name in rule]
    if value in ("", []) and fits(value, types):
        return "must not be empty"
    if limits and fits(value, [name for name in types if name in ("integer", "number")]):
        return "has to be " + " and ".join(limits)
    if "enum" in rule:
        return "has to be one of " + ", ".join(str(one) for one in rule["enum"])
    patterns = rule.get("pattern", "").strip("^()$").split("|") if "pattern" in rule else []
    plain = [name for name in types if name != "null" and not (patterns and name == "string")]
    words = [_WORDS[name] for name in plain] + patterns + ["null"] * ("null" in types)
    return "has to be " + " or ".join([*filter(None, [", ".join(words[:-1])]), words[-1]])


def suggest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the nearest of the known names as a question; without one, another end or all keys."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    if near:
        return f"did you mean '{near[0]}'?"
    return otherwise or f"the keys here are {', '.join(names)}."
