"""Checks of the machine: processors, memory and limits."""

from __future__ import annotations

import math
import multiprocessing
import os
import resource
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


def seen_processors() -> Finding:
    """Report how many processors there are, may be used, and are free."""
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


def granted_memory() -> Finding:
    """Report the memory that machine and container grant, and how much of it is free."""
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


def limits() -> Finding:
    """Report the limits of the shell, and what the system still promises of memory."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    hard = {
        option: resource.getrlimit(which)[1] / 1e6
        for option, which in (("-d", resource.RLIMIT_DATA), ("-v", resource.RLIMIT_AS))
        if resource.getrlimit(which)[1] != resource.RLIM_INFINITY
    }
    sizes = meminfo_mb()
    promised = read("sys/vm/overcommit_memory").strip() == "2"
    left = sizes.get("CommitLimit", math.inf) - sizes.get("Committed_AS", 0.0)
    return judge_limits(
        math.inf if files == resource.RLIM_INFINITY else files,
        hard,
        left if promised else math.inf,
    )


def judge_limits(files: float, limits_mb: Mapping[str, float], left_mb: float) -> Finding:
    """Judge open files, limits of ``ulimit`` by option (MB), and memory left to promise (MB)."""
    option, least = min(limits_mb.items(), key=lambda one: one[1], default=("", math.inf))
    limited, lift = f"ulimit {option} is {least:.0f} MB", f"ulimit {option} unlimited"
    return judged("limits", f"{files:g} open files", [
        warning(files < 1024, "Snakemake and the live page may run out of files", "ulimit -n 4096"),
        fault(least < _LEAST_MB, limited, lift),
        warning(_LEAST_MB <= least < _USUAL_MB, limited, lift),
        warning(
            left_mb < _USUAL_MB,
            f"the system promises no more memory than it has, and {left_mb:.0f} MB are left",
            "ask for vm.overcommit_memory=0, or end programs that reserve much",
        ),
    ])  # fmt: skip


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
