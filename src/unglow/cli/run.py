"""``unglow run``, ``resume``, ``stop``, ``debug`` and ``where``: runs of the installed workflow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NoReturn

from unglow.core.errors import InputError, UnglowError
from unglow.core.printable import WEB, printable, say, warn
from unglow.core.settings import suggest
from unglow.core.workflow_files import snakefile, workflow_directory

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from unglow.pages.report.live_answers import Answer, Request
    from unglow.pages.report.live_site import Source
    from unglow.workflow.batch import Batch
    from unglow.workflow.planned_jobs import PlannedJob


#: Its words are Snakemake's.
TAKES_ALL_WORDS = ("run",)
#: What follows ``--`` is for another command.
TAKES_WORDS = ("resume",)
_PROFILE = "--workflow-profile"
_CONFIG = ("--config", "-C")
_WEB = "--web"
# At most this many jobs are named by `unglow stop`.
_NAMED = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe `unglow run` to a parser; its words are Snakemake's."""
    parser.usage = "unglow run [--only SAMPLE/DYE ...] [--web] [OPTION OF SNAKEMAKE ...]"
    parser.description = (
        "Run the workflow in this directory, which contains raw/. This is `snakemake` with the "
        "installed Snakefile, and takes every option of it (`snakemake --help`)."
    )
    # only shown: all words go to Snakemake
    about = "run these pairs only (may be repeated; * and ? are wildcards)"
    parser.add_argument("--only", metavar="SAMPLE/DYE", help=about)
    about = "also show the run in a browser on this machine, until it ends"
    parser.add_argument(_WEB, action="store_true", help=about)
    parser.add_argument("-n", "--dry-run", action="store_true", help="show what would run")
    about = "cores to use (default: all, unless a profile says otherwise)"
    parser.add_argument("-c", "--cores", metavar="N", help=about)
    about = f"a directory, or one of {', '.join(_profiles())}"
    parser.add_argument(_PROFILE, metavar="NAME", help=about)


def run(arguments: argparse.Namespace) -> NoReturn:
    """Become Snakemake."""
    become_snakemake(arguments.words)


def become_snakemake(given: Sequence[str]) -> NoReturn:
    """Replace this process by Snakemake with the words that were given, and unglow's own."""
    words = make_command(given)
    os.execv(words[0], words)  # noqa: S606 (no shell is wanted)


def make_command(given: Sequence[str]) -> list[str]:
    """Return the command of Snakemake with the words that were given; set what it looks for."""
    from unglow.jobs.snakemake_command import LOGGER, STARTED, replace_only

    path = snakefile()
    if not path.is_file():
        raise InputError(f"this copy of unglow lacks its workflow ({path}): install it again.")
    os.environ[STARTED] = str(path)
    # A profile may hold code: that of the directory of the data is taken only if it is named, which
    # goes before this one.
    start = ["-s", str(path), _PROFILE, str(workflow_directory() / "profiles" / "default")]
    if not any(word.startswith("--logger") for word in given):
        start.append(LOGGER)
    # -P: what happens to lie in the directory is no library
    options = replace_only(given)
    own = options[: options.index("--")] if "--" in options else options
    if _WEB in own:
        options.remove(_WEB)
        os.environ[WEB] = "1"
    words = ["-Pm", "unglow.jobs.launcher", *start, *_nest_settings(_replace_own_profile(options))]
    return [sys.executable, *words]


def _profiles() -> list[str]:
    return sorted(path.parent.name for path in workflow_directory().glob("profiles/*/config.yaml"))


def _replace_own_profile(words: Sequence[str]) -> list[str]:
    """Return options with the directory of a profile of unglow's own in the place of its name.

    Snakemake says nothing of a profile that is not there, and runs without it.
    """
    from unglow.jobs.snakemake_command import split_option

    made = [part for word in words for part in split_option(word, [_PROFILE])]
    for place, word in enumerate(made[1:], 1):
        is_there = Path(word).exists() or Path("profiles", word).exists()
        if made[place - 1] != _PROFILE or word == "none" or is_there:
            continue
        if word not in _profiles():
            meant = suggest(word, _profiles(), f"give one of {', '.join(_profiles())}.")
            raise InputError(f"there is no profile {printable(word)}; {meant}")
        made[place] = str(workflow_directory() / "profiles" / word)
    return made


