"""Results of a pair, or of a variant of one, and its images as zarr arrays.

What was published may lack most files, so each is looked for when it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core import digests
from unglow.core.errors import InputError, UnglowError
from unglow.core.levels import PAIR, RESULT_OF, variants_in
from unglow.core.reasons import Reason, explain, from_json, split_notes
from unglow.images.artefacts import ARTEFACTS, SavedPlace, read_places
from unglow.images.detection_results import read_candidates, read_report
from unglow.images.pair_plan import Plan
from unglow.images.zarr import open_store
from unglow.images.zarr.layout import DOCUMENT
from unglow.photometry.arrays import as_arrays
from unglow.photometry.difference import open_difference
from unglow.photometry.gain.bright_field import check_roles
from unglow.photometry.gain.scale import Scale
from unglow.photometry.imaging import GAIN_MAP
from unglow.transform.transform import from_content, read_content

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from zarr import Array

    from unglow.transform import Transform

STAGE_FILES = (*RESULT_OF.values(), "candidates.csv")
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
        thumbnails = import_module("unglow.pages.report.thumbnails")  # above in the import order
        row = dict(zip(PAIR, self.names, strict=False)) | {"status": self.state}
        row |= dict(variants_in(self.pair)).get(self.directory, {})
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
        return Plan.load(self.path(RESULT_OF["ingestion"]))

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
        return Scale.load(path, path.parent / GAIN_MAP)

    @cached_property
    def detection(self) -> dict[str, Any]:
        """Content of detection.json, with threshold, false discovery, spoilt share."""
        return read_report(self.path(RESULT_OF["detection"]))

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
        return read_places(self.path(ARTEFACTS))

    @property
    def figures(self) -> dict[str, Path]:
        """PNG files by name."""
        found = [path for place in self.places for path in place.glob("figures/*.png")]
        return {path.stem: path for path in reversed(found)}

    @property
    def post(self) -> Array[Any]:
        """The image after staining, as it was read."""
        return self.levels("post")[0]

    @property
    def pre(self) -> Array[Any]:
        """The image before staining, in its own frame, as it was read."""
        return self.levels("pre")[0]

    @property
    def aligned_pre(self) -> Array[Any]:
        """The image before staining in the frame of post; NaN outside of it."""
        return self.levels("aligned_pre")[0]

    def difference(self, method: str | None = None) -> Array[Any]:
        """Return the difference by a scale method, or the default one, written or computed."""
        return self.levels("difference", method)[0]

    def levels(self, name: str, method: str | None = None) -> list[Array[Any]]:
        """Return all levels of an image by its name, the full resolution first.

        Those of a store are read by zarr; all of its shards are there as it is opened. UnglowError,
        which names the file, if one is missing.
        """
        if name == "difference":
            image = open_difference(self.path("scale.json").parent, method)
        else:
            image = open_store(self.path(f"{name}{_STORE}/{DOCUMENT}").parent)
        return as_arrays(image)

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
        """Return the roots of the difference images, ``difference.ome.zarr/zarr.json`` first."""
        paths = [p for place in self.places for p in place.glob(f"difference*{_STORE}/{DOCUMENT}")]
        names = {"/".join(path.parts[-2:]) for path in paths}
        listed = {n for n in self._listed if n.startswith("difference") and n.endswith(DOCUMENT)}
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
    reasons, of_map = split_notes(from_json(about["reasons"]))
    notes = [*of_plan, *of_map, *(scale.notes if scale else ())]
    if about["status"] == "failed":
        return "failed", [*doubts, *reasons, *check_roles(bright_field)], notes
    if scale is not None:
        if scale.status == "failed":
            return "failed", [*doubts, *scale.reasons], notes
        reasons += scale.reasons
    is_explained = any(isinstance(one, Reason) and one.key == "pre_dark_end" for one in reasons)
    if detection is not None and not bright_field:  # a note says why nothing is searched there
        reasons += [] if is_explained else _search_warnings(detection)
        notes += from_json(detection.get("notes", ()))
    reasons = doubts or list(dict.fromkeys(reasons))  # all others follow from doubts of the plan
    return ("suspect" if reasons or about["status"] == "suspect" else "ok"), reasons, notes


def _search_warnings(detection: Mapping[str, Any]) -> list[str]:
    if detection["status"] == "failed":
        return [f"Candidates were not looked for: {detection['reason']}"]
    used = [control["reason"] is None for control in detection.get("controls") or ()]
    unused = [explain("no_control")] if used and not any(used) else []
    return [*from_json(detection.get("reasons", ())), *unused]
