"""Real pairs whose post image is damaged: whether the list outside of the place stays as it was."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tifffile
from running import run as run_command
from running import say, snakemake_words
from scipy import ndimage
from subcommands import add_draws
from tables import save_json, table

from damage.judging import RIM_PX, is_clear
from damage.pools import as_text, at_least, at_most, print_promises
from unglow.io.detection_results import read_candidates
from unglow.phantom.damage_shapes import make_blob
from unglow.results import read_summary

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    Image = NDArray[np.float64]

_BRAIN, _ROUNDS = "signal_autofluorescence/", "two_round_fluorescence/"
PAIRS = {
    "brain": (f"{_BRAIN}signal/signal_ch000013", f"{_BRAIN}background/background_ch010013"),
    "crop13": (f"{_BRAIN}crop_signal/ch00013", f"{_BRAIN}crop_autofluorescence/ch10013"),
    "round": (f"{_ROUNDS}round_fix_mip", f"{_ROUNDS}round_mov_mip"),
    "slab40": (f"{_ROUNDS}slab40_fix_mip", f"{_ROUNDS}slab40_mov_mip"),
}
"""Files (post, pre) of real images, without their suffix."""
AGREEMENT = 0.95
"""Candidates outside of the place that both lists have, over those that either has."""
MOST_THRESHOLD = 10.0
"""An undamaged pair whose own list begins above this signal-to-noise ratio is suspect for it.

Such a list is cut off where chance puts the threshold, and agrees with no other.
"""
_MATCH_PX = 3.0
_RADII = 25.0, 45.0
# The darkest and the median brightness of a smoothed section, as quantiles of the image.
_DARK, _MIDDLE, _SMOOTH_PX = 0.01, 0.5, 8.0
_FADE_PX, _BLUR_PX, _MOVE_PX, _BLEACHED, _DIRT = 2.0, 1.5, 8.0, 0.7, 1.5


@dataclass(frozen=True)
class Damaged:
    """A pair with one spoilt place: candidates outside of it before, after, and in both lists.

    ``steady`` says whether the threshold of the undamaged pair is at most `MOST_THRESHOLD`.
    """

    pair: str
    kind: str
    radius: float
    status: str
    before: int
    after: int
    both: int
    steady: bool


def _lose(post: Image, rng: np.random.Generator) -> Image:
    dark = post[post <= np.quantile(post, 2 * _DARK)]
    return np.asarray(rng.choice(dark, post.shape))


def _cover(post: Image, rng: np.random.Generator) -> Image:
    lumps = ndimage.gaussian_filter(rng.normal(size=post.shape), 6.0)
    return np.asarray(post + _DIRT * np.std(post) * np.exp(lumps / lumps.std()))


def _bleach(post: Image, _: np.random.Generator) -> Image:
    dark = np.quantile(post, _DARK)
    return np.asarray(dark + _BLEACHED * (post - dark))


def _blur(post: Image, _: np.random.Generator) -> Image:
    return np.asarray(ndimage.gaussian_filter(post, _BLUR_PX))


def _move(post: Image, _: np.random.Generator) -> Image:
    return np.asarray(ndimage.shift(post, (_MOVE_PX, -_MOVE_PX), order=1, mode="nearest"))


def _clear(post: Image, _: np.random.Generator) -> Image:
    return np.zeros_like(post)


KINDS: dict[str, Callable[[Image, np.random.Generator], Image]] = {
    "lost": _lose,
    "debris": _cover,
    "bleach": _bleach,
    "blur": _blur,
    "moved": _move,
    "zero": _clear,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_draws(parser, 2)


def run(args: argparse.Namespace) -> int:
    """Damage, run and compare; return 1 where a promise is missed."""
    data: Path | None = args.data
    if data is None:
        print("nothing to do: all of this needs real images")
        return 0
    raw = args.directory / "raw"
    shutil.rmtree(args.directory, ignore_errors=True)
    places = {}
    for pair, files in PAIRS.items():
        post, pre = (tifffile.imread(data / f"{file}.tif") for file in files)
        _write(raw, pair, post, pre)
        for draw in range(args.draws):
            for number, (kind, change) in enumerate(KINDS.items()):
                for radius in _RADII:
                    rng = np.random.default_rng([args.first + draw, number, int(radius)])
                    name = f"{pair}-{kind}-{radius:.0f}-{draw}"
                    spoilt, outline = _spoil(post, radius, change, rng)
                    _write(raw, name, spoilt, pre)
                    places[name] = pair, kind, radius, outline
    say(f"running {len(places) + len(PAIRS)} pairs")
    words = snakemake_words(args.jobs, {"allow_failed": "true"})
    run_command(*words, "--until", "detect", "summary", directory=args.directory)
    found = [_compare(args.directory / "results", name, *place) for name, place in places.items()]
    save_json(args.json, {"pairs": found})
    return report(found)


def _write(raw: Path, name: str, post: NDArray[Any], pre: NDArray[Any]) -> None:
    (raw / name).mkdir(parents=True)
    for role, image in (("post", post), ("pre", pre)):
        tifffile.imwrite(raw / name / f"{name}_{role}_X.tif", image)


def _spoil(
    post: NDArray[Any],
    radius: float,
    change: Callable[[Image, np.random.Generator], Image],
    rng: np.random.Generator,
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return a damaged image and the outline of its place, (N, 2) (x, y) px, on the section."""
    smooth = ndimage.gaussian_filter(post.astype(np.float64), _SMOOTH_PX)
    margin = int(radius * 1.5)
    inner = np.zeros(post.shape, bool)
    inner[margin:-margin, margin:-margin] = True
    rows, cols = np.nonzero(inner & (smooth > np.quantile(smooth, _MIDDLE)))
    n = int(rng.integers(len(rows)))
    shape = make_blob(radius, rng, torn=False).move_to(float(cols[n]), float(rows[n]), 0.0)
    y, x = np.mgrid[: post.shape[0], : post.shape[1]].astype(np.float64)
    weight = np.clip(shape.depth(x, y) / _FADE_PX + 0.5, 0.0, 1.0)
    mixed = post + weight * (change(post.astype(np.float64), rng) - post)
    if np.issubdtype(post.dtype, np.integer):
        mixed = np.clip(np.rint(mixed), 0, np.iinfo(post.dtype).max)
    return mixed.astype(post.dtype), shape.polygon()


