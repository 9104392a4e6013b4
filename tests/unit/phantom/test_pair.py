"""Pairs on disk: deterministic, in every layout, streamed, with a truth that can be read back."""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import tifffile
from phantom_layouts import write_layout

from unglow.cli import phantom
from unglow.core.errors import ConfigError, InputError, UnglowError
from unglow.core.windows import Window
from unglow.images.tiff.read_header import read_header
from unglow.phantom import PhantomSpec, Truth, make_pair
from unglow.phantom.pair import Raster, make_raster, write_tiff
from unglow.phantom.render import Renderer

pytestmark = pytest.mark.slow

SPEC = PhantomSpec(shape=(700, 600), shift_px=(12.0, -7.0), seed=3)
LAYOUTS = {"tiles": (True, 4), "strips": (False, 2), "single strip": (False, 1)}
"""Whether a file of 700 x 600 px is tiled, and its segments."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    raw = tmp_path_factory.mktemp("raw")
    truth = make_pair(SPEC, raw, "s", "DAPI")
    return raw / "s", truth


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("dtype", "rgb"), [("uint8", True), ("uint16", False)])
def test_layouts_hold_the_same_pixels_whatever_the_workers(tmp_path, layout, dtype, rgb):
    renderer = Renderer(replace(SPEC, dtype=dtype, rgb=rgb, pixel_size_um=0.25))
    paths = [tmp_path / f"{workers}.tif" for workers in (1, 2)]
    for workers, path in enumerate(paths, 1):
        write_layout(path, make_raster(renderer, "post"), layout, workers)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with tifffile.TiffFile(paths[0]) as tif:
        page = tif.pages.first
        expected = renderer.pixels("post", Window.from_shape(SPEC.shape))
        np.testing.assert_array_equal(page.asarray(), expected)
        assert (page.is_tiled, len(page.dataoffsets)) == LAYOUTS[layout]
        assert not tif.is_bigtiff
        assert page.tags["XResolution"].value == (40000, 1)
        assert page.tags["ResolutionUnit"].value == tifffile.RESUNIT.CENTIMETER
        assert "DateTime" not in page.tags


@pytest.mark.parametrize(
    ("options", "pre_um"),
    [
        ({}, 0.5 / 1.02),
        ({"scale": 0.25, "pixel_size_um": 0.3}, 1.2),
        ({"scale": 2.0, "pre_pixel_size_um": 0.5}, 0.5),  # a header that lies
    ],
)
def test_headers_give_the_magnification_unless_they_are_to_lie(tmp_path, options, pre_um):
    spec = PhantomSpec(shape=(90, 80), **options)
    make_pair(spec, tmp_path, "s", "d")
    header = read_header(str(tmp_path / "s" / "s_pre_d.tif"))
    assert header.pixel_size_um == pytest.approx((pre_um, pre_um))


@pytest.mark.parametrize(("sample", "dye"), [("../s", "DAPI"), ("s_post", "DAPI"), ("s", "S_9")])
def test_bad_names_are_refused_before_anything_is_written(tmp_path, sample, dye):
    with pytest.raises(ConfigError):
        make_pair(PhantomSpec(shape=(64, 64)), tmp_path, sample, dye)
    assert list(tmp_path.iterdir()) == []


def test_bigtiff_only_when_needed(tmp_path):
    """A blank image beyond 4 GiB, tiles compressed to almost nothing."""
    tile = np.zeros((512, 512), np.uint16)
    raster = Raster(
        (48000, 48000), tile.dtype, False, lambda w: tile[: w.shape[0], : w.shape[1]], 1.0
    )
    write_tiff(tmp_path / "big.tif", raster, workers=2)
    with tifffile.TiffFile(tmp_path / "big.tif") as tif:
        assert tif.is_bigtiff
        assert tif.pages.first.shape == (48000, 48000)


def test_signal_is_green_and_outside_is_black(pair):
    pixels = tifffile.imread(pair[0] / "s_post_DAPI.tif")
    assert pixels.shape == (700, 600, 3)
    assert pixels[..., 1].mean() > 20
    assert pixels[..., [0, 2]].max() <= 3
    light = Renderer(SPEC).light("post", Window.from_shape(SPEC.shape))
    outside = pixels[..., 1][light == 0]
    assert outside.size > 0.2 * light.size
    assert outside.mean() < 1.0
    assert outside.max() <= 4


def test_microbes_are_in_post_only():
    options = {"shape": (500, 500), "microbes_per_mpx": 300.0, "shift_px": (0.0, 0.0)}
    renderer = Renderer(PhantomSpec(**options))
    without = Renderer(PhantomSpec(**{**options, "microbes_per_mpx": 0.0}))
    assert len(without.microbes) == 0
    assert 30 < len(renderer.microbes) < 75
    window = Window(0, 500, 0, 500)
    np.testing.assert_array_equal(renderer.light("pre", window), without.light("pre", window))
    added = renderer.light("post", window) - without.light("post", window)
    m = renderer.microbes
    assert m.peak.min() >= 4
    assert m.peak.max() <= 60
    assert m.sigma.min() >= 1
    flux = (2 * np.pi * m.peak * m.sigma * m.sigma_long).sum()
    assert abs(added.sum() / flux - 1) < 0.01
    rows, cols = np.rint(m.y).astype(int), np.rint(m.x).astype(int)
    assert (added[rows, cols] > 0.75 * m.peak).all()


def test_truth_survives_the_disk(pair):
    folder, truth = pair
    again = Truth.load(folder / "s_DAPI_truth.json")
    assert again.to_json() == truth.to_json()
    points = np.random.default_rng(0).uniform(0, 600, (50, 2))
    np.testing.assert_array_equal(again.map(points), truth.map(points))
    assert len(again.microbes) > 5
    assert again.spec == SPEC


def test_truth_gives_gain_and_offset_of_the_stored_counts(tmp_path):
    spec = PhantomSpec(shape=(64, 64), dtype="uint16", rgb=False, gain=1.5, offset_pre=0.25)
    truth = make_pair(spec, tmp_path, "s", "DAPI")
    assert truth.gain == 1.5
    assert truth.offset == 64 * (0.5 - 1.5 * 0.25)
    raw = json.loads((tmp_path / "s" / "s_DAPI_truth.json").read_text())["raw"]
    assert raw == {"gain": 1.5, "offset_pre": 16.0, "offset_post": 32.0, "counts_per_level": 64}


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"version": 99}'])
def test_a_file_that_is_no_truth_is_named(tmp_path, text):
    path = tmp_path / "x_truth.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"x_truth\.json"):
        Truth.load(path)


def test_a_failure_leaves_no_file(tmp_path):
    def fail(window):
        if window.y0 > 0:
            raise OSError("no more")
        return np.zeros(window.shape, np.uint8)

    raster = Raster((2000, 600), np.dtype(np.uint8), False, fail, 1.0)
    with pytest.raises(UnglowError, match="no more"):
        write_tiff(tmp_path / "a.tif", raster, workers=2)
    assert list(tmp_path.iterdir()) == []


BAD_SETTINGS = {
    "shape": (10, 2048), "pre_shape": (2048, 0), "scale": 0.0, "gain": math.nan, "read_noise": -1,
    "seed": 1.5, "shift_px": (1.0,), "dtype": "float32", "deform_px": 60.0,
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_bad_settings_are_refused_in_one_sentence(name):
    named = "deformation of 60 px" if name == "deform_px" else f"{name} is "
    with pytest.raises(ConfigError, match=f"^.*{named}"):
        PhantomSpec(**{name: BAD_SETTINGS[name]})


def test_help_shows_eight_options_and_all_where_they_are_asked_for(capsys):
    for option, least, most in (("--help", 10, 10), ("--help-all", 20, 30)):
        with pytest.raises(SystemExit):
            _run([option])
        listed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  -")]
        assert least <= len(listed) <= most


def _run(arguments):
    parser = argparse.ArgumentParser()
    phantom.add_arguments(parser)
    return phantom.run(parser.parse_args(arguments))


def test_command_defaults_are_those_of_the_specification():
    parser = argparse.ArgumentParser()
    phantom.add_arguments(parser)
    args = parser.parse_args([])
    assert list(phantom.pair_specs(args)) == [("phantom", PhantomSpec())]
    assert (str(args.raw), args.sample, args.dye) == ("raw", "phantom", "SYTO9")
    assert "ROWSxCOLS" in parser.format_help()


def test_command_makes_pairs_with_seeds_that_follow(tmp_path):
    options = ["--size", "90x80", "--dtype", "uint16", "--no-rgb"]
    assert (
        _run(["--raw", str(tmp_path), "--pairs", "2", "--seed", "5", "--gain", "2", *options]) == 0
    )
    for n in (1, 2):
        folder = tmp_path / f"phantom_{n:02d}"
        truth = Truth.load(folder / f"phantom_{n:02d}_SYTO9_truth.json")
        assert (truth.spec.seed, truth.gain, truth.spec.shape) == (4 + n, 2.0, (90, 80))
        post = tifffile.imread(folder / f"phantom_{n:02d}_post_SYTO9.tif")
        assert (post.shape, post.dtype) == ((90, 80), np.uint16)


_MEASURE = """
import sys
from pathlib import Path
from unglow.phantom import PhantomSpec, make_pair

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6

make_pair(PhantomSpec(shape=(64, 600)), Path(sys.argv[1]), "warm", "DAPI")
before = peak()
spec = PhantomSpec(shape=(10000, 600), dtype="uint16", shift_px=(0.0, 0.0))
make_pair(spec, Path(sys.argv[1]), "s", "DAPI", workers=2)
print(before, peak())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_image(tmp_path):
    """The pair holds 75 MB of pixels; making it may add the blocks in flight only."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    before, after = map(float, done.stdout.split())
    assert after < 500
    assert after - before < 130
