"""The verdicts of benchmarks/telemetry.py, and that its observer sees a peak by itself."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import telemetry as bench


@pytest.mark.parametrize(
    ("said", "core", "missed"),
    [
        (100.9, 0.009, 0),
        (101.1, 0.009, 1),
        (98.9, 0.009, 1),
        (float("nan"), 0.009, 1),
        (100.0, 0.016, 1),
    ],
)
def test_the_exit_status_reports_any_aim_that_was_missed(capsys, said, core, missed):
    peaks = [bench.Peak("align", "ok", 200, 200), bench.Peak("align", "killed", said, 100)]
    assert bench.report(peaks, [bench.Load(8, 300, core, 10.0)]) == missed
    out = capsys.readouterr().out
    assert out.count("!") == missed
    assert "2 jobs" in out


def test_a_peak_is_that_of_the_job_and_of_all_below_it(tmp_path):
    path = tmp_path / "x" / "1.jsonl"
    path.parent.mkdir()
    lines = [
        {"kind": "attempt", "rule": "align"},
        {"kind": "process", "pid": 11},
        [0.1, 5.0],
        {"kind": "end", "outcome": "ok", "peak_mb": 300.0},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "x.jsonl").write_text("{}\n")  # the record of the job
    seen = {10: (1, 900.0), 11: (10, 100.0), 12: (11, 200.0), 13: (12, 250.0), 14: (1, 800.0)}
    assert bench.compared(tmp_path, seen) == [bench.Peak("align", "ok", 300.0, 250.0)]


def test_the_observer_sees_what_a_process_has_held():
    with bench.observed() as seen:
        code = "import time; x = b'1' * 120_000_000; time.sleep(0.1); del x; time.sleep(0.3)"
        child = subprocess.Popen([sys.executable, "-c", code])
        child.wait()
    assert 120 < seen[child.pid][1] < 160
