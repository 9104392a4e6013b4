"""Pairs that cannot fit by themselves are skipped; the others of the run remain."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tifffile
import zarr
from real_runs import snakemake

from unglow.core.errors import ConfigError
from unglow.images.raw_images import read_header
from unglow.workflow import oversized
from unglow.workflow.batch import Batch
from unglow.workflow.config import MOST_VARIANTS, load
from unglow.workflow.oversized import skip_oversized
from unglow.workflow.planned_jobs import final_outputs
from unglow.workflow.preflight import MOST_JOBS, too_many_jobs


def add_chunks(path, **edit):
    """Write an OME-Zarr image whose metadata say something else than its files."""
    group = zarr.open_group(str(path), mode="w", zarr_format=2)
    group.create_array("0", data=np.zeros((200, 300), np.uint16), chunks=(100, 100))
    group.attrs["multiscales"] = [{"axes": ["y", "x"], "datasets": [{"path": "0"}]}]
    document = path / "0" / ".zarray"
    document.write_text(json.dumps(json.loads(document.read_text()) | edit))


@pytest.fixture
def work(tmp_path):
    """Two good pairs, one with giant chunks, and one with a giant shape."""
    for sample in ("A", "B", "chunks", "shape"):
        (tmp_path / "raw" / sample).mkdir(parents=True)
    for role in ("pre", "post"):
        for sample in ("A", "B"):
            image = np.zeros((96, 80), np.uint8)
            tifffile.imwrite(tmp_path / "raw" / sample / f"{role}_X.tif", image)
        add_chunks(tmp_path / "raw" / "chunks" / f"{role}_X.zarr", chunks=[10**5, 10**5])
        add_chunks(tmp_path / "raw" / "shape" / f"{role}_X.zarr", shape=[10**9, 10**9])
    return tmp_path


def test_an_image_that_claims_more_than_its_files_hold_is_one_problem(work):
    batch = Batch.load({}, work)
    assert [sample for sample, _ in batch.pairs] == ["A", "B", "chunks"]
    (problem,) = batch.problems
    assert problem.sample == "shape"
    assert "2e+09 GB of pixels, but its files have" in problem.message


def test_a_sparse_image_is_as_large_as_its_file_says(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, shape=(20_000, 20_000), dtype=np.uint8)
    assert read_header(path).shape == (20_000, 20_000)


def test_images_of_zeros_that_compress_well_are_no_problem(tmp_path):
    (tmp_path / "raw/A").mkdir(parents=True)
    for role in ("pre", "post"):
        image = np.zeros((6000, 6000), np.uint8)
        options = {"compression": "zstd", "rowsperstrip": 6000}
        tifffile.imwrite(tmp_path / "raw/A" / f"{role}_X.tif", image, **options)
    assert Batch.load({}, tmp_path).problems == ()


def test_a_pair_whose_job_does_not_fit_is_skipped_and_the_others_are_not(work):
    batch = skip_oversized(Batch.load({}, work), work / "results", 8000, 20_000)
    assert [sample for sample, _ in batch.pairs] == ["A", "B"]
    problem = batch.problems[-1]
    assert (problem.sample, problem.dye, problem.kind) == ("chunks", "X", "oversized")
    assert "needs at least" in problem.message
    assert "MB of memory, but 20000 MB are available" in problem.message
    assert not any("chunks" in file for file in final_outputs(batch))


def test_a_job_on_a_node_leaves_out_what_the_main_process_has(work, monkeypatch):
    """A skipped control is not read there."""
    chunks = "raw/chunks/{}_X.zarr"
    rows = ["sample\tdye\tpre\tpost\tcontrol", "A\tX\traw/A/pre_X.tif\traw/A/post_X.tif\t"]
    rows.append(f"chunks\tX\t{chunks.format('pre')}\t{chunks.format('post')}\ttrue")
    (work / "sheet.tsv").write_text("\n".join(rows) + "\n")
    common = ("-n", "--nolock", "--config", "samples=sheet.tsv")
    main = snakemake(work, *common, "--resources", "mem_mb=2000")
    assert "skipped: chunks X: its job ingest needs at least" in main.text
    assert main.jobs()["detect"] == 1
    node = ("--mode", "remote", "--target-jobs", "detect:sample=A,dye=X", "--allowed-rules")
    monkeypatch.setenv("UNGLOW_LEFT_OUT", '[["chunks", "X"]]')
    assert snakemake(work, *common, *node, "detect").jobs() == {"detect": 1}
    monkeypatch.setenv("UNGLOW_LEFT_OUT", "[]")
    assert snakemake(work, *common, *node, "detect").jobs() == {"detect": 2}


def test_memory_of_this_machine_does_not_count_where_jobs_run_elsewhere(work):
    batch = Batch.load({"memory_per_job": 100_000}, work)
    assert skip_oversized(batch, work / "results", None, None) is batch
    limited = skip_oversized(batch, work / "results", 8000, None)
    assert "8000 MB are allowed for all jobs together" in limited.problems[-1].message


def test_a_run_of_which_nothing_would_remain_is_left_to_be_refused(work):
    batch = Batch.load({}, work)
    assert skip_oversized(batch, work / "results", 10, 20_000) is batch


def test_a_pair_whose_results_do_not_fit_the_disk_is_skipped(work, monkeypatch):
    for role in ("pre", "post"):
        shape = (3000, 3000)
        tifffile.imwrite(work / "raw" / "B" / f"{role}_X.tif", shape=shape, dtype=np.uint8)
    monkeypatch.setattr(oversized, "disk_free_mb", lambda _: 60.0)
    batch = skip_oversized(Batch.load({}, work), work / "results", None, None)
    assert [sample for sample, _ in batch.pairs] == ["A"]
    assert "GB, but 0.06 GB are free for" in batch.problems[-2].message


def test_a_pair_that_takes_the_map_of_a_skipped_one_is_skipped(work):
    for role in ("pre", "post"):
        source = work / "raw" / "chunks" / f"{role}_X.zarr"
        tifffile.imwrite(work / "raw" / "chunks" / f"{role}_Y.tif", np.zeros((200, 300), np.uint16))
        assert source.is_dir()
    batch = Batch.load({"register": {"from": "X"}}, work)
    batch = skip_oversized(batch, work / "results", 8000, 20_000)
    assert [sample for sample, _ in batch.pairs] == ["A", "B"]
    assert "chunks Y takes the map of chunks X, which is skipped." in batch.problems[-1].message


def test_variants_are_compared_with_each_other_once(work):
    """Of 2000 variants: the time of a list of all files grows with them, not with their square."""
    values = [round(i / 20, 2) for i in range(1, 2000)]
    config = {"sweep": {"scale.percentile": values}, "register": {"from": None}}
    batch = Batch.load(config, work)
    looked = []
    real = type(batch).variant_settings

    class Counting(Batch):
        def variant_settings(self, wildcards):
            looked.append(1)
            return real(self, wildcards)

    counting = Counting(**{f: getattr(batch, f) for f in batch.__dataclass_fields__})
    files = final_outputs(counting)
    assert len(files) > 2 * len(values)
    assert len(looked) < 100 * len(values)


def test_too_many_variants_and_jobs_are_refused_with_a_number():
    keys = {"scale.percentile": [i / 10 for i in range(1, 501)]}
    keys["detect.fdr"] = [i / 1000 for i in range(1, 101)]
    with pytest.raises(ConfigError, match=f"50000 variants of each pair, .* {MOST_VARIANTS}"):
        load({"sweep": keys})
    assert too_many_jobs(MOST_JOBS) is None
    assert f"{MOST_JOBS + 1} jobs are to do" in too_many_jobs(MOST_JOBS + 1)
