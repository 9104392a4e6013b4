"""Incidents of a results directory, newest first, but those that a later attempt made good.

Whoever may write to a results directory may write records. A record must not make a reader, or the
report that is passed on, show files of the reader's own: of files, only logs of these results.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.files import resolve_links, tail
from unglow.core.levels import name_of
from unglow.telemetry.attempt_files import RUNS
from unglow.telemetry.jsonl import MEMORY
from unglow.telemetry.reading.history import UNRECORDED
from unglow.telemetry.reading.pairs import suggest_help
from unglow.telemetry.reading.plan import KILLED, LOST
from unglow.telemetry.reading.records import ENDED_WELL, RUNNING
from unglow.telemetry.reading.totals import list_leftovers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from unglow.telemetry.reading.history import History, RunHistory
    from unglow.telemetry.reading.records import Attempt, Job, Stall
    from unglow.telemetry.reading.totals import Leftovers


_LOGS, _SUFFIX = "logs", ".log"


def log_files(log: str, h: RunHistory, results: Path) -> list[Path]:
    """Return where a log may be, resolved; nothing if it is none of these results' own.

    Its name ends in ``.log`` and it is in ``logs`` next to the results, or in ``logs`` of the
    directory of the run, if that run wrote these results and was started by the same user.

    Parameters
    ----------
    log
        As telemetry names it.
    h
        The run.
    results
        The results directory.
    """
    paths: list[Path] = []
    for directory in _directories(h, results):
        try:
            path, own = resolve_links(directory / log), resolve_links(directory / _LOGS)
        except (OSError, ValueError, RuntimeError):  # no name that a file can have
            continue
        if path.suffix == _SUFFIX and path.is_relative_to(own) and path not in paths:
            paths.append(path)
    return paths


def _directories(h: RunHistory, results: Path) -> Iterator[Path]:
    """Return the directories that paths of a run may start from."""
    yield results.absolute().parent
    directory, named = (h.run.fields.get(key) for key in ("directory", "results"))
    if h.run.id == UNRECORDED or not (isinstance(directory, str) and isinstance(named, str)):
        return
    try:
        record = results / "telemetry" / RUNS / f"{h.run.id}.jsonl"
        same = resolve_links(Path(directory, named)) == resolve_links(results)
        if same and record.stat().st_uid == os.geteuid():
            yield Path(directory)
    except (OSError, ValueError, RuntimeError):
        return


TAIL_BYTES = 65536
"""End of a log that is read, bytes, unless less is asked for."""
_TAIL_LINES, _TAIL_BYTES = 40, 8192
STALL, NOT_STARTED, RUN_KILLED, LEAK = "stall", "not_started", "run_killed", "leak"
# A log that was written later than this after an attempt's end, s, is of another attempt.
_SAME_LOG_S = 30.0
# This job only repeats which pairs failed.
_VERDICT = ("verdict", "bad_input")
_REPEATED = "Not tried, since the attempt before has shown how it would end:"
_LEAK_HELPS = (
    "Look for files in `/dev/shm` and for processes (`ps -u $USER`) that nothing uses, and remove "
    "them."
)
_IDLE = "No processor time was used and no bytes moved for {:.0f} s."
_SENTENCES = {
    KILLED: "Its process is gone without a report: it was killed (by SIGKILL, or together with "
    "Snakemake); run again.",
    LOST: "Its machine was restarted or does not answer; run again.",
}


@dataclass(frozen=True, slots=True)
class Log:
    """The end of a log.

    Attributes
    ----------
    name
        As the attempt names it; empty if there is no such attempt.
    text
        Its end, from the start of a line on.
    note
        Why there is no text, or a warning about it; empty for none.
    """

    name: str
    text: str = ""
    note: str = ""


def log_of(history: History, results: Path, attempt: str) -> Log:
    """Return the log of an attempt, given its id; only logs of these results are read."""
    placed = ((h, a) for h in history.runs for a in h.attempts if a.id == attempt)
    found = next(placed, None)
    return read_log(*found, results) if found else Log("", note="There is no such attempt.")


def read_log(h: RunHistory, a: Attempt, results: Path, most: int = TAIL_BYTES) -> Log:
    """Return the last ``most`` bytes of the log of an attempt of a run."""
    name = a.log
    if not name:
        return Log("", note="This attempt has no log.")
    files = log_files(name, h, results)
    if not files:
        return Log(name, note="It is none of the logs of these results, and is not shown.")
    path = next((path for path in files if path.is_file()), None)
    if path is None:
        return Log(name, note="It is not there any more.")
    try:
        text, about = tail(path, most), path.stat()
    except OSError as error:
        return Log(name, note=f"It cannot be read ({error.strerror}).")
    if about.st_size > most:
        text = text.partition("\n")[2]
    over = a.ending is not None
    later = over and about.st_mtime > a.wall + a.seconds + _SAME_LOG_S
    return Log(name, text, "A later attempt has written over it." if later else "")


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that did not go well.

    Attributes
    ----------
    kind
        ``attempt``, ``stall``, ``job`` (Snakemake reports its failure, and there is no attempt),
        ``leak``, ``run`` or ``pair``.
    cause
        One word: an outcome, ``stall``, ``not_started``, ``leak``, ``run_killed``, or a pair's
        status.
    wall
        When, Unix time, s; None for a pair of which that is not known.
    title
        What it happened to.
    message, remedy
        A sentence, and a command to copy; empty if there is none.
    helps
        What helps where no command does, in a sentence; empty if nothing is known.
    run, attempt
        Ids; None where there is none.
    numbers
        What is known of it: ``peak_mb``, ``declared_mb``, ``needed_mb``, ``seconds``, ``signal``,
        ``number`` (of the attempt).
    log, tail
        Its log and the last lines of it; the tail is None where it was overwritten or is gone.
    """

    kind: str
    cause: str
    wall: float | None
    title: str
    message: str = ""
    remedy: str = ""
    helps: str = ""
    run: str | None = None
    attempt: str | None = None
    numbers: Mapping[str, float] | None = None
    log: str = ""
    tail: str | None = None


