"""All checks, side by side and within a few seconds, whatever does not answer."""

from __future__ import annotations

import math
import os
import queue
import tempfile
import threading
import time
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.errors import UnglowError
from unglow.core.kernels import building
from unglow.doctor import cluster, machine, software, storage
from unglow.doctor.finding import Finding, Level
from unglow.jobs.resume.unfinished import last_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PATIENCE_S = 4.0
"""How long checks that need disks or other machines may take by default, s."""
_REPORT = "please report it with `unglow bundle`"


class _Checks:
    """Checks that have begun in a thread which nobody has to wait for."""

    def __init__(self, name: str, checks: Callable[[], Iterable[Finding]]) -> None:
        self._name = name
        self._answers: queue.SimpleQueue[Finding | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, args=(checks,), daemon=True).start()

    def _work(self, checks: Callable[[], Iterable[Finding]]) -> None:
        try:
            for finding in checks():
                self._answers.put(finding)
        except (UnglowError, OSError, ValueError, ImportError) as error:
            what = f"a check failed ({error})"
            self._answers.put(Finding(self._name, Level.WARNING, what, _REPORT))
        self._answers.put(None)

    def found(self, until: float) -> Iterator[Finding]:
        """Yield what is found until then (monotonic, s), and a fault for what is not."""
        while True:
            try:
                left = max(0.001, until - time.monotonic())
                finding = self._answers.get(timeout=min(left, threading.TIMEOUT_MAX))
            except queue.Empty:
                what = "has not answered in time"
                helps = (
                    "see if its disk or server answers (`df`, `dmesg`), or give it more time: "
                    "unglow doctor --patience 60"
                )
                yield Finding(self._name, Level.FAULT, what, helps)
                return
            if finding is None:
                return
            yield finding


def examine(directory: Path, results: Path, patience_s: float = PATIENCE_S) -> list[Finding]:
    """Return what all checks have found, in their order.

    Parameters
    ----------
    directory, results
        A working directory, and the results of its runs, which need not exist.
    patience_s
        A disk, or a scheduler, that has not answered by then, s, is a fault.
    """
    until = time.monotonic() + patience_s
    found = [machine.seen_processors()]  # before anything else uses them
    uses = {
        "working directory": directory,
        "results": results,
        "cache": Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"),
        "temporary files": Path(tempfile.gettempdir()),
    }
    here = [_Checks("installation", _software), _Checks("machine", _machine)]
    away = [_Checks("last run", partial(_runs, directory, results))]
    looks = {use: _Checks(f"disk of {use}", partial(_look, path)) for use, path in uses.items()}
    soon = time.monotonic() + patience_s / 4
    silent = {use: [*look.found(soon)] for use, look in looks.items()}
    answering = {use: path for use, path in uses.items() if not silent[use]}
    away += [
        *(
            _Checks(f"disk of {place.use}", partial(storage.check, place))
            for place in storage.places(answering)
        ),
        _Checks("cluster", cluster.check),
    ]
    for checks in here:
        found += checks.found(math.inf)
    for checks in away:
        found += checks.found(until)
    return [*found, *(finding for use in uses for finding in silent[use])]


def _look(path: Path) -> tuple[Finding, ...]:
    """See if a path answers at all."""
    path.exists()
    return ()


def _software() -> Iterator[Finding]:
    yield software.versions(metadata.requires("unglow") or [], software.installed())
    yield software.loops()
    yield software.opencv_build()
    yield software.linear_algebra()
    yield software.codecs()


def _machine() -> Iterator[Finding]:
    yield machine.threads(os.environ)
    yield machine.granted_memory()
    yield machine.memory_rules()
    yield machine.open_files()
    yield machine.semaphores()
    yield machine.text()


def _runs(directory: Path, results: Path) -> Iterator[Finding]:
    run = last_run(results)
    beside = building.SOURCES.parents[3]
    recorded = None if run is None else run.fields.get("workflow")
    checkout = Path(str(recorded)) if recorded else beside if (beside / "rules").is_dir() else None
    yield software.workflow(checkout)
    yield storage.snakemake(directory)
