"""Configuration: defaults from the schema, checked values, and a sentence for each mistake.

The schema (config/schemas/config.schema.yaml) is the one place where keys, types, ranges, defaults
and their descriptions stand; this module only applies it.
"""

from __future__ import annotations

import copy
import difflib
import json
import math
import os
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from unglow.core.errors import ConfigError
from unglow.core.files import read_file
from unglow.workflow.schema import schema
from unglow.workflow.variants import SECTIONS, variants, with_overrides

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from jsonschema.exceptions import ValidationError

    from unglow.workflow.schema import Settings


CONFIG = Path("config") / "config.yaml"
"""Where the workflow looks for it, in the directory in which it runs."""
SOURCE = "register.from"
"""The key of these sections that says which pairs depend on which, and cannot be swept."""
_OF_SLIDES = "register.on"
"""The one that is of slides alone, which are not swept either."""
MOST_VARIANTS = 10_000
"""Of a pair in a sweep: parsing takes some seconds for so many."""

RETIRED = frozenset({"bands"})
"""Keys of earlier versions that no longer change anything; they are accepted with a note."""

_PATHS = ("container", "raw", "results", "samples")
# Limits of Linux, with space for the names of files below the results directory.
_NAME_BYTES, _PATH_BYTES = 255, 3000
# What YAML 1.1 takes for text.
_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")

# What is wrong with a value, by the rule of the schema that it breaks.
_WRONG = {
    "minimum": "has to be at least {}",
    "maximum": "has to be at most {}",
    "exclusiveMinimum": "has to be above {}",
    "exclusiveMaximum": "has to be below {}",
    "minItems": "needs at least one value",
    "uniqueItems": "holds a value twice",
    "minLength": "must not be empty",
}
_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "a mapping of keys to values",
}
_MOST_BYTES = 1_000_000
"""Of a configuration file."""


def load(config: Mapping[str, Any]) -> Settings:
    """Return a configuration with all defaults filled in, after all of it was checked.

    Values may be strings, as ``--config 'scale={percentile: 40}'`` gives them. A `ConfigError` is
    one sentence with the key, what is wrong with it and what would be right.
    """
    _refuse_circles(config, "the configuration")
    rules = schema("config")
    known = {key: value for key, value in config.items() if key not in RETIRED}
    settings: Settings = _complete(copy.deepcopy(known), rules)
    _refuse_unknown(settings, rules, "")
    sweepable = _sweepable(settings["sweep"], rules)
    error = best_match(Draft202012Validator(rules).iter_errors(settings))
    if error is not None:
        raise ConfigError(_sentence(error))
    _check_methods(settings)
    _check_sweep(settings, sweepable)
    _refuse_endless(settings, "")
    _refuse_impossible_paths(settings)
    return settings


def read_config(path: Path) -> Settings:
    """Return the configuration of a file, defaults included; only defaults if there is none."""
    return load(read_stored(path))


