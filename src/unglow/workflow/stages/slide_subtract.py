"""The corrected slide: every marker without its background, in one image of all channels."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError
from unglow.io.tiff.ome_tiff_sink import OmeTiffSink
from unglow.io.tiff.ome_xml import OmeChannel
from unglow.jobs.memory_limit import is_memory_failure
from unglow.multiplexed.results import (
    MarkerOverview,
    MarkerSubtraction,
    SlideRecord,
    Subtraction,
    load_scales,
    save_overviews,
    save_residues,
)
from unglow.multiplexed.saved_markers import load_records
from unglow.multiplexed.subtract import subtract_slide
from unglow.photometry.gain_map import GainMap
from unglow.workflow.stages.plan import without_directories
from unglow.workflow.stages.raw_file import RawFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.core.windows import Window
    from unglow.multiplexed.slide import Maps, Slide
    from unglow.multiplexed.subtract import Subtracted
    from unglow.photometry.gain.scale import Scale
    from unglow.workflow.slides import KnownSlide

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Choice:
    """How a slide is subtracted: ``dtype`` (``input`` or ``float32``) and ``rounding``."""

    dtype: str
    rounding: str

    def dtype_of(self, known: KnownSlide) -> str:
        """Return the type of the corrected samples."""
        return known.headers[0].dtype if self.dtype == "input" else self.dtype


class _Both:
    """A sink that hands every window to others, which take the same windows."""

    def __init__(self, sinks: Sequence[Any]) -> None:
        self._sinks, self.window = sinks, sinks[0].window

    def write(self, channel: int, window: Window, pixels: NDArray[Any]) -> None:
        """Hand a window on."""
        for sink in self._sinks:
            sink.write(channel, window, pixels)


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

    Of a slide that was refused, or whose images cannot be read any more, empty files are written,
    with the reason.

    Raises
    ------
    ChangedError
        An image was changed or replaced since the slide was measured.
    """
    record = SlideRecord.load(inputs["slide"])
    scales = _read_scales(known.slide, inputs)
    files = [RawFile(*one) for one in zip(known.headers, record.fingerprints, strict=True)]
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
) -> Any:
    """Open the images that are to be written, until the stack is closed."""
    channels = [OmeChannel(one.name, None, one.exposure) for one in known.slide.kept]
    size = known.headers[0].pixel_size_um
    kinds = {"tiff": OmeTiffSink}
    sinks = [
        stack.enter_context(
            kind(targets[form], known.shape, dtype, channels, pixel_size_um=size, workers=workers)
        )
        for form, kind in kinds.items()
        if form in targets
    ]
    return sinks[0] if len(sinks) == 1 else _Both(sinks)


def _write(
    known: KnownSlide,
    scales: Mapping[str, Scale],
    left: Mapping[str, Subtracted],
    targets: Mapping[str, Path],
    choice: Choice,
    reason: str | None,
) -> None:
    markers = {
        name: MarkerSubtraction(scales[name].default, one.below, one.above, (0.0, 1.0))
        for name, one in left.items()
    }
    images = tuple(targets[form].name for form in ("tiff", "zarr") if form in targets)
    Subtraction(choice.dtype_of(known), choice.rounding, images, markers, reason).save(
        targets["subtraction"]
    )
    save_residues(targets["residues"], [one.histogram for one in left.values()])
    overviews = [MarkerOverview(one.before, one.background, one.after) for one in left.values()]
    save_overviews(targets["overviews"], overviews, next((o.step for o in left.values()), 1))
