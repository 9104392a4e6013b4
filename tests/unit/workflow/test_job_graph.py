"""The names of Snakemake that its graph is read by, and when it is read."""

from __future__ import annotations

import inspect
import logging
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import snakemake.api  # before its workflow, which imports it
import snakemake.dag
import snakemake.jobs
import snakemake.workflow
from parsed_rules import jobs_of
from raw_slides import pair
from snakemake.cli import get_argument_parser

from unglow.jobs.snakemake_command import LISTING, LOOKING, PARTLY, has_option, only_looks
from unglow.workflow import job_graph
from unglow.workflow.job_graph import GraphHandler, limit_of

SOURCES = Path(job_graph.__file__).parents[2]


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (snakemake.workflow.Workflow, "dag"),
        (snakemake.workflow.Workflow, "global_resources"),
        (snakemake.workflow.Workflow, "touch"),
        (snakemake.workflow.Workflow, "local_exec"),
        (snakemake.dag.DAG, "reason"),
        (snakemake.dag.DAG, "needrun_jobs"),
        (snakemake.dag.DAG, "job_dependencies"),
        (snakemake.dag.DAG, "finished_jobs"),
        (snakemake.jobs.Job, "wildcards_dict"),
    ],
)
def test_a_name_that_no_interface_promises_is_there(owner, name):
    assert hasattr(owner, name) or f"self.{name} = " in inspect.getsource(owner)


def test_they_are_used_in_one_module():
    rules = SOURCES.parent / "rules"
    for path in [*SOURCES.rglob("*.py"), *rules.glob("*.smk"), SOURCES.parent / "Snakefile"]:
        if path != Path(job_graph.__file__):
            found = re.findall(
                r"workflow\.dag\b|global_resources|dag\.reason|wildcards_dict", path.read_text()
            )
            assert not found, path


def test_the_graph_is_judged_once_when_its_jobs_are_reported():
    called = []
    handler = GraphHandler(lambda: called.append(1) or "forecast")
    log = logging.getLogger("as Snakemake's")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.info("Building DAG of jobs...")
    assert called == []
    log.info("Job stats", extra={"event": "run_info"})
    log.info("Job stats", extra={"event": "run_info"})
    handler.judge()
    assert (called, handler.expected) == ([1], "forecast")


def test_what_the_judge_raises_ends_the_run():
    log = logging.getLogger("as Snakemake's")
    log.addHandler(GraphHandler(lambda: sys.exit(1)))
    log.setLevel(logging.INFO)
    with pytest.raises(SystemExit):
        log.info("Nothing to be done (all requested files are present and up to date).")


def test_limits_of_all_jobs_together():
    workflow = SimpleNamespace(global_resources={"mem_mb": SimpleNamespace(value=7)})
    assert limit_of(workflow, "mem_mb") == 7
    assert limit_of(workflow, "_cores") is None


def test_options_that_compute_nothing_are_known_by_all_their_names():
    own = {*LOOKING, *PARTLY}
    for action in get_argument_parser()._actions:
        names = {*action.option_strings}
        assert names <= own or not names & own, names


@pytest.mark.parametrize(
    ("words", "looks"),
    [
        ("snakemake --cores 2", False),
        ("snakemake --unlock", True),
        ("snakemake -S", True),
        ("snakemake --report r.html", True),
        ("snakemake --report r.html --report-after-run", False),
        ("snakemake -- --unlock", False),
    ],
)
def test_calls_that_compute_nothing(words, looks):
    assert only_looks(words.split()) is looks


def test_calls_that_read_rules_alone():
    assert has_option(["snakemake", "--lint"], LISTING)
    assert not has_option(["snakemake", "--summary"], LISTING)


def test_a_pair_of_at_most_100_megapixels_is_one_job_of_a_batch_system(tmp_path):
    small = {"tile": (1024, 1024), "compression": "zlib"}  # quick to write
    pair(tmp_path, "small", shape=(10_000, 10_000), **small)
    pair(tmp_path, "large", shape=(10_000, 10_001), **small)
    groups = {"small": set(), "large": set()}
    rules = {"ingest", "register", "align", "difference", "detect", "figures"}
    small_disk_too = {"force_run": True}
    for rule, wildcards, _, _, group in jobs_of(tmp_path, small_disk_too):
        if rule in rules:
            groups[wildcards["sample"]].add((rule, group))
    assert groups["small"] == {(rule, "small.DAPI") for rule in rules}
    assert groups["large"] == {(r, "large.DAPI.figures" * (r == "figures") or None) for r in rules}
