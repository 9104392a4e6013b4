"""The map from post-stain to pre-stain coordinates, with its evidence, and its file.

Coordinates are (x, y) in level-0 pixels with pixel centres at integers. A pair that could not be
registered has a transform too: status ``failed``, its reasons, and a matrix of NaN, so that it maps
every point to NaN and nothing downstream can mistake it for an identity.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from unglow.core.errors import InputError
from unglow.core.files import write_json
from unglow.core.levels import DETAILS
from unglow.core.reasons import Sentence, to_json
from unglow.core.records import RecordError, read_record, to_plain, to_record
from unglow.transform.matrix import apply_matrix, convert_levels

if TYPE_CHECKING:
    import os

    from numpy.typing import ArrayLike

    from unglow.core.arrays import Floats, Floats32
    from unglow.transform.displacement import Displacement

VERSION = 1
"""Of ``transform.json``."""
FIELD_FILE = f"{DETAILS}/displacement.npz"
"""The file next to ``transform.json`` that holds the field."""
_INVERSE_STEPS, _INVERSE_PX = 60, 1e-6
"""Steps of the fixed point at most, and how near it comes, px; a field with
slopes of 0.5 needs about 30."""
Status = Literal["ok", "suspect", "failed"]
_LONGEST = 1 << 31
"""Sides of images are shorter, px."""
_LENGTHS = ("residual_px", "error_px", "forward_backward_px")
_NUMBERS = ("overlap", "scale", "rotation_deg")
_MORE = ("landmarks", "residual_shift", "local_error")


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Median and 95th percentile of a length in px; NaN where nothing was measured."""

    median: float = math.nan
    p95: float = math.nan

    @classmethod
    def from_lengths(cls, lengths: ArrayLike) -> Quantiles:
        """Return the quantiles of ``lengths`` (any shape, px); NaN if there are none."""
        values = np.asarray(lengths, dtype=np.float64).ravel()
        if values.size == 0:
            return cls()
        return cls(*(float(q) for q in np.quantile(values, (0.5, 0.95))))


@dataclass(frozen=True, slots=True)
class LandmarkResiduals:
    """How far the map misses landmarks: their number, median and greatest distance, px."""

    count: int
    median_px: float
    max_px: float


@dataclass(frozen=True, slots=True)
class ResidualShift:
    """By how much images lie from where a map puts them, that was not fitted to them.

    Attributes
    ----------
    x_px, y_px
        Median over blocks: content of pre is so far from where the map expects it.
    error_px
        Standard error of its length.
    blocks
        How many it was measured on.
    """

    x_px: float
    y_px: float
    error_px: float
    blocks: int

    @classmethod
    def from_residuals(cls, left: Floats) -> ResidualShift:
        """Return the shift that blocks show: measured minus mapped positions (N, 2) (x, y), px."""
        if not len(left):
            return cls(math.nan, math.nan, math.nan, 0)
        middle = np.median(left, axis=0)
        # of a median, from the median absolute deviation of normal errors
        spread = 1.2533 * 1.4826 * np.median(np.abs(left - middle), axis=0)
        error = float(np.hypot(*spread)) / math.sqrt(len(left))
        return cls(float(middle[0]), float(middle[1]), error, len(left))

    @property
    def length_px(self) -> float:
        """Its length."""
        return math.hypot(self.x_px, self.y_px)

    @property
    def is_certain(self) -> bool:
        """Whether it is not zero within twice its error."""
        return self.length_px > 2 * self.error_px


@dataclass(frozen=True, slots=True)
class LocalError:
    """Error of a map that is followed well but for some places, on a grid over post.

    Attributes
    ----------
    spacing_px
        Distance of the points; the first one is the middle of the first square of this side.
    px
        Root mean square of the error at each point, rows of columns, px.
    """

    spacing_px: Annotated[float, Meta(gt=0)]
    px: tuple[Annotated[tuple[float, ...], Meta(min_length=1)], ...]


_Number = float | None
_Row = tuple[float, float, float]
_Side = Annotated[int, Meta(gt=0, lt=_LONGEST)]


class _Quantiles(msgspec.Struct):
    median: _Number
    p95: _Number


class _Coarse(msgspec.Struct):
    method: str
    significance: _Number
    margin: _Number


class _Field(msgspec.Struct):
    path: str
    sha256: str


