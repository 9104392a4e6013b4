"""OME-Zarr images of other programs: what is read is what is in them, of both versions."""

from __future__ import annotations

import shlex
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import zarr

from unglow.core.errors import InputError
from unglow.core.windows import Window
from unglow.images import ome_zarr
from unglow.images.ome_zarr import fingerprint
from unglow.images.raw_header import find_image, find_key_file
from unglow.images.raw_images import open_reader, read_header, survey_blocks

CZYX = np.random.default_rng(5).integers(0, 60000, (3, 4, 150, 210), dtype=np.uint16)


@pytest.fixture(params=["0.4", "0.5"])
def image(tmp_path, request):
    """A function that writes an image as ome-zarr-py does, in either version."""
    pytest.importorskip("ome_zarr", reason="ome-zarr is not installed")
    from ome_zarr.format import format_from_version  # takes a second
    from ome_zarr.writer import write_image

    version = format_from_version(request.param)

    def write(pixels, axes, name="S.ome.zarr", chunks=64, **more):
        group = zarr.open_group(str(tmp_path / name), mode="w", zarr_format=version.zarr_format)
        sizes = (1,) * (pixels.ndim - 2) + (chunks, chunks)
        write_image(
            pixels, group, axes=axes, fmt=version, storage_options={"chunks": sizes}, **more
        )
        return tmp_path / name

    return write


def all_of(header, channels=None):
    with open_reader(header) as reader:
        return reader.read(Window.from_shape(header.shape), channels)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", ">u2", "float32"])
def test_windows_are_what_was_written(image, dtype):
    pixels = (CZYX[0, 0] >> 4).astype(dtype)
    header = read_header(image(pixels, "yx"))
    assert (header.shape, header.dtype) == ((150, 210), np.dtype(dtype).newbyteorder("=").name)
    assert [c.name for c in header.channels] == ["grey"]
    with open_reader(header) as reader:
        for window in (
            Window.from_shape(header.shape),
            Window(63, 130, 10, 210),
            Window(5, 6, 64, 65),
        ):
            assert np.array_equal(reader.read(window)[0], pixels[window.slices])
            assert reader.read(window).dtype == header.dtype
        with pytest.raises(ValueError, match="leaves the image"):
            reader.read(Window(0, 151, 0, 1))
    assert sum(b.size for b in survey_blocks(header)) == pixels.size


def test_channels_and_planes_are_chosen_as_in_tiff_files(image):
    path = image(CZYX, "czyx")
    with pytest.raises(InputError, match=r"holds 4 planes along z .*choose one with `plane"):
        read_header(path)
    one = read_header(path, z=2)
    assert (one.axes, one.separate, len(one.channels)) == ({"Z": 4}, True, 3)
    assert np.array_equal(all_of(one), CZYX[:, 2])
    assert np.array_equal(all_of(one, [2, 0]), CZYX[[2, 0], 2])
    assert np.array_equal(all_of(read_header(path, z="max")), CZYX.max(axis=1))
    mean = read_header(path, z="mean")
    assert mean.dtype == "float32"
    assert np.allclose(all_of(mean), CZYX.mean(axis=1), rtol=1e-6)
    with pytest.raises(InputError, match="has no plane z = 4"):
        read_header(path, z=4)


def test_chunks_that_hold_all_channels_are_read_once_for_them(tmp_path):
    group = zarr.open_group(str(tmp_path / "S.zarr"), mode="w", zarr_format=3)
    array = group.create_array("0", shape=(3, 150, 210), chunks=(3, 50, 70), dtype="u2",
                               shards=(3, 150, 210))  # fmt: skip
    array[:] = CZYX[:, 0]
    axes = [{"name": "c", "type": "channel"}, *({"name": n, "type": "space"} for n in "yx")]
    group.attrs["ome"] = {"multiscales": [{"axes": axes, "datasets": [{"path": "0"}]}]}
    header = read_header(tmp_path / "S.zarr")
    assert (header.unit, header.separate) == ((50, 70), False)
    assert header.decode_bytes == 3 * 3 * 50 * 70 * 2
    assert np.array_equal(all_of(header, [1, 2]), CZYX[1:, 0])


