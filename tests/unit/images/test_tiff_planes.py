"""Channels, z, t, series and pyramids: one image is chosen, or the choice is asked for."""

from __future__ import annotations

import numpy as np
import pytest
import tifffile
from reading_tiff import assert_same

from unglow.core.errors import InputError
from unglow.images.tiff import read_header


def stack(*shape, dtype="uint16"):
    return np.random.default_rng(5).integers(0, 60000, shape).astype(dtype)


def test_ome_channels_have_their_names_and_pixel_size(tmp_path):
    data = stack(3, 40, 50)
    path = tmp_path / "a.ome.tif"
    metadata = {
        "axes": "CYX",
        "Channel": {"Name": ["DAPI", "Cy3", "Cy5"]},
        "PhysicalSizeX": 325.0,
        "PhysicalSizeXUnit": "nm",
        "PhysicalSizeY": 0.5,
    }
    tifffile.imwrite(path, data, metadata=metadata, compression="zlib")
    header = assert_same(path, data)
    assert [c.name for c in header.channels] == ["DAPI", "Cy3", "Cy5"]
    assert header.pixel_size_um == pytest.approx((0.325, 0.5), rel=1e-12)
    assert header.separate


@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize(
    ("kind", "axes"), [("imagej", "TZCYX"), ("ome", "TZCYX"), ("ome", "TCZYX"), ("ome", "CTZYX")]
)
def test_hyperstack(tmp_path, kind, axes, compression):
    length = {"T": 2, "C": 3, "Z": 4, "Y": 21, "X": 33}
    data = stack(*(length[a] for a in axes))
    path = tmp_path / ("a.ome.tif" if kind == "ome" else "a.tif")
    tifffile.imwrite(
        path, data, imagej=kind == "imagej", metadata={"axes": axes}, compression=compression
    )
    ordered = np.transpose(data, [axes.index(a) for a in "TZCYX"])
    with pytest.raises(InputError, match=r"holds 4 planes along z .*`plane: \{z: N\}` \(0 to 3\)"):
        read_header(path)
    with pytest.raises(InputError, match=r"holds 2 planes along t .*`plane: \{t: N\}`"):
        read_header(path, z=1)
    header = assert_same(path, ordered[1, 2], z=2, t=1, windows=5)
    assert header.axes == {"T": 2, "Z": 4}
    assert header.plane == {"series": 0, "z": 2, "t": 1}
    header = assert_same(path, ordered[1].max(axis=0), z="max", t=1, windows=5)
    assert header.dtype == "uint16"
    assert "projected by max over 4 z planes" in header.notes
    assert assert_same(path, ordered.max(axis=(0, 1)), z="max", t="max", windows=5).notes
    mean = ordered[0].astype(np.float64).mean(axis=0).astype(np.float32)
    assert assert_same(path, mean, z="mean", t=0, windows=5).dtype == "float32"


def test_mean_of_wide_samples_is_float64(tmp_path):
    data = stack(3, 10, 12, dtype="int32") * 30011
    path = tmp_path / "a.ome.tif"
    tifffile.imwrite(path, data, metadata={"axes": "ZYX"})
    header = read_header(path, z="mean")
    assert header.dtype == "float64"
    assert_same(path, data.sum(axis=0, dtype=np.float64)[None] / 3, z="mean")


def test_white_is_zero_is_inverted_before_projection(tmp_path):
    data = stack(3, 10, 12)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, data, photometric="miniswhite", metadata={"axes": "ZYX"})
    assert_same(path, (65535 - data.min(axis=0))[None], z="max")


def test_plane_settings_that_cannot_be(tmp_path):
    path = tmp_path / "a.tif"
    data = stack(4, 10, 12)
    tifffile.imwrite(path, data, metadata={"axes": "ZYX"}, photometric="minisblack")
    with pytest.raises(InputError, match=r"no plane z = 4 \(number of planes: 4\): .* 0 to 3\."):
        read_header(path, z=4)
    with pytest.raises(InputError, match="plane z is 'sum'; give a number or one of max and mean"):
        read_header(path, z="sum")
    with pytest.raises(
        InputError, match=r"no plane t = 1 \(number of planes: 1\): leave `t` out of `plane`"
    ):
        read_header(path, z=0, t=1)
    assert read_header(path, z=0, t=0).shape == (10, 12)


def test_pages_of_unknown_meaning_are_never_stacked_in_silence(tmp_path):
    data = stack(3, 10, 12)
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as tif:
        for page in data:
            tif.write(page, metadata=None)
    with pytest.raises(InputError, match=r"3 pages of unknown meaning \(I\).*`plane: \{z: N\}`"):
        read_header(path)
    assert_same(path, data[1:2], z=1)
    path = tmp_path / "b.tif"
    tifffile.imwrite(path, data, photometric="minisblack")
    with pytest.raises(InputError, match=r"3 pages of unknown meaning \(Q\)"):
        read_header(path)
    assert_same(path, data[2:], z=2)


