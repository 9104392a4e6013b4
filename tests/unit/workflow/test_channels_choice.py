"""Which channels carry the signal, for both images of a pair together; what a setting means."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
import tifffile
from scipy.ndimage import gaussian_filter

from unglow.core.errors import InputError
from unglow.images.channel_signal import ChannelSample, measure
from unglow.images.channels import choose_channels, decide, find_stored_dtype, parse_channels
from unglow.images.tiff import ChannelInfo, read_header

SIDE = 512
RGB = [ChannelInfo(n) for n in "RGB"]


def section(seed: int = 0) -> np.ndarray:
    """A textured section that covers half of a black slide."""
    rng = np.random.default_rng(seed)
    inside = gaussian_filter(rng.random((SIDE, SIDE)), 30)
    texture = gaussian_filter(rng.random((SIDE, SIDE)), 3)
    texture = (texture - texture.min()) / np.ptp(texture)
    return np.where(inside > np.median(inside), 40 + 120 * texture, 0.0)


def rgb(r, g, b, noise: float = 2.0, top: int = 255) -> np.ndarray:
    rng = np.random.default_rng(1)
    planes = [
        np.broadcast_to(p, (SIDE, SIDE)) + rng.normal(0, noise, (SIDE, SIDE)) for p in (r, g, b)
    ]
    return np.clip(np.rint(np.stack(planes, -1)), 0, top).astype(
        np.uint8 if top == 255 else np.uint16
    )


def header(tmp_path, name: str, image: np.ndarray, **options):
    path = tmp_path / f"{name}.tif"
    options = {
        "photometric": "rgb" if image.ndim == 3 else "minisblack",
        "tile": (128, 128),
    } | options
    tifffile.imwrite(path, image, **options)
    return read_header(path)


def choose(tmp_path, post, pre, channel: str = "auto", **options):
    headers = {
        "post": header(tmp_path, "post", post, **options),
        "pre": header(tmp_path, "pre", pre),
    }
    return choose_channels(headers, channel=channel)


def test_signal_in_green_only(tmp_path):
    image = rgb(0, section(), 0)
    choice = choose(tmp_path, image, image)
    assert choice.indices == {"post": (1,), "pre": (1,)}
    assert choice.names == ("G",)
    assert choice.joint["G"] > 0.95
    assert choice.reason == f"G carries {100 * choice.joint['G']:.0f} % of the signal."
    assert sum(choice.shares["post"].values()) == pytest.approx(1.0, abs=1e-3)
    json.dumps(asdict(choice), allow_nan=False)


@pytest.mark.parametrize("bleed", [0.3, 0.6])
def test_bleed_into_red_of_post_alone_changes_nothing(tmp_path, bleed):
    texture = section()
    choice = choose(tmp_path, rgb(bleed * texture, texture, 0), rgb(0, texture, 0))
    assert choice.indices == {"post": (1,), "pre": (1,)}
    assert choice.shares["post"]["R"] == pytest.approx(bleed / (1 + bleed), abs=0.03)
    assert choice.shares["pre"]["R"] < 0.05


def test_signal_in_two_channels_of_both_is_summed(tmp_path):
    texture = section()
    image = rgb(0.7 * texture, texture, 0)
    choice = choose(tmp_path, image, image)
    assert choice.indices == {"post": (0, 1), "pre": (0, 1)}
    assert "R and G carry" in choice.reason
    assert "are summed" in choice.reason


@pytest.mark.parametrize("level", [95, 60])
def test_colour_noise_of_jpeg_is_no_signal(tmp_path, level):
    image = rgb(0, section(), 0)
    choice = choose(tmp_path, image, image, compression="jpeg", compressionargs={"level": level})
    assert choice.names == ("G",)
    assert choice.shares["post"]["R"] < 0.05


def test_alpha_never_counts(tmp_path):
    image = rgb(0, section(), 0)
    opaque = np.dstack([image, np.full((SIDE, SIDE), 255, np.uint8)])
    headers = {
        "post": header(tmp_path, "post", opaque, extrasamples=["unassalpha"]),
        "pre": header(tmp_path, "pre", image),
    }
    assert len(headers["post"].channels) == 4
    choice = choose_channels(headers)
    assert choice.indices == {"post": (1,), "pre": (1,)}
    assert set(choice.joint) == {"R", "G", "B"}


def test_grey_saved_as_rgb_is_read_once(tmp_path):
    texture = section()
    image = rgb(texture, texture, texture, noise=0)
    choice = choose(tmp_path, image, image)
    assert choice.indices == {"post": (0,), "pre": (0,)}
    assert choice.reason == "R, G and B are equal; R is taken."


def test_sixteen_bits(tmp_path):
    image = rgb(100, 100 + 50 * section(), 100, noise=5, top=65535)
    choice = choose(tmp_path, image, image)
    assert choice.names == ("G",)
    assert choice.joint["G"] > 0.99


def test_a_section_that_fills_the_image(tmp_path):
    texture = section() % 97
    image = rgb(6, 60 + texture, 6)
    assert choose(tmp_path, image, image).names == ("G",)


@pytest.mark.parametrize("depth", [(90, 150, 110), (0, 150, 0)])
def test_bright_background(tmp_path, depth):
    dark = section() / 160
    image = rgb(*(235 - d * dark for d in depth))
    choice = choose(tmp_path, image, image)
    assert choice.names == (("G",) if depth[0] == 0 else ("R", "G", "B"))


def test_a_small_dark_object_on_a_bright_background_is_seen():
    spot = np.zeros((SIDE, SIDE))
    spot[200:230, 100:140] = 1  # 0.5 % of the image: the darkest percentile would be in it
    blocks = [np.moveaxis(rgb(240, 240 - 150 * spot, 240), -1, 0)]
    found = measure(blocks, RGB)
    assert found.shares["G"] > 0.95
    assert found.signal[1] == pytest.approx(150 * 0.0046, rel=0.1)


@pytest.mark.parametrize(("level", "noise"), [(0, 0.6), (20, 3.0), (100, 0.3), (50, 0.0)])
def test_noise_alone_is_no_signal(level, noise):
    blocks = [np.moveaxis(rgb(level, level, level, noise=noise), -1, 0)]
    assert measure(blocks, RGB).signal == (0.0, 0.0, 0.0)


def test_not_a_number_is_left_out():
    image = np.moveaxis(rgb(0, section(), 0), -1, 0).astype(np.float32)
    image[:, :40] = np.nan
    image[:, 40:60, :7] = np.inf
    found = measure([image], RGB)
    assert np.isfinite(found.signal).all()
    assert found.shares["G"] > 0.95
    assert measure([np.full((3, 8, 8), np.nan, np.float32)], RGB).signal == (0.0, 0.0, 0.0)


def test_a_black_image_leaves_the_choice_to_the_other(tmp_path):
    black = np.zeros((SIDE, SIDE, 3), np.uint8)
    choice = choose(tmp_path, black, rgb(0, section(), 0))
    assert choice.names == ("G",)
    assert choice.reason.endswith("(nothing rises above the noise in post).")
    both = choose(tmp_path, black, black)
    assert both.names == ("R",)
    assert "no channel rises above its noise" in both.reason


def test_signal_in_different_channels_is_refused(tmp_path):
    texture = section()
    with pytest.raises(
        InputError, match=r"G in post \(99 %\) and R in pre \(9\d %\): set `channel`"
    ):
        choose(tmp_path, rgb(0, texture, 0), rgb(texture, 0, 0))


def test_one_channel_against_three_needs_a_setting(tmp_path):
    texture = section()
    mono = rgb(0, texture, 0)[..., 1].copy()
    with pytest.raises(InputError, match=r"post\S* has 3 channels and \S*pre\S* has one"):
        choose(tmp_path, rgb(0, texture, 0), mono)
    choice = choose(tmp_path, rgb(0, texture, 0), mono, channel="g")
    assert choice.indices == {"post": (1,), "pre": (0,)}
    assert choice.reason == "G is set by `channel`."
    single = choose(tmp_path, mono, mono)
    assert single.indices == {"post": (0,), "pre": (0,)}


def test_channels_are_matched_by_name_and_then_by_place():
    def sample(names, signal):
        n = len(names)
        return ChannelSample(names, tuple(range(n)), signal, (1.0,) * n, equal=False)

    post = sample(("DAPI", "FITC"), (1.0, 9.0))
    assert decide({"post": post, "pre": sample(("FITC", "DAPI"), (9.0, 1.0))}).indices == {
        "post": (1,),
        "pre": (0,),
    }
    assert decide({"post": post, "pre": sample(("0", "1"), (1.0, 9.0))}).indices == {
        "post": (1,),
        "pre": (1,),
    }


def test_the_channel_of_the_dye_is_taken_where_there_is_one(tmp_path):
    images = {}
    for role in ("post", "pre"):
        path = tmp_path / f"{role}.ome.tif"
        stack = np.stack([section(), 2 * section(3) % 255]).astype(np.uint8)
        tifffile.imwrite(
            path, stack, metadata={"axes": "CYX", "Channel": {"Name": ["DAPI", "FITC"]}}
        )
        images[role] = read_header(path)
    choice = choose_channels(images, dye="fitc")
    assert choice.indices == {"post": (1,), "pre": (1,)}
    assert choice.reason == "channel FITC has the name of the dye."
    assert len(choose_channels(images, dye="Cy5").names) == 2


def test_measuring_does_not_depend_on_how_blocks_are_cut():
    image = np.moveaxis(rgb(0, section(), 0), -1, 0)
    halves = [image[:, :, : SIDE // 2], image[:, :, SIDE // 2 :]]
    one, two = measure([image], RGB), measure(halves, RGB)
    assert one.signal == pytest.approx(two.signal, rel=1e-6)


RGBA = [ChannelInfo("R"), ChannelInfo("G"), ChannelInfo("B"), ChannelInfo("A", alpha=True)]
OME = [ChannelInfo(n) for n in ("DAPI", "CD3+", "CD3+CD4", "488", "0", "twin", "twin")]


@pytest.mark.parametrize(
    ("setting", "channels", "numbers"),
    [
        ("G", RGBA, (1,)),
        ("green", RGBA, (1,)),
        ("2", RGBA, (2,)),
        ("R+G", RGBA, (0, 1)),
        ("b + 0", RGBA, (2, 0)),
        ("dapi", OME, (0,)),
        ("CD3+", OME, (1,)),
        ("0", OME, (4,)),  # a name goes before a number
        ("1", OME, (1,)),
        ("G", [ChannelInfo("0")], (0,)),  # a single channel is what every setting means
        ("R+G", [ChannelInfo("0"), ChannelInfo("A", alpha=True)], (0,)),
    ],
)
def test_settings(setting, channels, numbers):
    assert parse_channels(setting, channels, "the post image") == numbers


@pytest.mark.parametrize(
    ("setting", "channels", "message"),
    [
        ("Y", RGBA, r"the post image has no channel 'Y'; .* one of R \(0\), G \(1\), B \(2\)\."),
        ("-1", RGBA, "no channel '-1'"),
        ("R+Y", RGBA, "no channel 'Y'"),
        ("A", RGBA, "is alpha, which holds no signal"),
        ("3", RGBA, "is alpha"),
        ("G+1", RGBA, "names a channel of the post image twice"),
        ("twin", OME, "2 channels named 'twin'; give the number"),
    ],
)  # fmt: skip
def test_settings_that_fit_nothing(setting, channels, message):
    with pytest.raises(InputError, match=message):
        parse_channels(setting, channels, "the post image")


@pytest.mark.parametrize(
    ("dtype", "count", "setting", "stored"),
    [
        ("uint8", 1, "auto", "uint8"),
        ("uint16", 1, "R+G", "uint16"),
        ("uint8", 3, "auto", "uint16"),
        ("uint16", 3, "auto", "uint32"),
        ("int8", 3, "auto", "int16"),
        ("uint8", 3, "G", "uint8"),
        ("uint8", 3, "CD3+", "uint8"),
        ("float32", 3, "auto", "float32"),
        ("float64", 1, "auto", "float32"),
        ("bool", 1, "auto", "uint8"),
    ],
)
def test_stored_dtype(dtype, count, setting, stored):
    assert find_stored_dtype(dtype, count, setting) == stored


def test_a_name_with_a_plus_sign_is_no_sum():
    assert find_stored_dtype("uint8", 3, "CD3+CD4") == "uint16"
    assert find_stored_dtype("uint8", 3, "CD3+CD4", ["CD3+CD4", "a", "b"]) == "uint8"