def test_a_large_chunk_is_decoded_once_for_windows_that_lie_in_it(image, monkeypatch):
    monkeypatch.setattr(ome_zarr, "_LARGE_PX", 100)
    path = image(CZYX[0, 0], "yx")
    header = read_header(path)
    assert header.decode_bytes == 5 * 64 * 64 * 2
    with open_reader(header) as reader:
        for window in (Window(3, 130, 10, 210), Window(130, 140, 200, 205), Window(0, 1, 0, 1)):
            assert np.array_equal(reader.read(window)[0], CZYX[0, 0][window.slices])
        reader.read(Window(0, 9, 0, 9))
        first_chunk(path).unlink()  # it is not read again
        assert np.array_equal(reader.read(Window(30, 60, 5, 60))[0], CZYX[0, 0, 30:60, 5:60])


def test_names_sizes_and_levels_come_from_the_metadata(image):
    path = image(CZYX[:, 0], "cyx")
    assert [c.name for c in read_header(path).channels] == ["0", "1", "2"]
    assert "pyramid levels is read" in read_header(path).notes[0]
    group = zarr.open_group(str(path), mode="a")
    attributes = dict(group.attrs)
    metadata = attributes.get("ome", attributes)
    metadata["omero"] = {"channels": [{"label": name} for name in ("DAPI", "CD3", "CD8")]}
    for axis in metadata["multiscales"][0]["axes"][1:]:
        axis["unit"] = "nanometer"
    scale = {"type": "scale", "scale": [1.0, 500.0, 250.0]}
    metadata["multiscales"][0]["datasets"][0]["coordinateTransformations"] = [scale]
    group.attrs.update(attributes)
    header = read_header(path)
    assert header.pixel_size_um == (0.25, 0.5)
    assert [c.name for c in header.channels] == ["DAPI", "CD3", "CD8"]
    of_all = {"type": "scale", "scale": [1.0, 2.0, 2.0]}
    metadata["multiscales"][0]["coordinateTransformations"] = [of_all]
    group.attrs.update(attributes)
    assert read_header(path).pixel_size_um == (0.5, 1.0)
    scale["scale"] = [1.0, 0.0, 250.0]  # a slip
    group.attrs.update(attributes)
    assert read_header(path).pixel_size_um is None


def test_a_plate_is_reported_with_a_link_that_works(image, tmp_path):
    plate = tmp_path / "a plate.zarr"
    field = image(CZYX[0, 0], "yx", name="a plate.zarr/B/3/0")
    version = 2 if (field / ".zattrs").exists() else 3
    for folder, metadata in (
        (plate, {"plate": {"wells": [{"path": "B/3"}, {"path": "B/4"}]}}),
        (field.parent, {"well": {"images": [{"path": "0"}]}}),
    ):
        group = zarr.open_group(str(folder), mode="a", zarr_format=version)
        group.attrs.update(metadata if version == 2 else {"ome": metadata})
    with pytest.raises(InputError, match=r"is a plate of 2 wells \(HCS\), not one image") as error:
        read_header(plate)
    assert shlex.quote(str(field)) in str(error.value)
    (tmp_path / "well.zarr").symlink_to(field.parent)
    with pytest.raises(InputError, match=r"well\.zarr"):
        read_header(tmp_path / "well.zarr")
    (tmp_path / "pre_X.ome.zarr").symlink_to(field)
    assert np.array_equal(all_of(read_header(tmp_path / "pre_X.ome.zarr"))[0], CZYX[0, 0])


