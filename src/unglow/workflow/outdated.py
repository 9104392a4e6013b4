"""Results that a run of now would make with other settings, versions or inputs.

A table says of each rule what its jobs are given: it is compared with the rules by a test, so that
no Snakefile is read here.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unglow.core.levels import LEVELS
from unglow.core.made_with import Lists, find_changes
from unglow.images.pair_plan import ROLES
from unglow.workflow import job_params
from unglow.workflow.planned_jobs import control_samples, jobs_of
from unglow.workflow.stage_table import STAGES, name_digests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from unglow.workflow.batch import Batch

    Wildcards = Mapping[str, str]
    OfJob = Callable[[Batch, Wildcards], Any]


class Given(NamedTuple):
    """What the jobs of a rule are given.

    Attributes
    ----------
    version
        Its ``version``.
    params
        Functions of its other params, by name; without those of `unglow.core.made_with.LEFT_OUT`.
    inputs
        Functions of those inputs that follow from the configuration or the sample sheet.
    """

    version: int
    params: Mapping[str, OfJob] = {}
    inputs: tuple[OfJob, ...] = ()


def _make_getter(section: str, key: str) -> OfJob:
    return lambda batch, _wildcards: getattr(getattr(batch.settings, section), key)


_IMAGES = (job_params.slide_images,)
_WRITTEN = {
    "slide": job_params.slide_record,
    **{key: _make_getter("multiplexed", key) for key in ("dtype", "rounding")},
}
GIVEN = {
    "ingest": Given(
        3,
        {"channel": job_params.channel_setting}
        | {f"{role}_header": partial(job_params.header_record, role=role) for role in ROLES},
        tuple(partial(job_params.raw_image, role=role) for role in ROLES),
    ),
    "register": Given(
        16, {"settings": job_params.register_settings}, (job_params.register_inputs,)
    ),
    "align": Given(6),
    "scale": Given(15, {"settings": job_params.scale_settings}, (job_params.control_scales,)),
    "difference": Given(7),
    "difference_method": Given(7),
    "detect": Given(
        15,
        {
            "settings": job_params.detect_settings,
            "controls": control_samples,
            "is_control": job_params.is_control,
        },
        (job_params.drawn_regions, job_params.control_search_counts),
    ),
    "snr": Given(3, {"settings": job_params.snr_settings}, (job_params.drawn_regions,)),
    "export_raw": Given(2),
    "export_aligned_pre": Given(2),
    "export_difference": Given(2),
    "export_snr": Given(2),
    "figures_registration": Given(12),
    "figures": Given(13),
    "slide_register": Given(
        9,
        {
            "slide": job_params.registered_slide,
            "settings": job_params.slide_register_settings,
            "spoilt": job_params.finds_spoilt,
        },
        _IMAGES,
    ),
    "slide_scale": Given(
        13,
        {
            "slide": job_params.slide_record,
            "settings": job_params.slide_scale_settings,
            "max_spoilt": _make_getter("detect", "max_spoilt"),
            "suspect_px": _make_getter("register", "suspect_px"),
            "several": _make_getter("multiplexed", "several_backgrounds"),
        },
        _IMAGES,
    ),
    "slide_subtract": Given(5, {**_WRITTEN, "own_cells": job_params.slide_own_cells}, _IMAGES),
    "slide_figures": Given(3),
}
"""By rule. Parts of a slide are no results, and the tables of the run are written with each run."""


def params_of(batch: Batch, rule: str, wildcards: Wildcards) -> dict[str, Any]:
    """Return the params of a job that change its results."""
    given = GIVEN[rule]
    made = {name: function(batch, wildcards) for name, function in given.params.items()}
    return {"version": given.version, **made}


def inputs_of(batch: Batch, rule: str, wildcards: Wildcards) -> list[str]:
    """Return the inputs of a job that follow from the configuration or the sample sheet."""
    found: list[str] = []
    for function in GIVEN[rule].inputs:
        files = function(batch, wildcards)
        lists = files.values() if isinstance(files, dict) else [files]
        for paths in lists:
            found += [paths] if isinstance(paths, str) else paths
    return [
        _resolve(batch, path.format(**wildcards)) if path.startswith("<results>") else path
        for path in found
    ]


def summary_entries(
    batch: Batch, wildcards: Wildcards, logs: str, *, in_run: bool = True
) -> list[dict[str, Any]]:
    """Return entries of the summary, as `job_params.summary_entries`, with what is outdated.

    In a run, of what it leaves aside alone: its job of the summary comes after all others.
    """
    entries = job_params.summary_entries(batch, wildcards, logs)
    find = Outdated(batch).describe
    for entry in entries:
        names = entry.get("names", {"sample": entry.get("sample"), "dye": ""})
        key = names["sample"], names["dye"]
        if (not in_run or key in batch.others) and (text := find(*key, names)):
            entry["outdated"] = text
    return entries


class Outdated:
    """What is outdated of the pairs and slides of a batch, as their lists of digests say.

    It works in the directory of the run, and reads each list once.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch, self._lists = batch, Lists(Path(batch.settings.results))
        self._changes: dict[tuple[str, str], list[tuple[Wildcards, list[str]]]] = {}

    def describe(self, sample: str, dye: str, names: Wildcards) -> str:
        """Return what is outdated of a variant of one of `Batch.keys`, in words; '' for nothing."""
        key = sample, dye
        if key not in self._changes:
            self._changes[key] = [*self._find_changes(*key)]
        found = [
            change
            for wildcards, changes in self._changes[key]
            if all(wildcards.get(level, "") in ("", names.get(level)) for level in LEVELS[2:])
            for change in changes
        ]
        return "; ".join(dict.fromkeys(found))

    def _find_changes(self, sample: str, dye: str) -> Iterator[tuple[Wildcards, list[str]]]:
        batch, lists = self._batch, self._lists
        for job in jobs_of(batch, sample, dye):
            rule, names, stage = job.rule, job.wildcards, STAGES[job.rule]
            if stage.level == "part":
                continue
            pattern = name_digests(rule, batch.outputs)
            listed = lists.find(_resolve(batch, pattern.format(**names)))
            if not listed.whole and not any(
                os.path.isfile(_resolve(batch, file)) for file in job.files
            ):
                continue  # nothing is there, as its status says
            params, inputs = params_of(batch, rule, names), inputs_of(batch, rule, names)
            yield names, [*find_changes(listed, rule, params, inputs, lists)]


def _resolve(batch: Batch, path: str) -> str:
    return path.replace("<results>", batch.settings.results, 1)
