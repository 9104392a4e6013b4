"""Reader of the pixels of a TIFF image, window by window, in bounded memory."""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from unglow.core.errors import InputError
from unglow.core.progress import count_transfer
from unglow.core.windows import cells
from unglow.images.tiff.codecs import NONE
from unglow.images.tiff.opening import open_raw, shorten_reason
from unglow.images.tiff.read_header import StoredImage, resolve
from unglow.images.tiff.samples import decode_rows, decode_segment, rows_at_once
from unglow.images.tiff.segments import RowStream, row_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unglow.core.arrays import Array, Bools
    from unglow.core.windows import Window
    from unglow.images.raw_header import TiffHeader
    from unglow.images.tiff.segments import StoredPage

    # (stored page, sample that is stored apart)
    Part = tuple[StoredPage, int]

Combine = Literal["set", "max", "add"]


def open_reader(header: TiffHeader) -> TiffReader:
    """Open the file of a header for reading; use it in a ``with`` statement.

    Raises
    ------
    InputError
        The file is no longer what the header says.
    """
    image = resolve(header.path, header.plane)
    now = image.header
    if (now.file_bytes, now.shape, now.dtype, now.channels) != (
        header.file_bytes,
        header.shape,
        header.dtype,
        header.channels,
    ):
        raise InputError(
            f"'{header.path}' has changed since its header was read: start the run again."
        )
    return TiffReader(image)


