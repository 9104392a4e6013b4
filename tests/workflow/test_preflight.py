"""Preflight in real runs: what it prints, what it refuses, and that runs do what it has said."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections import Counter

import numpy as np
import pytest
import raw_slides
import tifffile
from real_runs import BIN, PROJECT, TABLES, command, runs_of, snakemake

from unglow.core.printable import PREFLIGHT
from unglow.jobs.launcher import launcher_mb
from unglow.jobs.snakemake_command import add_options

pytestmark = pytest.mark.workflow
JOBS = 9  # of one pair with three scale methods, without 'all'
NO_SLURM = "no executor for Slurm here: pip install 'unglow[cluster]'"
A_TIME = r"\d[\d.]* (s|min) \([\d.]+ to [\d.]+ (s|min)\)"
RUN = (str(BIN / "unglow"), "run", "--cores", "2")


@pytest.fixture
def work(small_raw, tmp_path, monkeypatch):
    """A directory with raw/ on a machine that has not run anything yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "raw").symlink_to(small_raw)
    return tmp_path


def pairs_in(place, *samples):
    """Make raw/ with a small pair of noise for each of some samples."""
    rng = np.random.default_rng(0)
    for sample in samples:
        (place / "raw" / sample).mkdir(parents=True)
        for role in ("pre", "post"):
            image = rng.poisson(300, (256, 300)).astype(np.uint16)
            tifffile.imwrite(place / "raw" / sample / f"{role}_SYTO9.tif", image)


def plain(run):
    """What was printed, with any white space as one blank."""
    return " ".join(run.text.split())


# --------------------------------------------------------------------- a run does what it has said


def ask(place, *words):
    """What preflight says of a call of Snakemake, or of `unglow run`, as plain data."""
    done = subprocess.run(
        add_options(words, "-n", *(["--logger=unglow"] if words[0] == "snakemake" else [])),
        cwd=place,
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", PREFLIGHT: "json"},
        stdout=subprocess.PIPE,
        check=False,
    )
    return json.loads(done.stdout)


def files_below(place):
    return {str(path): path.lstat().st_size for path in place.rglob("*") if path.is_file()}


def compare_with_run(place, *words, then=()):
    """See that a run does what preflight says of it; return the numbers of its jobs by rule.

    ``then`` is the command that does it, where that is another one.
    """
    said = ask(place, *words)
    assert not said["refused"]
    before = files_below(place / "results")
    done = command(place, *(then or words))
    lines = [json.loads(line) for line in runs_of(place / "results")[-1].read_text().splitlines()]
    jobs = {line["jobid"]: line for line in lines if line["kind"] == "job"}
    did, planned = Counter(), Counter()
    for job in jobs.values():
        there = all(str(place / file) in before for file in job["output"])
        asked = job["resources"]
        disk_mb = 0 if there else asked.get("disk_mb", 0)
        did[job["rule"].removeprefix("unglow_"), job["threads"], asked["mem_mb"], disk_mb] += 1
    for job in said["planned"]:
        planned[job["rule"], job["threads"], job["mem_mb"], job["disk_mb"]] += 1
    assert planned == did, done.text
    running, most, heaviest = set(), 0, 0
    for line in (line for line in lines if line["kind"] == "state"):
        (running.add if line["state"] == "started" else running.discard)(line["jobid"])
        most = max(most, len(running))
        heaviest = max(heaviest, sum(jobs[n]["resources"]["mem_mb"] for n in running))
    assert most <= said["at_once"]["jobs"]
    assert heaviest <= said["at_once"]["mb"]
    after = files_below(place / "results")
    left = [file for file in after if file not in before and "/telemetry/" not in file]
    assert sum(after[file] for file in left) <= 1e6 * sum(job["disk_mb"] for job in said["planned"])
    return Counter(job["rule"] for job in said["planned"])


def test_new_pairs_then_a_changed_setting_and_one_of_them(tmp_path):
    samples = [f"s{n}" for n in range(6)]
    pairs_in(tmp_path, *samples)
    tables = ("--", *TABLES)
    made = compare_with_run(tmp_path, *RUN, "--config", "allow_failed=true", *tables)
    assert made.total() == 6 * 6 + 2
    fdr = ("--config", "allow_failed=true", "detect={fdr: 0.2}")
    some = compare_with_run(tmp_path, *RUN, "--only", "s1/*", *fdr, *tables)
    assert some == {"detect": 1, "summary": 1, "verdict": 1}
    rest = compare_with_run(tmp_path, *RUN, *fdr, *tables)
    assert rest == {"detect": 5, "summary": 1, "verdict": 1}
    assert ask(tmp_path, *RUN, *fdr, *tables)["jobs"] == 0


@pytest.mark.parametrize(
    ("words", "rules"),
    [
        (("--forcerun", "align", "--", *TABLES), {"align", "scale", "difference", "detect"}),
        (("--until", "scale", "--forceall"), {"ingest", "register", "align", "scale"}),
    ],
)
def test_jobs_that_are_forced_take_no_disk(small_work, words, rules):
    found = compare_with_run(small_work, *RUN, *words)
    assert {*found} - {"summary", "verdict"} == rules
    assert all(job["disk_mb"] == 0 for job in ask(small_work, *RUN, *words)["planned"])


