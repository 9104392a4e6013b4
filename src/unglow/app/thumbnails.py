"""Small pictures of raw images, in little memory and time however large the image is."""

from __future__ import annotations

import base64
import math
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from unglow.core.errors import InputError, UnglowError
from unglow.core.printable import printable
from unglow.core.windows import Window
from unglow.io.raw_images import open_reader, read_header, reads_in_order

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.io.tiff import TiffHeader
    from unglow.workflow.settings import Settings

LONGEST = 220
"""Longer side of a picture, px."""
# Pixels that are decoded for a picture at most, and bytes that a strip may take in memory.
_MOST_PX, _MOST_BYTES = 200e6, 400e6
# Rows of a band, and of one of those that are read of a large image that is not compressed.
_BAND_ROWS, _FEW_ROWS = 256, 16
_KEPT = 1000
_QUALITY = 82
_SHARE = (0.5, 99.7)


class Thumbnails:
    """Pictures that were made already, while the files stay as they are; for any thread."""

    def __init__(self) -> None:
        self._made: OrderedDict[object, dict[str, str]] = OrderedDict()
        self._lock, self._drawing = threading.Lock(), threading.Semaphore(2)

    def describe(self, path: Path, settings: Settings) -> dict[str, str]:
        """Return ``picture`` (JPEG, base64), ``about`` (size and type) and ``problem``."""
        try:
            state = path.stat()
        except OSError as error:
            return _answer(problem=f"It cannot be opened ({error.strerror}).")
        key = (path, state.st_mtime_ns, state.st_size, settings.plane, settings.series)
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
        with self._drawing:
            made = _describe(path, settings)
        with self._lock:
            self._made[key] = made
            while len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return made


def _answer(picture: str = "", about: str = "", problem: str = "") -> dict[str, str]:
    return {"picture": picture, "about": printable(about), "problem": printable(problem)}


def _describe(path: Path, settings: Settings) -> dict[str, str]:
    plane = settings.plane
    try:
        header = read_header(path, series=settings.series, z=plane.z, t=plane.t)
        rows, cols = header.shape
        channels = [c.name for c in header.channels if not c.alpha]
        more = f", {len(channels)} channels" if len(channels) > 1 else ""
        about = f"{cols} x {rows} px, {header.dtype}{more}"
    except (UnglowError, OSError) as error:
        return _answer(problem=str(error))
    try:
        return _answer(encode(draw(header)), about)
    except (UnglowError, OSError, MemoryError, ValueError) as error:
        return _answer("", about, str(error))


def draw(header: TiffHeader) -> NDArray[np.uint8]:
    """Draw a raw image small: the largest of its channels at each place, bright as it needs.

    Of a large image only some bands are decoded, so that time stays bounded.

    Returns
    -------
    (rows, cols) grey levels, the longer side at most `LONGEST`.

    Raises
    ------
    InputError
        The image can only be decoded as one, and is too large for that; or it is damaged.
    """
    rows, cols = header.shape
    in_order = reads_in_order(header, _BAND_ROWS)
    too_many = rows * cols * len(header.channels) / _MOST_PX
    if (in_order and too_many > 1) or header.decode_bytes > _MOST_BYTES:
        raise InputError("It is too large for a quick picture, since its file is one piece.")
    unit = 1 if header.raw or in_order else header.unit[0]
    least = _BAND_ROWS if too_many <= 1 else _FEW_ROWS if header.raw else 1
    height = min(rows, math.ceil(least / unit) * unit)
    tops = list(range(0, rows, height))[:: max(1, math.ceil(too_many))]
    scale = min(1.0, LONGEST / max(rows, cols))
    width = max(1, round(cols * scale))
    shown = [i for i, channel in enumerate(header.channels) if not channel.alpha]
    bands = []
    with open_reader(header) as reader:
        for top in tops:
            window = Window(top, min(rows, top + height), 0, cols)
            block = np.nan_to_num(reader.read(window)[shown].astype(np.float32))
            size = (width, max(1, round(block.shape[1] * scale)))
            bands.append(np.stack([_shrink(plane, size) for plane in block]))
    small = np.concatenate(bands, axis=1)
    stretched = [_stretch(plane) for plane in small]
    picture = np.max(stretched, axis=0)
    return np.asarray(
        cv2.resize(picture, (width, max(1, round(rows * scale))), interpolation=cv2.INTER_AREA),
        np.uint8,
    )


def _shrink(plane: NDArray[np.float32], size: tuple[int, int]) -> NDArray[Any]:
    return np.asarray(cv2.resize(plane, size, interpolation=cv2.INTER_AREA))


def _stretch(plane: NDArray[np.float32]) -> NDArray[np.uint8]:
    low, high = np.percentile(plane, _SHARE)
    level = (plane - low) * (255.0 / max(float(high - low), 1e-6))
    return np.asarray(np.clip(level, 0, 255), np.uint8)


def encode(picture: NDArray[np.uint8]) -> str:
    """Return a picture as JPEG, base64."""
    _, coded = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return base64.b64encode(coded.tobytes()).decode("ascii")