def test_what_is_not_an_image_is_reported(tmp_path, image):
    (tmp_path / "empty.zarr").mkdir()
    with pytest.raises(InputError, match=r"zarr\.json"):
        read_header(tmp_path / "empty.zarr")
    zarr.open_group(str(tmp_path / "plain.zarr"), mode="w").attrs["x"] = 1
    with pytest.raises(InputError, match="holds no image"):
        read_header(tmp_path / "plain.zarr")
    (tmp_path / "cut.zarr").mkdir()
    (tmp_path / "cut.zarr" / "zarr.json").write_text("{")
    with pytest.raises(InputError, match="is not an OME-Zarr image that can be read"):
        read_header(tmp_path / "cut.zarr")
    with pytest.raises(InputError, match="holds one image: leave out `series: 1`"):
        read_header(image(CZYX[0, 0], "yx"), series=1)


def test_images_of_bioformats2raw_are_series(tmp_path, image):
    image(CZYX[0, 0], "yx", name="S.zarr/0")
    with pytest.raises(InputError, match="holds no"):
        read_header(tmp_path / "S.zarr")
    old = (tmp_path / "S.zarr" / "0" / ".zattrs").exists()
    root = zarr.open_group(str(tmp_path / "S.zarr"), mode="a", zarr_format=2 if old else 3)
    root.attrs["bioformats2raw.layout"] = 3
    assert np.array_equal(all_of(read_header(tmp_path / "S.zarr"))[0], CZYX[0, 0])
    image(CZYX[0, 1], "yx", name="S.zarr/1")
    with pytest.raises(InputError, match="holds 2 images: choose one with `series: N`"):
        read_header(tmp_path / "S.zarr")
    assert np.array_equal(all_of(read_header(tmp_path / "S.zarr", series=1))[0], CZYX[0, 1])


def first_chunk(path):
    """Return the file of a chunk of level 0."""
    attributes = dict(zarr.open_group(str(path), mode="r").attrs)
    (multiscale,) = attributes.get("ome", attributes)["multiscales"]
    files = (path / multiscale["datasets"][0]["path"]).rglob("*")
    return min(f for f in files if f.is_file() and "z" not in f.name)


def test_damage_and_change_are_noticed(image):
    path = image(CZYX[0, 0], "yx")
    header, before = read_header(path), fingerprint(str(path))
    chunk = first_chunk(path)
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:40])
    assert fingerprint(str(path)) != before
    with pytest.raises(InputError, match=r"is damaged: rows \d+ to \d+, columns .*copy it again"):
        all_of(read_header(path))
    chunk.write_bytes(whole)
    assert fingerprint(str(path)) == before
    image(CZYX[0, 0, :100], "yx")
    with pytest.raises(InputError, match="has changed since its header was read"):
        open_reader(header)


def test_of_many_chunks_some_are_looked_at(tmp_path, monkeypatch):
    """Names of all, sizes of about a thousand: a change in most of them, or a lost one, is seen."""
    group = zarr.open_group(str(tmp_path / "S.zarr"), mode="w", zarr_format=2)
    image = CZYX[0, 0, :120, :200]
    group.create_array("0", shape=image.shape, dtype="<u2", chunks=(2, 2), compressors=None)
    for row, col in np.ndindex(60, 100):  # zarr takes seconds for that
        chunk = image[2 * row : 2 * row + 2, 2 * col : 2 * col + 2]
        (tmp_path / "S.zarr" / "0" / f"{row}.{col}").write_bytes(chunk.astype("<u2").tobytes())
    group.attrs["multiscales"] = [{"axes": ["y", "x"], "datasets": [{"path": "0"}]}]
    path, before = str(tmp_path / "S.zarr"), fingerprint(str(tmp_path / "S.zarr"))
    asked, real = [], Path.stat
    monkeypatch.setattr(Path, "stat", lambda self, **how: asked.append(self) or real(self, **how))
    size = read_header(path).file_bytes
    assert fingerprint(path) == before
    assert len(asked) < 4 * 1024 < 6000
    monkeypatch.undo()
    assert size == pytest.approx(120 * 200 * 2, rel=0.05)
    (tmp_path / "S.zarr" / "0" / "7.13").unlink()
    assert fingerprint(path) != before


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("left", [0, 15, 40, 4000])
def test_a_chunk_of_blosc_that_was_cut_is_no_noise(tmp_path, version, left):
    codec = numcodecs.Blosc("zstd") if version == 2 else zarr.codecs.BloscCodec()
    group = zarr.open_group(str(tmp_path / "S.zarr"), mode="w", zarr_format=version)
    group.create_array("0", data=CZYX[0, 0], chunks=(64, 64), compressors=codec)
    levels = {"multiscales": [{"axes": ["y", "x"], "datasets": [{"path": "0"}]}]}
    group.attrs.update({"ome": levels} if version == 3 else levels)
    path = tmp_path / "S.zarr"
    assert np.array_equal(all_of(read_header(path))[0], CZYX[0, 0])
    chunk = first_chunk(path)
    chunk.write_bytes(chunk.read_bytes()[:left])
    with pytest.raises(
        InputError, match=r"damaged: rows 0 to 63, columns 0 to 63 cannot be decoded"
    ):
        all_of(read_header(path))


