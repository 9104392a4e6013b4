"""What flame graphs are drawn from: times of calls in bins, exact in sum, and small."""

from __future__ import annotations

import json
import random

import pytest
from made_telemetry import Made, call, end, stacks

from unglow.reporting.html import flame_graph
from unglow.reporting.html.report import read_model
from unglow.telemetry.reading.profiles import Call, Calls, Span


def together(model):
    """Seconds of threads in a model."""
    pairs = [(n, ms) for a in model["attempts"] for n, ms in zip(a["bins"], a["ms"], strict=True)]
    return sum(n * ms for n, ms in pairs) / 1000


def samples(until_ms, *nodes):
    return [[t / 1000, *nodes] for t in range(10, until_ms + 1, 10)]


def test_times_of_calls_are_told_in_bins_of_the_run(tmp_path):
    made = Made(tmp_path / "results")
    made.run()
    made.attempt("plan", 0.5, end(1.0))
    path = made.attempt("register", 2.0, end(1.0))
    tree = (
        call(1, 0, "main"),
        call(2, 1, "fit", line=7),
        call(3, 1, "wait", file="g.py", waits=True),
    )
    stacks(path, *tree, *samples(120, 2, 3), [0.13, 1])
    model = read_model(made.results)
    assert model["attempts"][1]["rule"] == "register"
    assert model["flames"] == {
        "bin_ms": 50,
        "in": [0, 1, 1],
        "name": [0, 1, 2],
        "file": [0, 0, 1],
        "line": [1, 7, 1],
        "waits": [3],
        "names": ["main", "fit", "wait"],
        "files": ["f.py", "g.py"],
        # from 2.00 to 2.12 s two threads, then to 2.13 s one
        "attempts": [
            {
                "attempt": 1,
                "after": [40, 0, 2, 0, 0],
                "bins": [2, 2, 1, 1, 1],
                "node": [2, 3, 1, 2, 3],
                "ms": [50, 50, 10, 20, 20],
            }
        ],
    }


def test_only_the_last_run_is_told_and_nothing_without_stacks(tmp_path):
    made = Made(tmp_path / "results")
    made.run()
    path = made.attempt("register", 2.0, end(1.0))
    assert "flames" not in read_model(made.results)
    stacks(path)  # killed before the first sample
    assert "flames" not in read_model(made.results)
    stacks(path, call(1, 0, "main"), [0.01, 1])
    assert together(read_model(made.results)["flames"]) == 0.01
    assert "flames" not in read_model(made.results, live=True)
    made.run(start=100.0)
    made.attempt("register", 102.0, end(1.0))
    assert "flames" not in read_model(made.results)


def test_copies_of_a_script_are_one_and_the_inside_of_import_is_left_out(tmp_path):
    made = Made(tmp_path / "results")
    made.run()
    for n, copy in enumerate(("tmpab_1", "tmpcd_2")):
        path = made.attempt("scale", 2.0 + 3 * n, end(1.0), sample=f"s{n}")
        script = call(1, 0, "<module>", file=f".snakemake/scripts/{copy}.scale.py")
        inside = call(2, 1, "_find_and_load", file="<frozen importlib._bootstrap>")
        stacks(path, script, inside, call(3, 2, "<module>", file="zarr.py"), [0.01, 3], [0.02, 2])
    told = read_model(made.results)["flames"]
    assert told["files"] == ["scripts/scale.py", "zarr.py"]
    assert told["in"] == [0, 1]
    assert [a["node"] for a in told["attempts"]] == [[1, 2], [1, 2]]
    assert [a["ms"] for a in told["attempts"]] == [[10, 10], [10, 10]]


def test_where_there_are_too_many_calls_the_shortest_go_to_their_callers(monkeypatch):
    monkeypatch.setattr(flame_graph, "_MOST_CALLS", 2)
    calls = Calls()
    main = calls.node(0, Call("main", "f.py", 1))
    short, fit = (calls.node(main, Call(name, "f.py", 1)) for name in ("short", "fit"))
    spans = [Span(0.0, 0.01, short), Span(0.01, 0.05, fit)]
    told = flame_graph.packed(calls, [(0, 0.0, spans)])
    assert told["names"] == ["main", "fit"]
    (attempt,) = told["attempts"]
    assert (attempt["node"], attempt["ms"]) == ([1, 2], [10, 40])


@pytest.mark.parametrize("bins", [4, 1])
def test_bins_are_doubled_until_there_are_few_entries(monkeypatch, bins):
    monkeypatch.setattr(flame_graph, "_MOST_ENTRIES", bins)
    calls = Calls()
    fit, save = (calls.node(0, Call(name, "f.py", 1)) for name in ("fit", "save"))
    spans = [
        Span(n / 10, n / 10 + (0.03 if n % 2 else 0.02), (fit, save)[n // 4]) for n in range(8)
    ]
    told = flame_graph.packed(calls, [(0, 0.0, spans)])
    assert sum(len(a["node"]) for a in told["attempts"]) <= max(
        bins, 2
    )  # one for each call at least
    assert together(told) == pytest.approx(0.2)


@pytest.mark.slow
def test_an_hour_of_two_threads_is_small_and_nothing_of_its_time_is_lost():
    chance, calls = random.Random(1), Calls()
    nodes = [0]
    for n in range(12_000):
        nodes.append(
            calls.node(chance.choice(nodes[-40:]), Call(f"function_{n}", f"f{n % 300}.py", n))
        )
    often = chance.sample(nodes, 200)
    spans = [
        Span(n / 33, (n + 1) / 33, chance.choice(often if chance.random() < 0.95 else nodes))
        for n in range(33 * 3600)
        for _ in range(2)
    ]
    told = flame_graph.packed(calls, [(0, 1.234, spans)])
    assert len(json.dumps(told, separators=(",", ":"))) < 1_000_000
    assert together(told) == pytest.approx(7200, abs=0.01)