def incidents(
    history: History, results: Path, pairs: Iterable[Mapping[str, Any]] = ()
) -> list[Incident]:
    """Return what went wrong: failed and skipped pairs first, then the newest first.

    What a later attempt at the same job (or a later run) made good is left out, but for stalls.

    Parameters
    ----------
    history
        Of the results directory.
    results
        The results directory.
    pairs
        Rows of the summary.
    """
    attempts = [(h, a) for h in history.runs for a in h.attempts]
    last = {a.key: a for _, a in attempts}
    fixed_at = {a.key: a.start + h.run.wall for h, a in attempts if a.outcome == ENDED_WELL}
    well = max((h.run.wall for h in history.runs if h.outcome == ENDED_WELL), default=0.0)
    going = history.last is not None and history.last.outcome == RUNNING
    statuses = ("failed", "skipped") if going else ("failed", "skipped", "incomplete")
    failed = list(_describe_pairs((r for r in pairs if r.get("status") in statuses), results))
    others = []
    for h, a in attempts:
        repeated = failed and (a.stage, a.outcome) == _VERDICT
        fixed = fixed_at.get(a.key, 0.0) > h.run.wall + a.start
        if a.outcome not in (ENDED_WELL, RUNNING) and not repeated and not fixed:
            incident = _describe_attempt(h, a)
            if last[a.key] is a:  # else its log was overwritten
                log = read_log(h, a, results, _TAIL_BYTES)
                lines = log.text.splitlines()[-_TAIL_LINES:]
                incident = replace(incident, tail=None if log.note else "\n".join(lines))
            others.append(incident)
        others += [_describe_stall(h, a, stall) for stall in a.stalls]
    for h in history.runs:
        others += list(_find_lost_jobs(h))
        others += [_describe_leak(h, left) for left in list_leftovers(h) if left.leaks]
        if h.outcome == KILLED and well <= h.run.wall:
            others.append(_describe_run(h, results))
    others.sort(key=lambda i: i.wall or 0.0, reverse=True)
    return [*failed, *others]


def _describe_attempt(h: RunHistory, a: Attempt) -> Incident:
    end = a.ending
    numbers = {
        "peak_mb": a.peak_mb,
        "declared_mb": a.declared_mb,
        "needed_mb": end.needed_mb if end is not None else None,
        "seconds": a.seconds,
        "signal": float(end.signal) if end is not None and end.signal else None,
        "number": float(a.number),
    }
    known = {key: value for key, value in numbers.items() if value is not None}
    about = (a.outcome, a.wall + a.seconds, a.title, _message(a), a.remedy)
    return Incident("attempt", *about, run=h.run.id, attempt=a.id, numbers=known, log=a.log)


def _message(a: Attempt) -> str:
    end = a.ending
    if end is None:
        loss = a.job.losses.get(a.number) if a.job is not None else None
        return loss.message if loss is not None else _SENTENCES.get(a.outcome, "")
    return f"{_REPEATED} {end.message}" if end.more.get("repeated") else end.message


def _describe_stall(h: RunHistory, a: Attempt, stall: Stall) -> Incident:
    idle = "" if stall.reason == MEMORY else _IDLE.format(stall.seconds)
    return Incident(
        kind="stall",
        cause=STALL,
        wall=a.wall + stall.t - stall.seconds,
        title=a.title,
        message=" ".join(filter(None, (idle, _sentence(stall.message)))),
        helps=_sentence(stall.helps),
        run=h.run.id,
        attempt=a.id,
        numbers={"seconds": stall.seconds, "number": float(a.number)},
        log=a.log,
    )


