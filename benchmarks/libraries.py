"""Measure what libraries cost each job: start, memory, time; write it into the package.

    python benchmarks/libraries.py starts --repeats 9
    python benchmarks/libraries.py measure --write

``starts`` runs each script without its work: what Snakemake puts before a script, and every import
of the script itself; then the codecs, which are imported where the first store is read.

``measure`` installs the newest and the oldest versions of all libraries in environments of their
own, runs a batch of a small pair and slide in each, and larger batches for times (``--memory``
leaves them out: times of a busy machine say little). It prints each number that follows next to the
one in use. With ``--write``, `unglow.core.measured` is written again. README.md next to this file
says how the numbers follow.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from phantoms import Case, forget_canvases, phantom
from running import PROJECT, WORK, command, say, snakemake_words
from slides import SlideCase, make_slide
from tables import number, table

from unglow.core import measured
from unglow.core.machine import processors
from unglow.core.rounding import round_digits
from unglow.slides.rules import SLIDES
from unglow.telemetry.reading.history import History
from unglow.workflow.batch import Batch
from unglow.workflow.job_resources import work_mpx
from unglow.workflow.stage_table import STAGES, measured_as

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: What Snakemake puts before a script.
PREAMBLE = (
    "import pickle, sys",
    "from snakemake.logging import logger",
    "try:\n    from snakemake.iocontainers import Snakemake",
    "except ImportError:  # an older one\n    from snakemake.io.container import Snakemake",
)
#: What reading a chunk needs.
CODECS = ("import google_crc32c", "import imagecodecs", "imagecodecs.blosc_decode")
#: Scripts that read none: summary and verdict; slides are read in place.
WITHOUT_STORES = ("summary", "verdict", "slide_")
#: Packages that are worth a word, in the order of the table.
PACKAGES = ("numpy", "cv2", "zarr", "matplotlib", "scipy", "yaml", "msgspec", "tifffile")
REPORT = """
import json, sys, time
seconds, loaded = time.process_time(), [name for name in {packages!r} if name in sys.modules]
modules = len(sys.modules)
held = dict(line.split(":") for line in open("/proc/self/status"))
own, files = (int(held[name].split()[0]) * 1024 / 1e6 for name in ("RssAnon", "RssFile"))
print(json.dumps([seconds, modules, loaded, own, files]))
"""
LEGEND = """\
CPU      s, of the whole process: the interpreter, what Snakemake puts before a script, all imports.
own      s, without the first two.
MB       private memory, without pages of libraries.
modules  how many were imported."""

#: Versions of the libraries: both ends of what pyproject.toml allows.
VERSIONS = ("newest", "oldest")
#: Bytes that pip writes at a time.
PIECE = 1 << 20
#: MB that jobs on the same images differ by in the same environment, at most.
REPEATED_MB = 5.0
#: No job takes less than this, s, or less for each million px if it grows with images.
LEAST_S, LEAST_S_PER_MPX = 0.1, 0.001
#: Pair and slide of a batch: side, px. As small as can be registered, for memory; and for times so
#: large that what is bounded (coarse images, cells) has reached its bound.
SMALL, TIMED = (600, 700), ((2048, 1024), (12288, 8192))
CHANNELS = 8
CONFIG = {
    "exports": {"tiff": ["post", "difference"], "fits": ["snr", "difference"]},
    "sweep": {"scale.percentile": [40, 60]},
}


@dataclass(frozen=True, slots=True)
class Start:
    """A new interpreter that has imported what a job needs.

    CPU time, s; modules, and which of `PACKAGES`; private memory, and pages of libraries, MB.
    """

    seconds: float
    modules: int
    packages: list[str]
    private_mb: float
    files_mb: float


def imports_of(script: str) -> list[str]:
    """Return all import statements of a script, in their order, and what reading a chunk needs."""
    tree = ast.parse((PROJECT / "scripts" / f"{script}.py").read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    lines = [ast.unparse(node) for node in sorted(found, key=lambda node: node.lineno)]
    return lines if script.startswith(WITHOUT_STORES) else [*lines, *CODECS]


def start(lines: Iterable[str], python: Path = Path(sys.executable)) -> Start:
    """Run import statements in a new interpreter."""
    program = "\n".join([*PREAMBLE, *lines, REPORT.format(packages=PACKAGES)])
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    return Start(*json.loads(done.stdout))


# What a start costs


def print_starts(repeats: int) -> int:
    """Print what the start of each rule costs, medians of several; return the exit status."""
    rows = []
    empty = 0.0
    for rule in ("", *sorted({script_of(rule) for rule in STAGES})):
        starts = [start(imports_of(rule) if rule else []) for _ in range(repeats)]
        seconds = median(one.seconds for one in starts)
        empty = empty if rule else seconds
        cells = f"{seconds:.2f}", f"{seconds - empty:.2f}", f"{starts[0].private_mb:.0f}"
        more = str(starts[0].modules), " ".join(starts[0].packages)
        rows.append((rule or "an empty script", *cells, *more))
    say(table(("rule", "CPU", "own", "MB", "modules", "packages"), rows))
    say(LEGEND)
    return 0


# What libraries take of jobs


@dataclass(frozen=True, slots=True)
class Ended:
    """What a job took: work, million px; CPU time, s; most pages of libraries, MB."""

    measured_as: str
    mpx: float
    cpu_s: float
    files_mb: float


@dataclass(frozen=True, slots=True)
class Batches:
    """Of an environment: starts of each script, jobs of batches, what its run recorded of it."""

    starts: Mapping[str, Start]
    jobs: tuple[Ended, ...]
    surroundings: Mapping[str, Any]


def script_of(rule: str) -> str:
    """Return the name of the script of a rule."""
    if rule.startswith("export"):
        return "export"
    shared = {"figures_registration": "figures", "difference_method": "difference"}
    return shared.get(rule, rule)


def make_environment(place: Path, versions: str) -> Path:
    """Return the interpreter of an environment with these versions, made or brought up to date."""
    python = place / "bin" / "python"
    if not python.exists():
        command(sys.executable, "-m", "venv", place, directory=place.parent)
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    words = ["--quiet", "--upgrade", "--upgrade-strategy", "eager", *project["dependencies"]]
    if versions == "oldest":
        words += ["--constraint", PROJECT / "tests" / "oldest.txt"]
    command(python, "-m", "pip", "install", *words, directory=place)
    (packages,) = place.glob("lib/*/site-packages")
    (packages / "unglow.pth").write_text(f"{PROJECT / 'src'}\n", encoding="utf-8")
    return python


def rewrite_libraries(place: Path) -> None:
    """Write each shared library of an environment again, as current versions of pip write them.

    The larger the pieces that a file was written in, the larger the pages that the kernel keeps it
    in, and the more of it counts as memory of a job that uses any of it. Files that have been read
    from a disk are kept in small pages.
    """
    for path in [p for p in place.rglob("*.so*") if p.is_file() and not p.is_symlink()]:
        copy = path.with_name(f".{path.name}.copy")
        with path.open("rb") as source, copy.open("wb", buffering=0) as target:
            shutil.copyfileobj(source, target, PIECE)
        shutil.copymode(path, copy)
        copy.replace(path)


def make_raw(sides: tuple[int, int], work: Path) -> Path:
    """Return a raw directory with a pair and a slide of these sides, px."""
    raw = work / f"raw-{sides[0]}"
    if not raw.is_dir():
        raw.mkdir()
        cache = work / "phantoms"
        pair = phantom(Case(sides[0], sides[0], "tiles", "uint8"), cache, processors())
        forget_canvases(cache)
        slide = make_slide(
            SlideCase(sides[1], sides[1], CHANNELS, "tiles", "uint16"), cache, processors()
        )
        for made in (*pair.iterdir(), *slide.iterdir()):
            made.rename(raw / made.name)
    return raw


def run_batch(python: Path, raw: Path, work: Path) -> tuple[list[Ended], Mapping[str, Any]]:
    """Run a batch with the libraries of an environment; return its jobs, and its surroundings."""
    with tempfile.TemporaryDirectory(prefix="run-", dir=work) as name:
        place = Path(name)
        (place / "raw").symlink_to(raw, target_is_directory=True)
        command(python, "-m", *snakemake_words(processors(), CONFIG), directory=place)
        run = History.read(place / "results").runs[-1]
        batch = Batch.load(CONFIG, place, SLIDES)
        jobs = [
            Ended(
                measured_as(one.rule),
                work_mpx(batch, one.rule, one.wildcards),
                one.cpu_s or 0.0,
                max(one.samples.file, default=0.0),
            )
            for one in run.attempts
        ]
        return jobs, run.run.fields


def measure_memory(environments: Sequence[Batches]) -> dict[str, float]:
    """Return what the libraries of each rule take, MB: the most of all environments.

    Pages of libraries that its jobs used, and what its imports take; with `REPEATED_MB`.
    """
    found: dict[str, float] = {}
    for one in environments:
        files: dict[str, float] = {}
        for job in one.jobs:
            files[job.measured_as] = max(job.files_mb, files.get(job.measured_as, 0.0))
        for rule in STAGES:
            key, started = measured_as(rule), one.starts[script_of(rule)]
            taken = max(started.files_mb, files.get(key, 0.0)) + started.private_mb + REPEATED_MB
            found[key] = max(float(math.ceil(taken)), found.get(key, 0.0))
    return found


def measure_seconds(jobs: Iterable[Ended]) -> dict[str, tuple[float, float]]:
    """Return for each rule the time on one processor that a job takes: s, and s per million px.

    The line through the means of the smaller and of the larger batch; where time does not grow with
    images, the mean of all.
    """
    by_rule: dict[str, dict[float, list[float]]] = {}
    for job in jobs:
        by_rule.setdefault(job.measured_as, {}).setdefault(job.mpx, []).append(job.cpu_s)
    found = {}
    for rule, of_size in by_rule.items():
        means = {mpx: mean(seconds) for mpx, seconds in of_size.items()}
        low, high = min(means), max(means)
        slope = (means[high] - means[low]) / (high - low) if high > low else 0.0
        slope = max(slope, LEAST_S_PER_MPX) if high > low else 0.0
        rest = means[low] - slope * low
        found[rule] = round_digits(max(rest, LEAST_S), 2), round_digits(slope, 2)
    return found


def write_measured(name: str, rows: Mapping[str, object], about: Sequence[str]) -> None:
    """Write a table of `unglow.core.measured` again, with its keys as in the table of stages."""
    path = Path(measured.__file__)
    keys = dict.fromkeys(map(measured_as, STAGES))
    lines = [*(f"# {line}\n" for line in about), r"\1{\n"]
    lines += [f'    "{key}": {rows[key]},\n' for key in keys if key in rows]
    pattern = rf"(?ms)(?:^# [^\n]*\n)+^({name}: [^\n]*= ){{.*?^}}"
    path.write_text(re.sub(pattern, "".join(lines) + "}", path.read_text("utf-8")), "utf-8")


def describe(environments: Sequence[Batches]) -> list[str]:
    """Return lines on when, on what and with which versions was measured."""
    head = environments[0].surroundings
    machine = f"{head['processor']['name']}, {processors()} processors, {head['platform']}"
    machine += f", Python {head['python']}, with a load of {os.getloadavg()[2]:.1f}"
    lines = [f"Measured {datetime.now(UTC):%Y-%m-%d} on {machine}."]
    for versions, one in zip(VERSIONS, environments, strict=False):
        packages = one.surroundings["packages"] | {"snakemake": one.surroundings["snakemake"]}
        named = ", ".join(f"{name} {packages[name]}" for name in sorted(packages))
        lines.append(f"{versions.capitalize()} versions: {named}.")
    return [part for line in lines for part in textwrap.wrap(line, 98, break_on_hyphens=False)]


def measure(work: Path, *, write: bool, timed: bool) -> int:
    """Measure in environments of their own, print old and new numbers; return the exit status."""
    work.mkdir(parents=True, exist_ok=True)
    environments = []
    for versions in VERSIONS:
        say(f"installing the {versions} versions")
        python = make_environment(work / versions, versions)
        rewrite_libraries(work / versions)
        starts = {name: start(imports_of(name), python) for name in map(script_of, STAGES)}
        say("running a batch with them")
        jobs, surroundings = run_batch(python, make_raw(SMALL, work), work)
        environments.append(Batches(starts, tuple(jobs), surroundings))
    memory = measure_memory(environments)
    rows = [
        (key, number(measured.LIBRARIES_MB.get(key, math.nan)), number(memory[key]))
        for key in memory
    ]
    print(table(("rule", "MB in use", "measured"), rows))
    if write:
        write_measured("LIBRARIES_MB", memory, describe(environments))
    if timed:
        newest = work / VERSIONS[0] / "bin" / "python"
        say("running larger batches with the newest versions")
        jobs = [job for sides in TIMED for job in run_batch(newest, make_raw(sides, work), work)[0]]
        seconds = measure_seconds(jobs)
        old = measured.SECONDS
        rows = [(key, str(old.get(key, "")), str(found)) for key, found in seconds.items()]
        print(table(("rule", "s, s for each Mpx in use", "measured"), rows))
        if write:
            write_measured("SECONDS", seconds, describe(environments[:1]))
    return 0


def main() -> int:
    """Do what is asked for; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("starts", "measure"))
    parser.add_argument("--repeats", type=int, default=5, help="of each start; default: 5")
    parser.add_argument("--write", action="store_true", help="write what was measured")
    parser.add_argument("--memory", action="store_true", help="memory alone: times stay")
    parser.add_argument("--work", type=Path, default=WORK, help="directory for environments, runs")
    options = parser.parse_args()
    if options.what == "measure":
        work = options.work.resolve() / "libraries"
        return measure(work, write=options.write, timed=not options.memory)
    return print_starts(options.repeats)


if __name__ == "__main__":
    sys.exit(main())
