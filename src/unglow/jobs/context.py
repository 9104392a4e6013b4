"""The context that every script runs in: one clear error, measured memory, limits that hold.

This is the only place of the package that looks at the ``snakemake`` object of a script, and it
does so through the `Script` protocol.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import time
import traceback
from dataclasses import dataclass, field
from functools import partial
from inspect import currentframe
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self

from unglow.core import digests, files, machine, made_with, process, progress
from unglow.core.errors import SupersededError, UnglowError
from unglow.core.levels import name_of
from unglow.core.own_memory import pause_collection, pin_threads
from unglow.core.printable import LOGGER, SHOWN, begin_log, printable, warn
from unglow.core.progress import step
from unglow.jobs import launcher, memory_limit, outcomes, retries, watchdog
from unglow.jobs.attempt_lock import AttemptLock
from unglow.jobs.launcher import ParentProcess
from unglow.jobs.memory_limit import MachineMemory
from unglow.memory import from_json
from unglow.telemetry.jsonl import MEMORY
from unglow.telemetry.recording import profiler
from unglow.telemetry.recording.attempt import Attempt

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pdb import Pdb
    from types import TracebackType

    from unglow.jobs.watchdog import Reason
    from unglow.memory import AnyDemand

# A job after which the machine has this much less memory, MB, is worth a word.
_LEFT_BEHIND_MB = 200.0
# Name of the output that lists the digests of the others.
DIGESTS = "digests"
DEBUGGED = "UNGLOW_DEBUG"
"""Variable that `unglow run --debug` sets: the job runs in its script, at the terminal.

