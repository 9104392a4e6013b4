"""How far two difference images lie apart."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import tifffile
from made_slides import made_slide
from made_stores import write_store

from unglow.comparison import pixels
from unglow.comparison.pixels import compare_pixels, compare_slides
from unglow.comparison.results import compare_results
from unglow.core import digests
from unglow.core.errors import UnglowError
from unglow.core.windows import grid
from unglow.io.tiff.metadata import OmeChannel
from unglow.io.zarr.ome_zarr_sink import OmeZarrSink
from unglow.results.directory import open_results

RANDOM = np.random.default_rng(5)
IMAGE = RANDOM.normal(0, 2, (700, 900)).astype(np.float32)
IMAGE[:, :40] = np.nan


def stored(place, image):
    return write_store(place / "linear.ome.zarr", image).path / "zarr.json"


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


NAMES = ("DNA", "CD3", "CD8")
SHAPE = (300, 400)
SLIDE_RANDOM = np.random.default_rng(3)
#: Noise of 20 levels, cut off at 0.
SLIDE = np.clip(np.rint(SLIDE_RANDOM.normal(0, 20, (3, *SHAPE))), 0, None).astype(np.uint16)


def tiff(path, image, names=NAMES):
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"axes": "CYX", "Channel": {"Name": list(names)}}
    tifffile.imwrite(path, image, metadata=about, photometric="minisblack", tile=(128, 128))
    return path


def changed(number, by):
    image = SLIDE.copy()
    image[number] += np.uint16(by)
    return image


def test_the_worst_channel_is_reported_in_units_of_the_noise_that_was_not_cut_off(tmp_path):
    one = tiff(tmp_path / "a/c.ome.tif", SLIDE)
    image = changed(2, 7)
    image[2, 30, 50] += 100
    found = compare_slides(one, tiff(tmp_path / "b/c.ome.tif", image))
    rms = np.sqrt((49 * (SLIDE[2].size - 1) + 107**2) / SLIDE[2].size)
    noise = 1.4826 * np.median(SLIDE[2][SLIDE[2] > 0])
    assert found.excess == pytest.approx(rms / noise / 0.3, rel=1e-5)
    assert noise == pytest.approx(20, rel=0.05)
    assert (found.verdict, found.sentence) == (
        "different",
        "c.ome.tif: CD8 off by 0.34 of its noise (rms of all px), most 5.2 at x 50, y 30",
    )
    little = compare_slides(one, tiff(tmp_path / "c/c.ome.tif", changed(1, 1)))
    assert little.verdict == "equal"
    assert little.sentence.startswith("c.ome.tif: CD3 off by 0.048 of its noise")


def test_images_in_zarr_are_sampled_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(pixels, "SIDE_PX", 100)
    paths = []
    for side, image in (("a", SLIDE), ("b", changed(0, 1))):
        paths.append(tmp_path / f"{side}.ome.zarr")
        shown = [OmeChannel(name, None, None) for name in NAMES]
        with OmeZarrSink(paths[-1], SHAPE, "uint16", shown, name="s") as sink:
            for number in range(len(NAMES)):
                for window in grid(SHAPE, (sink.window, sink.window)):
                    sink.write(number, window, np.ascontiguousarray(image[number][window.slices]))
    assert "(rms of all px)" in compare_slides(*paths).sentence
    monkeypatch.setattr(pixels, "SAMPLED", 9)
    monkeypatch.setattr(pixels, "LEAST_SAMPLED", 2)
    found = compare_slides(*paths)
    assert "DNA off by 0.048 of its noise (rms of sample of 0 Mpx)" in found.sentence
    assert compare_slides(*paths, everything=True).excess == pytest.approx(found.excess, rel=0.2)


def test_slides_of_other_channels_are_different(tmp_path):
    one = tiff(tmp_path / "a/c.ome.tif", SLIDE)
    other = tiff(tmp_path / "b/c.ome.tif", SLIDE[:2], NAMES[:2])
    assert compare_slides(one, other).sentence == (
        "c.ome.tif has 400 x 300 px of uint16, DNA, CD3 in place of 400 x 300 px of uint16, DNA, "
        "CD3, CD8"
    )


def published(results, image):
    place = made_slide(results, figures=False)
    path = tiff(place / "corrected.ome.tif", image)
    digests.write(place / "digests/slide_subtract.sha256", [path])
    return path


def compare(a, b):
    (pair,) = compare_results(open_results(a), open_results(b)).pairs
    (found,) = (one for one in pair.findings if one.what == "pixels")
    return found.verdict, found.sentence


def test_results_of_slides_are_compared_to_the_pixel(tmp_path):
    a, b, c = (tmp_path / name / "results" for name in "abc")
    for side, image in ((a, SLIDE), (c, changed(1, 1))):
        published(side, image)
    shutil.copytree(a, b)
    assert compare(a, b) == ("identical", "corrected.ome.tif identical")
    verdict, sentence = compare(a, c)
    assert (verdict, sentence[:31]) == ("equal", "corrected.ome.tif: CD3 off by 0")
    (c / "s1/corrected.ome.tif").write_bytes(b"")
    assert compare(a, c)[0] == "unknown"
    (c / "s1/corrected.ome.tif").unlink()
    away = "corrected.ome.tif has other bytes, and is not on both sides to be read"
    assert compare(a, c) == ("unknown", away)
    shutil.rmtree(c / "s1/digests")
    assert compare(a, c) == ("unknown", "no corrected image is on both sides")
