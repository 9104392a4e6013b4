"""Writing what jobs and runs do, as they do it.

Here is ``with unglow.span("name"):`` for scripts of any workflow: a step of their job. A script of
another workflow does not know the file of its attempt. It writes its steps to a file of its
process, in a directory that the run has set in the environment; whoever watches the job copies them
from there. Elsewhere a span does nothing.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core import progress
from unglow.core.process import read_start_ticks
from unglow.telemetry.jsonl import SUFFIX, LineFile

if TYPE_CHECKING:
    from collections.abc import Iterator

SPANS_VARIABLE = "UNGLOW_SPANS"
"""Environment variable with the directory of the files of processes."""
_opened_by: int | None = None


@contextlib.contextmanager
def span(name: str) -> Iterator[None]:
    """Mark what the block does as a step of the job; spans may lie within spans.

    Parameters
    ----------
    name
        A word or two, the same in every job of the rule.
    """
    with contextlib.suppress(Exception):  # telemetry is not a reason to lose a result
        _open()
    with progress.step(name):
        yield


def _open() -> None:
    """Start the file of this process, unless its steps are recorded already."""
    global _opened_by  # noqa: PLW0603 (a process has one file)
    place, pid = os.environ.get(SPANS_VARIABLE), os.getpid()
    inherited = _opened_by is not None and _opened_by != pid
    if not place or (progress.is_recording() and not inherited):
        return
    _opened_by = pid
    started = read_start_ticks(pid)
    file = LineFile(Path(place, f"{pid}-{started}{SUFFIX}"), lambda _: None)
    file.write({"kind": "spans", "pid": pid, "started": started, **_job()})
    progress.record_steps(file)


def _job() -> dict[str, Any]:
    """Return rule and wildcards of the job, which Snakemake gives to scripts; else nothing."""
    snakemake: Any = getattr(sys.modules.get("__main__"), "snakemake", None)
    try:
        wildcards = {str(key): str(value) for key, value in snakemake.wildcards.items()}
        return {"rule": str(snakemake.rule), "wildcards": wildcards}
    except Exception:  # noqa: BLE001 (another variable of this name)
        return {}