def _compare(
    results: Path, name: str, pair: str, kind: str, radius: float, outline: NDArray[np.float64]
) -> Damaged:
    place = [{"polygon_xy": outline, "rim_px": _FADE_PX}]
    lists = []
    for sample in (pair, name):
        candidates = read_candidates(results / sample / "X" / "candidates.csv", ("x", "y"))
        xy = candidates.xy[candidates.is_counted]
        lists.append(xy[is_clear(xy, place, RIM_PX)])
    before, after = lists
    away = np.hypot(*(before[:, None, :] - after[None, :, :]).transpose(2, 0, 1))
    both = int((away.min(axis=1) <= _MATCH_PX).sum()) if away.size else 0
    row = next(r for r in read_summary(results / "summary.tsv") if r["sample"] == name)
    detection = json.loads((results / pair / "X" / "details/detection.json").read_text("utf-8"))
    steady = (detection["threshold_snr"] or np.inf) <= MOST_THRESHOLD
    return Damaged(pair, kind, radius, row["status"], len(before), len(after), both, steady)


def report(found: list[Damaged]) -> int:
    """Print the tables; return 1 where a promise is missed."""
    header = ["pair", "damage", "places", "ok/suspect/other", "before", "after", "both", "agree"]
    lines = [
        _line(*key, [one for one in found if (one.pair, one.kind) == key])
        for key in dict.fromkeys((one.pair, one.kind) for one in found)
    ]
    steady = [one for one in found if one.steady]
    lines.append(_line("all", "", found))
    lines.append(_line(f"of a threshold of {MOST_THRESHOLD:.0f} at most", "", steady))
    print(table(header, lines, left=2))
    print(f"Candidates further than {RIM_PX:.0f} px from the place, before and after the damage.")
    unsteady_ok = sum(one.status == "ok" for one in found if not one.steady)
    return print_promises(
        [
            at_least(
                "candidates in both lists over those in either", _agreement(steady), AGREEMENT
            ),
            at_most("ok pairs whose lists are not steady", float(unsteady_ok), 0.0, "{:.0f}"),
        ]
    )


def _agreement(found: list[Damaged]) -> float:
    either = sum(one.before + one.after - one.both for one in found)
    return sum(one.both for one in found) / either if either else 1.0


def _line(pair: str, kind: str, some: list[Damaged]) -> list[str]:
    states = [one.status for one in some]
    counts = [states.count("ok"), states.count("suspect")]
    return [
        pair,
        kind,
        str(len(some)),
        "/".join(str(n) for n in (*counts, len(some) - sum(counts))),
        *(str(sum(getattr(one, name) for one in some)) for name in ("before", "after", "both")),
        as_text(_agreement(some), "{:.3f}"),
    ]
