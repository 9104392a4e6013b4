"""Arrays of Zarr stores of other programs (formats 2 and 3), read chunk by chunk.

Metadata are checked before anything is decoded: pixels are plain numbers, and codecs are those of a
list. Files are opened by `unglow.core.files`, and nothing is decoded to more bytes than its chunk
has. Chunks that are not stored read as the fill value; `ZarrArray.find_missing` finds them.

Sources: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html and
https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError
from unglow.core.files import open_file, read_json
from unglow.core.progress import count_transfer
from unglow.io.zarr_codecs import CLASSES, CRC_BYTES, DECODERS, FILTERS, Codecs, strip_checksum

if TYPE_CHECKING:
    import io
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

DOCUMENT = "zarr.json"
"""The metadata of a group or an array of format 3."""
_TYPES_2 = re.compile(r"[<>|](b1|[iuf][248]|[iu]1)")
_TYPES_3 = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)")
_MOST_INNER = 1 << 20
"""Chunks of a shard: its index, 16 bytes for each, is read for every one of them."""
_NOT_STORED = 2**64 - 1


@dataclass(frozen=True, slots=True)
class ZarrArray:
    """An array, from its metadata.

    Attributes
    ----------
    directory
        Where it is.
    shape, chunks
        Of the array, and of what is decoded at once: in shards, their inner chunks.
    dtype
        As the metadata say, byte order of format 2 included.
    shards
        Shape of the files that hold inner chunks; None if each chunk is a file.
    """

    directory: Path
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    shards: tuple[int, ...] | None
    compressors: tuple[str, ...]
    _codecs: Codecs
    _fill: Any
    _key: tuple[str, str]
    _index: dict[str, bool] = field(default_factory=dict)

    def read_part(self, where: Sequence[slice | int]) -> NDArray[Any]:
        """Return a part of one chunk; axes that have a number in ``where`` are excluded.

        Raises
        ------
        ValueError, OSError
            The chunk is damaged, or cannot be read.
        """
        starts = [one.start if isinstance(one, slice) else one for one in where]
        at = tuple(n // c for n, c in zip(starts, self.chunks, strict=True))
        within = tuple(
            slice(one.start - n * c, one.stop - n * c) if isinstance(one, slice) else one - n * c
            for one, n, c in zip(where, at, self.chunks, strict=True)
        )
        stored = self._read_stored(at)
        if stored is None:
            whole = np.broadcast_to(np.asarray(self._fill, self.dtype), self.chunks)
        else:
            whole = self._codecs.decode(stored, self.chunks)
            count_transfer(self.directory, read=len(stored), decoded=whole.nbytes)
        part: NDArray[Any] = whole[within]
        return part

    def find_missing(
        self, leading: Iterable[tuple[int, ...]], files: Iterable[str]
    ) -> NDArray[np.bool_]:
        """Return which chunks along the last two axes are not stored.

        Parameters
        ----------
        leading
            Numbers of chunks along the other axes, N times.
        files
            Paths of the files of the array, from its directory on.

        Returns
        -------
        (N, down, across) bool.

        Raises
        ------
        ValueError, OSError
            The index of a shard is damaged, or cannot be read.
        """
        inner = [1] * len(self.shape) if self.shards is None else self._inner
        places: dict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]] = {}
        for i, one in enumerate(leading):
            both = [divmod(n, k) for n, k in zip(one, inner[:-2], strict=True)]
            places.setdefault(tuple(n for n, _ in both), []).append((i, tuple(n for _, n in both)))
        grid = [-(-n // c) for n, c in zip(self.shape[-2:], self.chunks[-2:], strict=True)]
        stored = np.zeros((sum(map(len, places.values())), *grid), np.bool_)
        for name in files:
            at = self._numbers(name)
            here = places.get(at[:-2]) if at is not None else None
            if at is None or here is None:
                continue
            flags = np.ones(inner, "?")
            if self.shards is not None:  # which inner chunks it stores
                with open_file(self.directory / name) as stream:
                    index = self._read_index(stream)
                flags = (index != _NOT_STORED).any(axis=1).reshape(inner)
            y, x = (n * k for n, k in zip(at[-2:], inner[-2:], strict=True))
            for i, within in here:
                part = stored[i, y : y + inner[-2], x : x + inner[-1]]
                part |= flags[within][: part.shape[0], : part.shape[1]]
        return ~stored

    def _numbers(self, name: str) -> tuple[int, ...] | None:
        """Return the numbers of the chunk or shard in a file; None if the file has no such name."""
        start, separator = self._key
        parts = name.removeprefix(start).split(separator)
        if not name.startswith(start) or len(parts) != len(self.shape):
            return None
        return tuple(int(n) for n in parts) if all(n.isdecimal() for n in parts) else None

    @property
    def _most_stored(self) -> int:
        """Return how many bytes a chunk may have as it is stored: some codecs add a little."""
        return math.prod(self.chunks) * self.dtype.itemsize * 2 + 4096

    def _read_stored(self, at: tuple[int, ...]) -> bytes | None:
        """Return a chunk as it is stored; None if it is not there."""
        inner = [1] * len(at) if self.shards is None else self._inner
        start, separator = self._key
        numbers = [str(n // k) for n, k in zip(at, inner, strict=True)]
        path = self.directory / (start + (separator.join(numbers) or "0"))
        try:
            stream = open_file(path)
        except FileNotFoundError:
            return None
        with stream:
            offset, length = 0, stream.seek(0, os.SEEK_END)
            if self.shards is not None:
                place = np.ravel_multi_index([n % k for n, k in zip(at, inner, strict=True)], inner)
                offset, length = self._read_index(stream)[place].tolist()
                if offset == length == _NOT_STORED:
                    return None
            return _read(stream, offset, length, self._most_stored)

    @property
    def _inner(self) -> list[int]:
        """Return how many chunks a shard has along each axis."""
        return [s // c for s, c in zip(self.shards or self.chunks, self.chunks, strict=True)]

    def _read_index(self, stream: io.BufferedReader) -> NDArray[np.uint64]:
        """Return offset and length of each inner chunk of a shard, (chunks, 2)."""
        size, checked = math.prod(self._inner) * 16, self._index["has_checksum"]
        end = stream.seek(0, os.SEEK_END)
        length = size + CRC_BYTES * checked
        index = _read(stream, 0 if self._index["is_first"] else end - length, length, length)
        if checked:
            index = bytes(strip_checksum(index, size))
        return np.frombuffer(index, "<u8").reshape(-1, 2)


def read_attributes(directory: Path) -> dict[str, Any]:
    """Return the attributes of a group, of either format.

    Raises
    ------
    OSError, ValueError
        There are none, or they cannot be read.
    """
    if (directory / DOCUMENT).is_file():
        return _object(_object(read_json(directory / DOCUMENT)).get("attributes", {}))
    return _object(read_json(directory / ".zattrs"))


def is_group(directory: Path) -> bool:
    """Return whether a directory is a group of a store, of either format."""
    if (directory / DOCUMENT).is_file():
        return _object(read_json(directory / DOCUMENT)).get("node_type") == "group"
    return (directory / ".zgroup").is_file()


def open_array(group: Path, name: str) -> ZarrArray:
    """Return an array of a group from its metadata.

    Raises
    ------
    InputError
        Its pixels are not plain numbers, or a codec is not one of those that are read.
    KeyError, OSError, TypeError, ValueError
        The metadata are damaged.
    """
    parts = PurePosixPath(name).parts
    if not parts or parts[0] == "/" or ".." in parts:
        raise ValueError(f"the path {name!r} of an array leaves its image")
    directory = group.joinpath(*parts)
    if (directory / DOCUMENT).is_file():
        return _parse_format_3(directory, _object(read_json(directory / DOCUMENT)))
    return _parse_format_2(directory, _object(read_json(directory / ".zarray")))


def _parse_format_2(directory: Path, document: dict[str, Any]) -> ZarrArray:
    if document["zarr_format"] != 2:
        raise ValueError(f"Zarr format {document['zarr_format']}")
    dtype = _plain_dtype(directory, document["dtype"], _TYPES_2)
    shape, chunks = _shapes(document["shape"], document["chunks"])
    compressor = document.get("compressor")
    names = [] if compressor is None else [_object(compressor)["id"]]
    filters = [_object(one) for one in document.get("filters") or ()]
    for one in filters:
        _check_codec(directory, one["id"], FILTERS)
        if any(np.dtype(one.get(key, dtype)) != dtype for key in ("dtype", "astype")):
            raise _unknown_codec(directory, f"{one['id']} of another type")
    packing = tuple(_check_codec(directory, name, CLASSES) for name in names)
    back = tuple(reversed(range(len(shape))))
    codecs = Codecs(dtype, (back,) if document["order"] == "F" else (), tuple(filters), packing)
    return ZarrArray(
        directory,
        shape,
        chunks,
        dtype,
        None,
        tuple(CLASSES[name] for name in packing),
        codecs,
        _fill(document.get("fill_value"), dtype),
        ("", str(document.get("dimension_separator", "."))),
    )


def _parse_format_3(directory: Path, document: dict[str, Any]) -> ZarrArray:
    if document["zarr_format"] != 3 or document["node_type"] != "array":
        raise ValueError(f"{directory.name} is not an array of Zarr format 3")
    name = document["data_type"]
    dtype = _plain_dtype(directory, name, _TYPES_3)
    grid = _parse_extension(document["chunk_grid"])
    if grid[0] != "regular":
        raise InputError(f"'{directory}' has chunks of {grid[0]} shape: export it with equal ones.")
    shape, chunks = _shapes(document["shape"], grid[1]["chunk_shape"])
    listed = [_parse_extension(one) for one in document["codecs"]]
    shards, index = None, {}
    if len(listed) == 1 and listed[0][0] == "sharding_indexed":
        sharding, shards = listed[0][1], chunks
        _, chunks = _shapes(document["shape"], sharding["chunk_shape"])
        inner = [s // c for s, c in zip(shards, chunks, strict=True)]
        if any(s % c for s, c in zip(shards, chunks, strict=True)):
            raise ValueError(f"shards of {shards} px do not hold whole chunks of {chunks} px")
        if math.prod(inner) > _MOST_INNER:
            raise InputError(
                f"'{directory}' has {math.prod(inner)} chunks in a shard; at most {_MOST_INNER} "
                "are read: export it with smaller shards."
            )
        listed = [_parse_extension(one) for one in sharding["codecs"]]
        of_index = _codecs(directory, np.dtype("<u8"), 1, sharding["index_codecs"])
        if of_index.packing not in ((), ("crc32c",)) or of_index.dtype != np.dtype("<u8"):
            raise _unknown_codec(directory, "of an index")
        index = {
            "has_checksum": bool(of_index.packing),
            "is_first": sharding.get("index_location") == "start",
        }
    codecs = _codecs(directory, dtype, len(shape), listed)
    return ZarrArray(
        directory,
        shape,
        chunks,
        dtype,
        shards,
        tuple(_find_class(name) for name, _ in listed if name not in ("bytes", "transpose")),
        codecs,
        _fill(document["fill_value"], dtype),
        _keys(_parse_extension(document["chunk_key_encoding"])),
        index,
    )


def _codecs(directory: Path, dtype: np.dtype[Any], ndim: int, listed: Sequence[Any]) -> Codecs:
    """Return codecs of format 3: some that transpose, the one that makes bytes, and packing."""
    orders: list[tuple[int, ...]] = []
    packing: list[str] = []
    endian = None
    for one in listed:
        name, about = one if isinstance(one, tuple) else _parse_extension(one)
        if name == "transpose" and endian is None:
            order = tuple(int(axis) for axis in about["order"])
            if sorted(order) != list(range(ndim)):
                raise ValueError(f"axes in the order {order}")
            orders.append(order)
        elif name == "bytes" and endian is None:
            endian = {"big": "big", "little": "little"}[about.get("endian", "little")]
        else:
            known = CLASSES if name.startswith("numcodecs.") else DECODERS
            packing.append(_check_codec(directory, name.removeprefix("numcodecs."), known))
    if endian is None:
        raise ValueError("no codec makes bytes of numbers")
    if sum(name != "crc32c" for name in packing) > 1:
        raise _unknown_codec(directory, " after ".join(reversed(packing)))
    stored = dtype.newbyteorder(">" if endian == "big" else "<")
    return Codecs(stored, tuple(orders), (), tuple(packing))


def _parse_extension(entry: Any) -> tuple[str, dict[str, Any]]:
    """Return name and configuration of an extension of format 3."""
    if isinstance(entry, str):
        return entry, {}
    return str(entry["name"]), _object(entry.get("configuration") or {})


def _keys(encoding: tuple[str, dict[str, Any]]) -> tuple[str, str]:
    """Return what names of chunks start with, and what separates their numbers."""
    name, about = encoding
    separator = str(about.get("separator", {"default": "/", "v2": "."}[name]))
    if separator not in (".", "/"):
        raise ValueError(f"numbers of chunks separated by {separator!r}")
    return (f"c{separator}" if name == "default" else ""), separator


def _shapes(shape: Any, chunks: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Check the shapes of an array and its chunks."""
    both = tuple(shape), tuple(chunks)
    if any(type(n) is not int or n < 1 for n in (*both[0], *both[1])) or len(shape) != len(chunks):
        raise ValueError(f"an array of shape {shape} in chunks of {chunks}")
    return both


