"""Whole-or-nothing files, and what the machine offers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from unglow import cgroups
from unglow.errors import UnglowError
from unglow.files import replacing, write_json, write_text
from unglow.machine import memory_total_mb, processors


def test_a_file_appears_only_when_it_is_whole(tmp_path):
    target = tmp_path / "deep" / "x.json"
    write_json(target, {"b": 1, "a": [0.1, None]})
    assert json.loads(target.read_text()) == {"b": 1, "a": [0.1, None]}

    with pytest.raises(ZeroDivisionError), replacing(target) as temporary:
        temporary.write_bytes(bytes(1 // 0))
    assert json.loads(target.read_text())["b"] == 1
    assert [p.name for p in target.parent.iterdir()] == ["x.json"]


def test_nan_is_refused_and_nothing_is_left(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_on_disk_with_all_of_it_before_it_gets_its_name(tmp_path, monkeypatch):
    on_disk, events = {}, []
    sync, rename = os.fsync, Path.replace

    def noting_sync(descriptor):
        sync(descriptor)
        about = os.fstat(descriptor)
        on_disk[about.st_ino] = about.st_size

    def noting_rename(path, target):
        about = path.stat()
        events.append((Path(target).name, on_disk.get(about.st_ino) == about.st_size == 5))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", noting_sync)
    monkeypatch.setattr(Path, "replace", noting_rename)
    write_text(tmp_path / "x.txt", "12345")
    assert events == [("x.txt", True)]


def test_what_is_in_the_way_is_named_and_not_the_disk(tmp_path):
    (tmp_path / "transform.json").mkdir()
    with pytest.raises(
        UnglowError, match=r"is in its place: move \S+/transform.json away, then run"
    ):
        write_text(tmp_path / "transform.json", "x")
    (tmp_path / "pair").touch()
    for path in (tmp_path / "pair" / "x.csv", tmp_path / "pair" / "figures" / "x.png"):
        with pytest.raises(UnglowError, match=r"is in its place: move \S+/pair away, then run"):
            write_text(path, "x")
    with pytest.raises(UnglowError, match=r"its directory was moved or removed meanwhile"):
        vanish(tmp_path / "results" / "x.csv")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pair", "transform.json"]


def vanish(path):
    with replacing(path) as temporary:
        temporary.unlink()
        path.parent.rmdir()


def test_text_files_have_the_permissions_of_any_new_file(tmp_path):
    write_text(tmp_path / "a", "x")
    (tmp_path / "b").write_text("x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_memory_is_that_of_the_machine_or_of_its_container(tmp_path):
    machine = memory_total_mb(tmp_path)
    assert machine > 100
    (tmp_path / "memory.max").write_text("512000000\n")
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("512000000\n")
    assert memory_total_mb(tmp_path) == pytest.approx(512.0)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert memory_total_mb(tmp_path) == machine


def test_there_is_a_processor():
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
    proc = tmp_path / "membership"
    proc.write_text(f"{membership}\n")
    real = type(tmp_path).read_text
    monkeypatch.setattr(
        type(tmp_path),
        "read_text",
        lambda self, *a, **k: real(proc if str(self) == "/proc/77/cgroup" else self, *a, **k),
    )
    assert cgroups.kills_file(77, tmp_path) is None  # so the machine has to be asked
    (tmp_path / group).mkdir(parents=True)
    counter = tmp_path / group / events
    counter.write_text(text)
    assert cgroups.kills_file(77, tmp_path) == counter
    assert cgroups.kills(counter) == 2
    (tmp_path / group).joinpath(events).unlink()
    (tmp_path / group).parent.joinpath(events).write_text("oom_kill 9\n")
    assert cgroups.kills_file(77, tmp_path) is None  # others are counted there as well
    assert cgroups.kills(counter) is None
