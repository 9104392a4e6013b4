"""Values of the TIFF tag Compression; some codecs have several."""

NONE = 1
LZW = 5
OLD_JPEG = 6
DEFLATE = (8, 32946)
PACKBITS = 32773
LZMA = 34925
ZSTD = (50000, 34926)
JPEG = (7, 34892, 33007)
JPEG_2000 = (33003, 33004, 33005, 34712)
JPEG_XR = 22610
JPEG_XL = (50002, 52546)
LERC = 34887
WEBP = 50001

BYTES = (NONE, LZW, PACKBITS, LZMA, *DEFLATE, *ZSTD)
"""Codecs that give bytes, whatever the samples."""
COMMON = (NONE, LZW, PACKBITS, *DEFLATE, 7, 34712, 50000)
"""Every build of imagecodecs has these."""
