"""How Slurm, Grid Engine, PBS (and Torque) and LSF are asked: to submit, for a state, to cancel.

It needs nothing but Python's own library, as each of the three commands beside it starts anew for
every job. Memory comes as Snakemake has it, MB of 1e6 bytes, and is asked for in units that each
scheduler counts alike: kB of 1024 bytes, rounded up.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

VARIABLE = "UNGLOW_SCHEDULER"
SUBMITTED = Path(".snakemake") / "unglow" / "submitted.tsv"
"""A line for each job that was submitted: scheduler, job id, name, directory."""
LOGS = Path(".snakemake") / "unglow" / "cluster"
"""What each job said on its node: name and job id."""
RUNNING, SUCCESS, FAILED = "running", "success", "failed"
# How long a scheduler may take to answer, s; Snakemake asks again.
_PATIENCE_S = 60.0
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Request:
    """What a job asks for.

    Attributes
    ----------
    name
        Tells rule and pair: ``unglow-align-Rock7-DAPI``.
    threads
        Cores, all on one machine.
    mem_mb
        Memory of all its processes together, MB.
    minutes
        Time that it may take.
    script
        What is to be run.
    logs
        Directory for what it says, absolute.
    """

    name: str
    threads: int
    mem_mb: float
    minutes: int
    script: str
    logs: str

    @property
    def kib(self) -> int:
        """Memory in units of 1024 bytes."""
        return math.ceil(self.mem_mb * 1e6 / 1024)

    @property
    def clock(self) -> str:
        """Time as hours:minutes:seconds."""
        return f"{self.minutes // 60}:{self.minutes % 60:02d}:00"


def request_of(script: str, directory: Path) -> Request:
    """Read what a job asks for from the second line of its script, where Snakemake puts it."""
    text = Path(script).read_text(encoding="utf-8")
    found = re.search(r"^# properties = (.*)$", text, re.MULTILINE)
    job: dict[str, Any] = json.loads(found[1]) if found else {}
    words = [job.get("rule") or job.get("groupid") or Path(script).name]
    words += (job.get("wildcards") or {}).values()
    name = re.sub(r"[^\w.-]+", "_", "-".join(["unglow", *map(str, words)]), flags=re.ASCII)
    resources = job.get("resources") or {}
    return Request(
        name=name[:_LONGEST_NAME],
        threads=max(1, int(job.get("threads") or 1)),
        mem_mb=float(resources.get("mem_mb") or 2000),
        minutes=max(1, math.ceil(float(resources.get("runtime") or 60))),
        script=script,
        logs=str(directory / LOGS),
    )


def answer(*words: str) -> tuple[int, str]:
    """Return exit status and output of a command; -1 and what is wrong if there is no answer."""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, str(error)
    return done.returncode, done.stdout + (done.stderr if done.returncode else "")


class Scheduler:
    """What the schedulers have in common."""

    name = ""

    def submission(self, job: Request) -> list[str]:
        """Return the command that submits a job; it prints the job's id."""
        raise NotImplementedError

    def job_id(self, text: str) -> str:
        """Return the id from what that command prints."""
        return text.strip().splitlines()[-1].strip()

    def state(self, job: str) -> str:
        """Return `RUNNING` (also if nobody answers), `SUCCESS` or `FAILED`."""
        raise NotImplementedError

    def cancel(self, jobs: list[str]) -> list[str]:
        """Return the command that cancels jobs."""
        raise NotImplementedError


class Slurm(Scheduler):
    """Slurm: ``squeue`` knows what is going on, ``sacct`` what it has forgotten."""

    name = "slurm"

    def submission(self, job: Request) -> list[str]:
        """See `Scheduler`."""
        return [
            *("sbatch", "--parsable", "--no-requeue", f"--job-name={job.name}"),
            *(f"--cpus-per-task={job.threads}", f"--mem={job.kib}K", f"--time={job.minutes}"),
            *("--nodes=1", "--ntasks=1", f"--output={job.logs}/{job.name}.%j.log", job.script),
        ]

    def job_id(self, text: str) -> str:
        """Leave out the name of the cluster, which may follow the number."""
        return super().job_id(text).split(";")[0]

    def state(self, job: str) -> str:
        """See `Scheduler`."""
        status, text = answer("squeue", "-h", "-t", "all", "-j", job, "-o", "%T")
        if status or not text.strip():
            status, text = answer("sacct", "-X", "-n", "-P", "-j", job, "--format=State")
        word = text.split()[0].rstrip("+") if not status and text.strip() else ""
        if word == "COMPLETED":
            return SUCCESS
        ended = ("BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
                 "PREEMPTED", "TIMEOUT", "REVOKED")  # fmt: skip
        return FAILED if word in ended else RUNNING

    def cancel(self, jobs: list[str]) -> list[str]:
        """See `Scheduler`."""
        return ["scancel", *jobs]


