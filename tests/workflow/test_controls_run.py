"""Unstained control pairs through the real workflow: the rate that they give to a stained pair."""

from __future__ import annotations

import csv
import json
import shutil

import numpy as np
import pytest
import tifffile
from real_runs import command, snakemake

from unglow.detection.rates import Controls, Sides
from unglow.images.detection_results import SearchCounts
from unglow.images.zarr import open_store

pytestmark = pytest.mark.workflow
CONFIG = ("--config", "scale={methods: [linear]}")
TABLE = ("--", "results/summary.tsv")


def write_sheet(work, **controls):
    """Write the sample sheet; a word for each sample goes into the column ``control``."""
    lines = ["sample\tdye\tpre\tpost\tcontrol"]
    for sample, control in controls.items():
        images = (next((work / "raw" / sample).glob(f"*_{r}_*.tif")) for r in ("pre", "post"))
        lines.append(
            "\t".join([sample, "SYTO9", *(str(i.relative_to(work)) for i in images), control])
        )
    (work / "config").mkdir(exist_ok=True)
    (work / "config" / "samples.tsv").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def work(tmp_path_factory, small_raw):
    """A stained pair, an unstained one, and an unstained one without anything to see."""
    directory = tmp_path_factory.mktemp("controls")
    shutil.copytree(small_raw, directory / "raw")
    made = command(
        directory,
        *("unglow", "phantom", "--sample", "blank", "--microbes-per-mpx", "0", "--seed", "5"),
        *("--size", "700x900", "--gain", "1.05", "--rotation-deg", "0.5", "--scale", "1"),
    )
    assert made.code == 0, made.text
    folder = directory / "raw" / "dark"
    folder.mkdir()
    for role in ("pre", "post"):
        tifffile.imwrite(folder / f"dark_{role}_SYTO9.tif", np.zeros((400, 500), "u1"))
    write_sheet(directory, phantom="", blank="yes", dark="true")
    run = snakemake(directory, *CONFIG, *TABLE)
    assert run.code == 0, run.text
    return directory


def report(work, sample):
    return json.loads((work / "results" / sample / "SYTO9" / "details/detection.json").read_text())


def test_controls_give_the_rate_of_the_stained_pair_and_a_refused_one_stops_nothing(work):
    content = report(work, "phantom")
    assert content["status"] == "ok"
    blank, dark = content["controls"]
    assert (blank["sample"], blank["reason"]) == ("blank", None)
    assert (dark["sample"], dark["searched_px"], dark["candidates"]) == ("dark", 0, None)
    assert dark["reason"] == report(work, "dark")["reason"]
    searches = {
        sample: SearchCounts.load(work / "results" / sample / "SYTO9" / "details/search.npz")
        for sample in ("phantom", "blank", "dark")
    }
    own = searches["phantom"]
    sides = Sides(own.lowest, own.bright, own.dark)
    rates = Controls(("blank",), (searches["blank"],)).rates(sides, own.searched_px)
    first_bin = int(sides.bins(content["threshold_snr"] + 1e-6))
    assert content["fdr_control"] == pytest.approx(rates.fdr[first_bin], rel=0.01)
    assert content["fdr_control_ci95"] == pytest.approx(
        [rates.low[first_bin], rates.high[first_bin]], rel=0.01
    )
    assert blank["candidates"] == searches["blank"].bright[first_bin:].sum()
    assert content["threshold_snr"] == max(content["thresholds"].values())
    assert content["fdr"] <= 0.05
    assert content["fdr_control"] <= 0.05
    with (work / "results/phantom/SYTO9/candidates.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == content["candidates"] + content["not_counted"]
    for row in rows:
        bin_of = sides.bins(float(row["snr"]))
        assert 0 < float(row["fdr_control"]) <= float(row["fdr_control_high95"])
        assert float(row["fdr_control"]) >= rates.fdr[min(bin_of + 1, len(rates.fdr) - 1)] * 0.99


def test_controls_have_lists_of_their_own_and_are_marked(work):
    content = report(work, "blank")
    assert content["is_control"] is True
    assert content["controls"] is content["fdr_control"] is None
    assert content["threshold_from"] == "negative"
    with (work / "results" / "summary.tsv").open() as stream:
        rows = {row["sample"]: row for row in csv.DictReader(stream, delimiter="\t")}
    assert {name: row["control"] for name, row in rows.items()} == {
        "phantom": "", "blank": "true", "dark": "true"
    }  # fmt: skip
    assert [rows[name]["status"] for name in ("phantom", "blank", "dark")] == ["ok", "ok", "failed"]
    low, high = report(work, "phantom")["fdr_control_ci95"]
    stated = report(work, "phantom")["fdr_control"]
    # as many digits as its interval leaves
    assert float(rows["phantom"]["fdr_control"]) == pytest.approx(stated, abs=(high - low) / 4)
    assert rows["blank"]["fdr_control"] == ""
    # nothing is stained: hardly anything is believed
    assert float(rows["blank"]["candidates"]) < 0.1 * float(rows["phantom"]["candidates"])
    assert open_store(work / "results/dark/SYTO9/difference.ome.zarr").empty


def test_the_column_reruns_the_searches_that_it_concerns_and_nothing_else(work):
    look = (*CONFIG, "-n", *TABLE)
    assert "Nothing to be done" in snakemake(work, *look).text
    write_sheet(work, phantom="", blank="yes", dark="no")
    jobs = snakemake(work, *look).jobs()
    assert jobs == {"detect": 2, "summary": 1}  # of phantom and dark
    write_sheet(work, phantom="", blank="", dark="")
    assert snakemake(work, *look).jobs() == {"detect": 3, "summary": 1}
    write_sheet(work, phantom="", blank="yes", dark="true")
    assert "Nothing to be done" in snakemake(work, *look).text
    asked = (*CONFIG, "detect={threshold_from: negative}", "-n", *TABLE)
    assert snakemake(work, *asked).jobs() == {"detect": 1, "summary": 1}
