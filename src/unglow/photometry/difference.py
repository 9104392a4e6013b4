"""The difference post - (gain * pre + offset): of blocks, and of a pair as an image to read from.

Differences of one pair by several scale methods differ by a few numbers alone. So one is written,
and the others are computed where somebody looks.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from unglow.core.errors import StoreError
from unglow.core.kernels import kernel, lay_rows
from unglow.core.levels import RESULT_OF, nearest
from unglow.core.windows import Window, strips
from unglow.images.stored_values import GREY_STEP, has_grey_levels, quantise
from unglow.images.zarr import Store, open_store, plan_layout
from unglow.images.zarr.layout import DOCUMENT
from unglow.photometry.gain.scale import Scale
from unglow.photometry.imaging import GAIN_MAP

if TYPE_CHECKING:
    from collections.abc import Callable

    from unglow.core.arrays import Array, Floats32
    from unglow.images.zarr import StoreLayout
    from unglow.photometry.gain.scale import MethodResult
    from unglow.photometry.imaging import Blur, GainMap

# Rows of a gain map at a time, so that it needs no memory to speak of.
_ROWS = 64
# Of the store of a difference: by the default method, or by the one that it names.
_NAME = re.compile(r"difference(?:_(\w+))?\.ome\.zarr")
# What the pixels of a written difference follow from, by the names of its attributes.
_INPUTS = ("method", "inputs", "gain", "offset", "gain_map", "blur")


def difference(
    post: Array, pre: Floats32, gain: float, offset: float, step: float = 0.0
) -> Floats32:
    """Return post - (gain * pre + offset), (rows, cols) float32; NaN where pre is NaN.

    Post has any real dtype; pre is aligned to it. With a ``step``, a power of two, the difference
    is rounded to multiples of it, as `unglow.images.stored_values.quantise` does.
    """
    out = np.empty(pre.shape, np.float32)
    images = *lay_rows(post.astype(np.float32, copy=False)), *lay_rows(pre)
    kernel("subtract_line")(*images, gain, offset, step, out, *out.shape)
    return out


def subtract_evened(
    post: Array,
    pre: Floats32,
    gain: float,
    offset: float,
    gain_map: GainMap,
    window: Window,
    step: int = 1,
) -> Floats32:
    """Return post - (m * (gain * pre + c1) + c0), where m and c0 are those of a gain map.

    The offset is c0 + c1; ``window`` says where the blocks are in post, in px of ``step`` level-0
    px. Else as `difference`.
    """
    out = np.empty(window.shape, np.float32)
    for strip in strips(window, _ROWS):
        rows = slice(strip.y0 - window.y0, strip.y1 - window.y0)
        scaled = pre[rows] * np.float32(gain)
        scaled += np.float32(offset - gain_map.dark)
        scaled *= gain_map.evaluate_window(strip, step)
        scaled += np.float32(gain_map.dark)
        np.subtract(post[rows].astype(np.float32, copy=False), scaled, out=out[rows])
    return out


@dataclass(frozen=True, eq=False, slots=True)
class Matched:
    """Post and aligned pre of a pair, read as they go into the difference.

    Attributes
    ----------
    post, aligned
        Raw post image and pre in its frame.
    blur
        What makes the sharper of them match the other; None for nothing.
    """

    post: Store
    aligned: Store
    blur: Blur | None = None

    def read(
        self, window: Window, level: int = 0, out: Floats32 | None = None
    ) -> tuple[Array, Floats32]:
        """Return both over a window of a level, as arrays that nobody else has.

        Or in ``out``, (2, *window.shape). A blur is no wider than a px of coarse levels.
        """
        into = (None, None) if out is None else out
        post = self._read(self.post, "post", window, level, into[0])
        pre = self._read(self.aligned, "pre", window, level, into[1])
        return post, np.asarray(pre, np.float32)

    def _read(
        self, image: Store, name: str, window: Window, level: int, out: Floats32 | None
    ) -> Array:
        if level or self.blur is None or self.blur.image != name:
            return image.read(window, level, out)
        return self.blur.blur_window(image.read, image.shape, window, out)


def subtract_window(
    result: MethodResult,
    blocks: tuple[Array, Floats32],
    window: Window,
    step: int = 1,
    *,
    integer: bool,
) -> Floats32:
    """Return the difference of post and pre by a method over a window.

    The window is in px of ``step`` level-0 px; ``integer`` says that post has integer grey levels,
    so that the difference is rounded. ValueError if the method found no gain.
    """
    if result.gain is None or result.offset is None:
        raise ValueError("nothing can be subtracted without a gain")
    line = result.gain, result.offset
    if result.gain_map is None:
        return difference(*blocks, *line, GREY_STEP if integer else 0.0)
    left = subtract_evened(*blocks, *line, result.gain_map, window, step)
    return quantise(left) if integer else left


class Difference:
    """The difference of a pair by one scale method; blocks are computed when they are read.

    Implements `unglow.core.windows.Pixels`. Level 0 is equal to a written store, to the bit.
    Coarser levels are computed from those of the images, whose means are rounded to whole grey
    levels (and where data end, are of other px): good to look at, not to measure on. Thread-safe.

    Parameters
    ----------
    images
        Of the pair.
    method, result
        Name of the scale method and what it found.
    path
        Where it is if it is written.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, images: Matched, method: str, result: MethodResult, path: Path) -> None:
        self._images = images
        self._result = result
        self._integer = has_grey_levels(images.post.attributes)
        self.name = f"difference {method}"
        self.path = path
        self.layout: StoreLayout = plan_layout(images.post.shape, "float32")
        self.shape = self.layout.shape
        self.levels = min(self.layout.levels, images.post.levels, images.aligned.levels)
        self.pixel_size_um = images.post.pixel_size_um
        self.attributes = make_attributes(images, method, result)
        """Those that a written store has in addition to those of its pixels."""
        self.empty = None if result.ok else read_reason(images.aligned, method, result)
        """Why there is no difference; None if there is one."""
        text = json.dumps(self.attributes, sort_keys=True)
        self.digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
        """SHA-256 over all that its pixels follow from."""

    def level_shape(self, level: int) -> tuple[int, int]:
        """Rows and columns of a level."""
        return self.layout.level_shape(level)

    def read(self, window: Window, level: int = 0) -> Floats32:
        """Return the pixels of a window that is inside the level; NaN where there is no data.

        Raises
        ------
        StoreError
            If the method found no gain, or a shard of an image is missing or damaged.
        ValueError
            If the window leaves the level.
        """
        if self.empty is not None:
            raise StoreError(f"there is no {self.name}: {self.empty}")
        blocks = self._images.read(window, level)
        return subtract_window(self._result, blocks, window, 1 << level, integer=self._integer)


