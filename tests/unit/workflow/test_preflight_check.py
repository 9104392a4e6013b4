"""Preflight: exact results of plain data, and words to type."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from unglow.core.machine import (
    ASSUMED,
    disk_free_mb,
    existing,
    is_memory_short,
    memory_available_mb,
    memory_limit_mb,
    memory_total_mb,
)
from unglow.jobs.snakemake_command import set_options, snakemake_words
from unglow.memory import Demand
from unglow.workflow.forecast import Throughput
from unglow.workflow.preflight import Level, check, compare_settings, describe_refusal, worst
from unglow.workflow.schedule import Capacity, Job

# 100 MB, and 200 more for each of at most two blocks in flight.
PAIRWISE = Demand(100.0, 200.0)


def job(title="Rock7 SYTO9", rule="align", demand=PAIRWISE, threads=2, mem_mb=None, **more):
    mem_mb = demand.peak_mb(2000, threads) if mem_mb is None else mem_mb
    return Job(rule, title, threads, mem_mb, demand=demand, **more)


def rocks(count, **more):
    return [job(f"Rock{i} SYTO9", **more) for i in range(1, count + 1)]


def capacity(cores=8, limit_mb=None, available_mb=10_000.0, free=()):
    return Capacity(cores, limit_mb, available_mb, dict(free))


# ------------------------------------------------------------------------------------------ memory


@pytest.mark.parametrize(
    ("available", "level"),
    [
        (2500.0, Level.FINE),
        (2499.9, Level.WARNING),
        (2000.0, Level.WARNING),
        (1999.9, Level.REFUSED),
    ],
)
def test_what_runs_at_once_is_fine_to_80_percent_and_refused_above_all(available, level):
    (found,) = check(rocks(9), capacity(available_mb=available), 2000)
    assert found.level == level
    assert found.text.startswith("at most 4 jobs at a time with 2.00 of ")
    assert found.remedy == f"set --resources mem_mb={int(0.8 * available)}"


@pytest.mark.parametrize(
    ("limits", "remedies"),
    [
        ((2, 6000, 10_000.0), ["set memory_per_job: 3120 or save it in tiles"]),
        (
            (2, 2500, 10_000.0),
            [
                "set --resources mem_mb=3120 or save it in tiles",
                "set memory_per_job: 3120 or save it in tiles",
            ],
        ),
        ((2, 6000, 3000.0), ["take a machine with at least 3120 MB free or save it in tiles"]),
    ],
)
def test_each_limit_that_a_job_does_not_fit_is_named_with_what_helps(limits, remedies):
    demand = Demand(100.0, 3020.0)
    large = job(
        "Rock9 DAPI pre", "ingest", demand, mem_mb=min(3120, limits[1]), advice="save it in tiles"
    )
    found = [
        f for f in check([*rocks(2), large], capacity(*limits), 2000) if f.level == Level.REFUSED
    ]
    assert all(
        "ingest of Rock9 DAPI pre needs at least 3120 MB" in f.text for f in found[: len(remedies)]
    )
    assert [f.remedy for f in found][: len(remedies)] == remedies
    sentence = describe_refusal(found)
    assert "\n" not in sentence
    assert all(remedy in sentence for remedy in remedies)


def test_a_job_that_snakemake_would_cut_silently_is_named_but_may_run_if_it_can():
    cut, _ = check(rocks(5, mem_mb=400), capacity(limit_mb=400), 2000)
    assert cut.level == Level.WARNING
    assert cut.text.startswith(
        "align of Rock1 SYTO9 asks for 500 MB (and 4 more jobs), but all jobs together have 400 MB"
    )
    refused = check(rocks(1, mem_mb=50), capacity(limit_mb=50), 2000)[0]
    assert (refused.level, refused.remedy) == (Level.REFUSED, "set --resources mem_mb=300")


def test_memory_set_by_hand_goes_before_the_demand():
    (found,) = check(rocks(1, mem_mb=900), capacity(), 2000)
    assert "with 0.90 of" in found.text
    assert worst(check(rocks(1, mem_mb=900), capacity(), 200)) == Level.FINE
    for fixed, level in ((True, Level.REFUSED), (False, Level.WARNING)):
        found = check(rocks(1, mem_mb=200, is_fixed=fixed), capacity(), 2000)[0]
        assert found.level == level
        assert found.text.endswith("align of Rock1 SYTO9 needs at least 300 MB and is given 200 MB")
        assert found.remedy == "set no mem_mb for align, or at least 300 MB"


def test_jobs_that_run_elsewhere_are_judged_by_their_limits_only():
    (found,) = check(rocks(1, mem_mb=400), capacity(None, 400, None), 2000)
    assert found.level == Level.WARNING
    assert check(rocks(1), capacity(None, None, None), 2000) == []
    (found,) = check(rocks(1, mem_mb=200), capacity(None, 200, None), 2000)
    assert found.remedy == "set --resources mem_mb=300"
    # what starts a job there counts for what it is given, and not for the budget
    started = rocks(1, mem_mb=600, launcher_mb=100)
    assert check(started, capacity(None, None, None), 500) == []
    (found,) = check(rocks(1, mem_mb=399, launcher_mb=100), capacity(None, None, None), 2000)
    assert found.level == Level.WARNING


@pytest.mark.parametrize(
    ("cores", "limit", "available"), [(64, None, 4000.0), (64, 9000, 1100.0), (4, None, 700.0)]
)
def test_the_remedy_for_jobs_at_once_is_one_that_the_check_accepts(cores, limit, available):
    given = capacity(cores, limit, available)
    jobs = rocks(40)
    refused = next(f for f in check(jobs, given, 2000) if f.level == Level.REFUSED)
    changed = replace(given, limit_mb=int(refused.remedy.rpartition("=")[2]))
    again = check([one.resize(changed, 2000) for one in jobs], changed, 2000)
    assert worst(again) < Level.REFUSED


def test_jobs_of_other_workflows_count_with_what_they_ask_for():
    other = Job("align_reads", "s1", 4, 7000)
    (found,) = check([*rocks(1), other], capacity(), 2000)
    assert found.text.startswith("at most 2 jobs at a time with 7.50 of")
    assert check([other], capacity(available_mb=6000.0), 2000)[0].level == Level.REFUSED


def test_other_settings_are_compared_with_the_jobs_that_they_give():
    jobs = rocks(9)
    made = compare_settings(jobs, capacity(8, 9000, 1500.0), 2000, Throughput([]), 9)
    rows = [(s.cores, s.memory_per_job, s.jobs_at_once, s.memory_mb, s.fits) for s in made]
    assert rows == [
        *[(1, 300.0, 1, 300, True), (1, 2000.0, 1, 300, True)],
        *[(2, 300.0, 1, 300, True), (2, 2000.0, 1, 500, True)],
        *[(8, 300.0, 4, 1200, True), (8, 2000.0, 4, 2000, False)],
    ]
    assert all(s.low < s.seconds < s.high for s in made)


# -------------------------------------------------------------------------------------------- disk


@pytest.mark.parametrize(
    ("free", "level"),
    [(1000.0, Level.FINE), (999.0, Level.WARNING), (800.0, Level.WARNING), (799.0, Level.REFUSED)],
)
def test_disks_are_judged_one_by_one(free, level):
    jobs = [
        job(disk_mb=500, disk="/a"),
        job(disk_mb=300, disk="/a"),
        job(disk_mb=900, disk="/b"),
        job(disk_mb=0, disk="/full"),
    ]
    found = check(jobs, capacity(free={"/a": free, "/b": 9000.0, "/full": 0.0}.items()), 2000)
    assert [f.level for f in found] == [Level.FINE, level, Level.FINE]
    assert found[1].text == (
        f"at most 0.80 GB of results to come for /a, {free / 1000:.2f} GB free there"
    )


# ------------------------------------------------------------------------------------------ words


@pytest.mark.parametrize(
    ("command", "options", "expected"),
    [
        ("s x", {"--config": ("a", "1")}, "s x --config a=1"),
        ("s -- x", {"--config": ("a", "1")}, "s --config a=1 -- x"),
        ("s --config b=2 a=0 -n", {"--config": ("a", "1")}, "s --config a=1 b=2 -n"),
        ("s -C b=2 -n", {"--config": ("a", "1")}, "s -C a=1 b=2 -n"),
        ("s --config=b=2 -n", {"--config": ("a", "1")}, "s --config a=1 b=2 -n"),
        ("s --config a=0 -n --config b=2", {"--config": ("a", "1")},
         "s --config a=0 -n --config a=1 b=2"),
        ("s --resources mem_gb=3 gpu=1", {"--resources": ("mem_mb", "9")},
         "s --resources mem_mb=9 gpu=1"),
        ("s --resources mem_mb=150", {"--set-resources": ("scale:mem_mb", "300")},
         "s --resources mem_mb=300 --set-resources scale:mem_mb=300"),
        ("s --resources mem_mb=900", {"--set-resources": ("scale:mem_mb", "300")},
         "s --resources mem_mb=900 --set-resources scale:mem_mb=300"),
        ("s --res mem=3GB --config 'scale={percentile: 40}'",
         {"--resources": ("mem_mb", "9"), "--config": ("force_run", "True")},
         "s --res mem_mb=9 --config force_run=True 'scale={percentile: 40}'"),
    ],
)  # fmt: skip
def test_options_are_changed_in_place_and_everything_else_stays(command, options, expected):
    assert shlex.join(set_options(shlex.split(command), options)) == expected


def test_the_words_to_type():
    assert snakemake_words(["/opt/bin/snakemake", "-n"]) == ["snakemake", "-n"]
    words = ["python", "-m", "snakemake", "-n"]
    assert snakemake_words(["/x/snakemake/__main__.py", "-n"]) == words
    assert snakemake_words(["/usr/bin/pytest", "tests"]) == ["snakemake"]


# -------------------------------------------------------------------------------------- the machine


def test_available_memory_is_what_a_container_has_left(tmp_path):
    free = memory_available_mb(tmp_path)
    assert 0 < free <= memory_total_mb(tmp_path)
    (tmp_path / "memory.max").write_text("50000000\n")
    (tmp_path / "memory.current").write_text("30000000\n")
    assert memory_available_mb(tmp_path) == pytest.approx(20.0)
    (tmp_path / "memory.stat").write_text(
        "anon 5\nactive_file 4000000\ninactive_file 5000000\nslab_reclaimable 1000000\n"
    )
    assert memory_available_mb(tmp_path) == pytest.approx(30.0)
    (tmp_path / "memory.current").write_text("90000000\n")
    assert memory_available_mb(tmp_path) == 0
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_available_mb(tmp_path) == pytest.approx(free, rel=0.5)


@pytest.mark.parametrize(
    ("free_mb", "pressure", "short"),
    [(11, 0, False), (9, 0, True), (39, 21, True), (41, 99, False)],
)
def test_memory_is_short_by_what_is_free_and_sooner_under_pressure(
    tmp_path, monkeypatch, free_mb, pressure, short
):
    proc = tmp_path / "proc"
    for name, text in (
        ("pressure/memory", f"some avg10={pressure}.00 avg60=0.00 avg300=0.00 total=1\n"),
        ("self/cgroup", "0::/\n"),
        ("meminfo", "MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n"),
    ):
        (proc / name).parent.mkdir(parents=True, exist_ok=True)
        (proc / name).write_text(text)
    monkeypatch.setattr("unglow.core.process.PROC", proc)
    (tmp_path / "memory.max").write_text("200000000\n")
    (tmp_path / "memory.current").write_text(f"{200 - free_mb}000000\n")
    assert is_memory_short(tmp_path) is short


def test_version_1_of_control_groups_has_other_names(tmp_path, monkeypatch):
    group = tmp_path / "memory"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text("50000000\n")
    (group / "memory.usage_in_bytes").write_text("30000000\n")
    (group / "memory.stat").write_text("cache 1\ntotal_inactive_file 6000000\n")
    proc = tmp_path / "cgroup"
    proc.write_text("5:cpu,memory:/docker/abc\n0::/\n")
    real = type(tmp_path).read_text
    monkeypatch.setattr(
        type(tmp_path),
        "read_text",
        lambda self, *a, **k: real(proc if str(self) == "/proc/self/cgroup" else self, *a, **k),
    )
    assert memory_available_mb(tmp_path) == pytest.approx(26.0)
    assert memory_total_mb(tmp_path) == pytest.approx(50.0)


def test_free_space_is_that_of_the_nearest_directory_that_exists(tmp_path):
    deep = tmp_path / "not" / "yet"
    assert existing(deep) == tmp_path
    assert disk_free_mb(deep) == pytest.approx(disk_free_mb(tmp_path), rel=0.2)


def test_another_machine_can_be_asked_about(monkeypatch):
    monkeypatch.setenv(ASSUMED, "128000")
    assert memory_available_mb() == memory_total_mb() == 128_000
    assert memory_limit_mb(0.6) == 76_800
