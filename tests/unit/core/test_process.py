"""What /proc reports of processes, what is known where there is none, and what machines offer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from unglow.core import machine, process
from unglow.core.machine import memory_total_mb, processors
from unglow.core.process import Process, Stat, boot_id, host, is_running, read_start_ticks


@pytest.fixture
def sleeper():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield child
    child.kill()
    child.wait()


@pytest.fixture(params=[True, False], ids=["proc", "no-proc"])
def mounted(request, tmp_path, monkeypatch):
    """With and without a /proc."""
    if not request.param:
        monkeypatch.setattr(process, "PROC", tmp_path / "none")
    return request.param


@pytest.mark.usefixtures("mounted")
def test_a_process_is_distinguished_from_others_by_machine_boot_number_and_start(sleeper):
    own = Process(host(), boot_id(), sleeper.pid, read_start_ticks(sleeper.pid))
    assert own.lives()
    for other in (
        replace(own, host="node9"),
        replace(own, boot="11111111-2222-3333-4444-555555555555"),
        replace(own, pid=os.getpid()),
        replace(own, started=own.started + 1),
        replace(own, started=None),
    ):
        assert not other.lives()
    sleeper.kill()
    end = time.monotonic() + 300
    while own.lives():
        assert time.monotonic() < end
    assert read_start_ticks(sleeper.pid) == own.started  # a zombie is there, but does not live
    sleeper.wait()
    assert read_start_ticks(sleeper.pid) is None
    assert not is_running(sleeper.pid, None)


@pytest.mark.usefixtures("mounted")
def test_processes_are_found_by_where_they_work(tmp_path):
    code = "import time; print(1, flush=True); time.sleep(600)"
    words = [sys.executable, "-c", code, "x y"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        ((found, command),) = process.working_in(tmp_path)
        child.kill()
    assert found.pid == child.pid
    assert command[:4] == words


def test_the_memory_of_the_machine_is_known(mounted):
    memory = process.meminfo_mb()
    assert 0 < memory["MemAvailable"] <= memory["MemTotal"]
    assert bool(process.status_mb()) is mounted
    assert bool(process.bytes_moved()) is mounted
    assert bool(process.thread_ids(os.getpid())) is mounted
    assert process.machine_oom_kills() >= 0


def test_the_fields_of_a_stat_are_behind_the_name():
    rest = "R 1 2 3 4 5 6 7 8 9 10 100 200 30 40 20 0 8 0 77 0"
    ticks = os.sysconf("SC_CLK_TCK")
    for name in ("x", "a) Z) S", "b \ufffd) b"):
        assert Stat.parse(f"1 ({name}) {rest}") == Stat("R", 370 / ticks, 77)
    for text in ("", "1 (x)", "1 (x) R", f"1 (x) {rest}".replace("77", "?")):
        assert Stat.parse(text) is None


def test_of_several_processors_the_first_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "PROC", tmp_path)
    assert process.cpuinfo() == {}
    text = "processor\t: 0\nflags\t\t: a b: c\npower management:\n\nprocessor\t: 1\nflags\t: d\n"
    (tmp_path / "cpuinfo").write_text(text)
    assert process.cpuinfo() == {"processor": "0", "flags": "a b: c", "power management": ""}


def test_memory_is_that_of_the_machine_or_of_its_container(tmp_path):
    whole = memory_total_mb(tmp_path)
    assert whole > 100
    (tmp_path / "memory.max").write_text("512000000\n")
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("512000000\n")
    assert memory_total_mb(tmp_path) == pytest.approx(512.0)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert memory_total_mb(tmp_path) == whole
    assert processors() >= 1


@pytest.mark.parametrize(
    ("membership", "group", "events", "text"),
    [
        ("0::/user.slice/job", "user.slice/job", "memory.events", "oom 3\noom_kill 2\n"),
        (
            "4:memory:/slurm/job\n0::/",
            "memory/slurm/job",
            "memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
        ),
    ],
)
def test_kills_are_counted_by_the_group_of_the_process_itself(
    tmp_path, monkeypatch, membership, group, events, text
):
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "cgroup").write_text(f"{membership}\n")
    monkeypatch.setattr(process, "PROC", tmp_path)
    assert machine.find_kills_file(77, tmp_path) is None  # so the machine has to be asked
    (tmp_path / group).mkdir(parents=True)
    counter = tmp_path / group / events
    counter.write_text(text)
    assert machine.find_kills_file(77, tmp_path) == counter
    assert machine.count_kills(counter) == 2
    (tmp_path / group).joinpath(events).unlink()
    (tmp_path / group).parent.joinpath(events).write_text("oom_kill 9\n")
    assert machine.find_kills_file(77, tmp_path) is None  # others are counted there as well
    assert machine.count_kills(counter) is None
