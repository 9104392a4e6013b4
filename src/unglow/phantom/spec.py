"""What a phantom pair is to be: every number that a user may choose, checked."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from unglow.core.errors import ConfigError

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
    "blur_pre_px": (0.0, 5.0),
    "blur_post_px": (0.0, 5.0),
    "pixel_size_um": (1e-3, 1e4),
    "pre_pixel_size_um": (1e-3, 1e4),
    "seed": (0, 2**63 - 1),
}


@dataclass(frozen=True)
class PhantomSpec:
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
    blur_pre_px, blur_post_px
        How far each image is out of focus: standard deviation of a Gaussian, px, that spots and
        background go through; truth gives peaks and widths without it.
    pixel_size_um, pre_pixel_size_um
        Pixel size written into the header of post, and into that of pre, micrometres;
        ``pre_pixel_size_um=None`` is what a microscope writes, ``pixel_size_um / scale``. Any other
        is a wrong header.
    seed
        Everything random follows from it.

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
    blur_pre_px: float = 0.0
    blur_post_px: float = 0.0
    pixel_size_um: float = 0.5
    pre_pixel_size_um: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _check_shape("shape", self.shape)
        if self.pre_shape is not None:
            _check_shape("pre_shape", self.pre_shape)
        self._check_numbers()
        shift_ok = len(self.shift_px) == 2 and all(_is_number(v) for v in self.shift_px)
        if not shift_ok or max(abs(v) for v in self.shift_px) > LARGEST_SIDE:
            raise ConfigError(
                f"shift_px is {self.shift_px!r}, but must be two numbers (x, y) in px."
            )
        if self.dtype not in ("uint8", "uint16"):
            raise ConfigError(f"dtype is {self.dtype!r}, but must be uint8 or uint16.")
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
            if name == "pre_pixel_size_um" and value is None:
                continue
            if not _is_number(value) or not low <= value <= high:
                raise ConfigError(
                    f"{name} is {value!r}, but must be a number from {low:g} to {high:g}."
                )
        if not isinstance(self.seed, int):
            raise ConfigError(f"seed is {self.seed!r}, but must be a whole number.")

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