def test_a_run_that_was_killed(work):
    run = subprocess.Popen([*RUN, "--", *TABLES], cwd=work, start_new_session=True)
    stored = work / "results" / "phantom" / "SYTO9" / "transform.json"
    end = time.monotonic() + 120
    while not stored.is_file() and time.monotonic() < end:
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    time.sleep(3)  # its jobs end by themselves
    words = (*RUN, "--rerun-incomplete", "--", *TABLES)
    found = compare_with_run(work, *words, then=(str(BIN / "unglow"), "resume"))
    assert "ingest" not in found
    assert {"scale", "detect"} < {*found}


def test_a_sweep(tmp_path):
    pairs_in(tmp_path, "A")
    sweep = "sweep={scale.percentile: [40, 60]}"
    found = compare_with_run(tmp_path, *RUN, "--config", "allow_failed=true", sweep)
    assert found["difference"] == found["detect"] == found["figures"] == 2
    assert found["align"] == 1


def test_a_slide(tmp_path):
    size = ("--size", "512x512", "--channels", "4", "--cycles", "2")
    assert command(tmp_path, "unglow", "phantom", *size, "--sample", "s1").code == 0
    found = compare_with_run(tmp_path, *RUN, "--config", "allow_failed=true")
    rules = (
        "slide_register",
        "slide_scale",
        "slide_subtract",
        "slide_figures",
        "summary",
        "verdict",
    )
    assert found == dict.fromkeys(rules, 1)


def test_a_module_with_a_rule_of_its_own(work):
    (work / "Snakefile").write_text(
        f'module unglow:\n    snakefile: "{PROJECT / "Snakefile"}"\n    config: {{}}\n\n'
        "use rule * from unglow as unglow_*\n\n"
        'rule another:\n    output: "other.txt"\n    resources: mem_mb=333\n    threads: 2\n'
        '    shell: "touch {output}"\n'
    )
    words = ("snakemake", "--cores", "2", "other.txt", *TABLES)
    found = compare_with_run(work, *words)
    assert found.total() == JOBS  # without figures, with the other rule
    assert found["another"] == 1


