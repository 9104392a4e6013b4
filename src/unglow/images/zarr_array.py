"""Arrays of Zarr stores of other programs (formats 2 and 3), in folders or ZIP files.

TensorStore reads their pixels. It would wait for a pipe and read a device without end, so files are
looked at before. What it is given is built here from paths: it takes a text for a URL.
"""

from __future__ import annotations

import itertools
import json
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError
from unglow.core.files import MOST_BYTES, open_file, read_json
from unglow.core.progress import count_transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unglow.core.arrays import Array, Bools

    _Layout = tuple[list[int], Callable[[Sequence[int]], str], dict[str, Any]]

DOCUMENT = "zarr.json"
"""The metadata of a group or an array of format 3."""
_ATTRIBUTES, _GROUP, _ARRAY = ".zattrs", ".zgroup", ".zarray"
# Codecs that put numbers into bytes; any other makes fewer bytes of them, or adds a checksum.
_PLAIN = ("bytes", "transpose")
# Where Blosc says how many bytes there were: a 32-bit number in its header.
_BLOSC_SIZE = slice(4, 8)
# What a stored chunk has at most beyond twice its size, bytes.
_MOST_OVERHEAD = 4096
# What a cache takes besides the chunk in it.
_CACHE_BYTES = 1 << 20
# What TensorStore says of a codec or a type that it does not have.
_NOT_READ = ("is not registered", "not supported", "Unsupported", "is not a supported")


