"""The signal-to-noise ratio as an image: what is searched, to be looked at."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.errors import InputError
from unglow.core.progress import step
from unglow.core.windows import Window, grid, map_bounded
from unglow.detection.snr import significance
from unglow.io.stored_values import quantise
from unglow.io.zarr import StoreWriter
from unglow.memory.sizes import SNR_TILE

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.detection.settings import DetectSettings
    from unglow.detection.snr import Scene
    from unglow.io.zarr import StoreLayout
    from unglow.workflow.stages.detect_inputs import DetectInputs

STEP = 1 / 256
"""The ratio is rounded to multiples of this: half of it is far below the noise, which is 1, and the
store takes less space."""


def write_snr(
    inputs: DetectInputs,
    settings: DetectSettings,
    layout: StoreLayout,
    target: Path,
    *,
    version: int,
    workers: int,
    same: Path | None = None,
) -> None:
    """Write the signal-to-noise ratio of a pair as a store; an empty one where there is none.

    Parameters
    ----------
    inputs, settings
        The pair; of the settings, the filter and the largest error of the map count.
    layout, target
        Layout (float32) and directory of the store.
    version
        Of the algorithm, as the rule has it.
    workers
        Shards in flight.
    same
        The store of another variant of the search, whose settings that count are the same.
    """
    writer = StoreWriter(
        target,
        layout,
        name="signal-to-noise ratio",
        pixel_size_um=inputs.post.pixel_size_um,
        attributes={
            "role": "snr",
            "version": version,
            "method": inputs.scale.default,
            "inputs": {
                "post": inputs.post.digest,
                "aligned_pre": inputs.aligned.digest,
                "difference": inputs.difference.digest,
            },
            "settings": {k: asdict(settings)[k] for k in ("fwhm_px", "max_error_px")},
        },
        workers=workers,
    )
    with writer:
        if same is not None and writer.publish_same(same):
            return
        try:
            scene = inputs.scene(settings)
        except InputError as refusal:
            writer.publish_empty(str(refusal))
            return
        fill(scene, writer, workers=workers)
        writer.publish()


@step("ratio")
def fill(scene: Scene, writer: StoreWriter, *, workers: int, tile: int = SNR_TILE) -> None:
    """Write every shard, put together from tiles; ``tile``, px, does not change a px."""

    def work(shard: Window) -> None:
        writer.write(shard, ratio_over(scene, shard, tile))

    for _ in map_bounded(work, writer.windows(), workers):
        pass


def ratio_over(scene: Scene, window: Window, tile: int = SNR_TILE) -> NDArray[np.float32]:
    """Return the rounded ratio of a window inside the image, ``window.shape``; NaN for none."""
    out = np.empty(window.shape, np.float32)
    for part in grid(window.shape, (tile, tile)):
        ratio = significance(scene, part.shift(window.y0, window.x0))
        out[part.slices] = quantise(ratio.snr, STEP)
    return out
