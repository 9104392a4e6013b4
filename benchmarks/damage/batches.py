"""Batches of phantoms with damage: made, run as far as the candidates, and their small results."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from phantom_damage.pair import DamagedRenderer, DamagedTruth, make_pair
from running import run, say, snakemake_words

from unglow.core.errors import InputError
from unglow.phantom.pair import make_raster, write_tiff
from unglow.results import read_summary

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from phantom_damage.kinds import DamagedPair

DYE = "SYTO9"
UNDAMAGED = "undamaged"
SIZES: dict[str, tuple[int, int, int]] = {
    "lost": (60, 120, 250),
    "debris": (40, 100, 160),
    "film": (40, 80, 150),
    "fold": (20, 50, 80),
    "blur": (100, 150, 300),
    "bleach": (100, 200, 300),
    "moved": (60, 100, 200),
    "tile": (64, 128, 256),
}
"""Kinds of spoilt places and their small, middle and large size, px; see `DamagedPair`."""
KEPT = (
    "candidates.csv",
    "details/detection.json",
    "scale.json",
    "transform.json",
    "artefacts.geojson",
)
"""What is kept of a pair, where it exists; no pixels."""
ROW = "row.json"
"""The pair's row of summary.tsv; written last."""
FOUND, FOUND_WITHOUT = "found", "found-without"
"""Directories of a batch with small results: with the finder of spoilt places, and without."""
_IN_BOTH_IMAGES = ("dust", "swap")


@dataclass(frozen=True)
class Case:
    """One pair.

    Attributes
    ----------
    name
        Its sample.
    spec
        The phantom.
    kind, size
        Of its only spoilt place, or the name of its fault; `UNDAMAGED` and 0 without any.
    """

    name: str
    spec: DamagedPair
    kind: str = UNDAMAGED
    size: int = 0

    @property
    def scene(self) -> DamagedPair:
        """The same pair without damage."""
        return replace(self.spec, damage="", damage_seed=0)


@dataclass(frozen=True)
class Batch:
    """Pairs that the workflow runs at once, in a directory of this name."""

    name: str
    cases: tuple[Case, ...]


def make_batch(cases: Iterable[Case], raw: Path, workers: int) -> None:
    """Make the pairs that are not there, below ``raw``; pre is linked where scenes are the same."""
    with_pre: dict[DamagedPair, Path] = {}
    for case in cases:
        folder = raw / case.name
        if not is_made(case, folder):
            say(f"making {case.name}")
            shutil.rmtree(folder, ignore_errors=True)
            source = with_pre.get(case.scene)
            if source is None or _changes_pre(case):
                make_pair(case.spec, raw, case.name, DYE, workers=workers)
            else:
                _make_post(case, folder, source, workers)
        if not _changes_pre(case):
            with_pre.setdefault(case.scene, image_path(folder, "pre").resolve())


def is_made(case: Case, folder: Path) -> bool:
    """Whether a folder holds the truth of this very pair, which is written last."""
    try:
        return DamagedTruth.load(truth_path(folder)).spec == case.spec
    except InputError:
        return False


def image_path(folder: Path, role: str) -> Path:
    """Return the path of an image of the pair that a folder is named after."""
    return folder / f"{folder.name}_{role}_{DYE}.tif"


def truth_path(folder: Path) -> Path:
    """Return the path of the truth of the pair that a folder is named after."""
    return folder / f"{folder.name}_{DYE}_truth.json"


def _changes_pre(case: Case) -> bool:
    return any(one.kind in _IN_BOTH_IMAGES for one in case.spec.damages)


def _make_post(case: Case, folder: Path, pre: Path, workers: int) -> None:
    """Write what differs from a pair of the same scene: post and truth."""
    renderer = DamagedRenderer(case.spec)
    folder.mkdir(parents=True)
    image_path(folder, "pre").symlink_to(os.path.relpath(pre, folder.resolve()))
    write_tiff(image_path(folder, "post"), make_raster(renderer, "post"), workers)
    renderer.make_truth(case.name, DYE).save(truth_path(folder))


def run_batch(batch: Batch, directory: Path, jobs: int, *, without: bool = False) -> Path:
    """Make and run what is not there yet; return the directory that holds the batch.

    Parameters
    ----------
    batch
        Pairs.
    directory
        For all batches.
    jobs
        Cores.
    without
        Also run without the finder of spoilt places.
    """
    place = directory / batch.name
    runs: dict[str, dict[str, str]] = {FOUND: {}}
    if without:
        runs[FOUND_WITHOUT] = {"detect": "{spoilt: never}"}
    missing = [
        case for case in batch.cases if not all(_is_done(case, place / found) for found in runs)
    ]
    if missing:
        make_batch(batch.cases, place / "raw", jobs)
        _run(missing, place, jobs, runs)
    return place


def _is_done(case: Case, found: Path) -> bool:
    return (found / case.name / ROW).is_file() and is_made(case, found / case.name)


def _run(cases: list[Case], place: Path, jobs: int, runs: dict[str, dict[str, str]]) -> None:
    """Run pairs in an empty directory, keep their small results, remove the rest."""
    work = place / "run"
    shutil.rmtree(work, ignore_errors=True)
    (work / "raw").mkdir(parents=True)
    for case in cases:
        (work / "raw" / case.name).symlink_to((place / "raw" / case.name).resolve())
    for found, config in runs.items():
        say(f"{place.name}: running {len(cases)} pairs{' without the finder' if config else ''}")
        words = snakemake_words(jobs, {"allow_failed": "true", **config})
        _, text = run(*words, "--until", "detect", "summary", directory=work)
        summary = work / "results" / "summary.tsv"
        if not summary.is_file():
            end = "\n".join(text.splitlines()[-30:])
            sys.exit(f"{end}\nno summary in {work}")
        collect(cases, summary.parent, place / found)
    shutil.rmtree(work)


def collect(cases: Iterable[Case], results: Path, found: Path) -> None:
    """Copy the small results of pairs, with their truth and their row of the summary."""
    rows = {row["sample"]: row for row in read_summary(results / "summary.tsv")}
    for case in cases:
        target = found / case.name
        shutil.rmtree(target, ignore_errors=True)
        (target / "details").mkdir(parents=True)
        raw = found.parent / "raw" / case.name
        shutil.copyfile(truth_path(raw), truth_path(target))
        for name in KEPT:
            source = results / case.name / DYE / name
            if source.is_file():
                shutil.copyfile(source, target / name)
        row = rows.get(case.name, {"status": "incomplete", "reasons": "not in the summary"})
        (target / ROW).write_text(json.dumps(row) + "\n", encoding="utf-8")
