"""Every promise of docs/promises.md names tests, benchmarks and pages that exist, or says so."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

NOTHING = "nothing yet"
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def page(project) -> Path:
    """The page with the promises."""
    return project / "docs" / "promises.md"


@pytest.fixture(scope="module")
def rows(page) -> list[list[str]]:
    """The cells of each promise: promise, where it is said, held by."""
    lines = [line for line in page.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] not in ("promise", "---")]


def function_names(path: Path) -> set[str]:
    """Return the names of the functions of a file."""
    tree = ast.parse(path.read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def anchors(path: Path) -> set[str]:
    """Return the anchors of the headings of a page."""
    heads = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def benchmark_files(words: str) -> list[str]:
    """Return the files that a command of a benchmark needs; of a package, that of its part."""
    name, *more = words.split()
    if "." in name:
        return [name]
    parts = [f"{name}/{word}.py" for word in more[:1] if not word.startswith("-")]
    return [f"{name}/__main__.py", *parts]


def test_every_promise_is_said_and_held_or_says_that_it_is_not(rows):
    assert len(rows) > 90
    for row in rows:
        assert len(row) == 3, row
        promise, said, held = row
        assert promise.endswith("."), promise
        assert LINK.search(said), promise
        assert held == NOTHING or ("`" in held and NOTHING not in held), promise
    promises = [row[0] for row in rows]
    assert len(set(promises)) == len(promises)


def test_every_test_and_benchmark_that_is_named_exists(project, rows):
    known = {}
    for promise, _, held in rows:
        if held == NOTHING:
            continue
        for name in held.split(", "):
            words = re.fullmatch(r"`([^`]+)`(?: \(prints\))?", name)
            assert words, (promise, name)
            file, is_test, function = words[1].partition("::")
            if not is_test:
                assert file.startswith("benchmarks/"), (promise, name)
                for needed in benchmark_files(file):
                    assert (project / needed).is_file(), (promise, needed)
                continue
            path = project / "tests" / file
            assert path.is_file(), (promise, file)
            if file not in known:
                known[file] = function_names(path)
            assert function.startswith("test_"), (promise, function)
            assert function in known[file], (promise, name)


def test_every_link_leads_to_a_heading(page):
    for link in LINK.findall(page.read_text()):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link
