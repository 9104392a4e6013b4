"""Lists of digests: names in a damaged one that no file can have."""

from __future__ import annotations

import pytest

from unglow.core.digests import Listed


@pytest.mark.parametrize("name", ["a\0b", "../a", "/a", ""])
def test_a_name_that_is_none_of_a_file_below_is_left_out(tmp_path, name):
    path = tmp_path / "digests" / "job.sha256"
    path.parent.mkdir()
    path.write_text(f"# SHA-256 of 2 files\n{'0' * 64}  {name}\n{'1' * 64}  good\n")
    listed = Listed.read(path)
    assert list(listed.digests) == [tmp_path / "good"]
    assert not listed.whole