Without a second process nothing measures it or ends it: no samples, no limits of memory and time.
Results are the same.
"""

log = logging.getLogger(LOGGER)


class Script(Protocol):
    """What a Snakemake script gets as its global ``snakemake``."""

    rule: str
    threads: int
    log: Any
    input: Any
    output: Any
    params: Any
    wildcards: Mapping[str, str]
    resources: Any


@dataclass(slots=True)
class Job:
    """One attempt at one job, used as a context manager around a single call into the package.

    On entry the process splits in two: the block of the ``with`` statement runs in the new process,
    and the old one watches it, keeps its record and ends as it ended.

    Attributes
    ----------
    rule, wildcards
        What runs, for messages and records.
    threads
        Workers that the job may use.
    mem_mb
        Memory that was declared for it, MB.
    log_path, record_path
        Its log, and its record; the files of its attempts are next to that.
    limit_s
        Time that it may take, s; None for no limit.
    attempt
        1 the first time that a run of the workflow tries the job.
    launcher_mb
        What a batch system needs in addition to start it, MB; 0 on this machine.
    demand
        The memory that it needs, by its rule; None where the rule does not say.
    in_flight
        Blocks in flight; None until they are chosen.
    outputs
        Files that it is to publish.
    targets
        Those that have names, by their names; without the list of digests.
    digests_path
        Where the digests of the others are to be listed, if they are.
    params, inputs
        What it is given, by name, for that list.
    """

    rule: str
    wildcards: dict[str, str]
    threads: int
    mem_mb: float
    log_path: Path
    record_path: Path
    limit_s: float | None = None
    attempt: int = 1
    launcher_mb: float = 0.0
    outputs: tuple[Path, ...] = ()
    targets: dict[str, Path] = field(default_factory=dict)
    digests_path: Path | None = None
    params: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    counters: dict[str, float] = field(default_factory=dict)
    demand: AnyDemand | None = None
    in_flight: int | None = None
    _most_workers: int | None = None
    _report: int | None = None
    _telemetry: Attempt = field(init=False)
    _lock: AttemptLock = field(init=False)
    _parent: ParentProcess = field(default_factory=ParentProcess.find)
    _loading: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _room: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _started: float = field(default_factory=time.monotonic)

    @classmethod
    def from_script(cls, script: Script) -> Job:
        """Describe the job that a script runs as; pins threads, so call it before heavy imports."""
        threads = max(1, int(script.threads))
        pin_threads()
        minutes = getattr(script.resources, "runtime", None)
        starting_mb = os.environ.get(launcher.LAUNCHER_MB)
        if starting_mb and minutes:  # what it took to get here counts as well, and so does its end
            minutes = max(1, minutes - launcher.STARTING_MIN)
        output = getattr(script, "output", ())
        targets = {name: Path(path) for name, path in _list_named(script, "output").items()}
        demand = getattr(getattr(script, "params", None), "memory", None)
        return cls(
            rule=script.rule,
            wildcards=dict(script.wildcards.items()),
            threads=threads,
            mem_mb=float(getattr(script.resources, "mem_mb", 2000)) - float(starting_mb or 0),
            limit_s=float(minutes) * 60 if minutes else None,
            attempt=int(getattr(script.resources, "attempt", 1)),
            launcher_mb=float(starting_mb or 0),
            demand=None if demand is None else from_json(demand),
            log_path=Path(script.log[0]),
            record_path=Path(script.log.telemetry),
            outputs=tuple(map(Path, output)),
            digests_path=targets.pop(DIGESTS, None),
            targets=targets,
            params=_list_named(script, "params"),
            inputs=_list_named(script, "input"),
        )

    def __enter__(self) -> Self:
        debugged = _is_debugged()
        stream = begin_log(None if debugged else self.log_path)
        log.info("%s: %d threads, %.0f MB declared", self.title, self.threads, self.mem_mb)
        directory = retries.attempts_directory(self.record_path)
        try:
            self._lock = AttemptLock.acquire(directory, self.outputs)
        except UnglowError as error:
            log.error("%s", error)  # noqa: TRY400 (a refusal)
            sys.exit(printable(f"{self.title}: {error}"))
        self._telemetry = self._begin()
        if debugged:
            self._begin_block()
            sys.breakpointhook = _open_debugger().set_trace
            here = currentframe()
            _open_debugger().set_trace(here and here.f_back)  # in the script
            return self
        try:
            self._learn()
            self._wait_for_memory()
        except KeyboardInterrupt:
            self._telemetry.end("interrupted", "interrupted")
            raise
        before = MachineMemory.measure()
        pid, pipe = watchdog.fork()
        if pid:
            self._conclude(self._watch(pid, pipe), before)
        self._report = pipe
        watchdog.redirect_output(stream)
        self._begin_block()
        return self

    def _begin_block(self) -> None:
        files.guard_publishing(self._lock.check)
        self._telemetry.enter_job()
        progress.record_transfers()
        self._loading.enter_context(step("libraries"))
        self._loading.enter_context(pause_collection())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Report the end to the watchdog; the log keeps the trace of all but plain refusals."""
        memory_limit.lift_limit()
        self._loading.close()
        if error is None:
            try:
                self._list_digests()
            except Exception as failure:  # noqa: BLE001 (it ends the job, as one of its block does)
                kind, error, trace = type(failure), failure, failure.__traceback__
        if _is_debugged():
            self._leave_debugger(error, trace)
            return
        self._telemetry.leave_job()
        peak = process.peak_mb()
        # a later attempt removes what this one writes
        if error is not None and self._lock.superseded:
            error = SupersededError()
        cause = outcomes.explain_error(self, error, peak)
        if error is not None and cause.outcome not in ("bad_input", outcomes.SUPERSEDED):
            log.error("".join(traceback.format_exception(kind, error, trace)))
        workers = {} if self.in_flight is None else {"in_flight": self.in_flight}
        moved = process.bytes_moved()
        report: dict[str, Any] = {**cause.report(), "peak_mb": peak, **moved, **workers}
        report |= self.counters
        if images := progress.list_transfers(self._started):
            report["transfers"] = images
        if "cv2" in sys.modules:
            report["opencv_threads"] = sys.modules["cv2"].getNumThreads()
        if self._report is not None:
            os.write(self._report, json.dumps(report).encode())
        watchdog.leave(0 if error is None else 1)  # the watchdog has the message

    def _leave_debugger(self, error: BaseException | None, trace: TracebackType | None) -> None:
        """Open the debugger where the job failed, and record how it ended."""
        from bdb import BdbQuit

        if error is not None and not isinstance(error, BdbQuit | SystemExit):
            traceback.print_exception(error)
            if trace is not None:
                debugger = _open_debugger()
                debugger.reset()
                debugger.interaction(None, trace)
        self._telemetry.leave_job()
        outcome, message = ("ok", "") if error is None else ("interrupted", "ended in a debugger")
        self._end(outcome, message, peak_mb=round(process.peak_mb(), 3))
        if error is not None:
            sys.exit(f"{self.title}: {message}")

    def _list_digests(self) -> None:
        """Last of all, list the digests of what was published."""
        if self.digests_path is not None:
            with step("digests"):
                outputs = set(self.outputs) - {self.digests_path}
                place = digests.directory_of_list(self.digests_path)
                made = made_with.record(self.params, self.inputs, place)
                digests.write(self.digests_path, digests.files_in(outputs), made)

    @property
    def title(self) -> str:
        """Rule and wildcards in words, for messages."""
        return f"{self.rule} ({', '.join(self.wildcards.values()) or 'run'})"

    @property
    def pair_title(self) -> str:
        """Sample, dye and variant in words, for figures."""
        return name_of(self.wildcards)

    def count(self, **amounts: float) -> None:
        """Add to the counters of the record, for example ``pixels`` or ``bytes_read``."""
        for name, amount in amounts.items():
            self.counters[name] = self.counters.get(name, 0) + amount

    def limit_memory(self) -> None:
        """Hold the job to its declared memory from here on; call it after the imports.

        Raises
        ------
        MemoryError
            If the imports alone took more than was declared.
        """
        self._loading.close()
        if _is_debugged():
            return
        limit = memory_limit.set_limit(self.mem_mb, self.threads)
        if limit is not None:
            log.info("memory limit at %.0f MB of private memory", limit)

    @property
    def least_mb(self) -> int | None:
        """The least memory that it can do with, MB; None if that is unknown."""
        return None if self.demand is None else self.demand.peak_mb(0, 1)

    def choose_workers(self) -> int:
        """Return how many blocks may be in flight: fewer after an attempt that lacked memory."""
        workers = self.threads
        if self.demand is not None:
            workers = self.demand.count_in_flight(self.mem_mb, self.threads)
        if self._most_workers is not None:
            workers = min(workers, self._most_workers)
        self.in_flight = workers
        return workers

    def _learn(self) -> None:
        """Do what the attempt before lacked; end at once if nothing would change."""
        if self.attempt == 1:
            return
        records, old_log = retries.list_outcomes(self._lock.directory, before=self._lock.number)
        if not records or records[-1]["attempt"] != self.attempt - 1:
            return
        earlier = records[-1]
        if earlier["outcome"] in outcomes.WORTH_ANOTHER:
            return
        self._most_workers = retries.fewer_in_flight(earlier)
        if self._most_workers is not None:
            log.warning(
                "attempt %d was short of memory with %d blocks in flight; now at most %d",
                *(self.attempt - 1, earlier["in_flight"], self._most_workers),
            )
        elif earlier["outcome"] in outcomes.LACKED_MEMORY and self.mem_mb > earlier["declared_mb"]:
            log.warning(
                "attempt %d was short of memory with %.0f MB; now with %.0f MB",
                *(self.attempt - 1, earlier["declared_mb"], self.mem_mb),
            )
            if self.launcher_mb:  # a batch system has counted it again
                return
            try:
                patience_s = min(retries.PATIENCE_S, self.limit_s or retries.PATIENCE_S)
                waiting = retries.one_at_a_time(
                    self.mem_mb, patience_s=patience_s, abandoned=self._parent.is_gone
                )
                self._room.enter_context(waiting)
            except MemoryError as error:
                self._give_up("memory", f"{error}; {earlier['message']}", earlier)
            except OSError as error:  # of the lock file
                self._give_up("error", f"cannot wait for memory ({error}); free the file.", {})
        elif earlier["outcome"] == "timeout" and (self.limit_s or 0) > (
            earlier.get("limit_s") or 0
        ):
            log.warning("attempt %d took too long; now with a longer limit", self.attempt - 1)
        else:
            log.error("another attempt would end like the first, which said:\n%s", old_log.rstrip())
            self._give_up(earlier["outcome"], str(earlier.get("message", "")), earlier)

    def _wait_for_memory(self) -> None:
        """Wait while the machine is short of memory; a batch system has given this job its own."""
        if self.launcher_mb:
            return
        why: list[Reason] = []

        def report(seconds: float) -> None:
            if not why:
                free = machine.memory_available_mb()
                in_group = free < process.meminfo_mb().get("MemAvailable", 0.0) / 2
                largest = process.name_largest(in_own_group=in_group)
                message = f"waits to start: {free:.0f} MB are free, and most is taken by {largest}"
                why.append(watchdog.Reason(MEMORY, message, "end that process, or wait"))
                self._warn(f"{message}; {why[0].helps}.", is_incident=True)
            self._telemetry.stall(seconds, why[0]._asdict(), over=seconds > 0)

        try:
            retries.wait_while_short(report, abandoned=self._parent.is_gone)
        except OSError as error:  # of the lock file
            log.warning("it starts though the machine is short of memory (%s)", error)

    def _give_up(self, outcome: str, message: str, earlier: Mapping[str, Any]) -> NoReturn:
        """End before anything was read, as an earlier attempt has ended."""
        cause = outcomes.Cause(outcome, message, earlier.get("needed_mb"))
        needed = {} if cause.needed_mb is None else {"needed_mb": cause.needed_mb}
        peak = round(process.peak_mb(), 3)
        remedy = outcomes.remedy(self, cause)
        self._end(outcome, message, peak_mb=peak, remedy=remedy, **needed, repeated=True)
        sys.exit(printable(f"{self.title}: {message}"))

    def _begin(self) -> Attempt:
        """Start the file of this attempt."""
        declared = {
            "rule": self.rule,
            "wildcards": self.wildcards,
            "attempt": self.attempt,
            "declared_mb": self.mem_mb,
            "threads": self.threads,
            "limit_s": self.limit_s,
            "log": str(self.log_path),
        }
        profiled = profiler.is_wanted(self.rule)
        return Attempt(self._lock.file, self._started, declared, profiled=profiled)

    def _watch(self, pid: int, pipe: int) -> watchdog.Ending:
        """In the watchdog: wait for the job to end, and write down what it takes meanwhile."""
        self._telemetry.forked(pid)
        self._telemetry.spy_on(pid)
        return watchdog.watch(
            pid,
            pipe,
            limit_s=self.limit_s,
            on_stall=partial(self._report_stall, pid),
            on_sample=self._telemetry.sample,
            on_end=self._telemetry.finish_spy,
            abandoned=self._parent.is_gone,
        )

    def _report_stall(self, pid: int, seconds: float, why: Reason, over: bool) -> None:  # noqa: FBT001 (called so)
        self._telemetry.stall(seconds, why._asdict(), over=over)
        if over:
            log.info("it continues, after %.0f s in which it had done nothing", seconds)
            return
        because = outcomes.explain_idleness(why, pid)
        sentence = f"stalled: no processor time, no bytes moved for {seconds:.0f} s; {because}"
        self._warn(sentence, is_incident=True)

    def _warn(self, sentence: str, *, is_incident: bool = False) -> None:
        """Say something in the log and at the terminal, which shows incidents of a run itself."""
        log.warning("%s", sentence)
        if not (is_incident and os.environ.get(SHOWN)):
            warn(f"{self.title}: {sentence}")

    def _conclude(self, ending: watchdog.Ending, before: MachineMemory) -> NoReturn:
        """In the watchdog: record how the job has ended, and end in the same way."""
        cause = outcomes.explain_end(self, ending)
        outcome, message = cause.outcome, cause.message
        named = ("outcome", "message", "needed_mb")
        report = {key: value for key, value in ending.report.items() if key not in named}
        peak = max(ending.peak_mb, report.pop("peak_mb", 0.0))
        moved = {name: max(seen, report.pop(name, 0)) for name, seen in ending.moved.items()}
        measured: dict[str, Any] = {
            "signal": ending.signal,
            "code": ending.code,
            "peak_mb": round(peak, 3),
            "cpu_s": round(ending.cpu_s, 3),
            "read": moved["bytes_read"],
            "written": moved["bytes_written"],
            "disk_read": moved["disk_read"],
            "disk_written": moved["disk_written"],
            "remedy": outcomes.remedy(self, cause),
            **report,
        }
        if cause.needed_mb is not None:
            measured["needed_mb"] = cause.needed_mb
        if ending.stalled_s:
            measured["stalled_seconds"] = round(ending.stalled_s)
        measured |= before.compare(self.outputs, moved["bytes_written"], ending.others)
        if measured.get("left_behind_mb", 0.0) > _LEFT_BEHIND_MB:
            left = measured["left_behind_mb"]
            log.warning("the machine has %.0f MB less memory than before the job", left)
        if outcome != "ok":
            log.error("%s", message)
        elif beyond := outcomes.describe_overrun(self, peak):
            self._warn(beyond)
        log.info(
            *("%s after %.2f s, peak %.0f MB of %.0f declared", outcome),
            *(time.monotonic() - self._started, peak, self.mem_mb),
        )
        self._end(outcome, message, **measured)
        if outcome == outcomes.SUPERSEDED:
            self._parent.end_in_job()
        if outcome != "ok" and not os.environ.get(SHOWN):
            warn(f"{self.title}: {message}")
        watchdog.leave(0 if outcome == "ok" else 1)

    def _end(self, outcome: str, message: str, **measured: Any) -> None:
        """Record how this attempt has ended, for the next one and for people.

        A record is of the last attempt to begin: one that a later attempt follows has none.
        """
        log_tail = "" if outcome == "ok" else outcomes.log_tail(self, retries.LOG_BYTES)
        self._telemetry.end(outcome, message, log_tail, **measured)
        if self._lock.superseded:
            return
        try:
            retries.write_record(self.record_path)
        except OSError as error:  # a record is no reason to lose a result, nor to hide its error
            log.warning("%s could not be written (%s)", self.record_path, error.strerror)


def _list_named(script: Script, kind: str) -> dict[str, Any]:
    """Return what a script is given by name: its input, output or params."""
    given = getattr(script, kind, ())
    return dict(given.items()) if hasattr(given, "items") else {}


def _is_debugged() -> bool:
    return bool(os.environ.get(DEBUGGED))


def _open_debugger() -> Pdb:
    """Return a debugger that runs no commands of a file in the working directory."""
    from pdb import Pdb  # only to debug

    return Pdb(nosigint=True, readrc=False)
