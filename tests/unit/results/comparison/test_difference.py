"""How far two difference images, and lists of candidates, lie apart."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import tifffile
from made_slides import made_slide
from made_stores import write_store

from unglow.core import digests
from unglow.core.errors import UnglowError
from unglow.core.windows import grid
from unglow.images.tiff.metadata import OmeChannel
from unglow.images.zarr.ome_zarr_sink import OmeZarrSink
from unglow.results.comparison import difference
from unglow.results.comparison.difference import (
    compare_candidates,
    compare_pixels,
    compare_slides,
    match,
)
from unglow.results.comparison.results import compare_results
from unglow.results.directory import open_results

RANDOM = np.random.default_rng(5)
IMAGE = RANDOM.normal(0, 2, (700, 900)).astype(np.float32)
IMAGE[:, :40] = np.nan


def stored(place, image, method="linear"):
    store = write_store(place / "difference.ome.zarr", image, attributes={"method": method})
    return store.path / "zarr.json"


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
    monkeypatch.setattr(difference, "SIDE_PX", 100)
    monkeypatch.setattr(difference, "SAMPLED", 10)
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
    assert compare_pixels(first, stored(tmp_path / "d", IMAGE, "moffat")).verdict == "unknown"
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
    monkeypatch.setattr(difference, "SIDE_PX", 100)
    paths = []
    for side, image in (("a", SLIDE), ("b", changed(0, 1))):
        paths.append(tmp_path / f"{side}.ome.zarr")
        shown = [OmeChannel(name, None, None) for name in NAMES]
        with OmeZarrSink(paths[-1], SHAPE, "uint16", shown, name="s") as sink:
            for number in range(len(NAMES)):
                for window in grid(SHAPE, (sink.window, sink.window)):
                    sink.write(number, window, np.ascontiguousarray(image[number][window.slices]))
    assert "(rms of all px)" in compare_slides(*paths).sentence
    monkeypatch.setattr(difference, "SAMPLED", 9)
    monkeypatch.setattr(difference, "LEAST_SAMPLED", 2)
    found = compare_slides(*paths)
    assert "DNA off by 0.048 of its noise (rms of sample of 0 Mpx)" in found.sentence
    assert compare_slides(*paths, everything=True).excess == pytest.approx(found.excess, rel=0.2)


def published(results, image):
    place = made_slide(results, figures=False)
    path = tiff(place / "corrected.ome.tif", image)
    digests.write(place / "details/digests/slide_subtract.sha256", [path])
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
    shutil.rmtree(c / "s1/details/digests")
    assert compare(a, c) == ("unknown", "no corrected image is on both sides")


def test_lists_are_matched_one_to_one_and_the_nearest_first():
    a = np.array([[10.0, 10.0], [11.0, 10.0], [50.0, 50.0], [90.0, 5.0]])
    b = np.array([[90.0, 7.5], [11.2, 10.0], [50.5, 50.0], [12.0, 10.0], [0.0, 0.0]])

    matched = match(a, b, 2.0)

    # (11, 10) has the nearest; what is left for (10, 10) is just within the radius
    assert matched.pairs.tolist() == [[0, 3], [1, 1], [2, 2]]
    assert matched.lost.tolist() == [3]
    assert matched.new.tolist() == [0, 4]


def test_every_candidate_is_in_one_place():
    rng = np.random.default_rng(3)
    a = rng.uniform(0, 200, (300, 2))
    b = np.concatenate([a[:250] + rng.normal(0, 0.3, (250, 2)), rng.uniform(0, 200, (40, 2))])

    matched = match(a, b, 1.5)

    assert sorted([*matched.pairs[:, 0], *matched.lost]) == list(range(len(a)))
    assert sorted([*matched.pairs[:, 1], *matched.new]) == list(range(len(b)))
    apart = np.hypot(*(a[matched.pairs[:, 0]] - b[matched.pairs[:, 1]]).T)
    assert apart.max() <= 1.5
    # no two that were left over are partners
    left = a[matched.lost][:, None] - b[matched.new][None]
    assert np.hypot(left[..., 0], left[..., 1]).min(initial=np.inf) > 1.5


COLUMNS = "id,x,y,x_err,y_err,flux,flux_err,snr,flags"


def listed(place, rows, threshold=5.0):
    """Write candidates (x, y, flux, snr, flags); the path of the list."""
    (place / "details").mkdir(parents=True)
    lines = [f"{n},{x},{y},0.3,0.3,{flux},10,{snr},{flags}"
             for n, (x, y, flux, snr, flags) in enumerate(rows)]  # fmt: skip
    (place / "candidates.csv").write_text("\n".join([COLUMNS, *lines]) + "\n")
    report = {"status": "ok", "threshold_snr": threshold, "settings": {"fwhm_px": 3}}
    (place / "details/detection.json").write_text(json.dumps(report))
    return place / "candidates.csv"


ROWS = [(20.0 * n, 30.0, 100.0 + n, 8.0 + n, "") for n in range(40)]


def test_clear_ones_that_are_lost_or_new_are_distinguished_from_those_at_the_limit(tmp_path):
    faint, other = (5.0, 300.0, 50.0, 5.9, ""), (60.0, 300.0, 50.0, 5.2, "")
    outside = (100.0, 400.0, 500.0, 99.0, "outside")
    a = listed(tmp_path / "a", [*ROWS, faint, outside], threshold=4.0)
    found = compare_candidates(a, listed(tmp_path / "b", [*ROWS, other]))
    assert (found.verdict, found.excess) == ("equal", 0)
    assert found.sentence == (
        "candidates: 1 lost (at the limit of significance), 1 new (at the limit of significance), "
        "40 matched"
    )
    found = compare_candidates(a, listed(tmp_path / "c", [*ROWS[3:], (0.0, 700.0, 9, 30.0, "")]))
    assert found.verdict == "different"
    assert found.sentence == "candidates: 4 lost (3 clear), 1 new (clear), 37 matched"
    assert found.points[0] == ("lost", 40.0, 30.0, 10.0)
    assert found.points[-1] == ("new", 0.0, 700.0, 30.0)
    numbers = ("lost", "lost_clear", "new", "new_clear", "matched")
    assert [found.numbers[name] for name in numbers] == [4, 3, 1, 1, 37]


def test_places_and_fluxes_of_the_same_candidates_are_compared(tmp_path):
    a = listed(tmp_path / "a", ROWS)
    nearly = [(x + 0.1, y, 1.02 * flux, snr, flags) for x, y, flux, snr, flags in ROWS]
    found = compare_candidates(a, listed(tmp_path / "b", nearly))
    assert found.verdict == "equal"
    assert found.numbers["flux_ratio"] == pytest.approx(1.02)
    assert found.numbers["place_median_px"] == pytest.approx(0.1)
    twice = [(x, y, 2 * flux, snr, flags) for x, y, flux, snr, flags in ROWS]
    found = compare_candidates(a, listed(tmp_path / "c", twice))
    assert found.verdict == "different"
    assert "100 % of them measured otherwise (typical flux 2 times" in found.sentence
