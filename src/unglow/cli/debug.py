"""``unglow debug``: one job in a debugger, at the terminal."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from unglow.cli import run as workflow
from unglow.core.errors import InputError
from unglow.core.printable import warn
from unglow.jobs.debugging import VARIABLE
from unglow.jobs.snakemake_command import ONLY
from unglow.workflow.batch import Batch
from unglow.workflow.config import CONFIG, read_stored
from unglow.workflow.planned_jobs import PlannedJob, jobs_of, jobs_of_run
from unglow.workflow.stage_table import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow debug` to a parser."""
    parser.description = (
        "Run one job again in pdb, with the inputs, settings and threads that a run gives it. It "
        "stops at the first line of the job's script; `c` continues to a breakpoint() in the code, "
        "or to where an error is raised. The results of the jobs before it have to be there."
    )
    parser.add_argument("rule", metavar="RULE", choices=STAGES, help="stage, such as register")
    parser.add_argument(
        "pair", metavar="SAMPLE/DYE", nargs="?", default="", help="pair; a slide by its name"
    )
    parser.add_argument(
        "wildcards",
        metavar="NAME=VALUE",
        nargs="*",
        help="which of several jobs, such as method=linear or a variant of a sweep",
    )


def run(arguments: argparse.Namespace) -> int:
    """Become the Snakemake that runs the job."""
    batch = Batch.load(read_stored(CONFIG))
    job = job_named(batch, arguments.rule, arguments.pair, arguments.wildcards)
    if not sys.stdin.isatty():
        warn("unglow debug: standard input is no terminal; commands of pdb are read from it.")
    os.environ[VARIABLE] = "1"
    target = job.files[0].replace("<results>", batch.settings.results, 1)
    only = ("--allowed-rules", job.rule, "--force", "--retries", "0")
    pairs = (ONLY, arguments.pair) if arguments.pair else ()
    words = [*only, *pairs, "--quiet", "rules", "progress", "--", target]
    workflow.run(argparse.Namespace(words=words))


def job_named(batch: Batch, rule: str, pair: str, wildcards: Sequence[str]) -> PlannedJob:
    """Return the job that is meant.

    Raises
    ------
    InputError
        There is none, or there are several.
    """
    sample, _, dye = pair.partition("/")
    if pair and (sample, dye) not in batch.keys:
        names = ", ".join("/".join(filter(None, key)) for key in batch.keys[:5])
        raise InputError(f"'{pair}' is not one of the pairs: {names}.")
    jobs = jobs_of(batch, sample, dye) if pair else iter(jobs_of_run(batch))
    found = [job for job in jobs if job.rule == rule and {*wildcards} <= {*_words(job)}]
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(
            f"{' '.join(filter(None, (pair, *wildcards))) or 'run'} has no job {rule}."
        )
    choices = "; ".join(" ".join(_words(job)) for job in found[:5])
    raise InputError(f"{pair} has {len(found)} jobs {rule}: add words that choose one: {choices}.")


def _words(job: PlannedJob) -> Iterator[str]:
    named = ((k, v) for k, v in job.wildcards.items() if k not in ("sample", "dye") and v)
    yield from (f"{key}={value}" for key, value in named)
