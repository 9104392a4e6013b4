"""Which scheduler there is."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from unglow.jobs.schedulers.grid_engine import GridEngine
from unglow.jobs.schedulers.slurm import Slurm

if TYPE_CHECKING:
    from unglow.jobs.schedulers.scheduler import Scheduler

VARIABLE = "UNGLOW_SCHEDULER"
SCHEDULERS: dict[str, type[Scheduler]] = {
    "slurm": Slurm,
    "sge": GridEngine,
}


def chosen() -> Scheduler:
    """Return the scheduler that the environment names, or else the one whose commands are here.

    If there is none, the program ends with a sentence.
    """
    name = os.environ.get(VARIABLE, "").strip().lower() or _detected()
    if name not in SCHEDULERS:
        known = ", ".join(SCHEDULERS)
        reason = f"{VARIABLE} is {name!r}" if name else "neither Slurm nor Grid Engine is here"
        raise SystemExit(f"{reason}: set {VARIABLE} to one of {known}.")
    return SCHEDULERS[name]()


def _detected() -> str:
    if os.environ.get("SGE_ROOT") and shutil.which("qsub"):  # what Grid Engine needs to be asked
        return "sge"
    return "slurm" if shutil.which("sbatch") else ""
