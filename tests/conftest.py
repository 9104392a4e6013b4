"""Fixtures that every test may use."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from skips import pytest_configure

__all__ = ["pytest_configure"]  # a hook
PROJECT = Path(__file__).resolve().parents[1]

# Where this is set, every start of Snakemake and of a job compiles all of its libraries again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


#: Files that wait and compute for minutes come first: no process is left with one at the end.
FIRST = ("cluster", "workflow", "faults", "browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by folder; files and tests stay in their order."""
    rank = {name: number for number, name in enumerate(FIRST)}
    items.sort(key=lambda item: rank.get(item.path.parent.name, len(FIRST)))


@pytest.fixture(scope="session")
def project() -> Path:
    """The checkout that the tests belong to."""
    return PROJECT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real images beside the checkout; the test is skipped where they are absent."""
    data = PROJECT.parent / "shared" / "data"
    if not data.is_dir():
        pytest.skip(f"real images are not here: {data} does not exist")
    return data
