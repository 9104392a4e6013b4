"""One attempt that is recorded from outside: its processes, what they took, its steps, its end."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import psutil

from unglow.core import machine
from unglow.core.files import open_file
from unglow.core.process import words_of
from unglow.jobs.memory_limit import MachineMemory, mentions_memory
from unglow.jobs.outcomes import FROM_OUTSIDE, raise_mb
from unglow.jobs.snakemake_command import set_options, snakemake_words
from unglow.jobs.watchdog import Idleness, Reason, count_kernel_kills
from unglow.telemetry.attempt_files import attempt_file, take_number
from unglow.telemetry.jsonl import SUFFIX, parse_line, texts
from unglow.telemetry.recording import SPANS_VARIABLE, profiler
from unglow.telemetry.recording.attempt import Attempt, Sample
from unglow.telemetry.recording.sampler import Sampler

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from unglow.core.process import Ended


JOBS = "jobs"
"""Directory of such attempts, below that of all telemetry."""
_UNSAFE = re.compile(r"[^\w.=,-]")
_LONGEST_NAME = 80
# A stall grows by at most this from one look to the next, s.
_LONGEST_STEP_S = 10.0
_PYTHON = re.compile(r"(.*/)?python[\d.]*")
# Two records of the kernel of one peak differ by less than this.
_SURE = 0.99
# What is summed up over the processes of a job.
_SUMS = ("cpu_s", "read", "written")


def directory_of(telemetry: Path, rule: str, wildcards: Mapping[str, str]) -> Path:
    """Return the directory of the attempts at a job, which has the name of its rule."""
    text = ",".join(f"{key}={value}" for key, value in wildcards.items())
    safe = _UNSAFE.sub("_", text)[:_LONGEST_NAME]
    if safe != text:
        safe += f"-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    place = telemetry / JOBS
    own = _UNSAFE.sub("_", rule)  # any name that somebody measures
    return (place / safe if safe.strip(".") else place) / (own if own.strip(".") else "_")


class WatchedAttempt:
    """Records an attempt from outside.

    Parameters
    ----------
    telemetry, rule, wildcards
        Directory of all telemetry, and the job; raises `OSError` if no file can be made there.
    declared
        What else the first line says about the job.

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

    def __init__(
        self, telemetry: Path, rule: str, wildcards: Mapping[str, str], **declared: Any
    ) -> None:
        directory = directory_of(telemetry, rule, wildcards)
        path = attempt_file(directory, take_number(directory))
        unknown = {"attempt": 1, "declared_mb": None, "threads": 1, "limit_s": None, "log": ""}
        job = {"rule": rule, "wildcards": wildcards, **unknown, **declared, "recorded": "outside"}
        wanted = profiler.is_wanted(rule)
        self._attempt = Attempt(path, time.monotonic(), job, profiled=wanted)
        self._before = MachineMemory.measure()
        self._idleness: Idleness | None = None
        self._looked_at = 0.0
        self.clock = time.monotonic() - self._attempt.t
        self._samplers: list[Sampler] = []
        self._taken: list[Sample] = []
        self._sum = Sample()
        self._settled, self._missed = 0, dict.fromkeys(_SUMS, 0.0)
        self._peak_of_ended = 0.0
        self._most_at_once = 0.0
        # kills for lack of memory in its control groups, before it was seen in each of them
        self._kills: dict[Path | None, int] = {}
        self._steps: dict[tuple[str, int], int] = {}
        self.peak_mb: float | None = None
        self.gone_since: float | None = None
        self.scripts: list[str] = []

    @property
    def is_alive(self) -> bool:
        """Whether a process of it was there at the last look."""
        return self._sum.processes > 0

    @property
    def was_seen(self) -> bool:
        """Whether any process of it was seen."""
        return bool(self._samplers)

    @property
    def has_unsettled(self) -> bool:
        """Whether processes of it have gone, and nobody has said what they took in all."""
        return len(self._find_gone()) > self._settled

    def _find_gone(self) -> list[Sample]:
        """Return the last samples of processes that have been waited for; others may outlive one.

        One that has gone since the last look counts: what it took is in the sums already.
        """
        pairs = zip(self._samplers, self._taken, strict=True)
        return [taken for sampler, taken in pairs if not psutil.pid_exists(sampler.pids[0])]

    def settle(self, ended: Ended | None) -> None:
        """Take what the processes of it that have gone since the last time took in all.

        Only their parent learns that, after the last look at them; None if it does not know.
        """
        gone = self._find_gone()
        new, self._settled = gone[self._settled :], len(gone)
        if ended is None:
            return
        for key in _SUMS:
            seen = sum(getattr(one, key) for one in new)
            self._missed[key] += max(0, getattr(ended, key) - seen)
        self._peak_of_ended = max(self._peak_of_ended, ended.peak_mb)
        self.peak_mb = max(self.peak_mb or 0.0, ended.peak_mb) or None

    @property
    def pids(self) -> list[int]:
        """The processes that were seen last."""
        return [pid for sampler in self._samplers for pid in sampler.pids]

    @property
    def kernel_kills(self) -> int:
        """How many processes the kernel killed meanwhile in the control groups of the job."""
        counts = (count_kernel_kills(group) - before for group, before in self._kills.items())
        return max(counts, default=0)

    def add_process(self, pid: int, script: str = "") -> None:
        """Watch another process that Snakemake has started for it, if so with a script."""
        self.scripts += [script] if script else []
        self._samplers.append(Sampler(pid))
        self._attempt.forked(pid)
        self._idleness = self._idleness or Idleness(pid, self._report_stall)
        self._looked_at = time.monotonic()
        self.sample()

    def sample(self) -> None:
        """Take a sample."""
        if not self._samplers:
            return
        was_alive = self.is_alive
        self._taken = [sampler.sample() for sampler in self._samplers]
        self._sum = taken = _sum_samples(self._taken)
        if taken.processes > 1 and taken.pss_mb is not None:
            self._most_at_once = max(self._most_at_once, taken.pss_mb)
        self.peak_mb = max(taken.peak_mb, self._most_at_once, self._peak_of_ended)
        if self.is_alive:
            self.gone_since = None
            group = machine.find_kills_file(self.pids[-1])
            if group not in self._kills:
                self._kills[group] = count_kernel_kills(group)
            self._attempt.sample(replace(taken, peak_mb=self.peak_mb))
            self._sample_closer(taken)
        elif was_alive or self.gone_since is None:
            self.gone_since = time.monotonic()

    def _sample_closer(self, taken: Sample) -> None:
        """Look whether the job stalls, and into its first Python process if that is wanted."""
        now = time.monotonic()
        step, self._looked_at = min(now - self._looked_at, _LONGEST_STEP_S), now
        if self._idleness is not None:
            self._idleness.sample(step, taken, self.pids)
        if self._attempt.lacks_spy:
            python = next((p for p in self.pids if _PYTHON.fullmatch((*words_of(p), "")[0])), None)
            if python is not None:
                self._attempt.spy_on(python)

    def _report_stall(self, seconds: float, why: Reason, over: bool) -> None:  # noqa: FBT001 (called so)
        self._attempt.stall(seconds, why._asdict(), over=over)

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
        measured: dict[str, Any] = {"measured": "processes" if self._samplers else "nothing"}
        if self._samplers or any(self._missed.values()):
            total = {key: getattr(self._sum, key) + self._missed[key] for key in _SUMS}
            moved = {key: round(total[key]) for key in ("read", "written")}
            measured |= {"cpu_s": round(total["cpu_s"], 2), **moved}
        if self.peak_mb is not None:
            at_once = self._most_at_once >= self.peak_mb
            peak_of = "several processes" if at_once else "one process"
            measured |= {"peak_mb": round(self.peak_mb, 2), "peak_of": peak_of}
            if self._peak_of_ended < _SURE * self.peak_mb:
                # not what the kernel says of its end: another one may have been larger before
                measured["at_least"] = True
        if self._idleness is not None and self._idleness.stall.longest_s:
            measured["stalled_seconds"] = round(self._idleness.stall.longest_s)
        others = [mb for sampler in self._samplers for mb in sampler.others()]
        measured |= self._before.compare((), self._sum.written, others)
        self._attempt.finish_spy()
        self._attempt.end(log_tail=log, **{**measured, **ending})
        self._samplers.clear()


