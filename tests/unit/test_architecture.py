"""Packages import in one direction only: docs/architecture.md has the table."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"
#: What each package may import, itself aside; imports for types count.
MAY = {
    "core": set(),
    "transform": {"core"},
    "images": {"core"},
    "telemetry": {"core"},
    "phantom": {"core", "images"},
    "memory": {"core"},
    "review": {"core", "images"},
    "jobs": {"core", "memory", "telemetry"},
    "registration": {"core", "memory", "transform"},
    "photometry": {"core", "memory", "transform", "images"},
    "spoilt": {"core", "memory", "photometry"},
    "export": {"core", "memory", "transform", "images", "photometry"},
    "detection": {"core", "memory", "transform", "images", "photometry", "review", "spoilt"},
    "results": {
        *("core", "transform", "images", "telemetry", "registration", "photometry", "review")
    },
    "monitor": {"core", "telemetry", "jobs", "results"},
}
MAY["figures"] = {*MAY["results"], "results"} - {"telemetry"}
MAY["workflow"] = {*MAY} - {"phantom", "monitor", "export", "spoilt", "figures"}
MAY["stages"] = MAY["workflow"] - {"results", "telemetry"} | {"spoilt"}
MAY["slides"] = MAY["workflow"] - {"review"} | {"spoilt", "figures", "workflow"}
MAY["pages"] = {*MAY} - {"phantom", "monitor", "memory"}
MAY["cli"] = {*MAY, "wings"}
#: Rooms that nothing imports but the commands, the rules and the face of the package.
WINGS = {"monitor", "pages", "slides"}
#: A module of two wings: it shows what one has made on the pages of the other.
OF_TWO_WINGS = "unglow.pages.viewer.slide_layers"
#: Modules at the top, which files of users and the package's own face need.
AT_THE_TOP = {"unglow", "unglow.__main__", "unglow.wings"}
MODULES = {
    ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SRC.glob("unglow/**/*.py"))
}


def imported(nodes: list[ast.AST]) -> set[str]:
    """Names of the project's modules that a file imports, anywhere in it."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else str(node.module) for name in names}
    return found & set(MODULES)


def package(module: str) -> str:
    return module.split(".")[1]


@pytest.fixture(scope="module")
def nodes() -> dict[str, list[ast.AST]]:
    """All nodes of each module."""
    files = {name: path.read_text(encoding="utf-8") for name, path in MODULES.items()}
    return {name: list(ast.walk(ast.parse(text))) for name, text in files.items()}


@pytest.fixture(scope="module")
def imports(nodes) -> dict[str, set[str]]:
    return {name: imported(those) - {"unglow"} for name, those in nodes.items()}


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