def _describe_leak(h: RunHistory, left: Leftovers) -> Incident:
    a, kinds = left.worst, []
    if left.files_mb >= 1:
        kinds.append(f"{left.files_mb:.0f} MB of files in memory")
    if left.processes:
        count = "1 process" if left.processes == 1 else f"{left.processes} processes"
        kinds.append(f"{count} with {left.processes_mb:.0f} MB")
    return Incident(
        kind="leak",
        cause=LEAK,
        wall=h.run.wall + a.end,
        title=left.host,
        message=f"Finished jobs left behind {' and '.join(kinds)}, most by {a.title}.",
        helps=_LEAK_HELPS,
        run=h.run.id,
        attempt=a.id,
        numbers={"left_mb": left.files_mb + left.processes_mb},
    )


def _sentence(words: str) -> str:
    """Return words as a sentence of their own."""
    return words and f"{words[0].upper()}{words[1:]}."


def _find_lost_jobs(h: RunHistory) -> Iterator[Incident]:
    """Yield jobs that failed before an attempt started: no environment, no node."""
    tries: dict[int, list[Attempt]] = {}
    for a in h.attempts:
        if a.job is not None:
            tries.setdefault(a.job.jobid, []).append(a)
    for job in h.run.jobs:
        own = tries.get(job.jobid, [])
        well = [*job.list_times("finished"), *(a.end for a in own if a.outcome == ENDED_WELL)]
        last_well = max(well, default=-1.0)
        started_numbers = {a.number for a in own}
        for number, loss in job.losses.items():
            # its batch system ended it before its start
            if number not in started_numbers and last_well <= loss.t:
                yield _describe_job(h, job, loss.t, loss.outcome, loss.message)
        lost = {loss.t for loss in job.losses.values()}
        for t in (t for t in job.list_times("failed") if t not in lost and last_well <= t):
            started = max((s for s in job.list_times("started") if s <= t), default=0.0)
            if not any(started - 1 <= a.end and a.start <= t for a in own):
                message = _error_near(h, t) or "Snakemake could not start it; see its log."
                yield _describe_job(h, job, t, NOT_STARTED, message)


def _describe_job(h: RunHistory, job: Job, t: float, cause: str, message: str) -> Incident:
    log = job.log[0] if job.log else ""
    return Incident("job", cause, h.run.wall + t, job.title, message, run=h.run.id, log=log)


def _error_near(h: RunHistory, t: float) -> str:
    """Return the error of Snakemake nearest to a time, within 2 s; empty if there is none."""
    near = [(abs(m.t - t), m.text) for m in h.run.messages if m.level == "error"]
    apart, text = min(near, default=(3.0, ""))
    return text if apart <= 2.0 else ""


# Memory that is left, MB, below which it has probably run out.
_NONE_LEFT_MB = 100.0
# What the kernel kills at one lack of memory ends within this time, s.
_AT_ONCE_S = 10.0


def _describe_run(h: RunHistory, results: Path) -> Incident:
    message = "Snakemake was killed and could not tidy up; this command continues the run."
    cut = (a for a in h.attempts if a.ending is None)
    left = [attempt.samples.available[-1] for attempt in cut if len(attempt.samples)]
    seen = f" ({min(left):.0f} MB were left)" if left and min(left) < _NONE_LEFT_MB else ""
    last = (a for a in h.attempts if a.end > h.run.seen - _AT_ONCE_S)
    if seen or any(a.outcome == "oom_killed" for a in last):  # the latter in a control group
        message = (
            f"Snakemake was killed, probably because memory ran out{seen}: continue with fewer "
            "--cores, or with a smaller --resources mem_mb."
        )
    return Incident(
        kind="run",
        cause=RUN_KILLED,
        wall=h.run.wall + h.run.seen,
        title="Snakemake",
        message=message,
        remedy=f"unglow resume {shlex.quote(str(results))}",
        run=h.run.id,
        numbers={"seconds": h.run.seen},
    )


def _describe_pairs(pairs: Iterable[Mapping[str, Any]], results: Path) -> Iterator[Incident]:
    equal: dict[object, list[Mapping[str, Any]]] = {}
    for n, row in enumerate(pairs):  # markers of a slide mostly fail together
        same = row["sample"], row["status"], row.get("reasons")
        equal.setdefault(same if row.get("background_channel") else n, []).append(row)
    for row, *others in equal.values():
        yield Incident(
            kind="pair",
            cause=str(row["status"]),
            wall=row.get("wall"),
            title=", ".join([name_of(row), *(str(other["dye"]) for other in others)]),
            message=str(row.get("reasons") or ""),
            helps=suggest_help(results, row) if row["status"] == "failed" else "",
        )
