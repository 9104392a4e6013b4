"""Jobs of a batch, done or not, the files that a run makes, and the scale methods of each pair."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from unglow.core.levels import VARIANT
from unglow.images.pair_plan import ROLES
from unglow.photometry.gain.scale import METHODS
from unglow.results.slide_files import SUBTRACTION
from unglow.workflow.stage_table import CORRECTED, FORMS, PLACES, STAGES, figures_of, files_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from unglow.workflow.batch import Batch
    from unglow.workflow.samples.pair import Pair
    from unglow.workflow.settings import Settings

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
    """

    rule: str
    wildcards: Wildcards
    files: tuple[str, ...]


def jobs_of(batch: Batch, sample: str, dye: str) -> list[PlannedJob]:
    """List every job of one of `Batch.keys`; it is made once."""
    key = sample, dye
    if key not in batch.planned:
        jobs = jobs_of_pair(batch, *key) if dye else jobs_of_slide(batch, sample)
        batch.planned[key] = [*jobs]
    return batch.planned[key]


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
                joined = batch.outputs.file("slide", SUBTRACTION).format(sample=name)
                yield replace(job, files=(joined,))
        elif stage.level == "slide":
            job = _job(batch, rule, {"sample": name})
            writes = rule == "slide_subtract" and name not in batch.refused
            corrected = corrected_files(batch).values() if writes else ()
            more = (batch.outputs.file("slide", one).format(sample=name) for one in corrected)
            yield replace(job, files=(*more, *job.files))


def corrected_files(batch: Batch) -> dict[str, str]:
    """Return what the corrected image of every slide is written as, by form."""
    chosen = batch.settings.multiplexed.output
    return {form: CORRECTED[form] for form in CORRECTED if chosen in (form, "both")}


def jobs_of_run(batch: Batch) -> list[PlannedJob]:
    """List the jobs that there are once in a run: those on the results of all pairs."""
    return [_job(batch, rule, {}) for rule, stage in STAGES.items() if stage.level == "run"]


def is_missing(job: PlannedJob, results: Path) -> bool:
    """Return whether a file of a job is not there."""
    files = (results / file.removeprefix("<results>/") for file in job.files)
    return not all(file.is_file() for file in files)


def final_outputs(batch: Batch) -> list[str]:
    """Return every file that a run makes except for digests, sorted.

    Snakemake does not miss a file that nobody asks for, as long as others of its job are there.
    Nobody asks for digests.
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
    if rule == "figures_registration":
        return bool(figures_of(rule, batch.outputs))
    if rule == "snr":
        return any("snr" in getattr(batch.settings.exports, form) for form in ("zarr", *FORMS))
    return True


def _jobs_of(batch: Batch, rule: str, variant: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yield the wildcards of each job of a rule for a variant of a pair."""

    def exported(image: str, **more: str) -> Iterator[dict[str, str]]:
        exports = batch.settings.exports
        forms = (form for key, form in FORMS.items() if image in getattr(exports, key))
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
        case "difference_method":
            yield from ({**variant, "method": m} for m in written_methods(batch, variant)[1:])
        case _:
            yield variant


def _job(batch: Batch, rule: str, wildcards: Wildcards) -> PlannedJob:
    stage, out = STAGES[rule], batch.outputs
    patterns = [out.file(stage.level, name) for name in files_of(rule, out)]
    return PlannedJob(rule, wildcards, tuple(p.format(**wildcards) for p in patterns))


def manual_gain(pair: Pair, settings: Settings) -> float | None:
    """Return the manual gain of a pair: its own, or the configuration's, or None."""
    own = pair.manual_scale
    gain = own if own is not None else settings.scale.manual
    return None if gain is None else float(gain)


