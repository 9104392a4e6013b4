"""Pairs on disk: deterministic, in every layout, streamed, with a truth that can be read back."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import subprocess
import sys

import numpy as np
import pytest
import tifffile

from unglow.cli import phantom
from unglow.core.errors import ConfigError, InputError, UnglowError
from unglow.core.windows import Window
from unglow.io.tiff.read_header import read_header
from unglow.phantom import PhantomSpec, Truth, make_pair
from unglow.phantom.pair import Raster, write_tiff
from unglow.phantom.render import Renderer

pytestmark = pytest.mark.slow

SPEC = PhantomSpec(shape=(700, 600), shift_px=(12.0, -7.0), seed=3)
FILES = ("s_pre_DAPI.tif", "s_post_DAPI.tif", "s_DAPI_truth.json")


def _digests(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    raw = tmp_path_factory.mktemp("raw")
    truth = make_pair(SPEC, raw, "s", "DAPI")
    return raw / "s", truth


@pytest.mark.parametrize("layout", ["tiles", "strips", "single strip", "jpeg tiles"])
def test_bytes_do_not_depend_on_the_workers(tmp_path, layout):
    for workers in (1, 2):
        make_pair(SPEC, tmp_path / str(workers), "s", "DAPI", layout=layout, workers=workers)
    assert _digests(tmp_path / "1" / "s") == _digests(tmp_path / "2" / "s")


@pytest.mark.parametrize(
    ("layout", "compression"),
    [
        ("tiles", "lzw"), ("tiles", "zstd"), ("tiles", None), ("strips", "zlib"),
        ("strips", None), ("single strip", "zlib"), ("single strip", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("dtype", "rgb"), [("uint8", True), ("uint16", False)])
def test_layouts_hold_the_same_pixels(tmp_path, layout, compression, dtype, rgb):
    spec = PhantomSpec(
        shape=(600, 530), dtype=dtype, rgb=rgb, pixel_size_um=0.25, pre_pixel_size_um=0.25
    )
    make_pair(spec, tmp_path, "s", "DAPI", layout=layout, compression=compression)
    renderer = Renderer(spec)
    for image in ("pre", "post"):
        expected = renderer.pixels(image, Window.from_shape(renderer.shape(image)))
        with tifffile.TiffFile(tmp_path / "s" / f"s_{image}_DAPI.tif") as tif:
            page = tif.pages.first
            np.testing.assert_array_equal(page.asarray(), expected)
            assert page.is_tiled == (layout == "tiles")
            assert len(page.dataoffsets) == 1 or layout != "single strip"
            assert (page.compression == 1) == (compression is None)
            assert not tif.is_bigtiff
            assert page.tags["XResolution"].value == (40000, 1)
            assert page.tags["ResolutionUnit"].value == tifffile.RESUNIT.CENTIMETER
            assert "DateTime" not in page.tags


def test_jpeg_tiles_are_close_to_the_pixels(pair, tmp_path):
    make_pair(SPEC, tmp_path, "s", "DAPI", layout="jpeg tiles")
    path = tmp_path / "s" / "s_post_DAPI.tif"
    with tifffile.TiffFile(path) as tif:
        assert tif.pages.first.compression == tifffile.COMPRESSION.JPEG
        lossy = tif.asarray().astype(float)
    exact = tifffile.imread(pair[0] / "s_post_DAPI.tif").astype(float)
    assert 0 < np.abs(lossy - exact)[..., 1].mean() < 2.0


def test_bigtiff_only_when_needed(tmp_path):
    """A blank image beyond 4 GiB, tiles compressed to almost nothing."""
    tile = np.zeros((512, 512), np.uint16)
    raster = Raster(
        (48000, 48000), tile.dtype, False, lambda w: tile[: w.shape[0], : w.shape[1]], 1.0
    )
    write_tiff(tmp_path / "big.tif", raster, layout="tiles", compression="zstd", workers=1)
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


def test_bleed_shows_in_red_of_post_only(tmp_path):
    spec = PhantomSpec(shape=(300, 300), bleed=0.25, shift_px=(0, 0))
    make_pair(spec, tmp_path, "s", "DAPI")
    pre, post = (tifffile.imread(tmp_path / "s" / f"s_{i}_DAPI.tif") for i in ("pre", "post"))
    bright = (post[..., 1] > 60) & (post[..., 1] < 200)
    assert abs(post[..., 0][bright].mean() / post[..., 1][bright].mean() - 0.25) < 0.01
    assert pre[..., 0].max() <= 3


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


def test_some_grains_saturate_and_most_do_not():
    grains = Renderer(PhantomSpec(shape=(3000, 3000))).grains
    assert 0.02 < (grains.peak > 255).mean() < 0.3
    assert np.median(grains.peak) < 100


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
    with pytest.raises(InputError, match=r"x_truth\.json: .*make the phantom again"):
        Truth.load(path)


def test_a_failure_leaves_no_file(tmp_path):
    def fail(window):
        if window.y0 > 0:
            raise OSError("no more")
        return np.zeros(window.shape, np.uint8)

    raster = Raster((2000, 600), np.dtype(np.uint8), False, fail, 1.0)
    for layout in ("tiles", "strips", "single strip"):
        with pytest.raises(UnglowError, match="no more"):
            write_tiff(tmp_path / "a.tif", raster, layout=layout, compression="zlib", workers=2)
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
    with pytest.raises(ConfigError, match="bleed needs a second channel"):
        PhantomSpec(rgb=False, bleed=0.1)


@pytest.mark.parametrize(
    ("options", "named"),
    [({"sample": "../s"}, "sample"), ({"sample": "s_post"}, "sample"), ({"dye": "SYTO_9"}, "dye"),
     ({"layout": "rows"}, "layout"), ({"compression": "zip"}, "compression"),
     ({"layout": "single strip", "compression": "lzw"}, "single strip"),
     ({"layout": "jpeg tiles", "dtype": "uint16"}, "jpeg tiles")],
)  # fmt: skip
def test_bad_files_are_refused_before_anything_is_written(tmp_path, options, named):
    spec = PhantomSpec(shape=(64, 64), dtype=options.pop("dtype", "uint8"))
    with pytest.raises(ConfigError, match=f"^.*{named}"):
        make_pair(spec, tmp_path, **{"sample": "s", "dye": "DAPI", **options})
    assert list(tmp_path.iterdir()) == []


def _run(arguments):
    parser = argparse.ArgumentParser()
    phantom.add_arguments(parser)
    return phantom.run(parser.parse_args(arguments))


def test_command_defaults_are_those_of_the_specification():
    parser = argparse.ArgumentParser()
    phantom.add_arguments(parser)
    args = parser.parse_args([])
    assert phantom.spec_of(args) == PhantomSpec()
    assert (str(args.raw), args.sample, args.dye) == ("raw", "phantom", "SYTO9")
    assert "ROWSxCOLS" in parser.format_help()


def test_command_makes_pairs_with_seeds_that_follow(tmp_path):
    options = ["--size", "90x80", "--dtype", "uint16", "--no-rgb", "--layout", "single-strip"]
    assert (
        _run(["--raw", str(tmp_path), "--pairs", "2", "--seed", "5", "--gain", "2", *options]) == 0
    )
    for n in (1, 2):
        folder = tmp_path / f"phantom_{n:02d}"
        truth = Truth.load(folder / f"phantom_{n:02d}_SYTO9_truth.json")
        assert (truth.spec.seed, truth.gain, truth.spec.shape) == (4 + n, 2.0, (90, 80))
        post = tifffile.imread(folder / f"phantom_{n:02d}_post_SYTO9.tif")
        assert (post.shape, post.dtype) == ((90, 80), np.uint16)


@pytest.mark.parametrize(
    ("options", "pre_um"),
    [
        ([], 0.5 / 1.02),
        (["--scale", "2"], 0.25),
        (["--scale", "0.25", "--pixel-size-um", "0.3"], 1.2),
        (["--scale", "2", "--pre-pixel-size-um", "0.5"], 0.5),  # a header that lies
    ],
)
def test_headers_give_the_magnification_unless_they_are_to_lie(tmp_path, options, pre_um):
    assert _run(["--raw", str(tmp_path), "--size", "90x80", *options]) == 0
    folder = tmp_path / "phantom"
    sizes = {
        image: read_header(str(folder / f"phantom_{image}_SYTO9.tif")).pixel_size_um
        for image in ("post", "pre")
    }
    spec = Truth.load(folder / "phantom_SYTO9_truth.json").spec
    assert sizes["post"] == pytest.approx((spec.pixel_size_um,) * 2)
    assert sizes["pre"] == pytest.approx((pre_um, pre_um))
    assert spec.pixel_sizes_um == pytest.approx({"pre": pre_um, "post": spec.pixel_size_um})


@pytest.mark.parametrize(
    "option",
    [["--pairs", "0"], ["--workers", "0"], ["--scale", "99"], ["--pre-pixel-size-um", "0"]],
)
def test_command_refuses_in_one_sentence(tmp_path, option):
    name = option[0].strip("-").replace("-", ".")
    with pytest.raises(ConfigError, match=f"^.*{name} is {option[1]}"):
        _run(["--raw", str(tmp_path), *option])


def test_command_refuses_a_size_that_is_none(capsys):
    with pytest.raises(SystemExit):
        _run(["--size", "2048"])
    assert "'2048' is not ROWSxCOLS, such as 2048x1800" in capsys.readouterr().err


def test_options_are_listed_without_what_makes_images():
    code = (
        "import sys, argparse; from unglow.cli import phantom;"
        "phantom.add_arguments(argparse.ArgumentParser());"
        "print([m for m in ('tifffile', 'scipy', 'cv2') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


_MEASURE = """
import sys
from pathlib import Path
from unglow.phantom import PhantomSpec, make_pair

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6

make_pair(PhantomSpec(shape=(64, 600)), Path(sys.argv[1]), "warm", "DAPI", layout=sys.argv[2])
before = peak()
spec = PhantomSpec(
    shape=(10000, 600), dtype="uint16", shift_px=(0.0, 0.0), damage=sys.argv[3]
)
make_pair(spec, Path(sys.argv[1]), "s", "DAPI", layout=sys.argv[2], workers=2)
print(before, peak())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("layout", "damage"),
    [
        ("tiles", ""),
        ("single strip", ""),
        (
            "tiles",
            "lost:150,blur:150:2,moved:150,fold:60,debris:150,film:150,half_moved:20,gamma:2",
        ),
    ],
)
def test_memory_does_not_grow_with_the_image(tmp_path, layout, damage):
    """The pair holds 75 MB of pixels; making it may add the blocks in flight only."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(tmp_path), layout, damage],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    before, after = map(float, done.stdout.split())
    assert after < 500
    assert after - before < 130
