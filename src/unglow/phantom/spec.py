"""What a phantom pair is to be: every number that a user may choose, checked.

Damage is read from text such as ``lost:250,blur:500:1.5``.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, fields
from typing import Any

from unglow.core.errors import ConfigError


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
    """A dataclass with the fields ``damage`` and ``damage_seed``, as phantoms and slides have."""

    damage: str

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


LARGEST_SIDE = 200_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RANGES: dict[str, tuple[float, float]] = {
    "rotation_deg": (-180.0, 180.0),
    "scale": (0.1, 10.0),
    "shear": (-0.5, 0.5),
    "deform_px": (0.0, 200.0),
    "deform_wavelength_px": (100.0, 1e6),
    "gain": (0.01, 100.0),
    "offset_pre": (0.0, 100.0),
    "offset_post": (0.0, 100.0),
    "shading": (0.0, 0.9),
    "microbes_per_mpx": (0.0, 5000.0),
    "grains_per_mpx": (0.0, 5000.0),
    "electrons_per_level": (0.0, 1e6),
    "read_noise": (0.0, 50.0),
    "bleed": (0.0, 1.0),
    "blur_pre_px": (0.0, 5.0),
    "blur_post_px": (0.0, 5.0),
    "pixel_size_um": (1e-3, 1e4),
    "pre_pixel_size_um": (1e-3, 1e4),
    "seed": (0, 2**63 - 1),
    "damage_seed": (0, 2**63 - 1),
}
_OPTIONAL = ("pre_pixel_size_um",)


@dataclass(frozen=True)
class PhantomSpec(Damaged):
    """All that defines a phantom pair; two equal specifications give the same pixels.

    A *level* is one grey level of the uint8 image; uint16 images store 64 counts per level.

    Attributes
    ----------
    shape, pre_shape
        (rows, columns) of the post and the pre image; ``pre_shape=None`` makes pre 2 % taller and
        3 % wider than post.
    rotation_deg, scale, shear, shift_px
        Linear part of the map from post to pre, about the image centres: pre - centre_pre =
        scale * R(rotation) * [[1, shear], [0, 1]] * (post - centre_post) + shift; shift is (x, y)
        in px; a positive rotation turns x towards y (clockwise on the screen).
    deform_px, deform_wavelength_px
        Smooth deformation on top: its greatest length in the frame (less if the
        frame is much smaller than a wavelength), and its shortest wavelength, px.
    gain, offset_pre, offset_post
        post = gain * background + offset_post, pre = background + offset_pre; offsets in levels.
    shading
        Greatest relative difference in illumination between the two images.
    microbes_per_mpx, grains_per_mpx
        Spots per 1e6 px of section: microbes in post only, bright grains in both.
    dtype, rgb
        ``uint8`` or ``uint16``; RGB with the signal in green, or one channel.
    electrons_per_level, read_noise
        Camera: photoelectrons per level (0 switches shot noise off), read noise in levels.
    bleed
        Part of the post signal that also shows in the red channel.
    blur_pre_px, blur_post_px
        How far each image is out of focus: standard deviation of a Gaussian, px, that spots and
        background go through; truth gives peaks and widths without it.
    pixel_size_um, pre_pixel_size_um
        Pixel size written into the header of post, and into that of pre, micrometres;
        ``pre_pixel_size_um=None`` is what a microscope writes, ``pixel_size_um / scale``. Any other
        is a wrong header.
    seed
        Everything random follows from it.
    damage
        What is spoilt in post, ``kind:size[:strength],...`` (see `damages`).
    damage_seed
        Another one has places elsewhere and of other forms in the same scene.

    Raises
    ------
    ConfigError
        On construction, if a value is out of range.
    """

    shape: tuple[int, int] = (2048, 2048)
    pre_shape: tuple[int, int] | None = None
    rotation_deg: float = 3.0
    scale: float = 1.02
    shear: float = 0.002
    shift_px: tuple[float, float] = (100.0, 60.0)
    deform_px: float = 0.0
    deform_wavelength_px: float = 1500.0
    gain: float = 1.3
    offset_pre: float = 0.2
    offset_post: float = 0.5
    shading: float = 0.0
    microbes_per_mpx: float = 40.0
    grains_per_mpx: float = 60.0
    dtype: str = "uint8"
    rgb: bool = True
    electrons_per_level: float = 8.0
    read_noise: float = 0.5
    bleed: float = 0.0
    blur_pre_px: float = 0.0
    blur_post_px: float = 0.0
    pixel_size_um: float = 0.5
    pre_pixel_size_um: float | None = None
    seed: int = 0
    damage: str = ""
    damage_seed: int = 0

    def __post_init__(self) -> None:
        _check_shape("shape", self.shape)
        if self.pre_shape is not None:
            _check_shape("pre_shape", self.pre_shape)
        self._check_numbers()
        for one in self.damages:
            if one.cycle is not None:
                raise ConfigError(f"damage {one.text!r} names a cycle, but a pair has none.")
        shift_ok = len(self.shift_px) == 2 and all(_is_number(v) for v in self.shift_px)
        if not shift_ok or max(abs(v) for v in self.shift_px) > LARGEST_SIDE:
            raise ConfigError(
                f"shift_px is {self.shift_px!r}, but must be two numbers (x, y) in px."
            )
        if self.dtype not in ("uint8", "uint16"):
            raise ConfigError(f"dtype is {self.dtype!r}, but must be uint8 or uint16.")
        if self.bleed > 0 and not self.rgb:
            raise ConfigError("bleed needs a second channel; switch rgb on or set bleed to 0.")
        # Four waves of up to this amplitude have a gradient below 0.6 together, so that the map
        # does not fold and its fixed point converges.
        if 2.0 * math.pi * self.deform_px / self.deform_wavelength_px > 0.2:
            needed = math.ceil(2.0 * math.pi * self.deform_px / 0.2)
            raise ConfigError(
                f"a deformation of {self.deform_px:g} px needs deform_wavelength_px of at "
                f"least {needed}, but it is {self.deform_wavelength_px:g}."
            )

    def _check_numbers(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if name in _OPTIONAL and value is None:
                continue
            if not _is_number(value) or not low <= value <= high:
                raise ConfigError(
                    f"{name} is {value!r}, but must be a number from {low:g} to {high:g}."
                )
        for name in ("seed", "damage_seed"):
            if not isinstance(getattr(self, name), int):
                raise ConfigError(f"{name} is {getattr(self, name)!r}, but must be a whole number.")

    @property
    def pre_frame(self) -> tuple[int, int]:
        """(rows, columns) of the pre image."""
        if self.pre_shape is not None:
            return self.pre_shape
        rows, cols = self.shape
        return math.ceil(1.02 * rows), math.ceil(1.03 * cols)

    @property
    def pixel_sizes_um(self) -> dict[str, float]:
        """Pixel sizes in the headers of ``pre`` and ``post``, micrometres."""
        pre = self.pre_pixel_size_um
        return {
            "pre": self.pixel_size_um / self.scale if pre is None else pre,
            "post": self.pixel_size_um,
        }

    @property
    def counts_per_level(self) -> int:
        """Stored counts per grey level: 1 for uint8, 64 for uint16."""
        return 64 if self.dtype == "uint16" else 1

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> PhantomSpec:
        """Build from what `to_json` gave; raises ConfigError for an unknown key."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ConfigError(f"unknown setting {unknown[0]!r}.")
        fitting: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
        }
        return cls(**fitting)


def check_names(sample: str, dye: str) -> None:
    """Raise ConfigError unless the names give files that the raw layout can distinguish."""
    for label, name in (("sample", sample), ("dye", dye)):
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{label} {name!r} must be letters, digits, '.', '_' or '-', and begin "
                "with a letter or digit."
            )
        if {"pre", "post"} & set(re.split(r"[._-]", name.lower())):
            raise ConfigError(
                f"{label} {name!r} holds 'pre' or 'post' and would hide which image is "
                "which; choose another name."
            )
    if "_" in dye:
        raise ConfigError(f"dye {dye!r} must not hold '_', which ends the sample's part.")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _check_shape(name: str, shape: tuple[int, int]) -> None:
    whole = len(shape) == 2 and all(isinstance(n, int) for n in shape)
    if not whole or not all(64 <= n <= LARGEST_SIDE for n in shape):
        raise ConfigError(
            f"{name} is {shape!r}, but must be (rows, columns) of 64 to {LARGEST_SIDE} px."
        )
