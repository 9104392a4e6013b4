"""The images of a slide: its corrected channels, and those as imaged where the raw images are."""

from __future__ import annotations

import colorsys
import weakref
from contextlib import ExitStack, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from unglow.core.errors import InputError, UnglowError
from unglow.core.records import to_plain
from unglow.core.windows import halve_stored
from unglow.detection.coarse_grid import estimate_error
from unglow.images.raw_file import fingerprint
from unglow.images.zarr import plan_layout
from unglow.pages.viewer.computed_stores import (
    SNR_LEVELS,
    ComputedStore,
    MadeStores,
    error_store,
    read_in_parts,
)
from unglow.pages.viewer.layers import GREY, PX, Layer, Registered, registration_model
from unglow.pages.viewer.raw_files import find_own_run, find_work
from unglow.pages.viewer.served_files import UNREADABLE
from unglow.registration.block_table import BLOCKS
from unglow.results.slide import SlideResults
from unglow.results.slide_files import SlideRecord, usable
from unglow.results.stack import find_stack, open_stack
from unglow.review.decisions import Listed
from unglow.slides.images import Frame, SlideReader
from unglow.slides.rules import read_slides
from unglow.slides.slide import choose_colours
from unglow.workflow.batch import find_pairs
from unglow.workflow.header_cache import CACHE, HeaderCache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.core.arrays import Floats32
    from unglow.core.windows import Window
    from unglow.images.slide_plan import Channel, KnownSlide, Slide
    from unglow.pages.viewer.layers import Layers, Pair
    from unglow.results.stack import StackImage
    from unglow.transform import Transform


