"""Preflight: exact results of plain data, what is still to be done, and commands to help."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter

import pytest
from raw_slides import pair

from unglow import cli
from unglow.core.machine import disk_free_mb, existing, memory_available_mb, memory_total_mb
from unglow.jobs.snakemake_command import set_options, snakemake_words
from unglow.memory import Demand, stages
from unglow.workflow.batch import Batch
from unglow.workflow.pending_jobs import (
    Capacity,
    PendingJob,
    RuleSettings,
    capacity_for,
    heaviest_at_once,
    pending_jobs,
)
from unglow.workflow.preflight import Finding, Level, PreflightResult, Suggestion, check, messages

# 100 MB, and 200 more for each of at most two blocks in flight.
PAIRWISE = Demand(100.0, 200.0)


def task(title="Rock7 SYTO9", rule="align", demand=PAIRWISE, threads=2, **more):
    return PendingJob(title, rule, demand, threads, **({"variant": (title,)} | more))


def rocks(count, **more):
    return [task(f"Rock{i} SYTO9", **more) for i in range(1, count + 1)]


def capacity(cores=8, limit_mb=None, available_mb=10_000.0, free=()):
    return Capacity(cores, limit_mb, available_mb, dict(free))


def texts(result):
    return [f.text for f in result.findings]


# ---------------------------------------------------------------------------------- jobs at a time


@pytest.mark.parametrize(
    ("available", "level", "addition"),
    [
        (2500.0, Level.FINE, ""),
        (2499.9, Level.WARNING, "; 3 would leave 20 % free"),
        (2000.0, Level.WARNING, "; 3 would leave 20 % free"),
        (1999.9, Level.REFUSED, "; 3 would fit, 3 would leave 20 % free"),
        (1600.0, Level.REFUSED, "; 3 would fit, 2 would leave 20 % free"),
        (500.0, Level.REFUSED, "; 1 would fit"),
    ],
)
def test_what_runs_at_once_is_fine_to_80_percent_and_refused_above_all(available, level, addition):
    found = check(rocks(9), capacity(available_mb=available), 2000)
    gb = f"{available / 1000:.2f}"
    assert found.level == level
    assert texts(found) == [
        f"4 jobs at a time, limited by cores (2.00 of {gb} GB available){addition}"
    ]


def test_the_line_of_a_run_that_memory_limits():
    heavy = Demand(1000.0, 1000.0)
    tasks = rocks(9, demand=heavy)
    (text,) = texts(check(tasks, capacity(16, 14_400, 14_200.0), 4000))
    assert text == (
        "4 jobs at a time, limited by memory (12.0 of 14.2 GB available; 14.4 GB are allowed); "
        "3 would leave 20 % free"
    )


def test_one_pair_runs_one_step_at_a_time_and_two_pairs_may_be_at_different_steps():
    steps = [*[task(rule="ingest", step=1)] * 2, task(rule="align", step=3)]
    assert heaviest_at_once(steps, capacity(), 2000).mb == (500, 500)
    assert heaviest_at_once(steps, capacity(), 2000).limited_by == "what there is to do"
    other = task("Rock8 SYTO9", "align", step=3)
    assert heaviest_at_once([*steps, other], capacity(), 2000).mb == (500, 500, 500)


def test_a_step_of_many_small_jobs_may_be_heavier_than_the_step_of_the_heaviest_job():
    small = [task(rule="figures", demand=Demand(240.0, 0.0), threads=1, step=4)] * 5
    at_once = heaviest_at_once([task(rule="align", step=3), *small], capacity(), 2000)
    assert at_once.mb == (240,) * 5


def test_threads_are_cut_to_the_cores_and_the_demand_with_them():
    assert heaviest_at_once(rocks(3), capacity(cores=1), 2000).mb == (300,)
    assert heaviest_at_once(rocks(3), capacity(cores=3), 2000).mb == (500,)


def test_a_laptop_with_little_free_memory_runs_small_jobs():
    tasks = rocks(50, demand=Demand(60.0, 5.0), threads=1)
    assert check(tasks, capacity(2, 4_800, 500.0), 2000).level == Level.FINE


def test_nothing_to_do_is_nothing_to_say():
    assert check([], capacity(), 2000) == PreflightResult((), ())


# ------------------------------------------------------------------------------------- single jobs


def test_a_job_that_needs_more_than_the_budget_is_named_with_numbers_and_helped():
    large = task("Rock9 DAPI pre", "ingest", Demand(100.0, 3020.0), advice="save it in tiles")
    found = check([*rocks(2), large], capacity(2, 6000, 10_000.0), 2000)
    assert found.level == Level.REFUSED
    assert texts(found)[0] == (
        "memory_per_job is 2000 MB, but ingest of Rock9 DAPI pre needs at least 3120 MB, "
        "1120 MB more"
    )
    assert found.suggestions == (
        Suggestion("each job within 3120 MB", {"--config": ("memory_per_job", "3120")}),
        Suggestion("save it in tiles", {}),
        Suggestion("run anyway", {"--config": ("force_run", "True")}),
    )


def test_budget_and_limit_are_raised_together_where_one_alone_does_not_help():
    large = task("Rock9 DAPI pre", "ingest", Demand(100.0, 3020.0))
    found = check([large], capacity(2, 2500, 10_000.0), 2000)
    budget, limit, _ = texts(found)
    assert budget == (
        "memory_per_job is 2000 MB, but ingest of Rock9 DAPI pre needs at least 3120 MB, "
        "1120 MB more"
    )
    assert limit == (
        "all jobs together have 2500 MB (--resources mem_mb=2500), but ingest of Rock9 DAPI pre "
        "needs at least 3120 MB, 620 MB more"
    )
    assert found.suggestions[0].options == {
        "--resources": ("mem_mb", "8000"),
        "--config": ("memory_per_job", "3120"),
    }


def test_what_no_setting_can_help_is_said_so():
    large = task("Rock9 DAPI pre", "ingest", Demand(100.0, 3020.0))
    found = check([large], capacity(2, 2500, 3000.0), 4000)
    assert (
        "3.00 GB are available, but ingest of Rock9 DAPI pre needs at least 3120 MB"
        in texts(found)[1]
    )
    assert [r.options for r in found.suggestions] == [{}, {"--config": ("force_run", "True")}]
    assert "take a machine with at least 3120 MB free" in found.suggestions[0].text


def test_a_job_that_snakemake_would_cut_silently_is_named_but_may_run_if_it_can():
    found = check(rocks(5), capacity(limit_mb=400), 2000)
    assert found.level == Level.WARNING
    assert found.suggestions == ()
    assert texts(found)[0] == (
        "align of Rock1 SYTO9 asks for 500 MB; align of Rock2 SYTO9 asks for 500 MB; align of "
        "Rock3 SYTO9 asks for 500 MB; and 2 more jobs, but all jobs together have 400 MB "
        "(--resources mem_mb=400): Snakemake gives it that, and fewer blocks are worked on at a "
        "time"
    )
    found = check(rocks(1), capacity(limit_mb=50), 2000)
    assert found.level == Level.REFUSED
    assert found.suggestions[0] == Suggestion(
        "all jobs together within 8000 MB (1 at a time; the least is 300 MB)",
        {"--resources": ("mem_mb", "8000")},
    )


def test_memory_set_by_hand_goes_before_the_demand():
    assert heaviest_at_once(rocks(1, declared_mb=900), capacity(), 2000).mb == (900,)
    found = check(rocks(1, declared_mb=200), capacity(), 2000)
    assert texts(found)[0] == (
        "mem_mb is set for rules: align of Rock1 SYTO9 needs at least 300 MB and is given 200 MB"
    )
    assert found.suggestions[0] == Suggestion("set no mem_mb for align, or 300 MB at least", {})


def test_jobs_that_run_elsewhere_are_judged_by_their_limits_only():
    elsewhere = capacity(cores=None, limit_mb=400, available_mb=None)
    (found,) = check(rocks(1), elsewhere, 2000).findings
    assert found.level == Level.WARNING
    assert check(rocks(1), capacity(None, None, None), 2000).findings == ()
    assert check(rocks(1), capacity(None, 200, None), 2000).suggestions[0].options == {
        "--resources": ("mem_mb", "300")
    }


def test_every_suggestion_for_memory_is_one_that_the_check_accepts():
    tasks = rocks(40)
    for cores, limit, available in [(64, None, 4000.0), (64, 9000, 1100.0), (4, None, 700.0)]:
        given = capacity(cores, limit, available)
        found = check(tasks, given, 2000)
        assert found.level == Level.REFUSED
        helping = [r.options for r in found.suggestions[:-1]]
        assert helping
        for options in helping:
            cores_now = int(options.get("--cores", cores))
            limit_now = int(options["--resources"][1]) if "--resources" in options else limit
            budget = float(options["--config"][1]) if "--config" in options else 2000
            again = check(tasks, capacity(cores_now, limit_now, available), budget)
            assert again.level < Level.REFUSED, options


def test_no_suggestion_is_below_what_the_configuration_takes():
    small = rocks(9, demand=Demand(50.0, 100.0), threads=8)
    found = check(small, capacity(64, None, 4000.0), 2000)
    budgets = [r.options["--config"] for r in found.suggestions if "--config" in r.options]
    assert budgets[0] == ("memory_per_job", "300")


# -------------------------------------------------------------------------------------------- disk


@pytest.mark.parametrize(
    ("free", "level"),
    [(1000.0, Level.FINE), (999.0, Level.WARNING), (800.0, Level.WARNING), (799.0, Level.REFUSED)],
)
def test_disks_are_judged_one_by_one(free, level):
    tasks = [
        task(disk_mb=500, disk="/a"),
        task(disk_mb=300, disk="/a"),
        task(disk_mb=900, disk="/b"),
        task(disk_mb=0, disk="/full"),
    ]
    found = check(tasks, capacity(free={"/a": free, "/b": 9000.0, "/full": 0.0}.items()), 2000)
    assert [f.level for f in found.findings] == [Level.FINE, level, Level.FINE]
    assert texts(found)[1] == (
        f"at most 0.80 GB of results to come for /a, {free / 1000:.2f} GB free there"
    )


def test_the_suggestion_for_a_disk_says_how_much():
    tasks = [task(disk_mb=212_400, disk="/data")]
    found = check(tasks, capacity(free={"/data": 95_000.0}.items()), 2000)
    assert found.suggestions == (
        Suggestion(
            "free 117 GB where /data is, or write to another one with 266 GB free (put its path "
            "for DIRECTORY)",
            {"--config": ("results", "DIRECTORY")},
        ),
        Suggestion("run anyway", {"--config": ("force_run", "True")}),
    )


# ------------------------------------------------------------------------------------------ words


@pytest.mark.parametrize(
    ("command", "options", "expected"),
    [
        ("s -n", {"--cores": "3"}, "s -n --cores 3"),
        ("s -c4 x", {"--cores": "3"}, "s x --cores 3"),
        ("s -j 4 x", {"--cores": "3"}, "s x --cores 3"),
        ("s --cores=all x", {"--cores": "3"}, "s x --cores 3"),
        ("s x", {"--config": ("a", "1")}, "s x --config a=1"),
        ("s -c4 -- x", {"--cores": "3", "--config": ("a", "1")},
         "s --cores 3 --config a=1 -- x"),
        ("s --config b=2 a=0 -n", {"--config": ("a", "1")}, "s --config a=1 b=2 -n"),
        ("s -C b=2 -n", {"--config": ("a", "1")}, "s -C a=1 b=2 -n"),
        ("s --config=b=2 -n", {"--config": ("a", "1")}, "s --config a=1 b=2 -n"),
        ("s --config a=0 -n --config b=2", {"--config": ("a", "1")},
         "s --config a=0 -n --config a=1 b=2"),
        ("s --resources mem_gb=3 gpu=1", {"--resources": ("mem_mb", "9")},
         "s --resources mem_mb=9 gpu=1"),
        ("s --res mem=3GB --config 'scale={percentile: 40}'",
         {"--resources": ("mem_mb", "9"), "--config": ("force_run", "True"), "--cores": "1"},
         "s --res mem_mb=9 --config force_run=True 'scale={percentile: 40}' --cores 1"),
    ],
)  # fmt: skip
def test_options_are_changed_in_place_and_everything_else_stays(command, options, expected):
    assert shlex.join(set_options(shlex.split(command), options)) == expected


def test_the_words_to_type():
    assert snakemake_words(["/opt/bin/snakemake", "-n"]) == ["snakemake", "-n"]
    words = ["python", "-m", "snakemake", "-n"]
    assert snakemake_words(["/x/snakemake/__main__.py", "-n"]) == words
    assert snakemake_words(["/usr/bin/pytest", "tests"]) == ["snakemake"]


def test_lines_are_wrapped_but_commands_are_not():
    words = ["snakemake", "-s", "x" * 120]
    result = PreflightResult(
        (Finding(Level.FINE, "disk", "well"), Finding(Level.REFUSED, "memory", "needs more " * 20)),
        (Suggestion("run anyway", {"--config": ("force_run", "True")}), Suggestion("wait", {})),
    )
    lines = messages(result, words)
    assert lines[0].startswith("  memory  TOO MUCH  needs more")
    assert not any("disk" in line for line in lines)
    assert messages(result, words, Level.FINE)[0] == "  disk    ok        well"
    assert f"      {shlex.join(words)} --config force_run=True" in lines
    assert lines[-1] == "  - wait"
    assert all(len(line) <= 100 for line in lines if "xxx" not in line)


def test_a_module_finds_its_configuration():
    suggestion = Suggestion("each job within 400 MB", {"--config": ("memory_per_job", "400")})
    forced = Suggestion("run anyway", {"--config": ("force_run", "True")})
    lines = messages(PreflightResult((), (suggestion, forced)), ["snakemake"], in_module=True)
    assert "      in the configuration of the module: memory_per_job: 400" in lines
    assert "      snakemake --config force_run=True" in lines


# ----------------------------------------------------------------------------- what is still to do


@pytest.fixture
def work(tmp_path):
    for sample, shape in (("A", (96, 80)), ("B", (300, 200))):
        pair(tmp_path, sample, "SYTO9", shape)
    return tmp_path


def counted(tasks):
    return Counter(task.rule for task in tasks)


def test_everything_is_to_be_done_in_a_fresh_directory(work):
    tasks = pending_jobs(Batch.load({}, work), work / "results")
    assert counted(tasks) == {
        "ingest": 2, "register": 2, "align": 2, "scale": 2,
        "difference": 2, "detect": 2, "figures": 2, "summary": 1, "verdict": 1,
    }  # fmt: skip
    ingest = next(t for t in tasks if t.rule == "ingest")
    assert (ingest.title, ingest.threads, ingest.disk_mb) == ("A SYTO9", 2, 5)
    assert {t.disk for t in tasks} == {str(work)}
    assert capacity_for(tasks, 2, None).free_mb.keys() == {str(work)}


def test_variants_are_tracks_of_their_own(work):  # test_stage_table.py counts their jobs
    config = {"sweep": {"register.model": ["affine", "homography"], "scale.percentile": [40, 60]}}
    tasks = pending_jobs(Batch.load(config, work), work / "results", only={("A", "SYTO9")})
    assert len({t.variant for t in tasks if t.rule == "scale"}) == 4


@pytest.mark.parametrize(
    ("write", "count"), [(None, 1), (["moffat"], 2), (["linear"], 1), ("all", 3)]
)
def test_differences_that_are_written_count(work, write, count):
    batch = Batch.load({"scale": {"write": write}}, work)
    tasks = pending_jobs(batch, work / "results", only={("A", "SYTO9")})
    assert counted(tasks)["difference"] == count


def test_exports_that_are_asked_for_count(work):
    exports = {"tiff": ["difference", "post"], "fits": ["aligned_pre", "difference"]}
    batch = Batch.load({"exports": exports}, work)
    tasks = pending_jobs(batch, work / "results", only={("A", "SYTO9")})
    counts = counted(tasks)
    assert [counts[f"export_{what}"] for what in ("raw", "aligned_pre", "difference")] == [1, 1, 6]
    file = work / "results" / "A" / "SYTO9" / "exports" / "difference_moffat.ome.tif"
    file.parent.mkdir(parents=True)
    file.touch()
    counts = counted(pending_jobs(batch, work / "results", only={("A", "SYTO9")}))
    assert counts["export_difference"] == 5


@pytest.mark.parametrize("form", ["zarr", "fits"])
def test_the_ratio_to_noise_counts_if_it_is_asked_for_in_any_form(work, form):
    batch = Batch.load({"exports": {form: ["snr"]}}, work)
    tasks = pending_jobs(batch, work / "results", only={("A", "SYTO9")})
    assert [task.threads for task in tasks if task.rule == "snr"] == [2]
    assert counted(tasks)["export_snr"] == (form == "fits")


def test_only_missing_outputs_count_and_a_store_is_there_when_its_root_is(work):
    batch = Batch.load({}, work)
    pair = work / "results" / "A" / "SYTO9"
    for name in ("post.ome.zarr/zarr.json", "aligned_pre.ome.zarr/zarr.json", "transform.json"):
        (pair / name).parent.mkdir(parents=True, exist_ok=True)
        (pair / name).write_text("")
    (pair / "pre.ome.zarr" / "0").mkdir(parents=True)
    tasks = pending_jobs(batch, work / "results", only={("A", "SYTO9")})
    assert [t.title for t in tasks if t.rule == "ingest"] == ["A SYTO9"]  # there is no pre
    rules = counted(tasks)
    assert rules["align"] == rules["register"] == 1  # statistics.npz, blocks.csv are missing
    again = pending_jobs(batch, work / "results", only={("A", "SYTO9")}, again=True)
    assert [t.disk_mb for t in again if t.rule in ("ingest", "align")] == [5, 2]
    for name in ("plan.json", "pre.ome.zarr/zarr.json"):
        (pair / name).write_text("")
    again = pending_jobs(batch, work / "results", only={("A", "SYTO9")}, again=True)
    assert [t.disk_mb for t in again if t.rule == "ingest"] == [0]


def test_threads_and_memory_of_rules_can_be_changed(work):
    changed_rules = RuleSettings({"align": 6}, {"align": 1234})
    tasks = pending_jobs(Batch.load({}, work), work / "results", changed_rules)
    align = next(t for t in tasks if t.rule == "align")
    assert (align.threads, align.declared_mb) == (6, 1234)
    assert next(t for t in tasks if t.rule == "ingest").threads == 1


@pytest.mark.parametrize(("codec", "side"), [("jpeg2000", 7000), ("lzw", 16_000)])
def test_a_giant_strip_of_a_codec_that_cannot_be_streamed_is_refused(work, codec, side):
    pair(work, "B", "SYTO9", (side, side), compression=codec, rowsperstrip=side)
    tasks = pending_jobs(Batch.load({"memory_per_job": 300}, work), work / "results")
    found = check(tasks, capacity(2, 10_000, 20_000.0, {str(work): 1e6}.items()), 300)
    assert found.level == Level.REFUSED
    assert "memory_per_job is 300 MB, but ingest of B SYTO9 needs at least" in texts(found)[0]
    assert any(
        r.text.startswith(f"'{work / 'raw' / 'B' / 'post_SYTO9.tif'}' is stored as one strip of")
        and "write it again in tiles" in r.text
        for r in found.suggestions
    )


# -------------------------------------------------------------------------------------- the machine


def counts_with_only(work, only, **more):
    """Jobs by sample, dye and rule of a run of one pair; the dye FITC takes the map of DAPI."""
    for sample, dye in (("S", "DAPI"), ("S", "FITC"), ("control", "FITC")):
        pair(work, sample, dye)
    rows = ["sample,dye,pre,post,control"]
    for s, d, c in (("S", "DAPI", ""), ("S", "FITC", ""), ("control", "FITC", "true")):
        rows.append(f"{s},{d},raw/{s}/pre_{d}.tif,raw/{s}/post_{d}.tif,{c}")
    (work / "sheet.csv").write_text("\n".join(rows))
    config = {"samples": "sheet.csv", "only": [only], **more}
    jobs = pending_jobs(Batch.load(config, work), work / "results")
    return {
        (*job.variant[:2], job.rule) for job in jobs if job.variant[:2] != tuple(only.split("/"))
    }


def test_jobs_of_pairs_that_lend_a_map_or_are_controls_count_as_well(tmp_path):
    run = {("", "", "summary"), ("", "", "verdict")}
    assert counts_with_only(tmp_path, "S/DAPI") == run
    control = {
        ("control", "FITC", rule)
        for rule in ("ingest", "register", "align", "scale", "difference", "detect")
    }
    assert counts_with_only(tmp_path, "S/FITC") == run | control
    lent = {("S", "DAPI", "ingest"), ("S", "DAPI", "register")}
    config = {"register": {"from": "DAPI"}}
    # the control has no DAPI to take a map of, so that it is skipped
    assert counts_with_only(tmp_path, "S/FITC", **config) == run | lent
    place = tmp_path / "results" / "S" / "DAPI"
    place.mkdir(parents=True)
    for name in ("transform.json", "displacement.npz", "blocks.csv"):
        (place / name).touch()
    assert not lent & counts_with_only(tmp_path, "S/FITC", **config)


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


# -------------------------------------------------------------------------------------- the command


def test_the_command_says_the_same_in_words_and_exit_status(work, monkeypatch, capsys):
    monkeypatch.chdir(work)
    words = ["unglow", "preflight", "-n", "2", "--resources", "mem_mb=50"]
    monkeypatch.setattr("sys.argv", words)
    assert cli.main(words[1:]) == 1
    text = capsys.readouterr().out
    assert text.startswith("16 jobs to do on 2 cores: a run would be refused.\n")
    assert "unglow preflight -n 2 --resources mem_mb=50 --config force_run=True" in text
    assert cli.main([*words[1:], "--config", "force_run=True"]) == 0
    assert cli.main(["preflight", "-n", "2", "--directory", str(work)]) == 0
    assert "16 jobs to do on 2 cores: a run would start.\n" in capsys.readouterr().out


def test_the_command_as_json_with_other_settings(work, monkeypatch, capsys):
    monkeypatch.chdir(work)
    assert cli.main(["preflight", "-n", "2", "--only", "B/*", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["refused"], found["jobs"], found["cores"]) == (1, False, 9, 2)
    assert {f["level"] for f in found["findings"]} == {"fine"}
    rows = [(s["cores"], s["memory_per_job"], s["fits"]) for s in found["settings"]]
    assert rows == [(1, 300, True), (1, 2000, True), (2, 300, True), (2, 2000, True)]
    assert all(s["low"] < s["seconds"] < s["high"] for s in found["settings"])
    assert [s["jobs_at_once"] for s in found["settings"]] == [1, 1, 2, 2]
    assert cli.main(["preflight", "-n", "2", "--settings"]) == 0
    assert len(re.findall(r"^ +[12] +(?:300|2000) MB", capsys.readouterr().out, re.MULTILINE)) == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-n", "two"], "--cores is 'two' but has to be a whole number above 0, or all."),
        (["--resources", "gpu=1"], "--resources is 'gpu=1' but has to be mem_mb=N, N in MB."),
        (["--config", "force_run"], "--config is 'force_run' but has to be KEY=VALUE."),
        (["--config", "force_rum=1"], "did you mean 'force_run'?"),
    ],
)
def test_a_mistake_is_one_sentence(work, monkeypatch, capsys, words, said):
    monkeypatch.chdir(work)
    assert cli.main(["preflight", *words]) == 2
    assert said in capsys.readouterr().err


def test_settings_are_merged_section_by_section(work, monkeypatch, capsys):
    monkeypatch.chdir(work)
    (work / "config").mkdir()
    (work / "config" / "config.yaml").write_text("scale:\n  percentile: 40\n")
    assert cli.main(["preflight", "--config", "scale={methods: [moffat]}"]) == 0
    assert capsys.readouterr().out.startswith("16 jobs to do")


def test_the_disk_bound_is_that_of_the_stores(work):
    batch = Batch.load({}, work)
    tasks = pending_jobs(batch, work / "results", only={("B", "SYTO9")})
    layouts = {
        role: batch.layout({"sample": "B", "dye": "SYTO9"}, role)
        for role in ("post", "pre", "derived")
    }
    stores = [stages.store_disk_mb(layouts[r]) for r in ("post", "pre", "derived", "derived")]
    small = len([r for r in tasks if r.rule in ("ingest", "register", "scale")])
    figures = 15
    listed = stages.candidates_disk_mb(layouts["derived"])
    assert sum(t.disk_mb for t in tasks) == sum(stores) + small + figures + listed
