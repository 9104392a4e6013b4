"""Pairs and slides that are skipped: what one of their jobs, or their results, take is not there.

Others of the run continue. Where none would remain nothing is skipped, so that the run is refused
with all that would help (`unglow.workflow.preflight.check`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from unglow.core.machine import disk_free_mb
from unglow.core.rounding import gigabytes
from unglow.workflow.preflight.pending_jobs import pending_jobs
from unglow.workflow.samples import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from unglow.workflow.batch import Batch
    from unglow.workflow.preflight.pending_jobs import PendingJob


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
    known = [(mb, what, remedy) for mb, what, remedy in bounds if mb is not None]
    free_mb = disk_free_mb(results)
    sentences: dict[tuple[str, str], str] = {}
    for key in batch.keys:
        pending = pending_jobs(batch, results, only=[key])
        jobs = [job for job in pending if job.variant[:2] == key]
        name = " ".join(filter(None, key))
        sentence = _about_disk(name, jobs, free_mb, results)
        heaviest = max(jobs, key=lambda job: job.least_mb, default=None)
        for mb, what, remedy in known if heaviest is not None else ():
            if heaviest is not None and heaviest.least_mb > mb:
                sentence = (
                    f"{name}: its job {heaviest.rule} needs at least {heaviest.least_mb} MB of "
                    f"memory, but {mb:.0f} {what}: {remedy}, or set force_run: true."
                )
                sentence += f" Or {heaviest.advice}." if heaviest.advice else ""
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
    return replace(
        batch,
        pairs={key: pair for key, pair in batch.pairs.items() if key not in sentences},
        slides={name: one for name, one in batch.slides.items() if (name, "") not in sentences},
        problems=(*batch.problems, *problems),
    )


def _about_disk(name: str, jobs: Sequence[PendingJob], free_mb: float, results: Path) -> str | None:
    needed = sum(job.disk_mb for job in jobs)
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
