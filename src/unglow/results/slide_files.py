"""The small files of a slide: what was planned, measured and subtracted, written and read again.

Paths of images are kept as names alone: results do not depend on where a slide lies.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
import numpy as np

from unglow.core.archive import (
    check_sizes,
    load_arrays,
    make_damage_error,
    open_archive,
    save_arrays,
    select_arrays,
)
from unglow.core.files import write_json
from unglow.core.reasons import Sentence  # noqa: TC001 (msgspec reads the type)
from unglow.core.records import RecordError, read_record, to_plain, to_record
from unglow.images.slide_plan import Channel, Slide
from unglow.photometry.difference_histogram import DifferenceHistogram
from unglow.photometry.gain.scale import Scale

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from unglow.core.archive import Saved
    from unglow.core.arrays import Floats32

    Record = TypeVar("Record", bound=Saved)


_VERSION = 1

SUBTRACTION, RESIDUES, OVERVIEWS = (
    f"details/{name}" for name in ("subtraction.json", "residues.npz", "overviews.npz")
)
"""Where they are from the directory of a slide."""


class _Head(msgspec.Struct):
    version: Literal[1]
    reason: str | None


class _Image(msgspec.Struct):
    name: str
    fingerprint: str


class _Share(msgspec.Struct):
    share: float


class _Spoilt(msgspec.Struct):
    share: float
    places: int
    by_reason: dict[str, _Share]


class _Slide(_Head):
    """What ``slide.json`` holds."""

    shape: tuple[int, int]
    dtype: str
    pixel_size_um: tuple[float, float] | None
    images: list[_Image]
    channels: tuple[Channel, ...]
    registered_on: dict[int, str]
    reference: int | None = None
    cycles: dict[int, CycleState] = msgspec.field(default_factory=dict)


class _Marker(msgspec.Struct):
    """What ``scale.json`` of a slide holds of a marker in addition to its scale."""

    expected_gain: float | None
    residual_px: tuple[float, float] | None
    residual_error_px: float | None
    blocks: int


class _Scales(_Head):
    markers: dict[str, dict[str, Any]]


_KINDS = ("before", "background", "after")
# Bytes of a file's name, with room for its ending, for a number and for temporary files.
_LONGEST_FILE_NAME = 200
SLIDE_FIGURE = "slide.png"
"""The figure of all markers side by side."""


@dataclass(frozen=True, slots=True)
class CycleState:
    """What became of a cycle that was brought into the frame of the slide.

    Attributes
    ----------
    status, reasons
        ``ok``, ``suspect`` or ``failed``, and why: of its map, and of loops that do not close.
    loop_px
        95th percentile of how far loops with each neighbouring cycle miss, px; None for none.
    spoilt
        What is spoilt of the section in it (`unglow.spoilt.outlines.report`); None if not known.
    """

    status: str
    reasons: tuple[Sentence, ...] = ()
    loop_px: dict[str, float | None] | None = None
    spoilt: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SlideRecord:
    """A slide as ``slide.json`` describes it.

    Attributes
    ----------
    slide
        Its channels; of its images only the names.
    shape, dtype
        (rows, columns) of its frame, px, and the type that holds the samples of all images.
    pixel_size_um
        (x, y), micrometres; None if not known.
    fingerprints
        Of the images, in their order.
    reason
        Why the slide was refused; None if it was not.
    cycles
        What is known of each cycle that was brought into the frame.
    """

    slide: Slide
    shape: tuple[int, int]
    dtype: str
    pixel_size_um: tuple[float, float] | None
    fingerprints: tuple[str, ...]
    reason: str | None = None
    cycles: Mapping[int, CycleState] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write ``slide.json``."""
        slide = self.slide
        images = zip(slide.images, self.fingerprints, strict=True)
        content: dict[str, Any] = {
            "shape": list(self.shape),
            "dtype": self.dtype,
            "pixel_size_um": self.pixel_size_um and list(self.pixel_size_um),
            "images": [{"name": image.name, "fingerprint": print_} for image, print_ in images],
            "channels": to_plain(slide.channels),
            "registered_on": {str(cycle): name for cycle, name in slide.registered_on.items()},
        }
        if self.cycles:
            content["reference"] = slide.frame_cycle
            content["cycles"] = {str(cycle): to_plain(one) for cycle, one in self.cycles.items()}
        _write(path, self.reason, content)

    @classmethod
    def load(cls, path: Path) -> SlideRecord:
        """Read ``slide.json``; StoreError if it is damaged."""
        try:
            stored = read_record(path, _Slide)
            for one in stored.cycles.values():
                to_record(one.spoilt, _Spoilt | None)
        except RecordError as error:
            raise make_damage_error(path, error) from error
        slide = Slide(
            path.absolute().parent.name,
            tuple(Path(image.name) for image in stored.images),
            stored.channels,
            stored.registered_on,
            stored.reference,
        )
        prints = tuple(image.fingerprint for image in stored.images)
        about = stored.shape, stored.dtype, stored.pixel_size_um, prints, stored.reason
        return cls(slide, *about, stored.cycles)


