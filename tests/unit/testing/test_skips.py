"""A test that is skipped in continuous integration is on the list, or the run fails."""

from __future__ import annotations

import os
import subprocess
import sys
from fnmatch import fnmatchcase

import pytest
import skips

pytestmark = pytest.mark.slow

PACKED = "this imagecodecs reads packed integers, but does not write them"


@pytest.fixture
def ended(tmp_path, project):
    """A function that runs tests of their own in continuous integration or not."""

    def run(content, *words, ci="true"):
        file = tmp_path / "tests" / "unit" / "io" / "test_tiff_packed.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"import pytest\n{content}\n")
        known = {"PYTHONPATH": str(project / "tests"), "CI": ci}
        known["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # others take seconds to start
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-p", "skips", "-p", "no:cacheprovider"),
                *(f"--rootdir={tmp_path}", *words, file),
            ],
            env=os.environ | known,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    return run


@pytest.mark.parametrize("words", [(), ("-p", "xdist", "-n", "1")])
def test_an_unlisted_skip_fails_the_run_and_is_named(ended, words):
    code, text = ended("def test_a(): pytest.skip('no such program')", *words)
    assert code == 1
    assert "test_tiff_packed.py::test_a: no such program" in text


def test_so_does_a_whole_file_and_a_mark(ended):
    code, text = ended("pytest.importorskip('no_such', reason='no such package')")
    assert code != 0
    assert "test_tiff_packed.py: no such package" in text
    code, text = ended("@pytest.mark.skipif(True, reason='not today')\ndef test_a(): pass")
    assert code == 1
    assert "::test_a: not today" in text


def test_what_is_listed_and_what_is_expected_to_fail_are_no_fault(ended):
    code, text = ended(
        f"def test_a(): pytest.skip({PACKED!r})\n@pytest.mark.xfail\ndef test_b(): assert 0"
    )
    assert code == 0, text


def test_elsewhere_a_skip_is_a_skip(ended):
    code, text = ended("def test_a(): pytest.skip('no such program')", ci="")
    assert code == 0, text


def test_every_line_of_the_list_is_about_a_test_that_there_is(project):
    files = {str(p.relative_to(project)): p.read_text() for p in project.glob("tests/**/*.py")}
    for row in skips.listed():
        assert row["because"]
        assert any(fnmatchcase(name, row["tests"]) for name in files), row
        words = row["says"].partition("*")[0].rstrip(" ,")
        own = "tests/unit/testing/test_skips.py"
        assert any(words in text for name, text in files.items() if name != own), row
