"""Slides with tiles that are not stored: no data there, reported where other channels have them."""

from __future__ import annotations

import numpy as np
import pytest
from made_slide import GAINS, SHAPE, Kept, moved, pixels, slide, write
from partial_images import drop

from unglow.core.windows import Window
from unglow.images.raw_images import read_header
from unglow.photometry.gain.scale import ScaleSettings
from unglow.slides.channels import Gaps
from unglow.slides.images import SlideReader
from unglow.slides.measure import measure_slide
from unglow.slides.ranges import raw_noise
from unglow.slides.subtract import subtract_slide

LINEAR = ScaleSettings(("linear",), gain_map="never")
LOST = Window(256, 512, 256, 512)
"""Tile 5 of the 3 x 4 that each channel has."""
SHARE = 256**2 / (SHAPE[0] * SHAPE[1])


def made(tmp_path, lost):
    """Return a slide and its header; ``lost`` has the tiles that pages do not store."""
    path = tmp_path / "s.ome.tif"
    write(path, pixels(), compression="zlib")  # else pages share a table
    for page, tiles in lost.items():
        drop(path, tiles, page)
    return slide(path), [read_header(path)]


def test_gaps_are_known_by_channel_and_lost_where_others_are_stored(tmp_path):
    one, headers = made(tmp_path, {0: [11], 1: [5, 11], 2: [11], 3: [11]})
    with SlideReader(headers) as reader:
        gaps = reader.gaps
        assert isinstance(gaps, Gaps)
        assert gaps.find_missing(one.channel("AF")).rectangles == (Window(512, 700, 768, 900),)
        assert gaps.find_missing(one.channel("A")).rectangles[0] == LOST
        assert gaps.lost(one.channel("A")) == pytest.approx(SHARE)
        assert gaps.lost(one.channel("AF")) == 0
        assert gaps.doubt(one.channel("AF")) == (None, False)
        reason, too_much = gaps.doubt(one.channel("A"))
        assert reason.key == "gaps"
        assert reason.numbers == (
            "2 of 12 tiles of A in s.ome.tif are not stored: 10 % of the slide, where other "
            "channels are stored."
        )
        assert not too_much
        part = Window(500, 520, 500, 520)
        block = reader.read(part, [one.channel("A")])[0]
        hidden = gaps.hide(one.channel("A"), part, block)
        assert np.isnan(hidden[:12, :12]).all()
        assert np.isfinite(hidden[12:]).all()
        assert gaps.hide(one.channel("AF"), part, block) is block


@pytest.mark.parametrize("page", [0, 1])
def test_gain_and_difference_are_those_of_the_rest(tmp_path, page):
    one, headers = made(tmp_path, {page: [5]})
    found = measure_slide(one, headers, moved(), LINEAR)
    scale = found["A"].scale
    assert scale.default_result.gain == pytest.approx(GAINS["A"], rel=0.02)
    assert "1 of 12 tiles of " in scale.reasons[-1].numbers
    # the background of all markers, or one marker alone
    assert bool(found["B"].scale.reasons) == (page == 0)
    assert found["A"].statistics.n["overlap"] == SHAPE[0] * SHAPE[1] - 256**2
    sink = Kept(3, "float32")
    left = subtract_slide(
        one, headers, moved(), {k: v.scale for k, v in found.items()}, sink, dtype="float32"
    )
    marker = [c.name for c in one.kept].index("A")
    inside = np.zeros(SHAPE, bool)
    inside[LOST.slices] = True
    assert np.array_equal(np.isnan(sink.image[marker]), inside)
    assert left["A"].histogram.total == inside.size - 256**2
    whole = Kept(3)
    subtract_slide(
        one, headers, moved(), {k: v.scale for k, v in found.items()}, whole, dtype="uint16"
    )
    assert (whole.image[marker][inside] == 0).all()


def test_a_resampled_marker_has_no_data_around_a_lost_tile(tmp_path):
    one, headers = made(tmp_path, {3: [5]})
    found = measure_slide(one, headers, moved(), LINEAR)
    sink = Kept(3, "float32")
    subtract_slide(
        one, headers, moved(), {k: v.scale for k, v in found.items()}, sink, dtype="float32"
    )
    image = sink.image[[channel.name for channel in one.kept].index("C")]
    rows, cols = np.nonzero(np.isnan(image[10:-10, 10:-10]))  # the rim lies beyond its image
    # content moves by (1.3, -0.6) px, and 4 x 4 px are interpolated
    assert (rows.min() + 10, rows.max() + 10) == (254, 512)
    assert (cols.min() + 10, cols.max() + 10) == (256, 514)


def test_what_every_channel_leaves_out_is_on_purpose(tmp_path):
    one, headers = made(tmp_path, {page: [0, 3, 8] for page in range(4)})
    found = measure_slide(one, headers, moved(), LINEAR)
    assert [found[name].scale.reasons for name in GAINS] == [(), (), ()]
    assert found["A"].scale.default_result.gain == pytest.approx(GAINS["A"], rel=0.02)


