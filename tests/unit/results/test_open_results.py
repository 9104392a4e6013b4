"""Results as programs and notebooks read them: `unglow.open_results`."""

from __future__ import annotations

import shutil
import tracemalloc

import dask.array
import numpy as np
import pytest
import zarr
from made_results import GAIN, MATRIX, SHAPE, made_pair, made_sweep, refused

import unglow
from unglow.core.errors import InputError, StoreError, UnglowError
from unglow.core.windows import Window
from unglow.images.detection_results import read_candidates
from unglow.images.zarr import Store, open_store
from unglow.photometry.difference import open_difference


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A working directory with a pair; do not change it."""
    work = tmp_path_factory.mktemp("done")
    made_pair(work / "results" / "S1" / "D")
    return work


@pytest.fixture
def work(tmp_path, done):
    shutil.copytree(done, tmp_path / "work")
    return tmp_path / "work"


def test_a_pair_is_found_from_any_directory_of_its_own(done):
    pair = done / "results" / "S1" / "D"
    for place in (done, done / "results", pair):
        results = unglow.open_results(str(place))
        assert list(results.pairs) == [("S1", "D")]
        assert results["S1", "D"].directory.resolve() == pair.resolve()
        assert results.slides == {}
    for place in (done / "none", done / "results" / "S1"):
        with pytest.raises(InputError, match=place.name):
            unglow.open_results(place)
    with pytest.raises(InputError, match="S1/D"):
        unglow.open_results(done)["S1", "E"]
    with pytest.raises(InputError, match="no pair S1;"):
        unglow.open_results(done)["S1"]
    assert "S1/D" in results
    assert ("S1", "D") in results
    assert "S1/E" not in results
    with pytest.raises(InputError, match="no pair 0;"):
        results[0]


def test_whoever_reads_may_go_elsewhere_in_between(done, tmp_path, monkeypatch):
    monkeypatch.chdir(done)
    (pair,) = unglow.open_results(".")
    post = pair.post
    wanted = post[:3, :3]
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(post[:3, :3], wanted)
    assert len(pair.candidates())


def test_map_gain_and_candidates_are_those_of_the_files(done):
    pair = unglow.open_results(done)["S1", "D"]
    assert (pair.state, pair.reasons) == ("ok", "")
    assert pair.plan.choice == {"names": ["G"]}
    linear = pair.scale.methods["linear"]
    assert (linear.gain, linear.gain_ci95) == (GAIN, (1.4, 1.6))
    points = pair.transform.map([[300, 200]])
    np.testing.assert_allclose(points, [[302.25, 204.5]], atol=0.5)
    assert pair.transform.matrix.tolist() == MATRIX.tolist()
    table, found = read_candidates(pair.directory / "candidates.csv"), pair.candidates()
    assert len(found) == len(table) > 0
    assert found.dtype.names == (*table.numbers, "flags", "counted")
    for name, column in table.numbers.items():
        np.testing.assert_array_equal(found[name], column)
    assert found["flags"].tolist() == list(table.flags)
    assert found["id"].dtype.kind == "i"
    assert pair.detection["candidates"] == np.count_nonzero(found["counted"])


def test_a_results_directory_of_another_name_is_found(work):
    (work / "results").rename(work / "out")
    (work / "out" / "summary.tsv").write_text("sample\tdye\tstatus\treasons\n")
    assert list(unglow.open_results(work).pairs) == [("S1", "D")]


def test_variants_have_names_and_share_what_they_have_in_common(done, tmp_path):
    made_sweep(done / "results" / "S1" / "D", tmp_path / "results" / "S1" / "D")
    results = unglow.open_results(tmp_path)
    assert len(results.pairs) == 4
    pair = results["S1", "D", "model-any", "percentile-50"]
    assert pair.path("details/plan.json").parents[1] == pair.pair
    assert pair.path("transform.json").parent.name == "model-any"
    assert pair.aligned_pre.shape == pair.post.shape == SHAPE
    assert "data:image/jpeg" in pair._repr_html_()


def test_states_of_pairs_that_did_not_end_well(work):
    refused(work / "results" / "S2" / "D")
    shutil.copytree(work / "results" / "S1", work / "results" / "S3")
    (work / "results" / "S3" / "D" / "details/detection.json").unlink()
    shutil.copytree(work / "results" / "S1", work / "results" / "S4")
    (work / "results" / "S4" / "D" / "details/displacement.npz").unlink()
    table = "sample\tdye\tstatus\treasons\nS5\tD\tskipped\tThere is no pre image.\n"
    table += "slide\tCD3\tok\t\nS6\tD\tincomplete\tnot yet\n"  # neither is a pair with results
    (work / "results" / "summary.tsv").write_text(table)
    results = unglow.open_results(work)
    states = {sample: (pair.state, pair.reasons) for (sample, _), pair in results.pairs.items()}
    assert states["S2"] == ("failed", "No match was found.")
    assert states["S3"][0] == "incomplete"
    assert "details/detection.json" in states["S3"][1]
    assert states["S4"][0] == "failed"
    assert "details/displacement.npz" in states["S4"][1]
    assert states["S5"] == ("skipped", "There is no pre image.")
    assert {*states} == {"S1", "S2", "S3", "S4", "S5"}
    with pytest.raises(InputError, match="no pre image"):
        _ = results["S5", "D"].transform
    with pytest.raises(InputError, match=r"S3.*detection\.json"):
        _ = results["S3", "D"].detection


@pytest.mark.parametrize(
    "name", ["details/plan.json", "transform.json", "scale.json", "details/detection.json"]
)
def test_a_damaged_file_is_named(work, name):
    path = work / "results" / "S1" / "D" / name
    path.write_text('{"status": "ok"')
    pair = unglow.open_results(work)["S1", "D"]
    with pytest.raises(UnglowError) as error:
        getattr(pair, path.stem)
    assert str(path) in str(error.value)
    assert pair.state == "failed"


@pytest.mark.parametrize("name", ["post", "pre", "aligned_pre", "linear", "moffat"])
def test_images_are_zarr_arrays_of_all_levels_with_the_pixels_of_the_reader(done, name):
    pair = unglow.open_results(done)["S1", "D"]
    if name in ("linear", "moffat"):  # one is written, the other computed
        image, levels = pair.difference(name), pair.levels("difference", name)
        source = open_difference(pair.directory, name)
        assert isinstance(source, Store) == (name == pair.scale.default)
    else:
        image, levels = getattr(pair, name), pair.levels(name)
        source = open_store(pair.directory / f"{name}.ome.zarr")
    assert isinstance(image, zarr.Array)
    assert len(levels) == source.levels == 3
    assert (image.shape, image.dtype, image.chunks) == (source.shape, source.dtype, (512, 512))
    for number, level in enumerate(levels):
        whole = Window.from_shape(source.level_shape(number))
        np.testing.assert_array_equal(level[:], source.read(whole, number))
    np.testing.assert_array_equal(image[10:600:7, 3], image[:][10:600:7, 3])
    with pytest.raises(ValueError, match="read-only"):
        image[0, 0] = 1


def test_dask_takes_images_as_they_are(done):
    for image in (pair := unglow.open_results(done)["S1", "D"]).post, pair.difference("moffat"):
        np.testing.assert_array_equal(dask.array.from_zarr(image).compute(), image[:])


def test_a_lost_or_damaged_chunk_is_named(work):
    shard = work / "results" / "S1" / "D" / "post.ome.zarr" / "0" / "c" / "0" / "0"
    pair = unglow.open_results(work)["S1", "D"]
    computed = pair.difference("moffat")
    content = bytearray(shard.read_bytes())
    content[100] ^= 1
    shard.write_bytes(content)
    with pytest.raises(StoreError, match=r"post\.ome\.zarr"):
        computed[0:10, 0:10]
    with pytest.raises(ValueError, match="checksum"):
        pair.post[0:10, 0:10]
    shard.unlink()
    with pytest.raises(StoreError, match=r"post\.ome\.zarr"):
        _ = pair.post


def test_memory_is_that_of_the_part(done):
    image = unglow.open_results(done)["S1", "D"].difference("moffat")
    image[0:1, 0:1]
    tracemalloc.start()
    image[600:610, 600:610]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    chunk = image.chunks[0] * image.chunks[1] * image.dtype.itemsize
    assert peak < 5 * chunk


def test_results_are_looped_over_counted_and_shown_in_a_line(done):
    results = unglow.open_results(done)
    assert [pair.names for pair in results] == list(results.pairs)
    assert len(results) == len(results.pairs)
    assert results["S1/D"] is results["S1", "D"]
    with pytest.raises(InputError, match="S1/D"):
        _ = results["S1"]
    for shown in (repr(results), repr(results["S1/D"])):
        assert "\n" not in shown
        assert len(shown) < 300
    page = results["S1/D"]._repr_html_()
    assert page.count("<img src=") == 1
    assert "&lt;S1/D: " in page
