"""Reader of the telemetry of a results directory, again and again, each byte once.

It remembers how far it has read each file, and lists only directories that have changed, so that a
live view stays cheap however long a run takes. Files are only ever appended to.
"""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.files import open_file
from unglow.telemetry.attempt_files import LONGEST_LINE, number_of, run_files
from unglow.telemetry.jsonl import (
    SUFFIX,
    mapping,
    moment,
    number,
    parse_line,
    parse_rows,
    read_as,
    strings,
    text,
    texts,
    threads,
    unix_time,
    whole_number,
)
from unglow.telemetry.reading.records import (
    Attempt,
    End,
    Job,
    Loss,
    Message,
    Planned,
    RunRecord,
    Samples,
    Stall,
    Step,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    Line = Mapping[str, Any]

# Read at a time, bytes.
_CHUNK = 1 << 20
# Age of a directory's last change from which its time shows every later change, ns; and how often
# all directories are listed whatever their times, s: clocks of network drives may differ.
_SETTLED_NS, _LIST_ALL_S = 3_000_000_000, 60.0


class Follower:
    """Runs and attempts of a results directory, as far as their files have been read.

    Parameters
    ----------
    results
        The results directory; it need not exist yet.
    """

    def __init__(self, results: Path) -> None:
        self.root = results / "telemetry"
        self._attempts: dict[str, _AttemptFile] = {}
        self._runs: dict[Path, _RunFile] = {}
        self._listed: dict[str, tuple[int, list[str]]] = {}  # mtime and directories inside
        self._list_all_at = 0.0

    def poll(self) -> bool:
        """Read what is new; return whether anything was."""
        now = time.monotonic()
        if now >= self._list_all_at:
            self._listed, self._list_all_at = {}, now + _LIST_ALL_S
        self._find_attempts(str(self.root))
        for path in run_files(self.root):
            if path not in self._runs:
                self._runs[path] = _RunFile(path, path.stem)
        files: list[_File] = [*self._attempts.values(), *self._runs.values()]
        read = [file.read() for file in files]
        return any(read)

    def _find_attempts(self, place: str) -> None:
        """Add files of attempts below a directory, listing it only if it has changed."""
        try:
            changed = os.stat(place).st_mtime_ns  # noqa: PTH116 (of thousands of directories)
        except OSError:
            return
        mtime, inside = self._listed.get(place, (None, []))
        if changed != mtime:
            with suppress(OSError), os.scandir(place) as entries:
                inside = []
                for entry in entries:
                    if number_of(entry.name) is not None:
                        self._add_attempt(entry.path)
                    elif entry.is_dir(follow_symlinks=False):
                        inside.append(entry.path)
            # a change just now may be followed by another one with the same time
            is_settled = time.time_ns() - changed > _SETTLED_NS
            self._listed[place] = (changed if is_settled else -1, inside)
        for directory in inside:
            self._find_attempts(directory)

    def _add_attempt(self, path: str) -> None:
        if path not in self._attempts:
            name = path.removeprefix(f"{self.root}/").removesuffix(SUFFIX)
            self._attempts[path] = _AttemptFile(Path(path), name)

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """All runs, the oldest first."""
        runs = (file.record for file in self._runs.values())
        return tuple(sorted((r for r in runs if r is not None), key=lambda r: (r.wall, r.id)))

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """All attempts, the oldest first."""
        attempts = (file.record for file in self._attempts.values())
        known = (a for a in attempts if a is not None)
        return tuple(sorted(known, key=lambda a: (a.wall, a.id)))

    @property
    def open_heads(self) -> list[Line]:
        """First lines of all runs and attempts that have not said how they ended."""
        runs = [run.fields for run in self.runs if run.outcome is None]
        return runs + [attempt.fields for attempt in self.attempts if attempt.ending is None]


@dataclass(slots=True)
class _File:
    """A file, and what it has said so far."""

    path: Path
    id: str
    _offset: int = 0
    _ended: bool = False

    def read(self) -> bool:
        """Read complete lines that are new; return whether there were some."""
        if self._ended:
            return False
        changed = False
        try:
            if self.path.stat().st_size <= self._offset:
                return False
            with open_file(self.path) as stream:
                stream.seek(self._offset)
                rest = b""
                while chunk := stream.read(_CHUNK):
                    if len(rest) > LONGEST_LINE:  # what a damaged disk leaves
                        self._ended = True
                        return changed
                    complete, newline, rest = (rest + chunk).rpartition(b"\n")
                    if newline:
                        self._offset += len(complete) + 1
                        self._parse(complete.split(b"\n"))
                        changed = True
        except OSError:  # it may go away, or a network drive not answer: another time
            return changed
        return changed

    def _parse(self, lines: list[bytes]) -> None:
        raise NotImplementedError


@dataclass(slots=True)
class _AttemptFile(_File):
    """The file of one attempt; its record is None before its first line."""

    record: Attempt | None = None
    _steps: dict[int, Step] = field(default_factory=dict)

    def _parse(self, lines: list[bytes]) -> None:
        stalls = [] if self.record is None else list(self.record.stalls)
        changes: dict[str, Any] = {}
        for one in lines:
            line = parse_line(one) if one.startswith(b"{") else None
            if not isinstance(line, dict):
                continue
            kind, t = line.get("kind"), moment(line.get("t"))
            if kind == "attempt" and self.record is None:
                self.record = _attempt(self.path, self.id, line)
            elif kind == "step":
                self._step(line, t)
            elif kind == "stall":
                self._stall(line, t, stalls)
            elif kind == "progress":
                changes |= {key: number(line.get(key)) for key in ("done", "of")}
                changes["unit"] = str(line.get("unit") or "")
            elif kind == "end":
                changes["ending"] = End.from_line(line)
                self._ended = True
        if self.record is None:
            return
        rows = [one for one in lines if one.startswith(b"[")]
        if rows:
            read = Samples.from_rows(strings(self.record.fields.get("columns")), parse_rows(rows))
            changes["samples"] = self.record.samples.join(read).thin()
        changes |= {"steps": tuple(self._steps.values()), "stalls": tuple(stalls)}
        now = replace(self.record, **changes)
        # one that is not over lasts to the end, or until the job was heard of
        last = (s if s.over else _end_stall(s, now.seconds) for s in stalls)
        self.record = replace(now, stalls=tuple(last))

    @staticmethod
    def _stall(line: Line, t: float, stalls: list[Stall]) -> None:
        """Add a stall; when it is over, a second line reports it again."""
        over, seconds = line.get("over"), moment(line.get("seconds"))
        if over and stalls and not stalls[-1].over:
            first = stalls.pop()
            t = first.t - first.seconds + seconds  # as it began, whenever its end was noticed
        stalls.append(read_as(Stall, line, t=t, over=over is not False))

    def _step(self, line: Line, t: float) -> None:
        key = whole_number(line.get("id"))
        started = self._steps.get(key)
        if line.get("edge") == "begin":
            inside = number(line.get("in"))
            outer = None if inside is None else self._steps.get(int(inside))
            depth = 0 if outer is None else outer.depth + 1
            self._steps[key] = Step(str(line.get("name")), t, None, depth)
        elif started is not None:
            self._steps[key] = replace(started, end=t)


def _end_stall(stall: Stall, t: float) -> Stall:
    return replace(stall, t=t, seconds=stall.seconds + t - stall.t)


def _attempt(path: Path, name: str, line: Line) -> Attempt:
    stage = name.split("/")[-2]
    return read_as(
        Attempt,
        line,
        id=name,
        stage=stage,
        rule=text(line.get("rule", stage)),
        number=whole_number(line.get("attempt")) or 1,
        wall=unix_time(line.get("wall")),
        clock=_clock(line),
        threads=threads(line.get("threads")),
        fields=line,
        samples=Samples.empty(),
        file=path,
    )


@dataclass(slots=True)
class _RunFile(_File):
    """The file of one run; its record is None before its first line."""

    record: RunRecord | None = None
    _totals: dict[str, int] = field(default_factory=dict)
    _jobs: dict[int, Job] = field(default_factory=dict)
    _messages: list[Message] = field(default_factory=list)

    def _parse(self, lines: list[bytes]) -> None:
        changes: dict[str, Any] = {}
        seen = 0.0
        for line in (line for line in map(parse_line, lines) if isinstance(line, dict)):
            t = moment(line.get("t"))
            seen = max(seen, t)
            if self.record is None and line.get("kind") == "run":
                self.record = _run(self.id, line)
            changes |= self._changes(line, t)
        if self.record is not None:
            self.record = replace(
                self.record,
                **changes,
                totals=dict(self._totals),
                jobs=tuple(self._jobs.values()),
                messages=tuple(self._messages),
                seen=max(seen, self.record.seen),
            )

    def _changes(self, line: Line, t: float) -> dict[str, Any]:
        """Take in a line; return what it changes of the record itself."""
        kind = line.get("kind")
        if kind == "total":
            counts = mapping(line.get("jobs"))
            self._totals |= {str(rule): whole_number(n) for rule, n in counts.items()}
        elif kind == "plan":
            return {"plan": _plan(line.get("jobs"))}
        elif kind == "job":
            self._job(line, t)
        elif kind == "state":
            self._state(line, t)
        elif kind == "message":
            self._messages.append(read_as(Message, line))
        elif kind == "end":
            self._ended = True
            return {"outcome": str(line.get("outcome") or "failed")}
        return {}

    def _job(self, line: Line, t: float) -> None:
        key = whole_number(line.get("jobid"))
        known = self._jobs.get(key)
        before = known.events if known is not None else ()
        self._jobs[key] = read_as(
            Job,
            line,
            jobid=key,
            threads=threads(line.get("threads")),
            local=bool(line.get("local", True)),
            events=(*before, (t, text(line.get("state")) or "queued")),
            losses=known.losses if known is not None else {},
        )

    def _state(self, line: Line, t: float) -> None:
        job = self._jobs.get(whole_number(line.get("jobid")))
        if job is None:
            return
        losses = dict(job.losses)
        if "outcome" in line:  # of an attempt that could not say so itself
            loss = Loss(t, str(line["outcome"]), str(line.get("message") or ""))
            losses[whole_number(line.get("attempt")) or 1] = loss
        events = (*job.events, (t, str(line.get("state") or "")))
        self._jobs[job.jobid] = replace(job, events=events, losses=losses)


def _run(name: str, line: Line) -> RunRecord:
    wall, clock = unix_time(line.get("wall")), _clock(line)
    return read_as(RunRecord, line, id=name, wall=wall, clock=clock, fields=line)


def _plan(jobs: object) -> tuple[Planned, ...]:
    """Return the planned jobs of a line, each after those that it waits for.

    Malformed jobs are dropped, and the whole plan if it has a cycle.
    """
    rows = [row for row in jobs if isinstance(row, list)] if isinstance(jobs, list) else []
    planned = {
        number: Planned(number, str(rule), texts(wildcards), tuple(map(whole_number, after)))
        for number, rule, wildcards, after in (row for row in rows if len(row) == 4)
        if isinstance(number, int) and isinstance(after, list)
    }
    sorter = TopologicalSorter({n: job.after for n, job in planned.items()})
    try:
        return tuple(planned[n] for n in sorter.static_order() if n in planned)
    except CycleError:
        return ()


def _clock(line: Line) -> float:
    clock = number(line.get("clock"))
    return math.nan if clock is None else clock