def read_stored(path: Path) -> Settings:
    """Return the keys and values of a file as they are; none if it is empty or not there.

    Raises
    ------
    ConfigError
        The file is a directory, not YAML, or does not hold keys and values.
    """
    if not os.path.lexists(path):
        return {}
    if path.is_dir():
        raise ConfigError(f"{path} is a directory, but has to be a file: move it away.")
    try:
        stored = yaml.safe_load(read_file(path, _MOST_BYTES).decode("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror}): put the configuration there, or remove it."
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{line}: this is not YAML; correct it there.") from error
    except RecursionError:
        raise ConfigError(f"{path}: values are nested too deep.") from None
    if not isinstance(stored, dict | None):
        raise ConfigError(f"{path} has to hold keys and values, such as `raw: raw`.")
    _refuse_circles(stored, str(path))
    return stored or {}


def _refuse_circles(value: Any, where: str) -> None:
    """Raise for a value that contains itself, as anchors of YAML can make it."""
    try:
        json.dumps(value, default=str, skipkeys=True)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{where}: a value contains itself, or values are nested too deep; write it out "
            "without the anchor (&) and alias (*)."
        ) from error


def _complete(value: Any, rule: Mapping[str, Any]) -> Any:
    """Coerce ``value`` to the types that ``rule`` allows and add the defaults of its properties."""
    types = rule.get("type", [])
    types = [types] if isinstance(types, str) else list(types)
    if isinstance(value, str) and "string" not in types:
        value = _parse(value, types)
    elif isinstance(value, str) and len(types) > 1:
        parsed = _parse(value, types)
        value = value if isinstance(parsed, str) else parsed
    elif isinstance(value, int) and not isinstance(value, bool) and _is_name(types):
        value = str(value)  # channel: 1, from: 488
    if value is None and types == ["object"]:
        value = {}  # a section whose keys are all commented out
    if isinstance(value, dict) and "object" in types:
        named: Mapping[str, Any] = rule.get("properties", {})
        if "on" in named and True in value:  # what YAML makes of a plain `on`
            value["on"] = value.pop(True)
        free = rule.get("additionalProperties")
        if isinstance(free, dict) and "type" in free:
            value = {str(key): _complete(inner, free) for key, inner in value.items()}
        for key, inner in named.items():
            value[key] = _complete(value.get(key, copy.deepcopy(inner["default"])), inner)
    if isinstance(value, list) and "items" in rule:
        value = [_complete(item, rule["items"]) for item in value]
    return value


def _is_name(types: list[str]) -> bool:
    return "string" in types and not {"integer", "number"} & set(types)


def _parse(text: str, types: list[str]) -> Any:
    """Read a command-line string as YAML; keep it as it is where no allowed type comes out."""
    try:
        parsed = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        return text
    is_number = "number" in types or ("integer" in types and "string" not in types)
    if isinstance(parsed, str) and is_number and _EXPONENT.fullmatch(parsed):
        number = float(parsed)
        parsed = int(number) if number.is_integer() else number
    fits: dict[str, Any] = {
        "integer": isinstance(parsed, int) and not isinstance(parsed, bool),
        "number": isinstance(parsed, int | float) and not isinstance(parsed, bool),
        "boolean": isinstance(parsed, bool),
        "null": parsed is None,
        "array": isinstance(parsed, list),
        "object": isinstance(parsed, dict),
    }
    return parsed if any(fits.get(name, False) for name in types) else text


def _refuse_endless(value: Any, where: str) -> None:
    """Raise for a number that is infinite or no number, which no limit of the schema stops."""
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = ((where, item) for item in value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"config key '{where}' is {value} but has to be a finite number.")
    for key, item in inner:
        name = where if isinstance(value, list) else f"{where}.{key}".removeprefix(".")
        _refuse_endless(item, name)


def _refuse_impossible_paths(settings: Settings) -> None:
    """Raise for a path that no file system takes."""
    for key in _PATHS:
        path = settings[key] or ""
        if "\0" in path:
            raise ConfigError(f"config key '{key}' holds a NUL character; remove it.")
        longest = max(len(os.fsencode(part)) for part in path.split("/"))
        if longest > _NAME_BYTES or len(os.fsencode(path)) > _PATH_BYTES:
            raise ConfigError(
                f"config key '{key}' is too long for a path ({len(path)} characters): a name may "
                f"have {_NAME_BYTES} bytes, a path {_PATH_BYTES}. Choose a shorter one."
            )


def _refuse_unknown(value: Any, rule: Mapping[str, Any], where: str) -> None:
    """Raise for a key that the schema does not know, with the nearest one that it does."""
    named = rule.get("properties", {})
    if not isinstance(value, dict) or rule.get("additionalProperties") is not False:
        return
    if rule.get("patternProperties"):
        return
    for key, inner in value.items():
        if key in named:
            _refuse_unknown(inner, named[key], f"{where}{key}.")
            continue
        raise ConfigError(f"config key '{where}{key}' is not known; {_suggest(str(key), named)}")


def _suggest(key: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(key, list(known), n=1, cutoff=0.5)
    if near:
        return f"did you mean '{near[0]}'?"
    return "the keys here are " + ", ".join(sorted(known)) + "."


def _sentence(error: ValidationError) -> str:
    """Turn a schema error into one sentence about the key."""
    name = ".".join(str(part) for part in error.absolute_path) or "the configuration"
    rule = error.schema if isinstance(error.schema, dict) else {}
    kind = str(error.validator)
    wanted: Any = error.validator_value
    if kind == "type":
        what = f"has to be {_types(wanted)}"
    elif kind == "enum":
        what = "has to be one of " + ", ".join(str(value) for value in wanted)
    elif kind == "pattern":
        what = f"has to be {_alternatives(rule, wanted)}"
    else:
        what = _WRONG[kind].format(wanted) if kind in _WRONG else error.message
    about = str(rule.get("description", "")).strip().split(". ")[0].rstrip(".")
    return f"config key '{name}' is {error.instance!r} but {what}" + (
        f" ({about})." if about else "."
    )


def _alternatives(rule: Mapping[str, Any], pattern: str) -> str:
    """Say which words a pattern such as ``^(max|mean)$`` allows beside a number or a list."""
    *words, last = pattern.strip("^()$").split("|")
    what = "a list" if "array" in rule["type"] else "a number"
    return what + "".join(f", {word}" for word in words) + f" or {last}"


def _types(types: str | list[str]) -> str:
    return " or ".join(_TYPES[t] for t in ([types] if isinstance(types, str) else types))


def _check_methods(settings: Settings) -> None:
    scale = settings["scale"]
    if scale["default"] not in [*scale["methods"], "manual", None]:
        raise ConfigError(
            f"config key 'scale.default' is '{scale['default']}' but 'scale.methods' holds only "
            f"{', '.join(scale['methods'])}; add it there or choose one of those."
        )
    named = [] if scale["write"] in (None, "all") else scale["write"]
    unknown = set(named) - {*scale["methods"], "manual"}
    if unknown:
        raise ConfigError(
            f"config key 'scale.write' names {', '.join(sorted(unknown))} but 'scale.methods' "
            f"holds only {', '.join(scale['methods'])}; add it there or leave it out here."
        )


def _keys(name: str, rule: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the dotted names of the keys of a section with their rules; of a key, its own."""
    if "properties" not in rule:
        yield name, rule
    for key, inner in rule.get("properties", {}).items():
        yield f"{name}.{key}", inner


def _sweepable(sweep: Any, rules: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the rules of all keys that can be swept, after those that are were checked."""
    sections = SECTIONS.values()
    pairs = (pair for name in sections for pair in _keys(name, rules["properties"][name]))
    sweepable = {name: rule for name, rule in pairs if name not in (SOURCE, _OF_SLIDES)}
    for name in sweep if isinstance(sweep, dict) else ():
        if name == SOURCE:
            raise ConfigError(
                f"config key 'sweep.{SOURCE}' cannot be swept, since pairs depend on each other by "
                "it; compare two runs with other results directories instead."
            )
        if name == _OF_SLIDES:
            raise ConfigError(
                f"config key 'sweep.{_OF_SLIDES}' cannot be swept, since it is of slides, which "
                "have no variants; compare two runs with other results directories instead."
            )
        if name not in sweepable:
            raise ConfigError(
                f"config key 'sweep.{name}' is none that can be swept; "
                f"{_suggest(str(name), sweepable)}"
            )
    return sweepable


def _check_sweep(settings: Settings, sweepable: Mapping[str, Mapping[str, Any]]) -> None:
    """Check each swept value as if it stood in the configuration itself."""
    count = math.prod(len(values) for values in settings["sweep"].values())
    if count > MOST_VARIANTS:
        raise ConfigError(
            f"config key 'sweep' makes {count} variants of each pair, but at most {MOST_VARIANTS} "
            "are accepted: sweep fewer values or keys at once."
        )
    for name, values in settings["sweep"].items():
        read = [_complete(value, sweepable[name]) for value in values]
        different = {tuple(value) if isinstance(value, list) else value for value in read}
        if len(different) < len(read):
            raise ConfigError(f"config key 'sweep.{name}' holds a value twice: {read}.")
        settings["sweep"][name] = read
        for value in read:
            error = best_match(Draft202012Validator(sweepable[name]).iter_errors(value))
            if error is not None:
                error.path.append(f"sweep.{name}")
                raise ConfigError(_sentence(error))
            _check_methods(with_overrides(settings, {name: value}))
    for level in SECTIONS:
        names = Counter(variant.name for variant in variants(settings, level))
        (twice, count), *_ = names.most_common(1)
        if count > 1:
            raise ConfigError(
                f"config key 'sweep' has two variants whose directories would both be '{twice}': "
                "give values that differ in letters or digits."
            )
