"""Why a job does nothing: real jobs that are stopped, locked out, starved, or wait for the kernel;
and what a machine would tell whose server does not answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hanging_disk import hanging

from unglow.core import process
from unglow.core.mounts import mount_of, mounts
from unglow.jobs import stall_reason as why
from unglow.jobs.stall_reason import Look, look, reason

LOCKED = "file = open({path!r}, 'w'); fcntl.{kind}(file, fcntl.LOCK_EX); "
# While a child is made that waits for somebody to write into a pipe, its parent cannot be woken.
UNWAKABLE = """
os.mkfifo({path!r})
os.posix_spawn("/bin/true", ["true"], {{}},
               file_actions=[(os.POSIX_SPAWN_OPEN, 0, {path!r}, os.O_RDONLY, 0)])
"""


@pytest.fixture
def started():
    """Start Python with some code; everything that was started is ended."""
    running = []

    def start(code, **how):
        code = f"import fcntl, os, time\n{code}"
        running.append(subprocess.Popen([sys.executable, "-c", code], **how))
        return running[-1].pid

    start.running = running
    yield start
    for one in running:
        one.kill()
        one.wait()


def seen(pids, true, seconds=30.0):
    """Look until something is true, for a while; return the look before it, and that one."""
    before, deadline = look(pids), time.monotonic() + seconds
    while not true(now := look(pids)):
        assert time.monotonic() < deadline, now
        time.sleep(0.01)
        before = now
    return replace(before, state=now.state), now


def test_a_process_that_was_stopped(started):
    pid = started("print(1, flush=True); time.sleep(600)", stdout=subprocess.PIPE)
    os.kill(pid, signal.SIGSTOP)
    said = reason(*seen([pid], lambda now: now.state == "T"), pid)
    assert said.reason == why.STOPPED
    assert f"`kill -CONT {pid}`" in said.helps


@pytest.mark.parametrize("kind", ["flock", "lockf"])
def test_a_lock_is_told_with_its_file_and_who_holds_it(kind, started, tmp_path):
    path = str(tmp_path / "some file")
    locked = LOCKED.format(path=path, kind=kind)
    holder = started(f"{locked}print(1, flush=True); time.sleep(600)", stdout=subprocess.PIPE)
    started.running[-1].stdout.readline()
    pid = started(locked)
    said = reason(*seen([pid], lambda now: now.holder is not None), pid)
    assert said.reason == why.LOCK
    assert said.message.startswith(f"it waits for a lock ({path}) that process {holder} holds")


def test_a_process_that_others_leave_no_processor(started):
    core = min(os.sched_getaffinity(0))
    for _ in range(2):
        started(f"os.sched_setaffinity(0, [{core}])\nwhile True: pass")
    pid = started(f"os.sched_setaffinity(0, [{core}]); os.nice(19)\nwhile True: pass")
    before, _ = seen([pid], lambda now: now.state == "R" and now.delay_s > 0.2)
    said = reason(before, seen([pid], lambda now: now.delay_s > before.delay_s + 0.2)[1], pid)
    assert said.reason == why.PROCESSOR
    assert "--cores" in said.helps


def test_a_process_that_nothing_can_wake(started, tmp_path):
    path = str(tmp_path / "pipe")
    pid = started(UNWAKABLE.format(path=path))
    said = reason(*seen([pid], lambda now: now.state == "D"), pid)
    assert said.reason == why.DISK
    Path(path).write_bytes(b"")


def test_a_server_that_is_gone(started, tmp_path):
    with hanging(tmp_path):
        pid = started(f"os.stat('{tmp_path}/x')")
        said = reason(*seen([pid], lambda now: any("fuse" in one for one in now.within)), pid)
    assert said.reason == why.NETWORK
    assert "its server answers" in said.helps


def test_a_process_that_sleeps_says_no_more(started):
    pid = started("print(1, flush=True); time.sleep(600)", stdout=subprocess.PIPE)
    said = reason(*seen([pid], lambda now: now.state == "S"), pid)
    assert said.reason == ""
    assert "a fault of the program" in said.helps


def test_a_process_that_is_gone_has_no_state():
    with subprocess.Popen(["true"]) as gone:
        pass
    assert look([gone.pid]).state == ""


# ------------------------------------------------------------------- what other machines would tell

BEFORE = Look(t=100.0, state="D")


def after(**changes):
    return replace(BEFORE, t=130.0, **changes)


@pytest.mark.parametrize(
    ("now", "word"),
    [
        (after(), why.DISK),
        (after(within=frozenset({"rpc_wait_bit_killable"})), why.NETWORK),
        (after(within=frozenset({"request_wait_answer"}), state="S"), why.NETWORK),
        (after(within=frozenset({"folio_wait_bit_common"})), why.DISK),
        (after(file="/mnt/x.tif", remote=True), why.NETWORK),
        (after(state="R", delay_s=9.1), why.PROCESSOR),
        (after(state="T", holder=(7, "/x")), why.STOPPED),
        (after(holder=(7, "")), why.LOCK),
        (after(state=""), ""),
    ],
)
def test_what_is_waited_for_is_judged_by_what_the_kernel_counts(now, word):
    assert reason(replace(BEFORE, state="S"), now, 17).reason == word


def test_one_moment_in_which_a_sleeper_is_awake_does_not_make_it_starve():
    before = replace(BEFORE, state="S", delay_s=1.0)
    assert reason(before, after(state="R", delay_s=9.0), 17).reason == ""
    assert reason(before, after(state="R", delay_s=11.0), 17).reason == why.PROCESSOR


def test_the_file_is_part_of_what_is_told():
    said = reason(BEFORE, after(file="/d/x.tif"), 17)
    assert said.message == "it waits for a disk (/d/x.tif), or for memory"


MOUNTINFO = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:31 / /data rw,relatime shared:9 - nfs4 server:/export rw,vers=4.2,local_lock=none
24 22 0:32 / /my\\040disk rw - fuse.sshfs me@host: rw
25 23 8:1 / /data/scratch rw - xfs /dev/sdb1 rw
26 22 8:2 / /data ro - xfs /dev/sdc1 ro
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind", "remote"),
    [
        ("/data2/x", "ext4", False),
        ("/data/scratch/x", "xfs", False),
        ("/my disk/x", "fuse.sshfs", True),
        ("/data/x", "xfs", False),  # mounted over the other
    ],
)
def test_the_file_system_of_a_path_is_the_nearest_above_it(path, kind, remote):
    mount = mount_of(path, mounts(MOUNTINFO))
    assert (mount.kind, mount.remote) == (kind, remote)


def test_a_path_is_on_a_network_drive_whose_options_are_known():
    mount = mount_of("/data/x", mounts(MOUNTINFO)[:2])
    assert (mount.source, mount.remote) == ("server:/export", True)
    assert {"vers=4.2", "relatime"} <= mount.options
    assert mount_of("/data", []) is None


TREE = {
    "7/task/7/stat": "7 (python) D 1 2 3 4 5 6 7 8 30 10 0 0 0 0 20 0 2 0 77 0",
    "7/task/7/wchan": "folio_wait_bit_common",
    "7/task/7/syscall": f"{0 if os.uname().machine == 'x86_64' else 63} 0x5 0x1 0x2 0x7f 0x7f",
    "7/task/7/schedstat": "5000000 2000000000 9",
    "7/task/8/stat": "8 (python) S 1 2 3 4 5 6 7 8 0 0 0 0 0 0 20 0 2 0 77 0",
    "7/task/8/wchan": "futex_do_wait",
    "self/mountinfo": MOUNTINFO.replace("8:2 / /data", "8:2 / /else"),
}


@pytest.fixture
def told(tmp_path, monkeypatch):
    """A /proc as another machine has it, with a process 7 that reads file 5."""
    for name, text in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "7/fd").mkdir()
    (tmp_path / "7/fd/5").symlink_to("/data/raw/x.tif")
    (tmp_path / "7/fd/6").symlink_to("socket:[7]")
    for module in (process, why):
        monkeypatch.setattr(module, "PROC", tmp_path)
    return tmp_path


def test_all_that_the_kernel_tells_is_read(told):
    now = look([7])
    assert (now.state, now.file, now.remote) == ("D", "/data/raw/x.tif", True)
    assert now.within == {"folio_wait_bit_common"}
    assert now.delay_s == 2.0


def test_where_a_call_cannot_be_seen_an_open_remote_file_is_named(told):
    (told / "7/task/7/syscall").write_text("running\n")
    assert look([7]).file == "/data/raw/x.tif"
    (told / "7/task/7/stat").write_text(TREE["7/task/8/stat"])
    assert look([7]).file == ""


def test_where_nothing_is_told_nothing_is_known(tmp_path, monkeypatch):
    for module in (process, why):
        monkeypatch.setattr(module, "PROC", tmp_path)
    now = look([7])
    assert replace(now, t=0.0) == Look(t=0.0)
