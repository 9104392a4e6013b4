"""Reading the telemetry of a results directory, again and again, each byte once.

A `Follower` remembers how far it has read each file, so that a live view stays cheap however long
a run takes. Files are only ever appended to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from unglow.telemetry.attempt_files import attempt_files, run_files
from unglow.telemetry.reading.parsing import moment, number, parsed, parsed_rows, unix_time
from unglow.telemetry.reading.records import (
    Attempt,
    End,
    Job,
    Loss,
    Message,
    Run,
    Stall,
    Step,
    texts,
    threads,
    words,
)
from unglow.telemetry.reading.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CHUNK = 1 << 20


class Follower:
    """Runs and attempts of a results directory, as far as their files have been read.

    Parameters
    ----------
    results
        The results directory; it need not exist yet.
    """

    def __init__(self, results: Path) -> None:
        self.root = results / "telemetry"
        self._attempts: dict[Path, _AttemptFile] = {}
        self._runs: dict[Path, _RunFile] = {}

    def poll(self) -> bool:
        """Read what is new; return whether anything was."""
        for path in attempt_files(self.root):
            if path not in self._attempts:
                key = path.relative_to(self.root).with_suffix("").as_posix()
                self._attempts[path] = _AttemptFile(path, key)
        for path in run_files(self.root):
            if path not in self._runs:
                self._runs[path] = _RunFile(path, path.stem)
        files: list[_File] = [*self._attempts.values(), *self._runs.values()]
        read = [file.read() for file in files]
        return any(read)

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs, the oldest first."""
        runs = (file.record for file in self._runs.values())
        return tuple(sorted((r for r in runs if r is not None), key=lambda r: (r.wall, r.id)))

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """All attempts, the oldest first."""
        attempts = (file.record for file in self._attempts.values())
        known = (a for a in attempts if a is not None)
        return tuple(sorted(known, key=lambda a: (a.wall, a.id)))


@dataclass(slots=True)
class _File:
    """Lines of a file that have been read, and where to go on."""

    path: Path
    id: str
    _offset: int = 0
    _ended: bool = False

    def read(self) -> bool:
        """Take in whole lines that are new; return whether there were some."""
        if self._ended:
            return False
        changed = False
        try:
            if self.path.stat().st_size <= self._offset:
                return False
            with self.path.open("rb") as stream:
                stream.seek(self._offset)
                rest = b""
                while chunk := stream.read(_CHUNK):
                    whole, newline, rest = (rest + chunk).rpartition(b"\n")
                    if newline:
                        self._offset += len(whole) + 1
                        self._take(whole.split(b"\n"))
                        changed = True
        except OSError:  # it may go away, or a network drive not answer: another time
            return changed
        return changed

    def _take(self, lines: list[bytes]) -> None:
        raise NotImplementedError


@dataclass(slots=True)
class _AttemptFile(_File):
    """The file of one attempt."""

    _first: Mapping[str, Any] | None = None
    _samples: Samples = field(default_factory=Samples.none)
    _steps: dict[int, Step] = field(default_factory=dict)
    _stalls: list[Stall] = field(default_factory=list)
    _progress: tuple[float | None, float | None, str] = (None, None, "")
    _end: End | None = None
    _made: Attempt | None = None

    @property
    def record(self) -> Attempt | None:
        """The attempt; None before its first line."""
        if self._made is None and self._first is not None:
            self._made = _attempt(
                self.id,
                self._first,
                samples=self._samples,
                steps=tuple(self._steps.values()),
                stalls=tuple(self._stalls),
                done=self._progress[0],
                of=self._progress[1],
                unit=self._progress[2],
                end=self._end,
            )
        return self._made

    def _take(self, lines: list[bytes]) -> None:
        self._made = None
        rows = [line for line in lines if line.startswith(b"[")]
        for line in lines:
            if line.startswith(b"{"):
                told = parsed(line)
                if isinstance(told, dict):
                    self._tell(told)
        if rows and self._first is not None:
            columns = words(self._first.get("columns"))
            read = Samples.of(columns, parsed_rows(rows))
            self._samples = self._samples.joined(read).thinned()

    def _tell(self, line: Mapping[str, Any]) -> None:
        kind, t = line.get("kind"), moment(line.get("t"))
        if kind == "attempt" and self._first is None:
            self._first = line
        elif kind == "step":
            self._step(line, t)
        elif kind == "stall":
            told = str(line.get("message") or "")
            self._stalls.append(Stall(t, moment(line.get("seconds")), told))
        elif kind == "progress":
            done, of = number(line.get("done")), number(line.get("of"))
            self._progress = (done, of, str(line.get("unit") or ""))
        elif kind == "end":
            self._end = End.of(line)
            self._ended = True

    def _step(self, line: Mapping[str, Any], t: float) -> None:
        key = int(number(line.get("id")) or 0)
        begun = self._steps.get(key)
        if line.get("edge") == "begin":
            inside = number(line.get("in"))
            outer = None if inside is None else self._steps.get(int(inside))
            depth = 0 if outer is None else outer.depth + 1
            self._steps[key] = Step(str(line.get("name")), t, None, depth)
        elif begun is not None:
            self._steps[key] = replace(begun, end=t)


