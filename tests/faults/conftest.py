"""One small pair, and its results when nothing happens."""

from __future__ import annotations

import pytest
from faulty_runs import SHORT, bytes_of, snakemake, unglow


@pytest.fixture(scope="session")
def raw(tmp_path_factory):
    base = tmp_path_factory.mktemp("raw")
    phantom = ("phantom", "--size", "700x900", "--rotation-deg", "1", "--shift-px", "12", "-9")
    code, text = unglow(base, *phantom, "--scale", "1.005", "--sample", "phantom", "--dye", "SYTO9")
    assert code == 0, text
    return base / "raw"


@pytest.fixture
def work(tmp_path, raw):
    (tmp_path / "raw").symlink_to(raw)
    return tmp_path


@pytest.fixture(scope="session")
def reference(tmp_path_factory, raw):
    """A working directory in which that run was; do not change it."""
    work = tmp_path_factory.mktemp("reference")
    (work / "raw").symlink_to(raw)
    code, text = snakemake(work, *SHORT)
    assert code == 0, text
    return work


@pytest.fixture(scope="session")
def expected(reference):
    """Digests of the results of a run that was left alone."""
    return bytes_of(reference)
