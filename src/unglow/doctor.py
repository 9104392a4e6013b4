"""Checks of the machine, of what is installed on it, and of its file systems, which are tried."""

from __future__ import annotations

import errno
import fcntl
import importlib
import math
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unglow import __version__
from unglow.core import kernels
from unglow.core.errors import InstallationError
from unglow.core.files import remedy as remedy_of
from unglow.core.kernels import building
from unglow.core.machine import (
    Mount,
    busy_processors,
    count_allowed_processors,
    existing,
    memory_available_mb,
    memory_total_mb,
    mount_of,
    mounts,
    read_processor_quota,
)
from unglow.core.process import meminfo_mb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Level(StrEnum):
    """How bad something is: a fault stops runs or spoils them, a warning may slow or surprise."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


class Complaint(NamedTuple):
    """Something that is not well: how bad, what, and what helps."""

    level: Level
    what: str
    remedy: str


class Finding(NamedTuple):
    """What one check has found, on a line; the remedy is empty where all is well."""

    name: str
    level: Level
    found: str
    remedy: str = ""


def judge(name: str, found: str, complaints: Iterable[Complaint | None] = ()) -> Finding:
    """Return what was found with all complaints, as bad as the worst of them."""
    real = [one for one in complaints if one is not None]
    order = list(Level)
    level = max((one.level for one in real), key=order.index, default=Level.OK)
    words = "; ".join([*([found] if found else []), *(one.what for one in real)])
    return Finding(name, level, words, "; ".join(dict.fromkeys(one.remedy for one in real)))


def fault(true: bool, what: str, remedy: str) -> Complaint | None:  # noqa: FBT001 (a condition)
    """Return a complaint about a fault if it is true."""
    return Complaint(Level.FAULT, what, remedy) if true else None


def warning(true: bool, what: str, remedy: str) -> Complaint | None:  # noqa: FBT001 (a condition)
    """Return a complaint that is a warning if it is true."""
    return Complaint(Level.WARNING, what, remedy) if true else None


# What a job needs at the least, MB, and what it has by default (memory_per_job).
_LEAST_MB, _USUAL_MB = 300.0, 2000.0


def check_processors() -> Finding:
    """Report how many processors there are, may be used, and are wanted by other programs."""
    return usable(
        os.cpu_count() or 1,
        count_allowed_processors(),
        read_processor_quota(),
        round(busy_processors()),
    )


def usable(cores: int, allowed: int, quota: float | None, busy: int) -> Finding:
    """Judge counts of processors; ``busy`` are those that programs have wanted of late."""
    limit = allowed if quota is None else min(allowed, quota)
    return judge("processors", f"{cores} in the machine, {allowed} allowed, {busy} busy", [
        warning(
            limit < allowed,
            f"a limit of the container allows {limit:g} at a time, which --cores all does not see",
            f"snakemake --cores {max(1, math.floor(limit))}",
        ),
        warning(
            busy > 0.3 * cores,
            "other programs use them",
            f"see which (`top`), or use --cores {max(1, min(allowed, cores - busy))}",
        ),
    ])  # fmt: skip


def check_memory() -> Finding:
    """Report the memory that machine and container grant, and how much of it is free."""
    machine = meminfo_mb().get("MemTotal", memory_total_mb())
    return memory(machine, memory_total_mb(), memory_available_mb())


def memory(machine_mb: float, total_mb: float, available_mb: float) -> Finding:
    """Judge memory, MB: of the machine, granted to this process, and available of that."""
    words = f"{machine_mb:.0f} MB in the machine, {total_mb:.0f} granted, {available_mb:.0f} free"
    less = math.floor(0.8 * available_mb / 50) * 50
    short = available_mb < _LEAST_MB
    return judge("memory", words, [
        fault(short, f"a job needs {_LEAST_MB:.0f}", "end other programs, or ask for more memory"),
        warning(
            not short and available_mb < _USUAL_MB,
            f"less than the {_USUAL_MB:.0f} that one job may take by default",
            f"end other programs, or use --config memory_per_job={max(less, int(_LEAST_MB))}",
        ),
    ])  # fmt: skip


def limits() -> Finding:
    """Report the limits of the shell."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    hard = {
        option: resource.getrlimit(which)[1] / 1e6
        for option, which in (("-d", resource.RLIMIT_DATA), ("-v", resource.RLIMIT_AS))
        if resource.getrlimit(which)[1] != resource.RLIM_INFINITY
    }
    return judge_limits(math.inf if files == resource.RLIM_INFINITY else files, hard)


