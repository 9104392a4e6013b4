"""Multiplexed slides whose maps, gains and signal are known: many channels, in cycles.

The tissue is one for all cycles and lives in the frame of the first, which images autofluorescence
before anything is stained. Later cycles are moved by known maps; each of their markers shows the
autofluorescence of its filter times a gain near the ratio of exposure times, and cells of its own.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.files import write_text
from unglow.core.kernels import kernel
from unglow.core.windows import Window, grid, map_bounded
from unglow.images.tiff.metadata import OmeChannel
from unglow.images.tiff.tiles import OmeTiffSink
from unglow.phantom.slide_spec import (
    SlideChannel,
    SlideSpec,
    compute_brightness,
    list_channels,
    make_map,
    phantom_map,
)
from unglow.phantom.texture import (
    Camera,
    Spots,
    add_noise,
    add_spots,
    derive_key,
    find_boxes,
    make_generator,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from unglow.core.arrays import Array, Bools, Floats


_LEVEL = 700.0
"""Mean autofluorescence at the reference exposure, counts."""
_OCTAVES = ((1600.0, 0.25), (210.0, 0.3), (38.0, 0.35), (9.0, 0.35))
"""Size of the features of the tissue, px, and how much brighter or darker they are."""
_GRANULES = ((70.0, 0.9), (12.0, 0.7))
"""The same of the second fluorophore: patches and granules."""
_SPACING = 42
"""Mean distance of nuclei, px."""
_POSITIVE = 0.25
"""The part of the cells that shows a marker."""
_BLOCK = 512
_NUCLEAR_GAIN = 0.3
"""Part of the autofluorescence that channels of nuclei show."""


class SlideRenderer:
    """Renders any window of any channel; pixels do not depend on the window. Thread-safe."""

    def __init__(self, spec: SlideSpec) -> None:
        self.spec = spec
        self.channels = list_channels(spec)
        self._keys = [derive_key(spec.seed, 11, n) for n in range(len(_OCTAVES))]
        self._granules = [derive_key(spec.seed, 13, n) for n in range(len(_GRANULES))]
        self.maps = {cycle: phantom_map(spec, cycle) for cycle in range(1, spec.cycles + 1)}
        self._camera = Camera(spec.electrons_per_count, spec.read_noise, 1, np.dtype(np.uint16))

    def autofluorescence(self, cycle: int, window: Window) -> Floats:
        """Return what all channels share at a window of a cycle, (rows, cols) counts at 100 ms."""
        x, y = (one.ravel() for one in self._coordinates(cycle, window))
        return self.render_shared(cycle, x, y).reshape(window.shape)

    def render_shared(self, cycle: int, x: Floats, y: Floats) -> Floats:
        """Return the autofluorescence of a cycle at points of the first cycle, (N,) each."""
        out = np.ones(x.size)
        for key, (spacing, amplitude) in zip(self._keys, _OCTAVES, strict=True):
            add_noise(x, y, spacing, key, amplitude, out)
        np.clip(out, 0.05, None, out=out)
        if self.spec.fluorophores == 2:
            second = np.full(x.size, -0.1)
            for key, (spacing, amplitude) in zip(self._granules, _GRANULES, strict=True):
                add_noise(x, y, spacing, key, amplitude, second)
            bright = compute_brightness(self.spec, cycle)
            out *= bright[0]
            out += bright[1] * np.clip(second, 0.02, None)
        out *= np.clip(self._depth(x, y) / 8.0, 0.0, 1.0) * _LEVEL
        return out

    def signal(self, channel: SlideChannel, window: Window) -> Floats:
        """Return the channel's own signal at a window, (rows, cols) counts: nuclei, or cells."""
        out = np.zeros(window.shape)
        if not channel.nuclear and channel.background is None:
            return out
        x, y = self._coordinates(channel.cycle, window)
        for spots in self.cells(channel, x, y):
            moved = self.maps[channel.cycle]
            areas = find_boxes(
                spots, moved.to_pre(spots.xy), moved.stretch() + 0.001, self.spec.shape
            )
            add_spots(spots, areas, window, x, y, out)
        return out

    def pixels(self, channel: SlideChannel, window: Window, shared: Floats) -> Array:
        """Return the recorded pixels of a window; ``shared`` is `autofluorescence` there."""
        light = self.render_light(channel, window, shared)
        offset = self.spec.offset_background if channel.cycle == 1 else self.spec.offset
        if channel.background is not None:
            offset = self.spec.offset
        key = derive_key(self.spec.seed, 12, channel.plane)
        return self._camera.expose(light, offset, window, key)

    def render_light(self, channel: SlideChannel, window: Window, shared: Floats) -> Floats:
        """Return the light that a window of a channel sends, (rows, cols) counts."""
        light = self.signal(channel, window)
        light += shared * get_gain(channel)
        return light

    def cells(self, channel: SlideChannel, x: Floats, y: Floats) -> Iterator[Spots]:
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
        u = make_generator(self.spec.seed, place).random((5, 64))
        cx, cy = (col + u[0]) * side, (row + u[1]) * side
        sigma = 4.0 + 2.5 * u[2]
        peak = 1500.0 + 2500.0 * u[3]
        keep = self.is_inside(cx, cy)
        if not channel.nuclear:
            shown = make_generator(self.spec.seed, place + channel.plane * 2_000_000_011).random(64)
            keep &= shown < _POSITIVE
            sigma, peak = 1.5 * sigma, 300.0 + 3000.0 * shown / _POSITIVE
        spots = Spots(cx, cy, peak, sigma, sigma * (1.0 + 0.5 * u[4]), np.pi * u[4])
        return spots.select(keep)

    def is_inside(self, x: Floats, y: Floats) -> Bools:
        """Return which points of the first cycle, (N,) each, are tissue, (N,)."""
        return np.asarray(self._depth(x, y) > 12.0)

    def _depth(self, x: Floats, y: Floats) -> Floats:
        """Return roughly the distance of points inside the outline of the tissue, px."""
        rows, cols = self.spec.shape
        depth = np.empty(x.size)
        half = 0.47 * cols, 0.47 * rows
        kernel("oval")(x, y, x.size, (cols - 1) / 2, (rows - 1) / 2, *half, depth)
        return depth

    def _coordinates(self, cycle: int, window: Window) -> tuple[Floats, Floats]:
        """Return x and y in the first cycle of the pixels of a window, (rows, cols) each."""
        cols = np.arange(window.x0, window.x1, dtype=np.float64)[None, :]
        rows = np.arange(window.y0, window.y1, dtype=np.float64)[:, None]
        return self.map_to_first(cycle, cols, rows)

    def map_to_first(self, cycle: int, cols: Floats, rows: Floats) -> tuple[Floats, Floats]:
        """Return x and y in the first cycle of columns and rows of another."""
        matrix = make_map(self.spec, cycle)
        x = matrix[0, 0] * cols + (matrix[0, 1] * rows + matrix[0, 2])
        y = matrix[1, 0] * cols + (matrix[1, 1] * rows + matrix[1, 2])
        u, v = x, y
        for kx, ky, phase, dx, dy in self.maps[cycle].waves:
            wave = np.sin(kx * u + (ky * v + phase))
            x, y = x + dx * wave, y + dy * wave
        return x, y

    def describe(self, slide: str) -> dict[str, Any]:
        """Return the truth of the slide, plain JSON types."""
        cycles = range(2, self.spec.cycles + 1)
        return {
            "version": 1,
            "slide": slide,
            "convention": "marker = gain * background + offset + its own signal, in counts; maps "
            "are 3x3, (x, y, 1) of the marker's cycle to those of the background's, pixel centres "
            "at integers",
            "channels": [asdict(one) for one in self.channels],
            "maps": {f"{n}-1": make_map(self.spec, n).tolist() for n in cycles},
            "deformations": {f"1-{n}": self.maps[n].to_json() for n in cycles},
            "spec": asdict(self.spec),
        }


