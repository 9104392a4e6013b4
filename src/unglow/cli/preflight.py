"""``unglow preflight``: whether a run would fit this machine, and how long it would take.

Also with other numbers of cores and another `memory_per_job`.
"""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import yaml

from unglow.cli.directories import add_working_directory
from unglow.core.errors import ConfigError
from unglow.core.machine import memory_available_mb, memory_limit_mb, processors
from unglow.core.printable import say, table
from unglow.core.rounding import gigabytes
from unglow.jobs.snakemake_command import ONLY
from unglow.workflow.batch import Batch
from unglow.workflow.config import CONFIG, parse_yaml, read_stored
from unglow.workflow.forecast import Throughput, file_of_machine, forecast, read_runs, time_in_words
from unglow.workflow.pending_jobs import (
    capacity_for,
    heaviest_at_once,
    pending_jobs,
    skip_oversized,
)
from unglow.workflow.preflight import Level, check, messages
from unglow.workflow.settings import LEAST_BUDGET, USUAL_BUDGET

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from unglow.workflow.forecast import Forecast
    from unglow.workflow.pending_jobs import Capacity, PendingJob
    from unglow.workflow.preflight import PreflightResult


SCHEMA = 1
"""Raised when a key of ``--json`` changes its meaning or goes away."""
# What profiles/default gives to all jobs together.
_SHARE = 0.6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow preflight` to a parser."""
    parser.description = (
        "Check whether the missing jobs fit memory and disk, as each run does before it starts, "
        "and forecast their time. Only headers of images are read. Options and defaults are those "
        "of `unglow run`. The exit status is 1 if a run would be refused."
    )
    parser.add_argument(
        "-n", "-c", "--cores", default="all", metavar="N", help="cores (default: all)"
    )
    parser.add_argument(
        "--resources",
        nargs="+",
        default=[],
        metavar="mem_mb=N",
        help="memory for all jobs together, MB (default: 60 %% of the machine)",
    )
    parser.add_argument(
        "-C",
        "--config",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="settings that override config/config.yaml",
    )
    about = "check these pairs only (may be repeated; * and ? are wildcards)"
    parser.add_argument(ONLY, action="append", metavar="SAMPLE/DYE", help=about)
    parser.add_argument(
        "--settings",
        action="store_true",
        help="also compare other numbers of cores and other memory_per_job",
    )
    parser.add_argument("--json", action="store_true", help="print JSON (docs/commands.md)")
    add_working_directory(parser, "working directory of the run")


@dataclass(frozen=True, slots=True)
class _Checked:
    """The input of preflight, and its findings."""

    batch: Batch
    jobs: Sequence[PendingJob]
    capacity: Capacity
    result: PreflightResult
    expected: Forecast | None
    settings: Sequence[RunSettings]

    @property
    def refused(self) -> bool:
        return self.result.level == Level.REFUSED and not self.batch.settings.force_run


def run(arguments: argparse.Namespace) -> int:
    """Print what was found; return 1 if a run would be refused."""
    checked = _check(arguments)
    if arguments.json:
        say(json.dumps(_make_json(checked), indent=1))
    else:
        say("\n".join(_lines(checked)))
    return int(checked.refused)


def _check(arguments: argparse.Namespace) -> _Checked:
    directory = arguments.directory
    cores, limit = _parse_cores(arguments.cores), _parse_limit(arguments.resources)
    given = read_stored(directory / CONFIG)
    _update(given, _parse_config(arguments.config))
    given["only"] = arguments.only or given.get("only")
    batch = Batch.load(given, directory)
    results = directory / batch.settings.results
    if not batch.settings.force_run:
        batch = skip_oversized(batch, results, limit, memory_available_mb())
    jobs = pending_jobs(batch, results)
    capacity, budget = capacity_for(jobs, cores, limit), batch.settings.memory_per_job
    known = Throughput(read_runs(file_of_machine()))
    what = jobs, capacity, budget, known, len(batch.keys)
    others = compare_settings(*what) if arguments.settings or arguments.json else []
    return _Checked(batch, jobs, capacity, check(jobs, capacity, budget), forecast(*what), others)


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Time and memory of a run with some settings.

    Attributes
    ----------
    cores, memory_per_job
        The settings; MB.
    jobs_at_once, memory_mb, limited_by
        How many jobs at most run at a time, their memory, MB, and what keeps more from running.
    fits
        Whether preflight would let the run start.
    seconds, low, high
        Expected time and its 90 % interval, s; None if nothing is to be done.
    """

    cores: int
    memory_per_job: float
    jobs_at_once: int
    memory_mb: int
    limited_by: str
    fits: bool
    seconds: float | None
    low: float | None
    high: float | None


def compare_settings(
    jobs: Sequence[PendingJob],
    capacity: Capacity,
    budget_mb: float,
    throughput: Throughput,
    pairs: int,
) -> list[RunSettings]:
    """Return what a run takes with 1, 2 and all cores, and with least, usual and current memory.

    Parameters
    ----------
    jobs, pairs
        What is to be done, of N pairs.
    capacity, budget_mb
        Cores and memory as they are set, ``memory_per_job`` in MB.
    throughput
        How fast this machine is.
    """
    most = capacity.cores or 1
    budgets = sorted({LEAST_BUDGET, USUAL_BUDGET, budget_mb})
    made = []
    for cores, budget in itertools.product(sorted({1, min(2, most), most}), budgets):
        other = replace(capacity, cores=cores)
        at_once = heaviest_at_once(jobs, other, budget)
        expected = forecast(jobs, other, budget, throughput, pairs)
        seconds = None if expected is None else expected.seconds
        factor = 1.0 if expected is None else expected.factor
        made.append(
            RunSettings(
                cores,
                budget,
                len(at_once.mb),
                sum(at_once.mb),
                at_once.limited_by,
                check(jobs, other, budget).level < Level.REFUSED,
                seconds,
                None if seconds is None else seconds / factor,
                None if seconds is None else seconds * factor,
            )
        )
    return made


def _lines(checked: _Checked) -> Iterator[str]:
    """Yield what was found as text."""
    for problem in checked.batch.problems:
        yield f"skipped: {problem.message}"
    starts = "a run would start" if checked.jobs else "no file is missing"
    what = "a run would be refused" if checked.refused else starts
    cores = checked.capacity.cores
    yield f"{len(checked.jobs)} jobs to do on {cores} core{'s' * (cores != 1)}: {what}."
    if not checked.jobs:
        yield "Jobs that changed settings repeat are not counted: `unglow run -n` counts them."
    takes = "" if checked.expected is None else checked.expected.words()
    yield from messages(checked.result, ["unglow", *sys.argv[1:]], Level.FINE, takes=takes)
    if checked.result.suggestions:
        yield "Give the same options to snakemake."
    if checked.settings and checked.jobs:
        yield format_settings(checked.settings)


def format_settings(settings: Sequence[RunSettings]) -> str:
    """Return a table of settings, with memory and time of a run with each."""
    header = ("cores", "memory_per_job", "jobs at a time", "their memory", "limited by", "time")
    rows = [header]
    for one in settings:
        took = (
            ""
            if one.seconds is None
            else time_in_words(one.seconds, (one.high or one.seconds) / one.seconds)
        )
        memory = f"{gigabytes(one.memory_mb)} GB"
        counts = str(one.cores), f"{one.memory_per_job:g} MB", str(one.jobs_at_once)
        rows.append((*counts, memory, one.limited_by, took if one.fits else "refused"))
    return table(rows, "rrrrll")


def _make_json(checked: _Checked) -> dict[str, Any]:
    """Return what was found; docs/commands.md has the keys."""
    result, capacity = checked.result, checked.capacity
    return {
        "schema": SCHEMA,
        "refused": checked.refused,
        "jobs": len(checked.jobs),
        "cores": capacity.cores,
        "limit_mb": capacity.limit_mb,
        "available_mb": capacity.available_mb,
        "memory_per_job": checked.batch.settings.memory_per_job,
        "findings": [asdict(f) | {"level": f.level.name.lower()} for f in result.findings],
        "suggestions": [{"text": s.text, "options": dict(s.options)} for s in result.suggestions],
        "expected": None if checked.expected is None else checked.expected.record(),
        "settings": [asdict(one) for one in checked.settings],
        "skipped": [
            {"sample": p.sample, "dye": p.dye, "message": p.message} for p in checked.batch.problems
        ],
    }


def _parse_cores(text: str) -> int:
    if text == "all":
        return processors()
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"--cores is '{text}' but has to be a whole number above 0, or all.")
    return int(text)


def _parse_limit(values: Sequence[str]) -> int:
    limit = memory_limit_mb(_SHARE)
    for value in values:
        key, _, number = value.partition("=")
        if key != "mem_mb" or not number.isdigit():
            raise ConfigError(f"--resources is '{value}' but has to be mem_mb=N, N in MB.")
        limit = int(number)
    return limit


def _parse_config(values: Sequence[str]) -> dict[str, Any]:
    """Read KEY=VALUE as Snakemake does: the value is YAML."""
    parsed: dict[str, Any] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals:
            raise ConfigError(f"--config is '{value}' but has to be KEY=VALUE.")
        try:
            parsed[key] = parse_yaml(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"--config {key}: '{text}' is not YAML; correct it.") from error
    return parsed


def _update(settings: dict[str, Any], given: dict[str, Any]) -> None:
    """Put settings in, section by section."""
    for key, value in given.items():
        if isinstance(value, dict) and isinstance(settings.get(key), dict):
            _update(settings[key], value)
        else:
            settings[key] = value
