"""Sizes that both the result and the memory of the search depend on."""

DETECT_TILE, DETECT_AROUND = 1024, 90
"""Side of the blocks in which it reads, px, and how far it looks around each px."""
DETECT_PANEL = 8192
"""Rows above a tile are kept of a panel of the image, which is at most so many px wide."""
CANDIDATES = 1 << 18
"""At most so many sources are listed."""
SECTION_PX = 1 << 20
"""The section is found on a coarse image of at most so many px."""
SNR_TILE = 512
"""The image of the signal-to-noise ratio is put together from tiles of this side, px."""
