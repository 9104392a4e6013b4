"""Preflight in real runs: what it prints, what it refuses, and that what it advises works."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess

import numpy as np
import pytest
import tifffile
from real_runs import PROJECT, TABLES, command, images_of, runs_of, snakemake

from unglow.workflow.batch import Batch
from unglow.workflow.pending_jobs import pending_jobs

pytestmark = pytest.mark.workflow
JOBS = 9  # of one pair with three scale methods, without 'all'
A_TIME = r"\d[\d.]* (s|min) \([\d.]+ to [\d.]+ (s|min)\)"


@pytest.fixture
def work(small_raw, tmp_path, monkeypatch):
    """A directory with raw/ on a machine that has not run anything yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "raw").symlink_to(small_raw)
    return tmp_path


def plain(run):
    """What was printed, with any white space as one blank."""
    return " ".join(run.text.split())


def remedies(run):
    """The printed commands, as words."""
    lines = run.text.splitlines()
    return [shlex.split(line) for line in lines if line.startswith("      snakemake ")]


def test_a_dry_run_reports_jobs_at_a_time_and_disk_before_anything_exists(work):
    run = snakemake(work, "-n", "--resources", "mem_mb=4000")
    assert run.code == 0, run.text
    assert f"preflight: {JOBS} jobs to do:" in run.text
    assert re.search(
        r"memory ok 2 jobs at a time, limited by cores \(0\.\d\d of \d+\.\d+ GB available; "
        r"4\.00 GB are allowed\)",
        plain(run),
    )
    assert re.search(r"disk ok at most 0\.0\d GB of results to come for /", plain(run))
    assert re.search(rf"time about {A_TIME} on 2 cores, [\d.]+ CPU-s; a first guess", plain(run))


def test_the_time_is_learnt_from_runs_and_kept_with_the_run(work):
    words = ("--config", "scale={methods: [linear]}")
    guess = snakemake(work, "-n", *words)
    assert "; a first guess, until a run has ended on this machine" in plain(guess)
    run = snakemake(work, *TABLES, *words)
    assert run.code == 0, run.text
    (kept,) = (work / "cache" / "unglow").glob("times-*.json")
    rules = {times["rule"] for times in json.loads(kept.read_text())["runs"][0]["times"]}
    assert rules == {*run.jobs()}
    head = json.loads(runs_of(work / "results")[0].read_text().splitlines()[0])
    expected = head["expected"]
    assert 0 < expected["low"] < expected["seconds"] < expected["high"]
    assert expected["rules"].keys() == {*run.jobs(), "figures"}
    again = snakemake(work, "-n", "--forceall", *words)
    assert re.search(
        rf"time about {A_TIME} on 2 cores, .*; from the last run on this machine", plain(again)
    )
    forecast = command(work, "unglow", "preflight", "--cores", "1", *words)
    assert re.search(
        rf"time about {A_TIME} on 1 core, .*; from the last run on this machine", plain(forecast)
    )


@pytest.mark.parametrize(
    "config", [{}, {"exports": {"tiff": ["difference", "post"], "fits": ["pre", "aligned_pre"]}}]
)
def test_preflight_counts_what_the_rules_declare(work, config):
    words = [f"{key}={json.dumps(value)}" for key, value in config.items()]
    run = snakemake(work, "-n", *(["--config", *words] if words else []))
    tasks = pending_jobs(Batch.load(config, work), work / "results")
    declared = re.findall(
        r"^ *(?:local)?rule (\w+):.*?\n +resources: (.+?)\n", run.text, re.MULTILINE | re.DOTALL
    )
    stated = sorted(
        (rule, *(int(re.search(rf"\b{key}=(\d+)", line)[1]) for key in ("mem_mb", "disk_mb")))
        for rule, line in declared
        if "mem_mb" in line
    )
    counted = sorted((t.rule, t.demand.peak_mb(2000, t.threads), t.disk_mb) for t in tasks)
    assert counted == stated


def test_the_command_says_what_snakemake_says(work):
    words = ("--cores", "2", "--resources", "mem_mb=50")
    forecast = command(work, "unglow", "preflight", *words)
    dry = snakemake(work, "-n", *words[2:])
    assert forecast.code == 1
    assert dry.code == 0
    assert "preflight: a real run would be refused:" in dry.text
    for line in re.findall(r"memory +TOO MUCH.*?(?=\n  \w)", forecast.text, re.DOTALL):
        assert line in dry.text


def test_a_run_that_cannot_fit_is_refused_and_the_remedy_makes_it_run(work):
    words = ("--resources", "mem_mb=50", "--config", "scale={percentile: 40}")
    run = snakemake(work, *words)
    assert run.code == 1
    assert "preflight: too much, so nothing was started:" in run.text
    message = (
        r"all jobs together have 50 MB \(--resources mem_mb=50\), but \w+ of phantom SYTO9 needs"
    )
    assert re.search(message, plain(run))
    assert run.jobs() == {}
    assert not (work / "results").exists()
    first, *_, forced = remedies(run)
    assert forced[-4:] == ["mem_mb=50", "--config", "force_run=True", "scale={percentile: 40}"]
    again = command(work, *first)
    assert again.code == 0, again.text
    assert "preflight" not in again.text
    assert snakemake(work, *words).code == 0  # there is nothing left to do


