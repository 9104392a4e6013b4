"""Multiplexed slides whose maps, gains and signal are known: many channels, in cycles.

The tissue is one for all cycles and lives in the frame of the first, which images autofluorescence
before anything is stained. Later cycles are moved by known maps; each of their markers shows the
autofluorescence of its filter times a gain near the ratio of exposure times, and cells of its own.
"""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import ConfigError
from unglow.core.files import write_text
from unglow.core.kernels import kernel
from unglow.core.windows import Window, bounded_map, grid
from unglow.io.tiff.ome_tiff_sink import OmeTiffSink
from unglow.io.tiff.ome_xml import OmeChannel
from unglow.phantom.camera import Camera
from unglow.phantom.catalogue import Spots
from unglow.phantom.spots import add_spots, boxes
from unglow.phantom.texture import add_noise, derive_key, generator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

_LEVEL = 700.0
"""Mean autofluorescence at the reference exposure, counts."""
_OCTAVES = ((1600.0, 0.25), (210.0, 0.3), (38.0, 0.35), (9.0, 0.35))
"""Size of the features of the tissue, px, and how much brighter or darker they are."""
_SPACING = 42
"""Mean distance of nuclei, px."""
_POSITIVE = 0.25
"""The part of the cells that shows a marker."""
_BLOCK = 512
_REFERENCE_MS = 100.0


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
    distinct
        Cycles from this one on repeat the pixels of the second to this one, so that files are
        small; 0 for none.
    shift_px, rotation_deg
        What each cycle is moved by against the one before, (x, y) px, and about the middle.
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
    distinct: int = 0
    shift_px: tuple[float, float] = (3.4, -2.1)
    rotation_deg: float = 0.03
    gain_error: float = -0.1
    offset: float = 130.0
    offset_background: float = 100.0
    electrons_per_count: float = 1.0
    read_noise: float = 3.0
    pixel_size_um: float = 0.325
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.cycles >= 1 or not 3 * self.cycles - 1 <= self.channels <= 1000:
            raise ConfigError(
                f"phantom: --channels is {self.channels} in {self.cycles} cycles, but each cycle "
                "needs at least nuclei, and a background or a marker: give more channels."
            )
        if min(self.shape) < 64:
            raise ConfigError("phantom: a slide has at least 64x64 px; give a larger --size.")
        if self.distinct and not 2 <= self.distinct <= self.cycles:
            raise ConfigError("phantom: --distinct-cycles is at least 2 and at most --cycles.")

    @property
    def per_cycle(self) -> int:
        """Channels of every cycle but the last, which may have fewer."""
        return -(-self.channels // self.cycles)


@dataclass(frozen=True)
class SlideChannel:
    """One channel: post = gain * background + offset + cells; ``plane`` is whose pixels it has."""

    name: str
    cycle: int
    exposure_ms: float
    plane: int
    background: str | None = None
    gain: float = 1.0
    offset: float = 0.0

    @property
    def nuclear(self) -> bool:
        """Whether it shows nuclei."""
        return self.name.startswith("DNA")


def channels_of(spec: SlideSpec) -> list[SlideChannel]:
    """Return the channels of a slide in their order."""
    found: list[SlideChannel] = []
    for number in range(spec.channels):
        cycle, place = divmod(number, spec.per_cycle)
        plane = number
        if spec.distinct and cycle >= spec.distinct:
            plane = (1 + (cycle - 1) % (spec.distinct - 1)) * spec.per_cycle + place
        found.append(_channel(spec, cycle, place, plane, found))
    return found


def _channel(
    spec: SlideSpec, cycle: int, place: int, plane: int, before: list[SlideChannel]
) -> SlideChannel:
    if place == 0:
        return SlideChannel(f"DNA_{cycle + 1}", cycle + 1, 20.0, plane)
    if cycle == 0 and (place == 1 or spec.cycles > 1):
        return SlideChannel(f"AF_{place}", 1, _REFERENCE_MS, plane)
    background = f"AF_{place if spec.cycles > 1 else 1}"
    marker = sum(one.background is not None for one in before) + 1
    own = marker if plane == len(before) else int(before[plane].name[1:])
    ratio = (1.0, 1.5, 2.0, 0.75)[own % 4]
    gain = round(ratio * (1.0 + spec.gain_error), 6)
    return SlideChannel(
        f"M{marker:02d}",
        cycle + 1,
        _REFERENCE_MS * ratio,
        plane,
        background,
        gain,
        round(spec.offset - gain * spec.offset_background, 6),
    )


def map_of(spec: SlideSpec, cycle: int) -> NDArray[np.float64]:
    """Return the matrix (3, 3) from (x, y, 1) of a cycle, from 1, to those of the first."""
    if spec.distinct and cycle > spec.distinct:
        cycle = 2 + (cycle - 2) % (spec.distinct - 1)
    times = cycle - 1
    angle = math.radians(spec.rotation_deg) * times
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    middle = np.array([(spec.shape[1] - 1) / 2.0, (spec.shape[0] - 1) / 2.0])
    matrix = np.eye(3)
    matrix[:2, :2] = turn
    matrix[:2, 2] = middle + np.array(spec.shift_px) * times - turn @ middle
    return matrix


class SlideRenderer:
    """Renders any window of any channel; pixels do not depend on the window. Thread-safe."""

    def __init__(self, spec: SlideSpec) -> None:
        self.spec = spec
        self.channels = channels_of(spec)
        self._keys = [derive_key(spec.seed, 11, n) for n in range(len(_OCTAVES))]
        self._camera = Camera(spec.electrons_per_count, spec.read_noise, 1, np.dtype(np.uint16))

    def autofluorescence(self, cycle: int, window: Window) -> NDArray[np.float64]:
        """Return what all channels share at a window of a cycle, (rows, cols) counts at 100 ms."""
        x, y = (one.ravel() for one in self._coordinates(cycle, window))
        out = np.ones(x.size)
        for key, (spacing, amplitude) in zip(self._keys, _OCTAVES, strict=True):
            add_noise(x, y, spacing, key, amplitude, out)
        np.clip(out, 0.05, None, out=out)
        rows, cols = self.spec.shape
        inside = np.empty(x.size)
        half = 0.47 * cols, 0.47 * rows
        kernel("oval")(x, y, x.size, (cols - 1) / 2, (rows - 1) / 2, *half, inside)
        out *= np.clip(inside / 8.0, 0.0, 1.0) * _LEVEL
        return out.reshape(window.shape)

    def signal(self, channel: SlideChannel, window: Window) -> NDArray[np.float64]:
        """Return what is a channel's own at a window, (rows, cols) counts: nuclei, or cells."""
        out = np.zeros(window.shape)
        if not channel.nuclear and channel.background is None:
            return out
        x, y = self._coordinates(channel.cycle, window)
        for spots in self._cells(channel, x, y):
            matrix = np.linalg.inv(map_of(self.spec, channel.cycle))
            centres = spots.xy @ matrix[:2, :2].T + matrix[:2, 2]
            add_spots(spots, boxes(spots, centres, 1.001, self.spec.shape), window, x, y, out)
        return out

    def pixels(
        self, channel: SlideChannel, window: Window, shared: NDArray[np.float64]
    ) -> NDArray[Any]:
        """Return the recorded pixels of a window; ``shared`` is `autofluorescence` there."""
        light = self.signal(channel, window)
        light += shared * (0.3 if channel.nuclear else channel.gain)
        offset = self.spec.offset_background if channel.cycle == 1 else self.spec.offset
        if channel.background is not None:
            offset = self.spec.offset
        key = derive_key(self.spec.seed, 12, channel.plane)
        return self._camera.expose(light, offset, window, key)

    def _cells(
        self, channel: SlideChannel, x: NDArray[np.float64], y: NDArray[np.float64]
    ) -> Iterator[Spots]:
        """Yield the cells near a window by squares of the tissue, each drawn from its own place."""
        side = 8 * _SPACING
        reach = 60.0
        low = [int((one.min() - reach) // side) for one in (x, y)]
        high = [int((one.max() + reach) // side) for one in (x, y)]
        for row in range(low[1], high[1] + 1):
            for col in range(low[0], high[0] + 1):
                yield self._square(channel, row, col, side)

    def _square(self, channel: SlideChannel, row: int, col: int, side: int) -> Spots:
        place = (row + 1000) * 1_000_003 + col + 1000
        u = generator(self.spec.seed, place).random((5, 64))
        cx, cy = (col + u[0]) * side, (row + u[1]) * side
        sigma = 4.0 + 2.5 * u[2]
        peak = 1500.0 + 2500.0 * u[3]
        keep = self._inside(cx, cy)
        if not channel.nuclear:
            shown = generator(self.spec.seed, place + channel.plane * 2_000_000_011).random(64)
            keep &= shown < _POSITIVE
            sigma, peak = 1.5 * sigma, 300.0 + 3000.0 * shown / _POSITIVE
        spots = Spots(cx, cy, peak, sigma, sigma * (1.0 + 0.5 * u[4]), np.pi * u[4])
        return spots.select(keep)

    def _inside(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.bool_]:
        rows, cols = self.spec.shape
        height = np.empty(x.size)
        half = 0.47 * cols, 0.47 * rows
        kernel("oval")(x, y, x.size, (cols - 1) / 2, (rows - 1) / 2, *half, height)
        return np.asarray(height > 12.0)

    def _coordinates(
        self, cycle: int, window: Window
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return x and y in the first cycle of the pixels of a window, (rows, cols) each."""
        matrix = map_of(self.spec, cycle)
        cols = np.arange(window.x0, window.x1, dtype=np.float64)[None, :]
        rows = np.arange(window.y0, window.y1, dtype=np.float64)[:, None]
        x = matrix[0, 0] * cols + (matrix[0, 1] * rows + matrix[0, 2])
        y = matrix[1, 0] * cols + (matrix[1, 1] * rows + matrix[1, 2])
        return x, y


def make_slide(spec: SlideSpec, raw: Path, slide: str, *, workers: int = 1) -> SlideRenderer:
    """Write ``<raw>/<slide>/<slide>.ome.tif``, ``markers.csv`` and ``<slide>_truth.json``.

    Nothing full-size is held. The same specification gives the same bytes.
    """
    renderer = SlideRenderer(spec)
    folder = raw / slide
    folder.mkdir(parents=True, exist_ok=True)
    channels = renderer.channels
    with OmeTiffSink(
        folder / f"{slide}.ome.tif",
        spec.shape,
        "uint16",
        [OmeChannel(one.name, exposure_ms=one.exposure_ms) for one in channels],
        name=slide,
        pixel_size_um=(spec.pixel_size_um, spec.pixel_size_um),
        workers=workers,
        planes=[one.plane for one in channels],
    ) as sink:
        for window in grid(spec.shape, (sink.window, sink.window)):
            _write_window(renderer, sink, window, workers)
    write_text(folder / "markers.csv", _markers(channels))
    write_text(folder / f"{slide}_truth.json", json.dumps(_truth(renderer, slide), indent=1) + "\n")
    return renderer


def _write_window(renderer: SlideRenderer, sink: OmeTiffSink, window: Window, workers: int) -> None:
    """Render and write a window of all channels, cycle by cycle."""
    rendered = [one for n, one in enumerate(renderer.channels) if one.plane == n]
    for cycle in sorted({one.cycle for one in rendered}):
        here = [one for one in rendered if one.cycle == cycle]
        planes = np.empty((len(here), *window.shape), np.uint16)

        def fill(part: Window, here: list[SlideChannel] = here, planes: Any = planes) -> None:
            shared = renderer.autofluorescence(here[0].cycle, part)
            target = (slice(None), *part.shift(-window.y0, -window.x0).slices)
            planes[target] = [renderer.pixels(one, part, shared) for one in here]

        parts = (part.shift(window.y0, window.x0) for part in grid(window.shape, (_BLOCK, _BLOCK)))
        for _ in bounded_map(fill, parts, workers):
            pass
        pairs = zip(here, planes, strict=True)
        for _ in bounded_map(lambda one: sink.write(one[0].plane, window, one[1]), pairs, workers):
            pass


def _markers(channels: list[SlideChannel]) -> str:
    """Return the table that MCMICRO and Backsub read."""
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    names = ("channel_number", "cycle_number", "marker_name", "background", "exposure", "remove")
    table.writerow(names)
    for number, one in enumerate(channels, 1):
        removed = "True" if one.name.startswith("AF") else ""
        table.writerow((number, one.cycle, one.name, one.background, one.exposure_ms, removed))
    return stream.getvalue()


def _truth(renderer: SlideRenderer, slide: str) -> dict[str, Any]:
    cycles = range(2, renderer.spec.cycles + 1)
    return {
        "version": 1,
        "slide": slide,
        "convention": "marker = gain * background + offset + its own signal, in counts; maps are "
        "3x3, (x, y, 1) of the marker's cycle to those of the background's, pixel centres at "
        "integers",
        "channels": [asdict(one) for one in renderer.channels],
        "maps": {f"{n}-1": map_of(renderer.spec, n).tolist() for n in cycles},
        "spec": asdict(renderer.spec),
    }