def _nest_settings(words: Sequence[str]) -> list[str]:
    """Return options with `detect.fdr=0.1` behind ``--config`` as `detect={fdr: 0.1}`."""
    from unglow.jobs.snakemake_command import split_option

    made, inside = [], False
    for word in (part for given in words for part in split_option(given, _CONFIG)):
        if word.startswith("-"):
            inside = word in _CONFIG
        name, _, value = word.partition("=")
        group, dot, key = name.partition(".")
        made.append(f"{group}={{{key}: {value}}}" if inside and dot else word)
    return made


def add_arguments_debug(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow run --debug` to a parser."""
    parser.description = (
        "Run one job again in pdb, with the inputs, settings and threads of a run. It stops at the "
        "first line of the job's script; `c` continues to a breakpoint() or an error. The jobs "
        "before it must be finished."
    )
    from unglow.workflow.stage_table import STAGES  # imports numpy

    rules = [rule for rule in STAGES if rule != "slide_part"]  # no target of a run
    parser.add_argument("rule", metavar="RULE", choices=rules, help="stage, such as register")
    parser.add_argument(
        "pair", metavar="SAMPLE/DYE", nargs="?", default="", help="pair; a slide by its name"
    )
    parser.add_argument(
        "wildcards",
        metavar="NAME=VALUE",
        nargs="*",
        help="which of several jobs, such as method=linear or a variant of a sweep",
    )


def run_debug(arguments: argparse.Namespace) -> int:
    """Run the job in a Snakemake below this process; what was there before stays if it fails."""
    from unglow.jobs.context import DEBUGGED
    from unglow.jobs.snakemake_command import ONLY
    from unglow.wings import SLIDES
    from unglow.workflow.batch import Batch  # imports numpy
    from unglow.workflow.config import CONFIG, read_stored
    from unglow.workflow.stage_table import name_digests
    from unglow.workflow.verify import run_files

    batch = Batch.load(read_stored(CONFIG), slide_rules=SLIDES)
    job = job_named(batch, arguments.rule, arguments.pair, arguments.wildcards)
    if not sys.stdin.isatty():
        warn("unglow run --debug: commands of pdb are read from standard input, no terminal.")
    os.environ[DEBUGGED] = "1"
    results = Path(batch.settings.results)
    listed = name_digests(job.rule, batch.outputs).format(**job.wildcards)
    files = [Path(name.replace("<results>", str(results), 1)) for name in (*job.files, listed)]
    only = ("--allowed-rules", job.rule, "--force", "--retries", "0")
    pairs = (ONLY, arguments.pair) if arguments.pair else ()
    words = [*only, *pairs, "--quiet", "rules", "progress", "--", str(files[0])]
    of_run = run_files(results) if results.is_dir() else []
    there = [path for path in (*files, *of_run) if path.is_file()]
    if not there:
        become_snakemake(words)
    with _keep(there, results) as restore:
        signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is for the debugger
        status = subprocess.call(make_command(words))  # noqa: S603 (itself)
        if status:
            restore()
    return status


@contextmanager
def _keep(files: Sequence[Path], results: Path) -> Iterator[Callable[[], None]]:
    """Keep files that Snakemake removes when it starts a job; yields what puts them back.

    They are links, so that nothing is copied. Where a store has been written again, nothing is put
    back: its pixels are others.
    """
    places = {path.parent: path.parent.stat().st_ino for path in files if path.name == "zarr.json"}
    with TemporaryDirectory(prefix=".debug-", dir=results) as kept:
        links = {path: Path(kept, str(n)) for n, path in enumerate(files)}
        for path, link in links.items():
            link.hardlink_to(path)

        def restore() -> None:
            if all(place.is_dir() and place.stat().st_ino == n for place, n in places.items()):
                for path, link in links.items():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    link.replace(path)

        yield restore


def job_named(batch: Batch, rule: str, pair: str, wildcards: Sequence[str]) -> PlannedJob:
    """Return the job that is meant.

    Raises
    ------
    InputError
        There is none, or there are several.
    """
    from unglow.workflow.planned_jobs import jobs_of, jobs_of_run

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


def add_arguments_where(parser: argparse.ArgumentParser) -> None:
    """Describe `unglow run --where` to a parser."""
    parser.description = (
        'Print the path of the installed Snakefile: for `snakemake -s "$(unglow run --where)"`, or '
        "for `module` in your own Snakefile. Rules, scripts and profiles are next to it."
    )


def run_where(_arguments: argparse.Namespace) -> int:
    """Print the path."""
    say(snakefile())
    return 0


def add_arguments_resume(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow resume` to a parser."""
    parser.description = (
        "Continue an interrupted run. It cancels its jobs in the queue of a cluster, waits for "
        "those here, removes its lock and gives the same command again. The exit status is that "
        "of Snakemake."
    )
    parser.usage = "unglow resume [-h] [--lost HOST] [DIR] [-- WORDS...]"
    parser.epilog = "WORDS are added to the command."
    from unglow.cli.directories import add_directory, add_lost  # imports numpy

    add_directory(parser)
    add_lost(parser)


def run_resume(arguments: argparse.Namespace) -> int:
    """Become Snakemake."""
    from unglow.cli.directories import results_of
    from unglow.jobs.resume import resume

    named = arguments.directory
    resume(
        *(named, results_of(named), arguments.words, arguments.lost),
        lambda sentence: warn(f"unglow resume: {sentence}"),
    )


def add_arguments_stop(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow stop` to a parser."""
    from unglow.cli.directories import add_directory  # imports numpy

    parser.description = (
        "Stop the run of a directory: running jobs finish, no other job starts. The command waits "
        "for them (Ctrl-C ends the waiting, not the run). The run must be yours and on this "
        "machine. Finished jobs are kept; `unglow resume` continues."
    )
    add_directory(parser)
    parser.add_argument(
        "--now", action="store_true", help="end running jobs too, as Ctrl-C does; they start again"
    )


def run_stop(arguments: argparse.Namespace) -> int:
    """Stop the run, and say what happened."""
    from unglow.cli.directories import quote_directory, results_of  # imports numpy
    from unglow.jobs.run_records import (
        end_jobs,
        find_running,
        finish_jobs,
        wait_for_end,
    )
    from unglow.results.runs import Runs  # imports numpy

    results = results_of(arguments.directory)
    trace = find_running(results)
    if trace is None:
        say(f"Nothing runs in {results}.")
        return 0
    if arguments.now:
        end_jobs(trace, results)
    else:
        finish_jobs(trace)
        last = Runs.read(results).last
        if titles := [job.title for job in last.running] if last else []:
            more = [f"{len(titles) - _NAMED} more"] if len(titles) > _NAMED else []
            say(f"Waiting for {', '.join([*titles[:_NAMED], *more])} (--now ends them).")
        wait_for_end(trace)
    last = Runs.read(results).last
    done = "no job is done" if last is None else f"{last.done} of {last.of} jobs are done"
    say(f"Stopped: {done}. `unglow resume{quote_directory(arguments.directory, '.')}` continues.")
    return 0


class StopButton:
    """What the live page sends to, to end the run of its directory after the running jobs.

    Parameters
    ----------
    source
        The results directory, as the page shows it.
    """

    def __init__(self, source: Source) -> None:
        self._results = source.results

    def answer(self, request: Request) -> Answer:
        """Ask the run to end; say what happens."""
        import json  # `unglow run` loads little
        from http import HTTPStatus

        from unglow.jobs.run_records import find_running, finish_jobs
        from unglow.pages.report.live_answers import JSON, Answer

        if request.method != "POST" or request.parts:
            text, status = "Send to this address to stop the run.\n", HTTPStatus.METHOD_NOT_ALLOWED
            return Answer.text(text, status=status)
        try:
            trace = find_running(self._results)
        except UnglowError as error:
            return Answer.text(json.dumps({"error": str(error)}), JSON, HTTPStatus.CONFLICT)
        if trace is None:
            return Answer.text(json.dumps({"text": "Nothing runs any more."}), JSON)
        finish_jobs(trace)
        said = (
            "The run ends after its running jobs; `unglow stop --now` in a terminal ends them too."
        )
        return Answer.text(json.dumps({"text": said}), JSON)
