"""The command line: measure each question, and write the page."""

from __future__ import annotations

import argparse
import json
import platform
import re
import resource
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from running import PROJECT, WORK, run, say
from tables import number, table

from evidence import finding, honesty, registration, subtraction
from evidence.registration import all_tools
from unglow import __version__
from unglow.core.machine import busy_processors, processors
from unglow.core.process import cpuinfo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PAGE = PROJECT / "docs" / "evidence.md"
COST_HEADER = (
    "pair",
    "Mpx",
    "wall s",
    "CPU s",
    "largest job MB",
    "declared MB",
    "s/Mpx",
    "wall/floor",
)
LIBRARIES = ("snakemake", "numpy", "opencv-python-headless", "zarr", "tifffile")


@dataclass(frozen=True, slots=True)
class Options:
    """How the page is measured: environments of other tools, in full or not, and where to work."""

    peers: Path
    full: bool
    work: Path


def printed_by(small: str, full: str) -> Callable[[Options], tuple[str, bool]]:
    """Return what runs another benchmark and gives the table that it prints, and if it ended."""

    def measure(options: Options) -> tuple[str, bool]:
        chosen = full if options.full else small
        script, *rest = chosen.split()
        status, text = run(
            sys.executable, PROJECT / "benchmarks" / script, *rest, directory=PROJECT
        )
        done = status in (0, 1) and "Traceback" not in text  # 1: an aim is missed, as it says
        return f"    python benchmarks/{chosen}\n\n```text\n{_tables(text)}\n```", done

    return measure


