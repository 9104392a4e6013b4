"""Stores that hold given images."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from unglow.images.zarr import StoreWriter, open_store, plan_layout


def write_store(
    path, image, layout=None, *, pixel_size_um=None, attributes=None, workers=1, order=None, **more
):
    """Write an image as a store and open it; ``empty`` is why it holds none.

    Shards are written in their order, or in a random ``order``, by as many threads as ``workers``.
    """
    empty, name = more.pop("empty", None), more.pop("name", path.name.partition(".")[0])
    with StoreWriter(
        path,
        layout or plan_layout(image.shape, image.dtype.name),
        name=name,
        pixel_size_um=pixel_size_um,
        attributes=attributes or {},
        workers=workers,
    ) as writer:
        if empty:
            writer.publish_empty(empty)
        else:
            windows = list(writer.windows())
            if order is not None:
                random.Random(order).shuffle(windows)

            def write(window):
                writer.write(window, np.ascontiguousarray(image[window.slices]))

            with ThreadPoolExecutor(workers) as pool:
                list(pool.map(write, windows))
            writer.publish(more)
    return open_store(path)
