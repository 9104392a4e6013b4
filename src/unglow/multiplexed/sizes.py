"""Sizes that results and memory of slides depend on."""

BLOCK = 256
"""Side of the blocks that residual shifts are measured on, px."""
WINDOW = 1024
"""Side of the windows that slides are measured in, px: whole blocks, cells and tiles of groups."""
OVERVIEW = 512
"""No side of an overview is longer, px."""
