"""Typed settings: a key of the configuration is a field of a dataclass, with its rule and meaning.

A section is a dataclass. The rule of a key is written in the words of JSON Schema (``minimum``,
``enum``, ...), so that the schema follows from the fields (`schema_of`). ``config/write.py`` writes
the schema, ``config/config.yaml`` and the table of ``config/README.md`` from them.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Mapping
from dataclasses import MISSING, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from unglow.core.errors import ConfigError
from unglow.core.printable import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_Kind = TypeVar("_Kind")

Schema = Mapping[str, Any]
"""JSON schema of a key or of a section."""

_TYPES = {
    "int": "integer",
    "float": "number",
    "str": "string",
    "bool": "boolean",
    "None": "null",
    "tuple": "array",
    "dict": "object",
}
"""Types in annotations, and their names in JSON Schema."""
_WORDS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "a mapping of keys to values",
}


def key(about: str, *, default: Any, **rule: Any) -> Any:
    """Declare a key of a section: its meaning, its default, and the rule for its values.

    The annotation of the field gives the types. A name that is reserved in Python is written with
    an underscore at its end (``from_``).
    """
    known = {"about": about, "rule": rule}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=known)
    return field(default=default, metadata=known)


def section(kind: type, about: str) -> Any:
    """Declare a section of a configuration."""
    return field(default_factory=kind, metadata={"about": about, "section": kind})


@cache
def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON schema of a section, without fields that are no keys; do not change it."""
    named = {}
    for name, one in _keys(kind):
        inner = one.metadata.get("section")
        if inner is None:
            types = [_TYPES[part.partition("[")[0]] for part in str(one.type).split(" | ")]
            rule = {"type": types[0] if len(types) == 1 else types, **one.metadata["rule"]}
            if "enum" in rule and "null" in types:
                rule["enum"] = [*rule["enum"], None]
            rule["default"] = {} if one.default is MISSING else _plain(one.default)
        else:
            rule = dict(schema_of(inner))
        named[name] = rule | {"description": one.metadata["about"]}
    return {"type": "object", "additionalProperties": False, "default": {}, "properties": named}


def _keys(kind: type) -> Iterator[tuple[str, Any]]:
    for one in fields(kind):
        if "about" in one.metadata:
            yield one.name.rstrip("_"), one


def to_json(settings: Any) -> dict[str, Any]:
    """Return a section as plain keys and values."""
    return {name: _plain(getattr(settings, one.name)) for name, one in _keys(type(settings))}


def _plain(value: Any) -> Any:
    if hasattr(value, "__dataclass_fields__"):
        return to_json(value)
    return list(value) if isinstance(value, tuple) else value


def from_json(kind: type[_Kind], values: Mapping[str, Any], where: str = "") -> _Kind:
    """Return a section from plain keys and values; defaults take the place of missing ones.

    `ConfigError` for a key that is not known; ``where`` is the name of the section.
    """
    known = dict(_keys(kind))
    given = {}
    for name, value in values.items():
        if name not in known:
            raise ConfigError(describe_unknown(name, known, where or getattr(kind, "SECTION", "")))
        inner = known[name].metadata.get("section")
        made = from_json(inner, value, name) if inner else value
        given[known[name].name] = tuple(made) if isinstance(made, list) else made
    return kind(**given)


def describe_unknown(name: str, known: Iterable[str], where: str = "") -> str:
    """Return the sentence for a key that is not known, with the nearest one that is."""
    key = clean(f"{where}.{name}".lstrip("."))[:_LONGEST_SHOWN]
    return f"config key '{key}' is not known; {suggest(str(name)[:_LONGEST_SHOWN], known)}"


def suggest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the nearest of the known names as a question; without one, another end or all keys."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    if near:
        return f"did you mean '{near[0]}'?"
    return otherwise or f"the keys here are {', '.join(names)}."


class Checked:
    """A section whose values are checked wherever it is made; `SECTION` is its name."""

    __slots__ = ()
    SECTION: ClassVar[str]

    def __post_init__(self) -> None:
        kind: Any = type(self)
        rules = schema_of(kind)["properties"]
        for name, value in to_json(self).items():
            check(value, rules[name], f"{self.SECTION}.{name}")


def check(value: Any, rule: Schema, name: str) -> None:
    """Raise `ConfigError`, one sentence, for a value that a rule does not allow.

    Parameters
    ----------
    value
        Plain: numbers, text, lists and dictionaries.
    rule
        JSON schema.
    name
        Dotted name of the key; '' for the configuration itself.
    """
    problem = _problem(value, rule)
    if problem is not None:
        about = str(rule.get("description", "")).split(". ")[0].rstrip(".")
        given = repr(value)
        given = given if len(given) <= _LONGEST_SHOWN else f"{given[:_LONGEST_SHOWN]}..."
        raise ConfigError(
            f"config key '{name or 'the configuration'}' is {given} but {problem}"
            + (f" ({about})." if about else ".")
        )
    if isinstance(value, list) and "items" in rule:
        for number, item in enumerate(value):
            check(item, rule["items"], f"{name}.{number}")
    if isinstance(value, dict):
        patterns = [*rule.get("patternProperties", {}).values(), {}]
        others: Schema = rule.get("additionalProperties") or patterns[0]
        for inner, item in value.items():
            check(item, rule.get("properties", {}).get(inner, others), f"{name}.{inner}".strip("."))


def fits(value: Any, types: Iterable[str]) -> bool:
    """Return whether a value is of one of some types of JSON Schema."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    has = {
        "integer": is_number and isinstance(value, int),
        "number": is_number,
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "null": value is None,
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }
    return any(has[name] for name in types)


def types_of(rule: Schema) -> list[str]:
    """Return the types that a rule allows; all of them where it names none."""
    types = rule.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def _problem(value: Any, rule: Schema) -> str | None:
    types = types_of(rule)
    if types and not fits(value, types):
        return "has to be " + " or ".join(_WORDS[name] for name in types)
    if "enum" in rule and value not in rule["enum"]:
        return "has to be one of " + ", ".join(str(one) for one in rule["enum"])
    if isinstance(value, str) and not re.search(rule.get("pattern", ""), value):
        return f"has to be {_alternatives(types, rule['pattern'])}"
    if isinstance(value, str | list):
        return _problem_of_many(value, rule)
    return _problem_of_number(value, rule) if fits(value, ["number"]) else None


def _problem_of_many(value: str | list[Any], rule: Schema) -> str | None:
    if isinstance(value, str):
        return "must not be empty" if len(value) < rule.get("minLength", 0) else None
    if len(value) < rule.get("minItems", 0):
        return "needs at least one value"
    is_repeated = rule.get("uniqueItems") and len({repr(one) for one in value}) < len(value)
    return "holds a value twice" if is_repeated else None


# Of a value in a sentence, characters.
_LONGEST_SHOWN = 200
_LIMITS = (
    ("minimum", operator.ge, "at least"),
    ("maximum", operator.le, "at most"),
    ("exclusiveMinimum", operator.gt, "above"),
    ("exclusiveMaximum", operator.lt, "below"),
)


def _problem_of_number(value: float, rule: Schema) -> str | None:
    for name, holds, words in _LIMITS:
        if name in rule and not holds(value, rule[name]):
            return f"has to be {words} {rule[name]}"
    return None


def _alternatives(types: list[str], pattern: str) -> str:
    """Return what a pattern such as ``^(max|mean)$`` allows, with the other type of its rule."""
    *words, last = pattern.strip("^()$").split("|")
    what = "a list" if "array" in types else "a number"
    return what + "".join(f", {word}" for word in words) + f" or {last}"