def _sum_samples(samples: Sequence[Sample]) -> Sample:
    """Return what all processes of a job take: those that Snakemake started one after the other."""
    living = [s for s in samples if s.processes]
    shared = [s.pss_mb for s in living if s.pss_mb is not None]
    so_far = {key: sum(getattr(s, key) for s in samples) for key in _SUMS}
    now = {key: sum(getattr(s, key) for s in living) for key in ("rss_mb", "threads", "processes")}
    return Sample(
        **so_far,
        **now,
        pss_mb=sum(shared) if shared and len(shared) == len(living) else None,
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
        os.environ[SPANS_VARIABLE] = str(self._place)

    def lines_of(
        self, rule: str, wildcards: Mapping[str, str], pids: Sequence[int]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the lines of a job that are new, each with the name of its file."""
        for name, file in self._files.items():
            if file.is_of(rule, wildcards, pids):
                while file.lines:
                    yield name, file.lines.pop(0)

    def read_new(self) -> None:
        """Read what is new."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._place):  # noqa: PTH208 (names are all that is needed)
                if name.endswith(SUFFIX):
                    self._files.setdefault(name, _SpanFile(self._place / name)).read()

    def remove(self) -> None:
        """Remove the files, which have been copied, and the variable."""
        if os.environ.get(SPANS_VARIABLE) == str(self._place):
            del os.environ[SPANS_VARIABLE]
        shutil.rmtree(self._place, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._place.parent.rmdir()


_STATUS = re.compile(r"returned non-zero exit status (\d+)")
_SIGNAL = re.compile(r"died with <Signals\.(\w+)")
# A shell ends with this and the number of the signal that ended its command.
_BY_SIGNAL = 128
# What Python and R write when an allocation has failed.
_NO_MEMORY = ("MemoryError", "cannot allocate vector of size")


@dataclass(frozen=True, slots=True)
class Failure:
    """What is known of a job that failed.

    Attributes
    ----------
    rule, declared_mb, peak_mb
        The job: its rule, the memory that it declared, and what it was seen to take; None if
        nothing is known.
    code
        Exit status, minus the number of a signal; None if Snakemake has not reported it.
    kernel_kills
        How many processes of its control group the kernel killed meanwhile because memory ran out.
    interrupted
        Whether the run was asked to end.
    log
        The end of its log.
    """

    rule: str
    declared_mb: float | None
    peak_mb: float | None
    code: int | None
    kernel_kills: int
    interrupted: bool
    log: str = ""


def exit_code(errors: Sequence[str], names: Sequence[str]) -> int | None:
    """Return the exit status of a job from Snakemake's errors, the last first; None if unknown.

    Parameters
    ----------
    errors
        Texts of errors.
    names
        What an error that is about the job holds one of: its command or script.
    """
    for text in reversed(errors):
        if not any(name in text for name in names if name):
            continue
        if found := _SIGNAL.search(text):
            return -signal.Signals[found[1]].value
        if found := _STATUS.search(text):
            status = int(found[1])
            return _BY_SIGNAL - status if _BY_SIGNAL < status < _BY_SIGNAL + 65 else status
    return None


def describe_failure(failure: Failure) -> dict[str, Any]:
    """Return how a failed job ended, as the last line of an attempt says it."""
    code = failure.code or 0
    status = {"signal": max(0, -code), "code": failure.code}
    if failure.interrupted:
        return {"outcome": "interrupted", "message": "", **status}
    if code == -signal.SIGKILL and failure.kernel_kills:
        sentence = f"killed by the system because memory ran out ({_memory(failure)})"
        return {**_lack("oom_killed", sentence, failure), **status}
    if mentions_memory(failure.log) or any(words in failure.log for words in _NO_MEMORY):
        return {**_lack("memory", f"an allocation failed ({_memory(failure)})", failure), **status}
    if -code in FROM_OUTSIDE:
        name = signal.Signals(-code).name
        return {"outcome": "killed", "message": f"ended from outside by {name}.", **status}
    if code < 0:
        how = f"ended by {signal.Signals(-code).name}"
    else:
        how = "failed" if failure.code is None else f"ended with exit status {code}"
    where = "see its log" if failure.log else "Snakemake's log (.snakemake/log) says more"
    return {"outcome": "error", "message": f"{how}; {where}.", **status}


def describe_overrun(declared_mb: float | None, peak_mb: float | None) -> str:
    """Return a sentence about a job that ended well with more than it declared; else nothing."""
    if declared_mb is None or peak_mb is None or peak_mb <= declared_mb:
        return ""
    return f"took {peak_mb:.0f} MB, more than the mem_mb of {declared_mb:.0f} of its rule."


def _memory(failure: Failure) -> str:
    seen = "no peak seen" if failure.peak_mb is None else f"{failure.peak_mb:.0f} MB seen"
    declared = failure.declared_mb
    return seen if declared is None else f"{seen}, mem_mb is {declared:.0f}"


def _lack(outcome: str, sentence: str, failure: Failure) -> dict[str, Any]:
    """Return the ending of a job that lacked memory, with what to declare for another attempt."""
    if failure.declared_mb is None:
        helps = "run fewer jobs at a time, or declare mem_mb for its rule."
        return {"outcome": outcome, "message": f"{sentence}; {helps}"}
    needed = raise_mb(failure.declared_mb, failure.peak_mb or 0.0)
    options = {"--set-resources": (f"{failure.rule}:mem_mb", str(needed))}
    command = shlex.join(set_options(snakemake_words(sys.argv), options))
    message = f"{sentence}; declare more, or run fewer jobs at a time."
    return {"outcome": outcome, "message": message, "needed_mb": needed, "remedy": command}
