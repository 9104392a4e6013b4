"""The corrected slide: every marker without its background, in one image of all channels."""

from __future__ import annotations

import logging
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError
from unglow.core.files import ask_to_publish, write_text
from unglow.io.tiff.metadata import OmeChannel
from unglow.io.tiff.tiles import OmeTiffSink
from unglow.io.zarr.ome_zarr_sink import OmeZarrSink
from unglow.jobs.memory_limit import is_memory_failure
from unglow.multiplexed.results import (
    MarkerOverview,
    MarkerSubtraction,
    SlideRecord,
    Subtraction,
    load_records,
    load_scales,
    save_overviews,
    save_residues,
)
from unglow.multiplexed.sink import Sinks, colours, write_markers_corrected
from unglow.multiplexed.subtract import subtract_slide, write_order
from unglow.photometry.gain_map import GainMap
from unglow.workflow.paths import CORRECTED, ROOT
from unglow.workflow.stages.plan import files_of_slide, without_directories

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from unglow.multiplexed.sink import PlaneSink
    from unglow.multiplexed.slide import Maps, Slide
    from unglow.multiplexed.subtract import Subtracted
    from unglow.photometry.gain.scale import Scale
    from unglow.workflow.slides import KnownSlide

# Shares of px that are darker than black and than white.
_SHOWN = (0.01, 0.999)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Choice:
    """How a slide is subtracted: ``dtype`` (``input`` or ``float32``) and ``rounding``."""

    dtype: str
    rounding: str

    def dtype_of(self, known: KnownSlide) -> str:
        """Return the type of the corrected samples."""
        return known.headers[0].dtype if self.dtype == "input" else self.dtype


def subtract(
    known: KnownSlide,
    maps: Maps,
    inputs: Mapping[str, Path],
    targets: Mapping[str, Path],
    choice: Choice,
    *,
    workers: int,
    channels_at_a_time: int,
) -> None:
    """Write the corrected slide and what is told of it.

    Of a slide that was refused, or whose images cannot be read any more, only small files are
    written, with the reason, and an empty file in the place of each image (`remove_placeholders`).

    Raises
    ------
    ChangedError
        An image was changed or replaced since the slide was measured.
    """
    record = SlideRecord.load(inputs["slide"])
    scales = _read_scales(known.slide, inputs)
    files = files_of_slide(known.headers, record.fingerprints)
    left: dict[str, Subtracted] = {}
    reason = record.reason
    try:
        if reason is None:
            with ExitStack() as stack:
                sink = _sink(stack, known, targets, choice.dtype_of(known), workers)
                left = subtract_slide(
                    known.slide,
                    known.headers,
                    maps,
                    scales,
                    sink,
                    dtype=choice.dtype_of(known),
                    rounding=choice.rounding,
                    workers=workers,
                    channels_at_a_time=channels_at_a_time,
                )
                for file in files:
                    file.check()
    except InputError as error:
        if is_memory_failure(error):  # no fault of the file
            raise
        log.warning("%s", error)
        reason = without_directories(str(error), *known.headers)
    _write(known, scales, left, targets, choice, reason)


def _read_scales(slide: Slide, inputs: Mapping[str, Path]) -> dict[str, Scale]:
    """Return the scale of each marker with its gain map; none of a slide that was refused."""
    found = load_scales(inputs["scale"])
    lights = load_records(inputs["gain_maps"], GainMap, len(slide.markers))
    scales = {}
    for marker, light in zip(slide.markers, lights, strict=True):
        if marker.name in found:
            scales[marker.name] = _with_light(found[marker.name].scale, light)
    return scales


def _with_light(scale: Scale, light: GainMap | None) -> Scale:
    """Return a scale whose method with a gain map has it."""
    methods = {
        name: replace(one, gain_map=light) if one.details.get("gain_map") else one
        for name, one in scale.methods.items()
    }
    return replace(scale, methods=methods)


def _sink(
    stack: ExitStack, known: KnownSlide, targets: Mapping[str, Path], dtype: str, workers: int
) -> PlaneSink:
    """Open the images that are to be written, until the stack is closed."""
    slide = known.slide
    channels = [
        OmeChannel(one.name, colour, one.exposure)
        for one, colour in zip(slide.kept, colours(slide), strict=True)
    ]
    about = known.shape, dtype, channels
    size = known.headers[0].pixel_size_um
    in_order = partial(OmeTiffSink, order=write_order(slide))
    kinds: dict[str, Callable[..., Any]] = {"tiff": in_order, "zarr": OmeZarrSink}
    return Sinks(
        [
            stack.enter_context(
                kind(path, *about, name=slide.name, pixel_size_um=size, workers=workers)
            )
            for path, kind in ((image, kinds[form]) for form, image in _images(targets).items())
        ]
    )


def _images(targets: Mapping[str, Path]) -> dict[str, Path]:
    """Return the corrected images that are asked for, by form; of a store, its directory."""
    images = {form: targets[form] for form in CORRECTED if form in targets}
    return {k: path.parent if path.name == ROOT else path for k, path in images.items()}


def _write(
    known: KnownSlide,
    scales: Mapping[str, Scale],
    left: Mapping[str, Subtracted],
    targets: Mapping[str, Path],
    choice: Choice,
    reason: str | None,
) -> None:
    """Write what is told of the corrected slide; of a refused one, with stumps of images."""
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
            "gain": scales[name].default_result.gain,
            "offset": scales[name].default_result.offset,
            "method": scales[name].default,
            "clipped": markers[name].clipped,
        }
        for name in left
    }
    rows = known.slide.kept if images else ()
    write_markers_corrected(targets["markers"], rows, about, known.own_cells)
    save_residues(targets["residues"], [one.histogram for one in left.values()])
    overviews = [MarkerOverview(one.before, one.background, one.after) for one in left.values()]
    save_overviews(targets["overviews"], overviews, next((o.step for o in left.values()), 1))
    names = tuple(path.name for path in images.values())
    subtraction = Subtraction(choice.dtype_of(known), choice.rounding, names, markers, reason)
    subtraction.save(targets["subtraction"])


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
