"""The figures and tables of benchmarks/whole_run.py, on telemetry made by hand."""

from __future__ import annotations

import json
import math
import os
import sys

import numpy as np
import pytest
import tifffile
import whole_run as bench

pytestmark = pytest.mark.slow

END = 1_700_000_000


def record(rule, seconds, peak, declared, **more):
    times = {"rule": rule, "seconds": seconds, "cpu_seconds": 2 * seconds}
    memory = {"peak_mb": peak, "declared_mb": declared}
    return times | memory | {"bytes_read": 30_000_000, "bytes_written": 4_000_000} | more


def telemetry(directory, name, end, *records):
    path = directory / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    os.utime(path, (end, end))


@pytest.fixture
def run(tmp_path):
    """Telemetry of a plan job, two ingest jobs side by side and, after a pause, a scale job."""
    telemetry(tmp_path, "a/SYTO9/scale", END + 9, record("scale", 1.0, 100.0, 90.0))
    telemetry(tmp_path, "a/SYTO9/ingest_pre", END + 5, record("ingest", 2.0, 50.0, 100.0))
    telemetry(tmp_path, "a/SYTO9/ingest_post", END + 6, record("ingest", 2.0, 80.0, 100.0))
    telemetry(tmp_path, "plan", END + 3, record("plan", 3.0, 100.0, 120.0))
    return tmp_path


def test_telemetry_says_when_jobs_ran(run):
    found = bench.read_telemetry(run)
    assert [(r["rule"], r["start"] - END, r["end"] - END) for r in found] == [
        ("plan", 0, 3),
        ("ingest", 3, 5),
        ("ingest", 4, 6),
        ("scale", 8, 9),
    ]
    assert bench.covered((r["start"], r["end"]) for r in found) == 7


def test_attempts_in_one_file_lie_behind_each_other(tmp_path):
    telemetry(tmp_path, "x", END, record("align", 2.0, 1, 1), record("align", 3.0, 1, 1))
    spans = [(r["start"] - END, r["end"] - END) for r in bench.read_telemetry(tmp_path)]
    assert spans == [(-5, -3), (-3, 0)]


def test_rules_are_summed_in_the_order_of_their_start(run):
    plan, ingest, scale = bench.by_rule(bench.read_telemetry(run), decoded_mb=60.0)
    assert (plan.rule, ingest.rule, scale.rule) == ("plan", "ingest", "scale")
    assert (ingest.jobs, ingest.wall_s, ingest.cpu_s) == (2, 4.0, 8.0)
    assert (ingest.read_mb, ingest.written_mb, ingest.mb_per_s) == (60.0, 8.0, 15.0)
    # the job that was predicted most tightly, not the first one
    assert (ingest.peak_mb, ingest.declared_mb, ingest.ratio) == (80.0, 100.0, 1.25)
    assert scale.ratio == 0.9


def test_a_system_without_byte_counts():
    job = record("plan", 1.0, 50.0, 60.0)
    del job["bytes_read"], job["bytes_written"]
    (figures,) = bench.by_rule([job], decoded_mb=10.0)
    assert (figures.read_mb, figures.written_mb) == (0, 0)


def test_covered():
    assert bench.covered([]) == 0
    assert bench.covered([(5, 6), (1, 3)]) == 3
    assert bench.covered([(1, 4), (2, 3), (3, 6)]) == 5


def test_exponent_of_a_power_law():
    pixels = [1e6, 4e6, 16e6]
    assert bench.exponent(pixels, [3 * p**0.75 for p in pixels]) == pytest.approx(0.75, abs=1e-12)
    assert math.isnan(bench.exponent([1e6], [3.0]))
    assert math.isnan(bench.exponent([1e6, 1e6], [3.0, 4.0]))