class SlideLayers:
    """The layers of a slide, with what a page asks of those of a pair.

    Parameters
    ----------
    pair
        The slide, as an entry among pairs.
    """

    transform, scale = None, None

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._made = MadeStores()

    @property
    def listed(self) -> Listed:
        """The candidates of a slide: none."""
        return Listed.read(self._pair.directory / "candidates.csv")

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which of them are counted."""
        return np.zeros(0, np.bool_)

    @cached_property
    def _results(self) -> SlideResults:
        return SlideResults.read(self._pair.directory)

    @property
    def _record(self) -> SlideRecord:
        record = self._results.record
        if record is None:
            raise InputError(f"{self._pair.directory / 'slide.json'} has not been made.")
        return record

    @cached_property
    def detection(self) -> dict[str, Any] | None:
        """What is spoilt of the section: by cycle; None if that is not known."""
        with suppress(*UNREADABLE):
            known = {n: one.spoilt for n, one in self._record.cycles.items() if one.spoilt}
            shares = {str(n): one["share"] for n, one in known.items()}
            places = sum(one["places"] for one in known.values())
            return {"spoilt": {"places": places, "cycles": shares}} if known else None
        return None

    @cached_property
    def all(self) -> dict[str, Layer]:
        """The layers by name: corrected channels, channels as imaged, errors of maps."""
        layers: list[Layer] = []
        with suppress(*UNREADABLE):
            layers = [*self._corrected(), *self._imaged()]
            layers += self._errors() if layers else ()
        return {layer.name: layer for layer in layers}

    @cached_property
    def maps(self) -> dict[int, Transform | None]:
        """The maps from the frame by cycle; None for one that cannot be read."""
        maps: dict[int, Transform | None] = {}
        with suppress(*UNREADABLE):
            frame = self._record.slide.frame_cycle
            for move in self._results.maps:
                if move[0] == frame:
                    maps[move[1]] = None
                    with suppress(*UNREADABLE):
                        maps[move[1]] = self._results.maps[move]
        return maps

    @property
    def registered(self) -> dict[str, Registered]:
        """The registrations, by what the names of their files end with: ``-2`` for cycle 2."""
        place = self._pair.directory / "registration"
        frame = self._record.slide.frame_cycle if self.maps else None
        return {
            f"-{cycle}": Registered(found, place / f"{frame}-{cycle}" / BLOCKS)
            for cycle, found in self.maps.items()
        }

    def _errors(self) -> Iterator[Layer]:
        record = self._record
        for cycle, found in self.maps.items():
            if found is None or found.has_failed or estimate_error(found).is_flat:
                continue
            name = f"map_error-{cycle}"
            make = partial(error_store, found, record.shape, record.pixel_size_um)
            yield Layer(
                name,
                f"error of the map, cycle {cycle}",
                "error",
                PX,
                partial(self._made.get, name, make),
                computed=True,
                more={"cycle": cycle},
            )

    @cached_property
    def _stack(self) -> Path | None:
        return find_stack(self._pair.directory)

    @cached_property
    def _images(self) -> list[StackImage]:
        """The channels of the corrected slide."""
        images = [] if self._stack is None else open_stack(self._stack)
        if len(images) != len(self._slide.kept):
            raise InputError(f"{self._stack} has not the channels of slide.json: run it again.")
        return images

    @cached_property
    def _written_ns(self) -> int:
        """When the corrected slide was written, Unix time, ns."""
        stack = self._stack or self._pair.directory
        return (stack if stack.is_file() else stack / "zarr.json").stat().st_mtime_ns

    @cached_property
    def _slide(self) -> Slide:
        """The slide without what failed, whose kept channels are those of the stack."""
        return usable(self._record.slide, self._record.cycles)[0]

    def _corrected(self) -> Iterator[Layer]:
        if self._stack is None or self._record.reason is not None:
            return
        colours = choose_colours(self._slide)
        for n, (one, colour) in enumerate(zip(self._slide.kept, colours, strict=True)):
            name = f"corrected-{n}"
            make = partial(self._stack_store, name, n, one)
            yield self._layer(name, one.name, one, make, colour)

    def _stack_store(self, name: str, number: int, channel: Channel) -> ComputedStore:
        follows = {"file": "corrected", "time": self._written_ns, "channel": number}
        subtraction = self._results.subtraction
        own = None if subtraction is None else subtraction.markers.get(channel.name)
        window = None
        if own is not None:
            low, high = own.levels
            window = {"min": 0.0, "max": 65535.0, "start": low, "end": high}
        return self._kept(name, lambda: self._images[number], channel, follows, window)

    def _imaged(self) -> Iterator[Layer]:
        """Yield markers and their backgrounds as they were imaged; none without raw images."""
        if self._frame is None:
            return
        markers = self._slide.markers
        needed = {name for one in markers for name in one.backgrounds}
        for n, one in enumerate(self._slide.channels):
            if one.name in needed or one in markers:
                name = f"imaged-{n}"
                yield self._layer(
                    name,
                    f"{one.name}, as imaged",
                    one,
                    partial(self._imaged_store, name, one),
                    (255, 255, 255),
                    computed=True,
                )

    @cached_property
    def _frame(self) -> Frame | None:
        """The raw images in the frame; None without them or a map, or if they are others."""
        with suppress(*UNREADABLE):
            known = raw_slide(self._pair.results, self._pair.names[0])
            if known is None:
                return None
            prints = tuple(fingerprint(header) for header in known.headers)
            has_maps = self.maps.keys() >= {*self._slide.moved_cycles}
            if has_maps and prints == self._record.fingerprints:
                with ExitStack() as stack:  # the images are open until this is dropped
                    reader = stack.enter_context(SlideReader(known.headers))
                    weakref.finalize(self, stack.pop_all().close)
                return Frame(reader, self._slide, dict(self._results.maps))
        return None

    def _imaged_store(self, name: str, channel: Channel) -> ComputedStore:
        frame = self._frame
        if frame is None:
            raise InputError(f"The raw images of {self._pair.title} cannot be read any more.")
        follows = {
            "images": list(self._record.fingerprints),
            "channel": to_plain(channel),
            "maps": [one.to_dict() for one in self._results.maps.values()],
        }
        return self._kept(name, lambda: ImagedChannel(frame, channel), channel, follows, None)

    def _kept(
        self, name: str, make: Any, channel: Channel, follows: dict[str, Any], window: Any
    ) -> ComputedStore:
        """Return what gives the pixels of a layer, made once."""
        size = self._record.pixel_size_um
        return self._made.get(
            name, lambda: ComputedStore(make(), channel.name, follows, size, window)
        )

    def _layer(
        self,
        name: str,
        title: str,
        channel: Channel,
        make: Any,
        colour: tuple[int, int, int],
        *,
        computed: bool = False,
    ) -> Layer:
        more = {"colour": "#{:02x}{:02x}{:02x}".format(*colour), "cycle": channel.cycle}
        return Layer(name, title, "channel", GREY, make, computed=computed, more=more)

    def place_of(self, layer: Layer) -> str:  # noqa: ARG002 (as of a pair)
        """Return where below the results a layer belongs."""
        return self._pair.directory.relative_to(self._pair.results).as_posix()

    def store(self, name: str) -> ComputedStore:
        """Return what has shape and pixel size of the frame, as ``post``; InputError otherwise."""
        layer = next(iter(self.all.values()), None)
        if name != "post" or layer is None:
            raise InputError(f"a slide has no image {name}.")
        return layer.open()  # type: ignore[return-value]

    def about(self) -> dict[str, Any]:
        """Return what a page knows of a slide and not of a pair, as JSON types."""
        try:
            about = {"presets": self._presets(), "facts": self._facts()}
        except UNREADABLE:
            about = {"presets": [], "facts": {}}
        # of each of these cycles there are overlays
        return {"is_slide": True, "cycles": [*self.maps], **about}

    def _presets(self) -> list[dict[str, Any]]:
        """Return layers that everybody looks at together: each marker, and nuclei."""
        names = {layer.title: layer.name for layer in self.all.values()}
        slide = self._slide
        nuclei = dict(sorted(slide.registered_on.items()))
        frame = nuclei.pop(slide.frame_cycle, None)
        found: list[dict[str, Any]] = []
        for one in slide.markers:
            before = names.get(f"{one.name}, as imaged")
            if before and one.name in names:
                title = f"{one.name} before and after"
                found.append({"title": title, "mode": "side", "a": before, "b": names[one.name]})
            for name in one.backgrounds if before else ():
                under = names.get(f"{name}, as imaged", "")
                title = f"{one.name} and {name}"
                found.append({"title": title, "mode": "side", "a": before or "", "b": under})
        found += [
            {"title": f"{frame} and {name}", "mode": "overlay", "a": names[frame], "b": names[name]}
            for name in nuclei.values()
            if frame in names and name in names
        ]
        every = [names[one] for one in (frame, *nuclei.values()) if one in names]
        if len(every) > 1:
            colours = dict(zip(every, _colours_of_white(len(every)), strict=True))
            about = {"layers": ",".join(every), "colours": colours}
            found.append({"title": "nuclei of all cycles", "mode": "composite", **about})
        return [one for one in found if one.get("b") != ""]

    def _facts(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for cycle, state in self._record.cycles.items():
            about = {"state": state.status, "why": " ".join(state.reasons)}
            spoilt = {} if state.spoilt is None else {"spoilt_share": state.spoilt["share"]}
            transform = self.maps.get(cycle)
            known = {} if transform is None else registration_model(transform)
            found[f"Cycle {cycle}"] = {**known, **about, **spoilt}
        for name, own in self._results.scales.items():
            chosen = own.scale.default_result
            found[f"Marker {name}"] = {
                "background": self._record.slide.subtracted.get(name, ""),
                "gain": chosen.gain,
                "gain_ci95": chosen.gain_ci95 and list(chosen.gain_ci95),
                "offset": chosen.offset,
                "offset_ci95": chosen.offset_ci95 and list(chosen.offset_ci95),
                "expected_gain": own.expected_gain,
            }
        return found


def raw_slide(results: Path, name: str) -> KnownSlide | None:
    """Find the raw images of a slide as the workflow does; None if they are not there."""
    with suppress(UnglowError, OSError, ValueError):
        if (known := find_work(results, find_own_run(results))) is not None:
            work, settings, _ = known
            _, discovery = find_pairs(settings, work)
            files = [one for one in discovery.slides if one.name == name]
            return read_slides(files, settings, HeaderCache(work / CACHE))[0].get(name)
    return None


class ImagedChannel:
    """A channel as it was imaged, in the frame of the slide; a coarse level takes long."""

    def __init__(self, frame: Frame, channel: Channel) -> None:
        self._frame, self._channel = frame, channel
        self.shape = frame.shape
        self.levels = min(SNR_LEVELS, plan_layout(self.shape, "float32").levels)

    def read(self, window: Window, level: int = 0) -> Floats32:
        """Pixels of a window of a level; NaN where the cycle has no data."""

        def read_part(fine: Window) -> Floats32:
            pixels = self._frame.read(fine, [self._channel])[0].astype(np.float32)
            for _ in range(level):
                pixels = halve_stored(pixels)
            return pixels

        return read_in_parts(window, level, read_part)


def _colours_of_white(count: int) -> list[str]:
    """Return different colours that add up to white."""
    hues = [colorsys.hsv_to_rgb(n / count, 1.0, 1.0) for n in range(count)]
    most = max(map(sum, zip(*hues, strict=True)))
    return ["#" + "".join(f"{round(255 * part / most):02x}" for part in one) for one in hues]


AnyLayers: TypeAlias = "Layers | SlideLayers"
"""What a page shows of a pair, or of a slide."""
