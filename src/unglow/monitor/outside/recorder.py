"""Records jobs that do not measure themselves, in the Snakemake that starts them.

It follows Snakemake's logger for when jobs begin and end, and looks at the child processes of this
process meanwhile. Jobs on other machines are not below this process: of them nothing is recorded
here.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unglow.core.files import tail
from unglow.core.process import Ended, OpenFiles
from unglow.monitor.outside import OutsideJob, Seen, jobs_of
from unglow.monitor.outside.watched import (
    Failure,
    SpanFiles,
    WatchedAttempt,
    describe_failure,
    describe_overrun,
    exit_code,
)
from unglow.telemetry.jsonl import SUFFIX
from unglow.telemetry.recording import profiler
from unglow.telemetry.recording.run import Recorder

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterable, Mapping, Sequence

    from unglow.telemetry.recording.run import RunRecorder

INTERVAL_S = 0.25
"""Time between two looks, s, unless they cost too much."""
# Looks take at most this share of a processor and so many s more, but the time between two is at
# most this, s.
_SHARE, _AHEAD_S, _LONGEST_S = 0.015, 0.03, 10.0
# So often a child is asked whose it is before it is left alone: it may be about to become another.
_TRIES = 8
# With --quiet Snakemake does not say that a job has finished: it has if its processes are gone for
# so long, s, and its files are there.
_GONE_S = 1.0
_LOG_BYTES, _ERRORS = 4000, 50


class _Running(NamedTuple):
    """A job that runs, and its attempt."""

    job: OutsideJob
    declared_mb: float | None
    log: str
    attempt: WatchedAttempt


def _size_mb(paths: Iterable[Any]) -> float:
    """Return the size of files as Snakemake's ``input.size_mb`` has it, but in 1e6 bytes."""
    size = 0
    for path in paths:
        with contextlib.suppress(OSError):  # in a storage, or a directory that is gone
            size += Path(str(path)).stat().st_size
    return round(size / 1e6, 6)