def format_part(about: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return words and a table, with the first column named only where it changes."""
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    before = ""
    for name, *cells in rows:
        lines.append(f"| {' | '.join(['' if name == before else name, *cells])} |")
        before = name
    return "\n".join([wrap(about), "", *lines] if about else lines)


def _registration(options: Options) -> tuple[str, bool]:
    size = 4096 if options.full else 1536
    tools = all_tools(options.peers)
    rows = registration.measure_tools(tools, size, options.work, every_tool=options.full)
    return format_part(f"Phantoms of {size} px.", registration.HEADER, rows), True


def _subtraction(options: Options) -> tuple[str, bool]:
    size = 4096 if options.full else 1280  # Backsub stops at 1024 px, with a pyramid of two levels
    rows = subtraction.measure(options.peers, size, options.work)
    return format_part(f"Images of {size} px.", subtraction.HEADER, rows), True


def _finding(options: Options) -> tuple[str, bool]:
    side, pairs = (1536, 40) if options.full else (1024, 8)
    rows = finding.measure(options.peers, side, pairs, options.work)
    return format_part(f"{pairs} pairs of {side} px.", finding.HEADER, rows), True


def _honesty(options: Options) -> tuple[str, bool]:
    side, draws, negatives = (2048, 4, 60) if options.full else (1024, 1, 12)
    rows = honesty.measure(all_tools(options.peers), side, draws, negatives, options.work)
    return format_part(f"Pairs of {side} px.", honesty.HEADER, rows), True


def _cost(options: Options) -> tuple[str, bool]:
    """Measure whole runs by `whole_run.py`."""
    sizes = ("4096", "8192", "30000x25000") if options.full else ("1024", "4096")
    found = options.work / "whole_run.json"
    words = ("--sizes", *sizes, "--json", found, "--work", options.work)
    run(sys.executable, PROJECT / "benchmarks" / "whole_run.py", *words, directory=PROJECT)
    rows = [write_cost(one) for one in json.loads(found.read_text())["runs"]]
    return format_part("", COST_HEADER, rows), True


def write_cost(run: dict[str, Any]) -> list[str]:
    """Return the cells of a run: of the whole command, and of the job that held most."""
    case, largest = run["case"], max(run["rules"], key=lambda rule: rule["peak_mb"])
    megapixels = run["pair"]["pixels"] / 1e6
    return [
        f"{case['rows']} x {case['cols']} px, {case['dtype']}",
        f"{megapixels:.1f}",
        number(run["wall_s"]),
        number(run["cpu_s"]),
        number(largest["peak_mb"]),
        number(largest["declared_mb"]),
        f"{run['wall_s'] / megapixels:.3f}",
        number(run["wall_s"] / run["floor_s"]),
    ]


PARTS: dict[str, Callable[[Options], tuple[str, bool]]] = {
    "registration": _registration,
    "subtraction": _subtraction,
    "gain": printed_by("photometry gain --draws 1", "photometry gain --draws 5"),
    "coverage": printed_by(
        "photometry coverage --draws 67 --side 512 --jobs 2",
        "photometry coverage --draws 67 --jobs 2",
    ),
    "detection": printed_by(
        "photometry detection --draws 3 --jobs 2", "photometry detection --draws 20 --jobs 2"
    ),
    "finding": _finding,
    "honesty": _honesty,
    "verdicts": printed_by("real verdicts --jobs 2", "real verdicts --jobs 2"),
    "cells": printed_by("damage cells --jobs 2", "damage cells --draws 5"),
    "measuring": printed_by("measuring.py", "measuring.py"),
    "cost": _cost,
}
"""What measures each part of the page, whose words stay: it returns what stands between
``<!-- PART -->`` and ``<!-- end -->``, and whether that is complete."""


def main(words: Sequence[str] | None = None) -> int:
    """Measure everything, or some parts; return 1 if a command failed."""
    parser = argparse.ArgumentParser(prog="evidence", description=__doc__)
    add = parser.add_argument
    add("--full", action="store_true", help="larger images, more draws: hours")
    add("--only", nargs="+", choices=PARTS, default=list(PARTS), help="measure these parts")
    options = parser.parse_args(words)
    failed, rows = False, []
    WORK.mkdir(parents=True, exist_ok=True)
    page = PAGE.read_text()
    for part in options.only:
        say(part)
        started, used = time.monotonic(), cpu_seconds()
        with tempfile.TemporaryDirectory(prefix="evidence-", dir=WORK) as work:
            given = Options(WORK / "peers", options.full, Path(work))
            text, done = PARTS[part](given)
        failed |= not done
        taken = [(time.monotonic() - started) / 60, (cpu_seconds() - used) / 60]
        rows.append((part, *map(number, taken)))
        asked = f"--only {part}" + (" --full" if options.full else "")
        page = write_part(page, part, f"{text}\n\n{wrap(describe(asked, *taken))}")
        PAGE.write_text(page)
    print(table(("part", "wall min", "CPU min"), rows))
    return int(failed)


def cpu_seconds() -> float:
    """Return the processor time of this process and of all that it started and that ended, s."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in usages)


def write_part(page: str, part: str, measured: str) -> str:
    """Return a page with other measurements in a part."""
    between = re.compile(rf"(?s)(?<=<!-- {part} -->\n\n).*?(?=\n\n<!-- end -->)")
    return between.sub(lambda _: measured, page, count=1)


def describe(asked: str, wall_min: float, cpu_min: float) -> str:
    """Say how a part was measured: when, by which command, for how long, with which versions."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)
    return (
        f'Measured on {time.strftime("%Y-%m-%d")} with `make evidence ARGS="{asked}"`: '
        f"{number(cpu_min)} min of CPU, {number(wall_min)} min with {load_text()}. "
        f"unglow {__version__}, Python {platform.python_version()}, {versions}."
    )


def load_text() -> str:
    """Say how busy the machine is, this program included, and what it is."""
    name = cpuinfo().get("model name") or platform.machine()
    return f"a load of {busy_processors():.0f} on {processors()} processors ({name})"


def wrap(text: str) -> str:
    """Wrap a paragraph; text that has lines already stays as it is."""
    return text if "\n" in text else textwrap.fill(text, 100, break_on_hyphens=False)


def _tables(text: str) -> str:
    """Return what a benchmark printed, without lines that only say what it is doing."""
    lines = text.rstrip().splitlines()
    start = next((n for n, line in enumerate(lines) if "  " in line.strip()), 0)
    return "\n".join(line.rstrip() for line in lines[start:])
