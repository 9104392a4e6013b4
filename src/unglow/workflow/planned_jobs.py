"""The jobs that a batch consists of, done or not, and the files that a run makes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from unglow.core.levels import VARIANT
from unglow.core.settings import to_json
from unglow.workflow.job_resources import disk_mb
from unglow.workflow.paths import CORRECTED, FORMS, PLACES
from unglow.workflow.samples import ROLES
from unglow.workflow.scale_methods import scale_methods, written_methods
from unglow.workflow.stage_table import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from unglow.workflow.batch import Batch

    Wildcards = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """One job of a batch.

    Attributes
    ----------
    rule, wildcards
        Which job it is; names of variants are '' where nothing is swept.
    files
        What it leaves except for digests, as paths with ``<results>``.
    disk_mb
        Upper bound of what it adds on disk, MB.
    """

    rule: str
    wildcards: Wildcards
    files: tuple[str, ...]
    disk_mb: int


def jobs_of(batch: Batch, sample: str, dye: str) -> Iterator[PlannedJob]:
    """List every job of one of `Batch.keys`."""
    return jobs_of_pair(batch, sample, dye) if dye else jobs_of_slide(batch, sample)


def jobs_of_pair(batch: Batch, sample: str, dye: str) -> Iterator[PlannedJob]:
    """List every job of a pair, in the order of the table of stages."""
    for rule, stage in STAGES.items():
        if stage.level in PLACES and _is_wanted(batch, rule):
            for variant in variants_of(batch, stage.level, {"sample": sample, "dye": dye}):
                for wildcards in _jobs_of(batch, rule, variant):
                    yield _job(batch, rule, wildcards)


def jobs_of_slide(batch: Batch, name: str) -> Iterator[PlannedJob]:
    """List every job of a slide, in the order of the table of stages.

    A corrected image is missed only where the subtraction was not refused.
    """
    known = batch.slides[name]
    for rule, stage in STAGES.items():
        if stage.level == "move":
            for a, b in known.slide.moves:
                yield _job(batch, rule, {"sample": name, "cycle": f"{a}-{b}"})
        elif stage.level == "part":
            for part in range(len(known.bands)):
                # nobody asks for parts themselves: they are removed when they are joined
                job = _job(batch, rule, {"sample": name, "part": str(part)})
                joined = batch.outputs.slide("subtraction.json").format(sample=name)
                yield replace(job, files=(joined,))
        elif stage.level == "slide":
            job = _job(batch, rule, {"sample": name})
            writes = rule == "slide_subtract" and name not in batch.refused
            corrected = corrected_files(batch).values() if writes else ()
            more = (batch.outputs.slide(one).format(sample=name) for one in corrected)
            yield replace(job, files=(*more, *job.files))


def corrected_files(batch: Batch) -> dict[str, str]:
    """Return what the corrected image of every slide is written as, by form."""
    chosen = batch.settings.multiplexed.output
    return {form: CORRECTED[form] for form in CORRECTED if chosen in (form, "both")}


def jobs_of_run(batch: Batch) -> list[PlannedJob]:
    """List the jobs that there are once in a run: those on the results of all pairs."""
    return [_job(batch, rule, {}) for rule, stage in STAGES.items() if stage.level == "run"]


def final_outputs(batch: Batch) -> list[str]:
    """Return every file that a run makes except for digests, sorted.

    Snakemake does not miss a file that nobody asks for, as long as others of its job are there.
    Nobody asks for digests: results of a version of unglow without them are complete.
    """
    all_keys = itertools.chain.from_iterable(jobs_of(batch, *key) for key in batch.keys)
    jobs = itertools.chain(all_keys, jobs_of_run(batch))
    return sorted({file for job in jobs for file in job.files})


def variants_of(batch: Batch, level: str, pair: Wildcards) -> Iterator[dict[str, str]]:
    """Yield the wildcards of each variant of a pair that has a directory of a level."""
    levels = VARIANT[: PLACES.index(level)]
    for chosen in itertools.product(*(batch.variants[one] for one in levels)):
        yield {**pair, **dict(zip(levels, chosen, strict=True))}


def _is_wanted(batch: Batch, rule: str) -> bool:
    """Return whether the configuration asks for a stage: for the ratio to noise in any form."""
    if rule == "snr":
        return any("snr" in images for images in to_json(batch.settings.exports).values())
    return rule != "comparison" or bool(batch.settings.sweep)


def _jobs_of(batch: Batch, rule: str, variant: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yield the wildcards of each job of a rule for a variant of a pair."""
    exports = to_json(batch.settings.exports)

    def exported(image: str, **more: str) -> Iterator[dict[str, str]]:
        forms = (form for key, form in FORMS.items() if image in exports[key])
        yield from ({**variant, **more, "form": form} for form in forms)

    match rule:
        case "export_raw":
            for role in ROLES:
                yield from exported(role, role=role)
        case "export_aligned_pre" | "export_snr":
            yield from exported(rule.removeprefix("export_"))
        case "export_difference":
            for method in scale_methods(batch, variant):
                yield from exported("difference", method=method)
        case "difference":
            yield from ({**variant, "method": m} for m in written_methods(batch, variant))
        case _:
            yield variant


def _job(batch: Batch, rule: str, wildcards: Wildcards) -> PlannedJob:
    stage, out = STAGES[rule], batch.outputs
    patterns = [out.file(stage.level, name) for name in stage.files.values()]
    patterns = patterns or [out.digests(rule, stage.level)]  # a directory of files has these
    files = tuple(pattern.format(**wildcards) for pattern in patterns)
    return PlannedJob(rule, wildcards, files, disk_mb(batch, rule, wildcards))
