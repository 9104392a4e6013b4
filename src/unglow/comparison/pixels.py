"""How far the pixels of two difference images, or corrected slides, lie apart, by windows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from unglow.comparison.finding import Finding
from unglow.core.rounding import number, percent
from unglow.core.windows import Window, grid, map_bounded
from unglow.io.raw_images import open_reader, read_header
from unglow.io.zarr import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.io.ome_zarr import OmeZarrReader
    from unglow.io.tiff import TiffReader
    from unglow.io.zarr import Store

    _Pixels: TypeAlias = "Store | _Channel"

SIDE_PX = 1024
"""Of a window: two of them and their difference are held by each worker, 12 MB."""
SAMPLED = 64
"""Windows that are read of a larger image, unless all are asked for."""
LEAST_SAMPLED = 8
"""Windows of each channel of a slide, however many channels there are."""
ALLOWED = 0.3
"""Of the noise: what adds less than 5 % to it."""
_ALLOWED_EDGE = 0.01
"""Share of px that only one image may have: the edge of the overlap goes with the map."""
_WORKERS = 2
_FOR_NOISE = 1 << 20
"""Values of A that its noise is taken from."""


def compare_pixels(one: Path, other: Path, *, everything: bool = False) -> Finding:
    """Compare two difference stores.

    Parameters
    ----------
    one, other
        Their ``zarr.json``.
    everything
        Whether to read all windows, and not `SAMPLED` ones all over the image.

    Raises
    ------
    StoreError
        One of them is damaged, or not whole.
    """
    a, b = open_store(one.parent), open_store(other.parent)
    name = one.parent.name.split(".")[0]
    if a.digest == b.digest:
        return Finding("pixels", "identical", f"difference by {name} identical")
    if (a.empty is None) != (b.empty is None):
        side = "A" if a.empty is not None else "B"
        return Finding("pixels", "different", f"no difference image in {side}", math.inf)
    if a.empty is not None:
        return Finding("pixels", "equal", "no difference image on either side")
    if a.shape != b.shape:
        return Finding("pixels", "different", "difference images of other sizes", math.inf)
    windows, sampled = _windows(a.shape, None if everything else SAMPLED)
    sums = _Sums.over(a, b, windows)
    noise = sums.noise()
    told = {"rms": sums.rms, "max": sums.most, "max_x": sums.at[0], "max_y": sums.at[1],
            "noise": noise, "on_one_side": sums.share_alone, "read": sums.read}  # fmt: skip
    numbers = {f"{name}_pixels_{key}": value for key, value in told.items()}
    return replace(_finding(f"difference by {name}", sums, noise, sampled), numbers=numbers)


def compare_slides(one: Path, other: Path, *, everything: bool = False) -> Finding:
    """Compare two corrected images of a slide; the finding is that of the worst channel.

    Parameters
    ----------
    one, other
        OME-TIFF files or OME-Zarr folders.
    everything
        Whether to read all windows, and not `SAMPLED` ones of all channels together, or
        `LEAST_SAMPLED` of each.

    Raises
    ------
    InputError
        One of them is damaged.
    """
    headers = read_header(one), read_header(other)
    names = [[channel.name for channel in header.channels] for header in headers]
    abouts = [
        f"{header.shape[1]} x {header.shape[0]} px of {header.dtype}, {', '.join(of_image)}"
        for header, of_image in zip(headers, names, strict=True)
    ]
    if abouts[0] != abouts[1]:
        text = f"{one.name} has {abouts[1]} in place of {abouts[0]}"
        return Finding("pixels", "different", text, math.inf)
    most = max(LEAST_SAMPLED, SAMPLED // len(names[0]))
    windows, sampled = _windows(headers[0].shape, None if everything else most)
    found = []
    with open_reader(headers[0]) as a, open_reader(headers[1]) as b:
        for number, name in enumerate(names[0]):
            sums = _Sums.over(_Channel(a, number), _Channel(b, number), windows)
            noise = sums.noise() if headers[0].dtype[0] == "f" else sums.noise_above_0()
            found.append(_finding(f"{one.name}: {name}", sums, noise, sampled))
    return max(found, key=lambda finding: finding.excess)


def _windows(shape: tuple[int, int], most: int | None) -> tuple[list[Window], bool]:
    """Return all windows, or so many of them evenly spread; and whether they are a sample."""
    windows = list(grid(shape, (SIDE_PX, SIDE_PX)))
    if most is None or len(windows) <= most:
        return windows, False
    return [windows[int(k)] for k in np.linspace(0, len(windows) - 1, most)], True


class _Channel:
    """One channel of an open image, read as float32."""

    def __init__(self, reader: TiffReader | OmeZarrReader, number: int) -> None:
        self._reader, self._number = reader, number

    def read(self, window: Window) -> NDArray[np.float32]:
        (pixels,) = self._reader.read(window, [self._number])
        return np.asarray(pixels).astype(np.float32)


class _Sums:
    """Sums over the difference of two images, in any order of windows."""

    def __init__(self) -> None:
        self.squares = 0.0
        self.most, self.at = 0.0, (0, 0)
        self.count, self.alone, self.read = 0, 0, 0
        self.values: list[NDArray[np.float32]] = []

    @classmethod
    def over(cls, a: _Pixels, b: _Pixels, windows: Sequence[Window]) -> _Sums:
        """Return the sums over windows."""
        sums = cls()
        step = max(1, math.isqrt(sum(w.size for w in windows) // _FOR_NOISE) + 1)
        for part in map_bounded(lambda w: _of_window(a, b, w, step), windows, _WORKERS):
            sums.add(*part)
        return sums

    def add(
        self,
        squares: float,
        most: tuple[float, tuple[int, int]],
        counts: tuple[int, int, int],
        values: NDArray[np.float32],
    ) -> None:
        """Add what `_of_window` returned."""
        self.squares += squares
        if most[0] > self.most:
            self.most, self.at = most
        self.count, self.alone, self.read = (
            n + m for n, m in zip((self.count, self.alone, self.read), counts, strict=True)
        )
        self.values.append(values)

    @property
    def share_alone(self) -> float:
        """Share of px that only one image has."""
        return self.alone / max(self.count + self.alone, 1)

    @property
    def rms(self) -> float:
        """Root mean square of the difference."""
        return math.sqrt(self.squares / self.count) if self.count else 0.0

    def noise(self) -> float:
        """Return the standard deviation of A that its median absolute deviation tells."""
        values = np.concatenate(self.values)
        return 1.4826 * float(np.median(np.abs(values - np.median(values)))) if len(values) else 0.0

    def noise_above_0(self) -> float:
        """Return the same where what was below 0 is cut off; at least one level of integers."""
        values = np.concatenate(self.values)
        above = values[values > 0]
        return max(1.0, 1.4826 * float(np.median(above))) if len(above) else 1.0


def _of_window(a: _Pixels, b: _Pixels, window: Window, step: int) -> tuple[Any, ...]:
    of_a, of_b = a.read(window), b.read(window)
    values = of_a[::step, ::step]
    values = values[np.isfinite(values)]
    alone = int(np.count_nonzero(np.isnan(of_a) != np.isnan(of_b)))
    np.subtract(of_b, of_a, out=of_b)
    count = window.size - int(np.count_nonzero(np.isnan(of_b)))
    np.nan_to_num(of_b, copy=False)
    np.abs(of_b, out=of_b)
    row, col = np.unravel_index(of_b.argmax(), of_b.shape)
    most = float(of_b[row, col]), (window.x0 + int(col), window.y0 + int(row))
    np.square(of_b, out=of_b)
    squares = float(of_b.sum(dtype=np.float64))
    return squares, most, (count, alone, window.size), values


def _finding(name: str, sums: _Sums, noise: float, sampled: bool) -> Finding:  # noqa: FBT001
    share, most = (v / noise if noise else (math.inf if v else 0.0) for v in (sums.rms, sums.most))
    how = f"sample of {sums.read / 1e6:.0f} Mpx" if sampled else "all px"
    text = (
        f"{name} off by {number(share, digits=2)} of its noise (rms of {how}), most "
        f"{number(most, digits=2)} at x {sums.at[0]}, y {sums.at[1]}"
    )
    if sums.alone:
        text += f", {percent(sums.share_alone)} of px in one image alone"
    excess = max(share / ALLOWED, sums.share_alone / _ALLOWED_EDGE)
    return Finding.within("pixels", excess, text, {})
