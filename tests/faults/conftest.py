"""One small pair, and its results when nothing happens."""

from __future__ import annotations

import pytest
from faulty_runs import SHORT, bytes_of, snakemake
from real_runs import small_phantom
from sharing import once


@pytest.fixture(scope="session")
def raw(tmp_path_factory):
    return once(tmp_path_factory, "small", small_phantom)[0] / "raw"


@pytest.fixture
def work(tmp_path, raw):
    (tmp_path / "raw").symlink_to(raw)
    return tmp_path


@pytest.fixture(scope="session")
def reference(tmp_path_factory, raw):
    """A working directory in which that run was; do not change it."""

    def make(work):
        (work / "raw").symlink_to(raw)
        code, text = snakemake(work, *SHORT)
        assert code == 0, text

    return once(tmp_path_factory, "short", make)[0]


@pytest.fixture(scope="session")
def expected(reference):
    """Digests of the results of a run that was left alone."""
    return bytes_of(reference)
