"""Pairs that need a person: landmarks, first maps and maps of other dyes, in real runs."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import tifffile
from made_scenes import render_hard
from real_runs import command, snakemake

from unglow import transform
from unglow.core.windows import Window
from unglow.images.zarr import open_store
from unglow.phantom import Truth

pytestmark = pytest.mark.workflow

SHAPE = (768, 768)
PLACES = np.array([[200.0, 180], [210, 560], [560, 220], [540, 570], [380, 400]])
MATRIX = np.array([[0.9, -0.45, 250.0], [0.45, 0.9, -140.0], [0, 0, 1]])
SETTINGS = ("--config", "register={coarse_px: 256}")
TARGETS = [
    "results/Hard/SYTO9/difference_percentile.ome.zarr/zarr.json",
    *(f"results/{sample}/SYTO9/transform.json" for sample in ("Hard", "Alone", "Wrong")),
]


def napari(path, points):
    """Write points (x, y) as napari saves a Points layer."""
    rows = [f"{k}.0,{y},{x}" for k, (x, y) in enumerate(points)]
    path.write_text("\n".join(["index,axis-0,axis-1", *rows]) + "\n")


def qupath(path, points):
    """Write points (x, y) as QuPath saves them."""
    rows = [f"{x + 0.5}\t{y + 0.5}\tPoints 1" for x, y in points]
    path.write_text("\n".join(["x\ty\tname\t", *rows]) + "\n")


def add_landmarks(folder, write, ending, post, pre):
    for role, points in (("post", post), ("pre", pre)):
        write(folder / f"{folder.name}_{role}_SYTO9.landmarks.{ending}", points)


@pytest.fixture(scope="module")
def work(tmp_path_factory, small_raw):
    """A hard pair with and without landmarks, and pairs whose landmarks are wrong, registered."""
    directory = tmp_path_factory.mktemp("by-hand")
    hard = {"post": render_hard(MATRIX, SHAPE, 20), "pre": render_hard(np.eye(3), SHAPE, 40)}
    for sample in ("Hard", "Alone", "Outside"):
        folder = directory / "raw" / sample
        folder.mkdir(parents=True)
        for role, image in hard.items():
            tifffile.imwrite(folder / f"{sample}_{role}_SYTO9.tif", image, tile=(256, 256))
    (easy,) = (p for p in small_raw.iterdir() if p.is_dir())
    wrong = directory / "raw" / "Wrong"
    wrong.mkdir()
    for role in ("post", "pre"):
        (image,) = easy.glob(f"*_{role}_*.tif")
        shutil.copy(image, wrong / f"Wrong_{role}_SYTO9.tif")
    pre = np.round(transform.apply_matrix(MATRIX, PLACES))
    add_landmarks(directory / "raw" / "Hard", napari, "csv", PLACES, pre)
    add_landmarks(directory / "raw" / "Outside", napari, "csv", PLACES, pre + 500)
    add_landmarks(wrong, qupath, "tsv", PLACES, PLACES[::-1])
    run = snakemake(directory, *SETTINGS, "--", *TARGETS)
    assert run.code == 0, run.text
    return directory, run


def found_of(work, sample, dye="SYTO9"):
    return transform.load(work / "results" / sample / dye / "transform.json")


def test_landmarks_register_what_no_search_finds(work):
    directory, _ = work
    assert found_of(directory, "Alone").status == "failed"
    found = found_of(directory, "Hard")
    assert found.status == "ok", found.reasons
    assert found.coarse_method == "landmarks"
    assert found.landmarks.count == 5
    assert found.landmarks.max_px < 1  # they were rounded to whole px
    off = np.hypot(*(found.map(PLACES) - transform.apply_matrix(MATRIX, PLACES)).T)
    assert off.max() < 0.2
    difference = open_store(directory / "results/Hard/SYTO9/difference_percentile.ome.zarr")
    assert np.isfinite(difference.read(Window(300, 400, 300, 400))).all()


def test_wrong_landmarks_of_a_pair_that_can_be_searched_make_it_suspect(work):
    directory, _ = work
    found = found_of(directory, "Wrong")
    assert found.status == "suspect"
    assert "The map misses landmark" in found.reasons[0]
    assert found.landmarks.max_px > 300


def test_only_a_change_of_landmarks_registers_again(work):
    directory, _ = work
    words = (*SETTINGS, "-n", "--", *TARGETS)
    assert "Nothing to be done" in snakemake(directory, *words).text
    marks = directory / "raw/Hard/Hard_pre_SYTO9.landmarks.csv"
    text = marks.read_text()
    napari(marks, transform.apply_matrix(MATRIX, PLACES) + 2)
    jobs = snakemake(directory, *words).jobs()
    assert jobs["register"] == 1
    assert "ingest" not in jobs
    marks.write_text(text)
    assert "Nothing to be done" in snakemake(directory, *words).text


def test_results_hold_no_paths(work):
    directory, _ = work
    files = [p for p in (directory / "results").glob("*/SYTO9/**/*") if p.is_file()]
    names = {path.name for path in files}
    assert {"transform.json", "plan.json", "blocks.csv", "zarr.json"} <= names
    made = str(directory).encode()
    assert [p for p in files if made in p.read_bytes()] == []


def test_a_sheet_of_init_names_the_landmarks_and_a_matrix_starts_as_well(work):
    directory, _ = work
    there = directory / "again"
    there.mkdir()
    (there / "raw").symlink_to(directory / "raw")
    made = command(there, "unglow", "init", "raw")
    assert made.code == 1, made.text  # one pair has bad landmarks
    text = (there / "config" / "samples.tsv").read_text()
    header, *lines = text.splitlines()
    assert header.split("\t")[4:] == ["landmarks_post", "landmarks_pre"]
    (line,) = (line for line in lines if line.startswith("Alone"))
    (there / "start.txt").write_text("0.9 -0.45 254\n0.45 0.9 -143\n0 0 1\n")
    sheet = [f"{header}\tinitial_transform", f"{line}\tstart.txt"]
    (there / "config" / "samples.tsv").write_text("\n".join(sheet) + "\n")
    run = snakemake(there, *SETTINGS, "--", "results/Alone/SYTO9/transform.json")
    assert run.code == 0, run.text
    found = found_of(there, "Alone")
    assert found.coarse_method == "initial"
    assert np.abs(found.matrix - MATRIX).max() < 0.3


# --------------------------------------------------------------------------- the map of another dye


@pytest.fixture(scope="module")
def dyes(tmp_path_factory, small_raw):
    """A sample whose dyes take the map of DAPI: one fits, the other was moved by 4 px."""
    directory = tmp_path_factory.mktemp("dyes")
    (easy,) = (p for p in small_raw.iterdir() if p.is_dir())
    images = {
        role: tifffile.imread(next(easy.glob(f"*_{role}_*.tif")))[..., 1]
        for role in ("post", "pre")
    }
    rng = np.random.default_rng(1)
    other = rng.integers(0, 5, images["post"].shape, dtype=np.uint8) + images["post"] // 2
    posts = {"DAPI": images["post"], "Cy3": other, "Cy5": np.roll(images["post"], 4, axis=1)}
    for sample, dye in (("S", "DAPI"), ("S", "Cy3"), ("S", "Cy5"), ("T", "Cy3")):
        (directory / "raw" / sample).mkdir(parents=True, exist_ok=True)
        for role, image in (("post", posts[dye]), ("pre", images["pre"])):
            tifffile.imwrite(directory / "raw" / sample / f"{role}_{dye}.tif", image)
    words = ("--config", "register={from: DAPI}", "allow_failed=true")
    targets = [f"results/S/{dye}/transform.json" for dye in posts]
    run = snakemake(directory, *words, "--", *targets)
    assert run.code == 0, run.text
    return directory, run, Truth.load(next(easy.glob("*truth.json")))


def test_a_dye_takes_the_map_of_another_and_its_images_are_asked(dyes):
    directory, _, truth = dyes
    maps = {dye: found_of(directory, "S", dye) for dye in ("DAPI", "Cy3", "Cy5")}
    assert [maps[d].status for d in maps] == ["ok", "ok", "suspect"]
    assert [maps[d].source for d in maps] == ["", "DAPI", "DAPI"]
    for dye in ("Cy3", "Cy5"):
        np.testing.assert_array_equal(maps[dye].matrix, maps["DAPI"].matrix)
    points = np.array([[300.0, 200], [600, 450]])
    off = np.hypot(*(maps["Cy3"].map(points) - truth.map(points)).T)
    assert off.max() < 0.2
    assert maps["Cy5"].reasons[0].key == "moved"
    assert "(x -4.0" in maps["Cy5"].reasons[0].numbers
    assert maps["Cy5"].residual_px.median == pytest.approx(4, abs=0.1)
    text = (directory / "results/S/Cy3/transform.json").read_text()
    assert json.loads(text)["from"] == "DAPI"
    assert str(directory) not in text


def test_registering_itself_again_reruns_only_the_registrations_that_change(dyes):
    directory, _, _ = dyes
    targets = [f"results/S/{dye}/transform.json" for dye in ("DAPI", "Cy3", "Cy5")]
    again = snakemake(directory, "-n", "--config", "register={from: DAPI}", "--", *targets)
    assert "Nothing to be done" in again.text
    jobs = snakemake(directory, "-n", "--", *targets).jobs()
    assert jobs == {"register": 2}
