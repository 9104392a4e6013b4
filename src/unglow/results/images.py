"""Images of results as lazy arrays, which numpy, dask and napari take as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from unglow.core.windows import Window

if TYPE_CHECKING:
    from types import EllipsisType

    from numpy.typing import DTypeLike, NDArray

    from unglow.photometry.difference import Image

    Part: TypeAlias = int | slice | EllipsisType

_BYTES = 64_000_000
"""A read with steps holds about this much at a time."""


class LazyImage:
    """One level of an image as an array of which only what is asked for is read.

    ``image[0:100, 0:100]`` and ``np.asarray(image)`` give numpy arrays; memory grows with what is
    asked for, not with the image. NaN where there is no data. Thread-safe. Errors are those of
    `unglow.io.zarr.Store.read`: StoreError, which names the file.

    Parameters
    ----------
    image
        A store, or a difference that is computed as it is read.
    level
        Of its pyramid; a pixel of level k covers 2^k x 2^k pixels of level 0.
    """

    ndim = 2

    def __init__(self, image: Image, level: int = 0) -> None:
        self.source, self.level = image, level
        self.shape = image.level_shape(level)
        """(rows, columns)."""
        self.dtype: np.dtype[Any] = image.dtype
        self.chunks: tuple[int, int] = image.layout.chunks
        """(rows, columns) of a chunk, for dask."""
        self.pixel_size_um = image.pixel_size_um
        """(x, y) of a pixel of level 0, micrometres; None if unknown."""

    @property
    def levels(self) -> list[LazyImage]:
        """All levels of the pyramid, the full resolution first: napari's ``multiscale``."""
        return [LazyImage(self.source, level) for level in range(self.source.levels)]

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        rows, cols = self.shape
        return f"<{self.source.name}, level {self.level}: {rows} x {cols} {self.dtype}>"

    def __dask_tokenize__(self) -> object:
        """Identify the pixels by their digest, for the names of dask's tasks."""
        return type(self).__name__, self.source.digest, self.level

    def __array__(
        self,
        dtype: DTypeLike | None = None,
        copy: bool | None = None,  # noqa: FBT001 - numpy passes it like this
    ) -> NDArray[Any]:
        """Read the entire level."""
        if copy is False:
            raise ValueError("an image is read from disk, which makes a copy")
        return np.asarray(self[:, :], dtype)

    def __getitem__(self, index: Part | tuple[Part, ...]) -> Any:
        """Read a part, ``[row, column]``, by numbers and slices as numpy has them."""
        rows, cols = _expand(index, self.ndim)
        y, x = range(self.shape[0])[rows], range(self.shape[1])[cols]
        lines = y if isinstance(y, range) else range(y, y + 1)
        places = x if isinstance(x, range) else range(x, x + 1)
        out = np.empty((len(lines), len(places)), self.dtype)
        band = len(lines)
        if out.size and max(abs(lines.step), abs(places.step)) > 1:
            band = max(1, _BYTES // (abs(lines.step) * _extent(places) * self.dtype.itemsize))
        for first in range(0, len(lines) if out.size else 0, band or 1):
            out[first : first + band] = self._read(lines[first : first + band], places)
        return out[0 if isinstance(y, int) else slice(None), 0 if isinstance(x, int) else ...]

    def _read(self, rows: range, cols: range) -> NDArray[Any]:
        window = Window(min(rows), max(rows) + 1, min(cols), max(cols) + 1)
        return self.source.read(window, self.level)[:: rows.step, :: cols.step]


def _extent(places: range) -> int:
    return max(places) - min(places) + 1


def _expand(index: Part | tuple[Part, ...], ndim: int) -> list[Any]:
    """Return an index with a number or slice for each axis; IndexError for too many."""
    parts = list(index) if isinstance(index, tuple) else [index]
    at = parts.index(Ellipsis) if Ellipsis in parts else len(parts)
    given = [part for part in parts if part is not Ellipsis]
    if len(given) > ndim:
        raise IndexError(f"an image has {ndim} axes, row and column, not {len(given)}")
    return [*given[:at], *[slice(None)] * (ndim - len(given)), *given[at:]]
