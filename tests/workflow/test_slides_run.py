"""Real runs on slides of many channels."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict

import numpy as np
import pytest
import tifffile
import zarr
from real_runs import Run, bytes_of, command, records_of, snakemake
from scipy.ndimage import maximum_filter, zoom
from scipy.spatial import cKDTree
from sharing import once

from unglow.core.windows import Window
from unglow.images.detection_results import read_candidates
from unglow.phantom.slide import SlideRenderer, SlideSpec
from unglow.results import read_summary

pytestmark = pytest.mark.workflow


def damage(path):
    """Change what is stored of the first tile of the last channel."""
    with tifffile.TiffFile(path) as tif:
        page = tif.series[0].pages[-1]
        start, count = page.dataoffsets[0], page.databytecounts[0]
    with path.open("r+b") as file:
        file.seek(start + 20)
        file.write(b"\x55" * (count - 40))


@pytest.fixture(scope="module")
def run_of_slides(tmp_path_factory):
    """Two slides of 5 channels in two cycles, one of them damaged, and the run on them."""

    def make(work):
        size = ("--size", "768x768", "--channels", "5", "--cycles", "2")
        made = command(work, "unglow", "phantom", *size, "--raw", "raw", "--sample", "good")
        assert made.code == 0, made.text
        shutil.copytree(work / "raw/good", work / "raw/damaged")
        damage(work / "raw/damaged/good.ome.tif")
        return asdict(snakemake(work))

    work, run = once(tmp_path_factory, "slides", make)
    return work, Run(**run)


@pytest.fixture
def own(run_of_slides, tmp_path):
    """A copy of the run on the good slide, to change."""
    work, _ = run_of_slides
    shutil.copytree(work, tmp_path / "own", symlinks=True)
    for place in ("raw", "results"):
        shutil.rmtree(tmp_path / "own" / place / "damaged")
    return tmp_path / "own"


def test_markers_are_corrected_and_a_damaged_slide_stops_no_other(run_of_slides):
    work, run = run_of_slides
    assert run.code == 1, run.text  # because of the damaged one
    rows = {(row["sample"], row["dye"]): row for row in read_summary(work / "results/summary.tsv")}
    truth = json.loads((work / "raw/good/good_truth.json").read_text())
    gains = {one["name"]: one["gain"] for one in truth["channels"] if one["background"]}
    assert gains
    for name, gain in gains.items():
        row = rows["good", name]
        assert float(row["gain"]) == pytest.approx(gain, rel=0.02)
        assert float(row["error_median_px"]) < 0.1
        damaged = rows["damaged", name]
        assert (damaged["status"], "is damaged" in damaged["reasons"]) == ("failed", True)
    with tifffile.TiffFile(work / "results/good/corrected.ome.tif") as tif:
        table = (work / "results/good/markers_corrected.csv").read_text().splitlines()
        assert tif.series[0].shape == (len(table) - 1, 768, 768)
        assert tif.series[0].dtype == np.uint16
    figures = {path.stem for path in (work / "results/good/figures").glob("*.png")}
    assert figures == {"slide", *gains}


def test_results_are_listed_and_checked(own):
    assert command(own, "unglow", "verify").text.startswith("No problems found: ")
    image = own / "results/good/corrected.ome.tif"
    with image.open("r+b") as file:
        file.seek(image.stat().st_size // 2)
        file.write(b"\x01\x02\x03")
    (own / "raw/good/good.ome.tif").write_bytes(b"II*\0 another one")
    text = command(own, "unglow", "verify").text
    assert f"{image.relative_to(own)} has changed since it was published" in text


def test_only_what_follows_from_a_change_is_made_again(own):
    # the summary is of fewer slides now
    assert {*snakemake(own, "-n").jobs()} == {"summary", "verdict"}
    assert snakemake(own).code == 0
    assert snakemake(own, "-n").jobs() == {}
    rows = read_summary(own / "results/summary.tsv")
    assert not any(row.get("outdated") for row in rows)
    table = own / "raw/good/markers.csv"
    table.write_text(table.read_text().replace(",150.0,", ",140.0,"))
    again = snakemake(own, "-n").jobs()
    assert "slide_register" not in again
    assert {"slide_scale", "slide_subtract", "slide_figures", "summary"} <= {*again}
    run = snakemake(own)
    assert (run.code, run.jobs()) == (0, {job: n for job, n in again.items() if job != "all"}), (
        run.text
    )
    status = command(own, "unglow", "status").text
    assert "good" in status


def test_another_budget_and_one_core_give_the_same_bytes(own):
    before = bytes_of(own / "results")
    place = own / "results/good"
    for path in (*place.iterdir(), *place.glob("details/*")):
        if path.is_file():
            path.unlink()
    threads = ("--set-threads", "slide_scale=1", "slide_subtract=1")
    subtracted = "results/good/details/subtraction.json"
    run = snakemake(own, *threads, "--config", "memory_per_job=300", "--", subtracted)
    assert run.code == 0, run.text
    assert run.jobs() == {"slide_scale": 1, "slide_subtract": 1}
    assert bytes_of(own / "results") == before


def test_slides_without_a_map_as_float_and_as_zarr(own):
    settings = ("register={model: none}", "multiplexed={output: both, dtype: float32}")
    run = snakemake(
        own, "--config", "results=plain", *settings, "--", "plain/good/details/subtraction.json"
    )
    assert run.code == 0, run.text
    (marker,) = json.loads((own / "plain/good/scale.json").read_text())["markers"].values()
    assert np.hypot(*marker["residual_px"]) > 1  # and it is reported
    assert "shifted" in {reason["key"] for reason in marker["reasons"]}
    levels = zarr.open_group(own / "plain/good/corrected.ome.zarr", mode="r")
    image = tifffile.imread(own / "plain/good/corrected.ome.tif")
    assert image.dtype == np.float32
    np.testing.assert_array_equal(levels["0"][:], image)


def test_rims_and_holes_in_all_channels_fit_in_the_declared_memory(tmp_path):
    size = ("--size", "2048x2048", "--channels", "5", "--cycles", "2")
    made = command(tmp_path, "unglow", "phantom", *size, "--raw", "raw", "--sample", "good")
    assert made.code == 0, made.text
    path = tmp_path / "raw/good/good.ome.tif"
    with tifffile.TiffFile(path) as tif:
        image, text = tif.asarray(), tif.ome_metadata
    image[:, 200:900, 300:1500] = 0
    for lines in (image, image.swapaxes(1, 2)):
        lines[:, :12] = lines[:, -12:] = 0
    layout = {"tile": (512, 512), "compression": "zlib", "photometric": "minisblack"}
    tifffile.imwrite(path, image, description=text.encode(), metadata=None, **layout)
    run = snakemake(tmp_path, "--", "results/good/details/subtraction.json")
    assert run.code == 0, run.text
    records = [json.loads(p.read_text().splitlines()[-1]) for p in records_of(tmp_path / "results")]
    took = {one["rule"]: one["peak_mb"] / one["declared_mb"] for one in records}
    assert took.keys() == {"slide_register", "slide_scale", "slide_subtract"}
    assert max(took.values()) <= 1, took


def test_candidates_in_a_marker_are_its_cells(own):
    chosen = ("results=spots", "multiplexed={candidates: [M01]}", "scale={methods: [linear]}")
    made = ("spots/good.candidates/M01/details/detection.json", "spots/summary.tsv")
    run = snakemake(own, "--config", *chosen, "--", *made)
    assert run.code == 0, run.text
    # the map of the frame to the cycle, and that of the pair from the marker to its background
    assert (run.jobs()["slide_register"], run.jobs()["register"]) == (2, 1)
    pair = own / "spots/good.candidates/M01"
    slide_map, taken = (
        json.loads((place / "transform.json").read_text())
        for place in (own / "spots/good/registration/2-1", pair)
    )
    assert taken["matrix"] == slide_map["matrix"]
    assert (taken["status"], taken["from"]) == ("ok", "cycles 2-1")
    rows = {row["sample"]: row for row in read_summary(own / "spots/summary.tsv")}
    assert {*rows} == {"good", "good.candidates"}
    assert {row["dye"] for row in rows.values()} == {"M01"}
    assert rows["good"]["candidates"] == ""
    assert float(rows["good.candidates"]["gain"]) == pytest.approx(1.35, rel=0.003)
    renderer = SlideRenderer(SlideSpec((768, 768), channels=5, cycles=2))
    signal = renderer.signal(renderer.channels[-1], Window(0, 768, 0, 768))
    cells = np.argwhere((signal == maximum_filter(signal, 9)) & (signal > 50))[:, ::-1]
    table = read_candidates(pair / "candidates.csv")
    near, which = cKDTree(cells).query(table.xy)
    record = json.loads((pair / "details/detection.json").read_text())
    assert record["candidates"] == float(rows["good.candidates"]["candidates"])
    assert len(cells) == 66
    assert len(set(which[near < 8])) >= 58
    assert (near >= 8).sum() <= 6
    assert 58 <= record["candidates"] <= 70


def test_cycles_of_other_sizes_and_types_come_into_one_frame_and_a_foreign_one_is_left_out(
    tmp_path,
):
    words = ("--size", "1000x1000", "--channels", "9", "--cycles", "3", "--sample", "s")
    assert command(tmp_path, "unglow", "phantom", *words).code == 0
    path = tmp_path / "raw/s/s.ome.tif"
    planes = tifffile.imread(path)
    path.unlink()
    fine = np.stack([zoom(one.astype(float), 2.0, order=3) for one in planes[3:6]])[:, 300:, :1700]
    foreign = np.random.default_rng(0).poisson(300, (3, 800, 900))
    images = planes[:3], np.clip(fine / 18, 0, 255), foreign
    for n, (image, dtype) in enumerate(zip(images, ("u2", "u1", "u2"), strict=True), 1):
        tifffile.imwrite(
            path.with_name(f"cycle{n}.ome.tif"), image.astype(dtype), tile=(256, 256),
            metadata={"axes": "CYX"}, photometric="minisblack",
        )  # fmt: skip
    run = snakemake(tmp_path)
    assert run.code == 1, run.text  # for the markers of the third
    rows = {row["dye"]: row for row in read_summary(tmp_path / "results/summary.tsv")}
    assert {name: row["status"] for name, row in rows.items() if name in ("M03", "M04")} == {
        "M03": "failed",
        "M04": "failed",
    }
    assert "The corrected slide lacks it." in rows["M03"]["reasons"]
    assert float(rows["M01"]["gain"]) == pytest.approx(1.35 / 18, rel=0.02)
    stack = tifffile.imread(tmp_path / "results/s/corrected.ome.tif")
    assert (stack.shape, stack.dtype) == ((4, 1000, 1000), np.uint16)
    nuclei = stack[:2].astype(float)
    shown = nuclei[1] > 0
    assert 0.6 < shown.mean() < 0.9  # the second does not reach everywhere
    assert np.corrcoef(nuclei[0][shown], nuclei[1][shown])[0, 1] > 0.99
    record = json.loads((tmp_path / "results/s/details/subtraction.json").read_text())
    assert [*record["left_out"]] == ["DNA_3", "M03", "M04"]
