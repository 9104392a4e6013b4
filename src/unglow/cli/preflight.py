"""``unglow preflight``: whether a run would fit this machine, and how long it would take."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import yaml

from unglow.cli.directories import add_working_directory
from unglow.core.errors import ConfigError
from unglow.core.machine import memory_available_mb, memory_limit_mb, processors
from unglow.core.terminal import say
from unglow.workflow.batch import Batch
from unglow.workflow.config import CONFIG, read_config
from unglow.workflow.forecast.forecast import Throughput, file_of_machine, forecast, read_runs
from unglow.workflow.preflight.check import Level, check, messages
from unglow.workflow.preflight.oversized import skip_oversized
from unglow.workflow.preflight.pending_jobs import capacity_for, pending_jobs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from unglow.workflow.schema import Settings

# What profiles/default gives to all jobs together.
_SHARE = 0.6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow preflight` to a parser."""
    parser.description = (
        "Look at the headers of all pairs and say whether what is still missing fits memory and "
        "disk, as Snakemake does before it starts, and how long it takes. Options are "
        "Snakemake's, and so are their defaults with profiles/default. The exit status is 1 if a "
        "run would be refused."
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
        help="settings that go before those of config/config.yaml",
    )
    add_working_directory(parser, "working directory of the run")


def run(arguments: argparse.Namespace) -> int:
    """Print what was found; return 1 if a run would be refused."""
    directory = arguments.directory
    cores = _cores(arguments.cores)
    limit = _limit(arguments.resources)
    given = read_config(directory / CONFIG)
    _update(given, _parsed(arguments.config))
    batch = Batch.load(given, directory)
    if not batch.settings["force_run"]:
        results = directory / batch.settings["results"]
        batch = skip_oversized(batch, results, limit, memory_available_mb())
    for problem in batch.problems:
        say(f"skipped: {problem.message}")
    jobs = pending_jobs(batch, directory / batch.settings["results"])
    capacity, budget = capacity_for(jobs, cores, limit), batch.settings["memory_per_job"]
    result = check(jobs, capacity, budget)
    throughput = Throughput.of(read_runs(file_of_machine()))
    expected = forecast(jobs, capacity, budget, throughput, len(batch.keys))
    refused = result.level == Level.REFUSED and not batch.settings["force_run"]
    starts = "a run would start" if jobs else "everything is there"
    what = "a run would be refused" if refused else starts
    say(f"{len(jobs)} jobs to do on {cores} core{'s' * (cores != 1)}: {what}.")
    takes = "" if expected is None else expected.words()
    for line in messages(result, ["unglow", *sys.argv[1:]], Level.FINE, takes=takes):
        say(line)
    if result.suggestions:
        say("Give the same options to snakemake.")
    return int(refused)


def _cores(text: str) -> int:
    if text == "all":
        return processors()
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"--cores is '{text}' but has to be a whole number above 0, or all.")
    return int(text)


def _limit(values: Sequence[str]) -> int:
    limit = memory_limit_mb(_SHARE)
    for value in values:
        key, _, number = value.partition("=")
        if key != "mem_mb" or not number.isdigit():
            raise ConfigError(f"--resources is '{value}' but has to be mem_mb=N, N in MB.")
        limit = int(number)
    return limit


def _parsed(values: Sequence[str]) -> dict[str, Any]:
    """Read KEY=VALUE as Snakemake does: the value is YAML."""
    parsed: dict[str, Any] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals:
            raise ConfigError(f"--config is '{value}' but has to be KEY=VALUE.")
        try:
            parsed[key] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"--config {key}: '{text}' is not YAML; correct it.") from error
    return parsed


def _update(settings: Settings, given: dict[str, Any]) -> None:
    """Put settings in, section by section."""
    for key, value in given.items():
        if isinstance(value, dict) and isinstance(settings.get(key), dict):
            _update(settings[key], value)
        else:
            settings[key] = value