def judge_limits(files: float, limits_mb: Mapping[str, float]) -> Finding:
    """Judge the number of open files, and limits of ``ulimit`` by option, MB."""
    option, least = min(limits_mb.items(), key=lambda one: one[1], default=("", math.inf))
    limited, lift = f"ulimit {option} is {least:.0f} MB", f"ulimit {option} unlimited"
    return judge("limits", f"{files:g} open files", [
        warning(files < 1024, "Snakemake and the live page may run out of files", "ulimit -n 4096"),
        fault(least < _LEAST_MB, limited, lift),
        warning(_LEAST_MB <= least < _USUAL_MB, limited, lift),
    ])  # fmt: skip


_SHOWN = (
    *("snakemake", "numpy", "opencv-python-headless", "zarr", "tensorstore", "tifffile"),
    "imagecodecs",
)


def versions() -> Finding:
    """Report versions, and what ``pip check`` finds wrong for unglow."""
    found = {name: version for name in _SHOWN if (version := _find_version(name))}
    shown = (f"{name} {version}" for name, version in found.items())
    words = ", ".join((f"unglow {__version__}", f"Python {platform.python_version()}", *shown))
    pip = [sys.executable, "-m", "pip", "--no-color", "check"]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)  # noqa: S603 (this Python)
    absent = "No module named pip" in done.stderr
    unchecked = warning(absent, "there is no pip to check them", "python -m ensurepip")
    if not absent and done.returncode not in (0, 1):  # a package has a tag that pip does not know
        words += "; `pip check` fails, so what unglow needs was not compared"
    return judge("versions", words, [*list_broken(done.stdout), unchecked])


def list_broken(checked: str) -> list[Complaint]:
    """Return what ``pip check`` says of unglow, of all that it says."""
    wrong = [line.rstrip(".") for line in checked.splitlines() if line.startswith("unglow ")]
    remedy = "install unglow again: pip brings what it asks for"
    return [Complaint(Level.FAULT, line, remedy) for line in wrong]


def _find_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def opencv() -> Finding:
    """Report whether OpenCV can be loaded: other packages of it overwrite the one for servers."""
    try:
        cv2: Any = importlib.import_module("cv2")
    except ImportError as error:
        remedy = (
            "pip uninstall --yes opencv-python opencv-contrib-python opencv-python-headless && "
            "pip install opencv-python-headless"
        )
        return judge("OpenCV", "", [Complaint(Level.FAULT, f"cannot be loaded ({error})", remedy)])
    return judge("OpenCV", cv2.__version__)


def loops() -> Finding:
    """Say which build of the loops in C is loaded; there are no others in their place."""
    path = kernels.library_path()
    try:
        for name in kernels.prototypes():
            kernels.kernel(name)
    except InstallationError as error:
        what, _, remedy = str(error).rpartition("; ")
        return judge("loops in C", "", [fault(True, what, remedy)])  # noqa: FBT003
    flags = building.levels(platform.machine()).get(kernels.level(), ())
    words = f"{len(kernels.prototypes())} loaded from {path.name}, {' '.join(flags)}"
    chosen = warning(
        kernels.CHOICE in os.environ, f"{kernels.CHOICE} names them", f"unset {kernels.CHOICE}"
    )
    return judge("loops in C", words, [chosen])


_SKEW_S = 2.0
_TAKE = (
    "import fcntl, sys\n"
    "file = open(sys.argv[2], 'r+')\n"
    "try: getattr(fcntl, sys.argv[1])(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    "except BlockingIOError: sys.exit(7)\n"
)


class Place(NamedTuple):
    """A directory that unglow writes to, what for, and the file system that it is on."""

    use: str
    path: Path
    mount: Mount | None


def places(uses: dict[str, Path]) -> list[Place]:
    """Return directories by what they are for; those on one file system and device only once."""
    mounted, found = mounts(), dict[tuple[int, bool], Place]()
    for use, wanted in uses.items():
        path = existing(wanted).resolve()
        writable = os.access(path, os.W_OK | os.X_OK)
        key = (path.stat().st_dev, writable)
        if key in found:
            found[key] = found[key]._replace(use=f"{found[key].use}, {use}")
        else:
            found[key] = Place(use, path, mount_of(str(path), mounted))
    return list(found.values())


