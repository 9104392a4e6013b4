"""Small files: whole or not at all, checked as they are read, locked; lists of their digests."""

from __future__ import annotations

import csv
import errno
import fcntl
import gc
import io
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from unglow.core import files
from unglow.core.digests import Listed
from unglow.core.errors import UnglowError
from unglow.core.files import (
    limit_lines,
    lock_file,
    lock_of,
    open_regular,
    replace_file,
    write_json,
    write_text,
)


def test_a_file_appears_only_when_it_is_whole(tmp_path):
    target = tmp_path / "deep" / "x.json"
    write_json(target, {"b": 1, "a": [0.1, None]})
    assert json.loads(target.read_text()) == {"b": 1, "a": [0.1, None]}

    with pytest.raises(ZeroDivisionError), replace_file(target) as temporary:
        temporary.write_bytes(bytes(1 // 0))
    assert json.loads(target.read_text())["b"] == 1
    assert [p.name for p in target.parent.iterdir()] == ["x.json"]


def test_a_file_that_is_read_is_opened_at_once_and_for_this_process_alone(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    path.chmod(0o400)
    descriptor = open_regular(path)
    try:
        assert os.read(descriptor, 9) == b"12345"
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        assert (flags & os.O_ACCMODE, flags & os.O_NONBLOCK) == (os.O_RDONLY, os.O_NONBLOCK)
        assert not os.get_inheritable(descriptor)
    finally:
        os.close(descriptor)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "none")


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for_and_closed_again(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    before = psutil.Process().num_fds()
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        open_regular(tmp_path)
    for odd in (path, "/dev/null"):
        with pytest.raises(OSError, match=r"\] it is not a regular file: ") as error:
            open_regular(odd)
        assert (error.value.errno, error.value.filename) == (errno.EINVAL, str(odd))
    assert psutil.Process().num_fds() == before


def test_a_directory_that_is_there_stays_and_those_above_are_made(tmp_path):
    for name in ("a/b/c.txt", "a/b/d.txt"):
        write_text(tmp_path / name, "é\udcff")
    assert (tmp_path / "a/b/c.txt").read_bytes() == "é\\udcff".encode()


def test_nan_is_refused_and_nothing_is_left(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_the_way_is_named_and_not_the_disk(tmp_path):
    (tmp_path / "transform.json").mkdir()
    with pytest.raises(UnglowError, match=r"transform\.json"):
        write_text(tmp_path / "transform.json", "x")
    (tmp_path / "pair").touch()
    for path in (tmp_path / "pair" / "x.csv", tmp_path / "pair" / "figures" / "x.png"):
        with pytest.raises(UnglowError, match=r"is in its place: move \S+/pair away, then run"):
            write_text(path, "x")
    with pytest.raises(UnglowError, match=r"its directory was moved or removed meanwhile"):
        vanish(tmp_path / "results" / "x.csv")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pair", "transform.json"]


def vanish(path):
    with replace_file(path) as temporary:
        temporary.unlink()
        path.parent.rmdir()


def test_text_files_have_the_permissions_of_any_new_file(tmp_path, monkeypatch):
    """The umask is that of the whole process: it is not set to 0, not even for a moment."""
    (tmp_path / "b").write_text("x")
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", lambda _mask: pytest.fail("the umask was changed"))
            write_text(tmp_path / "a", "x")
            with replace_file(tmp_path / "c") as temporary:
                assert temporary.stat().st_mode == (tmp_path / "a").stat().st_mode
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)
    write_text(tmp_path / "a", "x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_an_endless_line_is_refused_before_it_is_read():
    stream = io.StringIO("a,b\n1,2\n" + "\0" * 5_000_000)
    rows = csv.reader(limit_lines(stream), strict=True)
    assert [next(rows), next(rows)] == [["a", "b"], ["1", "2"]]
    with pytest.raises(csv.Error, match="a line is too long"):
        next(rows)
    assert stream.tell() < 1_100_000


def test_lines_in_quotation_marks_stay_one_cell():
    stream = io.StringIO('a\n"x\ny"\n', newline="")
    assert list(csv.reader(limit_lines(stream), strict=True)) == [["a"], ["x\ny"]]


HOLD = """import sys
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

    def add(_):
        with lock_file(path):
            path.write_text(str(int(path.read_text()) + 1))

    with ThreadPoolExecutor(40) as pool:
        list(pool.map(add, range(40)))
    assert path.read_text() == "40"
    gc.collect()
    assert not files._thread_locks


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path):
    lock_of(tmp_path / "a.csv").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnglowError, match=r"a\.csv"), lock_file(tmp_path / "a.csv"):
        pytest.fail("it was followed")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", ["a\0b", "../a", "/a", ""])
def test_a_name_that_is_none_of_a_file_below_is_left_out(tmp_path, name):
    path = tmp_path / "details/digests/job.sha256"
    path.parent.mkdir(parents=True)
    path.write_text(f"# SHA-256 of 2 files\n{'0' * 64}  {name}\n{'1' * 64}  good\n")
    listed = Listed.read(path)
    assert list(listed.digests) == [tmp_path / "good"]
    assert not listed.whole


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        ("9" * 18, 10**18 - 1),
        *((text, None) for text in ("", "-1", "1.0", "\u0663", "9" * 5000, " 1", "1_0")),
    ],
)
def test_a_whole_number_is_digits_and_not_thousands_of_them(text, number):
    assert files.parse_whole(text) == number