class GridEngine(Scheduler):
    """Grid Engine (Sun, Son of, Univa, Altair).

    ``qstat`` knows what is going on and ``qacct`` how it ended. Memory is asked for as
    ``UNGLOW_SGE_MEMORY`` says, a name of the site's complex (``h_vmem``, ``mem_free``,
    ``m_mem_free``, ``h_rss``); several may be given, separated by commas. ``h_vmem`` limits
    address space, of which Python programs take more than memory, so some is added. All of
    them count per slot, and a job has as many slots as threads.
    """

    name = "sge"
    #: Address space that a process takes beyond its memory, MB: measured up to 1000.
    ADDRESS_SPACE_MB = 1500.0

    def submission(self, job: Request) -> list[str]:
        """See `Scheduler`."""
        words = ["qsub", "-terse", "-cwd", "-V", "-r", "n", "-S", "/bin/sh", "-N", job.name]
        words += ["-j", "y", "-o", f"{job.logs}/{job.name}.$JOB_ID.log"]
        if job.threads > 1:
            words += ["-pe", os.environ.get("UNGLOW_SGE_PE", "smp"), str(job.threads)]
        asked = [f"h_rt={job.clock}"]
        for name in os.environ.get("UNGLOW_SGE_MEMORY", "h_vmem").split(","):
            spare = self.ADDRESS_SPACE_MB * 1e6 / 1024 if name == "h_vmem" else 0.0
            asked.append(f"{name}={math.ceil((job.kib + spare) / job.threads)}K")
        return [*words, "-l", ",".join(asked), job.script]

    def state(self, job: str) -> str:
        """See `Scheduler`; a job in error, or on a machine that is not heard of, has failed."""
        status, text = answer("qstat", "-u", "*")
        if status:
            return RUNNING
        rows = [row.split() for row in text.splitlines()]
        for row in rows:
            if row and row[0] == job and len(row) > 4:
                return FAILED if "E" in row[4] or self._unheard(row) else RUNNING
        return self._ended(job)

    def _unheard(self, row: list[str]) -> bool:
        """Whether the queue instance that a job runs in has not been heard of (state ``u``)."""
        where = next((word for word in row[5:] if "@" in word), None)
        if where is None:
            return False
        status, text = answer("qstat", "-f", "-q", where)
        # The last field of its row is its state, if it has any.
        rows = [one.split() for one in text.splitlines() if one.startswith(where)]
        return not status and any(len(one) > 5 and "u" in one[5] for one in rows)

    def _ended(self, job: str) -> str:
        status, text = answer("qacct", "-j", job)
        if status:  # not written yet
            return RUNNING
        fields = dict(
            row.split(None, 1) for row in text.splitlines() if len(row.split(None, 1)) > 1
        )
        failed, code = (fields.get(name, "").split() for name in ("failed", "exit_status"))
        if not failed or not code:
            return RUNNING
        return SUCCESS if failed[0] == code[0] == "0" else FAILED

    def cancel(self, jobs: list[str]) -> list[str]:
        """See `Scheduler`."""
        return ["qdel", *jobs]


class PBS(Scheduler):
    """PBS Professional and OpenPBS."""

    name = "pbs"

    def resources(self, job: Request) -> list[str]:
        """Return the options that ask for cores, memory and time."""
        select = f"select=1:ncpus={job.threads}:mem={job.kib}kb"
        return ["-l", select, "-l", f"walltime={job.clock}"]

    def submission(self, job: Request) -> list[str]:
        """See `Scheduler`."""
        words = ["qsub", "-V", "-r", "n", "-N", job.name, "-j", "oe", "-o", f"{job.logs}/"]
        return [*words, *self.resources(job), job.script]

    def state(self, job: str) -> str:
        """See `Scheduler`; a server that keeps no history forgets: then it counts as failed."""
        status, text = answer("qstat", "-x", "-f", job)
        if status:
            forgotten = "Unknown Job" in text or "has finished" in text
            return FAILED if forgotten else RUNNING
        fields = dict(re.findall(r"^\s*(\w+) = (.*)$", text, re.MULTILINE))
        if fields.get("job_state") not in ("F", "C"):
            return RUNNING
        return SUCCESS if fields.get("Exit_status", fields.get("exit_status")) == "0" else FAILED

    def cancel(self, jobs: list[str]) -> list[str]:
        """See `Scheduler`."""
        return ["qdel", *jobs]


