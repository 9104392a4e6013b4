"""Profiling real jobs: the stacks of the rules that were asked for, and the same results."""

from __future__ import annotations

import json

from real_runs import TABLES, attempts_of, bytes_of, snakemake

from unglow.telemetry.speedscope import SUFFIX, read_profile


def test_one_rule_is_profiled_and_results_do_not_change(small_work):
    results = small_work / "results"
    before = bytes_of(results)
    words = ("--forcerun", "register", "--until", "align", "--config", "profile=[register]")
    run = snakemake(small_work, *words)
    assert run.code == 0, run.text
    assert run.jobs() == {"register": 1, "align": 1}
    assert bytes_of(results) == before
    profiles = sorted(results.rglob(f"*{SUFFIX}"))
    assert [path.parent.name for path in profiles] == ["register"]
    attempt = profiles[0].with_name(profiles[0].name.removesuffix(SUFFIX) + ".jsonl")
    assert attempt in attempts_of(results)
    seconds = read_profile(profiles[0]).seconds
    named = [s for stack, s in seconds.items() if any(f.name == "register" for f in stack)]
    assert sum(named) > 0.1
    (end,) = (json.loads(line) for line in attempt.read_text().splitlines()[-1:])
    assert sum(seconds.values()) > 0.5 * end["t"]
    again = snakemake(small_work, "-n", "--config", "profile=true")
    assert "Nothing to be done" in again.text, again.text  # profiling is no reason to compute again


def test_a_profiled_job_that_fails_still_says_why(small_work):
    raw = next((small_work / "raw").rglob("*_post_*.tif"))
    content = bytearray(raw.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 4000] = bytes(4000)
    raw.write_bytes(content)
    # without hooks, the job of the verdict is what fails
    options = ("--forcerun", "ingest", "--no-hooks", "--config", "profile=true")
    run = snakemake(small_work, *TABLES, *options)
    assert run.code == 1
    ends = [json.loads(p.read_text().splitlines()[-1]) for p in attempts_of(small_work / "results")]
    bad = [end for end in ends if end["outcome"] != "ok"]
    assert bad, run.text
    assert {end["outcome"] for end in bad} == {"bad_input"}
    assert "phantom_post_SYTO9.tif" in bad[0]["message"]
