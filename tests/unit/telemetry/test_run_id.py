"""The id of a run, and who knows it."""

import os

import pytest

from unglow.telemetry import attempt_files
from unglow.telemetry.attempt_files import (
    RUN_ID,
    finish_run,
    inherited_run_id,
    make_run_id,
    start_run,
)


@pytest.fixture(autouse=True)
def _without(monkeypatch):
    monkeypatch.setenv(RUN_ID, "")  # so that it is put back as it was
    monkeypatch.delenv(RUN_ID)


def test_ids_sort_by_time_and_name_host_and_process(monkeypatch):
    monkeypatch.setattr(attempt_files, "host", lambda: "node/7")
    assert make_run_id(1795328393.0639, 30797) == "20261122T061953.063Z-node_7-30797"
    assert make_run_id(0.9999, 1) == "19700101T000000.999Z-node_7-1"


def test_instances_of_the_workflow_in_one_process_are_one_run():
    assert inherited_run_id() is None
    own = start_run()
    assert own.endswith(f"-{os.getpid()}")
    assert start_run() == own == inherited_run_id()


def test_a_run_inside_a_job_of_another_has_an_id_of_its_own(monkeypatch):
    outer = make_run_id(0.0, os.getpid() + 1)
    monkeypatch.setenv(RUN_ID, outer)
    assert inherited_run_id() == outer
    assert start_run() != outer


def test_the_next_workflow_of_a_process_is_another_run(monkeypatch):
    times = iter((1.0, 2.0))
    monkeypatch.setattr(attempt_files.time, "time", lambda: next(times))
    first = start_run()
    finish_run("another")
    assert inherited_run_id() == first
    finish_run(first)
    assert inherited_run_id() is None
    assert start_run() > first
