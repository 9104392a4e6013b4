"""Tests keep out of the home, the caches and the temporary files of who runs them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from own_places import PLACES, VARIABLE, UntouchedHome

from unglow.core.machine import cache_directory
from unglow.workflow.forecast import file_of_machine

ROOT = Path(os.environ[VARIABLE])


def test_every_place_of_a_user_is_one_of_the_tests():
    for name in PLACES:
        assert ROOT in Path(os.environ[name]).parents
        assert Path(os.environ[name]).is_dir()
    found = (Path.home(), Path(tempfile.gettempdir()), cache_directory(), file_of_machine(None))
    assert [path for path in found if ROOT not in path.parents] == []


def test_so_it_is_in_what_they_start():
    words = "import pathlib, tempfile, matplotlib as m; print(pathlib.Path.home(), "
    words += "tempfile.gettempdir(), m.get_cachedir(), m.get_configdir(), sep=chr(10))"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert [line for line in lines if ROOT not in Path(line).parents] == []


@pytest.fixture
def ended(tmp_path):
    """Return how a run of tests ends after what they have done to the home of a user."""
    cache = tmp_path / ".cache" / "unglow"
    cache.mkdir(parents=True)
    (cache / "times.json").write_text("1")

    def after(do):
        watched = UntouchedHome(tmp_path)
        do(cache)
        session = SimpleNamespace(exitstatus=pytest.ExitCode.OK)
        watched.pytest_sessionfinish(session)
        return session.exitstatus

    return after


@pytest.mark.parametrize(
    "do",
    [
        lambda cache: os.utime(cache / "times.json", (0, 0)),
        lambda cache: (cache / "more.json").write_text("2"),
        lambda cache: (cache.parent / "matplotlib").mkdir(),
        lambda cache: (cache.parents[1] / ".config" / "snakemake").mkdir(parents=True),
    ],
)
def test_a_run_that_changes_the_home_of_a_user_fails(ended, do):
    assert ended(do) == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize(
    "do", [lambda cache: None, lambda cache: (cache.parent / "others").mkdir()]
)
def test_one_that_does_not_is_well(ended, do):
    assert ended(do) == pytest.ExitCode.OK
