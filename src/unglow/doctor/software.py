"""Checks of what is installed: versions, OpenCV, the loops in C."""

from __future__ import annotations

import importlib
import os
import platform
import re
from importlib import metadata
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from unglow.core import kernels
from unglow.core.errors import InstallationError
from unglow.core.kernels import building
from unglow.core.version import __version__
from unglow.doctor.finding import Finding, fault, judged, warning

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SHOWN = ("snakemake", "numpy", "opencv-python-headless", "zarr", "tifffile", "imagecodecs")
_OPENCV = ("opencv-python", "opencv-contrib-python", "opencv-contrib-python-headless")


def installed() -> dict[str, str]:
    """Return the version of every package that is installed, by its normalised name."""
    found: dict[str, str] = {}
    for one in metadata.distributions():
        # of a name that is there twice, the first counts for imports
        found.setdefault(canonicalize_name(one.name), one.version)
    return found


def versions(required: Iterable[str], present: Mapping[str, str]) -> Finding:
    """Compare packages with what unglow asks for; ``required`` as in its metadata."""
    wrong = {}
    for text in required:
        one = Requirement(text)
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            continue
        version = present.get(canonicalize_name(one.name))
        if version is None or not one.specifier.contains(version, prereleases=True):
            wrong[f"{one.name}{one.specifier}"] = f"{one.name} is {version or 'missing'}"
    shown = [f"{name} {present[name]}" for name in _SHOWN if name in present]
    words = ", ".join((f"unglow {__version__}", f"Python {platform.python_version()}", *shown))
    asked = " ".join(f"'{name}'" for name in wrong)
    told = ", ".join(wrong.values())
    remedy = f"pip install {asked}"
    return judged("versions", words, [fault(bool(wrong), f"not as asked for: {told}", remedy)])


def opencv() -> Finding:
    """Report which OpenCV is loaded, and whether another package has overwritten it."""
    others = [name for name in _OPENCV if name in installed()]
    remedy = (
        f"pip uninstall --yes {' '.join((*others, 'opencv-python-headless'))} && "
        "pip install opencv-python-headless"
    )
    try:
        cv2: Any = importlib.import_module("cv2")
    except ImportError as error:
        broken = f"it cannot be loaded ({error})"
        return judged("OpenCV", "", [fault(True, broken, remedy)])  # noqa: FBT003
    return judge_opencv(cv2.__version__, cv2.getBuildInformation(), others, remedy)


def judge_opencv(version: str, build: str, others: Sequence[str], remedy: str) -> Finding:
    """Judge a build by what it says of its windows, and by packages in the same place."""
    found = re.search(r"^\s*GUI:[ \t]*(.*)$", build, re.MULTILINE)
    gui = found[1].strip() if found else "NONE"
    words = f"{version}, {'headless' if gui == 'NONE' else f'with windows ({gui})'}"
    twice = f"{' and '.join(others)} overwrites opencv-python-headless"
    return judged("OpenCV", words, [warning(bool(others), twice, remedy)])


def loops() -> Finding:
    """Tell which build of the loops in C is loaded; there are no others in their place."""
    path = kernels.library_path()
    try:
        for name in kernels.prototypes():
            kernels.kernel(name)
    except InstallationError as error:
        what, _, remedy = str(error).rpartition("; ")
        return judged("loops in C", "", [fault(True, what, remedy)])  # noqa: FBT003
    flags = building.levels(platform.machine()).get(kernels.level(), ())
    words = f"{len(kernels.prototypes())} loaded from {path.name}, {' '.join(flags)}"
    chosen = warning(
        kernels.CHOICE in os.environ, f"{kernels.CHOICE} names them", f"unset {kernels.CHOICE}"
    )
    return judged("loops in C", words, [chosen])
