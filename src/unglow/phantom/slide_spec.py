"""What a multiplexed slide is to be, its channels and the maps between its cycles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.errors import ConfigError
from unglow.phantom.truth import PhantomMap, draw_waves

if TYPE_CHECKING:
    from unglow.core.arrays import Floats

_REFERENCE_MS = 100.0
_STREAM = 5000


@dataclass(frozen=True)
class SlideSpec:
    """What a slide is like.

    Attributes
    ----------
    shape
        Rows and columns of every channel.
    channels, cycles
        As many channels as there are, spread over the cycles: the first of each cycle shows
        nuclei, others of the first cycle backgrounds, those of later ones markers. In a single
        cycle there is one background.
    shift_px, rotation_deg
        What each cycle is moved by against the one before, (x, y) px, and about the middle.
    scale
        What the first cycle is magnified by against the second, the second against the third...
    deform_px, deform_wavelength_px
        Smooth deformation of each cycle but the first, each one its own: its greatest length.
    fluorophores, bleach_cycles
        1; or 2, each of which falls to 1/e in that many cycles. Then the last cycle shows the
        backgrounds once more, and every marker has two.
    gain_error
        Relative difference of all gains from the ratio of exposure times.
    offset, offset_background
        Camera offsets of markers, and of the first cycle, counts.
    electrons_per_count, read_noise
        Photoelectrons of each count, and noise of reading in counts.
    pixel_size_um, seed
        Of a pixel; of all that is random.
    """

    shape: tuple[int, int] = (2048, 2048)
    channels: int = 8
    cycles: int = 2
    shift_px: tuple[float, float] = (3.4, -2.1)
    rotation_deg: float = 0.03
    scale: float = 1.0
    deform_px: float = 0.0
    deform_wavelength_px: float = 1500.0
    fluorophores: int = 1
    bleach_cycles: tuple[float, float] = (4.0, 40.0)
    gain_error: float = -0.1
    offset: float = 130.0
    offset_background: float = 100.0
    electrons_per_count: float = 1.0
    read_noise: float = 3.0
    pixel_size_um: float = 0.325
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.cycles <= 500 or not 2 <= self.channels <= 1000:
            raise ConfigError("--channels is from 2 to 1000, and --cycles from 1 to 500.")
        if self.channels - (self.cycles - 1) * max(2, self.channels_per_cycle) < 2:
            raise ConfigError(
                f"--channels {self.channels} leaves no nuclei and marker for the last cycle: give "
                f"{2 * self.cycles} or another multiple of --cycles, {self.cycles}."
            )
        if min(self.shape) < 64:
            raise ConfigError("a slide has at least 64x64 px; give a larger --size.")
        if self.fluorophores not in (1, 2) or min(self.bleach_cycles) <= 0:
            raise ConfigError("there are 1 or 2 fluorophores, and cycles are above 0.")
        uneven = self.cycles < 3 or self.channels % self.cycles
        if self.fluorophores == 2 and uneven:
            raise ConfigError(
                "2 fluorophores need 3 cycles or more, with as many "
                "channels in each (--channels a multiple of --cycles)."
            )
        if not 0.2 <= self.scale <= 5 or not 0 <= self.deform_px <= self.deform_wavelength_px / 32:
            raise ConfigError(
                "cycles are magnified by 0.2 to 5, and deformed by at most a 32nd of the "
                "wavelength."
            )

    @property
    def channels_per_cycle(self) -> int:
        """Channels of every cycle but the last, which may have fewer."""
        return -(-self.channels // self.cycles)


@dataclass(frozen=True)
class SlideChannel:
    """One channel: post = gain * background + offset + cells; ``plane`` is its number.

    Of two backgrounds, ``gains`` has theirs, and ``gain`` is that of the autofluorescence.
    """

    name: str
    cycle: int
    exposure_ms: float
    plane: int
    background: str | None = None
    gain: float = 1.0
    offset: float = 0.0
    gains: tuple[float, ...] = ()

    @property
    def nuclear(self) -> bool:
        """Whether it shows nuclei."""
        return self.name.startswith("DNA")


def list_channels(spec: SlideSpec) -> list[SlideChannel]:
    """Return the channels of a slide in their order."""
    found: list[SlideChannel] = []
    for number in range(spec.channels):
        cycle, place = divmod(number, spec.channels_per_cycle)
        found.append(_channel(spec, cycle, place, found))
    return found


def _channel(spec: SlideSpec, cycle: int, place: int, before: list[SlideChannel]) -> SlideChannel:
    plane = len(before)
    if place == 0:
        return SlideChannel(f"DNA_{cycle + 1}", cycle + 1, 20.0, plane)
    if cycle == 0 and (place == 1 or spec.cycles > 1):
        return SlideChannel(f"AF_{place}", 1, _REFERENCE_MS, plane)
    last = spec.fluorophores == 2 and cycle == spec.cycles - 1
    if last:
        return SlideChannel(f"AF_{place}_end", cycle + 1, _REFERENCE_MS, plane)
    background = f"AF_{place if spec.cycles > 1 else 1}"
    marker = sum(one.background is not None for one in before) + 1
    ratio = (1.0, 1.5, 2.0, 0.75)[marker % 4]
    gain = round(ratio * (1.0 + spec.gain_error), 6)
    if spec.fluorophores == 2:
        start, here, end = (
            np.array(compute_brightness(spec, n)) for n in (1, cycle + 1, spec.cycles)
        )
        gains = gain * np.linalg.solve(np.column_stack([start, end]), here)
        offset = spec.offset - gains @ (spec.offset_background, spec.offset)
        both = f"{background};{background}_end"
        about = _REFERENCE_MS * ratio, plane, both, gain, round(float(offset), 6)
        return SlideChannel(f"M{marker:02d}", cycle + 1, *about, tuple(gains.round(9).tolist()))
    return SlideChannel(
        f"M{marker:02d}",
        cycle + 1,
        _REFERENCE_MS * ratio,
        plane,
        background,
        gain,
        round(spec.offset - gain * spec.offset_background, 6),
    )


def make_map(spec: SlideSpec, cycle: int) -> Floats:
    """Return the matrix (3, 3) from (x, y, 1) of a cycle, from 1, to those of the first."""
    times = cycle - 1
    angle = math.radians(spec.rotation_deg) * times
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    middle = np.array([(spec.shape[1] - 1) / 2.0, (spec.shape[0] - 1) / 2.0])
    turn *= spec.scale**times
    matrix = np.eye(3)
    matrix[:2, :2] = turn
    matrix[:2, 2] = middle + np.array(spec.shift_px) * times - turn @ middle
    return matrix


def compute_brightness(spec: SlideSpec, cycle: int) -> tuple[float, ...]:
    """Return how bright each fluorophore still is in a cycle, against the first one."""
    bleaching = spec.bleach_cycles[: spec.fluorophores] if spec.fluorophores > 1 else ()
    return tuple(math.exp(-(cycle - 1) / one) for one in bleaching) or (1.0,)


def phantom_map(spec: SlideSpec, cycle: int) -> PhantomMap:
    """Return the map from the first cycle (post) to another one (pre), deformation included."""
    deform = spec.deform_px if cycle > 1 else 0.0
    about = deform, spec.deform_wavelength_px, spec.seed, _STREAM + cycle
    matrix = np.asarray(np.linalg.inv(make_map(spec, cycle)), dtype=np.float64)
    return PhantomMap(matrix, draw_waves(spec.shape, *about))
