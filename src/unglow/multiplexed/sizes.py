"""Sizes that results and memory of slides depend on."""

BLOCK = 256
"""Side of the blocks that residual shifts are measured on, px."""
WINDOW, ACROSS = 512, 8
"""Slides are measured in windows of this side, px, at most so many across and down the frame."""
OVERVIEW = 512
"""No side of an overview is longer, px."""
OVERVIEWS_PX = 1 << 22
"""Those of all markers have no more px than this together, for one of three kinds."""
ALIGNED_ROWS = 512
"""A background is aligned so many rows at a time, of which there is a copy as float32."""
