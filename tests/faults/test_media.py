"""Disks that are full or go away, files that change or decay, clocks that are wrong."""

from __future__ import annotations

import shutil
import subprocess

import pytest
import tifffile
from faulty_runs import PAIR, SHORT, bytes_of, left_behind, snakemake, started, unglow
from hanging_disk import small
from running_jobs import attempt_at, wait_for

pytestmark = pytest.mark.workflow


@pytest.fixture
def finished(tmp_path, reference):
    """A copy of the results of a run that was left alone, times included."""
    work = tmp_path / "work"
    subprocess.run(["cp", "-a", str(reference), str(work)], check=True)
    return work


@pytest.fixture
def small_disk(work):
    """A working directory whose results are on a disk of their own, of 0.6 MB."""
    with small(work / "results", "600k"):
        yield work


def test_a_full_disk_is_a_sentence_and_with_room_the_run_goes_on(small_disk, expected):
    code, text = snakemake(small_disk, *SHORT, "--config", "force_run=True")
    assert code == 1
    assert "could not be written (No space left on device): see that its file system" in text
    assert "Traceback" not in text
    assert left_behind(small_disk) == []
    words = ["mount", "-o", "remount,size=200m", str(small_disk / "results")]
    subprocess.run(words, check=True)
    code, text = snakemake(small_disk, *SHORT)
    assert code == 0, text
    assert bytes_of(small_disk) == expected


def test_results_that_vanish_are_a_clear_end_and_made_again(work, expected):
    with started(work, *SHORT) as process:
        wait_for(lambda: attempt_at(work, "register"))
        (work / "results").rename(work / "away")
        assert process.wait(1500) != 0
    assert "please report" not in (work / "output.txt").read_text()
    shutil.rmtree(work / "results", ignore_errors=True)
    code, text = snakemake(work, *SHORT)
    assert code == 0, text
    assert bytes_of(work) == expected


def test_a_raw_image_that_is_replaced_in_mid_run_never_gives_a_mixture(tmp_path, raw):
    shutil.copytree(raw, tmp_path / "raw")
    (post,) = (tmp_path / "raw").rglob("*_post_*.tif")
    other = tifffile.imread(post)[::-1].copy()
    with started(tmp_path, *SHORT) as process:
        wait_for((tmp_path / PAIR / "details/plan.json").exists)
        tifffile.imwrite(post.with_suffix(".new"), other, photometric="rgb")
        post.with_suffix(".new").replace(post)
        process.wait(1500)
    code, text = snakemake(tmp_path, *SHORT)
    assert code == 0, text
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copytree(tmp_path / "raw", alone / "raw")
    code, text = snakemake(alone, *SHORT)
    assert code == 0, text
    assert bytes_of(tmp_path) == bytes_of(alone)


def times(work, when):
    files = [path for path in (work / "results").rglob("*") if path.is_file()]
    subprocess.run(["touch", "-d", when, *files], check=True)


def test_results_from_the_future_are_taken_and_from_the_past_made_again(finished, expected):
    times(finished, "+1 year")
    assert "Nothing to be done" in snakemake(finished, *SHORT)[1]
    times(finished, "2001-01-01")
    code, text = snakemake(finished, *SHORT)
    assert code == 0, text
    assert bytes_of(finished) == expected
    assert "Nothing to be done" in snakemake(finished, *SHORT)[1]


def test_a_raw_image_from_the_future_is_named_and_not_computed_for_ever(tmp_path, raw):
    shutil.copytree(raw, tmp_path / "raw")
    (post,) = (tmp_path / "raw").rglob("*_post_*.tif")
    subprocess.run(["touch", "-d", "+1 year", str(post)], check=True)
    code, text = snakemake(tmp_path, *SHORT, "--max-checksum-file-size", "1000")
    assert code == 1
    assert "clock skew" in text
    assert post.name in text


def test_clean_removes_what_was_left_and_nothing_else(finished, expected):
    pair = finished / PAIR
    (pair / ".pre.ome.zarr.0123456789ab.partial" / "0" / "c").mkdir(parents=True)
    (pair / ".pre.ome.zarr.0123456789ab.partial" / "0" / "c" / "0").write_bytes(b"x" * 2_500_000)
    (pair / ".transform.json.abc.partial").write_text("{")
    code, text = unglow(finished, "verify")
    assert (code, "2 files or directories were left behind" in text) == (1, True)
    code, text = unglow(finished, "verify", "--clean", "-n")
    assert "2.5 MB would be removed." in text
    assert len(left_behind(finished)) == 2
    code, text = unglow(finished, "verify", "--clean")
    assert code == 0
    assert "2.5 MB were removed." in text
    assert left_behind(finished) == []
    assert bytes_of(finished) == expected
