"""The commands of tutorials, run word for word, print what the pages say that they print."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from real_runs import BIN, PROJECT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.workflow]

BRAIN = ("signal/signal_ch000013.tif", "background/background_ch010013.tif")


def blocks(page: str) -> list[tuple[str, str]]:
    """Return the fenced blocks of a page, or of ``page#section``, run (sh) or compared (text)."""
    name, _, section = page.partition("#")
    words = (PROJECT / "docs" / name).read_text()
    if section:
        words = words.split(f"\n## {section}\n")[1].partition("\n## ")[0]
    return re.findall(r"^```(sh|text)\n(.*?)^```$", words, re.MULTILINE | re.DOTALL)


def printed(page: str, place: Path) -> list[tuple[str, str]]:
    """Run a page in a directory, in one shell; return each text block with what was printed."""
    found = blocks(page)
    script = "set -eu\n" + "\n".join(
        f"{words}\necho '<<<>>>'" for kind, words in found if kind == "sh"
    )
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=place,
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    outputs = iter(done.stdout.split("<<<>>>\n"))
    pairs, last = [], ""
    for kind, words in found:
        if kind == "sh":
            last = next(outputs)
        else:
            pairs.append((words, last))
    return pairs


def check(page: str, place: Path) -> None:
    """Compare every line that a page shows, but for spaces, with those that came, in order.

    Last digits of long numbers differ by versions of libraries.
    """
    for shown, came in printed(page, place):
        lines = iter([shorten(line) for line in came.splitlines()])
        for line in shown.splitlines():
            wanted = shorten(line)
            assert wanted in ("", "...") or wanted in lines, f"{line!r} is not in\n{came}"


def shorten(line: str) -> str:
    """Return a line with single spaces, and of numbers at most three decimal places."""
    return re.sub(r"(\.\d{3})\d+", r"\1", " ".join(line.split()))


@pytest.mark.parametrize(
    "page",
    [
        "tutorial-phantom.md",
        "tutorial-slide.md",
        "coming-from.md#From exo2micro",
        "coming-from.md#From Backsub",
        "coming-from.md#From Dask, MiniAn, SpatialData or CaImAn",
    ],
)
def test_a_page_is_true(page, tmp_path):
    check(page, tmp_path)


def test_the_tutorial_on_a_brain_is_true(shared_data, tmp_path):
    for name in BRAIN:
        file = shared_data / "signal_autofluorescence" / name
        shutil.copyfile(file, tmp_path / file.name)
    check("tutorial-brain.md", tmp_path)


def test_the_page_on_python_is_true(small_finished, monkeypatch, capsys):
    page = (PROJECT / "docs" / "python.md").read_text()
    found = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(found) == 8
    monkeypatch.chdir(small_finished)
    names = {}
    for words in found:
        exec(compile(words, "docs/python.md", "exec"), names)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("('phantom', 'SYTO9') ok")
    assert len(names["table"]) == len(names["candidates"])
    assert names["square"].shape == (128, 128)
    assert names["small"].shape == names["pair"].levels("difference")[-1].shape
    assert names["other"].shape == names["image"].shape
    assert names["run"].outcome == "ok"
