"""Landmarks of ANHIR or CIMA, as BIRL keeps them: the measures of the challenge's table.

The files are a user's own: images next to landmarks of the same name (``,X,Y`` lines in px), in a
directory for each tissue and scale. With ``--cover`` the pairs are those of a file such as
``dataset_medium.csv``, otherwise all ordered pairs of a directory.

Formulas are those of the paper (doi:10.1109/TMI.2020.2986331) and of its evaluation: rTRE is the
distance of a warped landmark of the source from that of the target, over the diagonal of the
target; robustness is the share of landmarks that came nearer. A pair that was refused counts with
its landmarks as they are, and with a robustness of 0.
"""

from __future__ import annotations

import csv
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from tables import save_json, table

from registration.pool import in_children, registered
from unglow.core.errors import InputError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from registration.geometry import Points

IMAGES = (".jpg", ".jpeg", ".png", ".tif", ".tiff")
_COVER = ("Target image", "Target landmarks", "Source image", "Source landmarks")
MEASURES = ("mean", "median", "max")


@dataclass(frozen=True)
class Case:
    """Files of a pair: source is warped to target."""

    target: Path
    target_landmarks: Path
    source: Path
    source_landmarks: Path

    @property
    def name(self) -> str:
        """Both images by their names."""
        return f"{self.source.stem} to {self.target.stem}"


@dataclass(frozen=True)
class Score:
    """What became of a pair; errors are rTRE of landmarks (N,), before and after."""

    name: str
    status: str
    reason: str
    before: Points
    after: Points

    @property
    def robustness(self) -> float:
        """Share of landmarks that came nearer; 0 of a refused pair."""
        return 0.0 if self.status == "failed" else float(np.mean(self.after < self.before))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("directory", type=Path, help="with <tissue>/scale-<n>pc/<image> and .csv")
    parser.add_argument("--cover", type=Path, metavar="CSV", help="which pairs (default: all)")


def run(args: argparse.Namespace) -> int:
    """Register all pairs and print the table."""
    try:
        cases = read_cover(args.cover, args.directory) if args.cover else find(args.directory)
    except InputError as error:
        print(error)
        return 2
    scores = sorted(in_children(measure, cases, args.jobs), key=lambda score: score.name)
    print(table_of_pairs(scores))
    print()
    print(table_of_all(scores))
    save_json(args.json, {s.name: {"status": s.status, "rTRE": s.after} for s in scores})
    return 0


def find(directory: Path) -> list[Case]:
    """Return all ordered pairs of images with landmarks that are in one directory."""
    images = (p for p in sorted(directory.rglob("*")) if p.suffix.lower() in IMAGES)
    known = [image for image in images if image.with_suffix(".csv").is_file()]
    cases = [
        Case(target, target.with_suffix(".csv"), source, source.with_suffix(".csv"))
        for source, target in itertools.permutations(known, 2)
        if source.parent == target.parent
    ]
    if not cases:
        raise InputError(
            f"{directory} has no two images with landmarks (.csv of the same name) in one "
            "directory; give the directory of the data set."
        )
    return cases


def read_cover(cover: Path, directory: Path) -> list[Case]:
    """Return the pairs of a list whose landmarks of both images are there.

    Those of the challenge's test are not public, and only named.
    """
    with cover.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    missing = [name for name in _COVER if not rows or name not in rows[0]]
    if missing:
        raise InputError(f"{cover} has no column '{missing[0]}'; give a list of pairs of BIRL.")
    cases = [Case(*(directory / row[name] for name in _COVER)) for row in rows]
    there = [c for c in cases if c.target_landmarks.is_file() and c.source_landmarks.is_file()]
    print(f"{len(there)} of {len(cases)} pairs of {cover} have landmarks of both images here")
    return there


def read_landmarks(path: Path) -> Points:
    """Read points (N, 2), (x, y) in px."""
    with path.open(encoding="utf-8", newline="") as stream:
        points = [(float(row["X"]), float(row["Y"])) for row in csv.DictReader(stream)]
    return np.array(points, dtype=np.float64).reshape(-1, 2)


def read_grey(path: Path) -> Any:
    """Read an image as grey levels, (rows, cols) uint8."""
    image = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    if image is None:
        raise InputError(f"{path} cannot be read as an image; is it complete?")
    return image


def measure(case: Case) -> Score:
    """Register target (as post) and source (as pre), and compare their landmarks."""
    target, source = read_grey(case.target), read_grey(case.source)
    there, here = read_landmarks(case.target_landmarks), read_landmarks(case.source_landmarks)
    count = min(len(there), len(here))  # as BIRL compares them
    found = registered(target, source)[0].transform
    warped = found.inverse_map(here[:count])
    reason = found.reasons[0] if found.reasons else ""
    return judge(
        case.name, (found.status, reason), there[:count], here[:count], warped, target.shape
    )


def judge(
    name: str,
    verdict: tuple[str, str],
    target: Points,
    source: Points,
    warped: Points,
    shape: Sequence[int],
) -> Score:
    """Return the score of a pair from landmarks (N, 2), px, and the target's (rows, columns).

    A landmark without a warped position counts as it was.
    """
    diagonal = float(np.hypot(shape[0], shape[1]))
    before = np.hypot(*(source - target).T) / diagonal
    after = np.hypot(*(warped - target).T) / diagonal
    return Score(name, *verdict, before, np.where(np.isfinite(after), after, before))


def table_of_pairs(scores: Sequence[Score]) -> str:
    """Return a line for each pair, rTRE in percent of the diagonal."""
    header = (
        "source to target",
        "status",
        "landmarks",
        "before: median",
        "median",
        "max",
        "robust",
    )
    rows = [
        (
            s.name,
            s.status,
            str(len(s.after)),
            *(f"{100 * v:.3f}" for v in (np.median(s.before), np.median(s.after), s.after.max())),
            f"{s.robustness:.2f}",
        )
        for s in scores
    ]
    reasons = "".join(f"\n  {s.name}: {s.reason}" for s in scores if s.reason)
    return "rTRE in % of the diagonal\n" + table(header, rows, left=2) + reasons


def table_of_all(scores: Sequence[Score]) -> str:
    """Return mean and median over pairs of each measure, of all pairs and of those not refused."""
    given = [s for s in scores if s.status != "failed"]
    rows = []
    for kind, chosen in (("all pairs", scores), ("not refused", given)):
        each = {m: [100 * getattr(np, m)(s.after) for s in chosen] for m in MEASURES}
        values = [f(each[m]) for m in MEASURES for f in (np.mean, np.median) if chosen]
        cells = [f"{v:.3f}" for v in values] or ["-"] * 6
        robust = f"{np.mean([s.robustness for s in chosen]):.3f}" if chosen else "-"
        rows.append((kind, str(len(chosen)), *cells, robust))
    names = [f"{over} {m}" for m in MEASURES for over in ("mean of", "median of")]
    return table(("rTRE, % of the diagonal", "pairs", *names, "robustness"), rows)
