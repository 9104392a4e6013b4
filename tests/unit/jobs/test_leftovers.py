"""What a job leaves behind, and what is only in use by others."""

from __future__ import annotations

import os

import pytest

from unglow.core import machine
from unglow.jobs import memory_limit


def test_memory_that_other_processes_hold_is_not_lost(monkeypatch):
    before = {"MemAvailable": 8000.0, "AnonPages": 1000.0}
    after = {"MemAvailable": 7000.0, "AnonPages": 1900.0}
    for first, last, lost in ((before, after, 100), (after, before, -100), ({}, after, None)):
        monkeypatch.setattr(memory_limit.process, "meminfo_mb", lambda last=last: last)
        found = memory_limit.MachineMemory(first, 0.0).compare([], 0.0, [])
        assert found.get("left_behind_mb") == lost


def test_files_count_where_they_take_memory_and_belong_to_this_user(tmp_path, monkeypatch):
    (tmp_path / "left").write_bytes(bytes(300_000))
    (tmp_path / "to").symlink_to(tmp_path / "left")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "deeper").write_bytes(bytes(300_000))
    monkeypatch.setattr(memory_limit, "_SHARED", str(tmp_path))
    monkeypatch.setattr(memory_limit, "is_in_memory", lambda paths: False)
    assert memory_limit.files_in_memory_mb() == pytest.approx(0.3, rel=0.1)
    monkeypatch.setattr(os, "getuid", lambda: -1)
    assert memory_limit.files_in_memory_mb() == 0


def test_what_was_written_into_memory_is_a_result_and_not_lost(monkeypatch):
    meminfo = {"MemAvailable": 7000.0, "AnonPages": 900.0}
    monkeypatch.setattr(memory_limit.process, "meminfo_mb", lambda: meminfo)
    before = memory_limit.MachineMemory({"MemAvailable": 8000.0, "AnonPages": 1000.0}, 5.0)
    on_disk = before.compare([], 300e6, [12.0, 8.0])
    assert (on_disk["available_before_mb"], on_disk["available_after_mb"]) == (8000, 7000)
    assert on_disk["left_behind_mb"] == 1100
    assert (on_disk["files_before_mb"], on_disk["processes_left"]) == (5.0, 2)
    assert on_disk["processes_left_mb"] == 20
    tmpfs = machine.Mount("/", "tmpfs", "none", frozenset())
    monkeypatch.setattr(memory_limit.machine, "mounts", lambda: [tmpfs])
    assert before.compare(["/results/a"], 300e6, [])["left_behind_mb"] == 800
