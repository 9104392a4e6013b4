"""Fixtures that are made once for all processes of pytest."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

FILE = """
import os, time
import pytest
from sharing import once

@pytest.fixture(scope="session")
def made(tmp_path_factory):
    def make(place):
        time.sleep(0.5)  # long enough for the other process to ask as well
        (place / "maker").write_text(str(os.getpid()))
        return {"made": 1}
    return once(tmp_path_factory, "thing", make)

@pytest.mark.parametrize("n", range(2))
def test_it(made, n):
    place, value = made
    assert value == {"made": 1}
    with open(os.environ["SEEN"], "a") as seen:
        seen.write(f"{(place / 'maker').read_text()} {os.getpid()}\\n")
"""


def test_two_processes_share_what_one_has_made(tmp_path, project):
    (tmp_path / "test_it.py").write_text(FILE)
    known = {"PYTHONPATH": str(project / "tests"), "SEEN": str(tmp_path / "seen")}
    known["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    words = ("-p", "xdist", "-n", "2", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'base'}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, f"--rootdir={tmp_path}", tmp_path / "test_it.py"],
        env=os.environ | known,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    makers, users = zip(
        *(row.split() for row in (tmp_path / "seen").read_text().splitlines()), strict=True
    )
    assert len(set(users)) == 2
    assert len(set(makers)) == 1
