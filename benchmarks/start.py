"""Print what it costs to start the job of each rule: processor time, and the packages it imports.

    python benchmarks/start.py --repeats 9

Each script is run without its work: what Snakemake puts before a script, and every import of the
script itself; then the codecs, which are imported where the first store is read.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
from statistics import median

from running import PROJECT, say
from tables import table

#: What Snakemake puts before a script.
PREAMBLE = (
    "import pickle, sys",
    "from snakemake.logging import logger",
    "from snakemake.iocontainers import Snakemake",
)
#: What reading a chunk needs.
CODECS = ("import google_crc32c", "from numcodecs import blosc")
#: Rules that compute on stores; of the others only figures are drawn.
STORES = ("ingest", "register", "align", "scale", "difference", "detect")
FIGURES = ("figures_registration", "figures")
#: Packages that are worth a word, in the order of the table.
PACKAGES = ("numpy", "cv2", "zarr", "matplotlib", "scipy", "yaml", "jsonschema", "tifffile")
TELL = """
import json, sys, time
loaded = [name for name in {packages!r} if name in sys.modules]
print(json.dumps([time.process_time(), len(sys.modules), loaded]))
"""
LEGEND = """\
CPU      s, of the whole process: the interpreter, what Snakemake puts before a script, all imports.
own      s, without the first two.
modules  how many were imported."""


def imports_of(script: str) -> list[str]:
    """Return all import statements of a script, in their order, wherever they stand."""
    tree = ast.parse((PROJECT / "scripts" / f"{script}.py").read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return [ast.unparse(node) for node in sorted(found, key=lambda node: node.lineno)]


def start(lines: list[str]) -> tuple[float, int, list[str]]:
    """Run import statements in a new interpreter; return its CPU time, s, and what it loaded."""
    program = "\n".join([*PREAMBLE, *lines, TELL.format(packages=PACKAGES)])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    seconds, modules, packages = json.loads(done.stdout)
    return seconds, modules, packages


def measure(lines: list[str], repeats: int) -> tuple[float, int, list[str]]:
    """Return the median CPU time of several starts, s, and what was loaded."""
    runs = [start(lines) for _ in range(repeats)]
    return median(seconds for seconds, *_ in runs), *runs[0][1:]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="starts of each script; default: 5")
    repeats = parser.parse_args().repeats
    empty, modules, packages = measure([], repeats)
    rows = [("an empty script", f"{empty:.2f}", "", str(modules), " ".join(packages))]
    for rule in (*STORES, *FIGURES, "summary", "verdict"):
        lines = imports_of(rule) + list(CODECS) * (rule in (*STORES, *FIGURES))
        seconds, modules, packages = measure(lines, repeats)
        told = f"{seconds:.2f}", f"{seconds - empty:.2f}", str(modules), " ".join(packages)
        rows.append((rule, *told))
    say(table(("rule", "CPU", "own", "modules", "packages"), rows))
    say(LEGEND)


if __name__ == "__main__":
    main()
