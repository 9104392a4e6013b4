"""Checks of the machine: processors, threads, memory, limits, and how text is written."""

from __future__ import annotations

import locale
import math
import multiprocessing
import os
import re
import resource
import sys
import threading
import time
import zlib
from typing import TYPE_CHECKING

from unglow.core import cgroups
from unglow.core.machine import allowed_processors, memory_available_mb, memory_total_mb
from unglow.core.process import meminfo_mb, read
from unglow.doctor.finding import Finding, fault, judged, warning

if TYPE_CHECKING:
    from collections.abc import Mapping

_TRIAL_S = 0.3
_MOST_THREADS = 64
# What a job needs at the least, MB, and what it has by default (memory_per_job).
_LEAST_MB, _USUAL_MB = 300.0, 2000.0
_COUNTS = re.compile(r"(OMP|OPENBLAS|MKL|NUMEXPR|BLIS|VECLIB_MAXIMUM|GOTO)_(NUM_)?THREADS")
_PINS = ("GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_PROC_BIND", "OMP_PLACES")


def seen_processors() -> Finding:
    """Tell how many processors there are, may be used, and are got when all are asked for."""
    delivered = _delivered(allowed_processors())
    return usable(os.cpu_count() or 1, allowed_processors(), cgroups.quota(), delivered)


def usable(cores: int, allowed: int, quota: float | None, delivered: float) -> Finding:
    """Judge counts of processors; ``delivered`` is what as many threads as are allowed have got."""
    limit = allowed if quota is None else min(allowed, quota)
    asked = min(allowed, _MOST_THREADS)
    words = f"{cores} in the machine, {allowed} allowed, {delivered:.1f} got by {asked} threads"
    fewer = max(1, math.floor(limit))
    return judged("processors", words, [
        warning(
            limit < allowed,
            f"a limit of the container allows {limit:g} at a time, which --cores all does not see",
            f"snakemake --cores {fewer}",
        ),
        warning(
            delivered < 0.7 * min(limit, asked),
            "other programs use them",
            f"see which (`top`), or use --cores {max(1, round(delivered))}",
        ),
    ])  # fmt: skip


def _delivered(count: int) -> float:
    """Return how many processors as many threads get together, busy for a moment."""
    spent: list[float] = []
    block = bytes(1 << 20)

    def work() -> None:
        begun, until = time.thread_time(), time.monotonic() + _TRIAL_S
        while time.monotonic() < until:
            zlib.crc32(block)  # releases the lock of the interpreter
        spent.append((time.thread_time() - begun) / _TRIAL_S)

    workers = [threading.Thread(target=work) for _ in range(min(count, _MOST_THREADS))]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    return sum(spent)


def threads(variables: Mapping[str, str]) -> Finding:
    """Tell what the shell sets for threads of libraries; jobs themselves set their number to 1."""
    counts = [f"{key}={value}" for key, value in variables.items() if _COUNTS.fullmatch(key)]
    pins = [
        key for key in _PINS if variables.get(key, "false").lower() not in ("false", "disabled")
    ]
    words = f"the shell sets {', '.join(counts) or 'no number of threads'}; jobs set 1"
    bound = f"{' and '.join(pins)} binds threads to processors: jobs would share one"
    return judged("threads", words, [warning(bool(pins), bound, f"unset {' '.join(pins)}")])


def granted_memory() -> Finding:
    """Tell the memory that machine and container grant, and what is free of it."""
    machine = meminfo_mb().get("MemTotal", memory_total_mb())
    return memory(machine, memory_total_mb(), memory_available_mb())


def memory(machine_mb: float, total_mb: float, available_mb: float) -> Finding:
    """Judge memory, MB: of the machine, granted to this process, and available of that."""
    words = f"{machine_mb:.0f} MB in the machine, {total_mb:.0f} granted, {available_mb:.0f} free"
    less = math.floor(0.8 * available_mb / 50) * 50
    short = available_mb < _LEAST_MB
    return judged("memory", words, [
        fault(short, f"a job needs {_LEAST_MB:.0f}", "end other programs, or ask for more memory"),
        warning(
            not short and available_mb < _USUAL_MB,
            f"less than the {_USUAL_MB:.0f} that one job may take by default",
            f"end other programs, or --config memory_per_job={max(less, int(_LEAST_MB))}",
        ),
    ])  # fmt: skip


