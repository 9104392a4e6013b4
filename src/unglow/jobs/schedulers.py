"""The schedulers: Slurm and Grid Engine, which of them there is, and submitting to it.

The commands of the profile `cluster-generic` start Python again for each job and each question, so
the clients import little, and of Python's own library alone.

Of Slurm, `squeue` knows the jobs of the last minutes, `sacct` those before.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unglow.core.files import read_file
from unglow.core.workflow_files import OWN

if TYPE_CHECKING:
    from collections.abc import Sequence


PATIENCE_S = 60.0
"""How long a scheduler's command may take, s; Snakemake asks again."""


class State(StrEnum):
    """How a job is, in the words that Snakemake expects."""

    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"


class NoAnswerError(Exception):
    """A scheduler does not say which jobs it has; the message is its complaint."""


def run(*words: str, patience_s: float = PATIENCE_S) -> tuple[int, str]:
    """Return exit status and output of a command; -1 and what is wrong if there is no answer.

    The complaints of a command that fails are part of its output.
    """
    try:
        done = subprocess.run(  # noqa: S603 (a scheduler's own command)
            words, capture_output=True, text=True, timeout=patience_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, str(error)
    return done.returncode, done.stdout + (done.stderr if done.returncode else "")


class JobRequest(NamedTuple):
    """What a job asks for: cores on one machine, memory of all its processes, and time.

    Its name has rule and pair (``unglow-align-Rock7-DAPI``), ``logs`` is the absolute directory
    for its output.
    """

    name: str
    threads: int
    mem_mb: float
    minutes: int
    script: str
    logs: str

    @property
    def kib(self) -> int:
        """Memory in units of 1024 bytes, as all schedulers count them, rounded up."""
        return math.ceil(self.mem_mb * 1e6 / 1024)

    @property
    def clock(self) -> str:
        """Time as hours:minutes:seconds."""
        return f"{self.minutes // 60}:{self.minutes % 60:02d}:00"


class Scheduler:
    """What the client of a scheduler offers.

    ``name`` is its name in ``submitted.tsv``; the commands list which jobs are queued, and cancel
    the jobs whose ids follow.
    """

    name = ""
    queue_command = ""
    cancel_command = ""

    def submission(self, job: JobRequest) -> list[str]:
        """Return the command that submits a job; it prints the job's id."""
        raise NotImplementedError

    def job_id(self, text: str) -> str:
        """Return the id from what that command prints."""
        return text.strip().rpartition("\n")[2].strip()

    def state(self, job: str) -> State:
        """Return how a job is; running, too, if nobody answers."""
        raise NotImplementedError

    def list_queued(self, jobs: Sequence[str], names: Sequence[str] = ()) -> list[str]:
        """Return those of the jobs that wait, run, or are being ended; raises `NoAnswerError`.

        ``names`` are those of more jobs, whatever their ids; Grid Engine does not need them.
        """
        raise NotImplementedError


COMPLETED = "COMPLETED"
FAILURES = (
    *("BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
    *("REVOKED", "TIMEOUT"),
)
"""States of jobs that have ended, but for `COMPLETED` (squeue(1), job state codes)."""


class QueuedJob(NamedTuple):
    """A line of the queue: state, why the job waits, and its name."""

    state: str
    reason: str
    name: str


def slurm_queue(patience_s: float = PATIENCE_S) -> dict[str, QueuedJob]:
    """Return the jobs of this user by their ids, with those of the last minutes that have ended.

    Raises `NoAnswerError`.
    """
    # of all jobs, for a question about a single one that is not listed fails
    words = ("--noheader", "--states=all", "--me", "--format=%i|%T|%r|%j")
    status, text = run("squeue", *words, patience_s=patience_s)
    if status:
        raise NoAnswerError(text)
    rows = (line.strip().split("|", 3) for line in text.splitlines())
    return {row[0]: QueuedJob(*row[1:]) for row in rows if len(row) == 4}


def read_accounts(jobs: Sequence[str], patience_s: float = PATIENCE_S) -> dict[str, str]:
    """Return states by job from Slurm's accounts, one word each; of those that they know."""
    words = ("-X", "--noheader", "--parsable2", "--format=JobIDRaw,State")
    status, text = run("sacct", *words, f"--jobs={','.join(jobs)}", patience_s=patience_s)
    rows = (line.partition("|") for line in text.splitlines() if not status)
    return {job: state.split()[0] for job, _, state in rows if state.strip()}


def state_of(job: str, patience_s: float = PATIENCE_S) -> str | None:
    """Return the state of a job, one word in capitals; None if nobody knows."""
    try:
        listed = slurm_queue(patience_s)
    except NoAnswerError:
        listed = {}
    return listed[job].state if job in listed else read_accounts([job], patience_s).get(job)


def has_ended(state: str) -> bool:
    """Whether a job in this state has ended."""
    return state == COMPLETED or state in FAILURES


class Slurm(Scheduler):
    """Slurm, without the executor plugin that Snakemake has for it."""

    name = "slurm"
    queue_command = "squeue"
    cancel_command = "scancel"

    def submission(self, job: JobRequest) -> list[str]:
        """See `Scheduler`."""
        return [
            *("sbatch", "--parsable", "--no-requeue", f"--job-name={job.name}"),
            *(f"--cpus-per-task={job.threads}", f"--mem={job.kib}K"),
            *(f"--time={job.minutes}", "--nodes=1", "--ntasks=1"),
            *(f"--output={job.logs}/{job.name}.%j.log", job.script),
        ]

    def job_id(self, text: str) -> str:
        """Leave out the name of the cluster, which may follow the number."""
        return super().job_id(text).split(";")[0]

    def state(self, job: str) -> State:
        """See `Scheduler`."""
        state = state_of(job)
        if state == COMPLETED:
            return State.SUCCESS
        return State.FAILED if state in FAILURES else State.RUNNING

    def list_queued(self, jobs: Sequence[str], names: Sequence[str] = ()) -> list[str]:
        """See `Scheduler`."""
        return [
            job
            for job, listed in slurm_queue().items()
            if (job in jobs or listed.name in names) and not has_ended(listed.state)
        ]


# Address space that a process takes beyond its memory, MB: measured up to 1000.
_ADDRESS_SPACE_MB = 1500.0


class GridEngine(Scheduler):
    """Grid Engine: ``qstat`` knows what is going on and ``qacct`` how it ended.

    Memory is asked for as ``UNGLOW_SGE_MEMORY`` says, a name of the site's complex (``h_vmem``,
    ``mem_free``, ``m_mem_free``, ``h_rss``); several may be given, separated by commas. ``h_vmem``
    limits address space, of which Python programs take more than memory, so some is added. All of
    them count per slot, and a job has as many slots as threads.
    """

    name = "sge"
    queue_command = "qstat"
    cancel_command = "qdel"

    def submission(self, job: JobRequest) -> list[str]:
        """See `Scheduler`."""
        words = ["qsub", "-terse", "-cwd", "-V", "-r", "n", "-S", "/bin/sh", "-N", job.name]
        words += ["-j", "y", "-o", f"{job.logs}/{job.name}.$JOB_ID.log"]
        if job.threads > 1:
            words += ["-pe", os.environ.get("UNGLOW_SGE_PE", "smp"), str(job.threads)]
        resources = [f"h_rt={job.clock}"]
        for name in os.environ.get("UNGLOW_SGE_MEMORY", "h_vmem").split(","):
            spare = _ADDRESS_SPACE_MB * 1e6 / 1024 if name == "h_vmem" else 0.0
            resources.append(f"{name}={math.ceil((job.kib + spare) / job.threads)}K")
        return [*words, "-l", ",".join(resources), job.script]

    def state(self, job: str) -> State:
        """See `Scheduler`; a job in error, or on a machine that is not heard of, has failed."""
        try:
            row = _queue().get(job)
        except NoAnswerError:
            return State.RUNNING
        if row is None:
            return _outcome(job)
        return State.FAILED if "E" in row[4] or _is_unheard(row) else State.RUNNING

    def list_queued(self, jobs: Sequence[str], names: Sequence[str] = ()) -> list[str]:  # noqa: ARG002
        """See `Scheduler`."""
        rows = _queue()
        return [job for job in jobs if job in rows]


def _queue() -> dict[str, list[str]]:
    """Return the words of each job's line in the queue by its id; the fifth is its state."""
    status, text = run("qstat", "-u", "*")
    if status:
        raise NoAnswerError(text)
    rows = (line.split() for line in text.splitlines())
    return {row[0]: row for row in rows if len(row) > 4}


def _is_unheard(row: Sequence[str]) -> bool:
    """Whether the queue instance that a job runs in has not been heard of (state ``u``)."""
    instance = next((word for word in row[5:] if "@" in word), None)
    if instance is None:
        return False
    status, text = run("qstat", "-f", "-q", instance)
    # the last field of its row is its state, if it has any
    rows = [line.split() for line in text.splitlines() if line.startswith(instance)]
    return not status and any(len(one) > 5 and "u" in one[5] for one in rows)


def _outcome(job: str) -> State:
    """Return the state of a job that is no longer queued."""
    status, text = run("qacct", "-j", job)
    if status:  # not written yet
        return State.RUNNING
    fields = dict(row.split(None, 1) for row in text.splitlines() if len(row.split(None, 1)) > 1)
    failed, code = (fields.get(name, "").split() for name in ("failed", "exit_status"))
    if not failed or not code:
        return State.RUNNING
    return State.SUCCESS if failed[0] == code[0] == "0" else State.FAILED


VARIABLE = "UNGLOW_SCHEDULER"
SCHEDULERS: dict[str, type[Scheduler]] = {"slurm": Slurm, "sge": GridEngine}


def choose_scheduler() -> Scheduler:
    """Return the scheduler that the environment names, or else the one whose commands are here.

    If there is none, the program ends with a sentence.
    """
    name = os.environ.get(VARIABLE, "").strip().lower() or _detect()
    if name not in SCHEDULERS:
        known = ", ".join(SCHEDULERS)
        reason = f"{VARIABLE} is {name!r}" if name else "neither Slurm nor Grid Engine is here"
        raise SystemExit(f"{reason}: set {VARIABLE} to one of {known}.")
    return SCHEDULERS[name]()


def _detect() -> str:
    if os.environ.get("SGE_ROOT") and shutil.which("qsub"):  # what Grid Engine needs to be asked
        return "sge"
    return "slurm" if shutil.which("sbatch") else ""


SUBMITTED = OWN / "submitted.tsv"
"""A line for each job that was submitted: scheduler, job id, name, working directory."""
LOGS = OWN / "cluster"
"""What each job said on its node: name and job id."""
# The log is named after it, with the job's id, and a file name may have 255 bytes.
_LONGEST_NAME = 200


def request_of(script: str, directory: Path) -> JobRequest:
    """Read what a job asks for from the second line of its script, where Snakemake puts it."""
    text = read_file(script).decode("utf-8")
    properties = re.search(r"^# properties = (.*)$", text, re.MULTILINE)
    job: dict[str, Any] = json.loads(properties[1]) if properties else {}
    words = [job.get("rule") or job.get("groupid") or Path(script).name]
    words += (job.get("wildcards") or {}).values()
    name = re.sub(r"[^\w.-]+", "_", "-".join(["unglow", *map(str, words)]), flags=re.ASCII)
    resources = job.get("resources") or {}
    return JobRequest(
        name=name[:_LONGEST_NAME],
        threads=max(1, int(job.get("threads") or 1)),
        mem_mb=float(resources.get("mem_mb") or 2000),
        minutes=max(1, math.ceil(float(resources.get("runtime") or 60))),
        script=script,
        logs=str(directory / LOGS),
    )


def submit(script: str) -> str:
    """Submit a job script and note it for ``unglow resume``; returns the job's id.

    If the scheduler does not take it, the program ends with what it says.
    """
    directory = Path.cwd()
    scheduler = choose_scheduler()
    job = request_of(script, directory)
    (directory / LOGS).mkdir(parents=True, exist_ok=True)
    if (directory / SUBMITTED).is_symlink():
        sys.exit(f"{directory / SUBMITTED} is a link to another file: remove it.")
    status, text = run(*scheduler.submission(job))
    number = "" if status else scheduler.job_id(text)
    if not number:
        sys.exit(f"{scheduler.name} did not take {job.name}: {text.strip()}")
    with (directory / SUBMITTED).open("a", encoding="utf-8") as noted:
        noted.write(f"{scheduler.name}\t{number}\t{job.name}\t{directory}\n")
    return number
