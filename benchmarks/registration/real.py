"""Real pairs without a truth: closed loops, there and back, likeness after alignment, refusals."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import tifffile
from scipy import ndimage
from tables import table

from registration.bases import SCANNERS
from registration.judging import inside
from registration.pool import in_children, registered, save_json
from unglow.registration.register import RegisterSettings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from registration.geometry import Points
    from unglow.transform import Transform

    Image = NDArray[Any]

LOOPS = (("A", "Z", "N2"), ("A", "N1", "N2"), ("A", "Z", "N1"), ("Z", "N1", "N2"))
ROUNDS = ("round", "slab40", "slice150")
LOOP_P95_PX = 0.28
BACK_MEDIAN_PX = 0.05
_HISTOLOGY = "histology_landmarks/lesions_/scale-5pc/Izd2-29-041-w35_{}.jpg"
_STEP, _MARGIN = 32, 16.0
_WINDOW, _TEXTURE = 49, 4.0
_BLOCK, _HALO, _MOST_BLOCKS = 128, 16, 200
_BAND_PX = 1.0, 6.0


@dataclass(frozen=True)
class Pairing:
    """One directed registration: with the model that was chosen, and without a field.

    ``likeness`` is the (B, 2) correlation of held-out blocks after the global and the chosen map.
    """

    post: str
    pre: str
    chosen: Transform
    plain: Transform
    likeness: NDArray[np.float64]
    cpu_seconds: tuple[float, float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "--only", choices=("scanners", "rounds", "histology"), help="one data set alone"
    )


def run(args: argparse.Namespace) -> int:
    """Register all real pairs, print the tables; return 1 where an aim is missed."""
    data: Path | None = args.data
    if data is None:
        print("nothing to do: all of this needs real images")
        return 0
    figures: dict[str, Any] = {}
    missed = False
    if args.only in (None, "scanners"):
        missed |= _scanners(data, args.jobs, figures)
    if args.only in (None, "rounds"):
        missed |= _rounds(data, args.jobs, figures)
    if args.only in (None, "histology"):
        missed |= _histology(data, args.jobs, figures)
    save_json(args.json, figures)
    return int(missed)


def _scanners(data: Path, jobs: int, figures: dict[str, Any]) -> bool:
    steps = sorted({step for loop in LOOPS for step in _steps(loop)})
    pairs = {(p.post, p.pre): p for p in in_children(partial(scanned, data=data), steps, jobs)}
    missed = False
    rows = []
    for loop in LOOPS:
        points = tissue(slide(data, loop[0]))
        taken = [pairs[step] for step in _steps(loop)]
        kinds = [closure([getattr(p, kind) for p in taken], points) for kind in ("plain", "chosen")]
        name = " -> ".join((*loop, loop[0]))
        (_, plain, _), (_, chosen, _) = kinds
        good = chosen <= LOOP_P95_PX
        missed |= not good
        fields = sum(p.chosen.displacement is not None for p in taken)
        cells = [f"{value:.3f}" for kind in kinds for value in kind]
        verdict = f"{chosen / LOOP_P95_PX:.2f}" + " !"[not good]
        rows.append((name, str(fields), *cells, f"{chosen / plain:.2f}", verdict))
        figures[name] = {"global": kinds[0], "chosen": kinds[1]}
    header = ("loop, px", "fields", "global: median", "p95", "max", "chosen: median", "p95", "max")
    print("one slide, four scanners: how far a point of the tissue is from itself after a loop")
    print(table((*header, "chosen/global p95", f"p95 / {LOOP_P95_PX:g}"), rows))
    print("\nmean correlation of held-out blocks after alignment, band-passed (1 to 6 px)")
    return _likeness(list(pairs.values()), figures) or missed


def _steps(loop: Sequence[str]) -> Iterator[tuple[str, str]]:
    return itertools.pairwise((*loop, loop[0]))


def closure(steps: Sequence[Transform], points: Points) -> tuple[float, float, float]:
    """Median, p95 and maximum of how far points (N, 2) are from themselves after all steps, px.

    Points that leave an image on the way do not count.
    """
    at, seen = points, np.ones(len(points), dtype=bool)
    for step in steps:
        at = step.map(at)
        with np.errstate(invalid="ignore"):
            seen &= inside(at, step.pre_shape, _MARGIN)
    off = np.hypot(*(at - points)[seen].T)
    if not len(off):
        return (float("nan"),) * 3
    return float(np.median(off)), float(np.quantile(off, 0.95)), float(off.max())


def _likeness(pairs: Sequence[Pairing], figures: dict[str, Any]) -> bool:
    rows = []
    missed = False
    for p in pairs:
        plain, chosen, gain, doubt = compared(p.likeness)
        good = gain >= 0
        missed |= not good
        rows.append(
            (
                f"{p.post} to {p.pre}",
                p.chosen.status,
                p.chosen.model_name,
                str(len(p.likeness)),
                f"{plain:.4f}",
                f"{chosen:.4f}",
                f"{gain:+.4f}" + " !"[not good],
                f"{doubt:.4f}",
                f"{p.chosen.error_px.median:.3f}",
                f"{p.chosen.residual_px.median:.3f}",
                f"{p.cpu_seconds[1]:.1f}",
                f"{p.cpu_seconds[0]:.1f}",
            )
        )
        figures[f"{p.post} to {p.pre}"] = {
            "global": plain, "chosen": chosen, "gain": gain, "standard error": doubt
        }  # fmt: skip
    header = ("pair", "status", "model", "blocks", "global", "chosen", "gain", "std. error")
    more = ("said error px", "residual px", "global CPU-s", "chosen CPU-s")
    print(table((*header, *more), rows, left=3))
    for p in pairs:
        for reason in p.chosen.reasons:
            print(f"  {p.post} to {p.pre}: {reason}")
    return missed


def compared(likeness: NDArray[np.float64]) -> tuple[float, float, float, float]:
    """Mean correlation with the global and with the chosen map, their difference and its error.

    Blocks differ from each other by far more than the maps do, so they are compared one by one.
    """
    if not len(likeness):
        return (float("nan"),) * 4
    plain, chosen = likeness.mean(axis=0)
    gains = likeness[:, 1] - likeness[:, 0]
    doubt = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.nan
    return float(plain), float(chosen), float(gains.mean()), float(doubt)


@lru_cache(maxsize=4)
def slide(data: Path, name: str) -> Image:
    """Return the sum of the colours of a scanner's image, (rows, cols) uint16."""
    path = data / "scanners_one_slide" / SCANNERS[f"scanner-{name}"]
    return np.asarray(tifffile.imread(path).sum(axis=2, dtype=np.uint16))


