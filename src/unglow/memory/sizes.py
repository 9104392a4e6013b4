"""Sizes that both the results of a stage and its memory depend on."""

import math

FEATURE_PX = 1 << 18
"""Registration searches features on at most this many px at a time."""
FIELD_POINTS = 50_000
"""About this many control points and blocks a displacement field has at most."""
CELL, CELLS = 4, 1 << 18
"""Side of the cells whose moments are kept, px, and at most this many of them."""
BLUR_REACH = 7
"""An image that is blurred to match the other is read this far around each px."""
BLOCK = 32
"""Side of the blocks that spoilt places are scored by, px."""
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
