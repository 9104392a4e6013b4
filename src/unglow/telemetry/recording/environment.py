"""The environment of a run: user, machine, versions, and everything that last digits depend on.

With the same builds and processors that can do the same, results are the same bytes. Elsewhere the
last digits may differ: linear algebra is summed in the order that suits the processor.
"""

from __future__ import annotations

import contextlib
import ctypes
import getpass
import hashlib
import os
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow import __version__
from unglow.core.process import cpuinfo

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMPILED = ("imagecodecs", "numcodecs", "numpy", "opencv-python-headless", "sep")
_FEATURES = ("sse4_2", "avx", "avx2", "fma", "avx512f", "avx512bw", "asimd", "sve")
"""Of what processors can do: that by which libraries choose their loops."""
_CHOOSING = (
    *("MKL_CBWR", "NPY_DISABLE_CPU_FEATURES", "NUMBA_CPU_FEATURES", "NUMBA_CPU_NAME"),
    *("OPENBLAS_CORETYPE", "OPENCV_CPU_DISABLE"),
)
"""Variables by which a user chooses other loops."""
_COMPARED = {"unglow": "unglow", "processor": "processor", "blas": "linear algebra",
             "variables": "variables"}  # fmt: skip
_LIBRARY = re.compile(r"\.(?:so|pyd|dylib)(?:\.|$)")


def computing() -> dict[str, Any]:
    """Return what bytes may depend on here, apart from the versions of packages.

    Returns
    -------
    ``processor`` (name and features), ``blas`` (name, version and the kernels that it has chosen),
    ``builds`` (a digest of the compiled files of each package; None where none are listed), and
    ``variables`` that choose among loops.
    """
    return {
        "processor": _processor(),
        "blas": _blas(),
        "builds": {name: _build(name) for name in _COMPILED},
        "variables": {name: os.environ[name] for name in _CHOOSING if name in os.environ},
    }


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return in words what makes the bytes of two runs differ, if anything does.

    Parameters
    ----------
    one, other
        Heads of two runs, or `surroundings()` of this machine. What one of them has not recorded
        is not compared.
    """
    found = []
    for key, words in _COMPARED.items():
        a, b = one.get(key), other.get(key)
        if key in one and key in other and _decisive(a) != _decisive(b):
            found.append(f"{words} ({_words(a)}; {_words(b)})")
    versions = _list_changes(one, other, "packages")
    builds = [name for name in _list_changes(one, other, "builds") if name not in versions]
    found += [f"{name} ({one['packages'][name]}; {other['packages'][name]})" for name in versions]
    found += [f"build of {name}" for name in builds]
    return found


def _decisive(value: Any) -> Any:
    """Return what counts of a recorded value: of a processor, what it can do."""
    return value.get("features", value) if isinstance(value, dict) else value


def sentence(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """Return what differs of what computed two results, as a sentence; None if nothing does."""
    found = differences(one, other)
    if not found:
        return None
    return f"Last digits may differ, since other things computed them: {', '.join(found)}."


def _words(value: Any) -> str:
    """Return a recorded value in one phrase."""
    if isinstance(value, dict):
        return " ".join(_words(part) for part in value.values() if part) or "none"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _list_changes(one: Mapping[str, Any], other: Mapping[str, Any], key: str) -> list[str]:
    """Return the packages of which both records have a version, and not the same."""
    a, b = one.get(key), other.get(key)
    if not isinstance(a, dict) or not isinstance(b, dict):
        return []
    return [n for n in sorted(a.keys() & b.keys()) if a[n] and b[n] and a[n] != b[n]]


def _processor() -> dict[str, Any]:
    """Return name and features of the processor; those of the first one where there are several."""
    info = cpuinfo()
    able = {*info.get("flags", "").split(), *info.get("Features", "").split()}
    return {
        "name": info.get("model name") or platform.processor() or platform.machine(),
        "features": [name for name in _FEATURES if name in able],
    }


def _blas() -> dict[str, Any]:
    """Return what linear algebra is computed with, and for which processor it has its kernels."""
    import numpy as np  # noqa: PLC0415 - not while a workflow is parsed

    known: Any = {}
    with contextlib.suppress(TypeError, KeyError):  # an older NumPy prints only
        known = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "name": known.get("name"),
        "version": known.get("version"),
        "kernels": _openblas_kernels(Path(np.__file__).parent),
    }


def _openblas_kernels(numpy: Path) -> str | None:
    """Ask the OpenBLAS that NumPy brings for the kind of processor that it works for."""
    for file in sorted(numpy.parent.glob("numpy.libs/*openblas*")):
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(str(file))
            for name in ("scipy_openblas_get_corename64_", "openblas_get_corename64_",
                         "openblas_get_corename"):  # fmt: skip
                if hasattr(library, name):
                    ask = getattr(library, name)
                    ask.restype = ctypes.c_char_p
                    return str(ask().decode())
    return None


def _build(name: str) -> str | None:
    """Return a digest of the compiled files of a package, as its list of files has them."""
    try:
        files = metadata.distribution(name).files or []
    except metadata.PackageNotFoundError:
        return None
    listed = sorted(
        f"{file} {file.hash.value}" for file in files if file.hash and _LIBRARY.search(file.name)
    )
    return hashlib.sha256("\n".join(listed).encode()).hexdigest()[:16] if listed else None


_PACKAGES = (
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
        "packages": {name: _version(name) for name in _PACKAGES},
        **computing(),
        "machine_mb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6),
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