def tissue(image: Image) -> Points:
    """Points (N, 2) of an image, on a grid, that have texture around them."""
    level = image.astype(np.float32) / 3
    mean = ndimage.uniform_filter(level, _WINDOW)
    spread = ndimage.uniform_filter(level * level, _WINDOW) - mean * mean
    y, x = np.mgrid[_STEP // 2 : image.shape[0] : _STEP, _STEP // 2 : image.shape[1] : _STEP]
    known = spread[y, x] > _TEXTURE**2
    return np.column_stack([x[known], y[known]]).astype(np.float64)


def scanned(names: tuple[str, str], data: Path) -> Pairing:
    """Register the image of one scanner to that of another."""
    return pairing(names, slide(data, names[0]), slide(data, names[1]))


def pairing(names: tuple[str, str], post: Image, pre: Image) -> Pairing:
    """Register two images with and without a field."""
    found, cpu = registered(post, pre)
    plain, plain_cpu = registered(post, pre, RegisterSettings(field="never"))
    chosen = found.transform
    blocks = found.blocks[found.blocks["held_out"] & found.blocks["used"]]
    centres = np.column_stack([blocks["x"], blocks["y"]])
    step = max(1, -(-len(centres) // _MOST_BLOCKS))
    like = likeness(post, pre, centres[::step], (plain.transform, chosen))
    return Pairing(*names, chosen, plain.transform, like, (cpu, plain_cpu))


def likeness(
    post: Image, pre: Image, centres: Points, maps: Sequence[Transform]
) -> NDArray[np.float64]:
    """Correlate band-passed blocks of post with pre as each map brings it there.

    Parameters
    ----------
    post, pre
        (rows, cols).
    centres
        (B, 2) centres of blocks in post, px.
    maps
        M maps; pre is interpolated by a cubic spline.

    Returns
    -------
    (b, M) of the blocks that lie inside both images.
    """
    out = []
    reach = _BLOCK // 2 + _HALO
    for x, y in np.rint(centres).astype(int):
        rows, cols = np.mgrid[y - reach : y + reach, x - reach : x + reach]
        points = np.column_stack([cols.ravel(), rows.ravel()]).astype(np.float64)
        places = [found.map(points) for found in maps]
        if not inside(points, post.shape).all():
            continue
        if not all(inside(place, pre.shape, 10).all() for place in places):
            continue
        seen = _banded(post[rows, cols].astype(np.float64))
        moved = (_banded(_interpolated(pre, place, rows.shape)) for place in places)
        out.append([float(np.corrcoef(seen, one)[0, 1]) for one in moved])
    return np.array(out).reshape(-1, len(maps))


def _interpolated(image: Image, places: Points, shape: tuple[int, ...]) -> NDArray[np.float64]:
    low = np.floor(places.min(axis=0)).astype(int) - 8
    high = np.ceil(places.max(axis=0)).astype(int) + 9
    low, high = np.maximum(low, 0), np.minimum(high, image.shape[::-1])
    part = image[low[1] : high[1], low[0] : high[0]].astype(np.float64)
    return ndimage.map_coordinates(part, (places - low).T[::-1], order=3, mode="mirror").reshape(
        shape
    )


def _banded(block: NDArray[np.float64]) -> NDArray[np.float64]:
    fine, coarse = (ndimage.gaussian_filter(block, sigma) for sigma in _BAND_PX)
    return (fine - coarse)[_HALO:-_HALO, _HALO:-_HALO].ravel()


def _rounds(data: Path, jobs: int, figures: dict[str, Any]) -> bool:
    steps = [(name, way) for name in ROUNDS for way in ("fix", "mov")]
    found = {p.post: p for p in in_children(partial(rounds, data=data), steps, jobs)}
    rows = []
    missed = False
    for name in ROUNDS:
        there, back = found[f"{name} fix"], found[f"{name} mov"]
        shape = there.chosen.post_shape
        y, x = np.mgrid[8 : shape[0] : 16, 8 : shape[1] : 16].astype(np.float64)
        points = np.column_stack([x.ravel(), y.ravel()])
        plain, chosen = (
            closure([getattr(p, kind) for p in (there, back)], points)
            for kind in ("plain", "chosen")
        )
        good = chosen[0] <= BACK_MEDIAN_PX
        missed |= not good
        cells = [f"{value:.3f}" for value in (*plain, *chosen)]
        verdict = f"{chosen[0] / BACK_MEDIAN_PX:.2f}" + " !"[not good]
        rows.append((name, there.chosen.model_name, back.chosen.model_name, *cells, verdict))
        figures[name] = {"global": plain, "chosen": chosen}
    print("\ntwo rounds of fluorescence: how far a point is from itself after there and back, px")
    header = ("pair", "there", "back", "global: median", "p95", "max", "chosen: median", "p95")
    print(table((*header, "max", f"median / {BACK_MEDIAN_PX:g}"), rows, left=3))
    print("\nmean correlation of held-out blocks after alignment, band-passed (1 to 6 px)")
    return _likeness(sorted(found.values(), key=lambda p: p.post), figures) or missed


def rounds(step: tuple[str, str], data: Path) -> Pairing:
    """Register one round of fluorescence to the other; ``fix`` or ``mov`` is post."""
    name, way = step
    suffix = "" if name == "slice150" else "_mip"
    images = {
        one: tifffile.imread(data / "two_round_fluorescence" / f"{name}_{one}{suffix}.tif")
        for one in ("fix", "mov")
    }
    other = "mov" if way == "fix" else "fix"
    return pairing((f"{name} {way}", other), images[way], images[other])


def _histology(data: Path, jobs: int, figures: dict[str, Any]) -> bool:
    ways = [(post, channel) for post in ("HE", "proSPC") for channel in ("grey", "green", "red")]
    rows = []
    missed = False
    for name, found in in_children(partial(sections, data=data), ways, jobs):
        good = found.has_failed
        missed |= not good
        cells = (name, found.status + " !"[not good], f"{found.significance:.1f}")
        rows.append((*cells, found.reasons[0] if found.reasons else ""))
        figures[name] = {"status": found.status, "significance": found.significance}
    print("\nconsecutive sections, which have no exact map: must be refused")
    print(table(("post, channel", "status", "significance", "reason"), sorted(rows), left=4))
    return missed


def sections(way: tuple[str, str], data: Path) -> tuple[str, Transform]:
    """Register two consecutive sections of histology."""
    post, channel = way
    pre = "proSPC" if post == "HE" else "HE"
    images = [cv2.imread(str(data / _HISTOLOGY.format(one))) for one in (post, pre)]
    chosen = [
        image.mean(axis=2).astype(np.uint8)
        if channel == "grey"
        else np.ascontiguousarray(image[..., {"green": 1, "red": 2}[channel]])
        for image in images
    ]
    found, _ = registered(*chosen)
    return f"{post}, {channel}", found.transform
