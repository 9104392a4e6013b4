"""`unglow doctor` on this machine as it is given, and what its checks say about other machines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hanging_disk import hanging, small

from unglow import __version__, cli
from unglow import doctor as checks
from unglow.cli.doctor import examine
from unglow.core.kernels import library_path
from unglow.core.machine import Mount, read_processor_quota
from unglow.doctor import Level, check, places

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
    (locks,) = (one for name, one in found.items() if name.startswith("locks of working directory"))
    assert locks["found"] == "flock works, lockf works"
    assert all(bool(one["remedy"]) is (one["level"] != "ok") for one in found.values())
    assert list(tmp_path.iterdir()) == []


def test_faults_of_the_installation_come_with_what_helps(tmp_path):
    broken = tmp_path / "loops.so"
    broken.write_bytes(b"\x7fELF")
    status, found = doctor(tmp_path, UNGLOW_KERNELS=str(broken))
    assert status == 1
    loops = found["loops in C"]
    assert (loops["level"], str(broken) in loops["found"]) == ("fault", True)
    assert loops["remedy"].startswith("unset UNGLOW_KERNELS")


def test_people_read_a_line_for_each_check_and_one_for_each_remedy(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNGLOW_KERNELS", str(library_path()))
    status = cli.main(["doctor", "--results", str(tmp_path), "--patience", "120"])
    lines = capsys.readouterr().out.splitlines()
    assert status == int(any(line.startswith("fault ") for line in lines))
    (at,) = (n for n, line in enumerate(lines) if line.startswith("warning  loops in C: "))
    assert lines[at + 1] == "         -> unset UNGLOW_KERNELS"
    assert not any(line.startswith("ok") and "->" in after for line, after in pairwise(lines))


def test_what_does_not_answer_holds_nobody_up(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "_skew_s", lambda path: time.sleep(600))
    found = {one.name: one for one in examine(tmp_path, tmp_path, patience_s=2.0)}
    (silent,) = (one for one in found.values() if one.found == "has not answered in time")
    assert silent.name.startswith("disk of working directory, results")
    assert (silent.level, "--patience" in silent.remedy) == (Level.FAULT, True)
    assert "versions" in found


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


def test_a_full_disk_and_one_in_memory_are_seen(small_disk, tmp_path):
    on_disk, in_memory = places({"work": tmp_path, "raw": tmp_path / "x", "results": small_disk})
    assert (on_disk.use, in_memory.use) == ("work, raw", "results")
    (small_disk / "filler").write_bytes(bytes(os.statvfs(small_disk).f_bavail * 4096))
    room, *_, full = check(in_memory)
    assert room.level is Level.FAULT
    for words in ("tmpfs on tmpfs, local, 0.0 GB free", "too little", "takes memory"):
        assert words in room.found
    assert (full.level, full.remedy) == (Level.FAULT, "free space")
    assert "No space left on device" in full.found
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


OK, WARNING, FAULT = Level.OK, Level.WARNING, Level.FAULT
NFS = Mount("/data", "nfs4", "server:/export", frozenset({"rw", "local_lock=all"}))
PLACE = checks.Place("results", Path("/data/results"), NFS)
LOCAL = checks.Place("work", Path("/w"), Mount("/", "ext4", "/dev/sda1", frozenset({"rw"})))


def test_what_pip_finds_wrong_for_unglow_is_a_fault(tmp_path):
    # in place of pip, which fails here: it does not know the tag of ITK's wheel
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").touch()
    place = tmp_path / "pip" / "__main__.py"
    place.write_text("print('unglow 0.1.0 has requirement numpy>=2.2, but you have numpy 2.1.9.')")
    status, found = doctor(tmp_path, PYTHONPATH=str(tmp_path))
    assert (status, found["versions"]["level"]) == (1, "fault")
    assert "numpy 2.1.9" in found["versions"]["found"]
    place.write_text("raise SystemExit(2)")
    status, found = doctor(tmp_path, PYTHONPATH=str(tmp_path))
    assert (status, found["versions"]["level"]) == (0, "ok")
    assert "was not compared" in found["versions"]["found"]
    assert checks.list_broken("other 1 requires x, which is not installed.\n") == []


@pytest.mark.parametrize(
    ("count", "remedy"),
    [
        ((8, 8, None, 2), ""),
        ((8, 8, None, 5), "see which (`top`), or use --cores 3"),
        ((64, 64, 2.5, 0), "snakemake --cores 2"),
        ((64, 64, 0.5, 0), "snakemake --cores 1"),
        ((64, 4, 8.0, 19), ""),
        ((64, 4, None, 63), "see which (`top`), or use --cores 1"),
    ],
)
def test_processors_that_others_use(count, remedy):
    assert checks.usable(*count).remedy == remedy


@pytest.mark.parametrize(
    ("available", "level", "remedy"),
    [
        (5000, OK, ""),
        (1500, WARNING, "end other programs, or use --config memory_per_job=1200"),
        (310, WARNING, "end other programs, or use --config memory_per_job=300"),
        (200, FAULT, "end other programs, or ask for more memory"),
    ],
)
def test_memory_that_is_short(available, level, remedy):
    found = checks.memory(16000.0, 8000.0, available)
    assert (found.level, found.remedy) == (level, remedy)
    assert found.found.startswith("16000 MB in the machine, 8000 granted")


@pytest.mark.parametrize(
    ("free_mb", "files", "level"),
    [(9e4, 9e5, OK), (9e4, None, OK), (3000, 9e5, WARNING), (9e4, 50, WARNING), (100, 9e5, FAULT)],
)
def test_room(free_mb, files, level):
    found = checks.room(PLACE, free_mb, files)
    assert found.level is level
    assert found.found.startswith("/data/results: nfs4 on server:/export, remote, ")


def test_locks_that_do_not_hold():
    assert checks.locking(LOCAL, {"flock": True, "lockf": True}).level is OK
    found = checks.locking(LOCAL, {"flock": None, "lockf": False})
    assert (found.level, found.name) == (WARNING, "locks of work")
    assert found.found.startswith("flock is not there, lockf lets a second process in; ")
    assert "local_lock=all" in checks.locking(PLACE, {"flock": True, "lockf": True}).found


def test_clocks_that_differ():
    assert checks.clock(PLACE, 1.0).level is OK
    assert checks.clock(PLACE, -90.0).found.startswith("times of files differ by 90.0 s")
    assert checks.clock(PLACE, 2.5).level is WARNING


def test_an_opencv_that_cannot_be_loaded_is_a_fault(tmp_path):
    (tmp_path / "cv2.py").write_text("raise ImportError('libGL.so.1')")
    status, found = doctor(tmp_path, PYTHONPATH=str(tmp_path))
    assert (status, found["OpenCV"]["level"]) == (1, "fault")
    assert "libGL.so.1" in found["OpenCV"]["found"]
    assert "opencv-python-headless" in found["OpenCV"]["remedy"]


@pytest.mark.parametrize(
    ("given", "level", "words"),
    [
        ((4096, {}), OK, "4096 open files"),
        ((256, {}), WARNING, "may run out of files"),
        ((4096, {"-v": 4000.0, "-d": 900.0}), WARNING, "ulimit -d is 900 MB"),
        ((4096, {"-v": 100.0}), FAULT, "ulimit -v is 100 MB"),
    ],
)
def test_limits_that_are_too_low(given, level, words):
    found = checks.judge_limits(*given)
    assert (found.level, words in found.found) == (level, True)
