"""What the last bits depend on: it is recorded, and a difference is called what it is."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys

import pytest
from made_telemetry import WALL, Made, end, summary

from unglow.cli import main
from unglow.pages.report.run_comparison import describe_differences, warn_of_digits
from unglow.telemetry.recording.run import computing, surroundings


def test_processor_kernels_and_builds_are_recorded():
    here = computing()
    assert here["processor"]["name"]
    assert here["blas"]["version"]
    assert here["builds"]["numpy"] != here["builds"]["sep"]
    assert len(here["builds"]["opencv-python-headless"]) == 16
    assert not set(here) & set(surroundings())  # which any run records, before its first job
    assert json.loads(json.dumps(here)) == here


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="names kernels of one architecture")
def test_other_kernels_are_seen():
    code = "import json, unglow.telemetry.recording.run as c; print(json.dumps(c.computing()))"
    environment = os.environ | {"OPENBLAS_CORETYPE": "Sandybridge"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    other = json.loads(done.stdout)
    assert other["blas"]["kernels"] == "Sandybridge"
    assert "linear algebra" in " ".join(describe_differences(computing(), other))
    assert "Sandybridge" in warn_of_digits(computing(), other)


@pytest.mark.parametrize(
    ("keys", "value", "expected"),
    [
        (("processor", "features"), ["sse4_2"], "processor (X avx2; X sse4_2)"),
        (("packages", "numpy"), "3.0", "numpy (2.4; 3.0)"),
        (("builds", "scipy"), "b", "build of scipy"),
        (("blas", "kernels"), "Zen", "linear algebra (openblas Haswell; openblas Zen)"),
        (("variables",), {"OPENBLAS_CORETYPE": "Zen"}, "variables (none; Zen)"),
    ],
)
def test_what_differs_is_named_and_nothing_else(keys, value, expected):
    one = {
        "processor": {"name": "X", "features": ["avx2"]},
        "blas": {"name": "openblas", "kernels": "Haswell"},
        "builds": {"numpy": "a", "scipy": "a", "sep": None},
        "packages": {"numpy": "2.4", "sep": None},
        "variables": {},
    }
    other = copy.deepcopy(one)
    assert describe_differences(one, other) == []
    assert warn_of_digits(one, other) is None
    place = other
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    assert describe_differences(one, other) == [expected]


def test_another_name_of_a_processor_that_can_do_the_same_is_no_difference():
    one = {"processor": {"name": "X 1", "features": ["avx2"]}}
    assert describe_differences(one, {"processor": {"name": "X 2", "features": ["avx2"]}}) == []


def test_what_an_older_record_lacks_is_no_difference():
    assert describe_differences({"unglow": "0.1.0"}, computing() | {"unglow": "0.1.0"}) == []


def test_compare_counts_the_pairs_of_a_run_that_has_ended(tmp_path, capsys):
    ended = {"kind": "end", "t": 20.0, "wall": WALL + 20, "outcome": "ok"}
    places = [tmp_path / name / "results" for name in ("before", "after")]
    for place in places:
        made = Made(place)
        made.run(ended, pairs=[["s1", "D"], ["s2", "D"]])
        made.attempt("plan", 2.0, end(4.0))
    for place, states in zip(places, (["ok"], ["failed", "skipped", "suspect"]), strict=True):
        rows = [{"sample": f"s{n}", "dye": "D", "status": s} for n, s in enumerate(states)]
        summary(place, *rows)
    assert main(["compare", *map(str, places), "-o", str(tmp_path / "c.html")]) == 0
    (line,) = (row for row in capsys.readouterr().out.splitlines() if "outcome" in row)
    assert line.split("  finished: ")[1:] == ["1 ok", "1 failed, 1 skipped, 1 suspect"]


def test_compare_says_that_other_things_have_computed(tmp_path, capsys):
    places = [tmp_path / name / "results" for name in ("before", "after")]
    ended = {"kind": "end", "t": 20.0, "wall": WALL + 20, "outcome": "ok"}
    for place, kernels in zip(places, ("Haswell", "SkylakeX"), strict=True):
        made = Made(place)
        made.run(ended, blas={"kernels": kernels}, processor={"name": f"for {kernels}"})
        made.attempt("plan", 2.0, end(4.0))
    assert main(["compare", *map(str, places), "-o", str(tmp_path / "c.html")]) == 0
    out = capsys.readouterr().out
    assert "after: Last digits may differ" in out
    assert "linear algebra (Haswell; SkylakeX)" in out
    assert [line.split()[-2:] for line in out.splitlines() if "processor  " in line] == [
        ["for", "SkylakeX"]
    ]
