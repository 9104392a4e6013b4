"""Pairs that are split into bands: the same bytes as unsplit, also after a run was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import numpy as np
import pytest
import tifffile
from conftest import BIN, PROJECT, bytes_of, command, snakemake

from unglow.outputs import joined
from unglow.store import open_store

pytestmark = pytest.mark.workflow

SAMPLES = ("Strips", "Tiles", "Torn", "Unlike")
ONE_METHOD = ("--config", "scale={methods: [linear]}", "--until", "detect")
IN_BANDS = (*ONE_METHOD[:2], "bands=3", *ONE_METHOD[2:])
# 4200 rows of px are three rows of shards; the smallest registration that is found
SIZE = ("--size", "4200x400", "--rotation-deg", "0.2", "--scale", "1.002", "--shear", "0")


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """Two good pairs, one with a strip that cannot be decoded, one that cannot be registered."""
    base = tmp_path_factory.mktemp("tall")
    for sample, layout in (("Strips", "strips"), ("Tiles", "tiles"), ("Torn", "strips")):
        options = ("--sample", sample, "--layout", layout, "--shift-px", "12", "-9")
        made = command(base, "unglow", "phantom", *SIZE, *options)
        assert made.code == 0, made.text
    torn = base / "raw" / "Torn" / "Torn_post_SYTO9.tif"
    with tifffile.TiffFile(torn) as tif:
        offset = tif.pages[0].dataoffsets[-1]
    with torn.open("r+b") as file:
        file.seek(offset)
        file.write(b"\0" * 30)
    (base / "raw" / "Unlike").mkdir()
    random = np.random.default_rng(3)
    for role in ("post", "pre"):
        image = random.integers(0, 200, (4200, 200), dtype=np.uint8)
        tifffile.imwrite(base / "raw" / "Unlike" / f"Unlike_{role}_SYTO9.tif", image)
    return base / "raw"


def working_directory(place, raw):
    place.mkdir()
    (place / "raw").symlink_to(raw)
    return place


@pytest.fixture(scope="module")
def whole(tmp_path_factory, raw):
    """A run in which nothing is split."""
    work = working_directory(tmp_path_factory.mktemp("whole") / "w", raw)
    run = snakemake(work, *ONE_METHOD, timeout=900)
    assert run.code == 0, run.text
    return bytes_of(work / "results")


@pytest.fixture(scope="module")
def split(tmp_path_factory, raw):
    """The same in bands."""
    work = working_directory(tmp_path_factory.mktemp("split") / "w", raw)
    run = snakemake(work, *IN_BANDS, timeout=900)
    assert run.code == 0, run.text
    return work, run


@pytest.mark.parametrize("sample", SAMPLES)
def test_bands_change_no_byte_of_good_and_of_failed_pairs(whole, split, sample):
    def of_sample(found):
        return {path: digest for path, digest in found.items() if path.startswith(f"{sample}/")}

    assert of_sample(bytes_of(split[0] / "results")) == of_sample(whole)


def test_every_stage_was_split_and_nothing_but_results_is_left(split):
    work, run = split
    jobs = run.jobs()
    assert (jobs["ingest_band"], jobs["ingest"]) == (24, 8)
    for stage in ("align", "difference", "detect"):
        assert (jobs[f"{stage}_band"], jobs[stage]) == (12, 4)
    hidden = {p.name for p in (work / "results").rglob(".*") if p.name != ".snakemake_timestamp"}
    assert hidden == set()
    empty = open_store(work / "results" / "Torn" / "SYTO9" / "post.ome.zarr").empty
    assert "Torn_post_SYTO9.tif' is damaged: strip" in empty
    assert open_store(work / "results" / "Unlike" / "SYTO9" / "aligned_pre.ome.zarr").empty


def test_a_run_in_bands_that_is_done_has_nothing_more_to_do(split):
    assert snakemake(split[0], *IN_BANDS).jobs() == {}


@pytest.fixture
def killed(tmp_path, raw):
    """A run that was killed when the first band of a warp was done, and what that band left."""
    sample = working_directory(tmp_path / "w", raw) / "results" / "Tiles" / "SYTO9"
    work = sample.parents[2]
    (work / "config").mkdir()
    sheet = "sample\tdye\tpre\tpost\nTiles\tSYTO9\t" + "\t".join(
        f"raw/Tiles/Tiles_{role}_SYTO9.tif" for role in ("pre", "post")
    )
    (work / "config" / "samples.tsv").write_text(f"{sheet}\n")
    run = subprocess.Popen(
        [BIN / "snakemake", "-s", PROJECT / "Snakefile", "--cores", "2", *IN_BANDS],
        cwd=work,
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 300
    while not (done := sorted(sample.glob(".aligned_pre.ome.zarr.*.band.npz"))):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert not (sample / "statistics.npz").exists()
    assert snakemake(work, "--unlock").code == 0
    return work, done


def of_tiles(found):
    return {path: digest for path, digest in found.items() if path.startswith("Tiles/")}


def test_a_run_that_was_killed_between_bands_goes_on_and_ends_with_the_same_bytes(killed, whole):
    work, done = killed
    run = snakemake(work, *IN_BANDS)
    assert run.code == 0, run.text
    assert run.jobs()["align_band"] == 3 - len(done)
    assert bytes_of(work / "results") == of_tiles(whole)


def test_a_shard_that_is_lost_before_it_is_joined_is_told_and_the_next_run_makes_it(killed, whole):
    work, done = killed
    (meeting,) = done[0].parent.glob(".aligned_pre.ome.zarr.*.bands")
    band = joined(done[0])[1]
    (meeting / "0" / "c" / str(band.number - 1) / "0").unlink()
    run = snakemake(work, *IN_BANDS)
    assert run.code == 1
    assert "is missing; run the workflow again, which makes this band anew" in " ".join(
        run.text.split()
    )
    again = snakemake(work, *IN_BANDS)
    assert again.code == 0, again.text
    assert again.jobs()["align_band"] == 1
    assert bytes_of(work / "results") == of_tiles(whole)