class OutsideRecorder(Recorder):
    """Writes attempts of a run; a handler of Snakemake's logger.

    Parameters
    ----------
    run
        What records the run, and knows which of its jobs it reports.
    is_quiet
        Whether Snakemake does not say that jobs have finished.
    """

    def __init__(self, run: RunRecorder, *, is_quiet: bool = False) -> None:
        super().__init__()
        self._run, self._is_quiet = run, is_quiet
        self._state = threading.Lock()
        self._running: dict[int, _Running] = {}
        self._tries: Counter[int] = Counter()
        self._errors: deque[str] = deque(maxlen=_ERRORS)
        self._spans: SpanFiles | None = None
        self._known: set[int] = set()
        self._unknown: dict[int, int] = {}  # times that a child was asked whose it is
        self._of_rules: list[WatchedAttempt] = []
        self._own = OpenFiles(f"/proc/{os.getpid()}")
        self._ended = Ended()
        self._looks, self._cpu_s = 0, 0.0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def record_event(self, record: logging.LogRecord, event: str) -> None:
        """Take a record of an event."""
        if event == "error":
            self._errors.append(record.getMessage())
        elif event in ("job_info", "job_finished", "job_error"):
            with self._state:
                self._record_job(event, vars(record))

    def close(self) -> None:
        """End what is still there, and stop looking."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            with self._state:
                run_ended_well = self._run.find_outcome() == "ok"
                for jobid, running in [*self._running.items()]:
                    if run_ended_well or self._has_made(running):
                        self._finish(jobid)
                    else:
                        running.attempt.sample()
                        self._end(jobid, {"outcome": "interrupted", "message": ""})
                self._end_rules(everything=True)
            if self._spans is not None:
                self._spans.remove()
            self._run.write("watched", looks=self._looks, cpu_s=round(self._cpu_s, 3))
        super().close()

    # ------------------------------------------------------------------------- reports of jobs

    def _record_job(self, event: str, job: Mapping[str, Any]) -> None:
        if event == "job_info":
            self._begin(job)
        elif event == "job_finished":
            self._finish(job["job_id"])
        elif job["jobid"] in self._running:
            self._failed(job)

    def _begin(self, job: Mapping[str, Any]) -> None:
        output, logs = ([str(path) for path in job[key] or ()] for key in ("output", "log"))
        measures_itself = any(name.endswith(SUFFIX) for name in logs)
        if measures_itself or not job["local"] or not self._run.is_recorded(output, logs):
            return
        self._spans = self._spans or SpanFiles(self._run.telemetry, self._run.run_id)
        jobid, rule = job["jobid"], str(job["rule_name"])
        wildcards = {str(k): str(v) for k, v in dict(job["wildcards"] or {}).items()}
        self._tries[jobid] += 1
        self._settle()
        if not self._running:
            self._ended = Ended.so_far()
        memory = dict(job["resources"].items()).get("mem_mb")
        declared_mb = float(memory) if isinstance(memory, int | float) else None
        attempt = WatchedAttempt(
            *(self._run.telemetry, rule, wildcards),
            attempt=self._tries[jobid],
            declared_mb=declared_mb,
            threads=job["threads"],
            log=logs[0] if logs else "",
            input_mb=_size_mb(job["input"] or ()),
        )
        known = OutsideJob(
            jobid, rule, wildcards, tuple(output), (*output, *logs), str(job["shellcmd"] or "")
        )
        self._running[jobid] = _Running(known, declared_mb, logs[0] if logs else "", attempt)
        self._omit_py_spy()
        if self._thread is None:
            self._thread = threading.Thread(target=self._repeat, name="outside", daemon=True)
            self._thread.start()

    def _finish(self, jobid: int) -> None:
        if jobid in self._running:
            running = self._running[jobid]
            running.attempt.sample()
            self._settle(running.attempt)
            message = describe_overrun(running.declared_mb, running.attempt.peak_mb)
            self._end(jobid, {"outcome": "ok", "message": message, "signal": 0, "code": 0})

    def _failed(self, job: Mapping[str, Any]) -> None:
        running = self._running[job["jobid"]]
        running.attempt.sample()
        self._settle(running.attempt)
        text = ""
        with contextlib.suppress(OSError):  # nobody has started it
            text = tail(Path(running.log), _LOG_BYTES) if running.log else ""
        names = (running.job.shell.strip(), *running.attempt.scripts)
        failure = Failure(
            rule=running.job.rule,
            declared_mb=running.declared_mb,
            peak_mb=running.attempt.peak_mb,
            code=exit_code(self._errors, names),
            kernel_kills=running.attempt.kernel_kills,
            interrupted=self._run.outcome == "interrupted",
            log=text,
        )
        self._end(job["jobid"], describe_failure(failure), text)

    def _end(self, jobid: int, ending: Mapping[str, Any], text: str = "") -> None:
        self._copy_steps()
        self._running.pop(jobid).attempt.end(ending, text)
        self._omit_py_spy()

    @staticmethod
    def _has_made(running: _Running) -> bool:
        output = running.job.output
        return not running.attempt.is_alive and all(os.path.lexists(path) for path in output)

    # ------------------------------------------------------------------------- looking at processes

    def _repeat(self) -> None:
        wait, since = 0.05, time.monotonic()
        while not self._over.wait(wait):
            started = time.thread_time()
            try:
                with self._state:
                    self._poll()
            except Exception as error:  # noqa: BLE001
                self.fail(error)
            self._looks, self._cpu_s = self._looks + 1, self._cpu_s + time.thread_time() - started
            allowed_after = (self._cpu_s - _AHEAD_S) / _SHARE - (time.monotonic() - since)
            wait = min(max(INTERVAL_S, allowed_after), _LONGEST_S)

    def _poll(self) -> None:
        if not self._running and not self._of_rules:
            return
        self._assign(self._own.children(all_threads=True))
        for attempt in (*(r.attempt for r in self._running.values()), *self._of_rules):
            attempt.sample()
        self._settle()
        self._copy_steps()
        self._end_rules()
        self._omit_py_spy()
        if self._is_quiet:
            now = time.monotonic()
            for jobid, running in [*self._running.items()]:
                gone = running.attempt.gone_since
                if gone is not None and now - gone > _GONE_S and self._has_made(running):
                    self._finish(jobid)

    def _settle(self, over: WatchedAttempt | None = None) -> None:
        """Give what ended children took to the attempt that they were of, if there is only one.

        ``over`` has just ended; its process may have come and gone between two looks.
        """
        attempts = (*(r.attempt for r in self._running.values()), *self._of_rules)
        unseen = over is not None and not over.was_seen and not self._of_rules

        def find_own() -> list[WatchedAttempt]:
            return [a for a in attempts if a.has_unsettled or (a is over and unseen)]

        own = find_own()
        if not own:
            return
        before, self._ended = self._ended, Ended.so_far()
        # one that has ended in between is in these sums too
        is_alone = len(own) == 1 and find_own() == own
        for attempt in own:
            attempt.settle(self._ended.since(before) if is_alone else None)

    def _omit_py_spy(self) -> None:
        """Leave out what py-spy took, another child of this process that ends now and then."""
        if os.environ.get(profiler.VARIABLE):
            self._ended = Ended.so_far()

    def _assign(self, children: Sequence[int]) -> None:
        """Give new child processes to the jobs that they belong to."""
        self._known &= {*children}
        self._unknown = {pid: self._unknown.get(pid, 0) for pid in {*children} - self._known}
        for pid, tries in [*self._unknown.items()]:
            if tries < _TRIES:
                self._unknown[pid] += 1
                self._assign_child(pid, Seen.from_pid(pid))

    def _assign_child(self, pid: int, seen: Seen) -> None:
        idle = [r.job for r in self._running.values() if not r.attempt.is_alive]
        fitting = jobs_of(seen, idle)
        if len(fitting) == 1:
            self._running[fitting[0].jobid].attempt.add_process(pid, seen.script_name)
        elif len({job.rule for job in fitting}) == 1:
            self._watch_for_rule(pid, fitting)
        else:
            if self._unknown[pid] == _TRIES:
                self._run.write("unassigned", words=" ".join(seen.words)[:200], jobs=len(fitting))
            return
        self._known.add(pid)
        self._unknown.pop(pid, None)

    def _watch_for_rule(self, pid: int, jobs: Sequence[OutsideJob]) -> None:
        """Record a process that may be any of several jobs of a rule, as one of that rule."""
        wildcards = {"job": f"one of {len(jobs)} with the same command"}
        attempt = WatchedAttempt(
            *(self._run.telemetry, jobs[0].rule, wildcards),
            declared_mb=self._running[jobs[0].jobid].declared_mb,
            jobs=[job.jobid for job in jobs],
        )
        attempt.add_process(pid)
        self._of_rules.append(attempt)

    def _end_rules(self, *, everything: bool = False) -> None:
        for attempt in [*self._of_rules]:
            if everything or not attempt.is_alive:
                self._of_rules.remove(attempt)
                attempt.end({"outcome": "ok", "message": "", "measured": "rule"})

    def _copy_steps(self) -> None:
        if self._spans is None:
            return
        self._spans.read_new()
        for running in self._running.values():
            job, attempt = running.job, running.attempt
            for source, line in self._spans.lines_of(job.rule, job.wildcards, attempt.pids):
                attempt.step(source, line)
