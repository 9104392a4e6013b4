"""Profiling real jobs: the stacks of the rules that were asked for, and the same results."""

from __future__ import annotations

import json

from real_runs import TABLES, attempts_of, bytes_of, snakemake

from unglow.telemetry.reading.profiles import Calls, read_profile, seconds_by_node


def test_one_rule_is_profiled_and_results_do_not_change(small_work):
    results = small_work / "results"
    before = bytes_of(results)
    words = ("--forcerun", "register", "--until", "align", "--config", "profile=[register]")
    run = snakemake(small_work, *words)
    assert run.code == 0, run.text
    assert run.jobs() == {"register": 1, "align": 1}
    assert bytes_of(results) == before
    found = sorted(results.rglob("*.stacks"))
    assert [path.parent.name for path in found] == ["register"]
    assert found[0].with_suffix(".jsonl") in attempts_of(results)
    calls = Calls()
    spans = read_profile(found[0], calls)
    took = seconds_by_node(calls, spans)
    names = {c.name: took[n] for n, c in enumerate(calls.calls) if c is not None}
    assert names["register"] > 0.1
    assert took[0] > 0.5 * spans[-1].end
    again = snakemake(small_work, "-n", "--config", "profile=true")
    assert "Nothing to be done" in again.text, again.text  # profiling is no reason to compute again


def test_a_profiled_job_that_fails_still_says_why(small_work):
    raw = next((small_work / "raw").rglob("*_post_*.tif"))
    content = bytearray(raw.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 4000] = bytes(4000)
    raw.write_bytes(content)
    run = snakemake(small_work, *TABLES, "--forcerun", "ingest", "--config", "profile=true")
    assert run.code == 1
    ends = [json.loads(p.read_text().splitlines()[-1]) for p in attempts_of(small_work / "results")]
    bad = [end for end in ends if end["outcome"] != "ok"]
    assert bad, run.text
    assert {end["outcome"] for end in bad} == {"bad_input"}
    assert "phantom_post_SYTO9.tif" in bad[0]["message"]
