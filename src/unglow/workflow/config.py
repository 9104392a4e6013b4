"""Configuration: given keys and values become typed settings, or one sentence about a mistake.

Keys, types, ranges, defaults and descriptions are in `unglow.workflow.settings`. A sweep adds a
directory level below the pair for each part of the configuration that it is about, in the order of
`SECTIONS`: variants share every stage that their parameters do not touch.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from unglow.core.errors import ConfigError
from unglow.core.files import read_file
from unglow.core.levels import VARIANT
from unglow.core.settings import fits, from_json, schema_of, suggest, types_of
from unglow.workflow.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from unglow.core.settings import Schema


CONFIG = Path("config") / "config.yaml"
"""Where the workflow looks for it, in the directory in which it runs."""
SECTIONS = dict(zip(VARIANT, ("channel", "register", "scale", "detect"), strict=True))
"""Levels of variants to what is swept for them: a section of the configuration, or a single key."""
SOURCE = "register.from"
"""It says which pairs depend on which, and cannot be swept."""
_NOT_SWEPT = {
    SOURCE: "pairs depend on each other by it",
    "register.on": "it is of slides, which have no variants",
}
MOST_VARIANTS = 10_000
"""Most variants of a pair in a sweep: parsing takes some seconds then."""

_PATHS = ("container", "raw", "results", "samples")
# Limits of Linux, with space for the names of files below the results directory.
_NAME_BYTES, _PATH_BYTES = 255, 3000
# What YAML 1.1 takes for text.
_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")

MOST_BYTES = 1_000_000
"""Largest configuration file, bytes."""
_MOST_ALIASED = 10_000
"""Characters that aliases of YAML may stand for in addition."""


def parse_yaml(text: str) -> Any:
    """Return what YAML says.

    Raises
    ------
    yaml.YAMLError
        It is not YAML.
    ConfigError
        Aliases in it stand for much more than is written, or a key is there twice.
    """
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if _count_characters(node, {}) > 2 * len(text) + _MOST_ALIASED:
            raise ConfigError("aliases (*) stand for too many values; write them out.")
        _refuse_repeated_keys(node)
        return None if node is None else loader.construct_document(node)
    except AttributeError as error:  # what it makes of a timestamp that is none
        raise yaml.YAMLError(str(error)) from error
    finally:
        loader.dispose()


def _count_characters(node: Any, known: dict[int, int]) -> int:
    """Return how long values are with all aliases written out; ``known``: those of nodes so far."""
    if isinstance(node, yaml.CollectionNode) and id(node) not in known:
        known[id(node)] = 1  # also where it contains itself
        parts = (
            one for each in node.value for one in (each if isinstance(each, tuple) else [each])
        )
        known[id(node)] += sum(_count_characters(part, known) for part in parts)
    return known.get(id(node), 1 + len(getattr(node, "value", "")))


def _refuse_repeated_keys(node: Any) -> None:
    """Raise for a key that a mapping has twice: only the last would count."""
    waiting, seen = [node], set[int]()
    while waiting:
        one = waiting.pop()
        if not isinstance(one, yaml.CollectionNode) or id(one) in seen:
            continue
        seen.add(id(one))
        if not isinstance(one, yaml.MappingNode):
            waiting += one.value
            continue
        lines = dict[str, int]()
        for key, value in one.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines:
                raise ConfigError(
                    f"key `{name}` is there twice, in lines {lines[name]} and {line}: keep one."
                )
            lines[name] = line
            waiting.append(value)


def load(config: Mapping[str, Any]) -> Settings:
    """Return a configuration with all defaults filled in, after all of it was checked.

    Values may be strings, as ``--config 'scale={percentile: 40}'`` gives them. A `ConfigError` is
    one sentence with the key, what is wrong with it and what would be right.
    """
    _refuse_circles(config, "the configuration")
    rules = schema_of(Settings)
    plain: dict[str, Any] = _convert_all(config, rules)
    sweep = plain.get("sweep")
    sweepable = _sweepable(sweep, rules) if sweep else {}
    settings = from_json(Settings, plain)
    _check_methods(settings)
    _check_sweep(settings, sweepable)
    _refuse_impossible_paths(settings)
    return settings


def read_config(path: Path) -> Settings:
    """Return the configuration of a file, defaults included; only defaults if there is none."""
    return load(read_stored(path))


def read_stored(path: Path) -> dict[str, Any]:
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
        stored = parse_yaml(read_file(path, MOST_BYTES).decode("utf-8"))
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
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
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


def _convert_all(value: Any, rule: Schema) -> Any:
    """Give a value, and what is in it, a type that its rule allows; what cannot be stays."""
    types = types_of(rule)
    value = _convert(value, types)
    if value is None and types == ["object"]:
        return {}  # a section whose keys are all commented out
    if isinstance(value, dict):
        named: Schema = rule.get("properties", {})
        others = rule.get("additionalProperties") or {}
        # YAML makes True of a plain `on`, and numbers of numbers
        names = {k: "on" if k is True and "on" in named else k for k in value}
        names |= {k: str(k) for k in value if others}
        return {names[k]: _convert_all(v, named.get(names[k], others)) for k, v in value.items()}
    if isinstance(value, list):
        return [_convert_all(item, rule.get("items", {})) for item in value]
    return value


def _convert(value: Any, types: list[str]) -> Any:
    if isinstance(value, str):
        parsed = _parse(value, types)
        return value if "string" in types and isinstance(parsed, str) else parsed
    is_name = "string" in types and not {"integer", "number"} & {*types}
    if isinstance(value, int) and not isinstance(value, bool) and is_name:
        return str(value)  # channel: 1, from: 488
    if isinstance(value, float) and "number" not in types and fits(value, ["number"]):
        return int(value) if "integer" in types and value.is_integer() else value
    return value


def _parse(text: str, types: list[str]) -> Any:
    """Read a command-line string as YAML; keep it as it is where no allowed type comes out."""
    try:
        parsed = parse_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError):  # no such day, thousands of digits
        return text
    is_number = "number" in types or ("integer" in types and "string" not in types)
    if isinstance(parsed, str) and is_number and _EXPONENT.fullmatch(parsed):
        number = float(parsed)
        parsed = int(number) if number.is_integer() else number
    return parsed if fits(parsed, types) else text


def _refuse_impossible_paths(settings: Settings) -> None:
    """Raise for a path that no file system takes."""
    for key in _PATHS:
        path = getattr(settings, key) or ""
        if "\0" in path:
            raise ConfigError(f"config key '{key}' holds a NUL character; remove it.")
        try:
            os.fsencode(path)
        except UnicodeEncodeError as error:
            raise ConfigError(
                f"config key '{key}' holds a character that no file name has; type it again."
            ) from error
        longest = max(len(os.fsencode(part)) for part in path.split("/"))
        if longest > _NAME_BYTES or len(os.fsencode(path)) > _PATH_BYTES:
            raise ConfigError(
                f"config key '{key}' is too long for a path ({len(path)} characters): a name may "
                f"have {_NAME_BYTES} bytes, a path {_PATH_BYTES}. Choose a shorter one."
            )


def _check_methods(settings: Settings) -> None:
    scale = settings.scale
    if scale.default not in (*scale.methods, "manual", "control", None):
        raise ConfigError(
            f"config key 'scale.default' is '{scale.default}' but 'scale.methods' holds only "
            f"{', '.join(scale.methods)}; add it there or choose one of those."
        )
    named = () if scale.write in (None, "all") else scale.write
    missing = {*(named or ())} - {*scale.methods, "manual"}
    if missing:
        raise ConfigError(
            f"config key 'scale.write' names {', '.join(sorted(missing))} but 'scale.methods' "
            f"holds only {', '.join(scale.methods)}; add it there or remove it here."
        )


@dataclass(frozen=True, slots=True)
class Variant:
    """One combination of swept values; ``name`` is its directory, '' where nothing is swept."""

    name: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)


_ONLY = (Variant(),)


def override(settings: Settings, overrides: Mapping[str, Any]) -> Settings:
    """Return ``settings`` with dotted names such as ``scale.percentile`` replaced."""
    changed: dict[str, Any] = {}
    for name, value in overrides.items():
        key, _, rest = name.partition(".")
        given = tuple(value) if isinstance(value, list) else value
        section = changed.get(key, getattr(settings, key))
        changed[key] = msgspec.structs.replace(section, **{rest: given}) if rest else given
    return msgspec.structs.replace(settings, **changed)


def variants(settings: Settings, level: str) -> tuple[Variant, ...]:
    """Return the variants on a level of `SECTIONS`, in the order of their values."""
    section = SECTIONS[level]
    swept = {k: v for k, v in settings.sweep.items() if k.split(".")[0] == section}
    if not swept:
        return _ONLY
    combinations = itertools.product(*swept.values())
    return tuple(
        Variant(
            "_".join(_name_value(k, v) for k, v in zip(swept, values, strict=True)),
            dict(zip(swept, values, strict=True)),
        )
        for values in combinations
    )


def _name_value(name: str, value: Any) -> str:
    """Name one swept value, for example ``percentile-40`` or ``methods-moffat+manual``."""
    key = name.rpartition(".")[2]
    text = "+".join(str(v) for v in value) if isinstance(value, list) else str(value)
    return f"{key}-{re.sub(r'[^A-Za-z0-9.+]', '', text)}"


def _keys(name: str, rule: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the dotted names of the keys of a section with their rules; of a key, its own."""
    if "properties" not in rule:
        yield name, rule
    for key, inner in rule.get("properties", {}).items():
        yield f"{name}.{key}", inner


