"""Checks of file systems that are really tried: room, speed, locks, names, clock.

What is tried is written to a hidden directory of its own, which is removed at once.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unglow.core.errors import InputError
from unglow.core.files import remedy as remedy_of
from unglow.core.machine import existing
from unglow.core.mounts import Mount, mount_of, mounts
from unglow.doctor.finding import Finding, fault, judged, warning
from unglow.jobs.obstacles import refuse_what_snakemake_stumbles_over
from unglow.jobs.resume import locks
from unglow.jobs.resume.running_writers import refuse_if_another

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PIECE, _PIECES, _TRIAL_S = 1 << 23, 8, 1.0
_SMALL_FILES = 5
# Slower than this, MB/s, and later than this for a small file, s, jobs wait for the disk.
_SLOW_MB, _SLOW_S = 30.0, 0.1
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
            yield speed(place, *_streamed(tried / "stream"), _small_file_s(tried))
            yield locking(
                place, {kind: _excludes(tried / kind, kind) for kind in ("flock", "lockf")}
            )
            yield names(place, tried)
            yield clock(place, _skew_s(tried))
    except OSError as error:
        full = error.errno == errno.ENOSPC
        what = f"cannot be written ({error.strerror})"
        helps = "free space" if full else remedy_of(error, place.path)
        yield judged(f"disk of {place.use}", str(place.path), [fault(True, what, helps)])  # noqa: FBT003


def room(place: Place, free_mb: float, free_files: int | None) -> Finding:
    """Judge the kind of file system and the room on it, MB and number of files (None: no limit)."""
    mount = place.mount
    kind = "an unknown file system" if mount is None else f"{mount.kind} on {mount.source}"
    away = "" if mount is None else (", remote" if mount.remote else ", local")
    memory = mount is not None and mount.kind in ("tmpfs", "ramfs")
    words = f"{place.path}: {kind}{away}, {free_mb / 1e3:.1f} GB free"
    helps = "free space, or work elsewhere"
    return judged(f"disk of {place.use}", words, [
        fault(free_mb < 500, "too little for any run", helps),
        warning(500 <= free_mb < 5000, "little (`unglow preflight` says what a run takes)", helps),
        warning(
            free_files is not None and free_files < 10_000,
            f"only {free_files} more files fit",
            "remove small files, or ask for more inodes",
        ),
        warning(memory, "what is written there takes memory", "set TMPDIR, or work elsewhere"),
    ])  # fmt: skip


def speed(place: Place, written_mb: float, read_mb: float, small_s: float) -> Finding:
    """Judge how fast one file was written (with fsync) and read back, MB/s, and a small one, s."""
    words = (
        f"writes {written_mb:.0f} MB/s with fsync, reads {read_mb:.0f} MB/s (a file of up to "
        f"{_PIECES * _PIECE / 1e6:.0f} MB, now); a small file takes {1e3 * small_s:.1f} ms"
    )
    helps = "work on a faster or less busy disk, or run fewer jobs at a time with --cores"
    return judged(f"speed of {place.use}", words, [
        warning(written_mb < _SLOW_MB or read_mb < _SLOW_MB, "jobs will wait for it", helps),
        warning(small_s > _SLOW_S, "telemetry and small files will hold jobs up", helps),
    ])  # fmt: skip


def _streamed(path: Path) -> tuple[float, float]:
    """Return how fast a new file is written and read, MB/s."""
    block, written = os.urandom(_PIECE), 0
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    path.unlink()  # so that nothing is left of it, whatever happens
    try:
        begun = time.monotonic()
        while written < _PIECES * _PIECE and time.monotonic() - begun < _TRIAL_S:
            written += os.write(descriptor, block)
            os.fsync(descriptor)
        wrote = time.monotonic() - begun
        with contextlib.suppress(OSError, AttributeError):  # have it read from the disk
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        begun, read = time.monotonic(), 0
        while time.monotonic() - begun < _TRIAL_S and (got := os.pread(descriptor, _PIECE, read)):
            read += len(got)
        return written / 1e6 / wrote, read / 1e6 / max(time.monotonic() - begun, 1e-6)
    finally:
        os.close(descriptor)


def _small_file_s(tried: Path) -> float:
    """Return how long it takes to write, publish and remove a small file, s, in the median."""
    took = []
    for _ in range(_SMALL_FILES):
        begun = time.monotonic()
        with (tried / "small.partial").open("wb") as file:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
        (tried / "small.partial").replace(tried / "small")
        (tried / "small").unlink()
        took.append(time.monotonic() - begun)
    return sorted(took)[_SMALL_FILES // 2]


def locking(place: Place, excludes: dict[str, bool | None]) -> Finding:
    """Judge whether locks keep another process out; None where there are none."""
    told = {True: "works", False: "lets a second process in", None: "is not there"}
    words = ", ".join(f"{kind} {told[works]}" for kind, works in excludes.items())
    options = {"localflock", "local_lock=all", "local_lock=flock", "nolock"}
    one = options & (frozenset() if place.mount is None else place.mount.options)
    return judged(f"locks of {place.use}", words, [
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


def names(place: Place, tried: Path) -> Finding:
    """Try what publishing and numbering rely on: renaming, exclusive creation, names."""
    (tried / "Name").write_bytes(b"1")
    (tried / "new").write_bytes(b"2")
    renamed = _works(lambda: (tried / "new").replace(tried / "Name"))
    works = {
        "renaming": renamed and (tried / "Name").read_bytes() == b"2",
        "exclusive creation": not _works(lambda: (tried / "Name").open("xb").close()),
        "other letters": _works((tried / "\u00b5m \u6837\u672c").touch),
        "hard links": _works(lambda: (tried / "link").hardlink_to(tried / "Name")),
    }
    return named(place, works, distinct=not (tried / "NAME").exists())


def _works(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (OSError, UnicodeError):
        return False
    return True


def named(place: Place, works: dict[str, bool], *, distinct: bool) -> Finding:
    """Judge what works with names; ``distinct``: small and large letters are not the same."""
    words = ", ".join(
        f"{name} {'works' if one else 'does not work'}" for name, one in works.items()
    )
    needed = works["renaming"] and works["exclusive creation"]
    return judged(f"names of {place.use}", words, [
        fault(not needed, "results could not be published safely", "work on another file system"),
        warning(not works["other letters"], "only plain names work", "rename samples"),
        warning(
            not distinct,
            "small and large letters are the same",
            "give samples and dyes names that differ in more than that",
        ),
    ])  # fmt: skip


def clock(place: Place, skew_s: float) -> Finding:
    """Judge by how much, s, times of new files are ahead of the machine's clock."""
    words = f"times of files differ by {abs(skew_s):.1f} s from this machine's clock"
    late = "Snakemake may take files for older or newer than they are"
    helps = "have both machines set their clocks (`chronyc tracking`, `timedatectl`)"
    return judged(f"clock of {place.use}", words, [warning(abs(skew_s) > _SKEW_S, late, helps)])


