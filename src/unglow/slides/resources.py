"""Resources of the jobs of a slide, from its headers: memory (terms of `Demand`, MB), disk, time.

Of an image that stores channels apart, one is read at a time; else some together, and how many is
chosen such that the job keeps its budget. Neither changes a result.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.images.raw_header import is_ome_zarr
from unglow.images.tiff.tiles import TILE
from unglow.images.zarr.layout import SHARD
from unglow.memory import CELL, CELLS, Demand
from unglow.registration.settings import DECLARED
from unglow.slides.slide import (
    ALIGNED_ROWS,
    BLOCK,
    COMPARED,
    OVERVIEW,
    OVERVIEWS_PX,
    WINDOW,
    Sample,
    group_by_background,
)
from unglow.workflow import stage_memory
from unglow.workflow.stage_memory import MB, SLACK, WARP_SOURCE, WARP_SPARE_PX, libraries_mb

if TYPE_CHECKING:
    from collections.abc import Callable

    from unglow.images.slide_plan import KnownSlide
    from unglow.registration.settings import RegisterSettings
    from unglow.workflow.settings import Settings

# Joint statistics of a marker at work and when they are kept, and the table that they share.
_STATISTICS, _KEPT_STATISTICS, _TABLE = 4.7, 1.2, 1.0
# Bytes per cell of a marker; what fits take, MB; cells of a window at work, bytes, and a block that
# is matched, bytes per px.
_PER_CELL, _FITS, _CELLS_AT_WORK, _PER_BLOCK_PX = 28.0, 24.0, 2.5e6, 120.0
# Libraries that the fits of a slide load, where their files came into memory in large pieces, MB.
_LOADED = 10.0
# Tables of where a tile or strip of an image is, and where those of a window of the corrected image
# are, with those of its pyramid, bytes.
_PER_SEGMENT, _PER_WINDOW = 20.0, 256.0
# Fits of several gains: bytes per cell, and for each gain as well.
_PER_FITTED_CELL, _PER_GAIN = 150.0, 50.0
# Tiles at work for one of a coarse level, per byte of it; blocks of a file that is copied, MB.
_PER_COARSE_PX, _COPYING = 12.0, 24.0
# Part of a level that is computed in place: this many px of level 0, and bytes per px.
_PART_PX, _HALVING = 1 << 20, 9.0
# Finding what was not imaged in a window, and the floats that a channel becomes, bytes per px.
_HOLES = 6.5
# Halves of a window of the reference, which the section is found on, bytes per px of the window.
_HALVED = 1.5
# Histograms of a marker, one of which each window at work has too; strips at work.
_HISTOGRAM, _STRIPS = 0.3, 4.0
# What a sink holds of a window, per byte of it: tiles that compress no better than noise, with
# those of the pyramid, and next to it while it makes them, bytes per px; or chunks of a shard, and
# those joined. Shards take the library that compresses them, and leave room in the allocator, MB.
_STORED, _ENCODING, _ENCODED, _STORES = 1.4, 2.0, 2.1, 18.0


# A pyramid adds a third, and what compresses worst is a little larger than its px.
_PYRAMID, _WORST = 4 / 3, 1.02
# Small files of a slide, and those of each marker (figures, statistics, overviews), MB.
_SMALL_MB, _MARKER_MB = 2, 3
# What drawing holds, MB: a figure, and something of each marker.
_FIGURE_MB, _DRAWN_MB = 84.0, 3.0
# Joining parts of a slide takes this part of the time that making them takes.
_JOINING = 0.08


def register(known: KnownSlide, settings: RegisterSettings) -> Demand:
    """Demand of a map between two cycles: that of a pair, and parts of levels made in place."""
    shapes = (known.shape, max((one.shape for one in known.headers), key=math.prod))
    field = settings.field == "auto" and settings.model != DECLARED
    pair = stage_memory.register(shapes, settings.coarse_px, settings.block_px, field=field)
    part = min(_PART_PX, known.shape[0] * known.shape[1])
    making = part * (_item(known) + _HALVING) / MB
    # once the map is known, windows of both cycles are compared
    px = math.prod(min(COMPARED, n) for n in known.shape)
    comparing = max(_reading(known, px, 1), px * (_count_held(known) + _HALVED)) + px * _item(known)
    comparing = comparing / MB + _STRIPS
    counting = _STATISTICS + _TABLE + _FITS + _cells(known.shape) * _PER_CELL / MB + SLACK
    if max(known.shape) <= COMPARED:  # a single window
        counting, comparing = counting + comparing, 0.0
    each = max(pair.each, making, comparing) + _decode(known)
    fixed = max(pair.fixed, counting + stage_memory.block_scores(known.shape)) + _libraries(known)
    return replace(pair, base=libraries_mb("slide_register"), each=each, fixed=fixed)


def markers_at_a_time(known: KnownSlide, budget_mb: float) -> int:
    """Return how many markers are measured in one pass over a slide."""
    return _find_most(lambda n: measure(known, n), len(known.slide.markers), budget_mb)


def channels_at_a_time(
    known: KnownSlide, budget_mb: float, dtype: str, *, stores: bool = False
) -> int:
    """Return how many channels are read at once when a slide is subtracted, as in `subtract`."""
    if _apart(known):
        return 1
    return _find_most(
        lambda n: subtract(known, n, dtype, stores=stores), max(_together(known)), budget_mb
    )


def measure(known: KnownSlide, at_a_time: int) -> Demand:
    """Demand of measuring a number of markers in one pass.

    Of a window, its backgrounds are read first. Then, marker by marker, cells are computed and
    blocks are matched: one after the other.
    """
    rows, cols = (min(WINDOW, n) for n in known.shape)
    window_px, together = rows * cols, 1 if _apart(known) else at_a_time + 1
    several = _backgrounds(known)
    reading, held = _reading(known, window_px, together), _count_held(known)
    backgrounds = window_px * (held + 4) * several
    signals = together * window_px * held
    matching = _PER_BLOCK_PX * min(BLOCK * BLOCK, window_px)
    at_work = max(reading, signals + max(matching, _CELLS_AT_WORK))
    each = (backgrounds + at_work) / MB + _decode(known)
    cells = _cells(known.shape)
    marker = _STATISTICS + several * cells * _PER_CELL / MB
    earlier = len(known.slide.markers) - at_a_time
    fixed = at_a_time * marker + earlier * _KEPT_STATISTICS + _TABLE
    finding, places = stage_memory.spoilt_places(known.shape)
    fixed += SLACK + _libraries(known) + places * len(known.slide.moved_cycles)
    # the fits come when no window is at work any more
    fits = _FITS if several == 1 else cells * (_PER_FITTED_CELL + several * _PER_GAIN) / MB
    return Demand(
        libraries_mb("slide_scale"),
        each,
        fixed=fixed,
        least=libraries_mb("slide_scale") + fixed + max(fits + _LOADED, finding),
    )


def subtract(known: KnownSlide, at_a_time: int, dtype: str, *, stores: bool = False) -> Demand:
    """Demand of writing the corrected slide as ``dtype``, reading several channels at once.

    With ``stores`` as OME-Zarr, alone or as well.

    Of a window, backgrounds are read, then the signal is read and what is left is computed,
    then tiles are made of that. Backgrounds and signals stay for it if others still need them.
    """
    rows, cols = (min(SHARD, n) for n in known.shape)
    px, held = rows * cols, _count_held(known)
    out = np.dtype(known.dtype if dtype == "input" else dtype).itemsize
    of_background, passing = _together(known)
    together = min(at_a_time, of_background)
    aligned, signals = _backgrounds(known) * px * 4, together * px * held
    first = aligned - px * 4 + max(_reading(known, px, 1), px * (held + 4))
    reading = aligned + _reading(known, px, together)
    subtracting = aligned + signals + px * out + _STRIPS * MB
    tiles, chunks = out * (1 + _STORED) + _ENCODING, out * (1 + _ENCODED)
    writing = px * (max(tiles, chunks) if stores else tiles)
    through = max(
        writing + (min(at_a_time, passing) * px * held if at_a_time > 1 else 0),
        _reading(known, px, min(at_a_time, passing)),
    )
    if of_background > 1:
        writing += aligned + (signals if together > 1 else 0)
    each = max(first, reading, subtracting, writing, through) / MB + _HISTOGRAM + _decode(known)
    fixed, most = _result_mb(known, stores=stores)
    return Demand(libraries_mb("slide_subtract"), each, fixed=fixed + _libraries(known), most=most)


def join(known: KnownSlide, _at_a_time: int, dtype: str, *, stores: bool = False) -> Demand:
    """Demand of joining the parts of a corrected slide."""
    px = math.prod(min(SHARD, n) for n in known.shape)
    out = np.dtype(known.dtype if dtype == "input" else dtype).itemsize
    pyramid = _PER_COARSE_PX * TILE * TILE * out
    each = max(pyramid, px * out * (2 + _ENCODED) if stores else 0) / MB
    fixed, most = _result_mb(known, stores=stores)
    # of a part, its tables and counts are read in addition to those of all
    return Demand(libraries_mb("slide_subtract"), each, fixed=2 * fixed + _COPYING, most=most)


def _result_mb(known: KnownSlide, *, stores: bool) -> tuple[float, int]:
    """Return what is kept of a slide while it is written, MB, and the windows of all channels."""
    step = 1
    while max(known.shape) // step > OVERVIEW:
        step *= 2
    markers = len(known.slide.markers)
    seen = min(markers * (known.shape[0] // step) * (known.shape[1] // step), OVERVIEWS_PX)
    fixed = SLACK + 3 * 4 * seen / MB + markers * _HISTOGRAM + (_STORES if stores else 0.0)
    windows = math.ceil(known.shape[0] / SHARD) * math.ceil(known.shape[1] / SHARD)
    most = windows * len(known.slide.kept)
    return fixed + most * _PER_WINDOW / MB, most


def _reading(known: KnownSlide, px: int, together: int) -> float:
    """Return what reading ``together`` channels of a window of the frame takes, bytes.

    Of a moved cycle: their sources, what has been resampled of them, and a strip as float32.
    Channels with holes are floats; these are looked for in one at a time.
    """
    item = _item(known)
    with_holes = max(4, item)
    if not _moves(known):
        return (together - 1) * px * with_holes + px * (item + _HOLES)
    largest = max(math.prod(header.shape) for header in known.headers)
    source_px = min(WARP_SOURCE * px + WARP_SPARE_PX, largest)
    strip_px = min(
        WARP_SOURCE * px * min(1.0, ALIGNED_ROWS / math.sqrt(px)) + WARP_SPARE_PX, source_px
    )
    source = source_px * with_holes
    making = _PART_PX * (item + _HALVING) * together if _differ(known) else 0.0
    finding = (together - 1) * source + source_px * (item + _HOLES)
    first = max(together * source + px * 4, finding)
    last = source + together * px * 4
    return max(max(first, last) + strip_px * 4, together * source + making)


def _moves(known: KnownSlide) -> bool:
    """Return whether any cycle is resampled: cycles that are said to lie on each other are not."""
    return known.slide.checked and bool(known.slide.moved_cycles)


def _differ(known: KnownSlide) -> bool:
    """Return whether images may have px of other sizes, so that levels are made of them."""
    about = {(header.shape, header.pixel_size_um) for header in known.headers}
    return len(about) > 1


def _count_held(known: KnownSlide) -> int:
    """Return the bytes of a px of a channel that was read: with holes or moved, floats."""
    return max(4, _item(known))


def _backgrounds(known: KnownSlide) -> int:
    """Return the most backgrounds of a marker."""
    return max((len(one.backgrounds) for one in known.slide.markers), default=1)


def _find_most(demand: Callable[[int], Demand], most: int, budget_mb: float) -> int:
    """Return the greatest number whose demand is within a budget; at least 1."""
    fits = (n for n in range(max(most, 1), 1, -1) if demand(n).peak_mb(budget_mb, 1) <= budget_mb)
    return next(fits, 1)


def _cells(shape: tuple[int, int]) -> int:
    """Return how many cells of a marker are kept."""
    extent, every = Sample.from_shape(shape).extent, CELL
    while math.prod(n // every for n in extent) > CELLS:
        every += CELL
    return math.prod(n // every for n in extent)


def _together(known: KnownSlide) -> tuple[int, int]:
    """Return the most markers of one background, and how many channels pass through.

    Only these are ever read together.
    """
    slide = known.slide
    most = max(map(len, group_by_background(slide.markers).values()), default=0)
    return most, len(slide.kept) - len(slide.markers)


def _apart(known: KnownSlide) -> bool:
    return all(header.separate for header in known.headers)


def _item(known: KnownSlide) -> int:
    return max(header.sample_bytes for header in known.headers)


def _decode(known: KnownSlide) -> float:
    return max(header.decode_bytes for header in known.headers) / MB


def _libraries(known: KnownSlide) -> float:
    """Return what readers of all images hold between calls, and the library of OME-Zarr images."""
    zarr, kept = 0.0, 0.0
    for header in known.headers:
        kept += header.kept_bytes * header.parts
        if is_ome_zarr(header.path):
            zarr = stage_memory.ZARR
        else:
            kept += header.segments * (1 if header.planar else header.parts) * _PER_SEGMENT
    return zarr + kept / MB


def choose_channel_count(known: KnownSlide, settings: Settings, rule: str, mb: float) -> int:
    """Return how many channels a job works on at a time within ``mb`` of memory."""
    if rule == "slide_scale":
        return markers_at_a_time(known, mb)
    return channels_at_a_time(known, mb, **_corrected_as(settings, rule))


def _corrected_as(settings: Settings, rule: str) -> dict[str, Any]:
    chosen = settings.multiplexed
    return {"dtype": chosen.dtype, "stores": chosen.output != "tiff" and rule != "slide_part"}


def demand_of(known: KnownSlide, settings: Settings, rule: str, mb: float) -> Demand:
    """Return the memory demand of a job that is given ``mb`` of memory."""
    if rule == "slide_register":
        return register(known, settings.register)
    if rule == "slide_scale":
        return measure(known, choose_channel_count(known, settings, rule, mb))
    if rule in ("slide_part", "slide_subtract"):
        demand = join if rule == "slide_subtract" and known.bands else subtract
        together = choose_channel_count(known, settings, rule, mb)
        return demand(known, together, **_corrected_as(settings, rule))
    each_marker = _DRAWN_MB * len(known.slide.markers)
    return Demand(libraries_mb("slide_figures"), 0.0, fixed=SLACK + _FIGURE_MB + each_marker)


def disk_mb(known: KnownSlide, settings: Settings, rule: str) -> int:
    """Return an upper bound of what a job takes on disk, MB."""
    small, chosen = _SMALL_MB + _MARKER_MB * len(known.slide.markers), settings.multiplexed
    if rule == "slide_part":
        return math.ceil(small + _image_mb(known, chosen.dtype) / len(known.bands))
    if rule != "slide_subtract":
        return small
    # tiles of a TIFF wait on disk until all are there, or in parts
    tiff = 1 if known.bands else 2
    copies = {"tiff": tiff, "both": tiff + 1}.get(chosen.output, 1)
    return math.ceil(small + copies * _image_mb(known, chosen.dtype))


def _image_mb(known: KnownSlide, dtype: str) -> float:
    name = known.dtype if dtype == "input" else dtype
    samples = known.shape[0] * known.shape[1] * len(known.slide.kept)
    return samples * np.dtype(name).itemsize * _PYRAMID * _WORST / 1e6


def work_mpx(known: KnownSlide, rule: str) -> float:
    """Return what the time of a job grows with, million px: those of all channels at work."""
    mpx = known.shape[0] * known.shape[1] / 1e6
    bands = known.bands
    if rule == "slide_register":
        return mpx
    if rule == "slide_part":
        return mpx * len(known.slide.kept) / len(bands)
    if rule == "slide_subtract" and bands:
        return mpx * len(known.slide.kept) * _JOINING
    if rule == "slide_scale":
        return math.prod(Sample.from_shape(known.shape).extent) / 1e6 * len(known.slide.markers)
    return mpx * len(known.slide.kept)
