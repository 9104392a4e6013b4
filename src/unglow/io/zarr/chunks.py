"""One chunk of a shard: px, and the bytes that are stored of them.

These are Blosc's, and a CRC-32C. Blosc as numcodecs builds it sorts bits with the instructions of
2001, from a copy of the px and into another one, which takes a third of the time of a chunk. So
chunks of ordinary sizes go through the loops of unglow and the Zstandard of numcodecs instead, to
the same bytes; Blosc itself is there for all others.

Sources: https://github.com/Blosc/c-blosc/blob/main/README_CHUNK_FORMAT.rst and blosc/blosc.c
"""

from __future__ import annotations

import struct
import sys
import threading
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.kernels import kernel
from unglow.io.zarr.layout import COMPRESSOR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

CRC_BYTES = 4
_NAME, _LEVEL, _BLOCK = str(COMPRESSOR["cname"]), 1, 2**19
_HEADER = struct.Struct("<4B3I")
"""Of Blosc: versions of its format and of Zstandard's, flags, bytes of a px; bytes of the chunk, of
a block and in all. The offset of each block follows."""
_NUMBER = struct.Struct("<I")
_VERSIONS, _FLAGS = (2, 1), 0b10010100
"""Zstandard, blocks that are not split by bytes, bits sorted."""
_FRAME = b"\x28\xb5\x2f\xfd\xa0"
"""How Zstandard begins what states its size in the next four bytes."""
_LEAST = 1 << 17
"""Chunks of fewer bytes go through Blosc: they are too few to matter."""
_MARGIN = 64
"""A block that shrinks by less than this part is left to Blosc, which may store it as it is."""


class DamagedError(Exception):
    """A chunk that cannot be used; the text follows the name of its shard in a sentence."""


def append_chunk(out: bytearray, part: NDArray[Any], shape: tuple[int, int], fill: float) -> None:
    """Append a stored chunk of ``shape``, of its px inside the image; ``fill`` is put beyond."""
    if part.shape != shape:
        whole = np.full(shape, fill, part.dtype)
        whole[: part.shape[0], : part.shape[1]] = part
        part = whole
    crc = 0
    for piece in _pack(part) or [_compress(part)]:
        crc = _crc32c().extend(crc, piece)
        out += piece
    out += _NUMBER.pack(crc)


def encode_chunk(part: NDArray[Any], shape: tuple[int, int], fill: float) -> bytes:
    """Return a chunk as `append_chunk` would append it."""
    out = bytearray()
    append_chunk(out, part, shape, fill)
    return bytes(out)


def decode_chunk(stored: bytes, shape: tuple[int, int], out: NDArray[Any]) -> NDArray[Any]:
    """Return the px of a stored chunk, (rows, cols) in the dtype of ``out``.

    They are put into ``out`` if that is as large as the chunk. DamagedError if the bytes are not
    those that were written; MemoryError if there is too little to decompress them.
    """
    content = strip_checksum(stored)
    size = shape[0] * shape[1] * out.dtype.itemsize
    declared = _NUMBER.unpack_from(content, 4)[0] if len(content) >= _HEADER.size else 0
    if declared != size:  # before space is made for it
        raise DamagedError(f"is damaged (a chunk of {declared} bytes where there should be {size})")
    target = out if out.shape == shape else np.empty(shape, out.dtype)
    if _unpack(content, target):
        return target
    try:
        found = load_blosc().decompress(content)
    except RuntimeError as error:
        # The bytes are those that were written: what Blosc lacks is memory to work in, for which
        # it has no error of its own.
        raise MemoryError(f"a chunk with the right checksum: {error}") from error
    target[...] = np.frombuffer(found, out.dtype.newbyteorder("<")).reshape(shape)
    return target


def append_checksum(content: bytes) -> bytes:
    """Return bytes with their CRC-32C behind them."""
    return content + _NUMBER.pack(_crc32c().value(content))


def strip_checksum(stored: bytes) -> memoryview:
    """Return what comes before a CRC-32C; DamagedError if that is wrong."""
    content = stored[:-CRC_BYTES]
    if _crc32c().value(content) != int.from_bytes(stored[-CRC_BYTES:], "little"):
        raise DamagedError("is damaged (Stored and computed checksum do not match)")
    return memoryview(content)


def _block_rows(shape: tuple[int, ...], itemsize: int) -> int:
    """Return how many rows of a chunk are a block of Blosc's; 0 if it goes through Blosc itself."""
    row, size = shape[1] * itemsize, shape[0] * shape[1] * itemsize
    block = min(size, _BLOCK)
    if sys.byteorder != "little" or itemsize not in (1, 2, 4, 8) or size < _LEAST:
        return 0
    return 0 if shape[1] % 8 or size % block or block % row else block // row


