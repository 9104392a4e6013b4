"""The corrected slide, px by px."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import tifffile
from made_slide import SHAPE, Kept, channels, moved, pixels, slide, write

from unglow.core.windows import Window
from unglow.images.slide_plan import PART_MPX, KnownSlide, bands_of
from unglow.images.tiff.metadata import OmeChannel
from unglow.images.tiff.tiles import OmeTiffSink
from unglow.photometry.gain.scale import MethodResult, Scale
from unglow.photometry.imaging import GainMap
from unglow.slides.slide_subtract import Choice, Part, Work, save_part
from unglow.slides.subtract import subtract_slide
from unglow.transform.resample import warp_window

RANGES = {"range": [0.0, 6e4], "background_range": [0.0, 6e3]}


def scale(gain, offset=0.0, **fields):
    return Scale("linear", {"linear": MethodResult(gain, offset, None, dict(RANGES), **fields)})


EXPOSED = {"A": scale(1.5), "B": scale(0.8), "C": scale(1.0)}


@pytest.fixture(scope="module")
def image():
    return pixels()


@pytest.fixture(scope="module")
def made(tmp_path_factory, image):
    path = tmp_path_factory.mktemp("slide") / "s.ome.tif"
    return slide(path), [write(path, image, compression="zlib")]


def run(made, maps, scales, dtype="uint16", **options):
    sink = Kept(len(made[0].kept), dtype)
    left = subtract_slide(*made, maps, scales, sink, dtype=dtype, **options)
    assert (sink.times == 1).all()
    return sink, left


def backsub(signal, background, factor):
    """Return what Backsub 0.5 writes."""
    info = np.iinfo(signal.dtype)
    return np.clip(signal - np.float32(factor) * background, 0, info.max).astype(signal.dtype)


def test_without_a_map_and_rounded_down_pixels_are_those_of_backsub(made, image):
    sink, left = run(made, moved(0, 0), EXPOSED, rounding="down")
    for number, (name, factor) in enumerate((("A", 1.5), ("B", 0.8), ("C", 1.0))):
        np.testing.assert_array_equal(
            sink.image[number], backsub(image[number + 1], image[0], factor)
        )
        difference = image[number + 1] - np.float32(factor) * image[0]
        assert left[name].below_px == np.count_nonzero(difference < 0)
        assert left[name].above_px == 0
        assert left[name].histogram.total == difference.size
        assert left[name].below == left[name].below_px / difference.size


def test_integers_are_rounded_and_cut_off_with_exact_counts(tmp_path, image):
    small = (image[:, :64, :80] // 200).astype(np.uint8)
    small[1, 5, 5:9] = 255
    header = write(tmp_path / "s.ome.tif", small, tile=(32, 32))
    made = slide(tmp_path / "s.ome.tif"), [header]
    sink = Kept(3, "uint8", (64, 80))
    scales = {**EXPOSED, "A": scale(-0.3, 1.0)}
    maps = moved(0, 0, (64, 80))
    left = subtract_slide(*made, maps, scales, sink, dtype="uint8")
    exact = small[1] - (np.float32(-0.3) * small[0] + np.float32(1))
    np.testing.assert_array_equal(sink.image[0], np.clip(np.rint(exact), 0, 255))
    assert left["A"].above_px == np.count_nonzero(exact > 255) > 0


def test_a_marker_of_another_cycle_is_brought_into_the_frame(made, image):
    sink, left = run(made, moved(), {**EXPOSED, "C": scale(1.1, 7.5)}, "float32")
    warped = warp_window(
        lambda part: image[3][part.slices], SHAPE, moved()[1, 2], Window.from_shape(SHAPE)
    )
    expected = warped - (image[0] * np.float32(1.1) + np.float32(7.5))
    np.testing.assert_array_equal(sink.image[2], expected)
    assert (sink.image[2] < 0).any()  # float32 keeps what is below 0
    assert left["C"].below_px == 0
    assert left["C"].histogram.missing[0] == np.isnan(warped).sum() > 0
    integers, _ = run(made, moved(), EXPOSED)
    assert (integers.image[2][np.isnan(warped)] == 0).all()


def test_several_backgrounds_are_subtracted_with_a_gain_each(made, image):
    both = (*channels()[:3], replace(channels()[3], background=("AF", "A")))
    gains = {"AF": {"gain": 0.25}, "A": {"gain": 0.5}}
    several = MethodResult(0.75, 3.0, None, {**RANGES, "gains": gains})
    scales = {**EXPOSED, "C": Scale("fit", {"fit": several})}
    sink, left = run((slide(made[0].images[0], both), made[1]), moved(0, 0), scales, "float32")
    exact = image[3] - (0.25 * image[0] + 0.5 * image[1].astype(np.float64) + 3)
    np.testing.assert_allclose(sink.image[2], exact, atol=0.01)
    mean = (image[0] + 2.0 * image[1]) / 3
    assert left["C"].step == 2
    squares = mean.reshape(350, 2, 450, 2).mean(axis=(1, 3))
    np.testing.assert_allclose(left["C"].background, squares, rtol=1e-5)


def test_neither_threads_nor_channels_at_a_time_change_anything(made):
    first = run(made, moved(), EXPOSED)
    for options in ({"workers": 3}, {"workers": 2, "channels_at_a_time": 3}):
        other = run(made, moved(), EXPOSED, **options)
        np.testing.assert_array_equal(first[0].image, other[0].image)
        for name, one in first[1].items():
            np.testing.assert_array_equal(one.histogram.counts, other[1][name].histogram.counts)
            for kind in ("before", "background", "after"):
                np.testing.assert_array_equal(getattr(one, kind), getattr(other[1][name], kind))


def test_what_has_no_background_or_no_gain_passes_untouched(tmp_path, image, made):
    dapi = (*channels()[:3], replace(channels()[3], background=None))
    other = slide(made[0].images[0], dapi), made[1]
    failed = {**EXPOSED, "B": Scale.make_failed("No.")}
    sink, left = run(other, moved(0, 0), failed)
    np.testing.assert_array_equal(sink.image[2], image[3])
    np.testing.assert_array_equal(sink.image[1], image[2])
    assert list(left) == ["A"]
    assert sink.order[:3] == [2, 0, 1]


def test_floating_images_are_cut_off_at_0_alone(tmp_path):
    image = pixels("float32")
    header = write(tmp_path / "s.ome.tif", image)
    sink, left = run((slide(tmp_path / "s.ome.tif"), [header]), moved(0, 0), EXPOSED, "float32")
    exact = image[1] - np.float32(1.5) * image[0]
    np.testing.assert_array_equal(sink.image[0], np.maximum(exact, 0))
    assert left["A"].below_px == np.count_nonzero(exact < 0)


def test_uneven_light_is_evened_out(made, image):
    light = GainMap(SHAPE, np.array([[1.0, 0.1], [0.0, 0.0]]), (0.9, 1.1), 3.0)
    sink, _ = run(made, moved(0, 0), {**EXPOSED, "A": scale(1.5, 3.0, gain_map=light)}, "float32")
    m = light.evaluate_window(Window.from_shape(SHAPE))
    expected = image[1] - (m * (np.float32(1.5) * image[0]) + np.float32(3))
    np.testing.assert_allclose(sink.image[0], expected, atol=0.01)


def test_overviews_are_means_of_squares(made, image):
    sink, left = run(made, moved(0, 0), EXPOSED)
    view, step = left["A"], left["A"].step
    assert step == 2
    squares = (slice(0, n // step * step) for n in SHAPE)
    whole = image[1][tuple(squares)].reshape(350, 2, 450, 2).mean(axis=(1, 3))
    np.testing.assert_allclose(view.before, whole, rtol=1e-6)
    after = sink.image[0].reshape(350, 2, 450, 2).mean(axis=(1, 3))
    np.testing.assert_allclose(view.after, after, rtol=1e-5, atol=1e-3)


def test_a_last_strip_may_be_lower_than_a_square_of_the_overviews(tmp_path):
    shape = (577, 300)  # nine strips of 64 rows, and one row
    image = np.tile(pixels()[:, :64, :300], (1, 10, 1))[:, :577]
    header = write(tmp_path / "s.ome.tif", image)
    sink = Kept(3, "uint16", shape)
    made = slide(tmp_path / "s.ome.tif"), [header]
    left = subtract_slide(*made, moved(0, 0, shape), EXPOSED, sink, dtype="uint16")
    assert (sink.times == 1).all()
    assert (left["A"].step, left["A"].before.shape) == (2, (288, 150))
    whole = image[1][:576].reshape(288, 2, 150, 2).mean(axis=(1, 3))
    np.testing.assert_allclose(left["A"].before, whole, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["uint16", "float32"])
def test_parts_are_joined_to_the_same_bytes(tmp_path, dtype):
    shape = (4096 + 700, 300)
    image = np.tile(pixels()[:, :, :300], (1, 7, 1))[:, : shape[0]]
    header = write(tmp_path / "s.ome.tif", image)
    made, maps = (slide(tmp_path / "s.ome.tif"), [header]), moved(shape=shape)
    known = KnownSlide(made[0], (header,))
    work = Work(known, maps, EXPOSED, Choice(dtype, "nearest"), None, {})
    about = (shape, dtype, [OmeChannel(one.name) for one in made[0].kept])

    def opened(name, **more):
        return OmeTiffSink(tmp_path / name, *about, name="s", **more)

    with opened("whole.tif") as sink:
        left = subtract_slide(*made, maps, EXPOSED, sink, dtype=dtype, workers=2)
    parts = []
    for n, band in enumerate((range(2048), range(2048, 4096), range(4096, shape[0]))):
        parts.append(Part(*(tmp_path / f"{n}.{end}" for end in ("tiles", "npz", "json")), band))
        with opened(f"{n}.tiles", band=band) as sink:
            some = subtract_slide(*made, maps, EXPOSED, sink, dtype=dtype, band=band)
        save_part(parts[n], some, sink.tables)
    kept = Kept(3, dtype, shape, 2048)
    with opened("joined.tif") as sink:
        joined = work.join(parts, sink, kept, workers=2)
    assert (tmp_path / "joined.tif").read_bytes() == (tmp_path / "whole.tif").read_bytes()
    np.testing.assert_array_equal(kept.image, tifffile.imread(tmp_path / "whole.tif"))
    for name, one in left.items():
        assert (one.below_px, one.above_px) == (joined[name].below_px, joined[name].above_px)
        np.testing.assert_array_equal(one.histogram.counts, joined[name].histogram.counts)
        for kind in ("before", "background", "after"):
            np.testing.assert_array_equal(getattr(one, kind), getattr(joined[name], kind))


def test_large_slides_are_made_in_parts_of_whole_windows():
    assert bands_of((20000, 20000), 12) == []
    bands = bands_of((100_000, 100_000), 40)
    assert (bands[0].start, bands[-1].stop) == (0, 100_000)
    assert all(a.stop == b.start and a.stop % 2048 == 0 for a, b in itertools.pairwise(bands))
    assert max(map(len, bands)) * 1e5 * 40 / 1e6 < 1.5 * PART_MPX
