"""The file of one run of Snakemake: its head, every job and its states, messages, and the end.

`RunRecorder` is a handler of Snakemake's logger; the Snakefile adds it in the process that runs
the workflow. Snakemake itself is not imported here: of its records only names and plain values are
used.

The head holds the environment, with everything that last digits depend on. With the same builds and
processors that can do the same, results are the same bytes. Elsewhere the last digits may differ:
linear algebra is summed in the order that suits the processor.
"""

from __future__ import annotations

import contextlib
import ctypes
import getpass
import hashlib
import logging
import os
import platform
import re
import threading
import time
from collections import Counter, deque
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from unglow import __version__
from unglow.core.process import cpuinfo
from unglow.telemetry.attempt_files import finish_run, remove_old_runs
from unglow.telemetry.jsonl import SCHEMA, SUFFIX, LineFile, identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

BEAT_S = 2.0
"""Time between two signs of life, s."""
# Messages before the first job is known, of which the last are kept.
_EARLY = 200
# Messages of Snakemake when it is asked to end.
_INTERRUPTED = (
    "Terminating processes on user request",
    "Will exit after finishing currently running jobs",
    "Cancelling snakemake on user request",
)
# Resources that are not demands of the job, or the same in other units.
_NO_DEMANDS = ("_cores", "_nodes", "tmpdir", "mem", "mem_mib", "disk", "disk_mib")

_COMPILED = ("imagecodecs", "numpy", "opencv-python-headless", "sep", "tensorstore")
_FEATURES = ("sse4_2", "avx", "avx2", "fma", "avx512f", "avx512bw", "asimd", "sve")
"""Of what processors can do: that by which libraries choose their loops."""
_CHOOSING = (
    *("MKL_CBWR", "NPY_DISABLE_CPU_FEATURES", "NUMBA_CPU_FEATURES", "NUMBA_CPU_NAME"),
    *("OPENBLAS_CORETYPE", "OPENCV_CPU_DISABLE"),
)
"""Variables by which a user chooses other loops."""
_LIBRARY = re.compile(r"\.(?:so|pyd|dylib)(?:\.|$)")
_PACKAGES = (
    *("imagecodecs", "matplotlib", "numpy", "opencv-python-headless", "psutil", "sep"),
    *("tensorstore", "tifffile", "zarr"),
)

log = logging.getLogger("unglow")


class LostJobs(Protocol):
    """What follows jobs on other machines: `unglow.jobs.lost_jobs.LostJobs`."""

    def add_job(self, job: Mapping[str, Any], /) -> None:
        """Remember a job that is handed over."""

    def add_failed_group(self, group: Mapping[str, Any], /) -> None:
        """Remember what is known of a failed group of jobs."""

    def judge_failed(self, job: Mapping[str, Any], /) -> tuple[bool, Any]:
        """Return whether a failed job was tried at all, and how it was lost, if it was."""


