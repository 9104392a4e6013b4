"""File systems that never answer, as those of a server that is gone, or that are soon full."""

from __future__ import annotations

import ctypes
import os
import subprocess
from contextlib import contextmanager

import pytest

_DETACH = 2  # <sys/mount.h>


@contextmanager
def small(place, size):
    """Mount one in memory at a directory. Skips where that fails."""
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing may be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@contextmanager
def hanging(place):
    """Mount one at a directory: nobody reads what the kernel asks of it. Skips where that fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"no disk can be made to hang here: {error.strerror}")
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    target = str(place).encode()
    try:
        if libc.mount(b"gone", target, b"fuse.gone", 0, options):
            reason = os.strerror(ctypes.get_errno())
            pytest.skip(f"no disk can be made to hang here: {reason}")
        try:
            yield place
        finally:
            libc.umount2(target, _DETACH)
    finally:
        os.close(device)  # whoever waits learns that it is gone
