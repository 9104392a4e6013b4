"""Verdicts of real pairs against what is true: what ends ``ok`` is right, what is doubted is wrong.

A pair is wrong if its map is off by more than 1 px and 1.5 times what it says (p95), its gain lies
outside twice its interval, more than twice the claimed share of its list is false (by more than
chance makes), or less than 0.7 of the spots are found that its completeness predicts. A map that
says itself that it is off by more than 1 px is doubted for that: rightly, if it is.
"""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tifffile
from running import run as run_command
from running import say, snakemake_words
from scipy import ndimage
from tables import save_json, table

from real.cases import make_cases
from unglow import transform
from unglow.core.poisson import poisson_interval
from unglow.core.windows import Window
from unglow.detection.section_mask import Section
from unglow.figures.difference_picture import spoilt_px
from unglow.images.artefacts import ARTEFACTS, read_places
from unglow.images.detection_results import read_candidates
from unglow.images.zarr import open_store
from unglow.results import read_summary

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from real.cases import Case
    from unglow.transform import Transform

    Floats = NDArray[np.float64]

DYE = "X"
MOST_WRONG, LEAST_DESERVED = 0.02, 2 / 3
"""Share of ``ok`` pairs that may be wrong, and of ``suspect`` ones that have to be."""
MAP_PX, MAP_RATIO, GAIN_INTERVALS, FALSE_RATIO, RECALL = 1.0, 1.5, 2.0, 2.0, 0.7
_LIKE = 0.2
_MATCH_PX = 3.0
_LEAST_SPOTS = 10.0
_STEP = 8


@dataclass(frozen=True)
class Verdict:
    """What was said of a pair, and what is true.

    Attributes
    ----------
    name, kind, status, reasons
        Of the pair.
    wrong
        What is wrong with it: some of ``map``, ``gain``, ``false``, ``recall``.
    counted, false, claimed
        Candidates that are counted; how many of them are false (NaN if not known), and the share
        that the list claims.
    off_px, said_px
        Error of the map, p95, as it is and as it is said; NaN if not known.
    found, predicted
        Spots that were put in where it was searched: found, and predicted by its completeness.
    """

    name: str
    kind: str
    status: str
    reasons: str
    wrong: tuple[str, ...]
    counted: int
    false: float
    claimed: float
    off_px: float
    said_px: float
    found: int
    predicted: float


