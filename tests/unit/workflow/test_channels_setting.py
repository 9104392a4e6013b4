"""The channel setting, and the dtype that follows from header and setting alone."""

from __future__ import annotations

import pytest

from unglow.core.errors import InputError
from unglow.io.tiff import ChannelInfo
from unglow.workflow.channels import parse_channels, stored_dtype

RGBA = [ChannelInfo("R"), ChannelInfo("G"), ChannelInfo("B"), ChannelInfo("A", alpha=True)]
OME = [ChannelInfo(n) for n in ("DAPI", "CD3+", "CD3+CD4", "488", "0", "twin", "twin")]


@pytest.mark.parametrize(
    ("setting", "channels", "numbers"),
    [
        ("G", RGBA, (1,)),
        (" g ", RGBA, (1,)),
        ("green", RGBA, (1,)),
        ("2", RGBA, (2,)),
        ("R+G", RGBA, (0, 1)),
        ("b + 0", RGBA, (2, 0)),
        ("dapi", OME, (0,)),
        ("CD3+", OME, (1,)),
        ("CD3+CD4", OME, (2,)),
        ("488", OME, (3,)),
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
        ("4", RGBA, "no channel '4'"),
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
        ("int16", 1, "auto", "int16"),
        ("uint8", 3, "auto", "uint16"),
        ("uint16", 3, "auto", "uint32"),
        ("int8", 3, "auto", "int16"),
        ("int16", 2, "Auto ", "int32"),
        ("uint8", 3, "G", "uint8"),
        ("uint16", 3, "1", "uint16"),
        ("uint8", 3, "R+G", "uint16"),
        ("uint8", 3, "CD3+", "uint8"),
        ("float32", 3, "auto", "float32"),
        ("float64", 1, "auto", "float32"),
        ("float16", 1, "auto", "float32"),
        ("bool", 1, "auto", "uint8"),
    ],
)
def test_stored_dtype(dtype, count, setting, stored):
    assert stored_dtype(dtype, count, setting) == stored


def test_a_name_with_a_plus_sign_is_no_sum():
    assert stored_dtype("uint8", 3, "CD3+CD4") == "uint16"
    assert stored_dtype("uint8", 3, "CD3+CD4", ["CD3+CD4", "a", "b"]) == "uint8"