def memory_rules() -> Finding:
    """Tell how the system gives memory out: commitments, swap, pressure, limits of the shell."""
    pressed = re.search(r"some .*avg60=([\d.]+)", read("pressure", "memory"))
    limits = {"-d": resource.RLIMIT_DATA, "-v": resource.RLIMIT_AS}
    hard = {option: resource.getrlimit(which)[1] for option, which in limits.items()}
    return given_out(
        read("sys/vm/overcommit_memory").strip(),
        meminfo_mb(),
        float(pressed[1]) if pressed else None,
        {key: value / 1e6 for key, value in hard.items() if value != resource.RLIM_INFINITY},
    )


def given_out(
    overcommit: str,
    sizes_mb: Mapping[str, float],
    pressure: float | None,
    limits_mb: Mapping[str, float],
) -> Finding:
    """Judge the rules; ``pressure`` is the share of the last minute, %, that programs waited."""
    swap = sizes_mb.get("SwapTotal", 0.0)
    used = swap - sizes_mb.get("SwapFree", swap)
    room = sizes_mb.get("CommitLimit", math.inf) - sizes_mb.get("Committed_AS", 0.0)
    told = "not told" if pressure is None else f"{pressure:.0f} %"
    words = (
        f"swap {used:.0f} of {swap:.0f} MB used, pressure {told}, overcommit {overcommit or '?'}"
    )
    option, least = min(limits_mb.items(), key=lambda one: one[1], default=("", math.inf))
    limited, lifted = f"ulimit {option} is {least:.0f} MB", f"ulimit {option} unlimited"
    fewer = "run fewer jobs at a time with a smaller --resources mem_mb"
    return judged("memory rules", words, [
        warning(
            overcommit == "2" and room < _USUAL_MB,
            f"the system promises no more than it has, and {room:.0f} MB are left to promise",
            "ask for vm.overcommit_memory=0, or end programs that reserve much",
        ),
        warning((pressure or 0.0) > 10, "programs wait for memory", fewer),
        warning(swap > 0 and used > 0.5 * swap, "swap fills up", fewer),
        fault(least < _LEAST_MB, limited, lifted),
        warning(_LEAST_MB <= least < _USUAL_MB, limited, lifted),
    ])  # fmt: skip


def open_files(soft: int | None = None) -> Finding:
    """Tell how many files may be open at a time."""
    if soft is None:
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    count = math.inf if soft == resource.RLIM_INFINITY else soft
    few = warning(count < 1024, "Snakemake and the live page may run out", "ulimit -n 4096")
    return judged("open files", f"{count:g} at a time", [few])


def semaphores() -> Finding:
    """Try a semaphore between processes, as Snakemake may; they are kept in memory."""
    place = "/dev/shm"  # noqa: S108 (where the system has them)
    remedy = f"mount a tmpfs at {place} (docker run --shm-size=64m)"
    try:
        multiprocessing.get_context("fork").Semaphore()  # needs no process that tidies up
        room = os.statvfs(place)
    except OSError as error:
        broken = f"none can be made ({error.strerror or error})"
        return judged("semaphores", "", [fault(True, broken, remedy)])  # noqa: FBT003
    free_mb = room.f_bavail * room.f_frsize / 1e6
    full = fault(free_mb < 1, "it is full", f"remove what is left in {place}")
    return judged("semaphores", f"can be made; {free_mb:.0f} MB free in {place}", [full])


def text(preferred: str | None = None, names: str | None = None) -> Finding:
    """Tell in which encoding text and names of files are written here."""
    preferred = preferred or locale.getpreferredencoding(do_setlocale=False)
    names = names or sys.getfilesystemencoding()
    other = {preferred.lower().replace("_", "-"), names.lower()} - {"utf-8", "utf8"}
    remedy = "export LC_ALL=C.UTF-8"
    broken = "names with other letters than English ones may fail"
    return judged(
        "text", f"{preferred}, file names {names}", [warning(bool(other), broken, remedy)]
    )
