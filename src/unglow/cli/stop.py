"""``unglow stop``: end a run that is at work, from another terminal."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING

from unglow.cli.directories import add_directory, named, results_of
from unglow.core.errors import UnglowError
from unglow.core.printable import say
from unglow.jobs.run_records import end_jobs, find_running, finish_jobs, wait_for_end
from unglow.reporting.html.live_answers import JSON, Answer
from unglow.reporting.runs import Runs

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from unglow.reporting.html.live_answers import Request
    from unglow.reporting.html.live_site import Source

# So many jobs are named.
_NAMED = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow stop` to a parser."""
    parser.description = (
        "Stop the run of a directory: running jobs finish, no other job starts. The command waits "
        "for them (Ctrl-C ends the waiting, not the run). The run must be yours and on this "
        "machine. Finished jobs are kept; `unglow resume` continues."
    )
    add_directory(parser)
    parser.add_argument(
        "--now", action="store_true", help="end running jobs too, as Ctrl-C does; they start again"
    )


def run(arguments: argparse.Namespace) -> int:
    """Stop the run, and say what happened."""
    results = results_of(arguments.directory)
    trace = find_running(results)
    if trace is None:
        say(f"Nothing runs in {results}.")
        return 0
    if arguments.now:
        end_jobs(trace, results)
    else:
        finish_jobs(trace)
        if titles := _running(results):
            say(f"Waiting for {titles} (--now ends them).")
        wait_for_end(trace)
    last = Runs.read(results).last
    done = "no job is done" if last is None else f"{last.done} of {last.of} jobs are done"
    say(f"Stopped: {done}. `unglow resume{named(arguments.directory, '.')}` continues.")
    return 0


def _running(results: Path) -> str:
    last = Runs.read(results).last
    titles = [job.title for job in last.running] if last else []
    more = [f"{len(titles) - _NAMED} more"] if len(titles) > _NAMED else []
    return ", ".join([*titles[:_NAMED], *more])


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
