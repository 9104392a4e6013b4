"""What checks say about machines that are not this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from unglow.core.mounts import Mount
from unglow.core.version import __version__
from unglow.doctor import cluster, machine, software, storage
from unglow.doctor.cluster import Told
from unglow.doctor.finding import Level

OK, WARNING, FAULT = Level.OK, Level.WARNING, Level.FAULT
NFS = Mount("/data", "nfs4", "server:/export", frozenset({"rw", "local_lock=all"}))
PLACE = storage.Place("results", Path("/data/results"), NFS)
LOCAL = storage.Place("work", Path("/w"), Mount("/", "ext4", "/dev/sda1", frozenset({"rw"})))
GOOD_NAMES = dict.fromkeys(("renaming", "exclusive creation", "other letters", "hard links"), True)


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
    found = software.versions(asked, present)
    assert (found.level, words in found.found) == (level, True)
    assert ("pip install" in found.remedy) is (level is FAULT)


def test_a_workflow_of_another_version_is_a_fault(tmp_path):
    (tmp_path / "rules").mkdir()
    for version, level in ((__version__, OK), ("0.0.1", FAULT)):
        (tmp_path / "rules" / "common.smk").write_text(f'import x\n\nVERSION = "{version}"\n')
        assert software.workflow(tmp_path).level is level
    assert software.workflow(tmp_path / "gone").level is WARNING
    assert software.workflow(None).level is OK


def test_an_opencv_that_another_package_has_written_over():
    build = "  GUI:      QT5\n    Baseline:    SSE SSE2\n    Dispatched code generation:  AVX2\n"
    found = software.opencv("4.12.0", build, ["opencv-python"], 8, "pip uninstall")
    assert found.level is WARNING
    assert found.found.startswith(
        "4.12.0, with windows (QT5), 8 threads (jobs set 1), baseline SSE"
    )
    assert (
        software.opencv("5", build.replace("QT5", "NONE"), [], 2, "x").found.count("headless") == 1
    )


def told(name="openblas", kernels="Haswell", **variables):
    blas = {"name": name, "version": "0.3", "kernels": kernels}
    return {"blas": blas, "processor": {"features": ["avx2"]}, "variables": variables}


@pytest.mark.parametrize(
    ("what", "level"),
    [
        (told(), OK),
        (told(kernels="Prescott"), WARNING),
        (told(name="blas", kernels=None), WARNING),
        (told(OPENBLAS_CORETYPE="Haswell"), WARNING),
    ],
)
def test_linear_algebra_that_does_not_suit(what, level):
    assert software.linear_algebra(what).level is level


@pytest.mark.parametrize(
    ("missing", "level"), [("", OK), ("WEBP", WARNING), ("ZSTD", FAULT), ("JPEGXL", WARNING)]
)
def test_codecs_that_are_missing(missing, level):
    available = {name: name != missing for name in ("LZW", "ZSTD", "JPEG8", "WEBP", "JPEGXL")}
    found = software.codecs(available)
    assert (found.level, "imagecodecs" in found.remedy) == (level, bool(missing))


@pytest.mark.parametrize(
    ("count", "remedy"),
    [
        ((8, 8, None, 7.9), ""),
        ((8, 8, None, 3.1), "see which (`top`), or use --cores 3"),
        ((64, 64, 2.5, 2.5), "snakemake --cores 2"),
        ((64, 64, 0.5, 0.5), "snakemake --cores 1"),
        ((64, 4, 8.0, 4.0), ""),
        ((200, 200, None, 64.0), ""),
    ],
)
def test_processors_that_are_not_got(count, remedy):
    assert machine.usable(*count).remedy == remedy


def test_variables_that_bind_threads():
    counts = {"OMP_NUM_THREADS": "8", "OPENBLAS_NUM_THREADS": "4", "HOME": "/"}
    found = machine.threads(counts | {"OMP_PROC_BIND": "false"})
    assert found.level is OK
    assert found.found.startswith("the shell sets OMP_NUM_THREADS=8, OPENBLAS_NUM_THREADS=4;")
    found = machine.threads({"OMP_PROC_BIND": "close", "KMP_AFFINITY": "compact"})
    assert (found.level, found.remedy) == (WARNING, "unset KMP_AFFINITY OMP_PROC_BIND")


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
    found = machine.memory(16000.0, 8000.0, available)
    assert (found.level, found.remedy) == (level, remedy)
    assert found.found.startswith("16000 MB in the machine, 8000 granted")


SWAP = {"SwapTotal": 1000.0, "SwapFree": 900.0, "CommitLimit": 9000.0, "Committed_AS": 8000.0}


@pytest.mark.parametrize(
    ("given", "level", "words"),
    [
        (("0", SWAP, 0.0, {}), OK, "swap 100 of 1000 MB used, pressure 0 %, overcommit 0"),
        (("2", SWAP, None, {}), WARNING, "pressure not told, overcommit 2; the system promises"),
        (("1", SWAP, 25.0, {}), WARNING, "programs wait for memory"),
        (("1", SWAP | {"SwapFree": 100.0}, 0.0, {}), WARNING, "swap fills up"),
        (("0", {}, 0.0, {"-v": 4000.0}), OK, "swap 0 of 0"),
        (("0", {}, 0.0, {"-v": 4000.0, "-d": 900.0}), WARNING, "ulimit -d is 900 MB"),
        (("0", {}, 0.0, {"-v": 100.0}), FAULT, "ulimit -v is 100 MB"),
    ],
)
def test_rules_by_which_memory_is_given_out(given, level, words):
    found = machine.given_out(*given)
    assert (found.level, words in found.found) == (level, True)


def test_few_open_files_and_another_encoding():
    assert machine.open_files(256).remedy == "ulimit -n 4096"
    assert machine.open_files(4096).level is OK
    assert machine.text("ISO-8859-1", "utf-8").remedy == "export LC_ALL=C.UTF-8"
    assert machine.text("ANSI_X3.4-1968", "ascii").level is WARNING
    assert machine.text("UTF-8", "utf-8").level is OK


@pytest.mark.parametrize(
    ("free_mb", "files", "level"),
    [(9e4, 9e5, OK), (9e4, None, OK), (3000, 9e5, WARNING), (9e4, 50, WARNING), (100, 9e5, FAULT)],
)
def test_room(free_mb, files, level):
    found = storage.room(PLACE, free_mb, files)
    assert found.level is level
    assert found.found.startswith("/data/results: nfs4 on server:/export, remote, ")


@pytest.mark.parametrize(
    ("numbers", "level"),
    [((200, 500, 0.01), OK), ((5, 500, 0.01), WARNING), ((200, 9, 0.01), WARNING),
     ((200, 500, 0.3), WARNING)],
)  # fmt: skip
def test_a_slow_disk(numbers, level):
    assert storage.speed(LOCAL, *numbers).level is level


def test_locks_that_do_not_hold():
    assert storage.locking(LOCAL, {"flock": True, "lockf": True}).level is OK
    found = storage.locking(LOCAL, {"flock": None, "lockf": False})
    assert (found.level, found.name) == (WARNING, "locks of work")
    assert found.found.startswith("flock is not there, lockf lets a second process in; ")
    assert "local_lock=all" in storage.locking(PLACE, {"flock": True, "lockf": True}).found


@pytest.mark.parametrize(
    ("broken", "distinct", "level"),
    [
        ("", True, OK),
        ("", False, WARNING),
        ("hard links", True, OK),
        ("other letters", True, WARNING),
        ("renaming", True, FAULT),
        ("exclusive creation", True, FAULT),
    ],
)
def test_names(broken, distinct, level):
    works = GOOD_NAMES | ({broken: False} if broken else {})
    assert storage.named(LOCAL, works, distinct=distinct).level is level


def test_clocks_that_differ():
    assert storage.clock(PLACE, 1.0).level is OK
    assert storage.clock(PLACE, -90.0).found.startswith("times of files differ by 90.0 s")
    assert storage.clock(PLACE, 2.5).level is WARNING


def test_snakemakes_lock_counts_only_if_nobody_is_at_work(tmp_path):
    free = storage.lock(tmp_path, locked=False, busy="", cache=None)
    busy = storage.lock(tmp_path, locked=True, busy="Snakemake (process 7) is at work", cache=None)
    stale = storage.lock(tmp_path, locked=True, busy="", cache=None)
    assert [one.level for one in (free, busy, stale)] == [OK, OK, WARNING]
    assert storage.lock(tmp_path, locked=False, busy="", cache="no").level is FAULT


SETTINGS = {"SelectTypeParameters": "CR_CORE_MEMORY", "ConstrainRAMSpace": "yes"}
PARTITIONS = "PartitionName=main Default={default} MaxTime={time} State={state}\n"


def test_slurm_that_does_not_answer():
    found = cluster.controller(Told(None, None, None, None), plugin=True)
    assert (found.level, found.found) == (WARNING, "sbatch is here, but no controller answers")
    young = Told("SLURM_VERSION = 22.05.8\nMinJobAge   = 5 sec\nClusterName = c", "", "", "")
    found = cluster.controller(young, plugin=False)
    assert found.found.startswith("22.05.8, cluster c; Snakemake has no plugin for it; it forgets")


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        (SETTINGS, OK),
        (SETTINGS | {"SelectTypeParameters": "CR_CPU"}, WARNING),
        (SETTINGS | {"ConstrainRAMSpace": "no"}, WARNING),
        ({"SelectTypeParameters": "CR_MEMORY", "JobAcctGatherParams": "OverMemoryKill"}, OK),
    ],
)
def test_a_slurm_that_does_not_count_memory(settings, level):
    assert cluster.memory(settings).level is level


@pytest.mark.parametrize(
    ("how", "level"),
    [
        (("YES", "1-00:00:00", "UP"), OK),
        (("YES", "UNLIMITED", "UP"), OK),
        (("YES", "00:30:00", "UP"), WARNING),
        (("YES", "1-00:00:00", "DOWN"), WARNING),
        (("NO", "1-00:00:00", "UP"), WARNING),
    ],
)
def test_partitions(how, level):
    text = PARTITIONS.format(**dict(zip(("default", "time", "state"), how, strict=True)))
    assert cluster.partitions(text).level is level
    assert cluster.partitions("").level is FAULT


@pytest.mark.parametrize(
    ("enforced", "accounts", "sacct", "level"),
    [
        ("none", "", "", OK),
        ("associations,limits", "mylab\n", "", OK),
        ("associations", "", "", WARNING),
        ("none", "mylab", None, WARNING),
    ],
)
def test_accounts(enforced, accounts, sacct, level):
    told = Told("x", "", sacct, accounts)
    assert cluster.accounting({"AccountingStorageEnforce": enforced}, told).level is level
