"""Multiplexed slides of any size, number of channels, pixel type and file layout, made quickly.

Two cycles of one section, the second moved by whole px: backgrounds in the first, a marker for each
in the second, nuclei in both. As with the pairs of `phantoms.py`, there is no exact truth.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tifffile
import zarr
from phantoms import Section

from unglow.core.windows import Window, grid, map_bounded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Image = NDArray[Any]

SAMPLE = "slide"
LAYOUTS = ("tiles", "samples", "strips", "zarr")
DTYPES = ("uint8", "uint16", "float32")
_BLOCK, _TILE, _SAMPLES_TILE, _ROWS, _CHUNK = 1024, 512, 256, 64, 1024
# The second cycle against the first, rows and columns; and a prime, so that noise tiles no channel
# like another.
_MOVED, _NOISE_PX = (2, -3), 509
_HEAD = "channel_number,cycle_number,marker_name,background,exposure,remove"


@dataclass(frozen=True, slots=True)
class SlideCase:
    """One slide to measure.

    ``tiles`` and ``strips`` store channels apart, ``samples`` stores all channels of a px together,
    all Deflate; ``zarr`` is an OME-Zarr image with a channel in each chunk.
    """

    rows: int
    cols: int
    channels: int
    layout: str
    dtype: str

    @property
    def name(self) -> str:
        """Name of its directories."""
        size = str(self.rows) if self.rows == self.cols else f"{self.rows}x{self.cols}"
        return f"{size}-{self.channels}-{self.layout}-{self.dtype}"


def make_slide(case: SlideCase, cache: Path, workers: int) -> Path:
    """Return the raw directory of a case, made if it is not in the cache yet."""
    target = cache / f"{case.name}-slide"
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=cache) as making:
        folder = Path(making) / "raw" / SAMPLE
        folder.mkdir(parents=True)
        (folder / "markers.csv").write_text(_markers(case), encoding="utf-8")
        _write(folder, _Planes(case, workers), case)
        folder.parent.replace(target)
    return target


def _markers(case: SlideCase) -> str:
    """Return the table: nuclei and backgrounds, then nuclei and the marker of each background."""
    half = case.channels // 2
    rows = [f"1,1,DNA_1,,20,{'' if half > 1 else 'True'}"]
    rows += [f"{n + 1},1,AF_{n},,100,True" for n in range(1, half)]
    rows += [f"{half + 1},2,DNA_2,,20,"]
    for n in range(1, case.channels - half):
        rows.append(f"{half + n + 1},2,M_{n},AF_{1 + (n - 1) % (half - 1)},100,")
    return "\n".join([_HEAD, *rows, ""])


class _Planes:
    """The pixels of a slide, channel by channel, of which both cycles are held as 8 bits."""

    def __init__(self, case: SlideCase, workers: int) -> None:
        self._case = case
        shape = case.rows, case.cols
        section = Section(shape, shape)
        self._cycles = [np.empty(shape, np.uint8) for _ in range(2)]
        self._noise = np.random.default_rng(1).integers(0, 64, (_NOISE_PX, _NOISE_PX), np.uint8)

        def fill(window: Window) -> None:
            for cycle, seen in enumerate(self._cycles):
                rows, cols = (cycle * n for n in _MOVED)
                seen[window.slices] = section.post(window.shift(rows, cols))

        for _ in map_bounded(fill, grid(shape, (_BLOCK, _BLOCK)), workers):
            pass

    def of(self, channel: int, rows: slice) -> Image:
        """Return rows of a channel, in the type of the case."""
        seen = self._cycles[channel >= self._case.channels // 2][rows]
        y = (np.arange(rows.start, rows.start + len(seen)) + 31 * channel) % _NOISE_PX
        x = (np.arange(seen.shape[1]) + 17 * channel) % _NOISE_PX
        noise = self._noise[y[:, None], x[None]]
        if self._case.dtype == "uint8":
            return np.minimum(seen, 250) + (noise >> 4)
        counts = seen.astype(np.uint16) * 64 + noise
        return counts if self._case.dtype == "uint16" else counts.astype(np.float32) * 0.37


def _write(folder: Path, planes: _Planes, case: SlideCase) -> None:
    if case.layout == "zarr":
        _write_zarr(folder / f"{SAMPLE}.ome.zarr", planes, case)
        return
    options: dict[str, Any] = {"compression": "zlib", "compressionargs": {"level": 1}}
    if case.layout == "samples":
        data: Any = _sample_tiles(planes, case)
        options |= {"tile": (_SAMPLES_TILE, _SAMPLES_TILE), "planarconfig": "contig"}
        options |= {"shape": (case.rows, case.cols, case.channels), "dtype": case.dtype}
    else:
        every = slice(0, case.rows)
        data = np.stack([planes.of(channel, every) for channel in range(case.channels)])
        options["metadata"] = {"axes": "CYX"}
        apart = {"tile": (_TILE, _TILE)} if case.layout == "tiles" else {"rowsperstrip": _ROWS}
        options |= apart
    with tifffile.TiffWriter(folder / f"{SAMPLE}.ome.tif", bigtiff=True) as tif:
        tif.write(data, photometric="minisblack", **options)


def _sample_tiles(planes: _Planes, case: SlideCase) -> Iterator[Image]:
    """Yield tiles of all channels, (side, side, channels), row by row."""
    side = _SAMPLES_TILE
    for top in range(0, case.rows, side):
        rows = slice(top, min(top + side, case.rows))
        band = np.stack([planes.of(n, rows) for n in range(case.channels)], axis=-1)
        for left in range(0, case.cols, side):
            tile = np.zeros((side, side, case.channels), case.dtype)
            part = band[:, left : left + side]
            tile[: part.shape[0], : part.shape[1]] = part
            yield tile


def _write_zarr(path: Path, planes: _Planes, case: SlideCase) -> None:
    group = zarr.open_group(str(path), mode="w", zarr_format=3)
    array: Any = group.create_array(
        "0",
        shape=(case.channels, case.rows, case.cols),
        chunks=(1, min(_CHUNK, case.rows), min(_CHUNK, case.cols)),
        dtype=case.dtype,
    )
    for channel in range(case.channels):
        array[channel] = planes.of(channel, slice(0, case.rows))
    axes = [{"name": "c", "type": "channel"}, *({"name": n, "type": "space"} for n in "yx")]
    scale = [{"type": "scale", "scale": [1.0, 1.0, 1.0]}]
    datasets: list[Any] = [{"path": "0", "coordinateTransformations": scale}]
    group.attrs["ome"] = {
        "version": "0.5",
        "multiscales": [{"axes": axes, "datasets": datasets}],
    }
