"""Sizes that both the blocks and the memory of judging them depend on."""

import math

BLOCK = 32
"""Side of the blocks that the loops judge, px."""
MOST_BLOCKS = 1 << 20
"""At most this many blocks are kept; those of larger images are put together by 2 x 2."""


def count_blocks(shape: tuple[int, int], side: int) -> tuple[int, int]:
    """Return how many blocks of ``side`` px an image of (rows, columns) has, down and across."""
    return -(-shape[0] // side), -(-shape[1] // side)


def block_side(shape: tuple[int, int]) -> int:
    """Return the side of the blocks that are kept of an image of (rows, columns), px."""
    side = BLOCK
    while math.prod(count_blocks(shape, side)) > MOST_BLOCKS:
        side *= 2
    return side
