"""One attempt that is recorded from outside: its processes, what they took, its steps."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from unglow.core import machine, process
from unglow.core.files import open_file
from unglow.telemetry.attempt_files import attempt_file, take_number
from unglow.telemetry.jsonl import SUFFIX, parse_line, texts
from unglow.telemetry.recording.attempt import Attempt
from unglow.telemetry.recording.process_sampler import Sample, Sampler
from unglow.telemetry.recording.span import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


JOBS = "jobs"
"""Directory of such attempts, below that of all telemetry."""
_UNSAFE = re.compile(r"[^\w.=,-]")
_LONGEST_NAME = 80


def directory_of(telemetry: Path, rule: str, wildcards: Mapping[str, str]) -> Path:
    """Return the directory of the attempts at a job, which has the name of its rule."""
    text = ",".join(f"{key}={value}" for key, value in wildcards.items())
    safe = _UNSAFE.sub("_", text)[:_LONGEST_NAME]
    if safe != text:
        safe += f"-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    place = telemetry / JOBS
    return (place / safe if safe.strip(".") else place) / rule


class _Kills:
    """Kills for want of memory in the control groups of a job, from when it was seen in each."""

    def __init__(self) -> None:
        self._before: dict[Path | None, int] = {}

    def look(self, pid: int) -> None:
        """Find the group that a process is in; the machine counts where no group does."""
        group = machine.find_kills_file(pid)
        if group not in self._before:
            self._before[group] = self._count(group)

    @property
    def seen(self) -> int:
        """How many there were."""
        return max((self._count(g) - before for g, before in self._before.items()), default=0)

    @staticmethod
    def _count(group: Path | None) -> int:
        return process.machine_oom_kills() if group is None else machine.count_kills(group) or 0


class WatchedAttempt:
    """Records an attempt from outside.

    Parameters
    ----------
    directory
        That of its file (`directory_of`); raises `OSError` if none can be made there.
    declared
        What the first line says about the job.

    Attributes
    ----------
    peak_mb
        Memory that it was seen to take at most: the largest resident set of one process, as the
        kernel keeps it, or the proportional sets of several at one moment; None if nothing was
        seen.
    gone_since
        When its processes were gone, monotonic time, s; None while they are there, or unseen.
    scripts
        The files that Snakemake has written for its processes.
    """

    def __init__(self, directory: Path, declared: Mapping[str, Any]) -> None:
        path = attempt_file(directory, take_number(directory))
        self._attempt = Attempt(path, time.monotonic(), {**declared, "recorded": "outside"})
        self.clock = time.monotonic() - self._attempt.t
        self._samplers: list[Sampler] = []
        self._sum = Sample()
        self._most_at_once = 0.0
        self._kills = _Kills()
        self._steps: dict[tuple[str, int], int] = {}
        self.peak_mb: float | None = None
        self.gone_since: float | None = None
        self.scripts: list[str] = []

    @property
    def is_alive(self) -> bool:
        """Whether a process of it was there at the last look."""
        return self._sum.processes > 0

    @property
    def pids(self) -> list[int]:
        """The processes that were seen last."""
        return [pid for sampler in self._samplers for pid in sampler.pids]

    @property
    def kernel_kills(self) -> int:
        """How many processes the kernel killed meanwhile in the control groups of the job."""
        return self._kills.seen

    def add_process(self, pid: int, script: str = "") -> None:
        """Watch another process that Snakemake has started for it, if so with a script."""
        self.scripts += [script] if script else []
        self._samplers.append(Sampler(pid))
        self._attempt.forked(pid)
        self.look()

    def look(self) -> None:
        """Take a sample."""
        if not self._samplers:
            return
        was_alive = self.is_alive
        self._sum = taken = _sum_samples([sampler.take() for sampler in self._samplers])
        if taken.processes > 1 and taken.pss_mb is not None:
            self._most_at_once = max(self._most_at_once, taken.pss_mb)
        self.peak_mb = max(taken.peak_mb, self._most_at_once)
        if self.is_alive:
            self.gone_since = None
            self._kills.look(self.pids[-1])
            self._attempt.sample(replace(taken, peak_mb=self.peak_mb))
        elif was_alive or self.gone_since is None:
            self.gone_since = time.monotonic()

    def step(self, source: str, line: Mapping[str, Any]) -> None:
        """Copy a line about a step that a process of it has written.

        Parameters
        ----------
        source
            The file, whose steps are numbered from 1.
        line
            With ``t`` by the monotonic clock of the machine.
        """
        named = {key: line[key] for key in ("id", "in") if isinstance(line.get(key), int)}
        numbers = {
            key: self._steps.setdefault((source, number), len(self._steps) + 1)
            for key, number in named.items()
        }
        t = max(0.0, round(float(line["t"]) - self.clock, 4))
        self._attempt.write({"in": None, **line, **numbers, "t": t})

    def end(self, ending: Mapping[str, Any], log: str = "") -> None:
        """Record how it ended, and watch it no more."""
        self.look()
        measured: dict[str, Any] = {"measured": "processes" if self._samplers else "nothing"}
        if self.peak_mb is not None:
            at_once = self._most_at_once > self._sum.peak_mb
            measured |= {
                "peak_mb": round(self.peak_mb, 2),
                "peak_of": "several processes" if at_once else "one process",
                "cpu_s": round(self._sum.cpu_s, 2),
                "read": self._sum.read,
                "written": self._sum.written,
            }
        self._attempt.end(log_tail=log, **{**measured, **ending})
        self._samplers.clear()


def _sum_samples(samples: Sequence[Sample]) -> Sample:
    """Return what all processes of a job take: those that Snakemake started one after the other."""
    living = [s for s in samples if s.processes]
    shared = [s.pss_mb for s in living if s.pss_mb is not None]
    return Sample(
        rss_mb=sum(s.rss_mb for s in living),
        pss_mb=sum(shared) if shared and len(shared) == len(living) else None,
        cpu_s=sum(s.cpu_s for s in samples),
        read=sum(s.read for s in samples),
        written=sum(s.written for s in samples),
        threads=sum(s.threads for s in living),
        processes=sum(s.processes for s in living),
        state=next((s.state for s in living), ""),
        peak_mb=max(s.peak_mb for s in samples),
        available_mb=samples[-1].available_mb,
    )


_PLACE = "spans"


@dataclass
class _SpanFile:
    path: Path
    head: Mapping[str, Any] = field(default_factory=dict)
    offset: int = 0
    lines: list[dict[str, Any]] = field(default_factory=list)

    def read(self) -> None:
        """Take in complete lines that are new."""
        with contextlib.suppress(OSError), open_file(self.path) as stream:
            stream.seek(self.offset)
            complete, newline, _ = stream.read().rpartition(b"\n")
            self.offset += len(complete) + len(newline)
            records = [
                line for line in map(parse_line, complete.split(b"\n")) if isinstance(line, dict)
            ]
            self.head = self.head or next((t for t in records if t.get("kind") == "spans"), {})
            self.lines += [t for t in records if t.get("kind") in ("step", "progress")]

    def is_of(self, rule: str, wildcards: Mapping[str, str], pids: Sequence[int]) -> bool:
        """Whether a process of a job has written it."""
        if "rule" in self.head:
            return self.head["rule"] == rule and texts(self.head.get("wildcards")) == wildcards
        return self.head.get("pid") in pids


class SpanFiles:
    """Files of the processes of a run; the environment names their directory.

    Parameters
    ----------
    telemetry
        Directory of all telemetry.
    run_id
        The run.
    """

    def __init__(self, telemetry: Path, run_id: str) -> None:
        self._place = telemetry / _PLACE / run_id
        self._files: dict[str, _SpanFile] = {}
        self._place.mkdir(parents=True, exist_ok=True)
        os.environ[VARIABLE] = str(self._place)

    def lines_of(
        self, rule: str, wildcards: Mapping[str, str], pids: Sequence[int]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the lines of a job that are new, each with the name of its file."""
        for name, file in self._files.items():
            if file.is_of(rule, wildcards, pids):
                while file.lines:
                    yield name, file.lines.pop(0)

    def look(self) -> None:
        """Read what is new."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._place):  # noqa: PTH208 (names are all that is needed)
                if name.endswith(SUFFIX):
                    self._files.setdefault(name, _SpanFile(self._place / name)).read()

    def remove(self) -> None:
        """Remove the files, which have been copied, and the variable."""
        if os.environ.get(VARIABLE) == str(self._place):
            del os.environ[VARIABLE]
        shutil.rmtree(self._place, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._place.parent.rmdir()