def _plain_dtype(directory: Path, name: Any, plain: re.Pattern[str]) -> np.dtype[Any]:
    """Return a dtype of plain numbers; whatever else may hold objects, and those may hold code."""
    if not isinstance(name, str) or not plain.fullmatch(name):
        raise InputError(
            f"'{directory}' holds {str(name)[:60]}, not plain numbers: export it as grey levels of "
            "8, 16 or 32 bits."
        )
    return np.dtype(name)


def _check_codec(directory: Path, name: Any, known: Mapping[str, Any]) -> str:
    if name not in known:
        raise _unknown_codec(directory, name)
    return str(name)


def _find_class(codec: str) -> str:
    """Return what a header calls a codec of format 3."""
    name = codec.removeprefix("numcodecs.")
    return CLASSES[name] if name != codec else f"{name.capitalize()}Codec"


def _unknown_codec(directory: Path, name: Any) -> InputError:
    known = ", ".join(DECODERS)
    return InputError(
        f"'{directory}' is stored with the codec {str(name)[:60]}, which is not read; export it "
        f"with one of {known}."
    )


def _fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return the fill value."""
    if isinstance(value, str) and value.startswith("0x"):
        return np.frombuffer(bytes.fromhex(value[2:])[::-1], dtype.newbyteorder("<"))[0]
    return dtype.type(float(value) if isinstance(value, str) else value or 0)


def _object(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise TypeError(f"{str(content)[:60]} is not an object")
    return content


def _read(stream: io.BufferedReader, offset: int, length: int, most: int) -> bytes:
    """Read a part of a file that has to be there, and no more than ``most`` bytes."""
    if length > most:
        raise ValueError(f"a chunk is stored in {length} bytes, but has at most {most}")
    end = stream.seek(0, os.SEEK_END)
    if offset < 0 or offset + length > end:
        raise ValueError("bytes are missing at its end")
    stream.seek(offset)
    return stream.read(length)
