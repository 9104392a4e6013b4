"""The fence in the real workflow: too little memory is one sentence whose remedy works."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from conftest import bytes_of, snakemake

pytestmark = pytest.mark.workflow

# the least that each stage can start with, and too little to finish with
TOO_LITTLE = {
    "ingest": 35,
    "register": 160,
    "align": 150,
    "difference": 48,
    "figures_difference": 100,
    "scale": 40,
}
TARGETS = {
    "ingest": "post.ome.zarr/zarr.json",
    "register": "transform.json",
    "align": "aligned_pre.ome.zarr/zarr.json",
    "difference": "difference/moffat.ome.zarr/zarr.json",
    "figures_difference": "figures/difference_moffat.png",
    "scale": "scale.json",
}
RECORDS = {
    "ingest": "ingest_post",
    "difference": "difference_moffat",
    "figures_difference": "figures_difference_moffat",
}
FORCED = ("--config", "force_run=True")


@pytest.mark.parametrize("rule", TARGETS)
def test_an_overrun_is_one_sentence_and_its_remedy_works(finished, tmp_path, rule):
    done, _ = finished
    work = tmp_path / "work"
    shutil.copytree(done, work, symlinks=True, ignore=shutil.ignore_patterns(".snakemake"))
    (pair,) = (work / "results").glob("*/SYTO9")
    target = (pair / TARGETS[rule]).relative_to(work)
    (work / target).unlink()
    words = ("--force", "--allowed-rules", rule, "--rerun-triggers", "mtime")
    little = ("--set-resources", f"{rule}:mem_mb={TOO_LITTLE[rule]}")
    run = snakemake(work, target, *words, *little, *FORCED)
    assert run.code == 1
    # the profile allows a second attempt, which repeats the sentence before it reads a pixel
    sentences = re.findall(rf"^{rule} \(.*", run.text, re.MULTILINE)
    assert len(sentences) == 2
    assert sentences[0] == sentences[1]
    assert f"needs more memory than the {TOO_LITTLE[rule]} MB" in sentences[0]
    (path,) = (work / "results" / "telemetry").rglob(f"{RECORDS.get(rule, rule)}.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [r["outcome"] for r in records] == ["memory", "memory"]
    assert not (work / target).exists()

    (remedy,) = re.findall(r"run again with (--set-resources \S+)", sentences[0])
    again = snakemake(work, target, *words, *remedy.split(), *FORCED)
    assert again.code == 0, again.text
    assert (
        bytes_of(work / "results")[str(target.relative_to("results"))]
        == (bytes_of(done / "results")[str(target.relative_to("results"))])
    )


def test_the_time_limit_of_the_configuration_reaches_every_job(small_work):
    run = snakemake(small_work, "-n", "--forceall", "--config", "timeout_per_job=7")
    limits = re.findall(r"runtime=(\d+)", run.text)
    assert len(limits) >= 10
    assert set(limits) == {"7"}
    assert "Nothing to be done" in snakemake(small_work, "-n", "--config", "timeout_per_job=7").text