def test_a_refusal_is_reported_even_where_snakemake_has_to_be_quiet(work):
    run = snakemake(work, "--quiet", "all", "--resources", "mem_mb=50")
    assert run.code == 1
    assert "\npreflight: too much, so nothing was started:\n" in run.text
    run = snakemake(work, "--quiet", "all", "--config", "memory_per_job=much")
    assert run.code == 1
    assert "\nconfig key 'memory_per_job' is 'much'" in run.text


@pytest.mark.parametrize(
    "words",
    [
        ("--lint",),
        ("--unlock",),
        ("--summary",),
        ("--rulegraph",),
        ("--list-rules",),
        ("--touch",),
        ("--delete-all-output", "-n"),
        ("--report", "report.html"),
    ],
)
def test_calls_that_compute_nothing_are_left_alone(small_work, words):
    shutil.rmtree(next((small_work / "results").glob("*/*/difference")) / "linear.ome.zarr")
    before = runs_of(small_work / "results")
    run = snakemake(small_work, "--resources", "mem_mb=50", *words)
    assert "preflight" not in run.text
    assert run.code == 0, run.text
    assert runs_of(small_work / "results") == before


def test_memory_set_for_a_rule_is_heeded(work):
    run = snakemake(work, "--set-resources", "align:mem_mb=70")
    assert run.code == 1
    assert "align of phantom SYTO9 needs at least" in plain(run)
    assert "and is given 70 MB" in plain(run)


def test_only_the_pairs_that_are_asked_for_are_judged(small_raw, tmp_path):
    for sample in ("A", "B"):
        (tmp_path / "raw" / sample).mkdir(parents=True)
        for role, image in images_of(small_raw).items():
            (tmp_path / "raw" / sample / f"{sample}_{role}_SYTO9.tif").symlink_to(image)
    whole = 2 * (JOBS - 2) + 2
    for target, jobs in (
        ("all", whole),
        ("results/summary.tsv", whole),
        ("results/A/SYTO9/transform.json", JOBS - 2),
    ):
        run = snakemake(tmp_path, "-n", target)
        assert f"preflight: {jobs} jobs to do:" in run.text, run.text
    run = snakemake(tmp_path, "--resources", "mem_mb=50", "--until", "ingest", "-n")
    assert "a real run would be refused" in run.text


@pytest.fixture
def giant(tmp_path):
    """A pair whose one strip can only be decoded whole: 294 MB."""
    for role in ("pre", "post"):
        path = tmp_path / "raw" / "G" / f"G_{role}_SYTO9.tif"
        path.parent.mkdir(parents=True, exist_ok=True)
        image = np.zeros((7000, 7000), np.uint8)
        image[1000:6000, 1000:6000] = 99
        tifffile.imwrite(path, image, compression="jpeg2000", rowsperstrip=7000)
    return tmp_path


def test_a_pair_that_needs_more_than_the_budget_is_named_and_each_remedy_works(giant):
    target = "results/G/SYTO9/post.ome.zarr/zarr.json"
    run = snakemake(giant, target, "--config", "memory_per_job=300")
    assert run.code == 1
    assert "memory_per_job is 300 MB, but ingest of G SYTO9 needs at least" in plain(run)
    assert "write it again in tiles" in plain(run)
    raised, forced = remedies(run)
    (budget,) = (word for word in raised if word.startswith("memory_per_job="))
    assert int(budget.split("=")[1]) > 300
    dry = command(giant, *raised, "-n")
    assert f"preflight: {JOBS - 2} jobs to do:" in dry.text
    assert "refused" not in dry.text
    assert "memory_per_job=300" in forced
    done = command(giant, *forced)
    assert done.code == 0, done.text
    assert "preflight: too much, but force_run is set:" in done.text
    assert (giant / target).is_file()


def test_a_disk_that_is_too_small_is_refused_and_may_be_tried(work):
    disk = work / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=30m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        run = snakemake(work, *(f"disk/{t}" for t in TABLES), "--config", "results=disk/results")
        assert run.code == 1
        assert f"GB of results to come for {disk}, 0.03 GB free there" in plain(run)
        elsewhere, forced = remedies(run)
        other = [
            w.replace("DIRECTORY", "other").replace("disk/results", "other") for w in elsewhere
        ]
        dry = command(work, *other, "-n")
        assert dry.code == 0, dry.text
        assert "refused" not in dry.text
        done = command(work, *forced)
        assert done.code == 0, done.text
        assert (disk / "results" / "summary.tsv").is_file()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_it_works_in_a_module_too(work):
    (work / "Snakefile").write_text(
        f'module unglow:\n    snakefile: "{PROJECT / "Snakefile"}"\n'
        '    config: {"memory_per_job": 300}\n\n'
        "use rule * from unglow as unglow_*\n"
    )
    run = command(work, "snakemake", "--cores", "2", "--resources", "mem_mb=50")
    assert run.code == 1
    assert "too much, so nothing was started" in run.text
    assert "snakemake --cores 2 --resources mem_mb=50 --config force_run=True" in run.text
    dry = command(work, "snakemake", "--cores", "2", "-n", "--set-threads", "unglow_align=1")
    assert dry.code == 0, dry.text
    assert f"preflight: {JOBS} jobs to do:" in dry.text