def test_series_of_several_shapes(tmp_path):
    first, second = stack(40, 50), stack(30, 20)
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as tif:
        tif.write(first)
        tif.write(second)
    with pytest.raises(
        InputError, match=r"holds 2 images: 0 40 x 50 YX, 1 30 x 20 YX; .*series: N"
    ):
        read_header(path)
    assert_same(path, second[None], series=1)
    with pytest.raises(InputError, match=r"has no series 2: its 2 are .* one of 0 to 1"):
        read_header(path, series=2)


def test_small_preview_next_to_a_large_image(tmp_path):
    large = stack(200, 160)
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as tif:
        tif.write(stack(20, 16, 3, dtype="uint8"), photometric="rgb")
        tif.write(large)
    header = assert_same(path, large[None])
    assert header.plane["series"] == 1
    assert header.notes[0].startswith("series 1 of 2 is read")


@pytest.mark.parametrize(("ome", "subifds"), [(True, True), (False, True), (False, False)])
def test_pyramid_reads_level_0(tmp_path, subifds, ome):
    data = stack(3, 256, 192, dtype="uint8") if ome else stack(256, 192, 3, dtype="uint8")
    path = tmp_path / ("a.ome.tif" if ome else "a.tif")
    options = {"tile": (32, 32), "compression": "zlib"}
    if not ome:
        options["photometric"] = "rgb"
    level = (lambda k: data[:, ::k, ::k]) if ome else (lambda k: data[::k, ::k])
    with tifffile.TiffWriter(path, ome=ome) as tif:
        meta = {"axes": "CYX"} if ome else None
        tif.write(data, subifds=2 if subifds else None, metadata=meta, **options)
        for k in (2, 4):
            tif.write(level(k), subfiletype=1, metadata=None, **options)
    header = assert_same(path, data if ome else np.moveaxis(data, -1, 0))
    assert header.shape == (256, 192)
    assert any("level 0 of 3 pyramid levels" in note for note in header.notes)


def test_imagej_pixel_size_and_rgb(tmp_path):
    data = stack(20, 30, 3, dtype="uint8")
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, data, imagej=True, resolution=(2.0, 4.0), metadata={"unit": "um"})
    assert assert_same(path, np.moveaxis(data, -1, 0)).pixel_size_um == (0.5, 0.25)


@pytest.mark.parametrize(
    ("resolution", "unit", "size"),
    [
        ((72, 72), "INCH", None),  # a screen's
        ((300, 300), "INCH", None),  # a printer's
        ((25400, 25400), "INCH", (1.0, 1.0)),
        ((40000, 20000), "CENTIMETER", (0.25, 0.5)),
        ((4, 4), "NONE", None),
    ],
)
def test_only_believable_resolution_tags_count(tmp_path, resolution, unit, size):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, stack(9, 9), resolution=resolution, resolutionunit=unit)
    assert read_header(path).pixel_size_um == size


def test_aperio_description_gives_pixel_size(tmp_path):
    path = tmp_path / "a.svs"
    description = "Aperio Image Library v1.0\n64x64 |AppMag = 20|MPP = 0.4990"
    tifffile.imwrite(
        path,
        stack(64, 64, 3, dtype="uint8"),
        description=description,
        metadata=None,
        tile=(32, 32),
        photometric="rgb",
    )
    assert read_header(path).pixel_size_um == (0.499, 0.499)


def test_ome_set_over_several_files(tmp_path):
    data = stack(2, 12, 14)
    names = ["c0.ome.tif", "c1.ome.tif"]
    plane = (
        '<TiffData FirstC="{i}" IFD="0" PlaneCount="1">'
        '<UUID FileName="{name}">{id}</UUID></TiffData>'
    )
    for i, name in enumerate(names):
        planes = "".join(
            plane.format(i=j, name=n, id=f"urn:uuid:0000000{j}") for j, n in enumerate(names)
        )
        xml = (
            '<?xml version="1.0" encoding="UTF-8"?><OME '
            'xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" '
            f'UUID="urn:uuid:0000000{i}"><Image ID="Image:0"><Pixels ID="Pixels:0" '
            'DimensionOrder="XYCZT" Type="uint16" SizeX="14" SizeY="12" SizeC="2" SizeZ="1" '
            'SizeT="1"><Channel ID="Channel:0" Name="a"/><Channel ID="Channel:1" Name="b"/>'
            f"{planes}</Pixels></Image></OME>"
        )
        tifffile.imwrite(tmp_path / name, data[i], description=xml, metadata=None)
    header = assert_same(tmp_path / names[0], data)
    assert [c.name for c in header.channels] == ["a", "b"]
    assert "its planes are spread over several files of an OME-TIFF set" in header.notes
    (tmp_path / names[1]).unlink()
    with pytest.raises(InputError, match=r"c0\.ome\.tif"):
        read_header(tmp_path / names[0])
