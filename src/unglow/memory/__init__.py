"""Memory: what a job needs (`Demand`), and the sizes that results and memory both depend on.

The need is ``peak = base + fixed + in_flight * each``, all in MB (1e6 bytes): what the imported
libraries take, what a stage holds whatever it does, and what one block in flight takes; or what it
takes to get ready, if that is more.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

# Less than this is an error of rounding: without it, what was declared for n blocks in flight might
# hold n - 1 of them, or be 1 MB above the budget.
_ROUNDING = 1e-6
# What an image leaves behind for that which follows it, MB.
_LEFT = 8.0

FEATURE_PX = 1 << 18
"""Registration searches features on at most this many px at a time."""
FIELD_POINTS = 50_000
"""About this many control points and blocks a displacement field has at most."""
CELL, CELLS = 4, 1 << 18
"""Side of the cells whose moments are kept, px, and at most this many of them."""
DEFECT_TILE, MOST_DEFECTS = 1024, 1 << 20
"""Side of the tiles in which defects of pre are looked for, px, and most px that all tiles keep."""
BLUR_REACH = 7
"""An image that is blurred to match the other is read this far around each px."""
BLOCK = 32
"""Side of the blocks that spoilt places are scored by, px."""
SEGMENT = 8 * BLOCK
"""Parts of rows and columns are summed over this length, px; as many as blocks are kept."""
MOST_BLOCKS = 1 << 20
"""At most this many scores of blocks are kept; those of larger images are joined by 2 x 2."""
DETECT_TILE, DETECT_AROUND = 1024, 93
"""Side of the blocks in which the search reads, px, and how far it looks around each px."""
DETECT_PANEL = 8192
"""Rows above a tile are kept of a panel of the image, which is at most this many px wide."""
CANDIDATES = 1 << 18
"""At most this many sources are listed."""
SECTION_PX = 1 << 20
"""The section is found on a coarse image of at most this many px."""
SNR_TILE = 512
"""The image of the signal-to-noise ratio is made of tiles of this side, px."""
EXPORT_BAND = 16_000_000
"""At most this many bytes of an image are turned round at a time for a FITS file."""


def count_blocks(shape: tuple[int, int], side: int) -> tuple[int, int]:
    """Return how many blocks of ``side`` px an image of (rows, columns) has, down and across."""
    return -(-shape[0] // side), -(-shape[1] // side)


def block_side(shape: tuple[int, int]) -> int:
    """Return the side of the blocks that are kept of an image of (rows, columns), px."""
    side = BLOCK
    while math.prod(count_blocks(shape, side)) > MOST_BLOCKS:
        side *= 2
    return side


def part_length(shape: tuple[int, int]) -> int:
    """Return the length of the parts of rows and columns that are kept of an image, px."""
    return SEGMENT // BLOCK * block_side(shape)


@dataclass(frozen=True, slots=True)
class Demand:
    """Memory that a job needs, MB: a constant part and a part for each block in flight.

    Attributes
    ----------
    base, fixed
        What the libraries take, and what the stage holds however many blocks are in flight.
    each
        What one block in flight takes.
    most
        How many blocks there are; None if they cannot run out.
    least
        What the job takes while no block is at work: before the first, or after the last.
    ahead
        What has been read for the next block while several are worked on.
    """

    base: float
    each: float
    fixed: float = 0.0
    most: int | None = None
    least: float = 0.0
    ahead: float = 0.0

    def count_in_flight(self, budget_mb: float, threads: int) -> int:
        """Return how many blocks may be worked on at once: at most one per thread, at least one."""
        free = budget_mb - self.base - self.fixed - self.ahead
        fitting = free / self.each if self.each > 0 else threads
        most = threads if self.most is None else min(threads, self.most)
        return max(1, min(most, math.floor(fitting + _ROUNDING)))

    def peak_mb(self, budget_mb: float, threads: int) -> int:
        """Return the predicted peak, rounded up to whole MB."""
        blocks = self.count_in_flight(budget_mb, threads)
        return math.ceil(self.base + _compute_work_mb(self, blocks) - _ROUNDING)


@dataclass(frozen=True, slots=True)
class PairDemand:
    """Memory that a job needs which does the same to both images of a pair, MB.

    Half of the blocks in flight are of either image; a single one is of one image at a time.

    Attributes
    ----------
    images
        What each image needs on its own.
    before
        What the job takes before that, and has given back by then.
    """

    images: tuple[Demand, Demand]
    before: float = 0.0

    @property
    def base(self) -> float:
        """What the libraries take."""
        return max(image.base for image in self.images)

    def count_in_flight(self, budget_mb: float, threads: int) -> int:
        """Return how many blocks may be worked on at once: an even number, or one."""
        for each in range(threads // 2, 0, -1):
            if self._together_mb(each) <= budget_mb + _ROUNDING:
                return 2 * each
        return 1

    def peak_mb(self, budget_mb: float, threads: int) -> int:
        """Return the predicted peak, rounded up to whole MB."""
        each = self.count_in_flight(budget_mb, threads) // 2
        by_itself = max(_compute_work_mb(image, 1) for image in self.images)
        peak = self.base + by_itself + _LEFT if each == 0 else self._together_mb(each)
        return math.ceil(max(peak, self.before) - _ROUNDING)

    def _together_mb(self, each: int) -> float:
        return self.base + sum(_compute_work_mb(image, each) for image in self.images)


AnyDemand: TypeAlias = Demand | PairDemand
"""The memory demand of any job."""


def to_json(demand: AnyDemand) -> dict[str, Any]:
    """Return a demand as plain values, which a rule hands to its job."""
    return asdict(demand)


def from_json(record: Mapping[str, Any]) -> AnyDemand:
    """Return the demand that `to_json` has written."""
    if "images" not in record:
        return Demand(**record)
    post, pre = (Demand(**image) for image in record["images"])
    return PairDemand((post, pre), record["before"])


def _compute_work_mb(demand: Demand, blocks: int) -> float:
    """Return what a job takes on top of its libraries with N blocks in flight, MB."""
    blocks = blocks if demand.most is None else min(blocks, demand.most)
    at_work = demand.fixed + blocks * demand.each + (demand.ahead if blocks > 1 else 0.0)
    return max(at_work, demand.least - demand.base)
