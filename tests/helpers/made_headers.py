"""Headers of large images without pixels."""

from __future__ import annotations

import numpy as np
import tifffile

from unglow.images.tiff import read_header


def header(path, shape, dtype=np.uint16, **options):
    """Return the header of a TIFF that promises a large image and holds no pixels of it."""
    colour = "rgb" if len(shape) == 3 else "minisblack"
    with tifffile.TiffWriter(path, bigtiff=True) as tif:
        tif.write(shape=shape, dtype=dtype, photometric=colour, **options)
    return read_header(path)
