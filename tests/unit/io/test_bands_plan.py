"""How many bands there are, which rows belong to each, and what their files are called."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tifffile

from unglow.io.tiff import read_header
from unglow.io.zarr import plan_layout
from unglow.io.zarr.bands import PATTERN, Band, all_bands, band_count, readable_bands
from unglow.workflow import memory_model
from unglow.workflow.batch import Batch
from unglow.workflow.job_resources import demand_of, mem_mb
from unglow.workflow.paths import Outputs, joined
from unglow.workflow.planned_jobs import band_files
from unglow.workflow.preflight.pending_jobs import pending_jobs
from unglow.workflow.stages import align, difference, ingest

PROJECT = Path(__file__).resolve().parents[3]
TALL = plan_layout((9000, 500), "float32")  # five rows of shards


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_bands_hold_every_shard_once_and_differ_by_one_row_at_most(count):
    bands = all_bands(count)
    windows = [list(band.windows(TALL)) for band in bands]
    assert [w for part in windows for w in part] == list(TALL.windows())
    assert {len(w) for w in windows} <= {5 // count, 5 // count + 1}
    ends = [band.rows(TALL) for band in bands]
    assert [(w[0].y0, w[-1].y1) for w in windows] == ends
    assert sum(band.pixels(TALL) for band in bands) == 9000 * 500


def test_a_band_is_written_as_it_is_read():
    assert str(Band(2, 14)) == "2-of-14"
    assert Band.parse("2-of-14") == Band(2, 14)
    assert re.fullmatch(PATTERN, "2-of-14")


@pytest.mark.parametrize("text", ["0-of-3", "4-of-3", "3", "a-of-b", ""])
def test_what_is_no_band_is_refused(text):
    with pytest.raises(ValueError, match="is not a band such as 2-of-4"):
        Band.parse(text)


def test_auto_takes_one_band_for_each_begun_1000_mpx_and_never_more_than_rows_of_shards():
    huge = plan_layout((100_000, 100_000), "uint16")
    found = [band_count("auto", px, huge) for px in (1, 10**9, 10**9 + 1, 10**10)]
    assert found == [1, 1, 2, 10]
    assert band_count(7, 1, huge) == 7
    assert band_count(7, 1, TALL) == 5
    assert band_count("auto", 10**10, plan_layout((100, 100), "uint8")) == 1


@pytest.mark.parametrize(
    ("options", "bands"),
    [
        ({"rowsperstrip": 6000, "compression": "zlib"}, 1),
        ({"rowsperstrip": 6000}, 3),  # rows of a file without a codec are read singly
        ({"rowsperstrip": 3500, "compression": "zlib"}, 2),
        ({"rowsperstrip": 16, "compression": "zlib"}, 3),
        ({"tile": (64, 64), "compression": "zlib"}, 3),
    ],
)
def test_what_is_decoded_from_its_start_is_read_in_one_piece(tmp_path, options, bands):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((6000, 64), np.uint8), **options)
    assert readable_bands(3, read_header(tmp_path / "a.tif")) == bands


def test_files_of_bands_lie_hidden_beside_what_they_are_parts_of():
    out = Outputs()
    pattern = out.band(out.subtracted("difference/{method}.ome.zarr/zarr.json"))
    assert pattern == "<results>/{sample}/{dye}/difference/.{method}.ome.zarr.{band}.band.npz"
    assert joined(Path("S/D/difference/.linear.ome.zarr.2-of-3.band.npz")) == (
        Path("S/D/difference/linear.ome.zarr"),
        Band(2, 3),
    )
    assert joined(Path("S/D/post.ome.zarr/zarr.json")) == (Path("S/D/post.ome.zarr"), None)
    assert joined(Path("S/D/candidates.csv")) == (Path("S/D/candidates.csv"), None)


@pytest.mark.parametrize(
    ("name", "module"),
    [("ingest", ingest), ("align", align), ("difference", difference), ("detect", None)],
)
def test_rules_of_a_stage_and_of_its_bands_and_the_package_have_one_version(name, module):
    text = (PROJECT / "rules" / f"{name}.smk").read_text()
    (version,) = re.findall(r"version=(\d+)", text)
    assert module is None or version == str(module.VERSION)  # detect is told its version
    assert f"use rule {name}_band as {name} with:" in text  # which takes its version


# ------------------------------------------------------------------------------------------ a batch


@pytest.fixture
def work(tmp_path):
    """A pair of which post has three rows of shards and pre is one compressed strip."""
    raw = tmp_path / "raw" / "A"
    raw.mkdir(parents=True)
    image = np.zeros((5000, 40), np.uint8)
    tifffile.imwrite(raw / "A_post_D.tif", image)
    tifffile.imwrite(raw / "A_pre_D.tif", image, rowsperstrip=5000, compression="zlib")
    return tmp_path


NAMES = {"sample": "A", "dye": "D", "method": "linear", "registration": "", "subtraction": ""}


def test_a_pair_that_is_not_split_has_no_files_of_bands(work):
    batch = Batch.load({}, work)
    assert batch.band_count("align", NAMES) == 1
    assert band_files(batch, "align", NAMES) == []
    assert not batch.is_split(NAMES)
    assert demand_of(batch, "align", NAMES) == memory_model.align(
        batch.layout({"sample": "A", "dye": "D"}, "derived"),
        batch.layout({"sample": "A", "dye": "D"}, "pre"),
    )


def test_stages_are_split_as_asked_for_and_a_single_strip_is_not(work):
    batch = Batch.load({"bands": 4}, work)
    counts = [batch.band_count(s, NAMES) for s in ("align", "difference", "detect")]
    assert counts == [3, 3, 3]
    assert batch.is_split(NAMES)
    assert [batch.band_count("ingest", {**NAMES, "role": r}) for r in ("post", "pre")] == [3, 1]
    files = band_files(batch, "align", NAMES)
    assert files == [f"<results>/A/D/.aligned_pre.ome.zarr.{n}-of-3.band.npz" for n in (1, 2, 3)]


def test_a_band_has_the_memory_of_its_stage_with_fewer_blocks_and_the_end_its_own(work):
    batch = Batch.load({"bands": 3}, work)
    layout = batch.layout({"sample": "A", "dye": "D"}, "derived")
    whole = memory_model.align(layout, batch.layout({"sample": "A", "dye": "D"}, "pre"))
    band = demand_of(batch, "align_band", {**NAMES, "band": "1-of-3"})
    assert (whole.most, band.most) == (3, 1)
    assert (band.base, band.each, band.fixed) == (whole.base, whole.each, whole.fixed)
    assert demand_of(batch, "align", NAMES) == memory_model.join_align(layout)
    assert mem_mb(batch, "difference", NAMES, 1) < mem_mb(batch, "difference_band", NAMES, 1)


def test_preflight_counts_the_bands_that_are_still_to_be_done(work):
    batch = Batch.load({"bands": 3, "scale": {"methods": ["linear"]}}, work)
    pair, results = {("A", "D")}, work / "results"

    def counted():
        rules = [job.rule for job in pending_jobs(batch, results, only=pair)]
        return {rule: rules.count(rule) for rule in rules if rule.startswith(("ingest", "align"))}

    assert counted() == {"ingest_band": 3, "ingest": 1, "align_band": 3, "align": 1}
    jobs = pending_jobs(batch, results, only=pair)
    assert [j.title for j in jobs if j.rule == "align_band"][1] == "A D 2-of-3"
    assert {j.threads for j in jobs if j.rule == "align_band"} == {2}
    place = results / "A" / "D"
    place.mkdir(parents=True)
    (place / ".post.ome.zarr.2-of-3.band.npz").touch()
    assert counted()["ingest_band"] == 2
    for name in ("aligned_pre.ome.zarr/zarr.json", "statistics.npz", "bins.npz"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).touch()
    assert counted() == {"ingest_band": 2, "ingest": 1}
