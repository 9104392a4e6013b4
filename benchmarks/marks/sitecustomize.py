"""Notes in every Python process of a run when a step of it begins; for `run_profile.py`.

Python imports this module at its start where its directory is in ``PYTHONPATH``. A process writes
its marks (name of the step, monotonic time and its CPU time so far, s) when it ends.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import threading
import time
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PLACE = "UNGLOW_MARKS"
"""Environment variable with the directory that processes write to."""
#: Steps that begin where a module is looked for the first time.
BEGINS = {"snakemake": "Snakemake's imports", "unglow.jobs.context": "frame"}
Mark = tuple[str, float, float]


class Marks:
    """The marks of this process."""

    def __init__(self) -> None:
        spent = time.process_time()
        self.found: list[Mark] = [("interpreter", time.monotonic() - spent, 0.0)]
        self._depth = 0

    def add(self, name: str) -> None:
        """From here on the main thread does this."""
        self.found.append((name, time.monotonic(), time.process_time()))

    def restart(self) -> None:
        """In a process that was forked: its CPU time starts from 0."""
        self.found = []
        self.add("libraries")

    @contextlib.contextmanager
    def outermost(self, name: str, after: str) -> Iterator[None]:
        """Mark a block that is not inside another one of the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        if self._depth == 0:
            self.add(name)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self.add(after)

    def write(self) -> None:
        """Write a file of this process."""
        self.add("")
        about = {"program": sys.argv[0], "marks": self.found}
        path = os.path.join(os.environ[PLACE], f"{os.getpid()}.json")  # noqa: PTH118 (no imports)
        with open(path, "w", encoding="utf-8") as stream:  # noqa: PTH123
            json.dump(about, stream)


marks = Marks()


def around(owner: Any, name: str, step: str, after: str) -> None:
    """Mark the calls of a method."""
    inner = getattr(owner, name)

    def outer(*words: Any, **more: Any) -> Any:
        with marks.outermost(step, after):
            return inner(*words, **more)

    setattr(owner, name, outer)


def mark_workflow(module: Any) -> None:
    """Mark reading the workflow, and from there to the first job."""
    around(module.Workflow, "include", "workflow", "DAG")


def mark_scheduler(module: Any) -> None:
    """Mark the time in which jobs run."""
    around(module.JobScheduler, "schedule", "jobs", "hooks and end")


def mark_steps(module: Any) -> None:
    """Mark the steps of a job."""
    inner = module.step

    @contextlib.contextmanager
    def step(name: str) -> Iterator[None]:
        with marks.outermost(name, "end" if name == "digests" else "other work"), inner(name):
            yield

    module.step = step


CHANGED: dict[str, Callable[[Any], None]] = {
    "snakemake.workflow": mark_workflow,
    "snakemake.scheduling.job_scheduler": mark_scheduler,
    "unglow.core.progress": mark_steps,
}


class Finder:
    """Sees which modules are looked for, and changes some of them once they are imported."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        """Return the real place of a module that is changed; None for all others."""
        if name in BEGINS:
            marks.add(BEGINS.pop(name))
        change = CHANGED.pop(name, None)
        spec = None if change is None else PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None or change is None:
            return None
        execute = spec.loader.exec_module

        def changed(module: Any) -> None:
            execute(module)
            change(module)

        spec.loader.exec_module = changed  # type: ignore[method-assign]
        return spec


if PLACE in os.environ:
    sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
    os.register_at_fork(before=lambda: marks.add("watching"), after_in_child=marks.restart)
    atexit.register(marks.write)