def _skew_s(tried: Path) -> float:
    before = time.time()
    path = tried / "clock"
    path.write_bytes(b"1")
    changed, after = path.stat().st_mtime, time.time()
    # file systems count in steps of up to a second or two, which are no skew
    return changed - after if changed > after else min(0.0, changed - before)


def snakemake(directory: Path) -> Finding:
    """Tell whether a Snakemake that is gone keeps others out of a directory, and of its cache."""
    left = locks.left_behind(directory)
    try:
        refuse_what_snakemake_stumbles_over()
        cache = None
    except InputError as error:
        cache = str(error)
    try:
        refuse_if_another(directory.resolve())
        busy = ""
    except InputError as error:
        busy = str(error)
    return lock(directory, locked=bool(left), busy=busy, cache=cache)


def lock(directory: Path, *, locked: bool, busy: str, cache: str | None) -> Finding:
    """Judge Snakemake's own lock, and a sentence about its cache (None: all is well)."""
    words = busy or f"{directory.resolve()} is {'locked' if locked else 'free'}"
    return judged("Snakemake", words, [
        warning(
            locked and not busy,
            "by a run that is not at work on this machine",
            "unglow resume (snakemake --unlock, if nothing of it goes on elsewhere)",
        ),
        fault(cache is not None, cache or "", "export XDG_CACHE_HOME=/tmp/cache-$USER"),
    ])  # fmt: skip
