"""Difference images of two results, or corrected slides, by windows; candidates found on them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from unglow.core.levels import RESULT_OF
from unglow.core.rounding import number, percent, uncertainty
from unglow.core.windows import Window, grid, map_bounded
from unglow.images.detection_results import read_candidates, read_report
from unglow.images.raw_images import open_reader, read_header
from unglow.images.zarr import open_store
from unglow.results.comparison.measures import Finding
from unglow.review.decisions import REACH_PX, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.images.ome_zarr import OmeZarrReader
    from unglow.images.tiff import TiffReader
    from unglow.images.zarr import Store

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
        One of them is damaged or incomplete.
    """
    a, b = open_store(one.parent), open_store(other.parent)
    name, other_name = a.attributes["method"], b.attributes["method"]
    if name != other_name:
        return Finding("pixels", "unknown", f"difference images: by {name} and by {other_name}")
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
    sums = _Sums.from_windows(a, b, windows)
    noise = sums.noise()
    found = {"rms": sums.rms, "max": sums.most, "max_x": sums.at[0], "max_y": sums.at[1],
            "noise": noise, "on_one_side": sums.share_alone, "read": sums.read}  # fmt: skip
    numbers = {f"{name}_pixels_{key}": value for key, value in found.items()}
    return replace(_judge_pixels(f"difference by {name}", sums, noise, sampled), numbers=numbers)


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
            sums = _Sums.from_windows(_Channel(a, number), _Channel(b, number), windows)
            noise = sums.noise(above_0=headers[0].dtype[0] != "f")
            found.append(_judge_pixels(f"{one.name}: {name}", sums, noise, sampled))
    return max(found, key=lambda finding: finding.excess)