def _sweepable(sweep: Any, rules: Schema) -> dict[str, Schema]:
    """Return the rules of all keys that can be swept, after those that are were checked."""
    sections = SECTIONS.values()
    pairs = (pair for name in sections for pair in _keys(name, rules["properties"][name]))
    sweepable = {name: rule for name, rule in pairs if name not in _NOT_SWEPT}
    for name in sweep if isinstance(sweep, dict) else ():
        if name in _NOT_SWEPT:
            raise ConfigError(
                f"config key 'sweep.{name}' cannot be swept, since {_NOT_SWEPT[name]}; compare two "
                "runs with other results directories instead."
            )
        if name not in sweepable:
            raise ConfigError(
                f"config key 'sweep.{name}' cannot be swept; {suggest(name, sweepable)}"
            )
    return sweepable


def _check_sweep(settings: Settings, sweepable: Mapping[str, Schema]) -> None:
    """Check each swept value like a value of the configuration itself, and give it its type."""
    count = math.prod(len(values) for values in settings.sweep.values())
    if count > MOST_VARIANTS:
        raise ConfigError(
            f"config key 'sweep' makes {count} variants of each pair, but at most {MOST_VARIANTS} "
            "are accepted: sweep fewer values or keys at once."
        )
    for name, values in settings.sweep.items():
        read = [_convert_all(value, sweepable[name]) for value in values]
        different = {tuple(value) if isinstance(value, list) else value for value in read}
        if len(different) < len(read):
            raise ConfigError(f"config key 'sweep.{name}' holds a value twice: {read}.")
        settings.sweep[name] = read
        for value in read:
            key, _, rest = name.partition(".")
            plain = {key: {rest: value} if rest else value}
            from_json(Settings, plain, "sweep")
            _check_methods(override(settings, {name: value}))
    for level in SECTIONS:
        names = Counter(variant.name for variant in variants(settings, level))
        (twice, count), *_ = names.most_common(1)
        if count > 1:
            raise ConfigError(
                f"config key 'sweep' has two variants whose directories would both be '{twice}': "
                "give values that differ in letters or digits."
            )
