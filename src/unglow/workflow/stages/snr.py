"""The signal-to-noise ratio as an image, for those who want to look at what is searched."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.errors import InputError
from unglow.core.grey import quantise
from unglow.core.progress import step
from unglow.core.windows import Window, bounded_map, grid
from unglow.detection.sizes import SNR_TILE
from unglow.detection.snr import significance
from unglow.io.zarr import StoreWriter
from unglow.workflow.stages.detect_inputs import scene_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.detection.settings import DetectSettings
    from unglow.detection.snr import Scene
    from unglow.io.zarr import StoreLayout
    from unglow.photometry.difference import Image
    from unglow.photometry.gain.scale import Scale
    from unglow.transform import Transform

VERSION = 1
STEP = 1 / 256
"""The ratio is rounded to multiples of this: half of it is far below the noise, which is 1, and the
store takes less space."""


def write_snr(
    stores: Mapping[str, Image],
    scale: Scale,
    transform: Transform,
    settings: DetectSettings,
    layout: StoreLayout,
    target: Path,
    *,
    workers: int,
) -> None:
    """Write the signal-to-noise ratio of a pair as a store; an empty one where there is none.

    Parameters
    ----------
    stores, scale, transform, settings
        As for `unglow.workflow.stages.detect.detect`; of the settings, the filter and the largest
        error of the map count.
    layout, target
        Layout (float32) and directory of the store.
    workers
        Shards in flight.
    """
    writer = StoreWriter(
        target,
        layout,
        name="signal-to-noise ratio",
        pixel_size_um=stores["post"].pixel_size_um,
        attributes={
            "role": "snr",
            "version": VERSION,
            "method": scale.default,
            "inputs": {
                "post": stores["post"].digest,
                "aligned_pre": stores["aligned"].digest,
                "difference": stores["difference"].digest,
            },
            "settings": {k: asdict(settings)[k] for k in ("fwhm_px", "max_error_px")},
        },
        workers=workers,
    )
    with writer:
        try:
            scene = scene_of(stores, scale, transform, settings)
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

    for _ in bounded_map(work, writer.windows(), workers):
        pass


def ratio_over(scene: Scene, window: Window, tile: int = SNR_TILE) -> NDArray[np.float32]:
    """Return the rounded ratio of a window inside the image, ``window.shape``; NaN for none."""
    out = np.empty(window.shape, np.float32)
    for part in grid(window.shape, (tile, tile)):
        seen = significance(scene, part.shift(window.y0, window.x0))
        out[part.slices] = quantise(seen.snr, STEP)
    return out
