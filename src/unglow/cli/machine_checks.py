"""Checks of the machine, of what is installed on it, and of the disks that runs write to."""

from __future__ import annotations

import fcntl
import importlib
import math
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from importlib import metadata
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from unglow import __version__
from unglow.core import kernels
from unglow.core.errors import InstallationError
from unglow.core.files import remedy as remedy_of
from unglow.core.machine import (
    busy_processors,
    count_allowed_processors,
    existing,
    memory_available_mb,
    memory_total_mb,
    mount_of,
    mounts,
    read_processor_quota,
)
from unglow.workflow.settings import LEAST_BUDGET, USUAL_BUDGET

if TYPE_CHECKING:
    from collections.abc import Iterable

OK, WARNING, FAULT = "ok", "warning", "fault"
_SHOWN = ("snakemake", "numpy", "opencv-python-headless", "tensorstore", "tifffile", "imagecodecs")
_SKEW_S = 2.0
_TAKE = (
    "import fcntl, sys\n"
    "try: fcntl.flock(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    "except BlockingIOError: sys.exit(7)\n"
)


class Finding(NamedTuple):
    """What one check has found: ``ok``, ``warning`` or ``fault``, and what helps against it."""

    name: str
    level: str
    found: str
    remedy: str = ""


def judge(name: str, found: str, problems: Iterable[tuple[bool, str, str, str]]) -> Finding:
    """Return what was found with each problem that is true: its level, what it is, what helps."""
    real = [(level, what, helps) for is_true, level, what, helps in problems if is_true]
    levels = {level for level, _, _ in real}
    level = next((one for one in (FAULT, WARNING) if one in levels), OK)
    words = "; ".join(filter(None, [found, *(what for _, what, _ in real)]))
    return Finding(name, level, words, "; ".join(dict.fromkeys(helps for _, _, helps in real)))


def check_processors() -> Finding:
    """Report how many processors there are, may be used, and are wanted by other programs."""
    cores, allowed = os.cpu_count() or 1, count_allowed_processors()
    return judge_processors(cores, allowed, read_processor_quota(), round(busy_processors()))


def judge_processors(cores: int, allowed: int, quota: float | None, busy: int) -> Finding:
    """Judge counts of processors; ``busy`` are those that programs have wanted of late."""
    limit, left = math.inf if quota is None else quota, max(1, min(allowed, cores - busy))
    why = f"a limit of the container allows {limit:g} at a time, which --cores all does not see"
    return judge("processors", f"{cores} in the machine, {allowed} allowed, {busy} busy", [
        (limit < allowed, WARNING, why, f"snakemake --cores {max(1, int(min(limit, allowed)))}"),
        (busy > 0.3 * cores, WARNING, "other programs use them",
         f"see which (`top`), or use --cores {left}"),
    ])  # fmt: skip


def judge_memory(total_mb: float, available_mb: float) -> Finding:
    """Judge memory, MB: granted to this process, and free of that."""
    words = f"{total_mb:.0f} MB granted, {available_mb:.0f} free"
    short = available_mb < LEAST_BUDGET
    less = max(math.floor(0.8 * available_mb / 50) * 50, LEAST_BUDGET)
    return judge("memory", words, [
        (short, FAULT, f"a job needs {LEAST_BUDGET}", "end other programs, or ask for more"),
        (not short and available_mb < USUAL_BUDGET, WARNING,
         f"less than the {USUAL_BUDGET} that one job may take by default",
         f"end other programs, or use --config memory_per_job={less}"),
    ])  # fmt: skip


