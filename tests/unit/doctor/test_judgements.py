"""What checks say about machines that are not this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from unglow import doctor as checks
from unglow.core.machine import Mount
from unglow.doctor import Level

OK, WARNING, FAULT = Level.OK, Level.WARNING, Level.FAULT
NFS = Mount("/data", "nfs4", "server:/export", frozenset({"rw", "local_lock=all"}))
PLACE = checks.Place("results", Path("/data/results"), NFS)
LOCAL = checks.Place("work", Path("/w"), Mount("/", "ext4", "/dev/sda1", frozenset({"rw"})))


@pytest.mark.parametrize(
    ("present", "level", "words"),
    [
        ({"numpy": "2.3", "snakemake": "9.20"}, OK, "numpy 2.3"),
        ({"numpy": "2.3", "snakemake": "10.0"}, FAULT, "snakemake is 10.0"),
        ({"numpy": "2.1.9", "snakemake": "9.17"}, FAULT, "numpy is 2.1.9"),
        ({"snakemake": "9.17"}, FAULT, "numpy is missing"),
    ],
)
def test_versions_are_compared_with_what_is_asked_for(present, level, words):
    asked = ["numpy>=2.2", "snakemake<10,>=9.17", "tomli; python_version < '3'", "x; extra == 'y'"]
    found = checks.versions(asked, present)
    assert (found.level, words in found.found) == (level, True)
    assert ("pip install" in found.remedy) is (level is FAULT)


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
        (1500, WARNING, "end other programs, or --config memory_per_job=1200"),
        (310, WARNING, "end other programs, or --config memory_per_job=300"),
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


def test_an_opencv_that_another_package_has_overwritten():
    build = "  GUI:      QT5\n    Baseline:    SSE SSE2\n  Parallel framework:   pthreads\n"
    found = checks.judge_opencv("4.12.0", build, ["opencv-python"], "pip uninstall")
    assert found.level is WARNING
    assert found.found.startswith("4.12.0, with windows (QT5), parallel framework pthreads; opencv")
    plain = checks.judge_opencv("5", build.replace("QT5", "NONE"), [], "x")
    assert (plain.level, plain.found) == (OK, "5, headless, parallel framework pthreads")
    assert checks.judge_opencv("5", "", [], "x").found.endswith("framework NONE")


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
