"""A registration in physical units: matrix and field that map post to pre."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from unglow import transform
from unglow.core.errors import ConfigError, InputError
from unglow.core.levels import nearest
from unglow.io.zarr import open_store
from unglow.io.zarr.layout import DOCUMENT

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.transform import Transform

    Floats = NDArray[np.float64]

Unit = Literal["um", "px"]


@dataclass(frozen=True)
class PhysicalMap:
    """A transform that did not fail, from post to pre in the units of other programs.

    Physical coordinates are (x, y) with the origin in the centre of the first pixel, as ITK
    has it: pixel position times pixel size.

    Attributes
    ----------
    transform
        The map in px.
    unit
        Of physical coordinates.
    post_size, pre_size
        Size (x, y) of a pixel of post and of pre in ``unit``; 1 each if that is ``px``.
    """

    transform: Transform
    unit: Unit = "px"
    post_size: tuple[float, float] = (1.0, 1.0)
    pre_size: tuple[float, float] = (1.0, 1.0)

    @property
    def affine(self) -> bool:
        """Whether the matrix is affine; a homography is not."""
        return not self.transform.matrix[2, :2].any()

    @property
    def matrix(self) -> Floats:
        """(3, 3) float64, physical post (x, y, 1) to physical pre, element [2, 2] = 1."""
        into_px = np.diag([1 / self.post_size[0], 1 / self.post_size[1], 1.0])
        matrix = np.diag([*self.pre_size, 1.0]) @ self.transform.matrix @ into_px
        return np.asarray(matrix / matrix[2, 2], dtype=np.float64)

    @property
    def coefficients(self) -> Floats | None:
        """(2, ny, nx) control points of the field (x and y component), physical; None if none.

        Strips are not in them.
        """
        if self.transform.displacement is None:
            return None
        size = np.array(self.pre_size, dtype=np.float64)[:, None, None]
        return np.asarray(self.transform.displacement.coefficients * size, dtype=np.float64)

    @property
    def knots(self) -> tuple[float, float]:
        """Distance (x, y) of the control points of the field, physical; (0, 0) without a field."""
        field = self.transform.displacement
        spacing = 0 if field is None else field.spacing_px
        return spacing * self.post_size[0], spacing * self.post_size[1]

    def need_spline(self, path: Path) -> None:
        """Refuse what is more than an affine matrix and a smooth field.

        Raises
        ------
        InputError
            There is a homography, or strips, which ITK has no transform for.
        """
        if not self.affine:
            raise InputError(
                f"{path} holds a homography, which an ITK transform file cannot express: write the "
                "displacement field instead, with --itk OUT.mha."
            )
        field = self.transform.displacement
        if field is not None and field.strips is not None:
            raise InputError(
                f"{path} holds a field that jumps between strips ({field.strips.name}), which "
                "an ITK transform file cannot express: write the displacements of all pixels "
                "instead, with --itk OUT.mha --spacing 1."
            )


def load(path: Path, unit: Unit | None = None) -> PhysicalMap:
    """Read a ``transform.json`` with its field, and the pixel sizes of the stores next to it.

    Parameters
    ----------
    path
        ``transform.json``; ``post.ome.zarr`` and ``pre.ome.zarr`` are looked for in its directory
        and, as in a parameter sweep, in those above.
    unit
        None for ``um`` if both pixel sizes are known, and ``px`` otherwise.

    Raises
    ------
    InputError
        There is no complete transform, or the registration failed.
    ConfigError
        ``um`` is asked for and not known.
    StoreError
        A store is damaged.
    """
    if path.is_dir():
        raise InputError(f"{path} is a directory: name the transform.json of a pair.")
    in_px = transform.load(path)
    if in_px.has_failed:
        raise InputError(f"{path} has no map to export: {' '.join(in_px.reasons)}")
    if unit == "px":
        return PhysicalMap(in_px)
    post, pre = (_read_pixel_size(path, name) for name in ("post.ome.zarr", "pre.ome.zarr"))
    if post is not None and pre is not None:
        return PhysicalMap(in_px, "um", post, pre)
    if unit == "um":
        raise ConfigError(
            f"the pixel sizes of post and pre are not known next to {path}: export with --unit px."
        )
    return PhysicalMap(in_px)


def _read_pixel_size(path: Path, name: str) -> tuple[float, float] | None:
    found = nearest(path.parent, f"{name}/{DOCUMENT}")
    return None if found is None else open_store(found.parent).pixel_size_um