class _File(msgspec.Struct, rename={"source": "from"}):
    """What ``transform.json`` holds."""

    version: Literal[1]
    status: Status
    reasons: tuple[Sentence, ...]
    matrix: tuple[_Row, _Row, _Row] | None
    model: str
    displacement: _Field | None
    residual_px: _Quantiles
    error_px: _Quantiles
    forward_backward_px: _Quantiles
    inliers: int
    blocks: int
    overlap: _Number
    scale: _Number
    rotation_deg: _Number
    shift_px: tuple[_Number, _Number]
    coarse: _Coarse
    post_shape: tuple[_Side, _Side]
    pre_shape: tuple[_Side, _Side]
    source: str = ""
    landmarks: LandmarkResiduals | None = None
    residual_shift: ResidualShift | None = None
    local_error: LocalError | None = None

    def __post_init__(self) -> None:
        if self.local_error is not None and len({len(row) for row in self.local_error.px}) != 1:
            raise ValueError("the rows of local_error differ in length")
        if (self.matrix is None) != (self.status == "failed"):
            raise ValueError("status and matrix contradict each other")
        if self.matrix is not None and not abs(np.linalg.det(self.matrix)) > 0:
            raise ValueError("the matrix maps post onto a line")


@dataclass(frozen=True, eq=False)
class Transform:
    """Where each point of the post-stain image is in pre, and how well that is known.

    Attributes
    ----------
    status, reasons
        ``ok``, ``suspect`` or ``failed``, and one sentence per reason.
    post_shape, pre_shape
        (rows, columns) of level 0.
    matrix
        (3, 3) float64, post (x, y, 1) to pre (x, y, 1) up to scale, level-0 px; NaN when failed.
    model
        ``translation``, ``similarity``, ``affine`` or ``homography``; ``none`` where the images
        were said to lie on each other; empty when failed.
    displacement
        A smooth field that is added to the matrix's result (`unglow.transform.displacement`); None
        for no field.
    residual_px
        Lengths of the residuals of blocks that were kept out of the fit, block noise included.
    error_px
        Estimated error of the map over the section, block noise removed
        (`unglow.registration.quality.map_error` says how).
    forward_backward_px
        How far going to post and back by a map of its own misses
        (`unglow.registration.inverse_consistency`).
    inliers, blocks
        Blocks that agree with the final map, and blocks measured.
    overlap
        Share (0..1) of the section in post that is inside pre.
    scale, rotation_deg, shift_px
        Of the map at the section's centre: square root of the area ratio pre/post, the turn of the
        post x axis (degrees, from x towards y), and pre minus post position (x, y) in px.
    coarse_method, significance, margin
        What found the start; its score in standard deviations of the same images at wrong shifts;
        the score over that of the best clearly different candidate.
    landmarks
        How far the map misses the landmarks that were given; None without them.
    source
        The dye whose map this is; empty for a map of its own.
    residual_shift
        What the images say against a map that was declared to move nothing; else None.
    local_error
        Of a map without a field that some places do not follow; None where it is one everywhere.
    """

    status: Status
    post_shape: tuple[int, int]
    pre_shape: tuple[int, int]
    reasons: tuple[str, ...] = ()
    matrix: Floats = None  # type: ignore[assignment]  # set in __post_init__
    model: str = ""
    displacement: Displacement | None = None
    residual_px: Quantiles = Quantiles()
    error_px: Quantiles = Quantiles()
    forward_backward_px: Quantiles = Quantiles()
    inliers: int = 0
    blocks: int = 0
    overlap: float = math.nan
    scale: float = math.nan
    rotation_deg: float = math.nan
    shift_px: tuple[float, float] = (math.nan, math.nan)
    coarse_method: str = ""
    significance: float = math.nan
    margin: float = math.nan
    landmarks: LandmarkResiduals | None = None
    source: str = ""
    residual_shift: ResidualShift | None = None
    local_error: LocalError | None = None
    version: int = VERSION

    def __post_init__(self) -> None:
        given: Floats | None = self.matrix
        matrix = np.full((3, 3), np.nan) if given is None else np.array(given, dtype=np.float64)
        if matrix.shape != (3, 3):
            raise ValueError(f"a transform needs a 3 x 3 matrix, not {matrix.shape}")
        matrix.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)

    @property
    def turn_error(self) -> float:
        """Median error of the map as a rotation about the centre (rad), or as a relative scale."""
        return self.error_px.median / (0.5 * math.hypot(*self.post_shape))

    @property
    def usual_error_px(self) -> float:
        """Error of the map but for places that do not follow it; where none stand out, its p95."""
        local = self.local_error
        return self.error_px.p95 if local is None else float(np.median(np.concatenate(local.px)))

    @property
    def error_grid(self) -> tuple[Floats32, float, float] | None:
        """Error of the map on a grid over post: values (rows, columns), px, and where they are.

        That is the distance of its points, and x and y of the first one. None where the error is
        one everywhere.
        """
        field, local = self.displacement, self.local_error
        if field is not None and field.error_px.size:
            return field.error_px, field.spacing_px, -field.spacing_px
        if local is None:
            return None
        return np.array(local.px, dtype=np.float32), local.spacing_px, (local.spacing_px - 1) / 2

    @property
    def has_failed(self) -> bool:
        """Whether there is no map."""
        return self.status == "failed"

    @property
    def octaves(self) -> int:
        """How many times a px of pre is to be doubled to come nearest to one of post."""
        return octaves_of(self.scale)

    @property
    def resampling_map(self) -> Transform:
        """The map to the pyramid level of pre that is resampled: as fine as post, not finer.

        The map itself unless pre is more than 1.4 times as fine.
        """
        level = max(0, self.octaves)
        return self.convert_levels(0, level) if level else self

    def convert_levels(self, post: int, pre: int) -> Transform:
        """Return the map in px of a pyramid level of ``post`` and one of ``pre``.

        Residuals, errors and what is reported of the map at the section's centre stay as they are.
        """
        field = self.displacement
        return replace(
            self,
            post_shape=(self.post_shape[0] >> post, self.post_shape[1] >> post),
            pre_shape=(self.pre_shape[0] >> pre, self.pre_shape[1] >> pre),
            matrix=convert_levels(self.matrix, post, pre),
            displacement=None if field is None else field.convert_levels(post, pre),
        )

    @property
    def model_name(self) -> str:
        """The model as people read it, such as ``affine + field``."""
        return self.model + (" + field" if self.displacement is not None else "")

    def map(self, points_xy: ArrayLike) -> Floats:
        """Map post to pre coordinates.

        Parameters
        ----------
        points_xy
            (N, 2) post coordinates (x, y), level-0 px.

        Returns
        -------
        (N, 2) float64 pre coordinates, level-0 px; NaN for a failed transform.
        """
        mapped = apply_matrix(self.matrix, points_xy)
        return (
            mapped if self.displacement is None else mapped + self.displacement.evaluate(points_xy)
        )

    def inverse_map(self, points_xy: ArrayLike) -> Floats:
        """Map pre to post coordinates, (N, 2) to (N, 2) float64; NaN for a failed transform.

        With a field this is a fixed point, to within 1e-6 px; NaN where there is none.
        """
        points = np.asarray(points_xy, dtype=np.float64)
        if not np.isfinite(self.matrix).all():
            return np.full_like(points, np.nan)
        inverse = np.asarray(np.linalg.inv(self.matrix), dtype=np.float64)
        post = apply_matrix(inverse, points)
        if self.displacement is None:
            return post
        for _ in range(_INVERSE_STEPS):
            last, post = post, apply_matrix(inverse, points - self.displacement.evaluate(post))
            if not (np.abs(post - last) > _INVERSE_PX / 10).any():
                break
        left = np.hypot(*(self.map(post) - points).T)
        return np.where((left <= _INVERSE_PX)[:, None], post, np.nan)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``transform.json``, in its order; NaN becomes None.

        ``from``, ``landmarks``, ``residual_shift`` and ``local_error`` are there only where there
        are any.
        """
        failed = not np.isfinite(self.matrix).all()
        more = {name: getattr(self, name) for name in _MORE}
        return {
            "version": self.version,
            "status": self.status,
            "reasons": to_json(self.reasons),
            "matrix": None if failed else [[float(v) for v in row] for row in self.matrix],
            "model": self.model,
            "displacement": _field_dict(self.displacement),
            **{name: _numbers(**asdict(getattr(self, name))) for name in _LENGTHS},
            "inliers": int(self.inliers),
            "blocks": int(self.blocks),
            **_numbers(**{name: getattr(self, name) for name in _NUMBERS}),
            "shift_px": [*_numbers(x=self.shift_px[0], y=self.shift_px[1]).values()],
            "coarse": {
                "method": self.coarse_method,
                **_numbers(significance=self.significance, margin=self.margin),
            },
            **({"from": self.source} if self.source else {}),
            **{name: to_plain(one) for name, one in more.items() if one is not None},
            "post_shape": [int(n) for n in self.post_shape],
            "pre_shape": [int(n) for n in self.pre_shape],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``transform.json``, and before it the field next to it, if there is one.

        Each file appears under its name only when it is complete.
        """
        if self.displacement is not None:
            from unglow.transform import displacement  # most transforms need none

            displacement.save(Path(path).parent / FIELD_FILE, self.displacement)
        write_json(Path(path), self.to_dict())


