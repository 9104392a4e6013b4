"""What the Snakemake that starts a job on a node takes of the job's memory and time.

With Slurm there are two, one inside the other. What they take counts against what the job has asked
the scheduler for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Snakemake that has read this workflow, MB: what it holds alone, and its share of what it maps.
_SNAKEMAKE_MB = 145
STARTING_MIN = 1
"""Time that starting takes before the job's own begins, minutes: busy disks are slow."""
VARIABLE = "UNGLOW_LAUNCHER_MB"
"""Variable that says to a job how much of its declared memory is not its own, MB."""
SMALL_PX = 100_000_000
"""All jobs of a pair of at most so many px (per image) are one job of a scheduler."""


def launcher_mb(executor: str | None, environment: Mapping[str, str]) -> int:
    """Return the memory of what starts a job on a node, MB.

    ``executor`` is the name of the plugin that submits; None on the node, where only the
    environment says so.
    """
    twice = executor == "slurm" if executor is not None else "SLURM_STEP_ID" in environment
    return _SNAKEMAKE_MB * (2 if twice else 1)
