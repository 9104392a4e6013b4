"""The channels of a slide: what is said of those in its images, and what these do not store."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.errors import InputError
from unglow.core.reasons import explain
from unglow.core.rounding import percent
from unglow.images.constant_places import find_constant
from unglow.images.raw_images import survey_blocks, survey_windows, unit_name
from unglow.images.slide_plan import Channel, Slide
from unglow.images.stored_values import (
    LEAST_SHARE,
    MOST_SHARE,
    MissingTiles,
    find_below_top,
    is_pile,
)
from unglow.slides.markers import Marker, number_repeated, set_backgrounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from unglow.core.arrays import Array, Floats
    from unglow.core.windows import Window
    from unglow.images.ome_zarr import OmeZarrReader
    from unglow.images.tiff import TiffHeader, TiffReader

# Bytes of a channel's name, of which names of files are made; file systems allow 255.
_LONGEST = 200
# Stains of nuclei, which every cycle of a protocol repeats; and what numbers their repetitions.
_NUCLEAR = re.compile(r"dapi|hoechst|dna|draq5|sytox|nuclei|nuclear", re.IGNORECASE)
_NUMBERED = re.compile(r"[\W_]*(?:cycle|cyc|round|r)?[\W_]*\d*$", re.IGNORECASE)


def slide_of(name: str, headers: Sequence[TiffHeader], rows: Sequence[Marker], table: str) -> Slide:
    """Return a slide, its images given by their headers in the order of cycles.

    ``rows`` are its channels in the same order, ``table`` is where they come from.

    Raises
    ------
    InputError
        The images do not go together, or not with the rows.
    """
    for row in rows:
        size = len(row.name.encode(errors="surrogatepass"))
        if size > _LONGEST:
            raise InputError(
                f"{table} has a channel name of {size} bytes, '{row.name[:30]}...', which is too "
                f"long for the names of files: use at most {_LONGEST}."
            )
    channels = []
    for image, own in enumerate(_rows_of_images(headers, rows, table)):
        for number, row in enumerate(own):
            channels.append(
                Channel(
                    name=row.name,
                    image=image,
                    number=number,
                    cycle=row.cycle or image + 1,
                    exposure=row.exposure,
                    background=None if row.removed else row.background,
                    removed=row.removed,
                )
            )
    if not any(channel.background for channel in channels):
        raise InputError(
            f"{table} removes all channels that have a background, so nothing would be subtracted; "
            "leave remove empty for those to keep."
        )
    _check_circles(channels, table)
    _check_frames(channels, headers)
    images = tuple(Path(header.path) for header in headers)
    return Slide(name, images, tuple(channels), _find_nuclear(channels))


def _check_circles(channels: Sequence[Channel], table: str) -> None:
    """Refuse backgrounds that lead back to the channel that they are subtracted from."""
    backgrounds = {channel.name: channel.backgrounds for channel in channels}
    cleared: set[str] = set()

    def follow(chain: list[str]) -> None:
        for name in backgrounds[chain[-1]]:
            if name in chain:
                circle = " from ".join([*chain[chain.index(name) :], name])
                raise InputError(
                    f"{table} subtracts backgrounds in a circle ({circle}): leave the background "
                    "of one of these channels empty."
                )
            if name not in cleared:
                follow([*chain, name])
        cleared.add(chain[-1])

    for channel in channels:
        follow([channel.name])


def _check_frames(channels: Sequence[Channel], headers: Sequence[TiffHeader]) -> None:
    """Refuse cycles whose images are of several shapes: a cycle has one frame."""
    of_cycle: dict[int, TiffHeader] = {}
    for channel in channels:
        other = headers[channel.image]
        first = of_cycle.setdefault(channel.cycle, other)
        if other.shape != first.shape:
            raise InputError(
                f"{first.path} has {_size(first)} px and {other.path} has {_size(other)}, but both "
                f"are of cycle {channel.cycle}: give them cycles of their own (column "
                "cycle_number), or stitch them onto one canvas."
            )


def _size(header: TiffHeader) -> str:
    return f"{header.shape[1]} x {header.shape[0]}"


def _rows_of_images(
    headers: Sequence[TiffHeader], rows: Sequence[Marker], table: str
) -> Iterator[Sequence[Marker]]:
    """Yield the rows of each image: those of a cycle, or as many as it has channels.

    A cycle may have several images, as of instruments that write one for each channel.
    """
    counts = [len(header.channels) for header in headers]
    ends = list(accumulate(counts))
    parts = [rows[end - count : end] for end, count in zip(ends, counts, strict=True)]
    cycles = [(n, list(own)) for n, own in groupby(rows, key=lambda row: row.cycle)]
    if len(headers) == 1 or any(row.cycle is None for row in rows):
        if len(rows) != ends[-1]:
            held = " + ".join(map(str, counts)) + (f" = {ends[-1]}" if len(counts) > 1 else "")
            raise InputError(
                f"{table} has {len(rows)} rows, but {_names(headers)} {held} channels: give one "
                "row for each channel, in their order."
            )
        yield from parts
        return
    if len(rows) == ends[-1] and all(len({row.cycle for row in part}) == 1 for part in parts):
        yield from parts
        return
    if len(cycles) != len(headers):
        raise InputError(
            f"{table} has {len(cycles)} cycles one after the other (column cycle_number), but "
            f"there are {len(headers)} images: give one image for each cycle, or one for all."
        )
    for header, count, (cycle, own) in zip(headers, counts, cycles, strict=True):
        if len(own) != count:
            raise InputError(
                f"{table} has {len(own)} rows of cycle {cycle}, but {header.path} has {count} "
                "channels: give one row for each channel, in their order (images are taken in the "
                "order of their names)."
            )
        yield own


def _names(headers: Sequence[TiffHeader]) -> str:
    return f"{headers[0].path} has" if len(headers) == 1 else f"its {len(headers)} images have"


def _find_nuclear(channels: Sequence[Channel]) -> dict[int, str]:
    """Return the stain of nuclei of each cycle, where a name shows it."""
    chosen: dict[int, str] = {}
    for channel in channels:
        if is_nuclear_stain(channel.name):
            chosen.setdefault(channel.cycle, channel.name)
    return chosen


def is_nuclear_stain(name: str) -> bool:
    """Return whether a channel is called as one of nuclei (``DAPI_2``, ``Hoechst cycle 3``)."""
    return _NUCLEAR.fullmatch(_NUMBERED.sub("", name).replace(" ", "")) is not None


def choose_registered(slide: Slide, on: str | None) -> dict[int, str]:
    """Return the channel that the map of each cycle is found on, where that is known by name.

    ``on`` is the name of one channel, or what the names of several begin with (DAPI of DAPI_2).

    Raises
    ------
    InputError
        A cycle that is moved has none, or several.
    """
    if on is None:
        return dict(slide.registered_on)
    chosen = {}
    for cycle in sorted({slide.frame_cycle, *slide.moved_cycles} if slide.moved_cycles else ()):
        names = [one.name for one in slide.channels if one.cycle == cycle]
        exact = [name for name in names if name.casefold() == on.casefold()]
        near = exact or [n for n in names if _NUMBERED.sub("", n).casefold() == on.casefold()]
        if len(near) != 1:
            found = f"has {' and '.join(near)}" if near else f"has none ({', '.join(names)})"
            raise InputError(
                f"slide {slide.name} cannot be registered on '{on}' (setting register.on), of "
                f"which cycle {cycle} {found}."
            )
        chosen[cycle] = near[0]
    return chosen


def reference_cycle(slide: Slide, wanted: int | str | None) -> int | None:
    """Return the cycle of ``multiplexed.reference``: a number, or the name of one of its channels.

    InputError if the slide has no such cycle.
    """
    cycles = sorted({one.cycle for one in slide.channels})
    by_name = {one.name.casefold(): one.cycle for one in slide.channels}
    found = by_name.get(wanted.casefold()) if isinstance(wanted, str) else wanted
    if wanted is not None and found not in cycles:
        raise InputError(
            f"slide {slide.name} has no cycle '{wanted}' (setting multiplexed.reference): give one "
            f"of {', '.join(map(str, cycles))}, or the name of a channel."
        )
    return found


def name_markers(
    name: str,
    headers: Sequence[TiffHeader],
    exposures: Sequence[float | None],
    backgrounds: Mapping[str, Sequence[str] | str],
) -> list[Marker]:
    """Return the channels of a slide without a table, by the names in its images.

    Names that are there again get a number, as Backsub's own reader of such names gives them.

    Raises
    ------
    InputError
        The backgrounds of the configuration are not among them.
    """
    rows = number_repeated(one.name for header in headers for one in header.channels)
    known = [*exposures] if len(exposures) == len(rows) else [None] * len(rows)
    markers = [Marker(row, exposure=time) for row, time in zip(rows, known, strict=True)]
    try:
        return set_backgrounds(markers, backgrounds)
    except ValueError as error:
        end = "" if str(error).endswith("?") else "."
        raise InputError(
            f"slide {name}: config key 'multiplexed.backgrounds' {error}{end}"
        ) from error


# Means over squares of this side, px, vary by what is seen and hardly by noise.
_SQUARE = 8


def choose_richest(slide: Slide, headers: Sequence[TiffHeader], cycles: Iterable[int]) -> Slide:
    """Return a slide whose `registered_on` holds a channel for each of some cycles.

    Where names do not decide, it is the one whose structures stand out most from its noise, in a
    sample of blocks.

    Raises
    ------
    InputError
        An image cannot be read.
    """
    unknown = set(cycles) - set(slide.registered_on)
    if not unknown:
        return slide
    contrasts: dict[str, float] = {}
    for image, header in enumerate(headers):
        numbers = {one.number: one for one in slide.channels if one.image == image}
        if any(one.cycle in unknown for one in numbers.values()):
            blocks = np.concatenate([_contrast(block) for block in survey_blocks(header)])
            medians = np.median(blocks, axis=0)
            contrasts |= {one.name: medians[number] for number, one in numbers.items()}
    chosen = {
        cycle: max(
            (one.name for one in slide.channels if one.cycle == cycle),
            key=lambda name: contrasts[name],
        )
        for cycle in sorted(unknown)
    }
    return replace(slide, registered_on={**slide.registered_on, **chosen})


def _contrast(block: Array) -> Floats:
    """Return how far squares differ, in standard deviations of noise, (1, channels)."""
    channels, rows, cols = block.shape
    pixels = block[:, : rows - rows % _SQUARE, : cols - cols % _SQUARE].astype(np.float64)
    squares = pixels.reshape(channels, rows // _SQUARE, _SQUARE, cols // _SQUARE, _SQUARE)
    seen = squares.mean(axis=(2, 4)).std(axis=(1, 2))
    noise = np.abs(np.diff(pixels, axis=2)).mean(axis=(1, 2))
    contrast: Floats = seen / (noise + 1e-6)
    return contrast[None]


# Px within this many grey levels, or this part of the range, of a value are near it; it is usual
# if more than this share of the px are.
_LEVELS, _RANGE, _USUAL = 3, 0.002, 1e-4
# A smaller share of px than this at the largest value is not worth a word.
_LEAST_SATURATED = 1e-4


class Gaps:
    """Where channels of a slide have no data: tiles that they lack, and constant places.

    Writers leave tiles, strips and chunks out of all channels where no section is. What one channel
    lacks and another one has is lost.

    Parameters
    ----------
    readers
        The images of the slide, open, in its order.

    Raises
    ------
    InputError
        The tables of an image cannot be read.
    """

    def __init__(self, readers: Sequence[TiffReader | OmeZarrReader]) -> None:
        self._readers = readers
        self.headers = [reader.header for reader in readers]
        self._missing = [
            reader.find_missing(range(len(reader.header.channels))) for reader in readers
        ]
        self._known: dict[tuple[int, int], MissingTiles | None] = {}
        self._usual: dict[tuple[str, float], bool] = {}
        self.constant: dict[str, dict[Window, int]] = {}
        """Constant px of channels, and those without a value, by name, in each window read."""

    @cached_property
    def _is_whole(self) -> bool:
        """Whether everything is stored."""
        return not any(missing.any() for missing in self._missing)

    def find_missing(self, channel: Channel) -> MissingTiles | None:
        """Return what a channel does not store; None if it stores everything."""
        if self._is_whole:
            return None
        key = channel.image, channel.number
        if key not in self._known:
            header = self.headers[channel.image]
            self._known[key] = MissingTiles.from_grid(
                self._missing[channel.image][channel.number],
                header.unit,
                header.shape,
                f"{channel.name} in {header.name}",
                unit_name(header),
            )
        return self._known[key]

    def lost(self, channel: Channel) -> float:
        """Return which share (0 to 1) of the px a channel lacks where another one stores them."""
        if self.find_missing(channel) is None:
            return 0.0
        header, missing = self.headers[channel.image], self._missing[channel.image]
        rows, cols = np.nonzero(missing[channel.number])
        (high, wide), (height, width) = header.unit, header.shape
        bottom, right = np.minimum((rows + 1) * high, height), np.minimum((cols + 1) * wide, width)
        sizes = (bottom - rows * high) * (right - cols * wide)
        y, x = (rows * high + bottom) // 2, (cols * wide + right) // 2
        stored = np.zeros(len(y), np.bool_)
        for one, grid in zip(self.headers, self._missing, strict=True):
            stored |= ~grid[:, y // one.unit[0], x // one.unit[1]].all(axis=0)
        return float(sizes[stored].sum()) / (height * width)

    def hide(self, channel: Channel, window: Window, block: Array, top: float = np.inf) -> Array:
        """Return a window of a channel, NaN where it has no data: floats if that is anywhere.

        There is none from ``top`` on either.
        """
        lacking = self.find_missing(channel)
        missing = np.asarray(block >= top)
        if lacking is not None:
            missing |= lacking.mask(window)
        shape = self.headers[channel.image].shape
        found = find_constant(block, window, shape, ~missing if missing.any() else None)
        known = np.isfinite(block) if block.dtype.kind == "f" else np.True_
        if found is None and not known.all():
            found = np.zeros(block.shape, np.bool_), []
        if found is not None:
            mask, waiting = found
            mask |= ~known
            for part in waiting:
                if not self._is_usual(channel, float(block[part.y0, part.x0])):
                    mask[part.slices] = True
            self.constant.setdefault(channel.name, {})[window] = int(np.count_nonzero(mask))
            missing |= mask
        if not missing.any():
            return block
        out = block.astype(np.result_type(block.dtype, np.float32))
        out[missing] = np.nan
        return out

    def _is_usual(self, channel: Channel, value: float) -> bool:
        """Whether light and noise reach a value that fills a window, as glass at 0 may."""
        key = channel.name, value
        if key not in self._usual:
            px = self._sample(channel)
            others = px[px != value]
            low, high = others.min(initial=value), others.max(initial=value)
            whole = np.dtype(self.headers[channel.image].dtype).kind in "iu"
            reach = max(_RANGE * (high - low), _LEVELS if whole else 0)
            near = np.count_nonzero(np.abs(others - value) <= reach)
            self._usual[key] = not low < value < high and near >= _USUAL * others.size
        return self._usual[key]

    def _sample(self, channel: Channel, *, hidden: bool = False) -> Floats:
        """Return px of a channel, (N,), without those that are not finite or, if so, `hidden`."""
        reader, blocks = self._readers[channel.image], []
        for window in survey_windows(reader.header):
            block = reader.read(window, [channel.number])[0]
            blocks.append(self.hide(channel, window, block) if hidden else block)
        px = np.concatenate([block.ravel() for block in blocks]).astype(np.float64)
        return px[np.isfinite(px)]

    def find_saturation(self, channel: Channel) -> tuple[float, float]:
        """Return the level at which px of a channel are saturated, and their share; 0 if none are.

        That is their largest value, if it is a pile and of more than 1e-4 of them.
        """
        px = self._sample(channel, hidden=True)
        low, top = float(px.min(initial=np.inf)), float(px.max(initial=0.0))
        below = find_below_top((low, top), top - px[px < top].max(initial=low))
        at_top, near = (int((px >= level).sum()) for level in (top, below))
        share = at_top / max(px.size, 1)
        many = is_pile(at_top, near)
        return top, share if many and _LEAST_SATURATED < share < 1 else 0.0

    def doubt(self, channel: Channel) -> tuple[str | None, bool]:
        """Return a sentence about a channel that lost something, and whether that is too much."""
        lacking, share = self.find_missing(channel), self.lost(channel)
        if lacking is None or share <= LEAST_SHARE:
            return None, False
        lost = f"{percent(share)} of the slide, where other channels are stored"
        key = "large_gaps" if share > MOST_SHARE else "gaps"
        return explain(key, file=lacking.file, what=lacking.description, share=lost), key != "gaps"