class Recorder(logging.Handler):
    """Takes records of Snakemake's logger; whatever goes wrong is reported once, not to the run."""

    _is_broken = False

    def __init__(self) -> None:
        super().__init__(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record."""
        try:
            self.record_event(record, str(getattr(record, "event", None) or ""))
        except Exception as error:  # noqa: BLE001 (telemetry is not a reason to end a run)
            self.fail(error)

    def record_event(self, record: logging.LogRecord, event: str) -> None:
        """Take a record of an event."""
        raise NotImplementedError

    def fail(self, error: Exception) -> None:
        """Report what went wrong, the first time."""
        if not self._is_broken:
            self._is_broken = True
            log.warning("telemetry of this run is not complete (%r)", error)


class RunRecorder(Recorder):
    """Records a run; the file starts once it is known that there are jobs to do.

    Parameters
    ----------
    directory
        That of the file, below that of the telemetry of jobs.
    run_id
        The id of the run (`unglow.telemetry.attempt_files.start_run`).
    head
        Returns what else the first line says about the run.
    plan
        Returns number, rule and wildcards of each job that is still to do and `is_recorded`, and
        the numbers of those that it waits for.
    elsewhere
        Returns what follows jobs on other machines, if they run there; asked when the run starts.

    Attributes
    ----------
    outcome
        How the run ends, which its file says last of all; None before that is known.
    """

    _telemetry: ClassVar[set[Path]] = set()  # directories of all recorders of this process

    def __init__(
        self,
        directory: Path,
        run_id: str,
        head: Callable[[], Mapping[str, Any]],
        plan: Callable[[], Sequence[Sequence[Any]]],
        elsewhere: Callable[[], LostJobs | None] = lambda: None,
    ) -> None:
        super().__init__()
        self.run_id = run_id
        self._path, self._head = directory / f"{run_id}{SUFFIX}", head
        self._elsewhere, self._plan = elsewhere, plan
        self._telemetry.add(directory.parent)
        self._losses: LostJobs | None = None
        self._clock, self._wall = time.monotonic(), time.time()
        self._file: LineFile | None = None
        self._early: deque[dict[str, Any]] = deque(maxlen=_EARLY)
        self._jobs: set[int] = set()
        self.outcome: str | None = None
        self._ended = False
        self._over = threading.Event()

    def conclude(self, outcome: str) -> None:
        """Set how the run ends: ``ok`` or ``failed``; an interruption has been seen before."""
        self.outcome = self.outcome or outcome

    def find_outcome(self) -> str:
        """Return how the run ends, when it does: unless it is known, by what is left to do."""
        return self.outcome or ("failed" if self._plan() else "ok")

    def close(self) -> None:
        """Write the end; Snakemake closes its handlers in any way out, and Python does."""
        if self._file is not None and not self._ended:
            self._ended = True
            self._over.set()
            self.write("end", wall=round(time.time(), 3), outcome=self.find_outcome())
            self._file.close()
            remove_old_runs(self.telemetry)
        self._telemetry.discard(self.telemetry)
        finish_run(self.run_id)
        super().close()

    @property
    def telemetry(self) -> Path:
        """The directory of all telemetry of these results."""
        return self._path.parents[1]

    def is_recorded(self, output: Iterable[Any], log: Iterable[Any]) -> bool:
        """Whether this file reports a job that writes these files.

        It does not report ``all``, which writes nothing, nor of jobs of another instance of the
        workflow in this process, which writes another results directory and records them itself.
        """
        files = [Path(str(path)).absolute() for path in (*output, *log)]
        others = self._telemetry - {self.telemetry}
        return bool(files) and not any(
            file.is_relative_to(other) for file in files for other in others
        )

    def record_event(self, record: logging.LogRecord, event: str) -> None:
        """Take a record of an event."""
        if event == "run_info":
            self._begin(vars(record)["stats"])
        elif event == "job_info":
            self._job(vars(record))
        elif event == "job_finished":
            self._state(vars(record)["job_id"], "finished")
        elif event == "job_error":
            self._failed(vars(record))
        elif event != "group_error":
            self._message(record)
        elif self._losses is not None:
            self._losses.add_failed_group(vars(record))

    def _begin(self, stats: Iterable[str]) -> None:
        """Start the file if there is something to do, and no other recorder writes it."""
        if self._file is not None or not (plan := self._plan()) or self._path.exists():
            return
        self._file = LineFile(self._path, log.warning)
        times = {"wall": round(self._wall, 3), "clock": round(self._clock, 3)}
        head = {"kind": "run", "schema": SCHEMA, **identity(), **times, "beat_s": BEAT_S}
        self._file.write({**head, **self._head()})
        for early in self._early:
            self._file.write(early)
        self._losses = self._elsewhere()
        jobs = Counter(rule for _, rule, *_ in plan)
        self.write("total", jobs={rule: jobs[rule] for rule in stats if jobs[rule]})
        self.write("plan", jobs=plan)
        threading.Thread(target=self._beat, name="beat", daemon=True).start()

    def _beat(self) -> None:
        """Give signs of life, by which other machines know that this run is running."""
        while not self._over.wait(BEAT_S):
            self.write("beat")

    def _job(self, job: Mapping[str, Any]) -> None:
        if not self.is_recorded(job["output"] or (), job["log"] or ()):
            return
        self._jobs.add(job["jobid"])
        self.write(
            "job",
            jobid=job["jobid"],
            rule=job["rule_name"],
            wildcards=dict(job["wildcards"] or {}),
            reason=job["reason"],
            threads=job["threads"],
            resources=_demands(job["resources"].items()),
            local=bool(job["local"]),
            **{key: [str(path) for path in job[key] or ()] for key in ("input", "output", "log")},
            state="queued",
        )
        # elsewhere it may still wait in a queue: its attempt says when it has started
        if job["local"]:
            self._state(job["jobid"], "started")
        elif self._losses is not None:
            self._losses.add_job(job)

    def _failed(self, job: Mapping[str, Any]) -> None:
        """Record that a job has failed; of one on another machine, why, if it could not itself."""
        if job["jobid"] not in self._jobs:
            return
        tried, loss = (True, None) if self._losses is None else self._losses.judge_failed(job)
        if tried or loss is not None:
            self._state(job["jobid"], "failed", **({} if loss is None else asdict(loss)))

    def _state(self, jobid: int, state: str, **more: Any) -> None:
        if jobid in self._jobs:
            self.write("state", jobid=jobid, state=state, **more)

    def _message(self, record: logging.LogRecord) -> None:
        text = str(record.getMessage()) if record.msg else ""
        if any(words in text for words in _INTERRUPTED):
            self.outcome = "interrupted"
        if record.levelno >= logging.WARNING and text.strip():
            self.write("message", level=record.levelname.lower(), text=text.strip())

    def write(self, kind: str, **content: Any) -> None:
        """Add a line; others know the meaning of their own."""
        line = {"kind": kind, "t": round(time.monotonic() - self._clock, 3), **content}
        if self._file is None:
            self._early.append(line)
        else:
            self._file.write(line)


def _demands(resources: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the resources that a job asks for, as plain values."""
    return {
        name: value if isinstance(value, (int, float, str)) else str(value)
        for name, value in resources
        if name not in _NO_DEMANDS
    }


def surroundings() -> dict[str, Any]:
    """Return user, versions and machine, as the head of any run's file has them."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container without a name for the user
        user = str(os.getuid())
    return {
        "user": user,
        "unglow": __version__,
        "snakemake": _version("snakemake"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine_mb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6),
    }


def computing() -> dict[str, Any]:
    """Return what bytes of unglow's results may depend on here; it takes 0.1 s.

    Returns
    -------
    ``packages`` (versions), ``processor`` (name and features), ``blas`` (name, version and the
    kernels that it has chosen), ``builds`` (a digest of the compiled files of each package; None
    where none are listed), and ``variables`` that choose among loops.
    """
    return {
        "packages": {name: _version(name) for name in _PACKAGES},
        "processor": _processor(),
        "blas": _blas(),
        "builds": {name: _build(name) for name in _COMPILED},
        "variables": {name: os.environ[name] for name in _CHOOSING if name in os.environ},
    }


def _processor() -> dict[str, Any]:
    """Return name and features of the processor; those of the first one where there are several."""
    info = cpuinfo()
    able = {*info.get("flags", "").split(), *info.get("Features", "").split()}
    return {
        "name": info.get("model name") or platform.processor() or platform.machine(),
        "features": [name for name in _FEATURES if name in able],
    }


def _blas() -> dict[str, Any]:
    """Return what linear algebra is computed with, and for which processor it has its kernels."""
    import numpy as np

    known: Any = {}
    with contextlib.suppress(TypeError, KeyError):  # an older NumPy prints only
        known = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "name": known.get("name"),
        "version": known.get("version"),
        "kernels": _openblas_kernels(Path(np.__file__).parent),
    }


def _openblas_kernels(numpy: Path) -> str | None:
    """Ask the OpenBLAS that NumPy brings for the kind of processor that it works for."""
    for file in sorted(numpy.parent.glob("numpy.libs/*openblas*")):
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(str(file))
            for name in ("scipy_openblas_get_corename64_", "openblas_get_corename64_",
                         "openblas_get_corename"):  # fmt: skip
                if hasattr(library, name):
                    ask = getattr(library, name)
                    ask.restype = ctypes.c_char_p
                    return str(ask().decode())
    return None


def _build(name: str) -> str | None:
    """Return a digest of the compiled files of a package, as its list of files has them."""
    try:
        files = metadata.distribution(name).files or []
    except metadata.PackageNotFoundError:
        return None
    listed = sorted(
        f"{file} {file.hash.value}" for file in files if file.hash and _LIBRARY.search(file.name)
    )
    return hashlib.sha256("\n".join(listed).encode()).hexdigest()[:16] if listed else None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
