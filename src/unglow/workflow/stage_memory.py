"""The memory model: the peak of every job, from image headers, the budget and the thread count.

What the terms of a `Demand` are for each rule, all in MB (1e6 bytes). The budget and the threads
choose only how many blocks are in flight; they never change what is computed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.measured import LIBRARIES_MB
from unglow.core.windows import coarse_level
from unglow.images.raw_header import is_ome_zarr
from unglow.images.zarr.layout import CHUNK
from unglow.memory import (
    CANDIDATES,
    CELL,
    CELLS,
    DEFECT_TILE,
    DETECT_AROUND,
    DETECT_PANEL,
    DETECT_TILE,
    EXPORT_BAND,
    FEATURE_PX,
    FIELD_POINTS,
    MOST_DEFECTS,
    SECTION_PX,
    SNR_TILE,
    Demand,
    PairDemand,
    block_side,
    count_blocks,
    part_length,
)

if TYPE_CHECKING:
    from unglow.images.tiff import TiffHeader
    from unglow.images.zarr import StoreLayout

MB = 1e6

SLACK = 12.0
"""Small files, small arrays, and what the allocator keeps at hand, MB."""
# What jobs on small data hold, MB: cells of moments and fits of gain and gain map to some of them;
# figures with the pictures that they are drawn from.
_SMALL_DATA = {
    "scale": 44.0,
    "figures": 150.0,
}

# The warp reads at most this many px of pre for each px of a shard, and some more.
WARP_SOURCE = 1.25
WARP_SPARE_PX = 1 << 16
# Writing a shard of float32 holds it, its chunks if they do not compress, and these joined, bytes
# per px.
_WRITING = 4 * 3.1
# Ingest writes a shard from a view: copies of its chunks, as they compress (no better than noise)
# and joined, per byte of a stored px, and the pyramid below it, bytes per px.
_STORED = 2.3
_CHUNKS = 2.6
# Bytes per px of a shard in which constant places are looked for.
_CONSTANT = 7.1
# A survey of an image holds some blocks at a time, and a quarter of about a million px of every
# channel, three times, MB.
_SURVEY = 28.0
_SAMPLED = 4.0
# Of the coarse images, bytes per px: both with what is derived from them, also mirrored; what
# judging a map takes; and the octaves of features, which are searched on some px at a time.
_COARSE, _JUDGING, _SCALE_SPACE = 36.0, 26.0, 225.0
# Matching blocks takes this much, MB, whatever the images: chunks that are kept, and fits.
_MATCHING = 50.0
# Fitting a displacement field takes these bytes for each of its knots: 7 x 7 products with other
# knots, some vectors, and what is known of a block.
_PER_POINT = 900.0
# The search for candidates holds this many bytes for each px of a tile, and for each source of the
# list. Of what was read above a tile it keeps some rows, as float32. Finding the section takes so
# many bytes for each px of a coarse image, and its outline keeps this many.
_SEARCHING, _PER_CANDIDATE, _PX_PER_SOURCE, _LINES = 27.0, 210.0, 40.0, 900.0
_KEPT, _OUTLINING, _OUTLINE = 12.0, 47.0, 9.0
# Bytes per block: of the scores as they are put together, saved and read, of finding places in
# them, and of the places; and per px of a shard, of the scores of its blocks. Of a place at most so
# many px are looked at, with so many bytes for each.
_SCORES, _FINDING, _PLACES, _JUDGED = 45.0, 75.0, 6.0, 0.1
_LOOKING, _LOOKED = float(8 * 256**2), 36.0
# Bytes per mean along a part of a row or a column, with a copy as they are saved or read.
_MEANS = 4.0

# For each byte of a file of regions: as it is read, its sides, and to find out which px of a tile
# lie inside. At most this many MB each are sides: their number is limited.
_READING, _SIDES, _SIDES_AT_WORK = 14.0, 5.0, 4.0
_MOST_SIDES = 14.0

# TensorStore, with its threads, which reads OME-Zarr images of other programs, MB: in environments
# as `benchmarks/libraries.py` makes them, images of small chunks took 50.6 to 51.6, of which 43.7
# are pages of its files; and 5, by which equal jobs differ.
ZARR = 57.0

# Joint statistics of one block in flight, MB.
_STATISTICS = 4.7
# Bytes per cell, with copies of some while they are written.
_PER_CELL = 40.0
# What the warp of a block leaves to the allocator while the block is written, MB: with two threads
# a pair of 30000 x 25000 px took 189 to 201 MB in five runs, where 200 were declared without this.
_WARP_LEFT = 8.0
# So does the search for constant places in a shard: two images of 30000 x 25000 px took 156 to 166
# MB with two threads, where 150 were declared without this.
_SHARD_LEFT = 10.0
# Bytes per px of a tile in which defects are looked for, next to those of the image.
_MASKING = 24.0


def libraries_mb(stage: str) -> float:
    """Return what the libraries of a stage take, MB; of one that was never measured, the most."""
    return LIBRARIES_MB.get(stage, max(LIBRARIES_MB.values()))


def small(stage: str) -> Demand:
    """Demand of a job that reads small data only: scale, figures, summary."""
    return Demand(libraries_mb(stage), 0.0, fixed=SLACK + _SMALL_DATA.get(stage, 0.0))


def plan(headers: tuple[TiffHeader, TiffHeader]) -> Demand:
    """Demand of making a plan: one survey block at a time, and what is sampled of every channel."""
    channels = max(sum(not info.alpha for info in header.channels) for header in headers)
    if channels == 1:  # there is nothing to choose
        return Demand(libraries_mb("ingest"), 0.0, fixed=SLACK + max(map(_library_mb, headers)))
    reading = max(_decode_mb(h) + h.others_bytes / MB + _library_mb(h) for h in headers)
    return Demand(
        libraries_mb("ingest"), 0.0, fixed=reading + _SURVEY + channels * _SAMPLED + SLACK
    )


def ingest(header: TiffHeader, layout: StoreLayout) -> Demand:
    """Demand of ingesting an image: a row of shards for strip files, single shards for tiled ones.

    The plan of the pair, which is made first, comes on top.
    """
    # Importing the reader of TIFF files takes memory that other stages do not have.
    from unglow.images.raw_images import part_rows, reads_in_order

    read_px = np.dtype(header.dtype).itemsize * len(header.channels)
    stored_px = np.dtype(layout.dtype).itemsize
    shard_px, shards = _shards(layout)
    libraries = libraries_mb("ingest")
    writing = shard_px * max(_CONSTANT, _CHUNKS + _STORED * stored_px) / MB + _SHARD_LEFT
    decode = _decode_mb(header)
    if header.preferred == "windows":
        reading = shard_px * (read_px + stored_px) / MB + decode
        each = max(reading, writing + shard_px * stored_px / MB)
        return Demand(libraries, each, fixed=SLACK + _library_mb(header), most=shards)
    rows = min(layout.shards[0], layout.shape[0])
    band = rows * layout.shape[1] * stored_px / MB
    part_px = part_rows(header, rows) * layout.shape[1]
    reading = part_px * (read_px + stored_px) / MB + decode
    others = header.others_bytes / MB
    fixed = band + header.kept_bytes / MB + others + SLACK + _library_mb(header)
    if not reads_in_order(header, rows):
        return Demand(libraries, max(writing, reading), fixed=fixed)
    # One thread decodes, then all write. The only strip, if whole, is decoded before the band is.
    before = libraries + SLACK + others + reading
    least = before + (band if header.streams or header.layout != "single strip" else 0.0)
    return Demand(libraries, writing, fixed=fixed, least=least)


def ingest_both(
    headers: tuple[TiffHeader, TiffHeader], layouts: tuple[StoreLayout, StoreLayout]
) -> PairDemand:
    """Demand of an ingest job: the plan of the pair, then both images as they need it."""
    post, pre = map(ingest, headers, layouts)
    pre = replace(pre, fixed=max(0.0, pre.fixed - SLACK))  # once is enough
    return PairDemand((post, pre), plan(headers).peak_mb(0, 1))


def register(
    shapes: tuple[tuple[int, int], ...], coarse_px: int, block_px: int, *, field: bool = True
) -> Demand:
    """Demand of registration: two coarse images, with features, or later blocks.

    ``field`` says whether a displacement field may be fitted to dense blocks.
    """
    level = coarse_level(shapes, coarse_px)
    pixels = max((rows >> level) * (cols >> level) for rows, cols in shapes)
    searching = max(_SCALE_SPACE * min(pixels, FEATURE_PX), _JUDGING * pixels) / MB
    step = max(64, block_px // 2) // 2  # of the dense blocks, and of the knots
    points = min(max(rows * cols for rows, cols in shapes) / step**2, FIELD_POINTS)
    matching = _MATCHING + (points * _PER_POINT / MB if field else 0.0)
    coarse = _COARSE * pixels / MB + max(searching, matching)
    each = 20 * 8 * block_px * block_px / MB
    return Demand(libraries_mb("register"), each, fixed=coarse + SLACK)


def align(layout: StoreLayout, pre: StoreLayout) -> Demand:
    """Demand of the warp: per shard the pre window under it, post, and the result."""
    shard_px, shards = _shards(layout)
    window_px = min(WARP_SOURCE * shard_px + WARP_SPARE_PX, pre.shape[0] * pre.shape[1])
    itemsize = np.dtype(pre.dtype).itemsize
    warping = window_px * (itemsize + 4) + shard_px * 4
    finding = math.prod(min(n, DEFECT_TILE) for n in pre.shape) * (itemsize + _MASKING)
    each = max(warping, shard_px * _WRITING, finding) / MB + _STATISTICS + _WARP_LEFT
    cells = min(CELLS, layout.shape[0] * layout.shape[1] // CELL**2)
    defects = 4 * min(pre.shape[0] * pre.shape[1], MOST_DEFECTS)
    fixed = SLACK + _STATISTICS + (cells * _PER_CELL + defects) / MB + line_means(pre.shape)
    return Demand(libraries_mb("align"), each, fixed=fixed, most=shards)


def difference(layout: StoreLayout) -> Demand:
    """Demand of the subtraction: post, and aligned pre as it becomes the difference, of a shard."""
    shard_px, shards = _shards(layout)
    each = shard_px * (np.dtype("float32").itemsize + _WRITING + _JUDGED)
    fixed = SLACK + block_scores(layout.shape) + line_means(layout.shape)
    return Demand(libraries_mb("difference"), each / MB, fixed=fixed, most=shards)


def detect(layout: StoreLayout, drawn_bytes: int = 0) -> Demand:
    """Demand of the search for candidates: the section, tiles with their surroundings, the list.

    And of regions in a file of ``drawn_bytes``, if some were drawn.
    """
    around = 2 * DETECT_AROUND
    rows, cols = (min(n, DETECT_TILE) + around for n in layout.shape)
    tiles = math.prod(math.ceil(n / DETECT_TILE) for n in layout.shape)
    kept = _KEPT * around * (min(DETECT_PANEL, layout.shape[1]) + around)
    outlining, outline = _section(layout)
    finding, places = spoilt_places(layout.shape)
    finding += line_means(layout.shape)
    finding = max(finding, min(_LOOKING, layout.shape[0] * layout.shape[1]) * _LOOKED / MB)
    outlining = max(outlining, libraries_mb("detect") + SLACK + outline + places + finding)
    outline += places
    fixed = SLACK + (_most_listed(layout) * _PER_CANDIDATE + kept) / MB + outline
    each = rows * cols * _SEARCHING / MB
    # three images as float32, and a row of chunks of one of them as it comes
    ahead = cols * (rows * _KEPT + min(rows, CHUNK) * np.dtype("float32").itemsize) / MB
    demand = Demand(
        libraries_mb("detect"), each, fixed=fixed, most=tiles, least=outlining, ahead=ahead
    )
    return _add_regions(demand, drawn_bytes)


def snr(layout: StoreLayout) -> Demand:
    """Demand of the image of the signal-to-noise ratio: one shard, with a tile or written."""
    shard_px, shards = _shards(layout)
    itemsize = np.dtype("float32").itemsize
    rows, cols = (min(n, SNR_TILE + 2 * DETECT_AROUND) for n in layout.shape)
    tiling = shard_px * itemsize + rows * cols * _SEARCHING
    each = max(tiling, shard_px * _WRITING) / MB
    return Demand(libraries_mb("snr"), each, fixed=SLACK, most=shards)


def export(layout: StoreLayout, *, computed: bool = False) -> Demand:
    """Demand of an export as TIFF or FITS: of FITS, a band, what it is read from, and a copy.

    With ``computed``, of a difference that is not written: both images of it as well.
    """
    band = min(EXPORT_BAND, layout.shape[0] * layout.shape[1] * layout.itemsize)
    copies = 5 if computed else 3
    return Demand(libraries_mb("export"), 0.0, fixed=copies * band / MB + SLACK)


def store_disk_mb(layout: StoreLayout) -> int:
    """Return an upper bound, MB, for a store with its pyramid: incompressible pixels."""
    pixels = layout.shape[0] * layout.shape[1] * 4 / 3
    return math.ceil(pixels * layout.itemsize / MB * 1.02 + 1)


def candidates_disk_mb(layout: StoreLayout) -> int:
    """Return an upper bound, MB, for the list of candidates as CSV and GeoJSON."""
    return math.ceil(_most_listed(layout) * _LINES / MB + 1)


def _blocks(shape: tuple[int, int]) -> int:
    """Return how many blocks a difference is judged by."""
    return math.prod(count_blocks(shape, block_side(shape)))


def block_scores(shape: tuple[int, int]) -> float:
    """Return what scores of the blocks of an image of (rows, columns) take, MB."""
    return _SCORES * _blocks(shape) / MB


def line_means(shape: tuple[int, int]) -> float:
    """Return what means along rows and columns of an image of (rows, columns) take, MB."""
    return 2 * _MEANS * math.prod(shape) / part_length(shape) / MB


def spoilt_places(shape: tuple[int, int]) -> tuple[float, float]:
    """Return what finding spoilt places of an image takes on top of scores, and what they keep."""
    blocks = _blocks(shape) / MB
    return _FINDING * blocks, _PLACES * blocks


def _section(layout: StoreLayout) -> tuple[float, float]:
    """Return what a search takes until it knows the section, and what its outline holds, MB."""
    pixels = min(SECTION_PX, layout.shape[0] * layout.shape[1])
    return libraries_mb("detect") + SLACK + _OUTLINING * pixels / MB, _OUTLINE * pixels / MB


def _add_regions(demand: Demand, drawn_bytes: int) -> Demand:
    """Add what drawn regions take: their file as it is read, their sides, and those at work."""
    if not drawn_bytes:
        return demand
    reading, sides, at_work = (n * drawn_bytes / MB for n in (_READING, _SIDES, _SIDES_AT_WORK))
    return replace(
        demand,
        each=demand.each + min(at_work, _MOST_SIDES),
        fixed=demand.fixed + min(sides, _MOST_SIDES),
        least=max(demand.least, libraries_mb("detect") + SLACK + reading),
    )


def _most_listed(layout: StoreLayout) -> float:
    return min(CANDIDATES, layout.shape[0] * layout.shape[1] / _PX_PER_SOURCE)


def _shards(layout: StoreLayout) -> tuple[int, int]:
    """Return the pixels of the largest shard, and how many shards there are."""
    rows, cols = (min(a, b) for a, b in zip(layout.shards, layout.shape, strict=True))
    return rows * cols, math.ceil(layout.shape[0] / rows) * math.ceil(layout.shape[1] / cols)


def _decode_mb(header: TiffHeader) -> float:
    return header.decode_bytes / MB


def _library_mb(header: TiffHeader) -> float:
    """Return what the library takes that only OME-Zarr images are read with."""
    return ZARR if is_ome_zarr(header.path) else 0.0