def check(place: Place) -> Iterator[Finding]:
    """Try everything at a place."""
    about = os.statvfs(place.path)
    yield room(
        place, about.f_bavail * about.f_frsize / 1e6, about.f_favail if about.f_files else None
    )
    try:
        with tempfile.TemporaryDirectory(dir=place.path, prefix=".unglow-doctor-") as made:
            tried = Path(made)
            yield locking(
                place, {kind: _excludes(tried / kind, kind) for kind in ("flock", "lockf")}
            )
            yield clock(place, _skew_s(tried))
    except OSError as error:
        full = error.errno == errno.ENOSPC
        what = f"cannot be written ({error.strerror})"
        helps = "free space" if full else remedy_of(error, place.path)
        yield judge(f"disk of {place.use}", str(place.path), [fault(True, what, helps)])  # noqa: FBT003


def room(place: Place, free_mb: float, free_files: int | None) -> Finding:
    """Judge the kind of file system and the room on it, MB and number of files (None: no limit)."""
    mount = place.mount
    kind = "an unknown file system" if mount is None else f"{mount.kind} on {mount.source}"
    away = "" if mount is None else (", remote" if mount.remote else ", local")
    memory = mount is not None and mount.kind in ("tmpfs", "ramfs")
    words = f"{place.path}: {kind}{away}, {free_mb / 1e3:.1f} GB free"
    helps = "free space, or work elsewhere"
    return judge(f"disk of {place.use}", words, [
        fault(free_mb < 500, "too little for any run", helps),
        warning(500 <= free_mb < 5000, "little (`unglow preflight` says what a run takes)", helps),
        warning(
            free_files is not None and free_files < 10_000,
            f"only {free_files} more files fit",
            "remove small files, or ask for more inodes",
        ),
        warning(memory, "what is written there takes memory", "set TMPDIR, or work elsewhere"),
    ])  # fmt: skip


def locking(place: Place, excludes: dict[str, bool | None]) -> Finding:
    """Judge whether locks keep another process out; None where there are none."""
    states = {True: "works", False: "lets a second process in", None: "is not there"}
    words = ", ".join(f"{kind} {states[works]}" for kind, works in excludes.items())
    options = {"localflock", "local_lock=all", "local_lock=flock", "nolock"}
    one = options & (frozenset() if place.mount is None else place.mount.options)
    return judge(f"locks of {place.use}", words, [
        warning(
            not all(excludes.values()),
            "decisions of two programs may overwrite each other, and two `unglow resume` may meet",
            "mount it with locks (Lustre: -o flock), and let one program at a time change results",
        ),
        warning(
            bool(one),
            f"mounted with {', '.join(sorted(one))}: machines do not see each other's locks",
            "change results from one machine at a time",
        ),
    ])  # fmt: skip


def _excludes(path: Path, kind: str) -> bool | None:
    """Whether a lock keeps a second process out; None where the file system has no such locks."""
    with path.open("w") as file:
        try:
            getattr(fcntl, kind)(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return None
        words = [sys.executable, "-S", "-c", _TAKE, kind, str(path)]
        done = subprocess.run(words, capture_output=True, check=False)  # noqa: S603 (this Python)
        return done.returncode == 7


def clock(place: Place, skew_s: float) -> Finding:
    """Judge by how much, s, times of new files are ahead of the machine's clock."""
    words = f"times of files differ by {abs(skew_s):.1f} s from this machine's clock"
    late = "Snakemake may take files for older or newer than they are"
    helps = "have both machines set their clocks (`chronyc tracking`, `timedatectl`)"
    return judge(f"clock of {place.use}", words, [warning(abs(skew_s) > _SKEW_S, late, helps)])


def _skew_s(tried: Path) -> float:
    before = time.time()
    path = tried / "clock"
    path.write_bytes(b"1")
    changed, after = path.stat().st_mtime, time.time()
    # file systems count in steps of up to a second or two, which are no skew
    return changed - after if changed > after else min(0.0, changed - before)
