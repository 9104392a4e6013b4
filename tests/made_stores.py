"""Stores of images in memory."""

from __future__ import annotations

import numpy as np

from unglow.io.zarr import StoreWriter, open_store, plan_layout


def write_store(path, image, layout=None, *, pixel_size_um=None, **attributes):
    """Write an image as a store, named as its directory, and open it."""
    layout = layout or plan_layout(image.shape, image.dtype.name)
    name = path.name.partition(".")[0]
    writer = StoreWriter(
        path, layout, name=name, pixel_size_um=pixel_size_um, attributes=attributes
    )
    with writer:
        for window in writer.windows():
            writer.write(window, np.ascontiguousarray(image[window.slices]))
        writer.publish()
    return open_store(path)
