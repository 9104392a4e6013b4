"""Maps between the images of a pair, and the files that hold them."""

from __future__ import annotations

from unglow.transform.matrix import (
    apply_matrix,
    convert_levels,
    convert_to_level,
    from_level,
    inside_frame,
    jacobians,
    to_level0,
)
from unglow.transform.transform import (
    FIELD_FILE,
    LandmarkResiduals,
    LocalError,
    Quantiles,
    ResidualShift,
    Transform,
    load,
)

__all__ = [
    "FIELD_FILE",
    "LandmarkResiduals",
    "LocalError",
    "Quantiles",
    "ResidualShift",
    "Transform",
    "apply_matrix",
    "convert_levels",
    "convert_to_level",
    "from_level",
    "inside_frame",
    "jacobians",
    "load",
    "to_level0",
]
