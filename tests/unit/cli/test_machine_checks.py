"""`unglow doctor` on this machine as it is given, and what its checks say about other machines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hanging_disk import hanging, small

from unglow import __version__, cli
from unglow.cli import machine_checks as checks
from unglow.cli.machine_checks import FAULT, OK, WARNING
from unglow.core.machine import read_processor_quota

CODE = "import sys; from unglow.cli import main; sys.exit(main(sys.argv[1:]))"


def doctor(directory, *words, **variables):
    """Run the command; return its exit status and what it found, by name."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, "doctor", "--json", "--patience", "120", *words],
        cwd=directory, env=os.environ | variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.returncode, {one["name"]: one for one in json.loads(done.stdout)}


def test_this_machine_is_looked_at_and_nothing_is_left(tmp_path):
    status, found = doctor(tmp_path)
    assert status == int(any(one["level"] == "fault" for one in found.values()))
    assert found["versions"]["level"] == "ok"
    assert found["versions"]["found"].startswith(f"unglow {__version__}, Python 3.")
    assert found["loops in C"]["found"].partition(" ")[0].isdigit()
    assert "no locks" not in found["disk of working directory"]["found"]
    assert all(bool(one["remedy"]) is (one["level"] != "ok") for one in found.values())
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_has_logs_and_records_and_no_pixels(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    kept = ("logs/s/d/register.log", "results/telemetry/s/d/register/1.jsonl", "config/config.yaml")
    more = {"results/s/d/details/plan.json", "results/s/d/scale.json", "results/t/slide.json"}
    left = ("results/telemetry/report_pictures.json", "results/s/d/post.ome.zarr/c/0/0")
    for name in (*kept, *more, *left, "raw/s/s_post_d.tif"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    cli.main(["doctor", "--results", "results", "--patience", "120", "--bundle", "b.zip"])
    assert capsys.readouterr().out.splitlines()[-1] == "b.zip"
    with zipfile.ZipFile("b.zip") as bundle:
        assert json.loads(bundle.read("doctor.json"))
        names = set(bundle.namelist())
    assert names == {"doctor.json", f"work/{kept[0]}", kept[1], f"work/{kept[2]}", *more}


def test_faults_of_the_installation_come_with_what_helps(tmp_path):
    broken = tmp_path / "loops.so"
    broken.write_bytes(b"\x7fELF")
    status, found = doctor(tmp_path, UNGLOW_KERNELS=str(broken))
    assert status == 1
    loops = found["loops in C"]
    assert (loops["level"], str(broken) in loops["found"]) == ("fault", True)
    assert loops["remedy"].startswith("unset UNGLOW_KERNELS")


def test_results_on_a_server_that_is_gone_are_a_fault_and_no_wait(tmp_path):
    place = tmp_path / "server"
    place.mkdir()
    with hanging(place):
        words = ("doctor", "--patience", "4", "--results", str(place / "results"))
        done = subprocess.run(  # waits until all who may write to the pipe have gone
            [sys.executable, "-c", CODE, *words],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip
    assert done.returncode == 1
    assert "fault    disk of results: has not answered in time" in done.stdout
    assert "ok       versions: " in done.stdout


@pytest.fixture
def small_disk(tmp_path):
    with small(tmp_path / "disk", "1m") as place:
        yield place


def test_a_full_disk_in_memory_is_seen(small_disk):
    (small_disk / "filler").write_bytes(bytes(os.statvfs(small_disk).f_bavail * 4096))
    found = checks.check_disk("results", small_disk / "results")
    assert (found.level, "free space" in found.remedy) == (FAULT, True)
    for words in ("tmpfs on tmpfs, 0.0 GB free", "too little", "takes memory"):
        assert words in found.found
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


@pytest.fixture
def held_back(tmp_path):
    """A control group of version 1 that may use one and a half processors."""
    place = Path("/sys/fs/cgroup/cpu", tmp_path.name)
    try:
        place.mkdir()
    except OSError as error:
        pytest.skip(f"no control groups of version 1 here: {error.strerror}")
    (place / "cpu.cfs_quota_us").write_text("150000")
    yield place
    place.rmdir()


def test_a_limit_on_processors_is_read_from_the_group(held_back):
    code = "from unglow.core.machine import read_processor_quota; print(read_processor_quota())"
    enter = f"echo $$ > {held_back}/cgroup.procs && exec '{sys.executable}' -c '{code}'"
    done = subprocess.run(["sh", "-c", enter], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1.5"]
    assert read_processor_quota() is None or read_processor_quota() > 0


@pytest.mark.parametrize(
    ("count", "remedy"),
    [
        ((8, 8, None, 2), ""),
        ((8, 8, None, 5), "see which (`top`), or use --cores 3"),
        ((64, 64, 0.5, 0), "snakemake --cores 1"),
        ((64, 4, None, 63), "see which (`top`), or use --cores 1"),
    ],
)
def test_processors_that_others_use(count, remedy):
    assert checks.judge_processors(*count).remedy == remedy


@pytest.mark.parametrize(
    ("available", "level", "remedy"),
    [
        (5000, OK, ""),
        (1500, WARNING, "end other programs, or use --config memory_per_job=1200"),
        (310, WARNING, "end other programs, or use --config memory_per_job=300"),
        (200, FAULT, "end other programs, or ask for more"),
    ],
)
def test_memory_that_is_short(available, level, remedy):
    found = checks.judge_memory(8000.0, available)
    assert (found.level, found.remedy) == (level, remedy)


def test_clocks_that_differ_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "_find_skew_s", lambda _: -90.0)
    found = checks.check_disk("results", tmp_path)
    assert (found.level, "differ by -90.0 s" in found.found) == (WARNING, True)


@pytest.mark.parametrize(
    ("limit", "level", "words"),
    [("-v 4000000", OK, ""), ("-v 1200000", WARNING, "ulimit -v"), ("-n 256", WARNING, "run out")],
)
def test_limits_of_the_shell_are_read(limit, level, words):
    code = "from unglow.cli.machine_checks import check_limits; print(*check_limits()[1:3])"
    command = f"ulimit {limit} && exec '{sys.executable}' -c '{code}'"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(level)
    assert words in done.stdout


def test_what_pip_finds_wrong_for_unglow_is_a_fault(tmp_path):
    # in place of pip, which fails here: it does not know the tag of ITK's wheel
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").touch()
    place = tmp_path / "pip" / "__main__.py"
    wrong = "unglow 0.1.0 has requirement numpy>=2.2, but you have numpy 2.1.9."
    place.write_text(f"print('other 1 requires x, which is not installed.\\n{wrong}')")
    status, found = doctor(tmp_path, PYTHONPATH=str(tmp_path))
    assert (status, found["versions"]["level"]) == (1, "fault")
    assert "numpy 2.1.9" in found["versions"]["found"]
    assert "other" not in found["versions"]["found"]
    place.write_text("raise SystemExit(2)")
    status, found = doctor(tmp_path, PYTHONPATH=str(tmp_path))
    assert (status, found["versions"]["level"]) == (0, "ok")
    assert "was not compared" in found["versions"]["found"]


def test_an_opencv_that_cannot_be_loaded_is_a_fault(tmp_path):
    (tmp_path / "cv2.py").write_text("raise ImportError('libGL.so.1')")
    status, found = doctor(tmp_path, PYTHONPATH=str(tmp_path))
    assert (status, found["OpenCV"]["level"]) == (1, "fault")
    assert "libGL.so.1" in found["OpenCV"]["found"]
    assert "opencv-python-headless" in found["OpenCV"]["remedy"]


def test_the_parallel_framework_of_opencv_is_named():
    assert checks.check_opencv().found.endswith("parallel framework pthreads")
