"""Compiled loops, ready to be called: object code that llvmlite alone loads.

numba compiles the loops of `unglow.kernels.loops` once for a machine, in a process of its own; the
object code is kept in a cache. A job then needs neither numba (0.5 s and 40 MB) nor, once the code
is linked, the pages of the compiler library (up to 160 MB): they are given back at once. So load
what a job needs before it imports other large libraries.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.pages import give_back
from unglow.telemetry import step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

log = logging.getLogger(__name__)

_COUNT = "f4* i i i8* f8* i4* i f4* i i8* i i8* i8* i i8* f8*"
COUNTING = tuple(f"count_pairs-{kind}" for kind in ("u1", "u2", "i2", "f4", "f8"))
"""Kernels that count pixel pairs, one for each type of post."""
SEARCHING = (
    "connect_runs",
    "copy_runs",
    "count_runs",
    "filtered",
    "interpolate",
    "phase_factor",
    "squared_shift",
)
"""Kernels of the search for candidates."""
KERNELS = {
    "catmull_rom": "f4* i i i i i i f8* f8* i i i f8* f8* i i i i i f4* i i i f8*",
    "connect_runs": "f4* i i f4* i4* i4* i",
    "copy_runs": "f4* i i i4* i4* i f4* i",
    "count_runs": "f4* i i f4* i8*",
    "filtered": "f4* i f4* i f4* f4* i i",
    "fit_spline": "f8* f8* f8* i i f8* i f8* f8* f8* f8* i i",
    "interpolate": "f4* i i i8* f4* i i8* f4* i f4* f4*",
    "narrow_product": "c8* c8* c8* c8* f4* i i i i",
    "phase_factor": "f8* f8* i i i f8* f8* i i i i i f4* i i i i f4* i i f8*",
    "squared_shift": "f4* f4* f4* i i",
    **{name: f"{name.split('-')[1]}* {_COUNT}" for name in COUNTING},
}
"""Arguments of each kernel: 64-bit integers (``i``), and pointers to the first of many numbers.

What follows a hyphen is the dtype of its variant.
"""
ABSENT = "unglow_absent_"
"""Begins the names of what the object code refers to and never calls."""
LIBRARY = "libllvmlite"
"""File name of the compiler library, up to its extension."""

_SOURCES = (
    "build.py",
    "components.py",
    "loops.py",
    "places.py",
    "significance.py",
    "splines.py",
)
_lock = threading.Lock()
_loaded: dict[str, Callable[..., None]] = {}
_kept: list[Any] = []  # the code lives as long as its engine


def kernel(name: str) -> Callable[..., None]:
    """Return a kernel of `KERNELS`; calls release the interpreter lock.

    Pointers are passed as `address`. Nothing is checked: the caller has to.
    """
    if name not in _loaded:
        load(name)
    return _loaded[name]


def address(array: NDArray[Any]) -> int:
    """Return where the pixels of an array are, for a kernel; keep the array until it returns."""
    return array.ctypes.data


def load(*names: str) -> None:
    """Load kernels, and compile first those that are not in the cache.

    Parameters
    ----------
    names
        Of `KERNELS`.
    """
    with _lock:
        wanted = [name for name in names if name not in _loaded]
        if not wanted:
            return
        import llvmlite.binding as llvm  # type: ignore[import-untyped] # noqa: PLC0415 (160 MB)

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        files = {name: _file_name(llvm, name) for name in wanted}
        for name, content in _contents(files).items():
            _link(llvm, name, *content)
        give_back(LIBRARY)


def _file_name(llvm: Any, name: str) -> str:
    """Name in the cache: another for other loops, another compiler or another processor."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for source in _SOURCES:
        digest.update((here / source).read_bytes())
    numba = importlib.util.find_spec("numba")  # its version, without importing it
    if numba is not None and numba.origin is not None:
        digest.update(Path(numba.origin).with_name("_version.py").read_bytes())
    parts = (
        KERNELS[name],
        llvm.llvm_version_info,
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    )
    digest.update(repr(parts).encode())
    return f"{name}-{digest.hexdigest()[:24]}.kernel"


def _places() -> Iterator[Path]:
    """Directories of the cache, the preferred one first; they may be absent or read-only."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(os.environ["NUMBA_CACHE_DIR"]) / "unglow"
    yield Path(__file__).parent / "__pycache__"
    cache = os.environ.get("XDG_CACHE_HOME")
    try:
        yield (Path(cache) if cache else Path.home() / ".cache") / "unglow"
    except RuntimeError:  # no home directory
        return


def _contents(files: dict[str, str]) -> dict[str, tuple[dict[str, Any], bytes]]:
    """Header and object code of each kernel, from the cache or newly compiled."""
    found = {}
    for name, file in files.items():
        for directory in _places():
            content = _read(directory / file)
            if content is not None:
                found[name] = content
                break
    missing = {name: file for name, file in files.items() if name not in found}
    if not missing:
        return found
    place = next((p for p in _places() if _writable(p)), None)
    if place is not None:
        return found | _compiled(place, missing)
    with tempfile.TemporaryDirectory(prefix="unglow_") as temporary:
        return found | _compiled(Path(temporary), missing)


@step("compiling, once per machine")
def _compiled(place: Path, files: dict[str, str]) -> dict[str, tuple[dict[str, Any], bytes]]:
    """Compile kernels into a directory and read them."""
    log.info("compiling %s", ", ".join(files))
    sources = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sources)),
        "NUMBA_DISABLE_JIT": "0",
    }
    command = [sys.executable, "-P", "-m", "unglow.kernels.build", str(place)]
    give_back(LIBRARY)  # the other process has its own
    fault = None
    for name, file in files.items():  # one by one: the compiler does not give its memory back
        try:
            done = subprocess.run(  # noqa: S603 (our own module)
                [*command, f"{name}={file}"],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            fault = str(error)
            break
        if done.returncode:
            fault = done.stderr.strip().rpartition("\n")[2]
            break
    contents = {name: _read(place / file) for name, file in files.items()}
    if fault is not None or None in contents.values():
        log.warning("compiling apart failed (%s); compiling in this process", fault)
        from unglow.kernels import build  # noqa: PLC0415 (imports numba)

        build.write(place, files)
        contents = {name: _read(place / file) for name, file in files.items()}
    return {name: content for name, content in contents.items() if content is not None}


def _read(path: Path) -> tuple[dict[str, Any], bytes] | None:
    """Header and object code of a file; None if it is not there, or not whole."""
    try:
        first, _, code = path.read_bytes().partition(b"\n")
        head: dict[str, Any] = json.loads(first)
        whole = head["sha256"] == hashlib.sha256(code).hexdigest()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (head, code) if whole else None


def _writable(place: Path) -> bool:
    """Whether files can be made in a directory, which is made if need be."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False


def _link(llvm: Any, name: str, head: dict[str, Any], code: bytes) -> None:
    stop = ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value
    for symbol in head["absent"]:
        llvm.add_symbol(symbol, stop)
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    kinds = (
        ctypes.c_void_p if code.endswith("*") else ctypes.c_int64 for code in KERNELS[name].split()
    )
    _kept.append(engine)
    _loaded[name] = ctypes.CFUNCTYPE(None, *kinds)(engine.get_function_address(head["symbol"]))