@pytest.mark.parametrize("config", [{}, {"exports": {"tiff": ["difference", "post"]}}])
def test_a_hundred_pairs_are_those_that_snakemake_lists(tmp_path, config):
    for n in range(100 if not config else 1):
        raw_slides.pair(tmp_path, f"s{n:03}", "SYTO9", (64, 64))
    options = ["--config", *(f"{key}={json.dumps(value)}" for key, value in config.items())]
    words = ["snakemake", "-s", str(PROJECT / "Snakefile"), "--cores", "2"] + options * bool(config)
    text = command(tmp_path, *words, "-n").text
    declared = re.findall(
        r"^ *(?:local)?rule (\w+):.*?\n +resources: (.+?)\n", text, re.MULTILINE | re.DOTALL
    )
    listed = sorted(
        (rule, *(int(re.search(rf"\b{key}=(\d+)", line)[1]) for key in ("mem_mb", "disk_mb")))
        for rule, line in declared
        if "mem_mb" in line
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    said = ask(tmp_path, *words)["planned"]
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 10  # s; it takes 4
    assert sorted((job["rule"], job["mem_mb"], job["disk_mb"]) for job in said) == listed
    assert len(listed) == (702 if not config else 13)


# ---------------------------------------------------------------------------------- what is printed


def test_a_dry_run_reports_jobs_at_a_time_and_disk_before_anything_exists(work):
    run = snakemake(work, "-n", "--resources", "mem_mb=4000")
    assert run.code == 0, run.text
    assert f"preflight: {JOBS} jobs to do:" in run.text
    assert re.search(
        r"memory ok at most 2 jobs at a time with 0\.\d\d of \d+\.\d+ GB available; "
        r"4\.00 GB are allowed",
        plain(run),
    )
    assert re.search(r"disk ok at most 0\.0\d GB of results to come for /", plain(run))
    assert re.search(rf"time about {A_TIME} on 2 cores, [\d.]+ CPU-s; a first guess", plain(run))
    assert f"why missing output files ({JOBS})" in plain(run)


def test_the_time_is_learnt_from_runs_and_kept_with_the_run(work):
    words = ("--config", "scale={methods: [linear]}")
    run = snakemake(work, *TABLES, *words)
    assert run.code == 0, run.text
    (kept,) = (work / "cache" / "unglow").glob("times-*.json")
    rules = {times["rule"] for times in json.loads(kept.read_text())["runs"][0]["times"]}
    assert rules == {*run.jobs()}
    head = json.loads(runs_of(work / "results")[0].read_text().splitlines()[0])
    expected = head["expected"]
    assert 0 < expected["low"] < expected["seconds"] < expected["high"]
    assert expected["rules"].keys() == {*run.jobs()}
    again = command(work, "unglow", "preflight", "--cores", "1", "--forceall", *words)
    assert re.search(
        rf"time about {A_TIME} on 1 core, .*; from the last run on this machine", plain(again)
    )


def test_jobs_of_a_cluster_ask_for_what_starts_them_too(work):
    pytest.importorskip("snakemake_executor_plugin_slurm", reason=NO_SLURM)
    memory = [
        {job["rule"]: job["mem_mb"] for job in ask(work, *RUN, *words)["planned"]}
        for words in ((), ("--workflow-profile", str(PROJECT / "profiles" / "slurm")))
    ]
    more = {rule: mb - memory[0][rule] for rule, mb in memory[1].items()}
    here = {"summary": 0, "verdict": 0}  # they run where Snakemake does
    assert more == dict.fromkeys(memory[0], launcher_mb("slurm", {})) | here


def test_another_machine_and_other_settings(work):
    run = command(work, "unglow", "preflight", "--cores", "64", "--memory", "128", "--settings")
    assert run.code == 0, run.text
    assert "of 128 GB available; 76.8 GB are allowed" in plain(run)
    assert len(re.findall(r"^ +(?:1|2|64) +(?:300|2000) MB", run.text, re.MULTILINE)) == 6
    small = command(work, "unglow", "preflight", "--memory=0.1")
    assert small.code == 1
    assert "0.10 GB are available" in plain(small)
    assert command(work, "unglow", "preflight", "--memory", "much").code == 2


# -------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("words", [("-n",), ("--quiet", "all")])
def test_a_run_that_cannot_fit_is_refused_with_one_line(work, words):
    run = snakemake(work, "--resources", "mem_mb=50", *words)
    assert run.code == 1
    (line,) = (line for line in run.text.splitlines() if line.startswith("preflight: refused: "))
    assert "all jobs together have 50 MB (--resources mem_mb=50), but" in line
    assert "Traceback" not in run.text
    assert not (work / "results").exists()
    assert not list((work / ".snakemake").glob("locks/*"))


def test_the_remedy_makes_it_run(work):
    percentile = ("--config", "scale={percentile: 40}")
    run = snakemake(work, "--resources", "mem_mb=50", *percentile, "--", *TABLES)
    (enough,) = re.findall(r"set --resources (mem_mb=\d+)", run.text)
    again = snakemake(work, "--resources", enough, *percentile, "--", *TABLES)
    assert again.code == 0, again.text
    # there is nothing left to do
    assert snakemake(work, "--resources", "mem_mb=50", *percentile, "--", *TABLES).code == 0


#: What unglow would see of a Snakemake in which a name of the graph is another one.
RENAMED = """
import sys, snakemake.api, snakemake.dag
real = snakemake.dag.DAG.reason
def reason(dag, job):
    if sys._getframe(1).f_code.co_filename.endswith("job_graph.py"):
        raise AttributeError("no attribute 'reason'")
    return real(dag, job)
snakemake.dag.DAG.reason = reason
"""


def test_a_graph_that_cannot_be_read_ends_the_run_with_a_sentence(work):
    (work / "patch").mkdir()
    (work / "patch" / "sitecustomize.py").write_text(RENAMED)
    run = command(work, *RUN, path=work / "patch")
    assert run.code == 1
    assert "the job graph of this version of Snakemake cannot be read" in plain(run)


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
    shutil.rmtree(next((small_work / "results").glob("*/*/difference.ome.zarr")))
    before = runs_of(small_work / "results")
    run = snakemake(small_work, "--resources", "mem_mb=50", *words)
    assert "preflight" not in run.text
    assert run.code == 0, run.text
    assert runs_of(small_work / "results") == before


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
    (budget,) = re.findall(r"set memory_per_job: (\d+)", run.text)
    dry = snakemake(giant, "-n", target, "--config", f"memory_per_job={budget}")
    assert dry.code == 0
    assert "preflight: 1 jobs to do:" in dry.text
    done = snakemake(giant, target, "--config", "memory_per_job=300", "force_run=True")
    assert done.code == 0, done.text
    assert "preflight: force_run is set, so not refused: " in done.text
    assert (giant / target).is_file()


def test_a_pair_that_is_asked_for_by_name_is_refused_and_not_skipped(giant):
    pairs_in(giant, "A")
    target = "results/G/SYTO9/post.ome.zarr/zarr.json"
    run = snakemake(giant, "-n", "--config", "memory_per_job=300")
    assert run.code == 0, run.text
    assert "skipped: G SYTO9: its job ingest needs at least" in run.text
    run = snakemake(giant, "-n", target, "--config", "memory_per_job=300")
    assert "preflight: refused: memory_per_job is 300 MB, but ingest of G SYTO9" in plain(run)


def test_a_disk_that_is_too_small_is_refused_and_may_be_tried(work):
    disk = work / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=30m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        run = snakemake(work, "--config", "results=disk/results")
        assert run.code == 1
        assert f"GB of results to come for {disk}, 0.03 GB free there" in plain(run)
        tables = [f"disk/{t}" for t in TABLES]
        forced = ("--config", "results=disk/results", "force_run=True")
        done = snakemake(work, *forced, "--", *tables)
        assert done.code == 0, done.text
        assert (disk / "results" / "summary.tsv").is_file()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
