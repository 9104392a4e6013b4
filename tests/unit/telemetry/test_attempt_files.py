"""Files of attempts and runs: numbers, ids, and what both ends of a file report."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil
import pytest

from unglow.telemetry import attempt_files
from unglow.telemetry.attempt_files import (
    KEPT_RUNS,
    RUN_ID,
    RUNS,
    attempt_file,
    attempt_numbers,
    find_newer_run,
    finish_run,
    make_run_id,
    read_ends,
    read_inherited_run_id,
    remove_old_runs,
    run_files,
    start_run,
    take_number,
)


def test_numbers_rise_over_all_that_was_taken(tmp_path):
    directory = tmp_path / "a" / "job"
    assert take_number(directory) == 1
    attempt_file(directory, 9).touch()
    others = "0.jsonl 010.jsonl 11.stacks 12.jsonl.old -13.jsonl ٣.jsonl x.jsonl"
    for name in others.split():
        (directory / name).touch()
    assert take_number(directory) == 10
    assert attempt_numbers(directory) == [1, 9, 10]
    assert attempt_file(directory, 10).stat().st_size == 0
    assert attempt_numbers(tmp_path / "none") == []


@pytest.mark.parametrize("known", [[[]], [[], []]])
def test_a_number_that_another_attempt_has_just_taken_is_left_to_it(tmp_path, monkeypatch, known):
    real, stale = attempt_files.attempt_numbers, iter(known)  # as a network drive may show it
    attempt_file(tmp_path, 1).touch()
    monkeypatch.setattr(attempt_files, "attempt_numbers", lambda d: next(stale, None) or real(d))
    assert take_number(tmp_path) == 2
    assert real(tmp_path) == [1, 2]


def test_the_file_of_a_number_must_not_be_there_and_is_closed(tmp_path, monkeypatch):
    opened = []
    real = os.open

    def noting(path, flags, mode=0o777, **words):
        opened.append((path, flags, mode))
        return real(path, flags, mode, **words)

    before = psutil.Process().num_fds()
    monkeypatch.setattr(os, "open", noting)
    take_number(tmp_path)
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    assert opened == [(tmp_path / "1.jsonl", flags, 0o644)]
    assert psutil.Process().num_fds() == before


def test_numbers_that_are_removed_meanwhile_are_not_missed(tmp_path, monkeypatch):
    real, open_ = attempt_files.attempt_numbers, os.open

    def removing(path, *more, **words):
        for number in real(tmp_path):
            attempt_file(tmp_path, number).unlink()
        return open_(path, *more, **words)

    attempt_file(tmp_path, 2).touch()
    monkeypatch.setattr(os, "open", removing)
    assert take_number(tmp_path) == 3


def test_attempts_are_sorted_by_job_and_number_and_runs_are_none(tmp_path, monkeypatch):
    names = [
        *("S/D/align/10.jsonl", "S/D/align/9.jsonl", "S/D/align.jsonl", "runs/D/plan/1.jsonl"),
        *("S/A/plan/1.jsonl", "S/A/plan/1.stacks", "runs/20261122T060000.000Z-x-1.jsonl"),
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [str(p.relative_to(tmp_path)) for p in attempt_files.attempt_files(tmp_path)]
    assert found == [names[4], names[1], names[0], names[3]]
    assert run_files(tmp_path) == [tmp_path / names[6]]
    assert attempt_files.attempt_files(tmp_path / "none") == run_files(tmp_path / "none") == []
    monkeypatch.chdir(tmp_path.parent)
    below = Path(tmp_path.name)
    assert [str(p.relative_to(below)) for p in attempt_files.attempt_files(below)] == found


def test_of_a_long_file_only_both_ends_are_read(tmp_path):
    path = tmp_path / "1.jsonl"
    head, process = {"kind": "attempt", "x": "y" * 100_000}, {"kind": "process"}
    middle = [json.dumps({"kind": "step", "n": n}) for n in range(10_000)]
    end = {"kind": "end", "outcome": "ok"}
    path.write_text("\n".join([json.dumps(head), *middle, json.dumps(end), "{cut"]))
    ends = read_ends(path)
    assert (ends.first, ends.head, ends.end) == ((head,), head, end)
    assert len(ends.last) < 1000
    path.write_text("\n".join(map(json.dumps, [{"kind": "attempt"}, [1], process])) + "\n")
    ends = read_ends(path)
    assert ends.first == ends.last == ({"kind": "attempt"}, process)
    assert ends.end is None
    path.write_text("")
    assert (read_ends(path).head, read_ends(path).end) == ({}, None)


def test_what_is_no_plain_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "1.jsonl")
    assert read_ends(tmp_path / "1.jsonl").head == {}
    (tmp_path / "2.jsonl").symlink_to(tmp_path / "1.jsonl")
    with pytest.raises(OSError, match="symbolic links"):
        read_ends(tmp_path / "2.jsonl")


@pytest.fixture
def no_run(monkeypatch):
    monkeypatch.setenv(RUN_ID, "")  # so that it is put back as it was
    monkeypatch.delenv(RUN_ID)


def test_ids_sort_by_time_and_name_host_and_process(monkeypatch):
    monkeypatch.setattr(attempt_files, "host", lambda: "node/7")
    assert make_run_id(1795328393.0639, 30797) == "20261122T061953.063Z-node_7-30797"
    assert make_run_id(0.9999, 1) == "19700101T000000.999Z-node_7-1"


@pytest.mark.usefixtures("no_run")
def test_instances_of_the_workflow_in_one_process_are_one_run():
    assert read_inherited_run_id() is None
    own = start_run()
    assert own.endswith(f"-{os.getpid()}")
    assert start_run() == own == read_inherited_run_id()


@pytest.mark.usefixtures("no_run")
def test_a_run_inside_a_job_of_another_has_an_id_of_its_own(monkeypatch):
    outer = make_run_id(0.0, os.getpid() + 1)
    monkeypatch.setenv(RUN_ID, outer)
    assert read_inherited_run_id() == outer
    assert start_run() != outer


@pytest.mark.usefixtures("no_run")
def test_the_next_workflow_of_a_process_is_another_run(monkeypatch):
    times = iter((1.0, 2.0))
    monkeypatch.setattr(attempt_files.time, "time", lambda: next(times))
    first = start_run()
    finish_run("another")
    assert read_inherited_run_id() == first
    finish_run(first)
    assert read_inherited_run_id() is None
    assert start_run() > first


def test_of_many_runs_the_last_ones_stay_and_the_last_attempt_at_each_job(tmp_path):
    runs = [f"2026010{n // 10}T00000{n % 10}.000Z-host-1" for n in range(KEPT_RUNS + 5)]
    for n, run in enumerate(runs):
        for place in (RUNS, "a/B/align", *(["a/B/once"] if n == 2 else [])):
            (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / RUNS / f"{run}.jsonl").write_text(json.dumps({"kind": "run"}) + "\n")
        head = json.dumps({"kind": "attempt", "run": run}) + "\n"
        (tmp_path / "a/B/align" / f"{n + 1}.jsonl").write_text(head)
        (tmp_path / "a/B/align" / f"{n + 1}.speedscope.json").write_text("{}")
        if n == 2:
            (tmp_path / "a/B/once/1.jsonl").write_text(head)
    remove_old_runs(tmp_path)
    kept = [runs[2], *runs[5:]]  # the only attempt at a job is of the third one
    assert [path.stem for path in run_files(tmp_path)] == kept
    assert attempt_numbers(tmp_path / "a/B/align") == list(range(6, len(runs) + 1))
    assert len([*tmp_path.rglob("*.speedscope.json")]) == len(runs) - 5
    assert attempt_numbers(tmp_path / "a/B/once") == [1]


def test_few_runs_stay(tmp_path):
    (tmp_path / RUNS).mkdir()
    for n in range(KEPT_RUNS):
        (tmp_path / RUNS / f"{n:03d}.jsonl").touch()
    remove_old_runs(tmp_path)
    assert len(run_files(tmp_path)) == KEPT_RUNS


def test_a_job_finds_the_run_that_began_after_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv(RUN_ID, make_run_id(1000.0, 5))
    assert find_newer_run(tmp_path) is None
    (tmp_path / "runs").mkdir()
    for wall in (900.0, 1000.0):
        (tmp_path / "runs" / f"{make_run_id(wall, 5)}.jsonl").touch()
    assert find_newer_run(tmp_path) is None
    (tmp_path / "runs" / f"{make_run_id(1001.0, 4)}.jsonl").touch()
    assert find_newer_run(tmp_path) == make_run_id(1001.0, 4)
    monkeypatch.delenv(RUN_ID)
    assert find_newer_run(tmp_path) is None
