"""What a run of the workflow runs on: user, machine, versions and builds of what computes."""

from __future__ import annotations

import getpass
import os
import platform
from importlib import metadata
from typing import Any

from unglow.core.version import __version__
from unglow.telemetry.recording.computing import computing

_COMPUTING = (
    *("imagecodecs", "matplotlib", "numcodecs", "numpy", "opencv-python-headless", "psutil"),
    *("sep", "tifffile", "zarr"),
)


def surroundings() -> dict[str, Any]:
    """Return user, versions and machine, as the head of a run's file has them."""
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
        "packages": {name: _version(name) for name in _COMPUTING},
        **computing(),
        "machine_mb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6),
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
