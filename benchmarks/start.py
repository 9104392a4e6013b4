"""Print what it costs to start the job of each rule, and Snakemake with the logger plugin.

    python benchmarks/start.py --repeats 9
    python benchmarks/start.py --plugin --repeats 15

Each script is run without its work: what Snakemake puts before a script, and every import of the
script itself; then the codecs, which are imported where the first store is read.

With ``--plugin``, a workflow of one rule that is not unglow's is planned (``snakemake -n``) with
and without ``--logger unglow``, one after the other. Exit status 1 if the plugin takes longer than
`MOST_MS`.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from running import PROJECT, command, say
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
FIGURES = ("figures",)
#: Packages that are worth a word, in the order of the table.
PACKAGES = ("numpy", "cv2", "zarr", "matplotlib", "scipy", "yaml", "jsonschema", "tifffile")
#: Aim: the CPU time of a start with the plugin is no more than this above that without, ms.
MOST_MS = 20.0
TOY = "rule all:\n    shell: 'true'\n"
REPORT = """
import json, sys, time
loaded = [name for name in {packages!r} if name in sys.modules]
print(json.dumps([time.process_time(), len(sys.modules), loaded]))
"""
LEGEND = """\
CPU      s, of the whole process: the interpreter, what Snakemake puts before a script, all imports.
own      s, without the first two.
modules  how many were imported."""


def imports_of(script: str) -> list[str]:
    """Return all import statements of a script, in their order."""
    tree = ast.parse((PROJECT / "scripts" / f"{script}.py").read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return [ast.unparse(node) for node in sorted(found, key=lambda node: node.lineno)]


def start(lines: list[str]) -> tuple[float, int, list[str]]:
    """Run import statements in a new interpreter; return its CPU time, s, and what it loaded."""
    program = "\n".join([*PREAMBLE, *lines, REPORT.format(packages=PACKAGES)])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    seconds, modules, packages = json.loads(done.stdout)
    return seconds, modules, packages


def measure(lines: list[str], repeats: int) -> tuple[float, int, list[str]]:
    """Return the median CPU time of several starts, s, and what was loaded."""
    runs = [start(lines) for _ in range(repeats)]
    return median(seconds for seconds, *_ in runs), *runs[0][1:]


def plugin_costs(repeats: int) -> int:
    """Print what the plugin adds to a start of Snakemake; return the exit status."""
    spent: dict[tuple[str, ...], list[float]] = {(): [], ("--logger", "unglow"): []}
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "Snakefile").write_text(TOY, encoding="utf-8")
        for _ in range(repeats):
            for words, seconds in spent.items():
                *_, cpu = command(
                    sys.executable, "-m", "snakemake", "-n", *words, directory=Path(place)
                )
                seconds.append(cpu)
    without, with_plugin = (median(seconds) for seconds in spent.values())
    later = 1000 * median(b - a for a, b in zip(*spent.values(), strict=True))
    say(
        f"snakemake -n: {without:.3f} CPU-s without, {with_plugin:.3f} with the plugin: "
        f"{later:.0f} ms more, ratio {with_plugin / without:.3f}; aim: {MOST_MS:g} ms"
    )
    return int(later > MOST_MS)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="starts of each script; default: 5")
    parser.add_argument("--plugin", action="store_true", help="the logger plugin instead")
    options = parser.parse_args()
    repeats = options.repeats
    if options.plugin:
        return plugin_costs(repeats)
    empty, modules, packages = measure([], repeats)
    rows = [("an empty script", f"{empty:.2f}", "", str(modules), " ".join(packages))]
    for rule in (*STORES, *FIGURES, "summary", "verdict"):
        lines = imports_of(rule) + list(CODECS) * (rule in (*STORES, *FIGURES))
        seconds, modules, packages = measure(lines, repeats)
        cells = f"{seconds:.2f}", f"{seconds - empty:.2f}", str(modules), " ".join(packages)
        rows.append((rule, *cells))
    say(table(("rule", "CPU", "own", "modules", "packages"), rows))
    say(LEGEND)
    return 0


if __name__ == "__main__":
    sys.exit(main())