def usable(slide: Slide, states: Mapping[int, CycleState]) -> tuple[Slide, dict[str, str]]:
    """Return a slide without what failed: channels of cycles without a map are removed.

    And the reason for each of those that would be kept. A marker that lacks some of several
    backgrounds keeps the others.
    """
    failed = {
        cycle: " ".join(one.reasons) for cycle, one in states.items() if one.status == "failed"
    }
    lost = {one.name for one in slide.channels if one.cycle in failed}
    left_out = {one.name: failed[one.cycle] for one in slide.kept if one.name in lost}
    channels = tuple(_drop_lost(one, lost) for one in slide.channels)
    return replace(slide, channels=channels), left_out


def _drop_lost(channel: Channel, lost: set[str]) -> Channel:
    if channel.name in lost:
        return replace(channel, background=None, removed=True)
    rest = tuple(name for name in channel.backgrounds if name not in lost)
    if len(rest) == len(channel.backgrounds) or not rest:
        return channel  # one that has lost all of them has no gain, and stays as it was imaged
    return replace(channel, background=rest[0] if len(rest) == 1 else rest)


@dataclass(frozen=True, slots=True)
class MarkerScale:
    """What was measured of a marker against its background, an entry of ``scale.json``.

    Attributes
    ----------
    scale
        Gain and offset by each method; failed where there is no map to its background.
    expected_gain
        Ratio of the exposure times; None if one is not known.
    residual_px, residual_error_px
        (x, y) by which the aligned background still lies off the marker, and its standard error,
        px; None where the two have too little in common.
    blocks
        Blocks that this was measured in.
    """

    scale: Scale
    expected_gain: float | None = None
    residual_px: tuple[float, float] | None = None
    residual_error_px: float | None = None
    blocks: int = 0


def save_scales(
    path: Path, slide: Slide, found: Mapping[str, MarkerScale], reason: str | None = None
) -> None:
    """Write ``scale.json`` of a slide; ``reason`` is why all of it was refused."""
    markers = {}
    for marker in slide.markers:
        if marker.name in found:
            own, moves = found[marker.name], [list(move) for move in slide.moves_of(marker)]
            markers[marker.name] = {
                "background": to_plain(marker.background),
                "move": moves[0] if moves else None,
                **({"moves": moves} if len(moves) > 1 else {}),
                "expected_gain": own.expected_gain,
                "residual_px": own.residual_px and list(own.residual_px),
                "residual_error_px": own.residual_error_px,
                "blocks": own.blocks,
                **own.scale.to_json(),
            }
    _write(path, reason, {"markers": markers})


def load_scales(path: Path) -> dict[str, MarkerScale]:
    """Read ``scale.json`` of a slide by marker; StoreError if it is damaged."""
    try:
        markers = read_record(path, _Scales).markers
        return {name: _marker_scale(one) for name, one in markers.items()}
    except RecordError as error:
        raise make_damage_error(path, error) from error


def _marker_scale(entry: Mapping[str, Any]) -> MarkerScale:
    own = to_record(entry, _Marker)
    rest = own.expected_gain, own.residual_px, own.residual_error_px, own.blocks
    return MarkerScale(Scale.from_json(entry), *rest)


@dataclass(frozen=True, slots=True)
class MarkerSubtraction:
    """What became of a marker, an entry of ``subtraction.json``.

    Attributes
    ----------
    method
        The scale method that it was subtracted by.
    below, above
        Shares (0 to 1) of its px that were clipped at 0 and at the end of the type.
    levels
        Grey levels that viewers begin with as black and white.
    """

    method: str
    below: float
    above: float
    levels: tuple[float, float]

    @property
    def clipped(self) -> float:
        """Share of its px that were clipped, 0 to 1."""
        return self.below + self.above


