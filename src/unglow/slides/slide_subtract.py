"""The corrected slide: every marker without its background, in one image of all channels."""

from __future__ import annotations

import logging
import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.archive import load_arrays, make_damage_error, save_arrays, select_arrays
from unglow.core.errors import InputError
from unglow.core.files import ask_to_publish, open_file, read_json, write_json, write_text
from unglow.core.progress import progress
from unglow.core.windows import grid, map_bounded
from unglow.images.raw_file import files_of_slide, remove_directories
from unglow.images.tiff.metadata import OmeChannel
from unglow.images.tiff.tiles import TILE, OmeTiffSink, TileTable, decode_tile
from unglow.images.zarr.layout import DOCUMENT
from unglow.images.zarr.ome_zarr_sink import OmeZarrSink
from unglow.jobs.memory_limit import is_memory_failure
from unglow.photometry.difference_histogram import DifferenceHistogram
from unglow.photometry.imaging import GainMap
from unglow.results.slide_files import (
    MarkerOverview,
    MarkerSubtraction,
    SlideRecord,
    Subtraction,
    load_records,
    load_scales,
    save_overviews,
    save_residues,
    usable,
)
from unglow.slides.marker_tables import write_markers_corrected
from unglow.slides.slide import choose_colours
from unglow.slides.subtract import Sinks, nothing_left, subtract_slide
from unglow.workflow.stage_table import CORRECTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from unglow.core.arrays import Array
    from unglow.core.windows import Window
    from unglow.images.slide_plan import KnownSlide, Slide
    from unglow.photometry.gain.scale import MethodResult, Scale
    from unglow.slides.slide import Maps
    from unglow.slides.subtract import PlaneSink, Subtracted

# Shares of px that are darker than black and than white.
_SHOWN = (0.01, 0.999)

# What is left of a marker in a part, and the most that it may take.
_VIEWS = ("before", "background", "after")
_MOST_BYTES = 2e9

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Choice:
    """How a slide is subtracted: ``dtype`` (``input`` or ``float32``) and ``rounding``."""

    dtype: str
    rounding: str


@dataclass(frozen=True, slots=True)
class Part:
    """What a job made of a band of rows: tiles, what was counted, and why nothing was, if so."""

    tiles: Path
    counts: Path
    state: Path
    band: range


