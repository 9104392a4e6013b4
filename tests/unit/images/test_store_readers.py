"""Other people's readers open the stores unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from made_stores import write_store

from unglow.core.windows import Window
from unglow.images.zarr import StoreLayout
from unglow.images.zarr.layout import DTYPES

SHAPE = (531, 777)
LAYOUT = StoreLayout(SHAPE, "float32", (128, 128), (256, 256), levels=3)
DETAILS = "a reader that users have; install unglow[test-exports] to check that it opens the stores"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "post.ome.zarr"
    image = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    image[:100, :100] = np.nan
    return write_store(path, image, LAYOUT, pixel_size_um=(0.325, 0.65))


def levels(store):
    return [store.read(Window.from_shape(store.level_shape(k)), k) for k in range(store.levels)]


SCALES = [[0.65 * 2**k, 0.325 * 2**k] for k in range(3)]
TRANSLATIONS = [[0.65 * (2**k - 1) / 2, 0.325 * (2**k - 1) / 2] for k in range(3)]


def test_chunks_outside_the_image_take_no_space(store):
    """The shard at the corner has 19 x 9 px of the image: one chunk of four."""
    index = np.frombuffer((store.path / "0/c/2/3").read_bytes()[-68:-4], dtype="<u8")
    assert (index.reshape(2, 2, 2)[..., 0] == 2**64 - 1).tolist() == [[False, True], [True, True]]


@pytest.mark.slow
def test_ome_zarr(store):
    pytest.importorskip("ome_zarr", reason=DETAILS)
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader

    (node,) = Reader(parse_url(store.path))()
    for ours, theirs in zip(levels(store), node.data, strict=True):
        np.testing.assert_array_equal(theirs.compute(), ours)
    transformations = node.metadata["coordinateTransformations"]
    assert [t[0]["scale"] for t in transformations] == SCALES
    assert [t[1]["translation"] for t in transformations] == TRANSLATIONS
    assert [axis["unit"] for axis in node.metadata["axes"]] == ["micrometer", "micrometer"]


@pytest.mark.slow
def test_napari_ome_zarr(store):
    plugin = pytest.importorskip("napari_ome_zarr", reason=DETAILS)
    read = plugin.napari_get_reader(str(store.path))
    ((data, attributes, kind),) = read(str(store.path))
    assert kind == "image"
    for ours, theirs in zip(levels(store), data, strict=True):
        np.testing.assert_array_equal(np.asarray(theirs), ours)
    assert list(attributes["scale"]) == pytest.approx(SCALES[0])
    low, high = attributes["contrast_limits"]
    assert -4 < low < high < 4
    # Napari places level 0 by scale (and translation 0), the other levels by their shape.
    if "affine" in attributes:  # since napari-ome-zarr 0.9
        translation = np.asarray(attributes["affine"].affine_matrix)[:2, 2]
    else:
        translation = np.asarray(attributes.get("translate", (0, 0)))
    np.testing.assert_allclose(translation, TRANSLATIONS[0], atol=1e-12)


def test_rules_of_ome_zarr(store):
    models = pytest.importorskip("ome_zarr_models.v05", reason=DETAILS)
    import zarr

    image = models.Image.from_zarr(zarr.open_group(store.path, mode="r"))
    (multiscale,) = image.ome_attributes.multiscales
    assert [d.path for d in multiscale.datasets] == ["0", "1", "2"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("chunks", [(64, 64), (64, 256)])
def test_documents_and_pixels_are_those_that_zarr_writes(tmp_path, dtype, chunks):
    import zarr
    from zarr.codecs import BloscCodec, Crc32cCodec

    layout = StoreLayout((600, 500), dtype, chunks, (256, 256), levels=2)
    image = np.random.default_rng(1).integers(0, 100, layout.shape).astype(dtype)
    blosc = BloscCodec(
        cname="zstd", clevel=1, shuffle="bitshuffle", blocksize=2**19, typesize=image.itemsize
    )
    store = write_store(tmp_path / "a", image, layout)
    group = zarr.create_group(tmp_path / "b")
    group.update_attributes(zarr.open_group(tmp_path / "a", mode="r").attrs.asdict())
    for level in range(2):
        array = group.create_array(
            str(level),
            shape=layout.level_shape(level),
            dtype=dtype,
            chunks=layout.level_chunks(level),
            shards=layout.level_shards(level),
            compressors=(blosc, Crc32cCodec()),
            fill_value=np.nan if dtype.startswith("float") else 0,
            dimension_names=("y", "x"),
            config={"write_empty_chunks": True},
        )
        array[:] = store.read(Window.from_shape(layout.level_shape(level)), level)
    files = {p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*") if p.is_file()}
    assert len(files) == 3 + 6 + 6
    assert files == {
        p.relative_to(tmp_path / "b") for p in (tmp_path / "b").rglob("*") if p.is_file()
    }
    for level in range(2):
        both = (zarr.open_array(tmp_path / place / str(level))[:] for place in "ab")
        assert np.array_equal(*both, equal_nan=dtype.startswith("float"))
    for name in (name for name in files if name.name == "zarr.json"):
        own, other = ((tmp_path / place / name).read_bytes() for place in "ab")
        if zarr.__version__ == "3.1.3" and name == Path("zarr.json"):  # writes that it has none
            own, other = json.loads(own), json.loads(other)
            assert other.pop("consolidated_metadata") is None
        assert own == other, name