def octaves_of(scale: float) -> int:
    """Return the logarithm of a magnification to base 2, rounded; 0 if it is not known."""
    return round(math.log2(scale)) if math.isfinite(scale) and scale > 0 else 0


def load(path: str | os.PathLike[str]) -> Transform:
    """Read a ``transform.json``.

    Raises
    ------
    InputError
        The file is absent, damaged, or of another version.
    """
    return from_content(path, read_content(path))


def from_content(path: str | os.PathLike[str], content: dict[str, Any]) -> Transform:
    """Return the map of a ``transform.json`` whose content was read, with the field next to it.

    Errors are those of `load`.
    """
    try:
        stored = to_record(content, _File)
    except RecordError as error:
        raise _damage_error(path, error) from error
    return _make_transform(stored, read_field(Path(path), content))


def read_content(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the checked content of a ``transform.json``, whose field need not be there.

    Errors are those of `load`.
    """
    try:
        content = read_record(Path(path), dict[str, Any])
        to_record(content, _File)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: run the registration first.") from None
    except RecordError as error:
        raise _damage_error(path, error) from error
    return content


def _damage_error(path: str | os.PathLike[str], error: RecordError | str) -> InputError:
    return InputError(
        f"{path} is not a whole transform ({error}): delete it and run the registration again."
    )


def read_field(path: Path, content: dict[str, Any]) -> Displacement | None:
    """Read the field next to a ``transform.json`` of that content; InputError if it is another."""
    entry = content["displacement"]
    if entry is None:
        return None
    from unglow.transform import displacement  # most transforms need none

    if entry["path"] != FIELD_FILE:
        raise _damage_error(path, f"its field is {FIELD_FILE}, not {entry['path']}")
    field = displacement.load(path.parent / FIELD_FILE)
    if field is None or field.digest != entry["sha256"]:
        raise _damage_error(path, f"the field in {entry['path']} is another one")
    return field


def _field_dict(field: Displacement | None) -> dict[str, Any] | None:
    if field is None:
        return None
    return {
        "path": FIELD_FILE,
        "spacing_px": field.spacing_px,
        "grid": [int(n) for n in field.coefficients.shape[1:]],
        "max_px": float(np.hypot(*field.coefficients).max()),
        "strips": None if field.strips is None else field.strips.to_dict(),
        "sha256": field.digest,
    }


def _make_transform(stored: _File, displacement: Displacement | None) -> Transform:
    measured: dict[str, Any] = {name: _float(getattr(stored, name)) for name in _NUMBERS}
    for name in _LENGTHS:
        lengths = getattr(stored, name)
        measured[name] = Quantiles(_float(lengths.median), _float(lengths.p95))
    return Transform(
        status=stored.status,
        reasons=stored.reasons,
        matrix=stored.matrix,  # type: ignore[arg-type]  # becomes an array
        model=stored.model,
        displacement=displacement,
        inliers=stored.inliers,
        blocks=stored.blocks,
        shift_px=(_float(stored.shift_px[0]), _float(stored.shift_px[1])),
        coarse_method=stored.coarse.method,
        significance=_float(stored.coarse.significance),
        margin=_float(stored.coarse.margin),
        **{name: getattr(stored, name) for name in _MORE},
        source=stored.source,
        post_shape=stored.post_shape,
        pre_shape=stored.pre_shape,
        **measured,
    )


def _numbers(**values: float) -> dict[str, float | None]:
    return {name: float(v) if math.isfinite(v) else None for name, v in values.items()}


def _float(value: float | None) -> float:
    return math.nan if value is None else float(value)