def scale_methods(batch: Batch, wildcards: Wildcards) -> tuple[str, ...]:
    """Return the scale methods of a pair; a given manual gain switches ``manual`` on.

    So do controls with ``control``, if that is the default. Exposure times are known of slides
    alone.
    """
    settings = batch.variant_settings(wildcards)
    given = {
        "manual": manual_gain(batch.pair(wildcards), settings) is not None,
        "control": settings.scale.default == "control" and bool(control_samples(batch, wildcards)),
    }
    methods = tuple(m for m in settings.scale.methods if m != "exposure")
    return (*methods, *(m for m, is_on in given.items() if is_on and m not in methods))


def control_samples(batch: Batch, wildcards: Wildcards) -> list[str]:
    """Return the samples that are unstained controls of a pair's dye; of a control, none."""
    pair = batch.pair(wildcards)
    return [] if pair.control else [s for s, dye in batch.controls if dye == pair.dye]


def main_method(batch: Batch, wildcards: Wildcards) -> str:
    """Return the main method of a pair, whose difference is always written."""
    default, methods = (
        batch.variant_settings(wildcards).scale.default,
        scale_methods(batch, wildcards),
    )
    return default if default in methods else methods[0]


def written_methods(batch: Batch, wildcards: Wildcards) -> tuple[str, ...]:
    """Return the methods whose differences are written at full size, the main one first."""
    main = main_method(batch, wildcards)
    more = batch.variant_settings(wildcards).scale.write or ()
    others = (m for m in scale_methods(batch, wildcards) if m != main)
    return (main, *(m for m in others if more == "all" or m in more))


def method_of(batch: Batch, wildcards: Wildcards) -> str:
    """Return the method of a job that writes a difference: the one it names, or the main one."""
    return wildcards.get("method") or main_method(batch, wildcards)


def same_difference_as(batch: Batch, wildcards: Wildcards) -> str | None:
    """Return the first variant of the subtraction whose difference by a method has to be the same.

    None if that is the one that the wildcards name themselves (``method`` among them).
    """
    method = method_of(batch, wildcards)
    wildcards = {**wildcards, "method": method}

    def follows(names: Wildcards) -> list[Any] | None:
        written = method in written_methods(batch, names)
        return _follows_from(batch, names) if written else None

    return _first_same(batch, "subtraction", wildcards, follows)


def same_ratio_as(batch: Batch, wildcards: Wildcards) -> str | None:
    """Return the first variant of the search with the same signal-to-noise ratio, as above."""

    def follows(names: Wildcards) -> dict[str, float]:
        return batch.variant_settings(names).detect.ratio_settings

    return _first_same(batch, "detection", wildcards, follows)


def _first_same(
    batch: Batch,
    level: str,
    wildcards: Wildcards,
    follows: Callable[[Mapping[str, str]], Any],
) -> str | None:
    """Return the first variant on a level for which ``follows`` gives the same; None for itself."""
    made = batch.variants[level]
    if len(made) == 1:
        return None
    others = ("sample", "dye", "method", *VARIANT[: VARIANT.index(level)])
    key = level, *(wildcards.get(name, "") for name in others)
    if key not in batch.first_same:  # compared once for all variants
        first: dict[str, str] = {}
        batch.first_same[key] = {
            name: first.setdefault(repr(follows({**wildcards, level: name})), name) for name in made
        }
    same = batch.first_same[key][wildcards[level]]
    return None if same == wildcards[level] else same


def _follows_from(batch: Batch, wildcards: Wildcards) -> list[Any]:
    """Return what of the configuration a difference by a method follows from.

    The focus is matched by what the main method finds.
    """
    settings = batch.variant_settings(wildcards)
    manual = manual_gain(batch.pair(wildcards), settings)
    scale = msgspec.structs.replace(settings.scale, manual=manual)
    blur = scale.match_blur
    methods = [wildcards["method"], *([] if blur == "never" else [main_method(batch, wildcards)])]
    return [blur, [(m, [getattr(scale, name) for name in METHODS[m].settings]) for m in methods]]
