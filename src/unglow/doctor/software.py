"""Checks of what is installed: versions, the workflow, builds of the libraries that compute."""

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
from unglow.telemetry.recording.computing import computing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_SHOWN = ("snakemake", "numpy", "opencv-python-headless", "zarr", "tifffile", "imagecodecs")
_OPENCV = ("opencv-python", "opencv-contrib-python", "opencv-contrib-python-headless")
_NEEDED_CODECS = ("LZW", "ZLIB", "PACKBITS", "ZSTD", "JPEG8", "JPEG2K")
_CODECS = (*_NEEDED_CODECS, "LZMA", "JPEGXR", "JPEGXL", "LERC", "WEBP")
# What OpenBLAS calls its kernels for processors of before 2010; newer ones are faster with others.
_OLD_KERNELS = ("Prescott", "Core2", "Katmai", "Banias", "Generic", "generic")
_VERSION = re.compile(r"^VERSION = \"(.+)\"$", re.MULTILINE)


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


def workflow(checkout: Path | None) -> Finding:
    """Compare the installed package with the workflow that the last run, or a new one, is of."""
    if checkout is None:
        return judged("workflow", "no checkout is known here yet: no run has been recorded")
    try:
        text = (checkout / "rules" / "common.smk").read_text(encoding="utf-8")
    except OSError as error:
        gone = f"the workflow of the last run cannot be read in {checkout} ({error.strerror})"
        remedy = "name another with snakemake -s"
        return judged("workflow", "", [warning(True, gone, remedy)])  # noqa: FBT003
    version = found[1] if (found := _VERSION.search(text)) else "of an unknown version"
    other = fault(
        version != __version__,
        f"the installed package is {__version__}: they refuse to work together",
        f"pip install '{checkout}'",
    )
    return judged("workflow", f"{version} in {checkout}", [other])


def opencv_build() -> Finding:
    """Tell which OpenCV is loaded, and whether another package has written over it."""
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
    return opencv(cv2.__version__, cv2.getBuildInformation(), others, cv2.getNumThreads(), remedy)


def opencv(version: str, build: str, others: Sequence[str], threads: int, remedy: str) -> Finding:
    """Judge a build by what it says of itself, and by packages that write to the same place."""
    gui = _after(build, "GUI") or "NONE"
    words = (
        f"{version}, {'headless' if gui == 'NONE' else f'with windows ({gui})'}, {threads} threads "
        f"(jobs set 1), baseline {_after(build, 'Baseline')}, dispatched "
        f"{_after(build, 'Dispatched code generation')}"
    )
    twice = f"{' and '.join(others)} overwrites opencv-python-headless"
    return judged("OpenCV", words, [warning(bool(others), twice, remedy)])


def _after(text: str, key: str) -> str:
    found = re.search(rf"^\s*{key}:[ \t]*(.*)$", text, re.MULTILINE)
    return found[1].strip() if found else ""


def linear_algebra(told: Mapping[str, Any] | None = None) -> Finding:
    """Tell what computes linear algebra, and whether it suits the processor."""
    told = computing() if told is None else told
    blas, features = told["blas"], told["processor"]["features"]
    name, chosen = blas["name"] or "unknown", blas["kernels"]
    words = f"{name} {blas['version'] or ''}, kernels {chosen or 'not told'}; {' '.join(features)}"
    variables = [f"{key}={value}" for key, value in told["variables"].items()]
    old = chosen in _OLD_KERNELS and "avx2" in features
    plain = name in ("blas", "cblas", "refblas", "netlib")
    return judged("linear algebra", words, [
        warning(old, "the processor can do more", "unset OPENBLAS_CORETYPE, or update numpy"),
        warning(plain, "that is slow", "pip install --force-reinstall numpy (it brings OpenBLAS)"),
        warning(
            bool(variables),
            f"{' '.join(variables)} chooses other loops: last digits differ from other machines",
            f"unset {' '.join(told['variables'])}",
        ),
    ])  # fmt: skip


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


def codecs(available: Mapping[str, bool] | None = None) -> Finding:
    """Tell which codecs of TIFF files can be read."""
    if available is None:
        library: Any = importlib.import_module("imagecodecs")
        available = {name: bool(getattr(library, name).available) for name in _CODECS}
    missing = [name for name in available if not available[name]]
    needed = [name for name in missing if name in _NEEDED_CODECS]
    remedy = "pip install --force-reinstall imagecodecs"
    without = f"without {', '.join(missing)}"
    return judged("codecs", ", ".join(name for name in available if available[name]), [
        fault(bool(needed), without, remedy),
        warning(bool(missing) and not needed, without, remedy),
    ])  # fmt: skip
