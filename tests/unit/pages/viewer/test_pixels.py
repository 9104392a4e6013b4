"""Every layer over HTTP has the pixels of the image: read with another library, level by level."""

from __future__ import annotations

import json

import numpy as np
import pytest
import zarr
from made_results import SHAPE
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from unglow.core.windows import Window
from unglow.detection.coarse_grid import estimate_error
from unglow.images.zarr import open_store
from unglow.photometry.difference import open_difference, open_image
from unglow.photometry.gain.scale import Scale
from unglow.transform import load

PAIR = "pair/S1~DAPI/"


@pytest.fixture(scope="module")
def place(finished):
    return finished / "S1" / "DAPI"


def fetched(seen, url):
    """Copy all keys of a layer into a store of zarr-python, and open it."""
    kept = {}

    def take(key):
        answer, body = seen.ask(f"{PAIR}{url}/{key}")
        assert answer.status == 200, (key, body)
        kept[key] = default_buffer_prototype().buffer.from_bytes(body)
        return body

    root = json.loads(take("zarr.json"))
    for dataset in root["attributes"]["ome"]["multiscales"][0]["datasets"]:
        level = dataset["path"]
        document = json.loads(take(f"{level}/zarr.json"))
        sides = document["chunk_grid"]["configuration"]["chunk_shape"]
        rows, cols = (-(-n // side) for n, side in zip(document["shape"], sides, strict=True))
        for row in range(rows):
            for col in range(cols):
                take(f"{level}/c/{row}/{col}")
    return zarr.open_group(MemoryStore(kept), mode="r")


def whole(image, level):
    return image.read(Window.from_shape(image.level_shape(level)), level)


def layers(seen):
    return {layer["name"]: layer for layer in seen.json(PAIR + "pair.json")["layers"]}


def test_the_layers_are_those_that_there_are(seen):
    shown = layers(seen)
    assert list(shown) == [
        *("post", "pre", "aligned_pre", "difference-linear", "difference-moffat"),
        *("snr", "map_error", "gain_map"),
    ]
    written = [name for name, layer in shown.items() if not layer["computed"]]
    assert written == ["post", "pre", "aligned_pre", "difference-linear"]
    assert [name for name, layer in shown.items() if layer["default"]] == ["difference-linear"]
    assert [name for name, layer in shown.items() if layer["frame"] == "pre"] == ["pre"]


@pytest.mark.parametrize("name", ["post", "pre", "aligned_pre", "difference-linear"])
def test_written_stores_are_sent_as_they_are(seen, place, name):
    found = fetched(seen, layers(seen)[name]["url"])
    path = place / f"{name.removesuffix('-linear')}.ome.zarr"
    store = open_store(path)
    for level in range(store.levels):
        np.testing.assert_array_equal(found[str(level)][:], whole(store, level))
    for key in ("zarr.json", "1/zarr.json", "0/c/0/0"):
        assert seen.ask(f"{PAIR}layers/{name}.zarr/{key}")[1] == (path / key).read_bytes()


def test_a_difference_that_is_not_written_has_the_px_of_one_that_is_computed(seen, place):
    found = fetched(seen, layers(seen)["difference-moffat"]["url"])
    image = open_image(place / "difference_moffat.ome.zarr")
    for level in range(image.levels):
        np.testing.assert_array_equal(found[str(level)][:], whole(image, level))
    assert np.isnan(found["0"][:]).any()  # next to pre


def test_a_computed_default_has_the_px_of_the_written_one(seen, place, tmp_path):
    written = open_difference(place)
    copy = tmp_path / "results" / "S1" / "DAPI"
    copy.parent.mkdir(parents=True)
    copy.mkdir()
    for entry in place.iterdir():
        if entry.name != "difference.ome.zarr":
            (copy / entry.name).symlink_to(entry)
    np.testing.assert_array_equal(whole(open_difference(copy), 0), whole(written, 0))
    found = fetched(seen, layers(seen)["difference-linear"]["url"])
    np.testing.assert_array_equal(found["0"][:], whole(open_difference(copy), 0))


def test_the_ratio_is_the_one_that_is_searched_and_shows_sources_on_coarse_levels(seen, place):
    from unglow.detection.settings import DetectSettings
    from unglow.stages.snr import DetectInputs, ratio_over

    stores = (open_store(place / f"{name}.ome.zarr") for name in ("post", "pre", "aligned_pre"))
    scale = Scale.load(place / "scale.json", place / "details/gain_map.npz")
    inputs = DetectInputs(*stores, open_difference(place), scale, load(place / "transform.json"))
    expected = ratio_over(inputs.scene(DetectSettings()), Window.from_shape(SHAPE))
    found = fetched(seen, layers(seen)["snr"]["url"])
    np.testing.assert_array_equal(found["0"][:], expected)
    for level in (1, 2):
        step = 1 << level
        rows, cols = (n // step for n in SHAPE)
        coarse = found[str(level)][:]
        cut = expected[: rows * step, : cols * step].reshape(rows, step, cols, step)
        blocks = cut.swapaxes(1, 2).reshape(rows, cols, -1)
        with np.errstate(all="ignore"):
            high = np.fmax.reduce(blocks, axis=2)
            low = np.fmin.reduce(blocks, axis=2)
        np.testing.assert_array_equal(coarse, np.where(-low > high, low, high))
    assert "3" not in found


def test_error_and_gain_are_those_at_the_centres_of_px(seen, place):
    error = estimate_error(load(place / "transform.json")).evaluate_window(Window.from_shape(SHAPE))
    light = Scale.load(place / "scale.json", place / "details/gain_map.npz").gain_map
    for name, exact in (
        ("map_error", error),
        ("gain_map", light.evaluate_window(Window.from_shape(SHAPE))),
    ):
        found = fetched(seen, layers(seen)[name]["url"])
        np.testing.assert_array_equal(found["0"][:], exact)
        means = exact[: SHAPE[0] // 4 * 4, : SHAPE[1] // 4 * 4].reshape(175, 4, 275, 4)
        np.testing.assert_allclose(found["2"][:], means.mean(axis=(1, 3)), rtol=0.01)


def test_a_chunk_that_is_known_is_not_sent_or_computed_again(seen):
    key = f"{PAIR}layers/difference-moffat.zarr/0/c/0/0"
    answer, _ = seen.ask(key)
    again, body = seen.ask(key, **{"If-None-Match": answer.getheader("ETag")})
    assert (again.status, body) == (304, b"")
    assert again.getheader("Cache-Control") == "private, no-cache"


@pytest.mark.parametrize(
    "key",
    [
        *("x", "zarr.json/x", "3/zarr.json", "-1/zarr.json", "00/zarr.json", "0/c/0", "0/c/9/0"),
        *(
            "0/c/0/9",
            "0/c/00/0",
            "0/c/0/0/0",
            "0/c/-1/0",
            "0/c/0/%30",
            "0/d/0/0",
            "../details/plan.json",
        ),
        *("0/c/..%2F..%2Fzarr.json/0", "", "0", "0/c/0/0.partial"),
    ],
)
@pytest.mark.parametrize("name", ["post", "difference-moffat"])
def test_keys_that_there_are_not_are_not_found(seen, name, key):
    answer, body = seen.ask(f"{PAIR}layers/{name}.zarr/{key}")
    assert answer.status == 404
    assert json.loads(body) == {"error": "There is no such address."}