Image: TypeAlias = Store | Difference
"""A difference, whether it is written or not."""


def make_attributes(images: Matched, method: str, result: MethodResult) -> dict[str, Any]:
    """Return what the pixels of a difference follow from, for the attributes of its store."""
    gain_map, blur = result.gain_map, images.blur
    return {
        "role": "difference",
        "method": method,
        "inputs": {"post": images.post.digest, "aligned_pre": images.aligned.digest},
        "gain": result.gain,
        "offset": result.offset,
        **({} if gain_map is None else {"gain_map": {"sha256": gain_map.digest}}),
        **({} if blur is None else {"blur": {"image": blur.image, "width_px": blur.width_px}}),
    }


def read_reason(aligned: Store, method: str, result: MethodResult) -> str:
    """Say why there is nothing to subtract."""
    return aligned.empty or result.reason or f"{method} found no gain."


def open_difference(place: Path | str, method: str | None = None) -> Image:
    """Open the difference of a pair: the store where it is written, or else one to compute from.

    Parameters
    ----------
    place
        Directory of the results of a pair; in a sweep, of the variant.
    method
        Scale method; the pair's default if None.

    Raises
    ------
    StoreError
        Results that it follows from are missing or damaged, or the method was not estimated.
    """
    directory = Path(place)
    if (directory / RESULT_OF["detection"]).is_file():  # of a search, which has no gain of its own
        directory = (nearest(directory, "scale.json") or directory / "scale.json").parent
    try:
        scale = Scale.load(directory / "scale.json", directory / GAIN_MAP)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StoreError(
            f"{place} has no {Path(error.filename).name}: name the directory of a pair's results, "
            "or run the workflow to make it."
        ) from error
    post, aligned = (open_store(_find_store(directory, name)) for name in ("post", "aligned_pre"))
    return choose_image(
        compute_difference(post, aligned, scale, method or scale.default, directory)
    )


def choose_image(
    made: Difference, opened: Callable[[Path], Store] = open_store
) -> Store | Difference:
    """Return the store of a difference, if it is written and follows from the same, or itself.

    ``opened`` opens a store.
    """
    if not (made.path / DOCUMENT).is_file():
        return made
    written = opened(made.path)
    # Another run may have changed what it follows from since it was written.
    same = all(written.attributes.get(key) == made.attributes.get(key) for key in _INPUTS)
    return written if same else made


def open_image(path: Path | str) -> Image:
    """Open a store, or the difference that would lie there, to be computed.

    Errors are those of `unglow.images.zarr.open_store` and `open_difference`.
    """
    path = Path(path)
    folder, name = path.absolute().parent, _NAME.fullmatch(path.name)
    if name and not (path / DOCUMENT).is_file() and (folder / "scale.json").is_file():
        return open_difference(folder, name[1])
    return open_store(path)


def open_method(
    post: Store, aligned: Store, scale: Scale, written: Path, method: str | None = None
) -> Image:
    """Return the difference by a method of ``scale``, or its default, for jobs of one run.

    ``written`` is the store of the default: it is read where it is asked for, and has to be
    complete (StoreError).
    """
    if method in (None, scale.default):
        return open_store(written)
    return compute_difference(post, aligned, scale, method, written.parent)


def compute_difference(
    post: Store, aligned: Store, scale: Scale, method: str, directory: Path
) -> Difference:
    """Return the difference of opened images by a method of ``scale``, to be computed.

    ``directory`` holds the results; StoreError if the method was not estimated.
    """
    if method not in scale.methods:
        raise StoreError(
            f"{directory} has no difference by '{method}': its scale.json has "
            f"{', '.join(scale.methods)}; add it to scale.methods and run again."
        )
    images = Matched(post, aligned, scale.blur)
    path = directory / name_store(method, scale.default)
    return Difference(images, method, scale.methods[method], path)


def name_store(method: str, default: str) -> str:
    """Return the name of the store of a difference; the default method has the short one."""
    return "difference.ome.zarr" if method == default else f"difference_{method}.ome.zarr"


def _find_store(directory: Path, name: str) -> Path:
    """Return the store of an image of the pair: next to the results of a variant, or above them."""
    found = nearest(directory, f"{name}.ome.zarr/{DOCUMENT}")
    return directory / f"{name}.ome.zarr" if found is None else found.parent
