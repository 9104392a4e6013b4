"""The memory limit in the real workflow: too little memory is one sentence whose remedy works."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from real_runs import bytes_of, snakemake

pytestmark = pytest.mark.workflow

# the least that each stage can start with, and too little to finish with
TOO_LITTLE = {"ingest": 35, "align": 55, "figures": 100}
TARGETS = {
    "ingest": "post.ome.zarr/zarr.json",
    "align": "aligned_pre.ome.zarr/zarr.json",
    "figures": "figures/difference.png",
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
    (path,) = (work / "results" / "telemetry").rglob(f"{rule}.jsonl")
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
    assert len(limits) >= 8
    assert set(limits) == {"7"}
    assert "Nothing to be done" in snakemake(small_work, "-n", "--config", "timeout_per_job=7").text


def test_two_jobs_that_got_too_little_get_more_but_not_at_the_same_time(finished, tmp_path):
    """Snakemake's scheduler forgets what a retried job asks for, so the jobs see to it."""
    done, _ = finished
    (raw,) = (done / "raw").iterdir()
    for name in ("one", "two"):
        shutil.copytree(raw, tmp_path / "work" / "raw" / name)
    patch = tmp_path / "patch"
    patch.mkdir()
    # too little is declared for ingest
    (patch / "sitecustomize.py").write_text(
        "import sys\n"
        "if any(word.endswith('snakemake') for word in sys.orig_argv):\n"
        "    from unglow.workflow import job_resources\n"
        "    job_resources.mem_mb = lambda *_: 30\n"
    )
    run = snakemake(
        tmp_path / "work",
        *("results/one/SYTO9/details/plan.json", "results/two/SYTO9/details/plan.json"),
        path=patch,
    )
    assert run.code == 0, run.text
    records = sorted((tmp_path / "work" / "results" / "telemetry").rglob("ingest.jsonl"))
    assert len(records) == 2
    for path in records:
        first, second = (json.loads(line) for line in path.read_text().splitlines())
        assert (first["outcome"], second["outcome"]) == ("memory", "ok")
        assert second["declared_mb"] == first["needed_mb"] > first["declared_mb"]
    logs = [p.read_text() for p in (tmp_path / "work" / "logs").rglob("ingest.log")]
    spans = sorted(_span(text) for text in logs)
    assert spans[0][1] <= spans[1][0]


def _span(text):
    """When a job began to work, after it had waited, and when it had ended."""
    lines = [row for row in text.splitlines() if re.match(r"\d{4}-", row)]
    start = next(row for row in lines if "memory limit at" in row)
    return start[:23], lines[-1][:23]