def test_a_marker_that_lost_too_much_fails_and_the_others_do_not(tmp_path):
    one, headers = made(tmp_path, {1: range(4, 12)})
    found = measure_slide(one, headers, moved(), LINEAR)
    assert (found["A"].scale.status, found["B"].scale.status) == ("failed", "ok")
    (reason,) = found["A"].scale.reasons
    assert reason == "Too much of A in s.ome.tif is missing."
    assert reason.numbers.startswith("8 of 12 tiles of A in s.ome.tif are not stored")
    assert reason.help == "Copy the file again from its source, or write it again."


HOLE = Window(300, 428, 200, 328)
HOLES = [
    ("AF", 0, True),
    ("AF", 65535, True),
    ("AF", 3000, True),
    ("A", 0, False),
    ("A", 65535, False),
    ("A", 3000, False),
    ("AF", np.nan, True),
    ("A", np.nan, False),
]


def subtracted(tmp_path, image):
    """Write, measure and subtract a slide; return scales, corrected A, and which px it lacks."""
    path = tmp_path / "s.ome.tif"
    write(path, image, compression="zlib")
    one, headers = slide(path), [read_header(path)]
    found = measure_slide(one, headers, moved(), LINEAR)
    scales, sink = {name: of.scale for name, of in found.items()}, Kept(3, "float32")
    subtract_slide(one, headers, moved(), scales, sink, dtype="float32")
    corrected = sink.image[[c.name for c in one.kept].index("A")]
    return scales, corrected, np.isnan(corrected)


@pytest.mark.parametrize(("name", "value", "of_background"), HOLES)
def test_a_constant_hole_in_a_marker_or_its_background_is_missing(
    tmp_path, name, value, of_background
):
    image = pixels("float32" if np.isnan(value) else "uint16")
    image[["AF", "A"].index(name)][HOLE.slices] = value
    scales, _, missing = subtracted(tmp_path, image)
    inside = np.zeros(SHAPE, bool)
    inside[HOLE.slices] = True
    np.testing.assert_array_equal(missing, inside)
    (note,) = scales["A"].notes
    end = ", so A is missing there." if of_background else "."
    assert note == f"{name} was not imaged on 2.6 % of the slide{end}"
    assert bool(scales["B"].notes) == of_background
    assert not scales["A"].reasons
    assert scales["A"].default_result.gain == pytest.approx(GAINS["A"], rel=0.02)


@pytest.mark.parametrize(("name", "of_background"), [("AF", True), ("A", False)])
def test_a_channel_that_lacks_a_third_of_the_slide_is_a_doubt(tmp_path, name, of_background):
    image = pixels()
    image[["AF", "A"].index(name)][:, 20 : 20 + SHAPE[1] // 3] = 0
    scales, _, _ = subtracted(tmp_path, image)
    for marker, scale in scales.items():
        keys = [one.key for one in scale.reasons]
        assert keys == ["channel_large_gaps"] * (of_background or marker == name)


def test_gaps_between_tiles_and_a_hole_larger_than_a_window_are_missing(tmp_path):
    image = pixels()
    inside = np.zeros(SHAPE, bool)
    inside[60:640, 50:600] = inside[:, 700:704] = True
    image[0][inside] = 0
    _, _, missing = subtracted(tmp_path, image)
    np.testing.assert_array_equal(missing, inside)


def test_a_saturated_background_makes_the_marker_missing_and_a_saturated_marker_is_a_note(tmp_path):
    image, whole = pixels(), pixels()
    top = int(np.quantile(image[0], 0.9))
    image[0] = np.minimum(image[0], top)
    scales, _, missing = subtracted(tmp_path, image)
    np.testing.assert_array_equal(missing, image[0] == top)
    assert scales["A"].reasons[-1].key == "background_saturated"
    image = whole
    image[1] = np.minimum(image[1], np.quantile(image[1], 0.98).astype(image.dtype))
    scales, _, missing = subtracted(tmp_path, image)
    assert not missing.any()
    assert scales["A"].reasons == ()
    assert scales["A"].notes[-1].key == "channel_saturated"


def test_a_tile_that_a_single_channel_has_is_lost_by_the_others(tmp_path):
    one, headers = made(tmp_path, {page: [5] for page in (0, 1, 3)})
    found = measure_slide(one, headers, moved(), LINEAR)
    assert [reason.key for reason in found["A"].scale.reasons] == ["gaps", "gaps"]


def test_the_noise_of_a_channel_without_px_is_zero(tmp_path):
    image = pixels("float32")
    image[1] = np.nan
    with SlideReader([write(tmp_path / "s.ome.tif", image)]) as reader:
        assert raw_noise(reader, slide(tmp_path / "s.ome.tif").channel("A")) == 0


def test_glass_that_is_cut_out_of_all_channels_of_a_slide_is_no_reason(tmp_path):
    image = pixels()
    y, x = np.indices(SHAPE)
    section = ((y - 350) / 320) ** 2 + ((x - 450) / 400) ** 2 < 1
    image[:, ~section] = 0
    scales, _, missing = subtracted(tmp_path, image)
    assert not missing[section].any()
    assert scales["A"].reasons == ()
