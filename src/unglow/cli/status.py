"""``unglow status``: one line for each pair, with its state."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from unglow.cli.directories import add_directory, quote_directory, results_of
from unglow.core.printable import clean, say, shorten, table
from unglow.core.workflow_files import is_foreign
from unglow.jobs.outcomes import WORTH_ANOTHER
from unglow.results import SKIPPED
from unglow.results.runs import SCHEMA, Runs
from unglow.results.wording import OUTCOMES
from unglow.telemetry.reading.pairs import WAITING, Work, sentence_of
from unglow.telemetry.reading.records import ENDED_WELL, RUNNING
from unglow.workflow.planned_jobs import is_missing, jobs_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Container, Iterable, Mapping, Sequence

    from unglow.results.runs import Run
    from unglow.workflow.batch import Batch


# The job that repeats which pairs failed.
_VERDICT = "verdict"
# Number of failed jobs that are named.
_NAMED = 3
_WORST = ("failed", "suspect", "ok")


@dataclass(frozen=True, slots=True)
class PairStatus:
    """State of one pair, or of one slide, whose dye is ''.

    Attributes
    ----------
    status
        ``waiting``, ``running``, ``ok``, ``suspect``, ``failed`` (as soon as a result says so) or
        ``incomplete`` (a fault of machine or program has stopped a job); or
        ``skipped`` (not started because of its input).
    done, of
        Jobs whose results are there, and all jobs of the pair.
    note
        What runs and how far it is, what went wrong, or what is still to do.
    outdated
        What its results would be made with now, if that is something else.
    """

    sample: str
    dye: str
    status: str
    done: int
    of: int
    note: str = ""
    outdated: str = ""


def pair_statuses(batch: Batch, runs: Runs) -> list[PairStatus]:
    """Return the status of each pair of a batch, then the skipped ones."""
    results = runs.results
    work = Work(runs.history)
    verdicts = _verdicts(runs.rows, batch.slides)
    statuses = []
    for key in batch.keys:
        jobs = jobs_of(batch, *key)
        left = [job.rule for job in jobs if is_missing(job, results)]
        status, note = verdicts.get(key, ("", ""))
        if not status or (left and status != _WORST[0]):
            status, note = WAITING, ""
            if runs.last is not None:
                dye = {"dye": key[1]} if key[1] else {}
                status, note = work.state_of({"sample": key[0], **dye})
            note = note or f"{', '.join(dict.fromkeys(left))} to do"
        done = len(jobs) - len(left)
        outdated = _list_outdated(runs.rows, *key)
        statuses.append(PairStatus(*key, status, done, len(jobs), note, outdated))
    for problem in batch.problems:
        names = problem.sample or "", problem.dye or ""
        statuses.append(PairStatus(*names, SKIPPED, 0, 0, problem.message))
    return statuses


def suggest_next(run: Run | None, directory: str = "", results: str = "") -> list[str]:
    """Return what to do after the last run, in lines; none if it is running or was successful.

    A failure that would repeat itself is not a reason to give the same command again.

    Parameters
    ----------
    run
        The last run.
    directory, results
        Words of commands that name the two, a blank before each; empty for those of this directory.
    """
    if run is None or run.outcome in (ENDED_WELL, RUNNING):
        return []
    last = run.history
    ending = f"The last run {OUTCOMES.get(last.outcome, last.outcome)}"
    latest = {a.key: a for a in last.attempts}.values()
    again = [a for a in latest if a.outcome not in (RUNNING, *WORTH_ANOTHER)]
    if not again:
        return [f"{ending}: `unglow resume{directory}` continues."]
    jobs = [a for a in again if a.stage != _VERDICT]
    if not jobs:
        because = (
            "because of failed or skipped pairs: the same command would end in the same way. Fix "
            "the problems listed above, or exclude these pairs; with `allow_failed: true` in the "
            "configuration such a run counts as done."
        )
        return [f"{ending}, {because}"]
    again_fails = (
        f"the same command (or `unglow resume{directory}`) would fail again until this is fixed:"
    )
    lines = [f"{ending}, and {again_fails}"]
    for a in jobs[:_NAMED]:
        end = a.ending
        lines.append(f"  {a.title}: {sentence_of(a).partition(': ')[2]}")
        if end is not None and end.remedy:
            lines.append(f"    {end.remedy}")
    if len(jobs) > _NAMED:
        lines.append(
            f"  and {len(jobs) - _NAMED} more; `unglow report{results}` shows all of them."
        )
    return lines


def _show_rules(runs: Runs, *, as_json: bool) -> int:
    """Print the progress of each rule of the last run of another workflow; 1 if it failed."""
    last = runs.last
    if as_json:
        _say_json(runs)
    elif last is None:
        say("No run is recorded here.")
    else:
        rows = [("rule", "jobs", "")]
        rows += [(clean(r.rule), f"{r.done}/{r.of}", clean(r.words)) for r in last.rules]
        say(table(rows, "lrl"))
    return int(last is not None and last.outcome not in (ENDED_WELL, RUNNING))


def _say_json(runs: Runs, statuses: Sequence[PairStatus] = (), then: Sequence[str] = ()) -> None:
    """Print pairs and last run as JSON; docs/commands.md has the keys."""
    found = {
        "schema": SCHEMA,
        "results": str(runs.results.absolute()),
        "pairs": [asdict(pair) for pair in statuses],
        "next": [*then],
        "run": None if runs.last is None else runs.last.to_json(),
    }
    say(json.dumps(found, indent=1))


def _verdicts(
    rows: Iterable[Mapping[str, Any]], slides: Container[str]
) -> dict[tuple[str, ...], tuple[str, str]]:
    """Return status and reasons of each pair, of its worst variant or marker."""
    verdicts: dict[tuple[str, ...], tuple[str, str]] = {}
    rated = [row for row in rows if row.get("status") in _WORST]
    for row in sorted(rated, key=lambda row: _WORST.index(row["status"]), reverse=True):
        sample = str(row.get("sample") or "")
        key = sample, "" if sample in slides else str(row.get("dye") or "")
        verdicts[key] = row["status"], str(row.get("reasons") or "")
    return verdicts


def _list_outdated(rows: Iterable[Mapping[str, Any]], sample: str, dye: str) -> str:
    """Return what is outdated of a pair or slide, of all its variants or markers."""
    own = (r for r in rows if r.get("sample") == sample and dye in ("", r.get("dye")))
    return "; ".join(dict.fromkeys(str(r["outdated"]) for r in own if r.get("outdated")))


# Statuses with which a pair is as it should be, or on its way there.
_WELL = ("ok", "suspect", "running", "waiting")
# Characters of a line, and of the name of a sample or dye in it.
_WIDEST, _NAME = 200, 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow status` to a parser."""
    parser.description = (
        "One line for each pair: how many of its jobs are done, and what runs, is missing or went "
        "wrong. The exit status is 1 if something went wrong."
    )
    add_directory(parser)
    parser.add_argument(
        "--json", action="store_true", help="print pairs and last run as JSON (docs/commands.md)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the table; return 1 if a pair failed, is incomplete or was skipped."""
    from unglow.cli.verify import batch_of  # imports numpy

    results = results_of(arguments.directory)
    runs = Runs.read(results)
    last = runs.last
    if is_foreign(results):
        return _show_rules(runs, as_json=arguments.json)
    statuses = pair_statuses(batch_of(results), runs)
    code = int(any(pair.status not in _WELL for pair in statuses))
    then = suggest_next(last, quote_directory(arguments.directory, "."), quote_directory(results))
    if arguments.json:
        _say_json(runs, statuses, then)
        return code
    width = min(_WIDEST, shutil.get_terminal_size((120, 0)).columns)
    rows = [("sample", "dye", "status", "jobs", "")]
    for p in statuses:
        sample, dye = (shorten(clean(name), _NAME) for name in (p.sample, p.dye))
        note = ". ".join(filter(None, (p.outdated and f"outdated: {p.outdated}", p.note)))
        note = re.sub(r"'[^']*/([^/']+)'", r"'\1'", note)  # folders would fill the line
        rows.append((sample, dye, p.status, f"{p.done}/{p.of}", clean(note)))
    for line in table(rows, "lllrl").splitlines():
        say(line if len(line) <= width else f"{line[: width - 1]}…")
    for line in then:
        say(line)
    return code
