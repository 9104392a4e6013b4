"""Which scheduler there is."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from unglow.jobs.schedulers.grid_engine import GridEngine
from unglow.jobs.schedulers.lsf import LSF
from unglow.jobs.schedulers.pbs import PBS, Torque
from unglow.jobs.schedulers.scheduler import run
from unglow.jobs.schedulers.slurm import Slurm

if TYPE_CHECKING:
    from unglow.jobs.schedulers.scheduler import Scheduler

VARIABLE = "UNGLOW_SCHEDULER"
SCHEDULERS: dict[str, type[Scheduler]] = {
    "slurm": Slurm,
    "sge": GridEngine,
    "pbs": PBS,
    "torque": Torque,
    "lsf": LSF,
}


def chosen() -> Scheduler:
    """Return the scheduler that the environment names, or else the one whose commands are here.

    If there is none, the program ends with a sentence.
    """
    name = os.environ.get(VARIABLE, "").strip().lower() or _detected()
    if name not in SCHEDULERS:
        known = ", ".join(SCHEDULERS)
        reason = f"{VARIABLE} is {name!r}" if name else "no scheduler's commands are on PATH"
        raise SystemExit(f"{reason}: set {VARIABLE} to one of {known}.")
    return SCHEDULERS[name]()


def _detected() -> str:
    if os.environ.get("SGE_ROOT") and shutil.which("qsub"):  # what Grid Engine needs to be asked
        return "sge"
    if shutil.which("sbatch"):
        return "slurm"
    if shutil.which("bsub"):
        return "lsf"
    if not shutil.which("qsub"):
        return ""
    # PBS Professional and OpenPBS tell "pbs_version = 23.06.06", Torque "Version: 6.1.2".
    return "pbs" if "pbs_version" in run("qstat", "--version")[1] else "torque"