@dataclass(frozen=True, slots=True)
class Node:
    """A group or an array of a store: the folder or ZIP file, and the path in it ('' or 'a/')."""

    store: Path
    inside: str = ""

    @property
    def is_zip(self) -> bool:
        """Whether the store is one file."""
        return not self.store.is_dir()

    def child(self, name: str) -> Node:
        """Return a node below; ValueError if the name leads out of this one."""
        parts = PurePosixPath(name).parts
        if not parts or parts[0] == "/" or ".." in parts:
            raise ValueError(f"the path {name!r} of an array leaves its image")
        return Node(self.store, self.inside + "/".join(parts) + "/")

    def entries(self) -> list[zipfile.ZipInfo]:
        """Return the files of a ZIP file that are below this node."""
        with open_file(self.store) as stream, zipfile.ZipFile(stream) as archive:
            return [one for one in archive.infolist() if one.filename.startswith(self.inside)]

    def names(self) -> set[str]:
        """Return the names of what is directly below."""
        if self.is_zip:
            start = len(self.inside)
            return {one.filename[start:].partition("/")[0] for one in self.entries()} - {""}
        return {path.name for path in (self.store / self.inside).iterdir()}

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a JSON document; None if it is not there. OSError or ValueError if damaged."""
        try:
            path = self.store / self.inside / name
            content = self._read_zipped(name) if self.is_zip else read_json(path)
        except (FileNotFoundError, KeyError):
            return None
        if not isinstance(content, dict):
            raise TypeError(f"{str(content)[:60]} is not an object")
        return content

    def _read_zipped(self, name: str) -> Any:
        with (
            open_file(self.store) as stream,
            zipfile.ZipFile(stream) as archive,
            archive.open(self.inside + name) as document,
        ):
            content = document.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"{name} has more than {MOST_BYTES / 1e6:g} MB")
        return json.loads(content)

    def kvstore(self) -> dict[str, Any]:
        """Return what TensorStore opens."""
        place = str(self.store.absolute())
        if self.is_zip:
            base = {"driver": "file", "path": place}
            return {"driver": "zip", "base": base, "path": self.inside}
        return {"driver": "file", "path": f"{place}/{self.inside}"}


@dataclass(frozen=True, slots=True)
class ZarrArray:
    """An array that is open.

    Attributes
    ----------
    node
        Where it is.
    shape, chunks
        Of the array, and of what is decoded at once: in shards, their inner chunks.
    dtype
        As pixels are read.
    compressors
        Names of codecs.
    """

    node: Node
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    compressors: tuple[str, ...]
    _array: Any
    _layout: _Layout

    def read_part(self, where: Sequence[slice | int]) -> Array:
        """Return a part of one file; axes that have a number in ``where`` are excluded.

        What is not stored is the fill value.

        Raises
        ------
        ValueError
            The chunk is damaged, or cannot be read.
        MemoryError
            Memory ended.
        """
        import tensorstore as ts  # only images in Zarr need it

        view = self._array[tuple(where)]
        out = np.empty(view.shape, self.dtype)
        try:
            self._check_stored(where)
            ts.array(out, copy=False, write=True).write(view).result()
        except ValueError as error:
            if "Blosc error" in str(error):  # the only one that it has, also if memory ended
                bytearray(2 * int(np.prod(self.chunks)) * self.dtype.itemsize)
            raise ValueError(explain(error)) from error
        count_transfer(self.node.store, decoded=out.nbytes)
        return out

    @property
    def file_shape(self) -> tuple[int, ...]:
        """What is in one file: the shape of a shard, or of a chunk."""
        return tuple(self._layout[0])

    def _check_stored(self, where: Sequence[slice | int]) -> None:
        """Refuse a chunk that is or claims to be larger than it can be: TensorStore makes space."""
        import tensorstore as ts  # only images in Zarr need it

        grid, name, sharding = self._layout
        ends = [(at.start, at.stop - 1) if isinstance(at, slice) else (at, at) for at in where]
        kvstore = self.node.kvstore()
        kvstore["path"] += name([first // s for (first, _), s in zip(ends, grid, strict=True)])
        keys = [b""]
        if sharding:
            counts = [s // c for s, c in zip(grid, self.chunks, strict=True)]
            pairs = zip(ends, self.chunks, strict=True)
            places = itertools.product(*(range(f // c, e // c + 1) for (f, e), c in pairs))
            keys = [np.remainder(at, counts).astype(">u4").tobytes() for at in places]
            kvstore = {"driver": "zarr3_sharding_indexed", "base": kvstore, "grid_shape": counts}
            kvstore |= {one: sharding[one] for one in ("index_codecs", "index_location")}
        opened = ts.KvStore.open(kvstore, context=_context(0)).result()
        size = int(np.prod(self.chunks)) * self.dtype.itemsize
        most = 2 * size + _MOST_OVERHEAD
        if len(keys) == 1:  # of a shard that is read at once, no chunk is larger than it
            try:
                found = opened.read(keys[0], byte_range=slice(most, most + 1)).result()
            except ValueError:  # it ends before
                pass
            else:
                if found.state != "value":
                    return
                raise ValueError(f"Chunk: it is stored in more than {most} bytes")
        if "blosc" in self.compressors:
            # a batch with bytes beyond the end of a stored file in a ZIP file never ends (0.1.86)
            batch = ts.Batch() if len(keys) > 1 else None
            heads = [opened.read(key, byte_range=_BLOSC_SIZE, batch=batch) for key in keys]
            if batch is not None:
                batch.submit()
            for head in (one.result() for one in heads):
                claimed = int.from_bytes(head.value, "little")
                if head.state == "value" and claimed != size:
                    raise ValueError(f"Blosc: a chunk of {claimed} bytes, not of {size}")

    def find_missing(self, leading: Sequence[tuple[int, ...]]) -> Bools:
        """Return which chunks along the last two axes are not stored.

        Parameters
        ----------
        leading
            Indices along the other axes, N times.

        Returns
        -------
        (N, down, across) bool.

        Raises
        ------
        ValueError
            The index of a shard is damaged, or cannot be read.
        """
        grid = [-(-n // c) for n, c in zip(self.shape[-2:], self.chunks[-2:], strict=True)]
        missing = np.zeros((len(leading), *grid), np.bool_)
        for one, flags in zip(leading, missing, strict=True):
            self._mark_missing(self._array[one] if one else self._array, flags, 0, 0)
        return missing

    def _mark_missing(self, view: Any, flags: Bools, row: int, col: int) -> None:
        """Mark missing ones among the chunks of ``flags``, the first of which is (row, col)."""
        high, wide = self.chunks[-2:]
        rows, cols = flags.shape
        part = view[
            row * high : min((row + rows) * high, self.shape[-2]),
            col * wide : min((col + cols) * wide, self.shape[-1]),
        ]
        found = part.storage_statistics(query_not_stored=True, query_fully_stored=True).result()
        if found.not_stored:
            flags[:] = True
        elif not found.fully_stored:
            if rows >= cols:
                half = rows // 2
                self._mark_missing(view, flags[:half], row, col)
                self._mark_missing(view, flags[half:], row + half, col)
            else:
                half = cols // 2
                self._mark_missing(view, flags[:, :half], row, col)
                self._mark_missing(view, flags[:, half:], row, col + half)


def read_attributes(group: Node) -> dict[str, Any]:
    """Return the attributes of a group, of either format.

    Raises
    ------
    OSError, TypeError, ValueError
        There are none, or they cannot be read.
    """
    document = group.read(DOCUMENT)
    found = group.read(_ATTRIBUTES) if document is None else document.get("attributes", {})
    if not isinstance(found, dict):
        raise TypeError("it has no attributes")
    return found


def is_group(node: Node) -> bool:
    """Return whether a node is a group of a store, of either format."""
    document = node.read(DOCUMENT)
    if document is None:
        return node.read(_GROUP) is not None
    return document.get("node_type") == "group"


def open_array(node: Node, *, kept_px: float = np.inf, fills: bool = True) -> ZarrArray:
    """Open an array; chunks of more than ``kept_px`` are kept until another one is read.

    Unless it ``fills``, what is not stored is damage.

    Raises
    ------
    InputError
        Its pixels are not plain numbers, or a codec is not one of those that are read.
    OSError, TypeError, ValueError
        The metadata are damaged.
    """
    driver = "zarr3"
    if node.read(DOCUMENT) is None:
        driver = "zarr"
        node.read(_ARRAY)  # refuses one that is too large
    spec = {"driver": driver, "kvstore": node.kvstore(), "recheck_cached_data": False}
    spec["fill_missing_data_reads"] = fills
    try:
        array = _open(spec, 0)
        chunks = array.chunk_layout.read_chunk.shape
        if np.prod(chunks[-2:], dtype=float) > kept_px:
            one = int(np.prod(chunks)) * array.dtype.numpy_dtype.itemsize
            array = _open(spec, one + _CACHE_BYTES)
    except ValueError as error:
        cause = explain(error)
        if any(sign in cause for sign in _NOT_READ):
            raise InputError(
                f"'{node.store}' is stored in a way that is not read ({cause}): export it as plain "
                "numbers with Blosc, Zstandard, gzip or no codec."
            ) from error
        raise ValueError(cause) from error
    dtype = array.dtype.numpy_dtype
    if dtype.kind not in "buif":
        raise InputError(
            f"'{node.store}' holds {array.dtype.name}, not plain numbers: export it as grey levels "
            "of 8, 16 or 32 bits."
        )
    compressors = _list_compressors(array)
    if "'blosc'" in str(array.codec.to_json()) and {*compressors} - {"crc32c"} != {"blosc"}:
        raise InputError(
            f"'{node.store}' is stored with Blosc and other codecs: export it with Blosc alone."
        )
    return ZarrArray(
        *(node, tuple(array.shape), tuple(chunks), dtype, compressors),
        *(array, _read_layout(array)),
    )


def _open(spec: dict[str, Any], kept_bytes: int) -> Any:
    import tensorstore as ts  # only images in Zarr need it

    return ts.open(spec, context=_context(kept_bytes), open=True, read=True).result()


@cache
def _context(kept_bytes: int) -> Any:
    """Return limits of threads and of what is kept: readers wait for one thread of each kind."""
    import tensorstore as ts  # only images in Zarr need it

    one = {"limit": 1}
    return ts.Context(
        {
            "data_copy_concurrency": one,
            "file_io_concurrency": one,
            "cache_pool": {"total_bytes_limit": kept_bytes},
        }
    )


def _read_layout(array: Any) -> _Layout:
    """Return the shape of what a file holds, the function that names it, and how it is sharded."""
    metadata = array.spec().to_json()["metadata"]
    if "codecs" not in metadata:  # format 2
        separator = metadata["dimension_separator"]
        return metadata["chunks"], lambda at: separator.join(map(str, at)), {}
    first, encoding = metadata["codecs"][0], metadata["chunk_key_encoding"]
    start, usual = (["c"], "/") if encoding["name"] == "default" else ([], ".")
    separator = encoding.get("configuration", {}).get("separator", usual)
    return (
        metadata["chunk_grid"]["configuration"]["chunk_shape"],
        lambda at: separator.join([*start, *map(str, at)]),
        first["configuration"] if first["name"] == "sharding_indexed" else {},
    )


def _list_compressors(array: Any) -> tuple[str, ...]:
    codec = array.codec.to_json()
    if "codecs" not in codec:  # format 2
        return () if codec["compressor"] is None else (codec["compressor"]["id"],)
    codecs = codec["codecs"]
    if codecs[0]["name"] == "sharding_indexed":
        codecs = codecs[0]["configuration"]["codecs"]
    return tuple(one["name"] for one in codecs if one["name"] not in _PLAIN)


def explain(error: ValueError) -> str:
    """Return what an error of TensorStore says, without its kind, files and specification."""
    text = str(error).partition(" [tensorstore_spec=")[0].partition(": ")[2]
    *_, cause = text.split('": ', 1) if text.startswith("Error reading") else ("", text)
    return cause.rpartition('": ')[2] or cause
