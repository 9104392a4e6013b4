"""A slide in the viewer: its channels as layers, with the pixels of its images."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import imagecodecs
import made_slide
import numpy as np
import pytest
import raw_slides
import tifffile
import zarr
from made_slides import made_slide as made_results
from made_slides import register_cycle
from seeing import Seen

from unglow.cli import main
from unglow.core.errors import InputError, StoreError
from unglow.core.windows import Window, halve_stored
from unglow.images.raw_file import fingerprint
from unglow.images.tiff.metadata import OmeChannel
from unglow.images.tiff.tiles import OmeTiffSink
from unglow.images.zarr.ome_zarr_sink import OmeZarrSink
from unglow.pages.viewer.layers import pairs_of
from unglow.pages.viewer.slide_layers import ImagedChannel, raw_slide
from unglow.results.slide_files import CycleState, SlideRecord
from unglow.results.stack import open_stack
from unglow.slides.images import Frame, SlideReader
from unglow.transform import Transform

SHAPE = (2100, 2300)


@pytest.fixture(scope="module")
def pixels():
    noise = np.random.default_rng(5).poisson(300, (2, *SHAPE))
    return noise.astype(np.uint16)


def written(path, pixels):
    """Write channels as the workflow writes a corrected slide."""
    sink = OmeTiffSink if path.suffix == ".tif" else OmeZarrSink
    channels = [OmeChannel(name, (0, 255, 0)) for name in ("A", "B")]
    with sink(path, SHAPE, pixels.dtype.name, channels, name="s1", workers=2) as opened:
        for top in range(0, SHAPE[0], opened.window):
            for left in range(0, SHAPE[1], opened.window):
                window = Window(top, top + opened.window, left, left + opened.window).clip(SHAPE)
                for n, plane in enumerate(pixels):
                    opened.write(n, window, plane[window.slices])
    return path


@pytest.mark.parametrize("dtype", ["uint16", "float32"])
@pytest.mark.parametrize("form", ["tif", "zarr"])
def test_every_level_of_a_corrected_channel_is_that_of_its_file(tmp_path, pixels, form, dtype):
    path = written(tmp_path / f"corrected.ome.{form}", pixels.astype(dtype))
    image = open_stack(path)[1]
    assert image.shape == SHAPE
    if form == "tif":
        with tifffile.TiffFile(path) as tif:
            levels = [level.asarray()[1] for level in tif.series[0].levels]
    else:
        group = zarr.open_group(path, mode="r")
        levels = [group[str(n)][1] for n in range(image.levels)]
    assert len(levels) == image.levels > 1
    for n, level in enumerate(levels):
        np.testing.assert_array_equal(image.read(Window.from_shape(level.shape), n), level)
        part = Window(3, min(700, level.shape[0]), 500, min(1030, level.shape[1]))
        np.testing.assert_array_equal(image.read(part, n), level[part.slices])


@pytest.mark.parametrize("form", ["tif", "zarr"])
def test_a_damaged_tile_is_an_error_that_names_the_file(tmp_path, pixels, form):
    path = written(tmp_path / f"corrected.ome.{form}", pixels)
    image = open_stack(path)[1]
    if form == "tif":
        path.write_bytes(path.read_bytes()[:4000])
    else:
        (path / "0/c/1/0/0").unlink()
        (path / "1/zarr.json").write_text("{")
    with pytest.raises(StoreError, match=r"corrected\.ome"):
        image.read(Window(0, 9, 0, 9))
    with pytest.raises((InputError, StoreError), match=r"corrected\.ome"):
        open_stack(path)


def test_an_imaged_channel_is_in_the_frame_at_every_level(tmp_path):
    header = made_slide.write(tmp_path / "s.ome.tif", made_slide.pixels())
    slide, maps = made_slide.slide(header.path), made_slide.moved()
    moved = slide.channel("C")
    with SlideReader([header]) as reader:
        frame = Frame(reader, slide, maps)
        level = frame.read(Window.from_shape(made_slide.SHAPE), [moved])[0]
        image = ImagedChannel(frame, moved)
        for n in range(image.levels):
            found = image.read(Window.from_shape(level.shape), n)
            np.testing.assert_array_equal(found, level)
            level = halve_stored(level)


def row(dye, status, reasons="", background="AF"):
    return {
        "sample": "s1", "dye": dye, "status": status, "reasons": reasons,
        "background_channel": background,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("states", "status"),
    [
        (("ok", "ok"), "ok"),
        (("ok", "suspect"), "suspect"),
        (("ok", "failed"), "suspect"),
        (("failed", "failed"), "failed"),
        (("failed", "incomplete"), "incomplete"),
    ],
)
def test_markers_are_one_entry_with_the_worst_of_their_states(tmp_path, states, status):
    rows = [row("A", states[0], "Why."), row("B", states[1]), row("D", "ok", background="")]
    found = pairs_of(tmp_path, rows)
    assert [pair.names for pair in found.values()] == [("s1", "D"), ("s1",)]
    slide = found["s1"]
    assert (slide.row["status"], slide.row["reasons"]) == (status, "A: Why.")
    assert slide.is_slide
    assert slide.directory == tmp_path / "s1"


@pytest.fixture
def results(tmp_path):
    """Results of a slide of which two markers have a map, with its corrected image."""
    place = made_results(tmp_path / "results", figures=False)
    record = SlideRecord.load(place / "slide.json")
    spoilt = {"share": 0.1, "places": 3, "by_reason": {"lost": {"share": 0.1}}}
    states = {2: CycleState("ok", spoilt=spoilt), 3: CycleState("failed", ("No position fits.",))}
    replace(record, cycles=states).save(place / "slide.json")
    image = np.random.default_rng(2).integers(0, 999, (2, *record.shape)).astype(np.uint16)
    with OmeTiffSink(
        place / "corrected.ome.tif", record.shape, "uint16", [OmeChannel("CD3"), OmeChannel("CD8")],
        name="s1", workers=1,
    ) as sink:  # fmt: skip
        for n, plane in enumerate(image):
            sink.write(n, Window.from_shape(record.shape), plane)
    with Seen(tmp_path / "results") as seen:
        yield seen, image


def test_a_slide_is_served_with_channels_that_did_not_fail(results, tmp_path):
    seen, image = results
    (listed,) = seen.json("pairs.json")
    assert (listed["id"], listed["status"]) == ("s1", "suspect")
    (tmp_path / "results/s1/registration/1-3/transform.json").write_text("{")  # its cycle failed
    model = seen.json("pair/s1/pair.json")
    layers = {layer["title"]: layer for layer in model["layers"]}
    assert [*layers] == ["CD3", "CD8"]  # without raw images there are no others
    assert {layer["cycle"] for layer in layers.values()} == {2}
    assert len({layer["colour"] for layer in layers.values()}) == 2
    assert (model["shape"], model["pixel_size_um"]) == ([96, 128], [0.5, 0.5])
    assert model["is_slide"]
    assert not model["writable"]
    assert model["detection"]["spoilt"] == {"places": 3, "cycles": {"2": 0.1}}
    assert model["facts"]["Cycle 3"]["state"] == "failed"
    assert model["facts"]["Cycle 2"]["spoilt_share"] == 0.1
    fitted = ["AF", 1.4, [1.39, 1.41], 5, [4, 6], 1.5]
    assert [*model["facts"]["Marker CD8"].values()] == fitted
    about = seen.json(f"pair/s1/{layers['CD8']['url']}/zarr.json")["attributes"]["ome"]["omero"]
    assert about["channels"][0]["window"] == {"min": 0, "max": 65535, "start": 0, "end": 900}
    np.testing.assert_array_equal(pixels_of(seen, layers["CD8"]["url"])[:96, :128], image[1])


def test_nothing_is_saved_for_a_slide(results):
    seen, _ = results
    status, answer = seen.send("pair/s1/review", {"changes": []})
    assert status == 403
    assert answer["error"]
    for name in ("candidates.json", "review.json", "regions.geojson"):
        assert seen.ask(f"pair/s1/{name}")[0].status == 200


def pixels_of(seen, url):
    answer, chunk = seen.ask(f"pair/s1/{url}/0/c/0/0")
    assert answer.status == 200
    return np.frombuffer(imagecodecs.blosc_decode(chunk[:-4]), "<f4").reshape(512, 512)


def test_each_cycle_shows_its_registration_as_a_pair_does(results, tmp_path):
    seen, _ = results
    field = register_cycle(tmp_path / "results/s1")
    model = seen.json("pair/s1/pair.json")
    assert model["cycles"] == [2, 3]
    layers = {layer["title"]: layer for layer in model["layers"]}
    assert [*layers] == ["CD3", "CD8", "error of the map, cycle 2"]  # that of cycle 3 failed
    error = layers["error of the map, cycle 2"]
    assert (error["kind"], error["unit"], error["cycle"]) == ("error", "px", 2)
    found = pixels_of(seen, error["url"])
    np.testing.assert_allclose(found[40, [0, 96]], [0.4, 0.05], atol=1e-6)
    facts = model["facts"]["Cycle 2"]
    assert (facts["residual_px"]["median"], facts["model"]) == (0.07, "translation + field")
    assert facts["state"] == "ok"
    blocks = seen.json("pair/s1/blocks-2.json")
    rows = [dict(zip(blocks["columns"], cells, strict=True)) for cells in blocks["rows"]]
    assert [(row["dx"], row["used"]) for row in rows] == [(0.125, 1), (-0.25, 1), (2, 0)]
    points = np.array(seen.json("pair/s1/arrows-2.json")["points"])
    np.testing.assert_allclose(points[:, 2:], field.evaluate(points[:, :2]), atol=1e-4)
    assert seen.json("pair/s1/blocks-3.json")["rows"] == []
    for name in ("blocks.json", "blocks-1.json", "arrows-4.json"):
        assert seen.ask(f"pair/s1/{name}")[0].status == 404


def test_a_folder_for_any_server_holds_a_slide_too(results, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    register_cycle(tmp_path / "results/s1")
    assert main(["view", "results/s1", "--static", "out"]) == 0
    assert "out: 1 pair" in capsys.readouterr().out
    model = json.loads((tmp_path / "out/pair/s1/pair.json").read_text())
    assert len(model["layers"]) == 3
    for cycle in model["cycles"]:
        assert (tmp_path / f"out/pair/s1/blocks-{cycle}.json").is_file()
    for layer in model["layers"]:
        assert (tmp_path / "out/pair/s1" / layer["url"] / "0/c/0/0").is_file()


def test_a_damaged_record_is_said_and_no_fault_of_the_page(results, tmp_path):
    seen, _ = results
    (tmp_path / "results/s1/details/subtraction.json").write_text("{")
    assert seen.json("pair/s1/pair.json")["layers"] == []


def test_channels_as_imaged_are_shown_where_the_raw_images_are(tmp_path, monkeypatch):
    raw_slides.slide(tmp_path)
    place, shape = tmp_path / "results/s1", (96, 128)
    (place / "registration/1-2").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert raw_slide(tmp_path / "results", "s2") is None
    known = raw_slide(tmp_path / "results", "s1")
    prints = tuple(fingerprint(header) for header in known.headers)
    SlideRecord(known.slide, shape, "uint16", None, prints).save(place / "slide.json")
    moved = Transform("ok", shape, shape, matrix=np.eye(3), model="none")
    moved.save(place / "registration/1-2/transform.json")
    channels = [OmeChannel(one.name) for one in known.slide.kept]
    with OmeTiffSink(place / "corrected.ome.tif", shape, "uint16", channels, name="s1") as sink:
        for n in range(len(channels)):
            sink.write(n, Window.from_shape(shape), np.full(shape, n, np.uint16))
    with Seen(tmp_path / "results") as seen:
        model = seen.json("pair/s1/pair.json")
        layers = {layer["title"]: layer for layer in model["layers"]}
        imaged = pixels_of(seen, layers["CD8, as imaged"]["url"])
    assert " ".join(layers) == "DAPI CD3 DAPI_2 CD8 AF, as imaged CD3, as imaged CD8, as imaged"
    rows = ((one["name"][-1], one["cycle"], one["computed"]) for one in layers.values())
    assert [*zip(*rows, strict=True)] == [(*"0123124",), (1, 1, 2, 2, 1, 1, 2), (*[0] * 4, 1, 1, 1)]
    colours = [one["colour"] for one in layers.values()]
    assert colours == ["#0000ff", "#00ff00", "#0000ff", "#ff0000", *["#ffffff"] * 3]
    raw = tifffile.imread(tmp_path / "raw/s1/image.ome.tif")
    np.testing.assert_array_equal(imaged[:96, :128], raw[4])
    presets = model["presets"]
    assert presets[-1]["colours"] == {"corrected-0": "#ff0000", "corrected-2": "#00ffff"}
    assert presets[-1].pop("layers") == "corrected-0,corrected-2"
    rows = [[one["title"], one["mode"], one.get("a", ""), one.get("b", "")] for one in presets]
    assert [*map(" ".join, rows)] == [
        "CD3 before and after side imaged-2 corrected-1",  # a slide opens with the first
        "CD3 and AF side imaged-2 imaged-1",
        "CD8 before and after side imaged-4 corrected-3",
        "CD8 and AF side imaged-4 imaged-1",
        "DAPI and DAPI_2 overlay corrected-0 corrected-2",
        "nuclei of all cycles composite  ",
    ]

    def remove_map():
        (place / "registration/1-2/transform.json").unlink()

    def restore_map_of_other_images():
        moved.save(place / "registration/1-2/transform.json")
        raw_slides.slide(tmp_path, shape=(96, 130))

    for change in (remove_map, restore_map_of_other_images, lambda: shutil.rmtree("raw")):
        change()
        with Seen(tmp_path / "results") as seen:
            less = seen.json("pair/s1/pair.json")
        titles = [one["title"] for one in (*less["layers"], *less["presets"])]
        assert titles == ["DAPI", "CD3", "DAPI_2", "CD8", rows[-2][0], rows[-1][0]]
