"""OME-Zarr as the programs of others write it: pixels as zarr reads them, sizes, channels.

The kinds are those of reports about bioformats2raw, raw2ometiff, ome-zarr-py, the NGFF challenge,
napari-ome-zarr and SpatialData.
"""

from __future__ import annotations

import time
import zipfile

import numpy as np
import pytest
import zarr
from zarr.codecs import BytesCodec, ShardingCodec, TransposeCodec

from unglow.core.windows import Window
from unglow.images.raw_images import not_stored, open_reader, read_header

PIXELS = np.random.default_rng(3).integers(0, 250, (2, 150, 210)).astype("u2")
AXES = [{"name": "c", "type": "channel"}]
AXES += [{"name": name, "type": "space", "unit": "micrometer"} for name in "yx"]
SCALE = [{"type": "scale", "scale": [1, 0.5, 0.25]}]
V3 = {"shape": PIXELS.shape, "chunks": (1, 64, 64), "dtype": "u2"}


def about(path="0", **changes):
    """Return the metadata of an image."""
    datasets = [{"path": path, "coordinateTransformations": SCALE}]
    return {"axes": AXES, "datasets": datasets, **changes}


def format_2(root, path="0", metadata=None, version="0.4", **how):
    """Write an image of OME-Zarr 0.4, or of a version that says so."""
    group = zarr.open_group(root, mode="a", zarr_format=2)
    how = {"chunks": (1, 64, 64), "dtype": "u2", **how}
    group.create_array(path, shape=PIXELS.shape, **how)[:] = PIXELS
    group.attrs["multiscales"] = [{"version": version, **(metadata or about(path))}]


def format_3(root, path="0", metadata=None, version="0.5", **how):
    """Write an image of OME-Zarr 0.5 or newer."""
    group = zarr.open_group(root, mode="a", zarr_format=3)
    group.create_array(path, **{**V3, **how})[:] = PIXELS
    group.attrs["ome"] = {"version": version, "multiscales": [metadata or about(path)]}


def outer_group(root):
    """Write an image and its metadata as bioformats2raw does."""
    group = zarr.open_group(root, mode="w", zarr_format=2)
    group.attrs["bioformats2raw.layout"] = 3
    group.create_group("OME").attrs["series"] = ["0"]
    format_2(root + "/0")


NANOMETRES = [AXES[0], *({**axis, "unit": "nanometer"} for axis in AXES[1:])]
IN_NM = [{"type": "scale", "scale": [1, 500, 250]}]
HALF = [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 1, 0.5]}]}]
OF_ALL = {
    "datasets": HALF,
    "coordinateTransformations": [{"type": "scale", "scale": [1, 0.5, 0.5]}],
}
SHARDED = {"shards": (1, 128, 128)}

KINDS = {
    "0.4": format_2,
    "0.4, big endian": lambda root: format_2(root, dtype=">u2"),
    "0.4, order of Fortran": lambda root: format_2(root, order="F"),
    "0.4, flat names": lambda root: format_2(
        root, chunk_key_encoding={"name": "v2", "separator": "."}
    ),
    "0.4, as bioformats2raw": outer_group,
    "0.4, nanometres": lambda root: format_2(
        root,
        metadata={
            "axes": NANOMETRES,
            "datasets": [{"path": "0", "coordinateTransformations": IN_NM}],
        },
    ),
    "0.4, scale of all levels": lambda root: format_2(root, metadata=about(**OF_ALL)),
    "0.4, version of SpatialData": lambda root: format_2(root, version="0.4-dev-spatialdata"),
    "0.5": format_3,
    "0.5, big endian": lambda root: format_3(root, serializer=BytesCodec(endian="big")),
    "0.5, transposed": lambda root: format_3(root, filters=[TransposeCodec(order=(2, 1, 0))]),
    "0.5, shards": lambda root: format_3(root, **SHARDED),
    "0.5, version of SpatialData": lambda root: format_3(root, version="0.5-dev-spatialdata"),
    "0.5, shards of bytes without an order": lambda root: format_3(
        root,
        dtype="u1",
        chunks=(1, 128, 128),
        compressors=None,
        serializer=ShardingCodec(chunk_shape=(1, 64, 64), codecs=[BytesCodec(endian=None)]),
    ),
}


@pytest.mark.parametrize("stored", ["folder", zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("kind", KINDS)
def test_images_of_other_programs_are_read_pixel_for_pixel(tmp_path, kind, stored):
    folder = tmp_path / "S.ome.zarr"
    KINDS[kind](str(folder))
    path = folder
    if stored != "folder":
        path = zipped(folder, tmp_path / "S.ozx", stored)
    header = read_header(path)
    assert (header.shape, header.pixel_size_um) == (PIXELS.shape[1:], (0.25, 0.5))
    assert len(header.channels) == 2
    with open_reader(header) as reader:
        assert not_stored(reader, [0, 1]) is None
        for window in (Window(0, 150, 0, 210), Window(60, 131, 63, 129)):
            found = reader.read(window)
            assert np.array_equal(found, PIXELS[:, *window.slices])
            assert np.array_equal(reader.read(window, [1]), found[1:])


def zipped(folder, path, way):
    """Put an image into a ZIP file."""
    with zipfile.ZipFile(path, "w", way) as archive:
        for file in sorted(f for f in folder.rglob("*") if f.is_file()):
            archive.write(file, file.relative_to(folder))
    return path


def test_a_shard_in_a_compressed_zip_file_is_unpacked_once_for_a_window(tmp_path):
    """Each read of it begins at its first byte: once for a chunk takes 30 s here."""
    pixels = np.random.default_rng(1).integers(0, 250, (2048, 2048)).astype("u1")
    group = zarr.open_group(str(tmp_path / "S.zarr"), mode="w", zarr_format=3)
    group.create_array("0", data=pixels, chunks=(64, 64), shards=(2048, 2048), compressors=None)
    datasets = [{"path": "0"}]
    group.attrs["ome"] = {"multiscales": [{"axes": ["y", "x"], "datasets": datasets}]}
    path = zipped(tmp_path / "S.zarr", tmp_path / "S.ozx", zipfile.ZIP_DEFLATED)
    with open_reader(read_header(path)) as reader:
        before = time.process_time()
        found = reader.read(Window(0, 2048, 0, 2048))
        assert time.process_time() - before < 3
    assert np.array_equal(found[0], pixels)


@pytest.mark.timeout(200)
def test_large_chunks_of_a_stored_zip_file_are_read_to_an_end(tmp_path):
    """To ask in a batch for what lies beyond the end of one waits forever (tensorstore 0.1.86)."""
    pixels = np.random.default_rng(1).integers(0, 99, (3, 1024, 1024)).astype("u1")
    group = zarr.open_group(str(tmp_path / "S.zarr"), mode="w", zarr_format=3)
    group.create_array("0", data=pixels, chunks=(3, 512, 512), shards=pixels.shape)
    group.attrs["ome"] = {"multiscales": [{"axes": ["c", "y", "x"], "datasets": [{"path": "0"}]}]}
    path = zipped(tmp_path / "S.zarr", tmp_path / "S.ozx", zipfile.ZIP_STORED)
    with open_reader(read_header(path)) as reader:
        assert np.array_equal(reader.read(Window(0, 1024, 0, 1024)), pixels)