def get_gain(channel: SlideChannel) -> float:
    """Return the part of the autofluorescence that a channel shows."""
    return _NUCLEAR_GAIN if channel.nuclear else channel.gain


def make_slide(spec: SlideSpec, raw: Path, slide: str, *, workers: int = 1) -> SlideRenderer:
    """Write a slide as `write_slide` does; return its renderer."""
    renderer = SlideRenderer(spec)
    write_slide(renderer, raw, slide, workers=workers)
    return renderer


def write_slide(renderer: SlideRenderer, raw: Path, slide: str, *, workers: int = 1) -> None:
    """Write ``<raw>/<slide>/<slide>.ome.tif``, ``markers.csv`` and ``<slide>_truth.json``.

    Nothing full-size is held. The same specification gives the same bytes.
    """
    spec = renderer.spec
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
    ) as sink:
        for window in grid(spec.shape, (sink.window, sink.window)):
            _write_window(renderer, sink, window, workers)
    write_text(folder / "markers.csv", _markers(channels))
    write_text(
        folder / f"{slide}_truth.json", json.dumps(renderer.describe(slide), indent=1) + "\n"
    )


def _write_window(renderer: SlideRenderer, sink: OmeTiffSink, window: Window, workers: int) -> None:
    """Render and write a window of all channels, cycle by cycle."""
    for cycle in sorted({one.cycle for one in renderer.channels}):
        here = [one for one in renderer.channels if one.cycle == cycle]
        planes = np.empty((len(here), *window.shape), np.uint16)

        def fill(part: Window, here: list[SlideChannel] = here, planes: Any = planes) -> None:
            shared = renderer.autofluorescence(here[0].cycle, part)
            target = (slice(None), *part.shift(-window.y0, -window.x0).slices)
            planes[target] = [renderer.pixels(one, part, shared) for one in here]

        parts = (part.shift(window.y0, window.x0) for part in grid(window.shape, (_BLOCK, _BLOCK)))
        for _ in map_bounded(fill, parts, workers):
            pass
        pairs = zip(here, planes, strict=True)
        for _ in map_bounded(lambda one: sink.write(one[0].plane, window, one[1]), pairs, workers):
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
