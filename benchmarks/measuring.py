"""What tools say that ten functions took at most, against what they took.

    python benchmarks/measuring.py --install

The tools are `unglow.measure`, Dask's MemorySampler and memory_profiler (both every 0.05 s, the
latter with children), fil, and the benchmark of a Snakemake rule (``max_rss``). ``--install`` puts
those of others into an environment in benchmarks/work. Each function is measured in a process of
its own; the median of what a tool says is compared with what the function holds, MB. What the
process has before, or with nothing to do, does not count.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from running import BIN, WORK
from tables import table

if TYPE_CHECKING:
    from collections.abc import Callable

PLACE = WORK / "measuring"
PYTHON = PLACE / "bin" / "python"
OTHERS = ("distributed", "filprofiler", "memory_profiler", "numpy")
FUNCTIONS = """
import mmap, os, subprocess, sys, tempfile, time
import numpy as np

MB = 1_000_000
HOLD = "import sys, time; x = bytearray(b'1') * int(sys.argv[1]); time.sleep(float(sys.argv[2]))"

def start(mb, seconds):
    return subprocess.Popen([sys.executable, "-c", HOLD, str(mb * MB), str(seconds)])

def nothing():
    time.sleep(0.5)
def held():
    x = bytearray(b"1") * (300 * MB)
    time.sleep(1)
def spike():
    x = bytearray(b"1") * (300 * MB)
    del x
    time.sleep(1)
def spike_at_end():
    time.sleep(1)
    x = bytearray(b"1") * (300 * MB)
def numpy_temporary():
    x = np.ones(12_500_000)
    time.sleep(0.5)
    x * 2 + x * 3
    time.sleep(0.5)
def leak():
    global kept
    kept = []
    for _ in range(300):
        kept.append(bytearray(b"1") * MB)
        time.sleep(0.002)
def file_mapped():
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(300):
            file.write(bytes(MB))
        file.flush()
        x = np.memmap(file.name, np.uint8, "r")
        x.max()
        time.sleep(0.5)
def memory_mapped():
    with mmap.mmap(-1, 300 * MB) as pages:
        for n in range(300):
            pages[n * MB : (n + 1) * MB] = b"1" * MB
        time.sleep(0.5)
def two_children():
    for child in [start(200, 1.5), start(200, 1.5)]:
        child.wait()
def child_spike():
    start(300, 0.1).wait()
    time.sleep(0.5)
def forks_that_share():
    x = bytearray(b"1") * (300 * MB)
    children = []
    for _ in range(2):
        if not (child := os.fork()):
            time.sleep(1)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)

if __name__ == "__main__":
    globals()[sys.argv[1]]()
"""
NAMES = (
    *("held", "spike", "spike_at_end", "numpy_temporary", "leak", "file_mapped"),
    *("memory_mapped", "two_children", "child_spike", "forks_that_share"),
)
TRUE_MB = dict.fromkeys(NAMES, 300) | {"two_children": 400}
MEASURE = """
import functions, sys, unglow
with unglow.measure("one", stacks=False) as block:
    getattr(functions, sys.argv[1])()
print(block.taken[0].peak_mb - block.taken[0].start_mb)
"""
DASK = """
import functions, sys, time
from distributed import Client, LocalCluster
from distributed.diagnostics import MemorySampler
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            client.submit(functions.nothing).result()
            sampler = MemorySampler()
            with sampler.sample("one", client=client, interval=0.05):
                time.sleep(0.5)
                client.submit(getattr(functions, sys.argv[1])).result()
    taken = [size for _, size in sampler.samples["one"]]
    print((max(taken) - taken[0]) / 1e6)
"""
PROFILER = """
import functions, sys
from memory_profiler import memory_usage
taken = memory_usage((getattr(functions, sys.argv[1]),), interval=0.05, include_children=True)
print((max(taken) - taken[0]) * 1.048576)
"""
SNAKEFILE = """
rule one:
    output: "made"
    benchmark: "taken.tsv"
    shell: "{python} functions.py {name}; touch {{output}}"
"""


def run(*words: object, place: Path) -> str:
    """Run a command and return what it prints."""
    done = subprocess.run(
        [str(word) for word in words], cwd=place, check=True, capture_output=True, text=True
    )
    return done.stdout


def by_script(python: Path, script: str, name: str, place: Path) -> float:
    """Return what a script prints that measures a function, MB."""
    (place / "measuring.py").write_text(script)
    return float(run(python, "measuring.py", name, place=place).split()[-1])


def by_fil(name: str, place: Path) -> float:
    """Return the sum of fil's record of the peak, MB."""
    tool = PYTHON.with_name("fil-profile")
    run(tool, "--no-browser", "-o", place, "run", "functions.py", name, place=place)
    lines = next(place.rglob("peak-memory.prof")).read_text().splitlines()
    return sum(int(line.rpartition(" ")[2]) for line in lines) / 1e6


def by_snakemake(name: str, place: Path) -> float:
    """Return ``max_rss`` of a rule, MB; of a process that ends before the first look, 0."""
    (place / "Snakefile").write_text(SNAKEFILE.format(python=sys.executable, name=name))
    run(BIN / "snakemake", "--cores", 1, "--quiet", "all", place=place)
    head, row, *_ = (line.split("\t") for line in (place / "taken.tsv").read_text().splitlines())
    text = dict(zip(head, row, strict=True))["max_rss"]
    return 0.0 if text in ("-", "NA") else float(text) * 1.048576


# Each tool, and whether what it says of a function with nothing to do has to be taken off.
TOOLS: dict[str, tuple[Callable[..., float], bool]] = {
    "unglow": (partial(by_script, Path(sys.executable), MEASURE), False),
    "Dask": (partial(by_script, PYTHON, DASK), False),
    "memory_profiler": (partial(by_script, PYTHON, PROFILER), True),
    "fil": (by_fil, True),
    "Snakemake": (by_snakemake, True),
}


def measure(tool: str, name: str, draws: int) -> float:
    """Return the median of what a tool says of a function, MB."""
    said = []
    for _ in range(draws):
        with tempfile.TemporaryDirectory(dir=WORK) as directory:
            place = Path(directory)
            (place / "functions.py").write_text(FUNCTIONS)
            said.append(TOOLS[tool][0](name, place=place))
    return median(said)


def main() -> None:
    """Measure and print the errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--install", action="store_true", help="install the tools of others first")
    parser.add_argument("--draws", type=int, default=3)
    asked = parser.parse_args()
    WORK.mkdir(exist_ok=True)
    if asked.install:
        run(sys.executable, "-m", "venv", PLACE, place=WORK)
        run(PYTHON, "-m", "pip", "install", "-q", *OTHERS, place=WORK)
    columns = {}
    for tool, (_, has_base) in TOOLS.items():
        if tool in ("unglow", "Snakemake") or PYTHON.is_file():
            base = measure(tool, "nothing", asked.draws) if has_base else 0.0
            said = {name: measure(tool, name, asked.draws) - base for name in TRUE_MB}
            columns[tool] = [f"{100 * (said[n] / mb - 1):+.0f} %" for n, mb in TRUE_MB.items()]
        else:
            columns[tool] = ["not installed"] * len(TRUE_MB)
    rows = zip(TRUE_MB, map(str, TRUE_MB.values()), *columns.values(), strict=True)
    print(table(("function", "MB", *columns), [(n.replace("_", " "), *rest) for n, *rest in rows]))


if __name__ == "__main__":
    main()