class Torque(PBS):
    """Torque, an older relative of PBS with words of its own for resources."""

    def resources(self, job: Request) -> list[str]:
        """See `PBS`."""
        return ["-l", f"nodes=1:ppn={job.threads},mem={job.kib}kb,walltime={job.clock}"]

    def state(self, job: str) -> str:
        """See `PBS`; it has no history, but keeps finished jobs for some minutes."""
        status, text = answer("qstat", "-f", job)
        if status:
            return FAILED if "Unknown Job" in text else RUNNING
        fields = dict(re.findall(r"^\s*(\w+) = (.*)$", text, re.MULTILINE))
        if fields.get("job_state") != "C":
            return RUNNING
        return SUCCESS if fields.get("exit_status") == "0" else FAILED


class LSF(Scheduler):
    """LSF; memory in the site's unit, which ``UNGLOW_LSF_UNIT`` tells (KB, MB or GB; MB)."""

    name = "lsf"
    UNITS: ClassVar = {"KB": 1, "MB": 1024, "GB": 1024**2}

    def submission(self, job: Request) -> list[str]:
        """See `Scheduler`."""
        memory = math.ceil(job.kib / self.UNITS[os.environ.get("UNGLOW_LSF_UNIT", "MB")])
        place = f"span[hosts=1] rusage[mem={memory}]"
        return [
            *("bsub", "-rn", "-J", job.name, "-n", str(job.threads), "-W", str(job.minutes)),
            *("-M", str(memory), "-R", place, "-o", f"{job.logs}/{job.name}.%J.log"),
            job.script,
        ]

    def job_id(self, text: str) -> str:
        """Return the number in ``Job <123> is submitted to queue <normal>.``."""
        found = re.search(r"Job <(\d+)>", text)
        return found[1] if found else ""

    def state(self, job: str) -> str:
        """See `Scheduler`."""
        status, text = answer("bjobs", "-noheader", "-o", "stat", job)
        if status or "is not found" in text or not text.strip():
            status, text = answer("bhist", "-l", "-n", "0", job)
            if status or not re.search(r"Done successfully|Exited", text):
                return RUNNING
            return SUCCESS if "Done successfully" in text else FAILED
        word = text.split()[0]
        return {"DONE": SUCCESS, "EXIT": FAILED}.get(word, RUNNING)

    def cancel(self, jobs: list[str]) -> list[str]:
        """See `Scheduler`."""
        return ["bkill", *jobs]


SCHEDULERS = {"slurm": Slurm, "sge": GridEngine, "pbs": PBS, "torque": Torque, "lsf": LSF}


def chosen() -> Scheduler:
    """Return the scheduler that the environment names, or else the one whose commands are here.

    Raises
    ------
    SystemExit
        With a sentence, if there is none.
    """
    name = os.environ.get(VARIABLE, "").strip().lower() or _found()
    if name not in SCHEDULERS:
        known = ", ".join(SCHEDULERS)
        said = f"{VARIABLE} is {name!r}" if name else "no scheduler's commands are on PATH"
        raise SystemExit(f"{said}: set {VARIABLE} to one of {known}.")
    return SCHEDULERS[name]()


def _found() -> str:
    if os.environ.get("SGE_ROOT") and shutil.which("qsub"):  # what Grid Engine needs to be asked
        return "sge"
    if shutil.which("sbatch"):
        return "slurm"
    if shutil.which("bsub"):
        return "lsf"
    if not shutil.which("qsub"):
        return ""
    # PBS Professional and OpenPBS tell "pbs_version = 23.06.06", Torque "Version: 6.1.2".
    return "pbs" if "pbs_version" in answer("qstat", "--version")[1] else "torque"
