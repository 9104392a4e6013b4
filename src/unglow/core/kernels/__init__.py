"""The loops over single pixels: C that is compiled when unglow is installed, called from here.

`kernels.h` says what each loop does and takes. Its prototypes are all that there is to know about
how to call it, so they are read from there; `unglow.core.kernels.building` compiles the library. On
x86-64 there are two builds, which give the same bits: one for every processor, and a faster one for
those of the level x86-64-v3.
"""

from __future__ import annotations

import ctypes
import math
import operator
import os
import platform
import re
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InstallationError
from unglow.core.kernels import building
from unglow.core.process import cpuinfo

if TYPE_CHECKING:
    from collections.abc import Callable

CHOICE = "UNGLOW_KERNELS"
"""Variable of the environment that names another library: one of another level, or with checks."""
PIXEL_TYPES = {"u1": 0, "u2": 1, "i2": 2, "f4": 3, "f8": 4}
"""Numbers of the types that loops take behind a ``void *``, by kind and size."""

_V3 = {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}
_MACH_O = b"\xcf\xfa\xed\xfe"
_PROTOTYPE = re.compile(r"/\* Shapes: ([^.]*)\. \*/\nvoid (\w+)\(([^)]*)\);")
_PARAMETER = re.compile(r"(const )?(\w+) (\*?)(\w+)")
_NUMBERS = {
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
_DTYPES: dict[str, np.dtype[Any] | None] = {
    "uint8_t": np.dtype("u1"),
    "int32_t": np.dtype("i4"),
    "int64_t": np.dtype("i8"),
    "float": np.dtype("f4"),
    "double": np.dtype("f8"),
    "complex64": np.dtype("c8"),
    "void": None,
}


@dataclass(frozen=True, slots=True)
class _Pointer:
    """What an array has to be whose numbers a loop finds by a pointer to the first of them."""

    name: str
    dtype: np.dtype[Any] | None
    written: bool
    rows_apart: bool

    def from_param(self, array: Any) -> Any:
        """Return where the numbers are, as ctypes asks before each call."""
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{self.name} has to be an array, not {type(array).__name__}")
        if self.dtype is not None and array.dtype != self.dtype:
            raise TypeError(f"{self.name} has to be {self.dtype}, not {array.dtype}")
        first: Any = array[0] if self.rows_apart and len(array) else array
        if not first.flags.c_contiguous:
            raise TypeError(f"the numbers of {self.name} have to be neighbours in memory")
        if self.written and not array.flags.writeable:
            raise TypeError(f"{self.name} cannot be written")
        try:  # a fraction of the time
            return ctypes.byref(ctypes.c_char.from_buffer(first))
        except (TypeError, ValueError):  # it cannot be written, or is empty
            return ctypes.c_void_p(array.ctypes.data)


def pixel_type(dtype: np.dtype[Any]) -> int:
    """Return the number of a type of pixels, for a loop that takes several."""
    return PIXEL_TYPES[f"{dtype.kind}{dtype.itemsize}"]


def select_type(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return pixels without gaps in one of `PIXEL_TYPES`: float64 where theirs is another."""
    kind = pixels.dtype.newbyteorder("=")
    known = f"{kind.kind}{kind.itemsize}" in PIXEL_TYPES
    return np.ascontiguousarray(pixels, kind if known else np.float64)


def lay_rows(image: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], int]:
    """Return an image whose rows have no gaps, and how many px a row starts after the one above.

    It is copied only if its rows have gaps.
    """
    rows = image if image.strides[1] == image.itemsize else np.ascontiguousarray(image)
    return rows, rows.strides[0] // rows.itemsize


@cache
def kernel(name: str) -> Callable[..., None]:
    """Return a loop of ``kernels.h``; it takes arrays and numbers, and releases the lock.

    At each call it raises `ctypes.ArgumentError` for an array of another dtype or layout, and
    ValueError for one that is smaller than the numbers say, or of another stride or type.
    """
    function = getattr(_library(), name)
    function.argtypes, function.restype = prototypes()[name], None
    names, shapes = _declarations()[name]
    arrays = [(at, one) for at, one in enumerate(prototypes()[name]) if isinstance(one, _Pointer)]
    wanted = ", ".join(shapes[one.name] for _, one in arrays)
    # of our own header
    find_shapes = eval(f"lambda {', '.join(names)}: ({wanted},)")  # noqa: S307
    strides = {at: names.index(f"{one.name}_stride") for at, one in arrays if one.rows_apart}
    kind = next((at for at, parameter in enumerate(names) if parameter.endswith("type")), 0)

    def call(*given: Any) -> None:
        for (at, one), shape in zip(arrays, find_shapes(*given), strict=True):
            array = given[at]
            if not isinstance(array, np.ndarray):
                continue  # ctypes refuses it
            if not _fits(array, shape, given[strides[at]] if at in strides else None):
                about = f"{one.name} of {name}: {array.shape}, but has to be {shape}"
                raise ValueError(f"{about} (strides: {array.strides})")
            is_known = array.dtype.isnative and array.dtype.str[1:] in PIXEL_TYPES
            if one.dtype is None and not (is_known and pixel_type(array.dtype) == given[kind]):
                raise ValueError(f"{one.name} of {name}: {array.dtype} is not type {given[kind]}")
        function(*given)

    return call


def _fits(array: np.ndarray[Any, Any], shape: tuple[int, ...], stride: int | None) -> bool:
    """Return whether an array has a shape at least; rows are ``stride`` apart, or nothing is."""
    if stride is None:
        return 0 <= math.prod(shape) <= array.size
    if array.ndim != len(shape) or any(map(operator.lt, array.shape, shape)):
        return False
    return shape[0] < 2 or array.strides[0] == stride * array.itemsize


@cache
def prototypes() -> dict[str, list[Any]]:
    """Return what each loop takes, for ctypes."""
    return {name: _parameters(listed) for _, name, listed in _PROTOTYPE.findall(_header())}


@cache
def _declarations() -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return the names of what each loop takes, and the least shapes of its arrays."""
    return {
        name: (
            [parameter for *_, parameter in _PARAMETER.findall(listed)],
            dict(one.split(" ", 1) for one in shapes.replace("\n *", "").split("; ")),
        )
        for shapes, name, listed in _PROTOTYPE.findall(_header())
    }


def _header() -> str:
    return (building.SOURCES / "kernels.h").read_text(encoding="utf-8")


def _parameters(listed: str) -> list[Any]:
    found = _PARAMETER.findall(listed)
    names = {name for *_, name in found}
    return [
        _Pointer(name, _DTYPES[kind], not const, f"{name}_stride" in names)
        if star
        else _NUMBERS[kind]
        for const, kind, star, name in found
    ]


def library_path() -> Path:
    """Return which build is used: the one named by `CHOICE`, or the best for this processor."""
    chosen = os.environ.get(CHOICE)
    return Path(chosen) if chosen else building.SOURCES / building.file_name(level())


def level() -> str:
    """Return the level of this processor that a build is for."""
    machine = platform.machine()
    levels = list(building.levels(machine))
    if machine != "x86_64":
        return levels[0]
    return levels[-1] if set(cpuinfo().get("flags", "").split()) >= _V3 else levels[0]


@cache
def _library() -> ctypes.CDLL:
    path = library_path()
    try:
        _check_complete(path)
        library = ctypes.CDLL(str(path))
        said = library.unglow_sources
    except (OSError, AttributeError, struct.error) as error:
        reason = error if path.exists() else "there is no such file"
        raise InstallationError(
            f"{path}, the compiled loops of unglow, cannot be loaded ({reason}); {_remedy()}."
        ) from error
    said.argtypes, said.restype = [], ctypes.c_char_p
    if said() != building.digest().encode():
        raise InstallationError(
            f"{path}, the compiled loops of unglow, were built from other sources than those "
            f"next to them; {_remedy()}."
        )
    return library


def _check_complete(path: Path) -> None:
    """Refuse a file that was cut off: loading it would end the process without a word."""
    with path.open("rb") as stream:
        head = stream.read(64)
    if head[:4] == _MACH_O:  # macOS compares the file with its signature itself
        return
    if head[:4] != b"\x7fELF":
        raise OSError("it is not a library")
    # the table of sections is the end of the file
    (start,), (each, count) = (
        struct.unpack_from("<Q", head, 40),
        struct.unpack_from("<HH", head, 58),
    )
    if path.stat().st_size < start + each * count:
        raise OSError("it is incomplete")


def _remedy() -> str:
    if os.environ.get(CHOICE):
        return f"unset {CHOICE}, or let it name a library that was built from these sources"
    checkout = building.SOURCES.parents[3]
    if (checkout / "src" / "hatch_build.py").exists():
        return f"install unglow again: python -m pip install --editable '{checkout}'"
    return "install unglow again: python -m pip install --force-reinstall --no-deps CLONE"