def test_a_file_stands_for_an_image_and_leads_back_to_it(image, tmp_path):
    path = image(CZYX[0, 0], "yx")
    assert find_key_file(path).is_file()
    assert find_key_file(path).parent == path
    assert find_image(find_key_file(path)) == path
    plain = tmp_path / "a" / "zarr.json"
    assert (find_key_file(tmp_path / "a.tif"), find_image(plain)) == (tmp_path / "a.tif", plain)


def test_chunks_that_nothing_can_hold_are_refused(image):
    store = image(CZYX[0, 0], "yx")
    about = next(
        path for path in sorted(store.glob("*/*")) if path.name in ("zarr.json", ".zarray")
    )
    text = about.read_text().replace(" ", "").replace("\n", "")
    about.write_text(text.replace("[64,64]", f"[64,{1 << 60}]"))
    with pytest.raises(InputError, match=r"S\.ome\.zarr"):
        read_header(store)


@pytest.mark.parametrize("is_nested", [True, False])
@pytest.mark.parametrize("axes", ["tczyx", "cyx", "yx"])
def test_axes_and_pixel_sizes_of_version_06_are_read(tmp_path, axes, is_nested):
    group = zarr.open_group(str(tmp_path / "S.zarr"), mode="w", zarr_format=3)
    lengths = {"t": 1, "c": 3, "z": 1, "y": 150, "x": 210}
    pixels = CZYX[: 3 if "c" in axes else 1, 0].reshape([lengths[axis] for axis in axes])
    group.create_array("s0", data=pixels, chunks=(1,) * (len(axes) - 2) + (50, 70))
    scale = {"type": "scale", "scale": [1.0] * (len(axes) - 2) + [0.5, 0.25]}
    shift = {"type": "translation", "translation": [3.0] * len(axes)}
    way = {"type": "sequence", "transformations": [scale, shift]} if is_nested else scale
    way |= {"input": {"path": "s0"}, "output": {"name": "physical"}}
    space = {"type": "space", "unit": "micrometer"}
    named = [{"name": n, **(space if n in "zyx" else {"type": "other"})} for n in axes]
    about = {
        "name": "image",
        "coordinateSystems": [{"name": "physical", "axes": named}],
        "datasets": [{"path": "s0", "coordinateTransformations": [way]}],
        # from one system to another, not of the pixels
        "coordinateTransformations": [{"type": "scale", "scale": [7.0] * len(axes)}],
    }
    group.attrs["ome"] = {"version": "0.6.rc0", "multiscales": [about]}
    header = read_header(tmp_path / "S.zarr")
    assert (header.shape, header.pixel_size_um) == ((150, 210), (0.25, 0.5))
    assert np.array_equal(all_of(header), pixels.reshape(-1, 150, 210))
