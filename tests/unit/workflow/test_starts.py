"""What jobs import before their first useful line: a start is most of what a small pair costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"
LARGE = {"cv2", "matplotlib", "numcodecs", "numpy", "scipy", "tifffile", "zarr"}
"""What takes 10 ms or more to import."""
NEEDED = {
    "ingest": {"numpy", "tifffile"},
    "register": {"cv2", "numpy"},
    "align": {"cv2", "numpy"},
    "scale": {"numpy"},
    "difference": {"numpy"},
    "detect": {"cv2", "numpy"},
    "figures": {"matplotlib", "numpy"},
    "summary": {"numpy"},
    "verdict": set(),
}
"""Those of `LARGE` that the jobs of a pair cannot do without."""


def imports_of(script: Path) -> list[str]:
    tree = ast.parse(script.read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return [ast.unparse(node) for node in sorted(found, key=lambda node: node.lineno)]


def loaded_by(lines: list[str]) -> set[str]:
    program = "\n".join([*lines, "import sys", "print(*sys.modules)"])
    words = [sys.executable, "-c", program]
    return set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("rule", NEEDED)
def test_a_job_imports_no_large_library_that_it_does_not_need(rule):
    lines = imports_of(SCRIPTS / f"{rule}.py")
    assert len(lines) > 2
    assert loaded_by(lines) & LARGE <= NEEDED[rule]


def test_no_job_imports_what_takes_long_and_is_not_needed():
    imports = {line for path in SCRIPTS.glob("*.py") for line in imports_of(path)}
    assert len(imports) > 30
    loaded = loaded_by(sorted(imports))
    assert "unglow.stages.detect" in loaded
    assert not {"scipy", "zarr", "yaml", "jsonschema"} & loaded


@pytest.mark.parametrize("module", ["slides.slide_subtract", "slides.figures"])
def test_what_is_declared_for_slides_is_without_opencv(module):
    assert "cv2" not in loaded_by([f"import unglow.{module}"])
