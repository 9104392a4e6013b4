"""Variants of parameters side by side: their names, and what each one changes.

A sweep adds a directory level below the pair for each part of the configuration that it is about,
in the order of `SECTIONS`: variants share every stage that their parameters do not touch.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from unglow.core.levels import VARIANT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unglow.workflow.settings import Settings

SECTIONS = dict(zip(VARIANT, ("channel", "register", "scale", "detect"), strict=True))
"""Levels of variants to what is swept for them: a section of the configuration, or a single key."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One combination of swept values; ``name`` is its directory, '' where nothing is swept."""

    name: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)


_ONLY = (Variant(),)


def with_overrides(settings: Settings, overrides: Mapping[str, Any]) -> Settings:
    """Return ``settings`` with dotted names such as ``scale.percentile`` replaced."""
    changed: dict[str, Any] = {}
    for name, value in overrides.items():
        key, _, rest = name.partition(".")
        given = tuple(value) if isinstance(value, list) else value
        section = changed.get(key, getattr(settings, key))
        changed[key] = replace(section, **{rest: given}) if rest else given
    return replace(settings, **changed)


def variants(settings: Settings, level: str) -> tuple[Variant, ...]:
    """Return the variants on a level of `SECTIONS`, in the order of their values."""
    section = SECTIONS[level]
    swept = {k: v for k, v in settings.sweep.items() if k.split(".")[0] == section}
    if not swept:
        return _ONLY
    combinations = itertools.product(*swept.values())
    return tuple(
        Variant(
            "_".join(_part(k, v) for k, v in zip(swept, values, strict=True)),
            dict(zip(swept, values, strict=True)),
        )
        for values in combinations
    )


def _part(name: str, value: Any) -> str:
    """Name one swept value, for example ``percentile-40`` or ``methods-moffat+manual``."""
    key = name.rpartition(".")[2]
    text = "+".join(str(v) for v in value) if isinstance(value, list) else str(value)
    return f"{key}-{re.sub(r'[^A-Za-z0-9.+]', '', text)}"