_ENDED = ("ok", "suspect", "failed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("--only", metavar="TEXT", default="", help="kinds that contain this text")


def run(args: argparse.Namespace) -> int:
    """Run all pairs and judge their verdicts; return 1 where an aim is missed."""
    data: Path | None = args.data
    if data is None:
        print("nothing to do: all of this needs real images")
        return 0
    cases = [case for case in make_cases(data) if args.only in case.kind]
    results = args.directory / "results"
    if not (results / "summary.tsv").is_file():
        raw = args.directory / "raw"
        shutil.rmtree(raw, ignore_errors=True)
        for case in cases:
            (raw / case.name).mkdir(parents=True)
            for role, image in (("post", case.post), ("pre", case.pre)):
                tifffile.imwrite(raw / case.name / f"{case.name}_{role}_{DYE}.tif", image)
        say(f"running {len(cases)} pairs")
        words = snakemake_words(args.jobs, {"allow_failed": "true"})
        run_command(*words, "--until", "detect", "summary", directory=args.directory)
    rows = {row["sample"]: row for row in read_summary(results / "summary.tsv")}
    left = [case.name for case in cases if rows[case.name]["status"] not in _ENDED]
    if left:
        raise SystemExit(f"{len(left)} pairs have no verdict, such as {left[0]}: see logs/ there.")
    found = [judge(case, rows, results) for case in cases]
    save_json(args.json, {"pairs": found})
    return report(found)


def judge(case: Case, rows: Mapping[str, Mapping[str, Any]], results: Path) -> Verdict:
    """Compare what was said of a pair with the truth."""
    row, place = rows[case.name], results / case.name / DYE
    status = str(row["status"])
    nan, reasons = math.nan, str(row["reasons"])
    nothing = Verdict(case.name, case.kind, status, reasons, (), 0, 0.0, nan, nan, nan, 0, 0.0)
    if status not in ("ok", "suspect"):
        return nothing
    found = transform.load(place / "transform.json")
    detection = json.loads((place / "details/detection.json").read_text("utf-8"))
    off = _map_error(case, found, results)
    said = found.error_px.p95
    candidates = read_candidates(place / "candidates.csv", ("x", "y"))
    xy = candidates.xy[candidates.is_counted]
    near = np.hypot(*(xy[:, None] - case.spots[None, :, :2]).transpose(2, 0, 1))
    false = float((near > _MATCH_PX).all(axis=1).sum()) if case.closed else math.nan
    claimed = detection.get("fdr") or math.nan
    searched = _find_searched(case.spots, place)
    hits = int((near[:, searched] <= _MATCH_PX).any(axis=0).sum())
    predicted = predict_found(case.spots[searched, 2], detection.get("completeness"))
    wrong = {
        "map": not case.same_place
        or off > (MAP_PX if said > MAP_PX else max(MAP_PX, MAP_RATIO * said)),
        "gain": _is_gain_wrong(case, place, rows),
        "false": case.closed and poisson_interval(int(false))[0] > FALSE_RATIO * claimed * len(xy),
        "recall": predicted >= _LEAST_SPOTS and hits < RECALL * predicted,
    }
    names = tuple(name for name, is_wrong in wrong.items() if is_wrong)
    return Verdict(
        case.name,
        case.kind,
        status,
        str(row["reasons"]),
        names,
        len(xy),
        false,
        claimed,
        off,
        said,
        hits,
        predicted,
    )


def _find_searched(spots: Floats, place: Path) -> NDArray[np.bool_]:
    """Return which spots (N, 3) lie where the search looked: on the section, and not excluded."""
    aligned = open_store(place / "aligned_pre.ome.zarr")
    excluded = ~np.isfinite(aligned.read(Window.from_shape(aligned.shape)))
    excluded |= spoilt_px(read_places(place / ARTEFACTS), aligned.shape, 1)
    wide = ndimage.binary_dilation(excluded, iterations=round(_MATCH_PX))
    x, y = np.rint(spots[:, :2]).astype(int).T
    return np.asarray(Section.from_pixels(aligned).contains(x, y) & ~wide[y, x], np.bool_)


def _map_error(case: Case, found: Transform, results: Path) -> float:
    """Return the p95 of the error of a map over the section, px; NaN if it is not known."""
    section = Section.from_pixels(open_store(results / case.name / DYE / "aligned_pre.ome.zarr"))
    y, x = np.mgrid[0 : found.post_shape[0] : _STEP, 0 : found.post_shape[1] : _STEP]
    on = section.contains(x.ravel(), y.ravel())
    points = np.column_stack([x.ravel(), y.ravel()])[on].astype(np.float64)
    if case.warp is not None:
        away = found.map(points) - case.warp.to_pre(points)
    elif case.back is not None:
        back = transform.load(results / case.back / DYE / "transform.json")
        if back.has_failed:
            return math.nan
        away = back.map(found.map(points)) - points
    else:
        return math.nan
    return float(np.nanquantile(np.hypot(*away.T), 0.95)) if len(away) else math.nan


def _is_gain_wrong(case: Case, place: Path, rows: Mapping[str, Mapping[str, Any]]) -> bool:
    scale = json.loads((place / "scale.json").read_text("utf-8"))
    method = scale["methods"][scale["default"]]
    gain, interval = method.get("gain"), method.get("gain_ci95")
    if gain is None:
        return False
    if case.gain_like:
        like = [float(rows[name]["gain"]) for name in case.gain_like if rows[name].get("gain")]
        return bool(like) and abs(gain / float(np.mean(like)) - 1) > _LIKE
    if case.gain is None or not interval:
        return False
    half = max(interval[1] - gain, gain - interval[0])
    return not abs(gain - case.gain) <= GAIN_INTERVALS * half  # none is right if it is NaN


def predict_found(peaks: Floats, completeness: Mapping[str, Any] | None) -> float:
    """Return how many spots of these peaks a pair's completeness lets one expect; 0 if unknown."""
    if completeness is None or not len(peaks):
        return 0.0
    curve = [bin_ for bin_ in completeness["curve"] if bin_["injected"]]
    at = np.log([bin_["peak"] for bin_ in curve])
    share = [bin_["found"] / bin_["injected"] for bin_ in curve]
    return float(np.interp(np.log(peaks), at, share).sum())


def report(found: list[Verdict]) -> int:
    """Print the table by kind and the aims; return 1 where one is missed."""
    header = ["kind", "pairs", "ok", "of them wrong", "suspect", "of them wrong", "failed"]
    header += ["listed", "false, %"]
    kinds = list(dict.fromkeys(v.kind for v in found))
    print(table(header, [_line(kind, [v for v in found if v.kind == kind]) for kind in kinds]))
    ok, suspect = ([v for v in found if v.status == state] for state in ("ok", "suspect"))
    wrong = _share(ok)
    deserved = _share(suspect)
    print(
        f"\nok and wrong: {100 * wrong:.1f} % of {len(ok)} (aim: at most {100 * MOST_WRONG:.0f} %)"
    )
    print(
        f"suspect and wrong: {100 * deserved:.0f} % of {len(suspect)} "
        f"(aim: at least {100 * LEAST_DESERVED:.0f} %)"
    )
    return int(wrong > MOST_WRONG or (bool(suspect) and deserved < LEAST_DESERVED))


def _share(some: list[Verdict]) -> float:
    return sum(bool(v.wrong) for v in some) / len(some) if some else 0.0


def _line(kind: str, some: list[Verdict]) -> list[str]:
    by_state = {s: [v for v in some if v.status == s] for s in ("ok", "suspect", "failed")}
    judged = [v for v in by_state["ok"] if not math.isnan(v.false)]
    listed, false = sum(v.counted for v in judged), sum(v.false for v in judged)
    cells = [
        text
        for state in ("ok", "suspect")
        for text in (str(len(by_state[state])), str(sum(bool(v.wrong) for v in by_state[state])))
    ]
    share = f"{100 * false / listed:.1f}" if listed else "-"
    return [kind, str(len(some)), *cells, str(len(by_state["failed"])), str(listed), share]
