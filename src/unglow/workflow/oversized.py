"""Pairs and slides that cannot fit by themselves: they are skipped before the graph is made.

Only headers and the names of files are looked at. The others continue; where none would remain
nothing is skipped, so that the run is refused with what would help (`unglow.workflow.preflight`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from unglow.core.machine import disk_free_mb
from unglow.core.rounding import gigabytes
from unglow.workflow.job_resources import advise_on_image, demand_of, disk_mb
from unglow.workflow.planned_jobs import is_missing, jobs_of
from unglow.workflow.samples.pair import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from unglow.workflow.batch import Batch


def skip_oversized(
    batch: Batch, results: Path, limit_mb: float | None, available_mb: float | None
) -> Batch:
    """Return the batch without what cannot fit by itself, each with a problem that says so.

    Parameters
    ----------
    results
        Where results go: of what is there already nothing is needed.
    limit_mb, available_mb
        Memory of all jobs together, and what this machine has now; None where jobs do not run here
        or there is no limit.
    """
    bounds = [
        (available_mb, "MB are available", "run it on a machine with more memory"),
        (limit_mb, "MB are allowed for all jobs together", "raise --resources mem_mb"),
        (batch.settings.memory_per_job, "MB are allowed by memory_per_job", "raise that"),
    ]
    free_mb = disk_free_mb(results)
    sentences: dict[tuple[str, str], str] = {}
    for key in batch.keys:
        jobs = [job for job in jobs_of(batch, *key) if is_missing(job, results)]
        name = " ".join(filter(None, key))
        disk = sum(disk_mb(batch, job.rule, job.wildcards) for job in jobs)
        sentence = _about_disk(name, disk, free_mb, results)
        needs = [(demand_of(batch, j.rule, j.wildcards).peak_mb(0, 1), j) for j in jobs]
        least, heaviest = max(needs, key=lambda one: one[0], default=(0, None))
        for mb, what, helps in bounds:
            if heaviest is not None and mb is not None and least > mb:
                sentence = (
                    f"{name}: its job {heaviest.rule} needs at least {least} MB of "
                    f"memory, but {mb:.0f} {what}: {helps}, or set force_run: true."
                )
                is_image = heaviest.rule == "ingest"
                advice = advise_on_image(batch, heaviest.wildcards) if is_image else ""
                sentence += f" Or {advice}." if advice else ""
                break
        if sentence is not None:
            sentences[key] = sentence
    sentences |= dict(_followers(batch, sentences))
    if not sentences or len(sentences) == len(batch.keys):
        return batch
    problems = [
        Problem(
            sentence,
            "oversized",
            key[0],
            key[1] or None,
            batch.pairs[key].files[:2] if key[1] else batch.slides[key[0]].slide.images,
        )
        for key, sentence in sentences.items()
    ]
    left = leave_out(batch, sentences)
    return replace(left, problems=(*batch.problems, *problems))


def leave_out(batch: Batch, keys: Collection[tuple[str, str]]) -> Batch:
    """Return the batch without pairs and slides; the key of a slide has no dye."""
    return replace(
        batch,
        pairs={key: pair for key, pair in batch.pairs.items() if key not in keys},
        slides={name: one for name, one in batch.slides.items() if (name, "") not in keys},
    )


def _about_disk(name: str, needed: int, free_mb: float, results: Path) -> str | None:
    if needed <= free_mb:
        return None
    return (
        f"{name}: its results take up to {gigabytes(needed)} GB, but {gigabytes(free_mb)} GB are "
        f"free for {results}: free space, set another results directory, or set force_run: true."
    )


def _followers(
    batch: Batch, skipped: dict[tuple[str, str], str]
) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the pairs that take the map of one that is skipped, or of a slide."""
    for key, pair in batch.pairs.items():
        of_dye = pair.sample, batch.maps_from.get(key, "")
        of_slide = pair.slide or "", ""
        source = next((one for one in (of_dye, of_slide) if one in skipped), None)
        if source is not None and key not in skipped:
            name = " ".join(filter(None, source))
            yield key, f"{' '.join(key)} takes the map of {name}, which is skipped."
