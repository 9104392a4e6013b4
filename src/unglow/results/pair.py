"""Results of a pair, or of a variant of one, and its images as lazy arrays.

What was published may lack most files, so each is looked for when it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from unglow.core import digests
from unglow.core.errors import InputError, UnglowError
from unglow.core.levels import LEVELS
from unglow.core.reasons import explain, from_json, split_notes
from unglow.core.windows import Window
from unglow.io.detection_results import read_candidates, read_report
from unglow.io.pair_plan import Plan
from unglow.io.zarr import open_store
from unglow.io.zarr.layout import DOCUMENT
from unglow.photometry.difference import open_difference
from unglow.photometry.gain.bright_field import check_roles
from unglow.photometry.gain.scale import Scale
from unglow.spoilt import ARTEFACTS, SavedPlace, read_places
from unglow.transform.transform import from_content, read_content

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import EllipsisType

    from numpy.typing import DTypeLike, NDArray

    from unglow.photometry.difference import Image
    from unglow.transform import Transform

    Part: TypeAlias = int | slice | EllipsisType

_ROWS = 512
"""Rows that are read at a time, next to the array that is returned."""


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
        """All levels of the pyramid, the full resolution first, as napari takes them."""
        return [LazyImage(self.source, level) for level in range(self.source.levels)]

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
        count = max(1, _ROWS // abs(lines.step))
        for first in range(0, len(lines) if out.size else 0, count):
            part = lines[first : first + count]
            window = Window(min(part), max(part) + 1, min(places), max(places) + 1)
            block = self.source.read(window, self.level)
            out[first : first + count] = block[:: part.step, :: places.step]
        return out[0 if isinstance(y, int) else slice(None), 0 if isinstance(x, int) else ...]


def _expand(index: Part | tuple[Part, ...], ndim: int) -> list[Any]:
    """Return an index with a number or slice for each axis; IndexError for too many."""
    parts = list(index) if isinstance(index, tuple) else [index]
    at = parts.index(Ellipsis) if Ellipsis in parts else len(parts)
    given = [part for part in parts if part is not Ellipsis]
    if len(given) > ndim:
        raise IndexError(f"an image has {ndim} axes, row and column, not {len(given)}")
    return [*given[:at], *[slice(None)] * (ndim - len(given)), *given[at:]]


STAGE_FILES = ("plan.json", "transform.json", "scale.json", "detection.json", "candidates.csv")
"""Files of which a directory of results has at least one, or else a list of digests."""
SLIDE = "slide.json"
"""The file that distinguishes a slide from a pair."""
_STORE = ".ome.zarr"
_WHOLE_NUMBERS = ("id", "area_px")


@dataclass(frozen=True, eq=False)
class PairResults:
    """Results of a pair, or of a variant of one; every file is read when it is asked for.

    Attributes
    ----------
    directory
        The innermost directory that is its own.
    pair
        That of its pair, which is the same or above; what variants share is on the way there.
    skipped
        Why the pair was not started; None if it was.
    """

    directory: Path
    pair: Path
    skipped: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Sample, dye and the names of its variant."""
        own = self.directory.relative_to(self.pair).parts
        return (self.pair.parent.name, self.pair.name, *own)

    def __repr__(self) -> str:
        return f"<{'/'.join(self.names)}: {self.state}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: names, state, reasons, a picture of the difference."""
        thumbnails = import_module("unglow.reporting.html.thumbnails")  # above in the import order
        row = dict(zip(LEVELS, self.names, strict=False)) | {"status": self.state}
        (pictures,) = thumbnails.pack_pictures(self.pair.parent.parent, [row])
        text = "<br>".join(escape(part) for part in (repr(self), self.reasons) if part)
        shown = (f'<img src="data:image/jpeg;base64,{p.image}">' for p in pictures if p.image)
        return f"{text}<br>{next(shown, '')}"

    @cached_property
    def places(self) -> tuple[Path, ...]:
        """Directories that hold its files, the innermost first."""
        above = self.directory.relative_to(self.pair).parts
        return tuple(self.pair.joinpath(*above[:n]) for n in range(len(above), -1, -1))

    def find(self, name: str) -> Path | None:
        """Return the file of that name; None if there is none."""
        paths = (place / name for place in self.places)
        return next((path for path in paths if path.is_file()), None)

    def path(self, name: str) -> Path:
        """Return the file of that name; InputError if there is none."""
        found = self.find(name)
        if found is None:
            why = f": {self.skipped}" if self.skipped else "; run the workflow to make it."
            raise InputError(f"{self.directory} has no {name}{why}")
        return found

    @cached_property
    def plan(self) -> Plan:
        """Channels and fingerprints of the images; UnglowError if there is no readable file."""
        return Plan.load(self.path("plan.json"))

    @cached_property
    def transform(self) -> Transform:
        """The map from post to pre, whose ``map`` takes points (N, 2); UnglowError as `plan`."""
        return from_content(self.path("transform.json"), self.registration)

    @cached_property
    def registration(self) -> dict[str, Any]:
        """Content of transform.json, whose displacement field need not be there."""
        return read_content(self.path("transform.json"))

    @cached_property
    def scale(self) -> Scale:
        """Gain and offset by each method, with intervals; UnglowError as `plan`."""
        path = self.path("scale.json")
        return Scale.load(path, path.with_name("gain_map.npz"))

    @cached_property
    def detection(self) -> dict[str, Any]:
        """Content of detection.json, with threshold, false discovery, spoilt share."""
        return read_report(self.path("detection.json"))

    @property
    def state(self) -> str:
        """``ok``, ``suspect``, ``failed``, ``skipped``, or ``incomplete`` if files are missing."""
        return self._judged[0]

    @property
    def reasons(self) -> str:
        """Why the state is not ``ok``; empty if it is."""
        return " ".join(self._judged[1])

    @cached_property
    def _judged(self) -> tuple[str, list[str]]:
        if self.skipped is not None:
            return "skipped", [self.skipped]
        missing = [name for name in STAGE_FILES[:4] if self.find(name) is None]
        try:
            state, reasons, _ = self.judge_available()
            if state != "failed" and missing:
                return "incomplete", [f"{self.directory} has no {missing[0]}."]
            _ = self.transform  # its field is a part of the result
        except UnglowError as error:
            return "failed", [f"a result file cannot be read: {error}"]
        return state, reasons

    def judge_available(self) -> tuple[str, list[str], list[str]]:
        """Return state, reasons and notes as far as the existing files say."""
        names = ("plan", "registration", "scale", "detection")
        there = [self.find(file) is not None for file in STAGE_FILES[:4]]
        return judge(*(getattr(self, n) if t else None for n, t in zip(names, there, strict=True)))

    def candidates(self) -> NDArray[np.void]:
        """Return the rows of candidates.csv as records (N,), which ``pandas.DataFrame`` takes.

        Columns are those of the file, and ``counted``, which is False for those that are listed
        only (outside of drawn regions, next to spoilt places, sharp ones). Positions are (x, y) in
        px of post.
        """
        found = read_candidates(self.path("candidates.csv"))
        columns: dict[str, NDArray[Any]] = {
            name: column.astype(np.int64) if name in _WHOLE_NUMBERS else column
            for name, column in found.numbers.items()
        }
        columns["flags"] = np.array(found.flags, np.str_ if found.flags else "U1")
        columns["counted"] = found.is_counted
        records = np.empty(len(found), [(name, c.dtype) for name, c in columns.items()])
        for name, column in columns.items():
            records[name] = column
        return records

    @property
    def spoilt_places(self) -> list[SavedPlace]:
        """Spoilt places of post with their reasons, the largest first."""
        return read_places(self.path("detection.json").with_name(ARTEFACTS))

    @property
    def figures(self) -> dict[str, Path]:
        """PNG files by name."""
        found = [path for place in self.places for path in place.glob("figures/*.png")]
        return {path.stem: path for path in reversed(found)}

    @cached_property
    def post(self) -> LazyImage:
        """The image after staining, as it was read."""
        return self._image("post")

    @cached_property
    def pre(self) -> LazyImage:
        """The image before staining, in its own frame, as it was read."""
        return self._image("pre")

    @cached_property
    def aligned_pre(self) -> LazyImage:
        """The image before staining in the frame of post; NaN outside of it."""
        return self._image("aligned_pre")

    def _image(self, name: str) -> LazyImage:
        return LazyImage(open_store(self.path(f"{name}{_STORE}/{DOCUMENT}").parent))

    def difference(self, method: str | None = None) -> LazyImage:
        """Return the difference by a scale method, or the default one, written or computed."""
        return LazyImage(open_difference(self.path("scale.json").parent, method))

    # --- what was published, for comparisons

    @property
    def is_slide(self) -> bool:
        """Whether it is a multiplexed slide."""
        return self.find(SLIDE) is not None

    def digest(self, name: str) -> str | None:
        """Return the SHA-256 of a small file, or that of its list where the file is not here."""
        path = self.find(name)
        return self.published(name) if path is None else digests.hash_file(path)

    def published(self, name: str) -> str | None:
        """Return the SHA-256 of a file as it was published; None if no list has it."""
        return self._listed.get(name)

    def differences(self) -> list[str]:
        """Return the roots of the difference images, ``difference/<method>.ome.zarr/zarr.json``."""
        paths = [p for place in self.places for p in place.glob(f"difference/*{_STORE}/{DOCUMENT}")]
        names = {"/".join(path.parts[-3:]) for path in paths}
        listed = {n for n in self._listed if n.startswith("difference/") and n.endswith(DOCUMENT)}
        return sorted(names | listed)

    def edited(self) -> list[str]:
        """Return the names of small files that are not as they were published."""
        return [
            name for name in STAGE_FILES
            if name in self._listed and self.digest(name) != self._listed[name]
        ]  # fmt: skip

    @cached_property
    def _listed(self) -> dict[str, str]:
        """SHA-256 by name, as lists of digests have them."""
        found: dict[str, str] = {}
        for place in reversed(self.places):
            for path in sorted(place.glob(f"{digests.FOLDER}/*{digests.SUFFIX}")):
                listed = digests.Listed.read(path).digests
                found |= {file.relative_to(place).as_posix(): sha for file, sha in listed.items()}
        return found


