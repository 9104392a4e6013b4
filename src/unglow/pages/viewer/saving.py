"""Annotations that users make on a page: read from the files of a pair, and written into them.

The files themselves are those of `unglow.review` and, for landmarks, of the registration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError, UnglowError
from unglow.pages.report.live_answers import parse_object
from unglow.pages.viewer import hint_files
from unglow.pages.viewer.raw_files import why_not_writable
from unglow.pages.viewer.served_files import NoAddressError
from unglow.review import REGIONS, REVIEW
from unglow.review.counts import ReviewCounts
from unglow.review.decisions import Listed, Review, change_review
from unglow.review.regions import change_regions, read_collection, use_regions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from unglow.pages.viewer.hint_files import Target
    from unglow.pages.viewer.layers import Pair
    from unglow.pages.viewer.raw_files import RawFiles
    from unglow.pages.viewer.slide_layers import AnyLayers
    from unglow.transform.landmarks import Frame


class ReadOnlyError(UnglowError):
    """Nothing can be written where it would have to be."""


@dataclass(frozen=True, eq=False)
class UserAnnotations:
    """Decisions, regions and landmarks of users on a pair.

    Attributes
    ----------
    pair, layers
        The pair, or variant, and its images.
    raw
        Its raw files, looked for when they are needed.
    """

    pair: Pair
    layers: AnyLayers
    raw: Callable[[], RawFiles]

    @property
    def why_not(self) -> str:
        """Why nothing can be saved next to the results; empty if it can."""
        if self.pair.is_slide:
            return "For a slide, nothing can be saved here."
        files = self.pair.directory / REVIEW, self._regions_file
        whys = (why_not_writable(file, (self.pair.results,)) for file in files)
        return next(filter(None, whys), "")

    def read(self, name: str) -> Any:
        """Return one of the documents, as JSON types; NoAddressError if there is none."""
        made: dict[str, Callable[[], Any]] = {
            "review.json": lambda: self._review(Review.read(*self._review_files)),
            "regions.geojson": self._regions,
            "landmarks.json": self._landmarks,
        }
        if name not in made:
            raise NoAddressError(name)
        return made[name]()

    def write(self, name: str, body: bytes) -> Any:
        """Take what a page sends to an address, and return what it is answered, as JSON types.

        Raises
        ------
        NoAddressError
            Nothing can be sent to such an address.
        InputError
            What is sent is not what it should be.
        ReadOnlyError
            It cannot be saved.
        UnglowError
            It could not be written.
        """
        made = {
            "review": self._change_review,
            "regions": self._change_regions,
            "regions/use": self._use_regions,
            "landmarks/fit": self._fit_landmarks,
            "landmarks": self._save_landmarks,
        }
        if name not in made:
            raise NoAddressError(name)
        return made[name](parse_object(body))

    @property
    def _review_files(self) -> tuple[Path, Listed]:
        return self.pair.directory / REVIEW, self.layers.listed

    @property
    def _regions_file(self) -> Path:
        return self.pair.section / REGIONS

    def _check_writable(self) -> None:
        if self.why_not:
            raise ReadOnlyError(self.why_not)

    def _review(self, review: Review) -> dict[str, Any]:
        return {
            "decisions": review.to_json(),
            "counts": ReviewCounts.from_review(review).to_json(),
            "writable": not self.why_not,
            "why": self.why_not,
        }

    def _change_review(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        changes = _list(sent, "changes")
        self._check_writable()
        path, listed = self._review_files
        return self._review(change_review(path, changes, listed))

    def _change_regions(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        put, delete = _list(sent, "put"), _list(sent, "delete")
        self._check_writable()
        first, shape = self.raw().regions, self.layers.store("post").shape
        names = [str(name) for name in delete]
        change_regions(self._regions_file, put, names, first=first, shape=shape)
        return self._regions()

    def _regions(self) -> dict[str, Any]:
        raw, drawn = self.raw(), self._regions_file
        collection, counts = read_collection(drawn, raw.regions), {}
        if collection["features"]:
            review = Review.read(*self._review_files)
            counted, post = self.layers.counted, self.layers.store("post")
            counts = hint_files.count_regions(collection, drawn, review, counted, post)
        why = why_not_writable(drawn, (self.pair.results,))
        return hint_files.add_state(collection, why, raw, counts)

    def _use_regions(self, _: Mapping[str, Any]) -> dict[str, Any]:
        raw = self.raw()
        target = raw.regions_target
        if target is None:
            how = f"name {self._regions_file} in the column regions of {raw.sheet}."
            raise ReadOnlyError(
                raw.problem or f"With a sample sheet only what it names counts: {how}"
            )
        if why := why_not_writable(target, raw.places):
            raise ReadOnlyError(f"{why} Put {self._regions_file} in the place of {target}.")
        kept = use_regions(self._regions_file, target)
        return {"file": str(target), "command": raw.command, "kept": str(kept or "")}

    @property
    def _frames(self) -> tuple[Frame, Frame]:
        return self.layers.store("post"), self.layers.store("pre")

    def _target(self) -> Target:
        return hint_files.choose_target(self.raw(), self.pair.section)

    def _why_no_landmarks(self, target: Target) -> str:
        return why_not_writable(target.files[0], (self.pair.results, *self.raw().places))

    def _landmarks(self) -> dict[str, Any]:
        target = self._target()
        why = self._why_no_landmarks(target)
        points, problem = [], ""
        try:
            points = hint_files.read_points(self.raw(), target, *self._frames)
        except InputError as error:
            problem = str(error)
        return {
            "points": points,
            "problem": problem,
            "file": _named(target.files),
            "note": target.note,
            "writable": not why,
            "why": why,
        }

    def _fit_landmarks(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        points, scale = _list(sent, "points"), self.raw().max_scale
        return hint_files.fit(points, *self._frames, scale)

    def _save_landmarks(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        points, target = _list(sent, "points"), self._target()
        if why := self._why_no_landmarks(target):
            raise ReadOnlyError(why)
        kept = hint_files.save(points, target, *self._frames)
        return {
            "file": _named(target.files),
            "command": self.raw().command,
            "kept": _named(kept),
            "note": target.note,
        }


def _named(files: Iterable[Path]) -> str:
    return " and ".join(map(str, files))


def _list(sent: Mapping[str, Any], name: str) -> list[Any]:
    found = sent.get(name, [])
    if not isinstance(found, list):
        raise InputError(f"'{name}' has to be a list.")
    return found