def check_limits() -> Finding:
    """Report the limits of the shell."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    option, least = min(
        (("-d", resource.RLIMIT_DATA), ("-v", resource.RLIMIT_AS)),
        key=lambda one: resource.getrlimit(one[1])[1] % 2**64,
    )
    mb = resource.getrlimit(least)[1] % 2**64 / 1e6
    what, helps = f"ulimit {option} is {mb:.0f} MB", f"ulimit {option} unlimited"
    return judge("limits", f"{files} open files", [
        (0 <= files < 1024, WARNING, "Snakemake and the live page may run out", "ulimit -n 4096"),
        (mb < USUAL_BUDGET, FAULT if mb < LEAST_BUDGET else WARNING, what, helps),
    ])  # fmt: skip


def check_versions() -> Finding:
    """Report versions, and what ``pip check`` finds wrong for unglow."""
    known = {one.metadata["Name"]: one.version for one in metadata.distributions()}
    shown = [f"{name} {known[name]}" for name in _SHOWN if name in known]
    words = ", ".join((f"unglow {__version__}", f"Python {platform.python_version()}", *shown))
    pip = [sys.executable, "-m", "pip", "--no-color", "check"]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)  # noqa: S603 (this Python)
    wrong = [line.rstrip(".") for line in done.stdout.splitlines() if line.startswith("unglow ")]
    helps = "install unglow again: pip brings what it asks for"
    if done.returncode not in (0, 1):  # no pip, or a package has a tag that it does not know
        words += "; `pip check` fails, so what unglow needs was not compared"
    return judge("versions", words, [(True, FAULT, line, helps) for line in wrong])


def check_loops() -> Finding:
    """Say which build of the loops in C is loaded; there are no others in their place."""
    try:
        for name in kernels.prototypes():
            kernels.kernel(name)
    except InstallationError as error:
        what, _, remedy = str(error).rpartition("; ")
        return Finding("loops in C", FAULT, what, remedy)
    words = f"{len(kernels.prototypes())} loaded from {kernels.library_path().name}"
    chosen = kernels.CHOICE in os.environ
    named = (chosen, WARNING, f"{kernels.CHOICE} names them", f"unset {kernels.CHOICE}")
    return judge("loops in C", words, [named])


def check_opencv() -> Finding:
    """Report whether OpenCV can be loaded: other packages of it overwrite the one for servers."""
    try:
        cv2 = importlib.import_module("cv2")
        framework = re.search(r"Parallel framework:\s*(\S+)", cv2.getBuildInformation())
        threads = f", parallel framework {framework[1]}" if framework else ""
        return Finding("OpenCV", OK, f"{cv2.__version__}{threads}")
    except ImportError as error:
        names = "opencv-python opencv-contrib-python opencv-python-headless"
        helps = f"pip uninstall --yes {names} && pip install opencv-python-headless"
        return Finding("OpenCV", FAULT, f"cannot be loaded ({error})", helps)


def check_disk(use: str, wanted: Path) -> Finding:
    """Report kind, space, locks and clock of the disk that a directory is, or would be, on."""
    path = existing(wanted).resolve()
    about, mount = os.statvfs(path), mount_of(str(path), mounts())
    kind = "an unknown file system" if mount is None else f"{mount.kind} on {mount.source}"
    free_mb, more = about.f_bavail * about.f_frsize / 1e6, "free space, or work elsewhere"
    words, problem, locks, skew_s = f"{path}: {kind}, {free_mb / 1e3:.1f} GB free", "", True, 0.0
    remedy = more
    try:
        with tempfile.NamedTemporaryFile(dir=path, prefix=".unglow-doctor-") as file:
            locks, skew_s = _locks_out(file), _find_skew_s(Path(file.name))
    except OSError as error:
        problem, remedy = f"cannot be written ({error.strerror})", remedy_of(error, path)
    return judge(f"disk of {use}", words, [
        (bool(problem), FAULT, problem, remedy),
        (free_mb < 500, FAULT, "too little for any run", more),
        (500 <= free_mb < 5000, WARNING, "little (`unglow preflight` says what a run takes)", more),
        (about.f_files > 0 and about.f_favail < 10_000, WARNING,
         f"only {about.f_favail} more files fit", "remove small files, or ask for more inodes"),
        (mount is not None and mount.is_in_memory, WARNING,
         "what is written there takes memory", "set TMPDIR, or work elsewhere"),
        (not locks, WARNING, "it has no locks: let one program at a time change results",
         "mount it with locks (Lustre: -o flock)"),
        (abs(skew_s) > _SKEW_S, WARNING, f"times of files differ by {skew_s:.1f} s from this clock",
         "have both machines set their clocks (`chronyc tracking`, `timedatectl`)"),
    ])  # fmt: skip


def _locks_out(file: IO[bytes]) -> bool:
    """Whether a lock on a file keeps a second process out."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    words = [sys.executable, "-S", "-c", _TAKE, file.name]
    return subprocess.run(words, capture_output=True, check=False).returncode == 7  # noqa: S603 (this Python)


def _find_skew_s(path: Path) -> float:
    """Return by how much times of new files are ahead of the clock; steps of 2 s are no skew."""
    before = time.time()
    path.write_bytes(b"1")
    changed, after = path.stat().st_mtime, time.time()
    return changed - after if changed > after else min(0.0, changed - before)


def examine(uses: dict[str, Path], patience_s: float) -> list[Finding]:
    """Return what all checks have found; a disk that has not answered by then, s, is a fault."""
    helps = "see if its disk or server answers (`df`, `dmesg`), or give it more time: --patience 60"
    silent, found = "has not answered in time", dict[str, Finding]()

    def check_use(use: str) -> None:
        found[use] = check_disk(use, uses[use])

    threads = [threading.Thread(target=check_use, args=(use,), daemon=True) for use in uses]
    for thread in threads:
        thread.start()
    until = time.monotonic() + patience_s
    checked = [
        check_processors(),
        judge_memory(memory_total_mb(), memory_available_mb()),
        *(check() for check in (check_limits, check_versions, check_loops, check_opencv)),
    ]
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return checked + [
        found.get(use) or Finding(f"disk of {use}", FAULT, silent, helps) for use in uses
    ]
