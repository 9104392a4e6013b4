"""Variants of parameters side by side: their names, and what each one changes.

A sweep over registration parameters adds a directory level below the pair, one over subtraction
parameters another below that: variants share every stage that their parameters do not touch.
"""

from __future__ import annotations

import copy
import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unglow.workflow.schema import Settings

REGISTRATION = "register"
SUBTRACTION = "scale"


@dataclass(frozen=True, slots=True)
class Variant:
    """One combination of swept values; ``name`` is its directory, '' where nothing is swept."""

    name: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)


def with_overrides(settings: Settings, overrides: Mapping[str, Any]) -> Settings:
    """Return a copy of ``settings`` with dotted names such as ``scale.percentile`` replaced."""
    changed = copy.deepcopy(settings)
    for name, value in overrides.items():
        section, key = name.split(".", 1)
        changed[section][key] = value
    return changed


def variants(settings: Settings, section: str) -> tuple[Variant, ...]:
    """Return the variants of `REGISTRATION` or `SUBTRACTION`, in the order of their values."""
    swept = {k: v for k, v in settings["sweep"].items() if k.startswith(f"{section}.")}
    if not swept:
        return (Variant(),)
    combinations = itertools.product(*swept.values())
    return tuple(
        Variant(
            "_".join(_part(k, v) for k, v in zip(swept, values, strict=True)),
            dict(zip(swept, values, strict=True)),
        )
        for values in combinations
    )


def settings_of(settings: Settings, registration: str, subtraction: str) -> Settings:
    """Return the configuration of one variant, given the names of its two levels."""
    for section, name in ((REGISTRATION, registration), (SUBTRACTION, subtraction)):
        chosen = next(v for v in variants(settings, section) if v.name == name)
        settings = with_overrides(settings, chosen.overrides)
    return settings


def _part(name: str, value: Any) -> str:
    """Name one swept value, for example ``percentile-40`` or ``methods-moffat+manual``."""
    key = name.split(".", 1)[1]
    text = "+".join(str(v) for v in value) if isinstance(value, list) else str(value)
    return f"{key}-{re.sub(r'[^A-Za-z0-9.+]', '', text)}"
