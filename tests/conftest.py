"""Fixtures that every test may use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import skips
from own_places import UntouchedHome, leave_own_places, take_own_places
from sharing import once

PROJECT = Path(__file__).resolve().parents[1]

# Where this is set, every start of Snakemake and of a job compiles all of its libraries again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# At once: what is imported for the tests looks for its files, too.
HOME = take_own_places()


def pytest_configure(config: pytest.Config) -> None:
    """Where it counts, watch for tests that are skipped, and for changes of the user's files."""
    skips.pytest_configure(config)
    if os.environ.get("CI") and HOME is not None:
        config.pluginmanager.register(UntouchedHome(HOME), "untouched-home")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what the tests kept as a user keeps it."""
    if HOME is not None:
        leave_own_places()


def import_with_one_thread(*names: str) -> None:
    """Import libraries for linear algebra with one thread each, as jobs have them.

    Several wait for one another where pytest's processes share the processors, which takes most of
    their time. What tests start does not inherit it.
    """
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    known = {name: os.environ.pop(name, None) for name in variables}
    os.environ.update(dict.fromkeys(variables, "1"))
    for name in names:
        import_module(name)
    for name, value in known.items():
        del os.environ[name]
        if value is not None:
            os.environ[name] = value


import_with_one_thread("numpy.linalg", "scipy.linalg")


#: Files that wait and compute for minutes come first: no process is left with one at the end.
FIRST = ("cluster", "workflow", "faults", "browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by folder; files and tests stay in their order."""
    rank = {PROJECT / "tests" / name: number for number, name in enumerate(FIRST)}
    items.sort(key=lambda item: rank.get(item.path.parent, len(FIRST)))


@pytest.fixture(scope="session")
def project() -> Path:
    """The checkout that the tests belong to."""
    return PROJECT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real images next to the checkout; the test is skipped where they are absent."""
    data = PROJECT.parent / "shared" / "data"
    if not data.is_dir():
        pytest.skip(f"real images are not here: {data} does not exist")
    return data


@pytest.fixture(scope="session")
def groups():
    """Memory control groups; the test is skipped where there can be none."""
    from control_groups import ControlGroups, NoGroupsError  # it asks the kernel

    try:
        place = ControlGroups()
    except NoGroupsError as reason:
        pytest.skip(f"memory control groups are not to be had here: {reason}")
    with place:
        yield place
    assert not place.directory.exists()


@pytest.fixture(scope="session")
def small_raw(tmp_path_factory) -> Path:
    """raw/ with one pair of 700 x 900, for tests of the machinery; do not change it."""
    from real_runs import small_phantom  # it imports numpy

    return once(tmp_path_factory, "small", small_phantom)[0] / "raw"


@pytest.fixture(scope="session")
def small_finished(tmp_path_factory, small_raw) -> Path:
    """A working directory in which the small phantom has been run to the end; do not change it."""
    from real_runs import snakemake

    def make(work):
        shutil.copytree(small_raw, work / "raw")
        run = snakemake(work)
        assert run.code == 0, run.text

    return once(tmp_path_factory, "small-finished", make)[0]


@pytest.fixture
def small_work(tmp_path, small_finished) -> Path:
    """A copy of the finished small run, times included, to be changed at will."""
    work = tmp_path / "work"
    subprocess.run(["cp", "-a", str(small_finished), str(work)], check=True)
    return work
