"""Mouse brain by two-photon microscopy: signal and autofluorescence of one acquisition.

Both channels were recorded at once, so that the true map between them is the identity. Another tool
(cellfinder) says where it expects cells, in three dimensions and in more planes than are here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tifffile
from registration.bases import interpolated
from registration.geometry import Pose, Warp, pixel_centres, waves
from scipy import ndimage, optimize

from unglow.core.windows import Window
from unglow.phantom.truth import PhantomMap

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Image = NDArray[Any]
    Floats = NDArray[np.float64]

PLANES = 13, 14
"""The planes that there are, z as the expected cells count it."""
FOLDER = "signal_autofluorescence"
DYE = "signal"
_PLACE = re.compile(r"<Marker[XYZ]>(\d+)</Marker[XYZ]>")
_STAMP = 10
_FWHM = 2 * np.sqrt(2 * np.log(2))
_NEAR_PLANES = 2
# Beyond its frame a warped image goes on for so many px, so that nothing of it is cut off.
_MARGIN = 20
_WAVELENGTH_PX = 400.0


@dataclass(frozen=True)
class Case:
    """A pair that is made of the crop.

    Attributes
    ----------
    name
        Of the sample.
    planes
        The planes whose maximum is taken, of both channels.
    rotation_deg, scale, shift, bend_px
        How pre is warped; without rotation, it is left as it is.
    """

    name: str
    planes: tuple[int, ...]
    rotation_deg: float = 0.0
    scale: float = 1.0
    shift: tuple[float, float] = (0.0, 0.0)
    bend_px: float = 0.0

    @property
    def warped(self) -> bool:
        """Whether pre is resampled at all."""
        return self.rotation_deg != 0.0

    def warp(self, shape: tuple[int, int]) -> Warp:
        """Return the true map, post to pre, for images of a shape (rows, columns)."""
        if not self.warped:
            return Warp.plain(np.eye(3))
        pose = Pose(
            shape=shape,
            pre_shape=self.pre_shape(shape),
            rotation_deg=self.rotation_deg,
            scale=self.scale,
            shift=self.shift,
        )
        if not self.bend_px:
            return Warp.plain(pose.matrix())
        return Warp(PhantomMap(pose.matrix(), waves(shape, self.bend_px, _WAVELENGTH_PX, seed=3)))

    def pre_shape(self, shape: tuple[int, int]) -> tuple[int, int]:
        """Return (rows, columns) of pre."""
        if not self.warped:
            return shape
        return shape[0] + 2 * _MARGIN, shape[1] + 2 * _MARGIN


CASES = (
    *(Case(f"plane{z}", (z,)) for z in PLANES),
    Case("both", PLANES),
    *(Case(f"turned{z}", (z,), 4.0, 1.03, (11.3, -7.6)) for z in PLANES),
    *(Case(f"bent{z}", (z,), -2.0, 0.98, (-5.4, 8.2), 3.0) for z in PLANES),
)
"""As they are; as one image; turned, magnified and shifted; and bent by up to 3 px as well."""


def plane(data: Path, z: int) -> tuple[Image, Image]:
    """Return signal and autofluorescence of a plane, (rows, columns) uint16 each."""
    folder = data / FOLDER
    return (
        tifffile.imread(folder / "crop_signal" / f"ch000{z}.tif"),
        tifffile.imread(folder / "crop_autofluorescence" / f"ch100{z}.tif"),
    )


def images(data: Path, case: Case) -> tuple[Image, Image]:
    """Return post and pre of a case; a warped pre is interpolated by a spline of order 5.

    Around the image, where nothing is known, a warped pre is 0.
    """
    pairs = [plane(data, z) for z in case.planes]
    post, pre = (np.maximum.reduce(channel) for channel in zip(*pairs, strict=True))
    if not case.warped:
        return post, pre
    shape = case.pre_shape(post.shape)
    places = case.warp(post.shape).to_post(pixel_centres(Window.from_shape(shape)))[:, ::-1]
    spline = ndimage.spline_filter(pre.astype(np.float32), 5, output=np.float32, mode="mirror")
    light = interpolated(spline, places).reshape(shape)
    seen = ((places >= 0) & (places <= np.array(pre.shape) - 1)).all(axis=1).reshape(shape)
    return post, np.rint(np.where(seen, np.maximum(light, 0), 0)).astype(pre.dtype)


def write_layout(data: Path, raw: Path) -> None:
    """Write all cases as ``raw/<sample>/<sample>_<pre or post>_<dye>.tif``."""
    for case in CASES:
        folder = raw / case.name
        folder.mkdir(parents=True)
        for role, image in zip(("post", "pre"), images(data, case), strict=True):
            tifffile.imwrite(folder / f"{case.name}_{role}_{DYE}.tif", image)


def expected_cells(data: Path) -> Floats:
    """Return the cells that the other tool expects, (N, 3): x, y (px) and z (plane)."""
    text = (data / FOLDER / "crop_cells_expected.xml").read_text(encoding="utf-8")
    return np.array(_PLACE.findall(text), dtype=np.float64).reshape(-1, 3)


def cell_width(data: Path) -> float:
    """Return the full width at half maximum of the typical cell, px.

    That of a Gaussian on a level background, fitted to the median stamp of the expected cells at
    most two planes away.
    """
    cells = expected_cells(data)
    stamps = []
    for z in PLANES:
        signal, _ = plane(data, z)
        for x, y in cells[np.abs(cells[:, 2] - z) <= _NEAR_PLANES, :2].astype(int):
            rows, cols = (slice(at - _STAMP, at + _STAMP + 1) for at in (y, x))
            if signal[rows, cols].shape == (2 * _STAMP + 1,) * 2:
                stamps.append(signal[rows, cols])
    typical = np.median(np.stack(stamps), axis=0)
    y, x = np.mgrid[-_STAMP : _STAMP + 1, -_STAMP : _STAMP + 1]

    def misfit(found: Floats) -> Floats:
        peak, col, row, sigma, level = found
        cell = peak * np.exp(-((x - col) ** 2 + (y - row) ** 2) / (2 * sigma**2))
        return np.asarray((cell + level - typical).ravel())

    start = [np.ptp(typical), 0.0, 0.0, 2.0, typical.min()]
    return float(abs(optimize.least_squares(misfit, start).x[3]) * _FWHM)
