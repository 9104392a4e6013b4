"""The lock around a file: between processes and threads, and where a file system has none."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
import threading

import pytest

from unglow.core.errors import UnglowError
from unglow.core.files import lock_file, lock_of

HOLD = """
import sys
from pathlib import Path
from unglow.core.files import lock_file

with lock_file(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def held(tmp_path):
    """A file whose lock another process holds, and that process."""
    path = tmp_path / "a.csv"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout.readline() == "held\n"
    yield path, holder
    holder.kill()
    holder.communicate()


def test_a_wait_without_success_is_reported(held):
    path, _ = held
    with (
        pytest.raises(UnglowError, match="is being changed by another program"),
        lock_file(path, 0.1),
    ):
        pytest.fail("two hold it")


def test_a_lock_ends_with_its_process_however_that_ends(held):
    path, holder = held
    holder.kill()
    with lock_file(path):
        assert lock_of(path).exists()


def test_threads_of_a_process_take_turns_also_without_locks_of_the_file_system(
    tmp_path, monkeypatch
):
    def refused(*_):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    path = tmp_path / "count"
    path.write_text("0")

    def add():
        with lock_file(path):
            path.write_text(str(int(path.read_text()) + 1))

    threads = [threading.Thread(target=add) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() == "40"


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path):
    lock_of(tmp_path / "a.csv").symlink_to(tmp_path / "elsewhere")
    with (
        pytest.raises(UnglowError, match=r"a\.csv cannot be changed"),
        lock_file(tmp_path / "a.csv"),
    ):
        pytest.fail("it was followed")
    assert not (tmp_path / "elsewhere").exists()
