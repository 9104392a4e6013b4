"""Parts of images as OME-TIFF, to save."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from unglow.core.errors import InputError
from unglow.core.windows import Window
from unglow.export.images import write_tiff
from unglow.reporting.html.live_answers import Answer, FileBody
from unglow.viewer.chunk_memory import UnwantedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from unglow.viewer.layers import Shown

MOST_PX = 200_000_000
"""Of a crop: whole images are exported by the workflow, and lie in the stores anyway."""
_NAMES = ("x", "y", "width", "height")


class Crop:
    """A part of level 0 of an image, with all that exports ask of a store.

    Parameters
    ----------
    store
        What it is a part of.
    window
        Which part.
    name
        Shown by viewers.
    wanted
        Whether somebody still waits for it.
    """

    levels = 1
    empty = None

    def __init__(self, store: Shown, window: Window, name: str, wanted: Callable[[], bool]) -> None:
        self._store, self._window, self._wanted = store, window, wanted
        rows, cols = window.shape
        place = {"x": window.x0, "y": window.y0, "width": cols, "height": rows}
        self.name, self.attributes = name, {**store.attributes, "crop": place}
        self.dtype, self.pixel_size_um = store.dtype, store.pixel_size_um

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._window.shape

    def level_shape(self, level: int) -> tuple[int, int]:
        """Rows and columns of a level, of which there is one."""
        return self._window.shape if level == 0 else (0, 0)

    def read(self, window: Window, level: int = 0) -> NDArray[Any]:
        """Pixels of a window of the crop; UnwantedError if nobody waits for them any more."""
        if not self._wanted():
            raise UnwantedError
        return self._store.read(window.shift(self._window.y0, self._window.x0), level)


def window_of(asked: Mapping[str, str], shape: tuple[int, int]) -> Window:
    """Return the part of an image of ``shape`` that is asked for, cut at its edges.

    Raises
    ------
    InputError
        Nothing of it is there, it is too large, or a number is missing.
    """
    try:
        x, y, width, height = (round(float(asked[name])) for name in _NAMES)
    except (KeyError, ValueError, OverflowError) as error:
        raise InputError("A crop needs x, y, width and height, px of the layer.") from error
    window = Window(y, y + height, x, x + width).clip(shape)
    if not window.size:
        raise InputError("The crop lies outside of the image.")
    if window.size > MOST_PX:
        raise InputError(
            f"The crop has {window.size / 1e6:.0f} million px, and {MOST_PX / 1e6:.0f} are the "
            "most: choose a smaller part, or have the workflow export the image (`exports`)."
        )
    return window


def crop_answer(crop: Crop, name: str) -> Answer:
    """Write a crop as OME-TIFF and return it as a file to save, which is gone when it is sent.

    Errors are those of `write_tiff`.
    """
    with TemporaryDirectory(prefix="unglow-crop-") as folder:
        place = Path(folder) / "crop.ome.tif"
        write_tiff(crop, place)  # type: ignore[arg-type]  # all of an image that is needed
        body = FileBody(place)
    title = quote(f"{name}.ome.tif", safe="", errors="replace")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{title}"}
    return Answer("image/tiff", body, headers=headers)
