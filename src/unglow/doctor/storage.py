"""Checks of file systems that are really tried: space, locks, clock.

What is tried is written to a hidden directory of its own, which is removed at once.
"""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unglow.core.files import remedy as remedy_of
from unglow.core.machine import Mount, existing, mount_of, mounts
from unglow.doctor.installation import Finding, fault, judged, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def locking(place: Place, excludes: dict[str, bool | None]) -> Finding:
    """Judge whether locks keep another process out; None where there are none."""
    states = {True: "works", False: "lets a second process in", None: "is not there"}
    words = ", ".join(f"{kind} {states[works]}" for kind, works in excludes.items())
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
