"""Stores that hold given images."""

from __future__ import annotations

import numpy as np

from unglow.io.zarr import StoreWriter, open_store, plan_layout


def write_store(path, image, layout=None, *, pixel_size_um=None, attributes=None, **more):
    """Write an image as a store and open it; ``empty`` is why it holds none."""
    empty, name = more.pop("empty", None), more.pop("name", path.name.partition(".")[0])
    with StoreWriter(
        path,
        layout or plan_layout(image.shape, image.dtype.name),
        name=name,
        pixel_size_um=pixel_size_um,
        attributes=attributes or {},
    ) as writer:
        if empty:
            writer.publish_empty(empty)
        else:
            for window in writer.windows():
                writer.write(window, np.ascontiguousarray(image[window.slices]))
            writer.publish(more)
    return open_store(path)