def measurement(run, size, wall):
    pair = bench.Pair(pixels=2 * size * size, decoded_mb=60.0, file_mb=20.0)
    records = bench.read_telemetry(run)
    return bench.Measurement(
        case=bench.Case(size, size, "tiles", "uint8"),
        pair=pair,
        wall_s=wall,
        cpu_s=2 * wall,
        busy_s=7.0,
        jobs_cpu_s=16.0,
        again_s=1.25,
        results_mb=55.0,
        floor=bench.Floor(read_s=0.05, write_s=0.2),
        rules=bench.by_rule(records, pair.decoded_mb),
        all_wall_s=(wall,),
    )


def test_what_is_reported_about_a_run(run):
    lines = bench.run_text(measurement(run, 1000, 10.0)).splitlines()
    assert lines[0] == (
        "1000 x 1000 px, uint8, tiles: 2.0 Mpx in both images, 60.0 MB decoded, 20.0 MB of files"
    )
    cells = [line.split() for line in lines]
    assert cells[1][0] == "rule"
    numbers = ["2", "4.00", "8.00", "60.0", "8.00", "15.0", "80.0", "100", "1.25"]
    assert cells[3] == ["ingest", *numbers]
    assert cells[4][-1] == "0.90!"
    assert cells[5] == ["sum", "4", "8.00", "16.0", "120", "16.0"]
    text = "\n".join(" ".join(c) for c in cells[7:])
    assert "Snakemake included 10.00 s wall 20.00 s CPU" in text
    assert "CPU outside jobs 3.00 s wall 4.00 s CPU" in text
    assert "nothing is left to do 1.25 s wall" in text
    assert "reading 20.0 MB and writing 55.0 MB 0.25 s wall" in text
    assert "whole / floor 40.0" in text
    assert max(map(len, lines)) <= 110


def test_the_median_of_repeats(run):
    walls = [9.0, 7.0, 12.0]
    shown = bench.median_of([measurement(run, 1000, wall) for wall in walls])
    assert (shown.wall_s, shown.all_wall_s) == (9.0, (9.0, 7.0, 12.0))
    assert "repeats (the median one is shown): 9.00, 7.00, 12.00 s" in bench.run_text(shown)
    pair = bench.median_of([measurement(run, 1000, wall) for wall in (8.0, 6.0)])
    assert pair.wall_s == 6.0


def test_a_pair_is_measured_by_its_decoded_pixels(tmp_path):
    for name, shape in (("pre", (20, 30, 3)), ("post", (10, 30, 3))):
        path = tmp_path / "raw" / "s" / f"{name}.tif"
        path.parent.mkdir(parents=True, exist_ok=True)
        tifffile.imwrite(path, np.zeros(shape, np.uint16), photometric="rgb", compression="zlib")
    pair = bench.look_at(tmp_path / "raw")
    assert pair.pixels == 900
    assert pair.decoded_mb == pytest.approx(900 * 3 * 2 / 1e6)
    files = sum(p.stat().st_size for p in tmp_path.rglob("*.tif"))
    assert pair.file_mb == pytest.approx(files / 1e6)


def test_the_floor_reads_and_writes_and_leaves_nothing(tmp_path):
    source = tmp_path / "source.tif"
    source.write_bytes(bytes(100_000))
    floor = bench.measure_floor([source], 20_000_000, tmp_path / "floor.bin")
    assert floor.read_s > 0
    assert floor.write_s > 0
    assert floor.total_s == floor.read_s + floor.write_s
    assert [p.name for p in tmp_path.iterdir()] == ["source.tif"]


def test_a_command_that_fails_is_reported(tmp_path):
    words = [sys.executable, "-c", "print('the reason'); raise SystemExit(3)"]
    with pytest.raises(SystemExit, match=r"(?s)the reason.*failed in "):
        bench.command(*words, directory=tmp_path)


def test_cpu_time_of_a_command_has_that_of_its_children(tmp_path):
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}], check=True)"
    wall, cpu = bench.command(sys.executable, "-c", parent, directory=tmp_path)
    assert cpu >= 0.3
    assert wall >= 0.3
