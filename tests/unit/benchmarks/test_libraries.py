"""What benchmarks/libraries.py makes of measured jobs, and the file that it writes."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import libraries

from unglow.core import measured
from unglow.workflow.stage_table import STAGES


def test_memory_is_the_most_of_all_environments():
    def environment(private_mb, imported_mb, used_mb):
        start = libraries.Start(0.2, 300, [], private_mb, imported_mb)
        starts = dict.fromkeys(map(libraries.script_of, STAGES), start)
        jobs = (
            libraries.Ended("detect", 1.0, 2.0, used_mb),
            libraries.Ended("detect", 1.0, 2.0, 9),
        )
        return libraries.Batches(starts, jobs, {})

    found = libraries.measure_memory([environment(30.2, 20, 60), environment(40, 20, 35)])
    assert found["detect"] == 96.0  # 30.2 + 60 + 5, rounded up
    assert found["align"] == 65.0  # of which no job ran: 40 + 20 + 5
    assert found.keys() == measured.LIBRARIES_MB.keys()


def test_seconds_are_a_line_through_both_sizes():
    took = [(4.0, 1.4), (4.0, 1.6), (16.0, 4.5)]
    jobs = [libraries.Ended("align", mpx, seconds, 0.0) for mpx, seconds in took]
    jobs += [libraries.Ended("figures", 0.0, seconds, 0.0) for seconds in (2.0, 3.0)]
    jobs += [libraries.Ended("scale", mpx, 1.0, 0.0) for mpx in (4.0, 16.0)]
    found = libraries.measure_seconds(jobs)
    # what grows with images has a slope, by which its time limit is known
    assert found == {"align": (0.5, 0.25), "figures": (2.5, 0.0), "scale": (1.0, 0.001)}


def test_tables_are_written_one_at_a_time(tmp_path, monkeypatch):
    path = Path(shutil.copy(measured.__file__, tmp_path))
    monkeypatch.setattr(measured, "__file__", str(path))
    rows = {key: mb + 7 for key, mb in measured.LIBRARIES_MB.items()}
    libraries.write_measured("LIBRARIES_MB", rows, ["Measured on a test.", "With 2 lines."])
    written = runpy.run_path(str(path))
    assert (written["LIBRARIES_MB"], written["SECONDS"]) == (rows, measured.SECONDS)
    assert "\n# Measured on a test.\n# With 2 lines.\nLIBRARIES_MB: " in path.read_text()
    libraries.write_measured("LIBRARIES_MB", measured.LIBRARIES_MB, ["x"])
    libraries.write_measured("SECONDS", measured.SECONDS, ["y"])
    again = runpy.run_path(str(path))
    assert again["LIBRARIES_MB"] == measured.LIBRARIES_MB
    assert again["SECONDS"] == measured.SECONDS