@dataclass(slots=True)
class _RunFile(_File):
    """The file of one run."""

    _first: Mapping[str, Any] | None = None
    _totals: dict[str, int] = field(default_factory=dict)
    _jobs: dict[int, Job] = field(default_factory=dict)
    _messages: list[Message] = field(default_factory=list)
    _progress: tuple[int, int] = (0, 0)
    _seen: float = 0.0
    _outcome: str | None = None
    _made: Run | None = None

    @property
    def record(self) -> Run | None:
        """The run; None before its first line."""
        if self._made is None and self._first is not None:
            self._made = Run(
                id=self.id,
                host=str(self._first.get("host", "")),
                wall=unix_time(self._first.get("wall")),
                clock=_clock(self._first),
                fields=self._first,
                totals=dict(self._totals),
                jobs=tuple(self._jobs.values()),
                messages=tuple(self._messages),
                done=self._progress[0],
                of=self._progress[1],
                seen=self._seen,
                outcome=self._outcome,
            )
        return self._made

    def _take(self, lines: list[bytes]) -> None:
        self._made = None
        for line in lines:
            told = parsed(line)
            if isinstance(told, dict):
                self._tell(told)

    def _tell(self, line: Mapping[str, Any]) -> None:
        kind, t = line.get("kind"), moment(line.get("t"))
        self._seen = max(self._seen, t)
        if kind == "run" and self._first is None:
            self._first = line
        elif kind == "total":
            jobs = line.get("jobs")
            counts = jobs if isinstance(jobs, dict) else {}
            self._totals |= {str(rule): int(number(n) or 0) for rule, n in counts.items()}
        elif kind == "job":
            self._job(line, t)
        elif kind == "state":
            self._state(line, t)
        elif kind == "progress":
            done, of = (int(number(line.get(key)) or 0) for key in ("done", "of"))
            self._progress = (done, of)
        elif kind == "message":
            text = str(line.get("text", ""))
            self._messages.append(Message(t, str(line.get("level", "error")), text))
        elif kind == "end":
            self._outcome = str(line.get("outcome") or "failed")
            self._ended = True

    def _job(self, line: Mapping[str, Any], t: float) -> None:
        key = int(number(line.get("jobid")) or 0)
        known = self._jobs.get(key)
        before = known.events if known is not None else ()
        resources = line.get("resources")
        self._jobs[key] = Job(
            jobid=key,
            rule=str(line.get("rule", "")),
            wildcards=texts(line.get("wildcards")),
            reason=str(line.get("reason") or ""),
            threads=threads(line.get("threads")),
            resources=resources if isinstance(resources, dict) else {},
            local=bool(line.get("local", True)),
            input=words(line.get("input")),
            output=words(line.get("output")),
            log=words(line.get("log")),
            events=(*before, (t, str(line.get("state") or "queued"))),
            losses=known.losses if known is not None else {},
        )

    def _state(self, line: Mapping[str, Any], t: float) -> None:
        key = int(number(line.get("jobid")) or 0)
        job = self._jobs.get(key)
        if job is not None:
            events = (*job.events, (t, str(line.get("state") or "")))
            self._jobs[key] = replace(job, events=events, losses={**job.losses, **_loss(line, t)})


def _loss(line: Mapping[str, Any], t: float) -> dict[int, Loss]:
    """Return what became of an attempt that could not say so itself, if a line tells of one."""
    if "outcome" not in line:
        return {}
    told = Loss(t, str(line["outcome"]), str(line.get("message") or ""))
    return {int(number(line.get("attempt")) or 1): told}


def _attempt(key: str, line: Mapping[str, Any], **read: Any) -> Attempt:
    stage = key.split("/")[-2] if "/" in key else str(line.get("rule", ""))
    return Attempt(
        id=key,
        stage=stage,
        rule=str(line.get("rule", stage)),
        wildcards=texts(line.get("wildcards")),
        number=int(number(line.get("attempt")) or 1),
        host=str(line.get("host", "")),
        wall=unix_time(line.get("wall")),
        clock=_clock(line),
        declared_mb=number(line.get("declared_mb")),
        threads=threads(line.get("threads")),
        limit_s=number(line.get("limit_s")),
        log=str(line.get("log") or ""),
        fields=line,
        **read,
    )


def _clock(line: Mapping[str, Any]) -> float:
    clock = number(line.get("clock"))
    return math.nan if clock is None else clock
