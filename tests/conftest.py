"""Fixtures that every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest
from skips import pytest_configure

__all__ = ["pytest_configure"]  # a hook
PROJECT = Path(__file__).resolve().parents[1]


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
