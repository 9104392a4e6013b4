"""What flame graphs are drawn from: one tree of calls, times exact in sum, and small."""

from __future__ import annotations

import json
import random

import pytest
from made_telemetry import Made, end, profile

from unglow.pages.report.page_model import build
from unglow.pages.report.report import read_model
from unglow.results.runs import Runs

MAIN, FIT, SAVE = ("main", "f.py", 1), ("fit", "f.py", 7), ("save", "g.py", 2)


def flames(made):
    return read_model(made.results).get("flames")


def together(model):
    """Seconds of threads in a model."""
    return sum(sum(a["ms"]) for a in model["attempts"]) / 1000


def by_call(attempt):
    """Milliseconds of an attempt in each call."""
    found = {}
    for node, ms in zip(attempt["node"], attempt["ms"], strict=True):
        found[node] = found.get(node, 0) + ms
    return found


@pytest.fixture
def made(tmp_path):
    made = Made(tmp_path / "results")
    made.run()
    return made


def test_attempts_share_a_tree_and_waiting_is_left_out(made):
    made.attempt("plan", 0.5, end(1.0))
    waiting = ("Condition.wait", "lib/python3.11/threading.py", 295)
    first, second = (made.attempt(rule, t, end(1.0)) for rule, t in (("register", 2), ("align", 3)))
    profile(first, {(MAIN, FIT): 0.5, (MAIN,): 0.25, (MAIN, waiting): 9.0})
    profile(second, {(MAIN, SAVE): 1.0, (MAIN, FIT): 1.0})
    graphs = flames(made)
    assert graphs["frames"] == [list(MAIN), list(FIT), list(SAVE)]
    assert (graphs["in"], graphs["frame"]) == ([0, 1, 1], [0, 1, 2])
    ids = [a["attempt"] for a in graphs["attempts"]]
    assert ids == ["s1/DAPI/register/1", "s1/DAPI/align/1"]
    assert list(map(by_call, graphs["attempts"])) == [{2: 500, 1: 250}, {3: 1000, 2: 1000}]


def test_each_call_has_its_time_when_it_was_seen(made):
    path = made.attempt("register", 2.0, end(1.0))
    profile(path, {(MAIN, FIT): 0.1, (MAIN, SAVE): 0.05})
    (attempt,) = flames(made)["attempts"]
    rows = list(zip(attempt["node"], attempt["bin"], attempt["ms"], strict=True))
    assert attempt["bin_s"] == 0.05
    assert rows == [(2, 0, 50), (2, 1, 50), (3, 2, 50)]


def test_only_the_last_run_is_reported_and_nothing_without_profiles(made):
    path = made.attempt("register", 2.0, end(1.0))
    assert flames(made) is None
    profile(path, {})  # killed before the first sample
    assert flames(made) is None
    profile(path, {(MAIN,): 0.01})
    assert together(flames(made)) == 0.01
    assert "flames" not in build(Runs.read(made.results), live=True)
    made.run(start=100.0)
    made.attempt("register", 102.0, end(1.0))
    assert flames(made) is None


def test_copies_of_a_script_are_one_and_the_inside_of_import_is_left_out(made):
    for n, copy in enumerate(("tmpab_1", "tmpcd_2")):
        path = made.attempt("scale", 2.0 + 3 * n, end(1.0), sample=f"s{n}")
        script = ("<module>", f".snakemake/scripts/{copy}.scale.py", 1)
        inside = ("_find_and_load", "<frozen importlib._bootstrap>", 1165)
        module = ("<module>", "zarr.py", 1)
        profile(path, {(script, inside, module): 0.01, (script, inside): 0.02})
    graphs = flames(made)
    assert [file for _, file, _ in graphs["frames"]] == ["scripts/scale.py", "zarr.py"]
    assert graphs["in"] == [0, 1]
    assert list(map(by_call, graphs["attempts"])) == [{2: 10, 1: 20}] * 2


def test_calls_too_short_to_be_seen_go_to_their_callers(made):
    path = made.attempt("register", 2.0, end(1.0))
    profile(path, {(MAIN, FIT): 40.0, (MAIN, SAVE): 0.03, (SAVE,): 0.02})
    graphs = flames(made)
    assert graphs["in"] == [0, 1]
    (attempt,) = graphs["attempts"]
    assert by_call(attempt) == {2: 40000, 1: 30, 0: 20}


def test_many_attempts_are_small_and_nothing_of_their_time_is_lost(made):
    chance = random.Random(1)
    frames = [(f"function_{n}", f"f{n % 300}.py", n) for n in range(3000)]
    for n in range(20):
        path = made.attempt("register", 2.0 + n / 10, end(1.0), sample=f"s{n}")
        stacks = [tuple(chance.sample(frames[:40], 5)) for _ in range(50)]
        stacks += [tuple(chance.sample(frames, 5)) for _ in range(2000)]
        profile(path, {stack: 5.0 if k < 50 else 0.01 for k, stack in enumerate(stacks)})
    graphs = flames(made)
    assert together(graphs) == pytest.approx(20 * 270, abs=0.01)
    assert len(json.dumps(graphs, separators=(",", ":"))) < 300_000