def _pack(chunk: NDArray[Any]) -> list[bytes] | None:
    """Return the pieces of what Blosc would make of a chunk; None if it is left to it."""
    size, rows = chunk.itemsize, _block_rows(chunk.shape, chunk.itemsize)
    if not rows or not chunk[0].flags.c_contiguous:
        return None
    planes = np.empty(rows * chunk.shape[1] * size, np.uint8)
    blocks: list[bytes] = []
    stride, compress = chunk.strides[0] // size, _load()[1].compress
    for top in range(0, len(chunk), rows):
        part = chunk[top : top + rows]
        kernel("split_bits")(part, stride, size, planes, *part.shape)
        try:
            blocks.append(compress(planes, _LEVEL))
        except RuntimeError:  # Blosc says what it is
            return None
        if len(blocks[-1]) > len(planes) - len(planes) // _MARGIN:
            return None
    first = _HEADER.size + _NUMBER.size * len(blocks)
    starts = first + np.cumsum([0, *(_NUMBER.size + len(block) for block in blocks)])
    head = _HEADER.pack(*_VERSIONS, _FLAGS, size, chunk.nbytes, len(planes), int(starts[-1]))
    pieces = [head + starts[:-1].astype("<u4").tobytes()]
    for block in blocks:
        pieces += [_NUMBER.pack(len(block)), block]
    return pieces


def _unpack(content: memoryview, out: NDArray[Any]) -> bool:
    """Fill in the px of a chunk; False if that is left to Blosc."""
    size, rows = out.itemsize, _block_rows(out.shape, out.itemsize)
    if not rows or not out[0].flags.c_contiguous:
        return False
    planes = np.empty(rows * out.shape[1] * size, np.uint8)
    count = len(out) // rows
    head = *_VERSIONS, _FLAGS, size, out.nbytes, len(planes), len(content)
    if _HEADER.unpack_from(content) != head or len(content) < _HEADER.size + 4 * count:
        return False
    stride, frame = out.strides[0] // size, _FRAME + _NUMBER.pack(len(planes))
    for k in range(count):
        (start,) = _NUMBER.unpack_from(content, _HEADER.size + 4 * k)
        if start + 4 > len(content):
            return False
        (length,) = _NUMBER.unpack_from(content, start)
        block = content[start + 4 : start + 4 + length]
        if len(block) != length or block[: len(frame)] != frame:
            return False
        try:
            _load()[1].decompress(block, planes)
        except RuntimeError:  # Blosc says what it is
            return False
        part = out[k * rows : (k + 1) * rows]
        kernel("join_bits")(planes, size, part, stride, *part.shape)
    return True


def _compress(chunk: NDArray[Any]) -> bytes:
    blosc = load_blosc()
    ordered = np.ascontiguousarray(chunk, chunk.dtype.newbyteorder("<"))
    try:
        packed: bytes = blosc.compress(
            ordered, _NAME.encode(), _LEVEL, blosc.BITSHUFFLE, _BLOCK, chunk.itemsize
        )
    except RuntimeError as error:  # nothing else can fail
        raise MemoryError(f"a chunk of {chunk.nbytes} bytes: {error}") from error
    return packed


@cache
def _crc32c() -> Any:
    import google_crc32c  # noqa: PLC0415 (not needed where nothing is read or written)

    return google_crc32c


def load_blosc() -> Any:
    """Import Blosc and Zstandard; returns the former."""
    return _load()[0]


@cache
def _load() -> tuple[Any, Any]:
    """Import Blosc and Zstandard without the rest of ``numcodecs`` where no thread could miss it.

    The package imports all codecs and searches what is installed for more, which takes every job
    40 ms. These modules do without that, and a later ``import numcodecs`` works as ever.
    """
    spec = find_spec("numcodecs")
    alone = threading.active_count() == 1 and "numcodecs" not in sys.modules
    if alone and spec is not None:
        sys.modules["numcodecs"] = module_from_spec(spec)  # where its modules are, not executed
    try:
        blosc: Any = import_module("numcodecs.blosc")
        zstd = import_module("numcodecs.zstd")
    finally:
        if alone:
            sys.modules.pop("numcodecs", None)
    # Blosc's own threads are shared by the entire process: callers would wait for each other.
    blosc.use_threads = False
    return blosc, zstd