def _windows(shape: tuple[int, int], most: int | None) -> tuple[list[Window], bool]:
    """Return all windows, or a number of them evenly spread; and whether they are a sample."""
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
    def from_windows(cls, a: _Pixels, b: _Pixels, windows: Sequence[Window]) -> _Sums:
        """Return the sums over windows."""
        sums = cls()
        step = max(1, math.isqrt(sum(w.size for w in windows) // _FOR_NOISE) + 1)
        parts = map_bounded(lambda w: _compare_window(a, b, w, step), windows, _WORKERS)
        for squares, most, counts, values in parts:
            sums.squares += squares
            if most[0] > sums.most:
                sums.most, sums.at = most
            sums.count += counts[0]
            sums.alone += counts[1]
            sums.read += counts[2]
            sums.values.append(values)
        return sums

    @property
    def share_alone(self) -> float:
        """Share of px that only one image has."""
        return self.alone / max(self.count + self.alone, 1)

    @property
    def rms(self) -> float:
        """Root mean square of the difference."""
        return math.sqrt(self.squares / self.count) if self.count else 0.0

    def noise(self, *, above_0: bool = False) -> float:
        """Return the standard deviation of A estimated from its median absolute deviation.

        With ``above_0`` what was below 0 is cut off, and it is at least one level of integers.
        """
        values = np.concatenate(self.values)
        if above_0:
            above = values[values > 0]
            return max(1.0, 1.4826 * float(np.median(above))) if len(above) else 1.0
        return 1.4826 * float(np.median(np.abs(values - np.median(values)))) if len(values) else 0.0


def _compare_window(a: _Pixels, b: _Pixels, window: Window, step: int) -> tuple[Any, ...]:
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


def _judge_pixels(name: str, sums: _Sums, noise: float, sampled: bool) -> Finding:  # noqa: FBT001
    share, most = (v / noise if noise else (math.inf if v else 0.0) for v in (sums.rms, sums.most))
    how = f"sample of {sums.read / 1e6:.0f} Mpx" if sampled else "all px"
    text = (
        f"{name} off by {number(share, digits=2)} of its noise (rms of {how}), most "
        f"{number(most, digits=2)} at x {sums.at[0]}, y {sums.at[1]}"
    )
    if sums.alone:
        text += f", {percent(sums.share_alone)} of px in one image alone"
    excess = max(share / ALLOWED, sums.share_alone / _ALLOWED_EDGE)
    return Finding("pixels", "equal" if excess <= 1 else "different", text, excess)


CLEAR = 1.0
"""A candidate is clear if its signal-to-noise ratio is above both thresholds by this, one standard
deviation of the noise. A list loses and wins others by chance."""
_ERRORS, _FEW = 2.0, 0.05
"""Measurements count as different if more than the second, a share, of the matched candidates are
off by more than the first, in combined errors."""


@dataclass(frozen=True, eq=False)
class Matched:
    """Which candidates of two lists are the same.

    Attributes
    ----------
    pairs
        (k, 2) intp, indices into a and b, in the order of a.
    lost, new
        Indices of those in a alone and in b alone, ascending.
    """

    pairs: NDArray[np.intp]
    lost: NDArray[np.intp]
    new: NDArray[np.intp]


def match(a: NDArray[np.float64], b: NDArray[np.float64], radius: float = REACH_PX) -> Matched:
    """Match positions one to one, the nearest pairs first.

    Parameters
    ----------
    a, b
        (N, 2) and (M, 2) positions (x, y), px of post.
    radius
        Partners are no further apart, px.
    """
    partners = np.array([-1 if n is None else n for n in nearest(a, b, radius)], np.intp)
    found = partners >= 0
    return Matched(
        np.column_stack([np.flatnonzero(found), partners[found]]),
        np.flatnonzero(~found),
        np.setdiff1d(np.arange(len(b)), partners[found]),
    )


def compare_candidates(one: Path, other: Path) -> Finding:
    """Compare two ``candidates.csv``: those that are counted.

    Threshold and width of spots are those of ``detection.json`` next to them, if it is there.
    UnglowError if a file cannot be read.
    """
    tables = [read_candidates(path) for path in (one, other)]
    a, b = ({n: column[t.is_counted] for n, column in t.numbers.items()} for t in tables)
    found = (path.parent / RESULT_OF["detection"] for path in (one, other))
    reports = [read_report(path) if path.is_file() else {} for path in found]
    thresholds = [  # or the last candidate of the list, where none is reported
        c["snr"].min(initial=math.inf) if (t := r.get("threshold_snr")) is None else t
        for r, c in zip(reports, (a, b), strict=True)
    ]
    widths = [float(r.get("settings", {}).get("fwhm_px", 0)) for r in reports]
    return _judge_lists(a, b, max(thresholds) + CLEAR, max(REACH_PX, *(w / 2 for w in widths)))


def _judge_lists(
    a: dict[str, NDArray[np.float64]],
    b: dict[str, NDArray[np.float64]],
    clear_snr: float,
    radius: float,
) -> Finding:
    places = [np.column_stack([c["x"], c["y"]]) for c in (a, b)]
    matched = match(places[0], places[1], radius)
    pairs = matched.pairs.T
    columns = {name: (a[name][pairs[0]], b[name][pairs[1]]) for name in a if name in b}
    measured = _measure(columns)
    left = {"lost": (a, matched.lost), "new": (b, matched.new)}
    clear = {w: int(np.count_nonzero(c["snr"][k] >= clear_snr)) for w, (c, k) in left.items()}
    numbers: dict[str, float | int] = {
        "candidates_a": len(a["x"]), "candidates_b": len(b["x"]), "matched": len(matched.pairs),
        "lost": len(matched.lost), "lost_clear": clear["lost"],
        "new": len(matched.new), "new_clear": clear["new"], **measured,
    }  # fmt: skip
    parts = [
        f"{len(index)} {word} ({_describe_clarity(len(index), clear[word])})"
        for word, (_, index) in left.items()
        if len(index)
    ]
    parts.append(f"{len(matched.pairs)} matched")
    off = measured.get("off", 0.0)
    if off > _FEW:
        flux, place = number(measured.get("flux_ratio")), uncertainty(measured["place_median_px"])
        parts.append(
            f"{percent(off)} of them measured otherwise (typical flux {flux} times, place {place} "
            "px off)"
        )
    unmatched = sum(clear.values())
    excess = (1 + 100 * unmatched / max(len(a["x"]), len(b["x"]))) if unmatched else 0.0
    return Finding(
        "candidates",
        "different" if unmatched or off > _FEW else "equal",
        "candidates: " + ", ".join(parts),
        max(excess, off / _FEW),
        numbers,
        _list_points(left),
    )


def _measure(
    columns: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> dict[str, float | int]:
    """Return distances of matched candidates, px, their flux of B over A, and the share off.

    ``off`` is the share of those whose place or flux is more than `_ERRORS` combined errors away.
    """
    (x, other_x), (y, other_y) = columns["x"], columns["y"]
    if not len(x):
        return {}
    apart = np.hypot(other_x - x, other_y - y)
    numbers: dict[str, float | int] = {
        "place_median_px": float(np.median(apart)),
        "place_p95_px": float(np.quantile(apart, 0.95)),
    }
    off = np.zeros(len(x), bool)
    for name in ("x", "y", "flux"):
        if name in columns and f"{name}_err" in columns:
            errors = np.hypot(*columns[f"{name}_err"])
            off |= np.abs(np.subtract(*columns[name])) > _ERRORS * errors
    if "flux" in columns:
        ratio = np.divide(*reversed(columns["flux"]))
        numbers["flux_ratio"] = float(np.nanmedian(ratio))
        numbers["flux_off_p95"] = float(np.nanquantile(np.abs(ratio - 1), 0.95))
    return numbers | {"off": float(off.mean())}


def _describe_clarity(count: int, clear: int) -> str:
    if clear == count:
        return "clear" if count == 1 else "all clear"
    return f"{clear} clear" if clear else "at the limit of significance"


def _list_points(
    left: dict[str, tuple[dict[str, NDArray[np.float64]], NDArray[np.intp]]],
) -> tuple[tuple[str, float, float, float], ...]:
    """Return word, x, y and significance of those without a partner, the clearest first."""
    rows = [
        (word, float(c["x"][k]), float(c["y"][k]), float(c["snr"][k]))
        for word, (c, index) in left.items()
        for k in index
    ]
    return tuple(sorted(rows, key=lambda row: (row[0], -row[3])))