@dataclass(frozen=True, slots=True)
class Subtraction:
    """``subtraction.json``: how a slide was subtracted, and what became of each kept marker.

    Attributes
    ----------
    dtype, rounding
        Type of the corrected samples, and how they were rounded to it.
    images
        Names of the corrected images.
    markers
        By name, those that were subtracted.
    reason
        Why nothing was; None if it was not refused.
    left_out
        Channels that the corrected slide lacks because their cycle has no map, with the reason.
    """

    dtype: str
    rounding: str
    images: tuple[str, ...]
    markers: dict[str, MarkerSubtraction]
    reason: str | None = None
    left_out: dict[str, str] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write ``subtraction.json``."""
        about = {"dtype": self.dtype, "rounding": self.rounding, "images": list(self.images)}
        lacks = {"left_out": self.left_out} if self.left_out else {}
        _write(path, self.reason, {**about, "markers": to_plain(self.markers), **lacks})

    @classmethod
    def load(cls, path: Path) -> Subtraction:
        """Read ``subtraction.json``; StoreError if it is damaged."""
        try:
            content = read_record(path, dict[str, Any])
            to_record(content, _Head)
            return to_record(content, cls)
        except RecordError as error:
            raise make_damage_error(path, error) from error


def save_residues(path: Path, histograms: Sequence[DifferenceHistogram]) -> None:
    """Write ``residues.npz``: the differences of the markers of ``subtraction.json``, in order."""
    if not histograms:
        save_arrays(path, {})
        return
    first, *others = histograms
    first.save(path, {f"m{n}": one for n, one in enumerate(others, 1)})


def load_residues(path: Path, markers: Sequence[str]) -> dict[str, DifferenceHistogram]:
    """Read ``residues.npz`` by the names of the markers that it was written for, in their order."""
    found = DifferenceHistogram.load_all(path) if markers else {}
    keys = (f"m{n}" if n else None for n in range(len(markers)))
    try:
        return {name: found[key] for name, key in zip(markers, keys, strict=True)}
    except KeyError as error:
        raise make_damage_error(path) from error


@dataclass(frozen=True, eq=False, slots=True)
class MarkerOverview:
    """A marker made small, of ``overviews.npz``.

    Attributes
    ----------
    before, background, after
        (rows, columns) float32: the marker as it was imaged, its background as aligned, and the
        marker as it was corrected; NaN where there is no data.
    """

    before: Floats32
    background: Floats32
    after: Floats32


def save_overviews(path: Path, overviews: Sequence[MarkerOverview], step: float) -> None:
    """Write ``overviews.npz``; ``step`` is how many px of the slide one of theirs stands for."""
    arrays = {
        f"m{n}.{kind}": np.asarray(getattr(one, kind), np.float32)
        for n, one in enumerate(overviews)
        for kind in _KINDS
    }
    save_arrays(path, {"step": np.asarray(step, np.float64), **arrays}, level=1)


def overview_of(path: Path, n: int) -> tuple[MarkerOverview, float]:
    """Read the n-th marker of ``overviews.npz``, as `save_overviews` had them, and the step.

    Raises
    ------
    StoreError
        The file is damaged, or of other markers.
    """
    with open_archive(path) as archive:
        check_sizes(archive, math.inf)  # one is read of many
        own = [archive[f"m{n}.{kind}"] for kind in _KINDS]
        if any(one.dtype != np.float32 or one.shape != own[0].shape for one in own):
            raise make_damage_error(path)
        return MarkerOverview(*own), float(archive["step"])


def name_figure_files(markers: Iterable[str]) -> dict[str, str]:
    """Return the file name of each marker's figure, without characters that no file may have."""
    files: dict[str, str] = {}
    for name in markers:
        plain = re.sub(r"[^\w.+-]+", "_", name).strip("._") or "marker"
        plain = plain.encode()[:_LONGEST_FILE_NAME].decode(errors="ignore")
        taken = {*(one.lower() for one in files.values()), SLIDE_FIGURE}
        tried = (f"{plain}{end}.png" for end in ("", *(f"_{n}" for n in range(2, len(taken) + 3))))
        files[name] = next(file for file in tried if file.lower() not in taken)
    return files


def _write(path: Path, reason: str | None, content: Mapping[str, Any]) -> None:
    status = "ok" if reason is None else "failed"
    write_json(path, {"version": _VERSION, "status": status, "reason": reason, **content})


def save_records(path: Path, records: Sequence[Saved | None]) -> None:
    """Write an ``.npz`` of a record for each marker; of those that have none, nothing."""
    sets = {f"m{n}": one.content() for n, one in enumerate(records) if one is not None}
    save_arrays(path, {}, sets)


def load_records(path: Path, kind: type[Record], count: int) -> list[Record | None]:
    """Read what `save_records` wrote for a number of markers; StoreError if it is damaged."""
    arrays = load_arrays(path)
    each = (select_arrays(arrays, f"m{n}") for n in range(count))
    return [kind.read(own, path) if own else None for own in each]
