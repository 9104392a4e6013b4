"""Pairs that are split into bands: the same bytes as unsplit, also after a run was killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time

import pytest
import tifffile
from real_runs import BIN, PROJECT, bytes_of, command, snakemake

from unglow.io.zarr import open_store
from unglow.workflow.paths import joined

pytestmark = [pytest.mark.workflow, pytest.mark.timeout(3000)]

# 4200 rows of px are three rows of shards
SIZE = (
    "--no-rgb",
    "--size",
    "4200x400",
    "--rotation-deg",
    "0.2",
    "--scale",
    "1.002",
    "--shear",
    "0",
)
PAIRS = {"Tiles": "tiles", "Torn": "strips"}
WHOLE = ("--config", "scale={methods: [linear]}", "bands=1")
SPLIT = (*WHOLE[:2], "bands=3")
ALIGN = ("--until", "align")


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """A good pair, and one with a strip that cannot be decoded."""
    base = tmp_path_factory.mktemp("tall")
    for sample, layout in PAIRS.items():
        options = ("--sample", sample, "--layout", layout, "--shift-px", "12", "-9")
        made = command(base, "unglow", "phantom", *SIZE, *options)
        assert made.code == 0, made.text
    torn = base / "raw" / "Torn" / "Torn_post_SYTO9.tif"
    with tifffile.TiffFile(torn) as tif:
        last = tif.pages[0].dataoffsets[-1]
    with torn.open("r+b") as file:
        file.seek(last)
        file.write(b"\0" * 30)
    # across two bands, so that each leaves out and counts its part
    regions = base / "raw" / "Tiles" / "Tiles_post_SYTO9.regions.geojson"
    regions.write_text(json.dumps([drawn("exclude", 1500), drawn("analyse", 1000)]))
    return base / "raw"


def drawn(kind, top):
    """A feature from a row on, 2000 px high, as QuPath exports it."""
    ring = [[20, top], [330, top + 10], [300, top + 2000], [10, top + 1900], [20, top]]
    return {
        "type": "Feature",
        "geometry": {"type": "Polygon", "coordinates": [ring]},
        "properties": {"objectType": "annotation", "classification": {"name": kind}},
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory, raw):
    """What a run gives in which nothing is split."""
    work = tmp_path_factory.mktemp("whole")
    (work / "raw").symlink_to(raw)
    run = snakemake(work, *WHOLE, "--until", "detect", timeout=1500)
    assert run.code == 0, run.text
    return bytes_of(work / "results")


@pytest.fixture(scope="module")
def split(tmp_path_factory, raw):
    """A working directory in which the same was done in bands, and that run."""
    work = tmp_path_factory.mktemp("split")
    (work / "raw").symlink_to(raw)
    run = snakemake(work, *SPLIT, "--until", "detect", timeout=1500)
    assert run.code == 0, run.text
    return work, run


def below(found, sample):
    return {path: digest for path, digest in found.items() if path.startswith(f"{sample}/")}


@pytest.mark.parametrize("sample", PAIRS)
def test_bands_change_no_byte_of_a_good_and_of_a_failed_pair(whole, split, sample):
    assert below(bytes_of(split[0] / "results"), sample) == below(whole, sample)


def test_regions_across_bands_are_left_out_and_counted_in(split):
    report = json.loads((split[0] / "results/Tiles/SYTO9/detection.json").read_text())
    assert report["masked_px"]["excluded"] > 500_000
    (part,) = report["regions"]
    assert 0 < part["searched_px"] < 300_000
    assert part["candidates"] > 0


def test_every_stage_was_split_and_nothing_but_results_is_left(split):
    work, run = split
    jobs = run.jobs()
    assert (jobs["ingest_band"], jobs["ingest"]) == (12, 2)
    for stage in ("align", "difference", "detect"):
        assert (jobs[f"{stage}_band"], jobs[stage]) == (6, 2)
    hidden = {p.name for p in (work / "results").rglob(".*") if p.name != ".snakemake_timestamp"}
    assert hidden == set()
    torn = work / "results" / "Torn" / "SYTO9"
    assert "Torn_post_SYTO9.tif' is damaged: strip" in open_store(torn / "post.ome.zarr").empty
    assert open_store(torn / "pre.ome.zarr").empty is None
    assert open_store(torn / "aligned_pre.ome.zarr").empty


def test_a_run_in_bands_that_is_done_has_nothing_more_to_do(split):
    assert snakemake(split[0], *SPLIT, "--until", "detect").jobs() == {}


@pytest.fixture(scope="module")
def killed(tmp_path_factory, split):
    """A run that was killed when the first band of a warp was done and the second at work."""
    work = tmp_path_factory.mktemp("killed") / "w"
    subprocess.run(["cp", "-a", str(split[0]), str(work)], check=True)
    pair = work / "results" / "Tiles" / "SYTO9"
    attempts = work / "results" / "telemetry" / "Tiles" / "SYTO9"
    for name in ("bins.npz", "statistics.npz", "digests/align.sha256"):
        (pair / name).unlink()
    for path in (pair / "aligned_pre.ome.zarr", *attempts.glob("align_*-of-3")):
        shutil.rmtree(path)
    run = subprocess.Popen(
        [*(BIN / "snakemake", "-s", PROJECT / "Snakefile", "--cores", "2"), *SPLIT, *ALIGN],
        cwd=work,
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 1500
    while sum(path.is_dir() for path in attempts.glob("align_*-of-3")) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert snakemake(work, "--unlock").code == 0
    assert done_in(work)
    return work


def done_in(work):
    """What bands of the warp have left that are done."""
    return sorted((work / "results").glob("Tiles/SYTO9/.aligned_pre.ome.zarr.*.band.npz"))


@pytest.fixture
def again(killed, tmp_path):
    """A copy of that run, to go on with."""
    subprocess.run(["cp", "-a", str(killed), str(tmp_path / "w")], check=True)
    return tmp_path / "w"


def aligned(found):
    return {path: digest for path, digest in found.items() if "Tiles/SYTO9/aligned_pre" in path}


def test_a_run_that_was_killed_between_bands_goes_on_and_ends_with_the_same_bytes(again, whole):
    run = snakemake(again, *SPLIT, *ALIGN)
    assert run.code == 0, run.text
    assert run.jobs() == {"align_band": 2, "align": 1}  # a job whose end was not seen counts not
    assert aligned(bytes_of(again / "results")) == aligned(whole)


def test_a_shard_that_is_lost_before_it_is_joined_is_told_and_the_next_run_makes_it(again, whole):
    first = done_in(again)[0]
    (meeting,) = first.parent.glob(".aligned_pre.ome.zarr.*.bands")
    (meeting / "0" / "c" / str(joined(first)[1].number - 1) / "0").unlink()
    run = snakemake(again, *SPLIT, *ALIGN)
    assert run.code == 1
    told = " ".join(run.text.split())
    assert "is missing; run the workflow again, which makes this band anew" in told
    mended = snakemake(again, *SPLIT, *ALIGN)
    assert mended.code == 0, mended.text
    assert mended.jobs() == {"align_band": 1, "align": 1}
    assert aligned(bytes_of(again / "results")) == aligned(whole)
