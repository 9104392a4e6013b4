"""The SpatialData export has the pixels, the pyramid and the scale of the stores."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from made_stores import write_store

from unglow.cli import main
from unglow.core.errors import ConfigError, InputError, StoreError, UnglowError
from unglow.core.windows import Window
from unglow.export.spatialdata import export_spatialdata
from unglow.images.zarr import open_store

pytestmark = pytest.mark.slow


def write(path, dtype, shape, pixel_size_um, empty=None):
    image = (np.random.default_rng(0).normal(size=shape) * 50 + 500).astype(dtype)
    if dtype == "float32":
        image[:9, :9] = np.nan
    return write_store(path, image, pixel_size_um=pixel_size_um, empty=empty).path


def test_round_trip(tmp_path):
    spatialdata = pytest.importorskip("spatialdata", reason="install unglow[spatialdata]")
    from spatialdata.transformations import get_transformation

    stores = {
        "post": write(tmp_path / "post.ome.zarr", "uint16", (1531, 1177), (0.325, 0.65)),
        "Präparat_1": write(tmp_path / "linear.ome.zarr", "float32", (301, 203), None),
    }
    export_spatialdata(stores, tmp_path / "out" / "pair.zarr")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["pair.zarr"]
    data = spatialdata.read_zarr(tmp_path / "out" / "pair.zarr")
    assert set(data.images) == {"post", "Präparat_1"}
    assert len(data.images["post"].children) == 3
    for name, path in stores.items():
        store = open_store(path)
        image = data.images[name]
        for level in range(store.levels):
            # An image of one level comes back as an array, not as a tree.
            pixels = image[f"scale{level}"]["image"] if store.levels > 1 else image
            assert pixels.dtype == store.dtype
            assert pixels.dims == ("c", "y", "x")
            window = Window.from_shape(store.level_shape(level))
            np.testing.assert_array_equal(pixels.values[0], store.read(window, level))
    to_global = get_transformation(data.images["post"], "global")
    matrix = to_global.to_affine_matrix(("x", "y"), ("x", "y"))
    np.testing.assert_allclose(matrix, np.diag([0.325, 0.65, 1]))
    to_global = get_transformation(data.images["Präparat_1"], "global")
    np.testing.assert_array_equal(to_global.to_affine_matrix(("x", "y"), ("x", "y")), np.eye(3))


def test_package_absent(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "spatialdata", None)
    path = write(tmp_path / "post.ome.zarr", "uint8", (30, 20), None)
    with pytest.raises(UnglowError, match=r"pip install spatialdata"):
        export_spatialdata({"post": path}, tmp_path / "out.zarr")


@pytest.mark.parametrize("name", ["a b", "", "__a", "a/b", ".", ".."])
def test_names_that_spatialdata_refuses(tmp_path, name):
    with pytest.raises(ConfigError, match="cannot name an image in SpatialData"):
        export_spatialdata({name: tmp_path}, tmp_path / "out.zarr")


def test_target_exists(tmp_path, capsys):
    assert main(["export", "--spatialdata", str(tmp_path), str(tmp_path / "post.ome.zarr")]) == 2
    assert "exists already" in capsys.readouterr().err


def test_stores_without_pixels(tmp_path):
    path = write(tmp_path / "a.ome.zarr", "uint8", (30, 20), None, empty="no pair")
    with pytest.raises(StoreError, match="holds no pixels to export: no pair"):
        export_spatialdata({"a": path}, tmp_path / "out.zarr")
    with pytest.raises(StoreError, match="not a finished store"):
        export_spatialdata({"a": tmp_path / "b.ome.zarr"}, tmp_path / "out.zarr")
    assert not (tmp_path / "out.zarr").exists()


TABLE = """id,x,y,x_err,snr,flags,fdr
1,10.250,20.500,0.010,12.50,,0.0010
2,100.000,0.000,,4.25,outside+deblended,
"""


def test_candidates_are_points_on_the_pixels_they_name(tmp_path):
    spatialdata = pytest.importorskip("spatialdata", reason="install unglow[spatialdata]")
    from spatialdata.transformations import get_transformation

    post = write(tmp_path / "post.ome.zarr", "uint16", (531, 177), (0.325, 0.65))
    table = tmp_path / "candidates.csv"
    table.write_text(TABLE)
    assert main(["export", "--spatialdata", str(tmp_path / "out.zarr"), str(post), str(table)]) == 0
    data = spatialdata.read_zarr(tmp_path / "out.zarr")
    assert (set(data.images), set(data.points)) == ({"post"}, {"candidates"})
    points = data.points["candidates"].compute()
    assert points["x"].tolist() == [10.25, 100.0]
    assert points["y"].tolist() == [20.5, 0.0]
    assert points["id"].tolist() == [1, 2]
    assert points["snr"].tolist() == [12.5, 4.25]
    assert points["flags"].tolist() == ["", "outside+deblended"]
    assert points["counted"].tolist() == [True, False]
    assert np.isnan(points["fdr"].iloc[1])
    to_global = get_transformation(data.points["candidates"], "global")
    matrix = to_global.to_affine_matrix(("x", "y"), ("x", "y"))
    # the centre of the first px is half a px from its corner, where SpatialData begins to measure
    expected = [[0.325, 0, 0.1625], [0, 0.65, 0.325], [0, 0, 1]]
    np.testing.assert_allclose(matrix, expected)


def test_candidates_need_an_image_of_their_frame(tmp_path):
    table = tmp_path / "candidates.csv"
    table.write_text(TABLE)
    a = write(tmp_path / "a.ome.zarr", "uint8", (53, 77), (0.5, 0.5))
    b = write(tmp_path / "b.ome.zarr", "uint8", (53, 77), (0.25, 0.25))
    for stores in ({}, {"a": a, "b": b}):
        with pytest.raises(ConfigError, match=r"post\.ome\.zarr"):
            export_spatialdata(stores, tmp_path / "out.zarr", {"candidates": table})
    table.write_text("x,y\n1,2\n")
    with pytest.raises(InputError, match="has no column id, snr, flags"):
        export_spatialdata({"a": a}, tmp_path / "out.zarr", {"candidates": table})
