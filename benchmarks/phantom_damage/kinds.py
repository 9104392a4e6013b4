"""Kinds of damage, read from text such as ``lost:250,blur:500:1.5``, and phantoms with some."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from typing import Any

from unglow.core.errors import ConfigError
from unglow.phantom.slide_spec import SlideSpec
from unglow.phantom.spec import PhantomSpec


@dataclass(frozen=True)
class Kind:
    """What may be said of one kind of damage.

    Attributes
    ----------
    size
        Smallest and largest size in px; None for a fault of the entire image.
    strength
        Smallest, largest and default strength; None if there is none to choose. A fault of the
        entire image has its strength in the place of the size, and no default.
    width
        Smallest, largest and default width of cells, px; None for what has none.
    whole
        Whether sizes (of a fault of the entire image: strengths) are integers.
    """

    size: tuple[float, float] | None = None
    strength: tuple[float, float, float] | None = None
    width: tuple[float, float, float] | None = None
    whole: bool = False


_SIZES = (3.0, 20_000.0)
KINDS: dict[str, Kind] = {
    "lost": Kind(_SIZES),
    "debris": Kind(_SIZES, (0.5, 50.0, 3.0)),
    "film": Kind(_SIZES, (0.01, 5.0, 0.15)),
    "fold": Kind(_SIZES),
    "blur": Kind(_SIZES, (0.2, 20.0, 1.5)),
    "bleach": Kind(_SIZES, (0.01, 1.0, 0.3)),
    "moved": Kind(_SIZES, (0.1, 500.0, 8.0)),
    "tile": Kind(_SIZES, whole=True),
    "cells": Kind(_SIZES, (20.0, 1e6, 300.0), (1.0, 100.0, 8.0)),
    "dust": Kind((2.0, 500.0), (1.0, 1000.0, 12.0)),
    "dark_clip": Kind(None, (0.5, 255.0, math.nan)),
    "coarse": Kind(None, (2.0, 128.0, math.nan), whole=True),
    "gamma": Kind(None, (0.1, 10.0, math.nan)),
    "swap": Kind(),
    "half_moved": Kind(None, (-2000.0, 2000.0, math.nan)),
}
_FORM = re.compile(r"([a-z_]+)((?::[^:@]*)*)(?:@(\d+))?")


@dataclass(frozen=True)
class Damage:
    """One damage that was asked for.

    Attributes
    ----------
    kind
        A key of `KINDS`.
    size_px
        Radius of the place, width of a fold or side of a tile, px; None for an entire image.
    strength
        What it means depends on the kind; 1.0 where there is none to choose.
    cycle
        Of a slide, from 1; None if it was not said.
    text
        As it was written, for messages.
    width_px
        Of cells, at half of their height (FWHM).
    """

    kind: str
    size_px: float | None
    strength: float
    cycle: int | None
    text: str
    width_px: float = 0.0


def parse_damage(text: str) -> tuple[Damage, ...]:
    """Return the damages of a list ``kind:size[:strength[:width]][@cycle],...``, in its order.

    Raises
    ------
    ConfigError
        If a kind is unknown or a number is missing, surplus or out of range.
    """
    return tuple(_parse_one(one.strip()) for one in text.split(",")) if text.strip() else ()


def _parse_one(text: str) -> Damage:
    match = _FORM.fullmatch(text)
    if match is None:
        raise ConfigError(f"damage {text!r} is not kind:size[:strength].")
    name, numbers = match[1], match[2].split(":")[1:]
    kind = KINDS.get(name)
    if kind is None:
        raise ConfigError(f"damage {text!r} has an unknown kind; known are {', '.join(KINDS)}.")
    most = sum(one is not None for one in (kind.size, kind.strength, kind.width))
    least = min(most, 1)
    if not least <= len(numbers) <= most:
        form = _describe_form(name)
        raise ConfigError(f"damage {text!r} has {len(numbers)} numbers, but {form} is needed.")
    size = None
    if kind.size is not None:
        size = _parse_number(text, "size", numbers.pop(0), kind.size, whole=kind.whole)
    strength, width = 1.0, 0.0
    if kind.strength is not None:
        low, high, strength = kind.strength
        if numbers:
            whole = name == "dust" or (size is None and kind.whole)
            strength = _parse_number(text, "strength", numbers.pop(0), (low, high), whole=whole)
    if kind.width is not None:
        low, high, width = kind.width
        if numbers:
            width = _parse_number(text, "width", numbers[0], (low, high), whole=False)
    return Damage(name, size, strength, int(match[3]) if match[3] else None, text, width)


def _describe_form(name: str) -> str:
    kind = KINDS[name]
    if kind.size is None:
        return f"{name}:value" if kind.strength else name
    more = "[:strength[:width]]" if kind.width else "[:strength]" if kind.strength else ""
    return f"{name}:size{more}"


def _parse_number(
    text: str, label: str, value: str, limits: tuple[float, float], *, whole: bool
) -> float:
    low, high = limits
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not low <= number <= high or (whole and number != int(number)):
        form = "a whole number" if whole else "a number"
        raise ConfigError(
            f"damage {text!r} has the {label} {value!r}, but {form} from {low:g} to "
            f"{high:g} is needed."
        )
    return number


class Damaged:
    """A phantom or slide with the fields ``damage`` and ``damage_seed``."""

    damage: str
    damage_seed: int

    @property
    def damages(self) -> tuple[Damage, ...]:
        """The places and faults of `damage`, in its order."""
        return parse_damage(self.damage)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types; those of damage only if there is some."""
        values = asdict(self)  # type: ignore[call-overload]
        if not self.damages:
            del values["damage"], values["damage_seed"]
        return dict(values)

    def check_seed(self) -> None:
        """Raise ConfigError unless the seed is a whole number of at least 0."""
        if not isinstance(self.damage_seed, int) or not 0 <= self.damage_seed < 2**63:
            raise ConfigError(f"--damage-seed is {self.damage_seed}, but is at least 0.")


@dataclass(frozen=True)
class DamagedPair(Damaged, PhantomSpec):
    """A phantom pair with damage.

    Attributes
    ----------
    damage
        What is spoilt in post, ``kind:size[:strength],...`` (see `damages`).
    damage_seed
        Another one has places elsewhere and of other forms in the same scene.
    """

    damage: str = ""
    damage_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_seed()
        for one in self.damages:
            if one.cycle is not None:
                raise ConfigError(f"damage {one.text!r} names a cycle, but a pair has none.")


@dataclass(frozen=True)
class DamagedSlide(Damaged, SlideSpec):
    """A slide with damage.

    Attributes
    ----------
    damage, damage_seed
        What is spoilt, ``kind:size[:strength][@cycle],...``: in the last cycle unless one is named
        (dust without one is in all); another seed has places elsewhere.
    """

    damage: str = ""
    damage_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_seed()
        for one in self.damages:
            if one.kind in ("swap", "cells"):
                raise ConfigError(f"damage {one.text!r} is one of pairs, and not of slides.")
            if one.cycle is not None and not 1 <= one.cycle <= self.cycles:
                raise ConfigError(
                    f"damage {one.text!r} names a cycle, but the slide has 1 to {self.cycles}."
                )
