"""How far two difference images lie apart."""

from __future__ import annotations

import numpy as np
import pytest

from unglow.comparison import pixels
from unglow.comparison.pixels import compare_pixels
from unglow.core.errors import UnglowError
from unglow.io.zarr import StoreWriter, plan_layout

RANDOM = np.random.default_rng(5)
IMAGE = RANDOM.normal(0, 2, (700, 900)).astype(np.float32)
IMAGE[:, :40] = np.nan


def stored(place, image):
    path = place / "linear.ome.zarr"
    layout = plan_layout(image.shape, "float32")
    with StoreWriter(path, layout, name="x", pixel_size_um=None, attributes={}) as writer:
        for window in writer.windows():
            writer.write(window, np.ascontiguousarray(image[window.slices]))
        writer.publish()
    return path / "zarr.json"


@pytest.fixture
def first(tmp_path):
    return stored(tmp_path / "a", IMAGE)


def test_the_same_pixels_are_recognised_by_their_digest(tmp_path, first):
    other = stored(tmp_path / "b", IMAGE)
    for shard in other.parent.glob("0/c/*/*"):
        shard.write_bytes(shard.read_bytes()[:-4] + b"oops")  # nobody reads it
    assert compare_pixels(first, other).verdict == "identical"


def test_rms_and_maximum_are_reported_in_units_of_the_noise(tmp_path, first):
    changed = IMAGE + RANDOM.normal(0, 1, IMAGE.shape).astype(np.float32)
    changed[300, 500] = IMAGE[300, 500] - 50
    found = compare_pixels(first, stored(tmp_path / "b", changed))
    apart = (changed - IMAGE)[:, 40:].astype(np.float64)
    assert found.verdict == "different"
    numbers = {key.removeprefix("linear_pixels_"): value for key, value in found.numbers.items()}
    assert numbers["rms"] == pytest.approx(np.sqrt((apart**2).mean()), rel=1e-5)
    assert numbers["noise"] == pytest.approx(2, rel=0.02)
    assert numbers["max"] == pytest.approx(50, rel=1e-5)
    assert (numbers["max_x"], numbers["max_y"]) == (500, 300)
    assert (numbers["on_one_side"], numbers["read"]) == (0, IMAGE.size)
    assert "rms of all px" in found.sentence
    little = compare_pixels(first, stored(tmp_path / "c", IMAGE + np.float32(0.3)))
    assert (little.verdict, little.numbers["linear_pixels_rms"]) == ("equal", pytest.approx(0.3))


def test_a_large_image_is_sampled_and_that_is_reported(tmp_path, first, monkeypatch):
    monkeypatch.setattr(pixels, "SIDE_PX", 100)
    monkeypatch.setattr(pixels, "SAMPLED", 10)
    other = stored(tmp_path / "b", IMAGE + 1)
    found = compare_pixels(first, other)
    assert found.numbers["linear_pixels_read"] == 100_000
    assert "sample of 0 Mpx" in found.sentence
    assert found.numbers["linear_pixels_rms"] == pytest.approx(1, abs=1e-6)
    whole = compare_pixels(first, other, everything=True)
    assert whole.numbers["linear_pixels_read"] == IMAGE.size


def test_an_edge_that_moves_counts_from_one_per_cent_on(tmp_path, first):
    moved = IMAGE.copy()
    moved[:, 40:45] = np.nan
    found = compare_pixels(first, stored(tmp_path / "b", moved))
    assert (found.verdict, found.numbers["linear_pixels_rms"]) == ("equal", 0)
    assert "0.58 % of px in one image alone" in found.sentence
    moved[:, 40:60] = np.nan
    assert compare_pixels(first, stored(tmp_path / "c", moved)).verdict == "different"


def test_images_that_do_not_fit_or_are_damaged(tmp_path, first):
    small = stored(tmp_path / "b", IMAGE[:500])
    assert compare_pixels(first, small).sentence == "difference images of other sizes"
    damaged = stored(tmp_path / "c", IMAGE + 1)
    next(damaged.parent.glob("0/c/*/*")).unlink()
    with pytest.raises(UnglowError, match="is missing"):
        compare_pixels(first, damaged)
