"""Reader of stores, and small views of large images for figures.

A missing or damaged chunk is an error, never a fill value. Views are overviews from the pyramid,
and crops at full resolution.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.digests import hash_file
from unglow.core.errors import StoreError
from unglow.core.files import read_json
from unglow.core.progress import step
from unglow.core.records import to_record
from unglow.core.windows import SamePixels, Window, cells
from unglow.images.stored_values import MissingTiles
from unglow.images.zarr.layout import (
    CHUNK,
    DOCUMENT,
    StoreLayout,
    check_level,
    describe_broken,
    remedy,
    shard_key,
    store_digest,
)
from unglow.images.zarr.shards import read_window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unglow.core.arrays import Array, Bools, Floats, Floats32
    from unglow.core.windows import Pixels


class Store:
    """A finished store, read window by window; implements `unglow.core.windows.Pixels`.

    Made by `open_store`. Thread-safe.
    """

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self.path = path
        self.attributes: dict[str, Any] = document["attributes"]["unglow"]
        """What was written along: parameters, fingerprints, ``layout``, ``digest``."""
        self.layout = to_record(self.attributes["layout"], StoreLayout)
        self.shape, self.levels = self.layout.shape, self.layout.levels
        self.dtype = np.dtype(self.layout.dtype)
        MissingTiles.from_attributes(self.attributes)  # refused here if it is damaged
        self.digest: str = self.attributes["digest"]
        """SHA-256 over all shards."""
        self.empty: str | None = self.attributes.get("empty")
        """Why the store has no pixels; None if it has."""
        multiscale = document["attributes"]["ome"]["multiscales"][0]
        self.name: str = multiscale["name"]
        size_y, size_x = multiscale["datasets"][0]["coordinateTransformations"][0]["scale"]
        in_um = "unit" in multiscale["axes"][0]
        self.pixel_size_um: tuple[float, float] | None = (size_x, size_y) if in_um else None
        """(x, y) in micrometres; None if unknown."""
        self._checked: set[int] = set()

    def level_shape(self, level: int) -> tuple[int, int]:
        """Rows and columns of a level."""
        return self.layout.level_shape(level)

    def read(self, window: Window, level: int = 0, out: Array | None = None) -> Array:
        """Return the pixels of a window that is inside the level, in the stored dtype.

        Or put them into ``out``, ``window.shape`` of a dtype that they can be cast to.

        Raises
        ------
        StoreError
            If the store is marked empty, or a shard of it is missing, empty or damaged.
        ValueError
            If the window leaves the level.
        """
        if self.empty is not None:
            raise StoreError(f"{self.path} holds no pixels: {self.empty}")
        if level not in self._checked:
            check_level(self.path, self.layout, level)
            self._checked.add(level)
        return read_window(self.path, self.layout, level, window, out)


def open_store(path: Path | str) -> Store:
    """Open a finished store and check, without reading them, that its shard files are complete.

    Each must be there and not empty, and together they must have the size that was written.

    Raises
    ------
    StoreError
        If there is no finished store, if it is not unglow's, or if a shard is missing, empty or cut
        short.
    """
    path = Path(path)
    store = _open_document(path)
    if store.empty is None:
        total = 0
        for level in range(store.levels):
            sizes = _shard_sizes(path, level)
            for key, _ in _shards(store.layout, level):
                if not sizes.get(key):
                    reason = "is empty" if key in sizes else "is missing"
                    raise StoreError(describe_broken(path, key, reason))
                total += sizes[key]
        written = store.attributes.get("stored_bytes", total)
        if total != written:
            # one pixel of each shard is read: what was cut short has lost the index at its end
            for level in range(store.levels):
                for _, window in _shards(store.layout, level):
                    y, x = window.y0, window.x0
                    store.read(Window(y, y + 1, x, x + 1), level)
            message = f"its shards have {total} bytes in all where {written} were written"
            raise StoreError(f"{path}: {message}; {remedy(path)}")
    return store


def _open_document(path: Path) -> Store:
    try:
        document = read_json(path / DOCUMENT)
    except (FileNotFoundError, NotADirectoryError) as error:
        if store := next(path.glob("*.ome.zarr"), None):
            raise StoreError(f"{path} is not a store: give one in it, such as {store}.") from error
        raise StoreError(
            f"{path} is not a finished store: {DOCUMENT} is missing; rerun the workflow to make it"
        ) from error
    except (OSError, ValueError) as error:
        raise StoreError(f"{path / DOCUMENT} cannot be read ({error}); {remedy(path)}") from error
    try:
        return Store(path, document)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise StoreError(
            f"{path} is not a store that unglow wrote, or its {DOCUMENT} was edited; give a store "
            "from unglow's results, or import the image as TIFF"
        ) from error


def _shards(layout: StoreLayout, level: int) -> Iterator[tuple[str, Window]]:
    rows, cols = layout.level_shards(level)
    for window in layout.windows(level):
        yield shard_key(level, window.y0 // rows, window.x0 // cols), window


def _shard_sizes(path: Path, level: int) -> dict[str, int]:
    """Size in bytes of every shard file of a level, from directory listings alone."""
    sizes: dict[str, int] = {}
    try:
        with os.scandir(path / str(level) / "c") as rows:
            for row in (entry for entry in rows if entry.is_dir()):
                with os.scandir(row) as files:
                    for file in files:
                        sizes[f"{level}/c/{row.name}/{file.name}"] = file.stat().st_size
    except FileNotFoundError:
        pass  # the caller names the first shard that is not there
    except OSError as error:
        message = f"{path}: its shards cannot be listed ({error.strerror}); {remedy(path)}"
        raise StoreError(message) from error
    return sizes


def verify(path: Path | str) -> list[str]:
    """Read a complete store and compare it with its digest.

    Returns one sentence for each file that is missing or damaged, or one if the pixels are not
    those that were published; empty if all is well. StoreError if there is no finished store of
    unglow's at ``path``.
    """
    path = Path(path)
    store = _open_document(path)
    layout = store.layout
    problems: list[str] = []
    levels = list(range(store.levels if store.empty is None else 0))
    shards = {level: list(_shards(layout, level)) for level in levels}
    for level in levels.copy():
        try:
            check_level(path, layout, level)
        except StoreError as error:
            problems.append(str(error))
            levels.remove(level)
    if _digest(path, [key for level in shards.values() for key, _ in level]) == store.digest:
        return problems
    for level in levels:
        for _, window in shards[level]:
            try:
                store.read(window, level)
            except StoreError as error:
                problems.append(str(error))
    if not problems:
        problems.append(
            f"{path}: every shard is sound but they are not the ones that were published "
            f"(the digest differs); {remedy(path)}"
        )
    return problems


def _digest(path: Path, keys: list[str]) -> str | None:
    """Digest of the shards as they are now; None if one cannot be read."""
    try:
        return store_digest({key: hash_file(path / key) for key in keys})
    except OSError:
        return None


_LARGE = 4
"""Windows of more px than this many chunks have are of no use to the windows after them."""


class ChunkCache(SamePixels):
    """An image, as `unglow.core.windows.Pixels`, that keeps the chunks that were read last.

    Windows that are smaller than chunks and overlap several of them, as blocks of registration do,
    would have each chunk decoded about five times. Thread-safe.

    ``kept`` chunks of ``side`` px are kept of ``image``.
    """

    def __init__(self, image: Pixels, kept: int, side: int = CHUNK) -> None:
        super().__init__(image)
        self._side = side
        self._chunk = lru_cache(kept)(image.read)  # two threads may read the same one: no harm

    def read(self, window: Window, level: int = 0) -> Array:
        """Pixels of a window inside the level; large ones are read directly, and not kept."""
        side = self._side
        if window.size > _LARGE * side * side:
            return self._image.read(window, level)
        out: Array | None = None
        for (row, col), part in cells(window, (side, side)):
            top, left = row * side, col * side
            extent = Window(top, top + side, left, left + side).clip(self.level_shape(level))
            chunk = self._chunk(extent, level)
            if out is None:
                out = np.empty(window.shape, chunk.dtype)
            target = part.shift(-window.y0, -window.x0).slices
            out[target] = chunk[part.shift(-top, -left).slices]
        return self._image.read(window, level) if out is None else out


LONGEST_PX = 1200
"""Longest side of an overview, px."""
CROP_PX = 128
"""Side of a crop at full resolution, px."""
_TRIED = 200
"""Brightest pixels that are looked at for each position that is asked for."""


@dataclass(frozen=True, slots=True)
class Overview:
    """An entire image at one pyramid level; pixel j is at 2**level * j + (2**level - 1) / 2."""

    image: Floats32
    level: int

    @property
    def step(self) -> int:
        """Level-0 px per px of the overview."""
        return int(2**self.level)

    def to_level0(self, index: Floats) -> Floats:
        """Level-0 coordinates of overview coordinates (any shape)."""
        return np.asarray(self.step * index + (self.step - 1) / 2)


def find_fitting_level(pixels: Pixels, longest_px: int = LONGEST_PX) -> int:
    """Return the finest level whose longest side is at most ``longest_px`` (or the coarsest)."""
    fitting = (k for k in range(pixels.levels) if max(pixels.level_shape(k)) <= longest_px)
    return next(fitting, pixels.levels - 1)


@step("read")
def overview(pixels: Pixels, level: int | None = None) -> Overview:
    """Read an entire image at a level (by default one that fits a figure) as float32."""
    chosen = find_fitting_level(pixels) if level is None else min(level, pixels.levels - 1)
    window = Window.from_shape(pixels.level_shape(chosen))
    return Overview(pixels.read(window, chosen).astype(np.float32, copy=False), chosen)


def read_same_pixels(pixels: Pixels, shape: tuple[int, int], level: int) -> Floats32:
    """Read an image on the grid of another one as if nothing had moved.

    Parameters
    ----------
    pixels
        Image to read, of any size.
    shape
        (rows, cols) of the result at ``level``; NaN where the image does not reach.
    level
        Pyramid level of the other image. Coarser than this image's last level: that one is used.
    """
    out = np.full(shape, np.nan, np.float32)
    own = min(level, pixels.levels - 1)
    stride = 2 ** (level - own)
    source = pixels.read(Window.from_shape(pixels.level_shape(own)), own)[::stride, ::stride]
    rows, cols = (min(a, b) for a, b in zip(shape, source.shape, strict=True))
    out[:rows, :cols] = source[:rows, :cols]
    return out


def crop(pixels: Pixels, centre_xy: tuple[float, float], size: int = CROP_PX) -> Floats32:
    """Read a square of ``size`` px at full resolution around a point; NaN beyond the image."""
    col, row = (round(v) - size // 2 for v in centre_xy)
    inside = Window(row, row + size, col, col + size).clip(pixels.shape)
    out = np.full((size, size), np.nan, np.float32)
    if inside.size:
        out[inside.shift(-row, -col).slices] = pixels.read(inside)
    return out


def _well_inside(valid: Bools) -> Bools:
    """Return where a pixel and its neighbours in rows and columns are valid."""
    around = np.pad(valid, 1, constant_values=True)
    rows = around[:-2, 1:-1] & around[2:, 1:-1]
    return np.asarray(valid & rows & around[1:-1, :-2] & around[1:-1, 2:])


def texture_near(view: Overview, points: Floats, size: int = CROP_PX) -> Floats:
    """Return how much there is to see in the overview around points: its mean step between px.

    Of square roots, in which bright places do not rule; unlike a spread it is small where a square
    holds nothing but an edge of the section. A step counts as far as the parallel one next to it
    goes the same way, and against what goes the other way: steps of noise cancel.

    Parameters
    ----------
    view
        An overview; missing data count as no step.
    points
        (N, 2) centres (x, y), level-0 px.
    size
        Side of the squares, level-0 px.

    Returns
    -------
    (N,) float64.
    """
    image = view.image
    lowest = np.nanmin(image, initial=np.inf)
    root = np.sqrt(image - (lowest if np.isfinite(lowest) else 0.0))
    total = np.zeros((image.shape[0] + 1, image.shape[1] + 1))
    for axis in (0, 1):
        step = np.diff(root, axis=axis)
        one, other = (step[:, :-1], step[:, 1:]) if axis == 0 else (step[:-1], step[1:])
        shared = np.minimum(np.abs(one), np.abs(other)) * np.sign(one * other)
        total[2:, 2:] += np.nan_to_num(shared, copy=False)
    for axis in (0, 1):
        np.cumsum(total, axis=axis, out=total)
    half = max(2, size // (2 * view.step))
    middle = (points / view.step).astype(np.intp)
    (left, top), (right, bottom) = (
        np.clip(middle + off, 0, np.array(image.shape[::-1])).T for off in (-half, half)
    )
    inside = total[bottom, right] - total[top, right] - total[bottom, left] + total[top, left]
    return np.asarray(inside / (2 * half) ** 2)


def brightest(view: Overview, count: int, apart_px: int = CROP_PX) -> list[tuple[float, float]]:
    """Return level-0 (x, y) of the brightest spots of an overview, ``apart_px`` apart at least.

    Pixels next to missing data are excluded: they average only what is on this side of the edge.
    """
    pixels = np.flatnonzero(_well_inside(np.isfinite(view.image)))
    values = view.image.ravel()[pixels]
    if len(values) > (most := _TRIED * count):
        some = np.argpartition(values, -most)[-most:]
        pixels, values = pixels[some], values[some]
    spots: list[tuple[float, float]] = []
    for index in pixels[np.argsort(-values, kind="stable")]:
        row, col = divmod(int(index), view.image.shape[1])
        x, y = (float(v) for v in view.to_level0(np.array([col, row], float)))
        if all(max(abs(x - a), abs(y - b)) >= apart_px for a, b in spots):
            spots.append((x, y))
        if len(spots) == count:
            break
    return spots
