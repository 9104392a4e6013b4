"""Ways to damage archives of arrays (``.npz``) that stay archives."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]
    Edit = Callable[[Arrays, np.random.Generator], Arrays]

_NUMBERS = (0, 1, -1, np.nan, np.inf, 1e300, 2**31, 2**62, 0.5)
_DTYPES = ("uint8", "int64", "float32", "float64", "complex128", "bool", "<U8", ">f8", "S3")
# Bytes of a bomb, which are a thousandth in the file.
_BOMB = 400_000_000


def values(arrays: Arrays, rng: np.random.Generator) -> Arrays:
    """Give some numbers others."""
    name = _name(arrays, rng)
    flat = arrays[name].copy()
    if flat.size and flat.dtype.kind in "iuf":
        with np.errstate(all="ignore"):
            at = rng.integers(0, flat.size, int(rng.integers(1, 4)))
            flat.ravel()[at] = np.array(rng.choice(_NUMBERS)).astype(flat.dtype)
        return arrays | {name: flat}
    return arrays | {name: np.array(rng.choice(_NUMBERS))}


def types(arrays: Arrays, rng: np.random.Generator) -> Arrays:
    """Give an array another type or shape."""
    name = _name(arrays, rng)
    one = arrays[name]
    if rng.random() < 0.5:
        dtype = np.dtype(str(rng.choice(_DTYPES)))
        # text, which is no number
        made = np.zeros(one.shape, dtype) if one.dtype.kind == "U" else one
        with np.errstate(all="ignore"):
            return arrays | {name: made.astype(dtype)}
    shapes = (one.ravel(), one[None], one[..., None], one.ravel()[:1], one.ravel()[:0],
              np.repeat(one, 2, 0) if one.ndim else one[None, None])  # fmt: skip
    return arrays | {name: shapes[int(rng.integers(0, len(shapes)))]}


def names(arrays: Arrays, rng: np.random.Generator) -> Arrays:
    """Drop or rename an array, or exchange two."""
    first, second = _name(arrays, rng), _name(arrays, rng)
    way = int(rng.integers(0, 3))
    if way == 0:
        return {name: one for name, one in arrays.items() if name != first}
    if way == 1:
        return {(f"{name}x" if name == first else name): one for name, one in arrays.items()}
    return arrays | {first: arrays[second], second: arrays[first]}


EDITS: dict[str, Edit] = {"values": values, "types": types, "keys": names}


def edited_archive(data: bytes, damage: str, rng: np.random.Generator) -> bytes:
    """Return an archive after one of `EDITS`, or one whose arrays cannot be what they say."""
    with np.load(io.BytesIO(data)) as archive:
        arrays = {name: archive[name] for name in archive.files} or {"none": np.zeros(2)}
    if damage in EDITS:
        entries = {name: _npy(one) for name, one in EDITS[damage](arrays, rng).items()}
    else:
        entries = {name: _npy(one) for name, one in arrays.items()}
        entries[_name(arrays, rng)] = _extreme(rng)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        for name, content in entries.items():
            made.writestr(f"{name}.npy", content)
    return stream.getvalue()


def _npy(array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def _extreme(rng: np.random.Generator) -> bytes:
    """Return an array of many px that compresses to little, of objects, or that lies."""
    way = int(rng.integers(0, 5))
    if way == 0:
        return _npy(np.zeros(_BOMB // 8))
    if way == 1:
        return _npy(np.array([{}, []], object))
    shape = {2: "(2, 1000000, 1000000)", 3: "(9223372036854775807,)", 4: "(2, -3, 4)"}[way]
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(64)


def _name(arrays: Arrays, rng: np.random.Generator) -> str:
    return sorted(arrays)[int(rng.integers(0, len(arrays)))]