@pytest.mark.parametrize("wing", sorted(WINGS))
def test_without_a_wing_all_else_can_be_imported(wing, tmp_path):
    shutil.copytree(SRC / "unglow", tmp_path / "unglow")
    shutil.rmtree(tmp_path / "unglow" / wing)
    rest = [n for n in MODULES if n not in AT_THE_TOP and package(n) not in {wing, "cli"}]
    rest = [name for name in rest if (wing, name) != ("slides", OF_TWO_WINGS)]
    words = [sys.executable, "-c", f"from importlib import import_module as f; *map(f, {rest}),"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    words = [sys.executable, "-m", "unglow", "survey", "."]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr


def test_only_one_module_of_the_pages_imports_slides(imports):
    pages = {name: others for name, others in imports.items() if name.startswith("unglow.pages.")}
    found = {name for name, others in pages.items() if any("unglow.slides." in o for o in others)}
    assert found == {OF_TWO_WINGS}


def test_there_is_no_circle(imports):
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


def writes_to_the_terminal(nodes: list[ast.AST]) -> list[int]:
    """Return the lines of a file that print by themselves: print, sys.stdout.write and the like."""
    found = []
    for node in nodes:
        if isinstance(node, ast.Name) and node.id == "print":
            found.append(node.lineno)
        elif isinstance(node, ast.Attribute) and node.attr in ("write", "writelines"):
            stream = node.value
            name = stream.attr if isinstance(stream, ast.Attribute) else getattr(stream, "id", "")
            if name in ("stdout", "stderr", "__stdout__", "__stderr__"):
                found.append(node.lineno)
    return found


def test_only_one_module_prints(nodes):
    """`unglow.core.printable` cleans what it prints: names of files may hold escape sequences."""
    lines = {name: writes_to_the_terminal(those) for name, those in nodes.items()}
    assert {name for name, found in lines.items() if found} == {"unglow.core.printable"}


#: Calls that open a file by its name, and wait for a pipe in its place; `open` also as a method.
OPENING = {"read_text", "read_bytes", "imread", "TiffFile", "fromfile", "memmap", "loadtxt"}
#: Modules that may call them, since what they open is never a file of a user or of results.
OPENS = {
    "unglow.pages.app.workplace": "has flags of its own, which do not wait",
    "unglow.core.archive": "opens entries of an archive that is open",
    "unglow.core.files": "has the only function that opens such files, and makes lock files",
    "unglow.core.machine": "reads what the kernel reports",
    "unglow.core.process": "reads /proc",
    "unglow.core.kernels": "reads files of the package",
    "unglow.core.kernels.building": "reads files of the package",
    "unglow.cli": "opens /dev/null",
    "unglow.cli.pages": "makes the file for the browser",
    "unglow.images.tiff.opening": "looks at the file before tifffile opens it",
    "unglow.images.zarr_array": "looks at files before TensorStore opens them, and opens entries",
    "unglow.jobs.resume": "makes lock files, which nobody reads",
    "unglow.jobs.retries": "makes lock files, which nobody reads",
    "unglow.photometry.arrays": "gives zarr what was looked at as the store was opened",
    "unglow.pages.report.report": "reads files of the package",
    "unglow.telemetry.attempt_files": "has flags of its own, which do not wait",
    "unglow.telemetry.jsonl": "appends to files of its own, with flags that do not wait",
    "unglow.pages.viewer.served_files": "reads files of the package",
}


def is_writing(call: ast.Call) -> bool:
    """Whether a call of `open` or `Path.open` names a mode that makes, cuts or extends a file."""
    modes = [*call.args, *(word.value for word in call.keywords if word.arg == "mode")]
    texts = [node.value for node in modes if isinstance(node, ast.Constant)]
    return any(isinstance(text, str) and text[:1] in {"w", "x", "a"} for text in texts)


def opens_by_name(call: ast.Call, local: set[str]) -> bool:
    """Whether a call opens a file by its name, for reading."""
    written = ast.unparse(call.func)
    name = written.rpartition(".")[2]
    if name in OPENING:
        return written not in local
    if written in {"np.load", "numpy.load", "os.open"} or written.startswith("zarr.open"):
        return not (call.args and ast.unparse(call.args[0]) == "stream")
    if written == "zipfile.ZipFile":
        return len(call.args) == 1 and ast.unparse(call.args[0]) != "stream"
    if written == "open" or (name == "open" and len(call.args) > 0):
        return not is_writing(call) and not written.endswith(("_stores.open", "webbrowser.open"))
    # of objects that are no paths, as `layer.open()`, the name says so
    return name == "open" and not written.startswith(("layer.", "_named("))


def imported_names(nodes: list[ast.AST]) -> set[str]:
    """Names that a module imports from the project, such as `read_text` of `core.files`."""
    lines = (node for node in nodes if isinstance(node, ast.ImportFrom))
    return {a.name for n in lines if str(n.module).startswith("unglow") for a in n.names}


def test_files_of_users_and_of_results_are_opened_by_one_function(nodes):
    """A pipe, a device or a file of gigabytes in the place of any of them holds nothing up."""
    wrong = {}
    for name, those in nodes.items():
        calls = (node for node in those if isinstance(node, ast.Call))
        local = imported_names(those)
        found = [ast.unparse(call) for call in calls if opens_by_name(call, local)]
        if found:
            wrong[name] = found
    assert {name: found for name, found in wrong.items() if name not in OPENS} == {}
    assert set(OPENS) <= set(wrong), "no longer needed in the list"


def test_files_of_rules_import_no_two_things_under_one_name():
    """They share one namespace: the later import would take the place of the earlier."""
    root = SRC.parent
    text = "\n".join(p.read_text(encoding="utf-8") for p in (root / "rules").glob("*.smk"))
    text += (root / "Snakefile").read_text(encoding="utf-8")
    found: dict[str, set[str]] = {}
    for module, names in re.findall(r"from (unglow\S*) import (\([^)]*\)|.*)", text):
        for name in names.strip("()").replace("\n", " ").split(","):
            if words := name.split():
                found.setdefault(words[-1], set()).add(f"{module}.{words[0]}")
    assert len(found) > 20
    assert {name: sources for name, sources in found.items() if len(sources) > 1} == {}


def test_what_is_imported_is_declared_and_what_is_declared_is_imported():
    imported = set()
    for path in [*SRC.glob("*/**/*.py"), *(SRC.parent / "scripts").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    own = {path.name for path in SRC.iterdir()}
    # of Python 3.14, whose backport is declared
    imported -= {*sys.stdlib_module_names, *own, "compression"}
    of = packages_distributions()
    used = {re.sub(r"[-_.]+", "-", name).lower() for one in imported for name in of[one]}
    project = tomllib.loads((SRC.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {re.split(r"[^\w.-]", one)[0].lower() for one in project["dependencies"]}
    assert {name.replace(".", "-") for name in declared} == used