class TiffReader:
    """Reader of windows of one image; all methods may be called from several threads.

    Decoding takes one thread per call. A call holds its result and `TiffHeader.decode_bytes`. The
    reader keeps the last strip of each part read, so that bands may end inside a strip, or the
    decoder state of streamed strips (`TiffHeader.kept_bytes`).
    """

    def __init__(self, image: StoredImage) -> None:
        self.header = image.header
        self._image = image
        self._files: dict[str, int] = {}
        for plane in image.planes:
            for stored in plane:
                if stored.path not in self._files:
                    self._files[stored.path] = open_raw(stored.path)
        self._lock = threading.Lock()
        self._kept: dict[tuple[int, int], tuple[int, Array]] = {}
        self._streams: dict[tuple[int, int], tuple[int, RowStream]] = {}
        # Rows that are handled at once, so that conversions need little memory.
        self._step = rows_at_once(image.planes[0][0].page, image.geometry)
        self._keeps = image.projection is None and image.geometry.across == 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files and forget what is kept."""
        with self._lock:
            for fd in self._files.values():
                os.close(fd)
            self._files = {}
            self._kept = {}
            self._streams = {}

    def read(self, window: Window, channels: Sequence[int] | None = None) -> Array:
        """Read a window of some channels.

        Parameters
        ----------
        window
            Inside the image.
        channels
            Numbers of channels of the header, in the order wanted; all if None.

        Returns
        -------
        (channels, rows, cols) in ``header.dtype`` and native byte order.

        Raises
        ------
        InputError
            A tile or strip cannot be decoded; names it and its rows.
        ValueError
            The window leaves the image, or there is no such channel.
        """
        header, image = self.header, self._image
        wanted = range(len(header.channels)) if channels is None else channels
        if window.clip(header.shape) != window:
            raise ValueError(f"{window} leaves the image of {header.shape}")
        if any(not 0 <= c < len(header.channels) for c in wanted):
            raise ValueError(f"channels {list(wanted)} of {len(header.channels)}")
        out = np.empty((len(wanted), *window.shape), dtype=header.dtype)
        if out.size == 0:
            return out
        how: Combine = "set"
        for plane in image.planes:
            for part, targets in self._parts(plane, wanted):
                self._fill(part, window, [(out[i], k) for i, k in targets], how)
            how = "max" if image.projection == "max" else "add"
        if image.projection == "mean":
            out /= out.dtype.type(len(image.planes))
        return out

    def find_missing(self, channels: Sequence[int]) -> Bools:
        """Return which tiles or strips are not stored, (channels, down, across) bool.

        That is so if any plane that is read lacks one for the channel.
        """
        geometry = self._image.geometry
        missing = np.zeros((len(channels), geometry.down, geometry.across), np.bool_)
        for plane in self._image.planes:
            for (stored, apart), targets in self._parts(plane, channels):
                counts = stored.counts.reshape(geometry.apart, *missing.shape[1:])
                missing[[i for i, _ in targets]] |= counts[apart] == 0
        return missing

    def _parts(
        self, plane: tuple[StoredPage, ...], wanted: Sequence[int]
    ) -> list[tuple[Part, list[tuple[int, int]]]]:
        """List what is stored together, with (index in the result, sample in the segment) pairs."""
        image = self._image
        together: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for i, channel in enumerate(wanted):
            page, sample = divmod(channel, image.per_page)
            apart, inside = (sample, 0) if image.geometry.apart > 1 else (0, sample)
            together.setdefault((page, apart), []).append((i, inside))
        return [((plane[page], apart), targets) for (page, apart), targets in together.items()]

    def _fill(
        self, part: Part, window: Window, targets: list[tuple[Array, int]], how: Combine
    ) -> None:
        """Decode the segments of one part that the window touches, one at a time."""
        geometry, rule = self._image.geometry, self._image.rule
        for (i, j), piece in cells(window, geometry.unit):
            top, left = i * geometry.unit[0], j * geometry.unit[1]
            cols = slice(piece.x0 - window.x0, piece.x1 - window.x0)
            index = geometry.index(part[1], i, j)
            for row, block in self._rows(part, index, piece.y0 - top, piece.y1 - top):
                values = rule.apply(block[:, piece.x0 - left : piece.x1 - left])
                at = top + row - window.y0
                for out, sample in targets:
                    combine(out[at : at + len(values), cols], values[:, :, sample], how)
                del block, values

    def _rows(self, part: Part, index: int, first: int, last: int) -> Iterator[tuple[int, Array]]:
        """Yield (row in the segment, (rows, cols, samples) as stored) for rows first to last."""
        stored, _ = part
        geometry, page = self._image.geometry, stored.page
        sparse = stored.counts[index] == 0
        try:
            if self.header.raw and not sparse:
                yield from self._raw_rows(part, index, first, last)
            elif self.header.streams and not sparse:
                yield from self._stream_rows(part, index, first, last)
            else:
                shape = geometry.rows_of(index), geometry.unit[1], geometry.samples
                fill = np.full((1, 1, 1), page.nodata, dtype=page.dtype)
                block = np.broadcast_to(fill, shape) if sparse else self._segment(part, index, last)
                for row in range(first, last, self._step):
                    yield row, block[row : min(row + self._step, last)]
        except (MemoryError, InputError):
            raise
        # Decoders raise nearly anything on damaged data.
        except Exception as exc:
            # Some of them call it damage if they get no memory: this raises if there is too little.
            np.empty(min(self.header.decode_bytes, 1 << 31), np.uint8)
            raise InputError(
                f"'{stored.path}' is damaged: {geometry.describe(index)} cannot be decoded "
                f"({shorten_reason(exc)}); copy it again from its source or write it again."
            ) from exc

    def _raw_rows(
        self, part: Part, index: int, first: int, last: int
    ) -> Iterator[tuple[int, Array]]:
        (stored, _), geometry = part, self._image.geometry
        width = row_bytes(stored.page, geometry)
        for row in range(first, last, self._step):
            rows = min(self._step, last - row)
            count_transfer(stored.path, decoded=rows * width)
            # No name keeps the bytes of some rows while the next are read.
            yield (
                row,
                decode_rows(
                    stored.page,
                    geometry,
                    self._bytes(stored, index, row * width, rows * width),
                    rows,
                ),
            )

    def _stream_rows(
        self, part: Part, index: int, first: int, last: int
    ) -> Iterator[tuple[int, Array]]:
        (stored, apart), geometry = part, self._image.geometry
        width = row_bytes(stored.page, geometry)
        key = (id(stored), apart)
        with self._lock:
            at, stream = self._streams.pop(key, (-1, None))
            if stream is None or at != index or stream.row > first:
                stream = RowStream(
                    partial(self._bytes, stored, index),
                    int(stored.counts[index]),
                    int(stored.page.compression),
                    width,
                    self._image.window,
                )
            stream.skip(first - stream.row)
            for row in range(first, last, self._step):
                rows = min(self._step, last - row)
                count_transfer(stored.path, decoded=rows * width)
                yield row, decode_rows(stored.page, geometry, stream.read(rows), rows)
            if stream.row == geometry.rows_of(index):
                stream.finish()
            else:
                self._streams[key] = (index, stream)

    def _segment(self, part: Part, index: int, last: int) -> Array:
        """Return a complete tile or strip; keep it if rows from ``last`` on are needed."""
        key = (id(part[0]), part[1])
        block: Array | None = None
        if self._keeps:
            # What is kept of earlier rows goes before its successor is decoded, not after; that of
            # later ones is of a part that another thread has read first.
            with self._lock:
                at, kept = self._kept.get(key, (-1, None))
                if at <= index:
                    self._kept.pop(key, None)
            block = kept if at == index else None
            del kept
        if block is None:
            block = self._decode(part[0], index)
        if self._keeps and last < len(block):
            with self._lock:
                self._kept[key] = (index, block)
        return block

    def _decode(self, stored: StoredPage, index: int) -> Array:
        """Read and decode a complete tile or strip: (rows, cols, samples) as stored."""
        geometry, size = self._image.geometry, int(stored.counts[index])
        if stored.page.compression == NONE:
            size = min(size, geometry.rows_of(index) * row_bytes(stored.page, geometry))
        block = decode_segment(stored, geometry, index, self._bytes(stored, index, 0, size))
        count_transfer(stored.path, decoded=block.nbytes)
        return block

    def _bytes(self, stored: StoredPage, index: int, offset: int, size: int) -> bytes:
        data = os.pread(self._files[stored.path], size, int(stored.offsets[index]) + offset)
        if len(data) != size:
            raise ValueError(f"{size - len(data)} of its bytes are missing")
        count_transfer(stored.path, read=size)
        return data


def combine(out: Array, values: Array, how: Combine) -> None:
    """Put one plane into a result: the first sets it, others raise or add to it."""
    if how == "set":
        out[...] = values
    elif how == "max":
        np.maximum(out, values, out=out)
    else:
        np.add(out, values, out=out, casting="same_kind")
