"""Values that 32-bit floating point cannot hold: the reason says so."""

from __future__ import annotations

import numpy as np
import pytest
from array_pixels import ArrayPixels

from unglow.core.windows import Window
from unglow.registration.register import RegisterSettings
from unglow.stages import register
from unglow.stages.ingest import PixelStatistics, signal

TEXTURE = np.random.default_rng(3).integers(0, 250, (300, 300)).astype(np.uint16)


class Image(ArrayPixels):
    """Pixels that stand for a store with the statistics of ingest."""

    empty = None
    pixel_size_um = None

    def __init__(self, raw):
        stored = signal(raw[None], np.dtype("f4" if raw.dtype.kind == "f" else raw.dtype))
        super().__init__(stored, 2)
        statistics = PixelStatistics((4, 4), np.inf)
        statistics.add(next(iter(self.windows())), stored)
        self.attributes = {"statistics": statistics.to_dict()}

    def windows(self):
        yield Window.from_shape(self.shape)


def holed(image, share):
    image = image.astype("f4")
    image[np.random.default_rng(1).random(image.shape) < share] = np.nan
    return image


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda i: (i + 1) * 1e302, "100 % are NaN, infinite or beyond"),
        (lambda i: i * 1e302, "% are NaN, infinite or beyond 3.4e38"),
        (lambda i: i.astype("f4") * np.float32(1e34), "reach 2.5e+36; at"),
        (lambda i: i.astype("u4") + np.uint32(2**31), "which is 1 steps"),
    ],
)
def test_values_that_cannot_be_computed_with_are_the_reason(change, reason):
    images = Image(change(TEXTURE)), Image(TEXTURE)
    found = register.register_stores(*images, RegisterSettings(), workers=1).transform
    assert found.status == "failed"
    assert reason in found.reasons[0].numbers
    assert len(found.reasons) == 1


def test_pixels_without_a_value_are_named_where_no_block_is_left(monkeypatch):
    monkeypatch.setattr(register, "_cache_chunks", lambda store: store)
    images = Image(holed(TEXTURE, 0.9)), Image(holed(TEXTURE, 0.9))
    found = register.register_stores(*images, RegisterSettings(), workers=1).transform
    assert found.status == "failed"
    assert any("Many post-stain pixels have no value" in one for one in found.reasons)
