"""Slides whose subtraction was refused: they have no corrected image, and no run asks for one.

Snakemake wants each output of a job to be there when the job has ended, so that of such a slide has
left an empty file in the place of each image. They go when the run ends.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from unglow.core.files import read_json
from unglow.workflow.paths import CORRECTED, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def refused_slides(results: Path, names: Iterable[str]) -> frozenset[str]:
    """Return those of some slides whose subtraction was refused the last time."""
    return frozenset(name for name in names if _is_refused(results / name / "subtraction.json"))


def _is_refused(subtraction: Path) -> bool:
    try:
        return bool(read_json(subtraction)["status"] == "failed")
    except (OSError, ValueError, KeyError, TypeError):  # not there yet, or made again anyway
        return False


def remove_stumps(results: Path, names: Iterable[str]) -> None:
    """Remove the empty files of those of some slides that were refused."""
    for name in refused_slides(results, names):
        for image in (results / name / corrected for corrected in CORRECTED.values()):
            # what cannot be removed, or is no stump, is left
            with contextlib.suppress(OSError):
                if not image.stat().st_size:
                    image.unlink()
                    if image.name == ROOT:
                        image.parent.rmdir()
