"""Channels of a slide that are read where they lie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_slide import SHAPE, channels, moved, pixels, slide, write

from unglow.core.windows import Window, coarse_level, halve_stored
from unglow.images.raw_images import read_header
from unglow.images.tiff.reader import TiffReader
from unglow.registration.settings import RegisterSettings
from unglow.slides.images import Frame, HeldChannel, InPlaceImage, SlideReader
from unglow.slides.slide_register import register_cycle
from unglow.spoilt.places import SpoiltMask
from unglow.transform import Transform
from unglow.transform.resample import warp_matrix, warp_window

LAYOUTS = {
    "tiles": {},
    "large tiles": {"tile": (1024, 1024), "compression": "zlib"},
    "strips": {"tile": None, "rowsperstrip": 48, "compression": "zlib"},
    "one strip": {"tile": None, "rowsperstrip": SHAPE[0]},
}


@pytest.fixture(scope="module")
def image():
    return pixels()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_levels_are_those_of_a_store(tmp_path, image, layout):
    header = write(tmp_path / "s.ome.tif", image, **LAYOUTS[layout])
    with SlideReader([header]) as reader:
        seen = InPlaceImage(reader, channels()[2], 1, workers=2)
        level = image[2]
        for number in range(seen.levels):
            assert seen.level_shape(number) == level.shape
            whole = seen.read(Window.from_shape(level.shape), number)
            np.testing.assert_array_equal(whole, level)
            part = Window(3, min(90, level.shape[0]), 5, min(301, level.shape[1]))
            np.testing.assert_array_equal(seen.read(part, number), level[part.slices])
            level = halve_stored(level)


def test_what_is_stored_together_is_decoded_once(tmp_path, image, monkeypatch):
    path = tmp_path / "s.tif"
    write(path, np.moveaxis(image, 0, -1)[:, :, :3], tile=(256, 256), planarconfig="contig")
    header, decoded = read_header(path), []
    decode = TiffReader._decode
    monkeypatch.setattr(TiffReader, "_decode", lambda *a: decoded.append(a[2]) or decode(*a))
    made = channels()[:3]
    with SlideReader([header]) as reader:
        assert list(reader.batches(made, 2)) == [list(made[:2]), list(made[2:])]
        blocks = reader.read(Window(0, 512, 0, 512), made[::-1])
    assert len(decoded) == 4
    for block, channel in zip(blocks, made[::-1], strict=True):
        np.testing.assert_array_equal(block, image[channel.number, :512, :512])


def test_one_file_per_cycle_is_one_slide(tmp_path, image):
    headers = [write(tmp_path / f"{n}.tif", image[n]) for n in (0, 1)]
    made = [type(one)(one.name, i, 0) for i, one in enumerate(channels()[:2])]
    with SlideReader(headers) as reader:
        for block, one in zip(reader.read(Window(0, 99, 1, 88), made[::-1]), (1, 0), strict=True):
            np.testing.assert_array_equal(block, image[one, :99, 1:88])


@pytest.mark.parametrize("model", ["translation", "none"])
def test_cycles_are_registered_in_place(tmp_path, image, model):
    path = tmp_path / "s.ome.tif"
    settings = RegisterSettings(model=model, coarse_px=256, field="never")
    header = write(path, image)
    assert coarse_level((SHAPE, SHAPE), 256) > 1
    one, two = (
        register_cycle(slide(path), [header], (2, 1), settings, workers=n).transform for n in (1, 2)
    )
    assert one.to_dict() == two.to_dict()
    if model == "none":
        assert one.status == "suspect"
        shift = one.residual_shift
        assert (shift.x_px, shift.y_px) == pytest.approx((1.3, -0.6), abs=0.1)
    else:
        assert one.matrix[:2, 2] == pytest.approx((1.3, -0.6), abs=0.1)


@pytest.mark.parametrize("dtype", ["uint16", "float32"])
def test_blocks_of_a_channel_that_stays_are_not_decoded_again(tmp_path, monkeypatch, dtype):
    made = pixels(dtype)
    made[0, 300, 256] = 0 if dtype == "uint16" else np.nan  # just beyond the window
    header, decoded = write(tmp_path / "s.ome.tif", made), []
    block, decode, own = Window(256, 512, 0, 256), TiffReader._decode, channels()[0]
    with SlideReader([header]) as reader:
        frame = Frame(reader, slide(tmp_path / "s.ome.tif"), moved())
        held = HeldChannel(frame, own, block, frame.read(block, [own])[0])
        monkeypatch.setattr(TiffReader, "_decode", lambda *a: decoded.append(a[2]) or decode(*a))
        found = warp_matrix(held.read, SHAPE, np.eye(3), block)
    whole = warp_matrix(lambda part: made[0][part.slices], SHAPE, np.eye(3), block)
    np.testing.assert_array_equal(found, whole)
    # a NaN spreads to what is interpolated from it, whole numbers do not
    assert bool(decoded) == bool(np.isnan(found).any()) == (dtype == "float32")


def test_channels_of_a_moved_cycle_are_resampled_once_and_others_not(tmp_path, image):
    window, transform, made = Window(0, SHAPE[0], 3, 800), moved()[1, 2], channels()
    with SlideReader([write(tmp_path / "s.ome.tif", image)]) as reader:
        frame = Frame(reader, slide(tmp_path / "s.ome.tif"), moved())
        aligned, stays = frame.read(window, [made[3], made[0]])
    whole = warp_window(lambda part: image[3][part.slices], SHAPE, transform, window)
    np.testing.assert_array_equal(aligned, whole)
    assert stays.dtype == np.uint16
    np.testing.assert_array_equal(stays, image[0][window.slices])


@pytest.mark.parametrize("factor", [2, 4])
def test_a_cycle_of_another_size_is_brought_to_the_px_of_the_frame(tmp_path, image, factor):
    fine = np.kron(image[3], np.ones((factor, factor), np.uint16))
    headers = [write(tmp_path / "1.ome.tif", image[:3]), write(tmp_path / "2.tif", fine)]
    made = (*channels()[:3], replace(channels()[3], image=1, number=0))
    half = (factor - 1) / 2
    matrix = np.array([[factor, 0, half], [0, factor, half], [0, 0, 1.0]])
    shape = SHAPE[0] * factor, SHAPE[1] * factor
    found = Transform("ok", SHAPE, shape, matrix=matrix, model="similarity", scale=factor)
    with SlideReader(headers) as reader:
        frame = Frame(reader, slide(tmp_path / "1.ome.tif", made), {(1, 2): found})
        assert frame.shape == SHAPE
        (pixels_,) = frame.read(Window(7, 300, 11, 500), [made[3]])
        assert [frame.area_of(made[n]) for n in (0, 3)] == [1, pytest.approx(factor**2)]
    np.testing.assert_array_equal(pixels_, image[3][7:300, 11:500])


def test_spoilt_px_of_a_cycle_and_those_near_them_are_no_data(tmp_path, image):
    header = write(tmp_path / "s.ome.tif", image)
    blocks = np.zeros((-(-SHAPE[0] // 32), -(-SHAPE[1] // 32)), np.bool_)
    blocks[4:6, 7] = True
    mask, window = SpoiltMask(blocks, 32), Window(100, 400, 150, 500)
    with SlideReader([header]) as reader:
        plain = Frame(reader, slide(header.path), moved())
        hides = Frame(reader, slide(header.path), moved(), {1: mask})
        one, other = channels()[1], channels()[3]
        before, after = (frame.read(window, [one, other]) for frame in (plain, hides))
        np.testing.assert_array_equal(before[1], after[1])
        near = np.zeros(SHAPE, np.bool_)
        near[128 - 12 : 192 + 12, 224 - 12 : 256 + 12] = True
        assert np.isnan(after[0][near[window.slices]]).all()
        rest = ~near[window.slices]
        np.testing.assert_array_equal(after[0][rest], before[0][rest])
        away = Window(400, 500, 0, 90)
        assert hides.read(away, [one])[0].dtype == np.uint16