@dataclass(frozen=True, eq=False, slots=True)
class Work:
    """A slide that is to be subtracted, as all jobs of it see it.

    Attributes
    ----------
    known
        The slide without channels of cycles that have no map; ``left_out`` has the reasons.
    maps, scales
        Of its cycles and markers.
    choice
        How it is subtracted.
    """

    known: KnownSlide
    maps: Maps
    scales: Mapping[str, Scale]
    choice: Choice
    record: SlideRecord
    left_out: Mapping[str, str]

    @classmethod
    def read(
        cls, known: KnownSlide, maps: Maps, inputs: Mapping[str, Path], choice: Choice
    ) -> Work:
        """Read what was measured of a slide."""
        record = SlideRecord.load(inputs["slide"])
        scales = _read_scales(known.slide, inputs)
        slide, left_out = usable(known.slide, record.cycles)
        return cls(replace(known, slide=slide), maps, scales, choice, record, left_out)

    @property
    def dtype(self) -> str:
        """Type of the corrected samples."""
        return self.known.dtype if self.choice.dtype == "input" else self.choice.dtype

    def write(
        self, sink: PlaneSink, *, workers: int, channels_at_a_time: int, band: range | None = None
    ) -> dict[str, Subtracted]:
        """Write all windows, or those of a band, into a sink; return what is left of each marker.

        InputError for an image that cannot be read, ChangedError for one that was replaced.
        """
        known = self.known
        left = subtract_slide(
            known.slide,
            known.headers,
            self.maps,
            self.scales,
            sink,
            dtype=self.dtype,
            rounding=self.choice.rounding,
            workers=workers,
            channels_at_a_time=channels_at_a_time,
            band=band,
        )
        for file in files_of_slide(known.headers, self.record.fingerprints):
            file.check()
        return left

    def refusal(self, error: InputError) -> str:
        """Return the reason that an image which cannot be read is; raise what is no fault of it."""
        if is_memory_failure(error):
            raise error
        log.warning("%s", error)
        return remove_directories(str(error), *self.known.headers)

    def join(
        self,
        parts: Sequence[Part],
        tiff: OmeTiffSink | None,
        others: PlaneSink | None,
        workers: int,
    ) -> dict[str, Subtracted]:
        """Put parts together: tiles as they are, and other images from their pixels."""
        known = self.known
        left = nothing_left(known.slide, known.headers, self.scales)
        shapes = OmeTiffSink.shapes_of(known.shape, self.dtype, len(known.slide.kept))
        for n, part in enumerate(parts):
            tables = load_part(part, left, shapes)
            if tiff is not None:
                tiff.add_part(part.tiles, tables, part.band)
            if others is not None:
                self._hand_over(part, tables, others, workers)
            progress(n + 1, len(parts), "part")
        return left

    def _hand_over(
        self, part: Part, tables: Sequence[TileTable], sink: PlaneSink, workers: int
    ) -> None:
        """Write the windows of a part into a sink, read back from its tiles at full resolution."""
        full = tables[:: len(tables) // len(self.known.slide.kept)]
        rows = (w for w in grid(self.known.shape, (sink.window,) * 2) if w.y0 in part.band)
        items = ((window, n) for window in rows for n in range(len(full)))
        with open_file(part.tiles) as file:

            def write(item: tuple[Window, int]) -> None:
                window, channel = item
                pixels = np.empty(window.shape, self.dtype)
                for inner in grid(window.shape, (TILE, TILE)):
                    at = (window.y0 + inner.y0) // TILE, (window.x0 + inner.x0) // TILE
                    size, offset = full[channel].sizes[at], full[channel].offsets[at]
                    stored = os.pread(file.fileno(), int(size), int(offset))
                    rows, cols = inner.shape
                    pixels[inner.slices] = decode_tile(stored, pixels.dtype)[:rows, :cols]
                sink.write(channel, window, pixels)

            for _ in map_bounded(write, items, workers):
                pass


def subtract_part(work: Work, targets: Part, *, workers: int, channels_at_a_time: int) -> None:
    """Write a band of rows of the corrected slide; of one that cannot be read, the reason alone."""
    reason = work.record.reason
    try:
        if reason is None:
            about = _about(work)
            with OmeTiffSink(targets.tiles, **about, workers=workers, band=targets.band) as sink:
                left = work.write(
                    sink, workers=workers, channels_at_a_time=channels_at_a_time, band=targets.band
                )
                save_part(targets, left, sink.tables)
    except InputError as error:
        reason = work.refusal(error)
    if reason is not None:
        for path in (targets.tiles, targets.counts):
            write_text(path, "")
    write_json(targets.state, {"reason": reason})


def subtract(
    work: Work,
    targets: Mapping[str, Path],
    parts: Sequence[Part] = (),
    *,
    workers: int,
    channels_at_a_time: int,
) -> None:
    """Write the corrected slide, or join its parts, and its small files.

    Of a slide that was refused, or whose images cannot be read any more, only small files are
    written, with the reason, and an empty file in the place of each image (`remove_placeholders`).

    Raises
    ------
    ChangedError
        An image was changed or replaced since the slide was measured.
    """
    left: dict[str, Subtracted] = {}
    reasons = (work.record.reason, *(read_json(one.state)["reason"] for one in parts))
    reason = next(filter(None, reasons), None)
    try:
        if reason is None:
            with ExitStack() as stack:
                sinks = _sinks(stack, work, targets, workers)
                if parts:
                    others = {form: one for form, one in sinks.items() if form != "tiff"}
                    left = work.join(parts, sinks.get("tiff"), others.get("zarr"), workers=workers)
                else:
                    left = work.write(
                        Sinks([*sinks.values()]),
                        workers=workers,
                        channels_at_a_time=channels_at_a_time,
                    )
    except InputError as error:
        reason = work.refusal(error)
    _write(work, left, targets, reason)


def _read_scales(slide: Slide, inputs: Mapping[str, Path]) -> dict[str, Scale]:
    """Return the scale of each marker with its gain map; none of a slide that was refused."""
    found = load_scales(inputs["scale"])
    lights = load_records(inputs["gain_maps"], GainMap, len(slide.markers))
    scales = {}
    for marker, light in zip(slide.markers, lights, strict=True):
        if marker.name in found:
            scales[marker.name] = _set_light(found[marker.name].scale, light)
    return scales


def _set_light(scale: Scale, light: GainMap | None) -> Scale:
    """Return a scale whose method with a gain map has it."""
    methods = {
        name: replace(one, gain_map=light) if one.details.get("gain_map") else one
        for name, one in scale.methods.items()
    }
    return replace(scale, methods=methods)


def _about(work: Work) -> dict[str, Any]:
    """Return what a sink of any form is opened with."""
    known = work.known
    channels = [
        OmeChannel(one.name, colour, one.exposure)
        for one, colour in zip(known.slide.kept, choose_colours(known.slide), strict=True)
    ]
    return {
        "shape": known.shape,
        "dtype": work.dtype,
        "channels": channels,
        "name": known.slide.name,
        "pixel_size_um": known.frame_header.pixel_size_um,
    }


def _sinks(
    stack: ExitStack, work: Work, targets: Mapping[str, Path], workers: int
) -> dict[str, Any]:
    """Open the images that are to be written, until the stack is closed, by form."""
    opened: dict[str, Any] = {}
    for form, path in _images(targets).items():
        kind: type[OmeTiffSink | OmeZarrSink] = OmeTiffSink if form == "tiff" else OmeZarrSink
        opened[form] = stack.enter_context(kind(path, **_about(work), workers=workers))
    return opened


def _images(targets: Mapping[str, Path]) -> dict[str, Path]:
    """Return the corrected images that are asked for, by form; of a store, its directory."""
    images = {form: targets[form] for form in CORRECTED if form in targets}
    return {k: path.parent if path.name == DOCUMENT else path for k, path in images.items()}


def _write(
    work: Work, left: Mapping[str, Subtracted], targets: Mapping[str, Path], reason: str | None
) -> None:
    """Write the record of the corrected slide; for a refused one, with empty images."""
    scales, choice = work.scales, work.choice
    markers = {
        name: MarkerSubtraction(scales[name].default, one.below, one.above, _levels(one))
        for name, one in left.items()
    }
    images = _images(targets)
    if reason is not None:
        _write_stumps(images, targets)
        images = {}
    about = {
        name: {
            "gain": _gains(scales[name].default_result),
            "offset": scales[name].default_result.offset,
            "method": scales[name].default,
            "clipped": markers[name].clipped,
        }
        for name in left
    }
    rows = work.known.slide.kept if images else ()
    write_markers_corrected(targets["markers"], rows, about, work.known.own_cells)
    save_residues(targets["residues"], [one.histogram for one in left.values()])
    overviews = [MarkerOverview(one.before, one.background, one.after) for one in left.values()]
    save_overviews(targets["overviews"], overviews, next((o.step for o in left.values()), 1))
    names = tuple(path.name for path in images.values())
    about_image = work.dtype, choice.rounding, names
    Subtraction(*about_image, markers, reason, dict(work.left_out)).save(targets["subtraction"])


def _gains(result: MethodResult) -> float | str | None:
    """Return the gain, or those of several backgrounds separated by semicolons."""
    several = result.details.get("gains")
    return ";".join(str(one["gain"]) for one in several.values()) if several else result.gain


def _write_stumps(images: Mapping[str, Path], targets: Mapping[str, Path]) -> None:
    """Put an empty file in the place of each image; nothing of an earlier one stays."""
    for form, image in images.items():
        if image.is_dir():
            ask_to_publish()
            shutil.rmtree(image)
        write_text(targets[form], "")


def _levels(left: Subtracted) -> tuple[float, float]:
    """Return the grey levels that viewers begin with: without the darkest and brightest px."""
    low, high = (left.histogram.quantile(q) for q in _SHOWN)
    return max(0.0, low), max(1.0, high)


def save_part(part: Part, left: Mapping[str, Subtracted], tables: Sequence[TileTable]) -> None:
    """Write what a part leaves next to its tiles."""
    arrays: dict[str, Array] = {}
    for n, one in enumerate(left.values()):
        rows = slice(part.band.start // one.step, -(-part.band.stop // one.step))
        arrays |= {f"v{n}_{view}": getattr(one, view)[rows] for view in _VIEWS}
        arrays[f"n{n}"] = np.array([one.below_px, one.above_px])
    for n, table in enumerate(tables):
        arrays[f"o{n}"], arrays[f"s{n}"] = table.offsets, table.sizes
    histograms = {f"m{n}": one.histogram.content() for n, one in enumerate(left.values())}
    save_arrays(part.counts, arrays, histograms, level=1)


def load_part(
    part: Part, left: Mapping[str, Subtracted], shapes: Iterable[tuple[int, int]]
) -> list[TileTable]:
    """Add what a part left to that of others; return its tables, of levels of these shapes.

    StoreError if the file is damaged.
    """
    arrays = load_arrays(part.counts, _MOST_BYTES)
    try:
        for n, one in enumerate(left.values()):
            rows = slice(part.band.start // one.step, -(-part.band.stop // one.step))
            for view in _VIEWS:
                getattr(one, view)[rows] = arrays[f"v{n}_{view}"]
            own = select_arrays(arrays, f"m{n}")
            one.histogram.merge(DifferenceHistogram.read(own, part.counts))
            below, above = arrays[f"n{n}"].tolist()
            one.below_px += below
            one.above_px += above
        tables = [TileTable(shape) for shape in shapes]
        for n, table in enumerate(tables):
            table.offsets[:], table.sizes[:] = arrays[f"o{n}"], arrays[f"s{n}"]
    except (KeyError, ValueError) as error:
        raise make_damage_error(part.counts) from error
    return tables
