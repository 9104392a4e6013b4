"""Sizes that both the result and the memory of photometry depend on."""

CELL, CELLS = 4, 1 << 18
"""Side of the cells whose moments are kept, px, and at most this many of them."""
BLUR_REACH = 7
"""An image that is blurred to match the other is looked at so far around each px."""
