"""Running the workflow on batches as far as the candidates, and keeping its small results."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import yaml
from running import PROJECT, run, say, snakemake_words

from damage.cases import DYE, is_made, make_batch, truth_path

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from damage.cases import Batch, Case

KEPT = ("candidates.csv", "detection.json", "scale.json", "transform.json", "artefacts.geojson")
"""What is kept of a pair, where it exists; no pixels."""
ROW = "row.json"
"""The pair's row of summary.tsv; written last."""
FOUND, FOUND_WITHOUT = "found", "found-without"
"""Directories of a batch with small results: with the finder of spoilt places, and without."""


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
        Also run without the finder of spoilt places; nothing happens where `finder_is_off` is None.
    """
    place = directory / batch.name
    runs: dict[str, dict[str, str]] = {FOUND: {}}
    off = finder_is_off()
    if without and off is not None:
        runs[FOUND_WITHOUT] = off
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
    with (results / "summary.tsv").open(encoding="utf-8", newline="") as stream:
        rows = {row["sample"]: row for row in csv.DictReader(stream, delimiter="\t")}
    for case in cases:
        target = found / case.name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        raw = found.parent / "raw" / case.name
        shutil.copyfile(truth_path(raw), truth_path(target))
        for name in KEPT:
            source = results / case.name / DYE / name
            if source.is_file():
                shutil.copyfile(source, target / name)
        row = rows.get(case.name, {"status": "incomplete", "reasons": "not in the summary"})
        (target / ROW).write_text(json.dumps(row) + "\n", encoding="utf-8")


@cache
def finder_is_off() -> dict[str, str] | None:
    """Return the configuration without the finder of spoilt places; None if it has no switch."""
    shipped: dict[str, Any] = yaml.safe_load((PROJECT / "config" / "config.yaml").read_text())
    if "spoilt" in shipped["detect"]:
        return {"detect": "{spoilt: never}"}
    return None
