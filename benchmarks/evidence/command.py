"""The command line: measure each question, and write the page."""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from running import PROJECT, WORK, run, say

from evidence import registration
from evidence.tools import all_tools
from unglow.core.machine import busy_processors, processors
from unglow.core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = PROJECT / "docs" / "evidence.md"
LIBRARIES = ("snakemake", "numpy", "opencv-python-headless", "zarr", "tifffile")


@dataclass(frozen=True, slots=True)
class Question:
    """A table that another benchmark prints: its heading, what it shows, and its words."""

    title: str
    about: str
    small: tuple[str, ...]
    full: tuple[str, ...]


TOP = """\
# Evidence

What unglow promises, measured next to other tools on images whose truth is known. A command writes
this page, here on {date} in {minutes} minutes ([how to get the other
tools](../benchmarks/README.md#other-tools-evidence)):

    {command}

unglow {unglow}, Python {python}, {versions}.
{machine} with {processors} processors, of which other programs used {busy} at the end. Times
compare only within a table, and only on an idle machine.

## Where does each tool put a point?

Phantoms of {size} px. Errors are distances to the true place, px, over points of the section that
are not damaged. A map whose 95th percentile is above {lost} px is wrong. *Result* is what the tool
itself says. The settings of each tool are in `benchmarks/evidence/peers/`. unglow's row is the
entire Snakemake command up to the map.

{table}

Not measured: VALIS (its import downloads weights), palom (its pinned scikit-image has no wheel for
Python 3.11), ANTs.
"""
PART = """
## {title}

{about}

    python benchmarks/{words}

```text
{printed}
```
"""
QUESTIONS = (
    Question(
        "How right is the gain?",
        "Pairs with a known gain and offset, by each scale method. `moffat` is what exo2micro does "
        "(no offset).",
        ("photometry", "gain", "--draws", "1", "--groups", "grid", "stained"),
        ("photometry", "gain", "--draws", "5", "--groups", "grid", "stained", "real"),
    ),
    Question(
        "Do the intervals of the gain contain the true one?",
        "A 95 % interval should, in 95 of 100 pairs.",
        ("photometry", "coverage", "--draws", "6"),
        ("photometry", "coverage", "--draws", "70"),
    ),
    Question(
        "Which spots are found, and how many are false?",
        "Phantoms whose microbes are known; the false-discovery rate that unglow claims, and the "
        "true one.",
        ("photometry", "detection", "--draws", "3"),
        ("photometry", "detection", "--draws", "20"),
    ),
    Question(
        "Does a bad pair pass for a good one?",
        "Pairs with a fault of an entire image: the list has to be right, or the pair `suspect`.",
        ("damage", "faults", "--draws", "1", "--side", "1024"),
        ("damage", "faults", "--draws", "4"),
    ),
    Question(
        "What does it cost?",
        "Whole runs, with the floor: reading the raw files once and writing the results once.",
        ("whole_run.py", "--sizes", "1024", "4096"),
        ("whole_run.py", "--sizes", "4096", "8192", "30000x25000"),
    ),
)


def main(words: Sequence[str] | None = None) -> int:
    """Measure everything; return 1 if a command failed."""
    parser = argparse.ArgumentParser(prog="evidence", description=__doc__)
    parser.add_argument("--full", action="store_true", help="hours instead of 15 minutes")
    parser.add_argument(
        "--peers",
        type=Path,
        default=WORK / "peers",
        metavar="DIR",
        help="environments of the other tools: DIR/greedy, DIR/elastix, DIR/exo2micro",
    )
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE", help="what is written")
    options = parser.parse_args(words)
    work = WORK / "evidence"
    shutil.rmtree(work, ignore_errors=True)
    started = time.monotonic()
    size = 4096 if options.full else 2048
    rows = registration.measure(all_tools(options.peers.resolve()), size, work)
    shutil.rmtree(work, ignore_errors=True)
    parts, failed = [], []
    for question in QUESTIONS:
        chosen = question.full if options.full else question.small
        say(" ".join(chosen))
        words_of = [sys.executable, PROJECT / "benchmarks" / chosen[0], *chosen[1:]]
        status, text = run(*words_of, directory=PROJECT)
        if status not in (0, 1) or "Traceback" in text:  # 1: an aim is missed, as the table says
            failed.append(question.title)
        parts.append((question, chosen, _tables(text)))
    minutes = (time.monotonic() - started) / 60
    page = _write(rows, parts, full=options.full, minutes=minutes)
    options.page.write_text(page)
    say(f"{options.page} ({minutes:.0f} min)")
    return 1 if failed else 0


def _tables(text: str) -> str:
    """Return what a benchmark printed, without lines that only say what it is doing."""
    lines = text.rstrip().splitlines()
    start = next((n for n, line in enumerate(lines) if "  " in line.strip()), 0)
    return "\n".join(line.rstrip() for line in lines[start:])


def _write(
    rows: Sequence[Sequence[str]],
    parts: Sequence[tuple[Question, Sequence[str], str]],
    *,
    full: bool,
    minutes: float,
) -> str:
    """Return the page."""
    page = TOP.format(
        command="make evidence ARGS=--full" if full else "make evidence",
        date=time.strftime("%Y-%m-%d"),
        minutes=f"{minutes:.0f}",
        unglow=__version__,
        python=platform.python_version(),
        versions=", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES),
        machine=platform.machine(),
        processors=processors(),
        busy=f"{busy_processors():.1f}",
        size=4096 if full else 2048,
        lost=f"{registration.LOST_PX:g}",
        table="\n".join(_markdown(registration.HEADER, rows)),
    )
    return page + "".join(
        PART.format(title=q.title, about=q.about, words=" ".join(chosen), printed=printed)
        for q, chosen, printed in parts
    )


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table, in which a pair is named once."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    last = ""
    for row in rows:
        name = row[0] if row[0] != last else ""
        last = row[0]
        lines.append(f"| {' | '.join([name, *row[1:]])} |")
    return lines
