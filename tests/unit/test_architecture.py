"""Packages import in one direction only: docs/architecture.md has the table."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"
#: What each package may import, itself aside; imports for types count.
MAY = {
    "core": set(),
    "transform": {"core"},
    "telemetry": {"core"},
    "phantom": {"core", "transform", "io"},
    "io": {"core", "transform"},
    "jobs": {"core", "telemetry"},
    "registration": {"core", "transform"},
    "photometry": {"core", "transform", "io"},
    "review": {"core", "io"},
    "detection": {"core", "transform", "io", "photometry", "review"},
    "comparison": {"core", "transform", "io", "registration", "photometry", "review"},
    "export": {"core", "transform", "io", "photometry"},
    "multiplexed": {"core", "transform", "io", "registration", "photometry", "export"},
    "reporting": {
        *("core", "transform", "telemetry", "io", "registration", "photometry", "review"),
        *("comparison", "multiplexed"),
    },
}
MAY["workflow"] = {*MAY} - {"phantom"}
MAY["viewer"] = {*MAY} - {"phantom"}
MAY["doctor"] = {"core", "telemetry", "jobs"}
MAY["cli"] = {*MAY}
#: Modules at the top, which files of users and the package's own face need.
AT_THE_TOP = {"unglow", "unglow.__main__", "unglow.machine"}
MODULES = {
    ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SRC.glob("unglow/**/*.py"))
}


def imported(path: Path) -> set[str]:
    """Names of the project's modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else str(node.module) for name in names}
    return found & set(MODULES)


def package(module: str) -> str:
    return module.split(".")[1]


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    return {name: imported(path) - {"unglow"} for name, path in MODULES.items()}


def test_every_module_is_in_a_package():
    assert {package(name) for name in MODULES if name not in AT_THE_TOP} == set(MAY)


@pytest.mark.parametrize("name", MAY)
def test_a_package_imports_only_what_it_may(name, imports):
    wrong = {
        f"{module} -> {other}"
        for module, others in imports.items()
        for other in others
        if module not in AT_THE_TOP and package(module) == name
        if package(other) not in MAY[name] | {name}
    }
    assert not wrong


def test_there_is_no_circle(imports):
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


def writes_to_the_terminal(path: Path) -> list[int]:
    """Return the lines of a file that print by themselves: print, sys.stdout.write and the like."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name) and node.id == "print":
            found.append(node.lineno)
        elif isinstance(node, ast.Attribute) and node.attr in ("write", "writelines"):
            stream = node.value
            name = stream.attr if isinstance(stream, ast.Attribute) else getattr(stream, "id", "")
            if name in ("stdout", "stderr", "__stdout__", "__stderr__"):
                found.append(node.lineno)
    return found


def test_only_one_module_prints():
    """`unglow.core.terminal` cleans what it prints: names of files may hold escape sequences."""
    lines = {name: writes_to_the_terminal(path) for name, path in MODULES.items()}
    assert {name for name, found in lines.items() if found} == {"unglow.core.terminal"}