def judge(
    plan: Plan | None,
    registration: Mapping[str, Any] | None,
    scale: Scale | None,
    detection: Mapping[str, Any] | None,
) -> tuple[str, list[str], list[str]]:
    """Return the state of a pair, its reasons and its notes; the first stage that failed decides.

    ``registration`` and ``detection`` are the contents of their files; None is a file that is not
    there, and says nothing.
    """
    bright_field = () if scale is None else scale.bright_field
    if plan is not None and plan.reason is not None:
        return "failed", [plan.reason], []
    about = registration or {"status": None, "reasons": []}
    doubts, of_plan = split_notes(() if plan is None else plan.doubts)
    reasons, notes = from_json(about["reasons"]), [*of_plan, *(scale.notes if scale else ())]
    if about["status"] == "failed":
        return "failed", [*doubts, *reasons, *check_roles(bright_field)], notes
    if scale is not None:
        if scale.status == "failed":
            return "failed", [*doubts, *scale.reasons], notes
        reasons += scale.reasons
    if detection is not None and not bright_field:  # a note says why nothing is searched there
        reasons += _search_warnings(detection)
        notes += from_json(detection.get("notes", ()))
    reasons = doubts or list(dict.fromkeys(reasons))  # all others follow from doubts of the plan
    return ("suspect" if reasons or about["status"] == "suspect" else "ok"), reasons, notes


def _search_warnings(detection: Mapping[str, Any]) -> list[str]:
    if detection["status"] == "failed":
        return [f"Candidates were not looked for: {detection['reason']}"]
    used = [control["reason"] is None for control in detection.get("controls") or ()]
    unused = [explain("no_control")] if used and not any(used) else []
    return [*from_json(detection.get("reasons", ())), *unused]
