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

from running import PROJECT, WORK, command, run, say
from tables import number, table

from evidence import finding, honesty, registration, subtraction
from evidence.registration import all_tools
from unglow import __version__
from unglow.core.machine import busy_processors, processors
from unglow.core.process import cpuinfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PAGE = PROJECT / "docs" / "evidence.md"
AT_2048_PX = (
    "exo2micro is lost on pairs of this size; of the six of 2048 px it placed five, with medians "
    "of 0.14 to 1.3 px (2026-11-26)."
)
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


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: its key, heading and words, and what measures its table.

    ``measure`` returns the table and whether it is complete.
    """

    key: str
    title: str
    about: str
    measure: Callable[[Options], tuple[str, bool]]
    after: str = ""


def printed_by(small: Sequence[str], full: Sequence[str]) -> Callable[[Options], tuple[str, bool]]:
    """Return what runs another benchmark and gives the table that it prints."""

    def measure(options: Options) -> tuple[str, bool]:
        chosen = full if options.full else small
        script, *rest = chosen
        status, text = run(
            sys.executable, PROJECT / "benchmarks" / script, *rest, directory=PROJECT
        )
        done = status in (0, 1) and "Traceback" not in text  # 1: an aim is missed, as it says
        shown = f"    python benchmarks/{' '.join(chosen)}\n\n```text\n{_tables(text)}\n```"
        return shown, done

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
    about = f"Phantoms of {size} px." + ("" if options.full else f" {AT_2048_PX}")
    tools = all_tools(options.peers)
    rows = registration.measure_tools(tools, size, options.work, every_tool=options.full)
    return format_part(about, registration.HEADER, rows), True


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
    command(sys.executable, PROJECT / "benchmarks" / "whole_run.py", *words, directory=PROJECT)
    rows = [write_cost(run) for run in json.loads(found.read_text())["runs"]]
    return format_part("", COST_HEADER, rows), True


def write_cost(run: dict[str, Any]) -> list[str]:
    """Return the cells of a run: of the whole command, and of the job that held most."""
    case, largest = run["case"], max(run["rules"], key=lambda rule: rule["peak_mb"])
    megapixels = run["pair"]["pixels"] / 1e6
    floor = run["floor"]["read_s"] + run["floor"]["write_s"]
    return [
        f"{case['rows']} x {case['cols']} px, {case['dtype']}",
        f"{megapixels:.1f}",
        number(run["wall_s"]),
        number(run["cpu_s"]),
        number(largest["peak_mb"]),
        number(largest["declared_mb"]),
        f"{run['wall_s'] / megapixels:.3f}",
        number(run["wall_s"] / floor),
    ]


TOP = """\
# Evidence

What unglow promises, measured next to other tools on images whose truth is known. This command
writes the page ([what it needs](../benchmarks/README.md#other-tools-evidence)):

    make peers evidence

It takes 12 minutes on two idle processors; `ARGS=--full` takes hours, with larger images and more
draws. The line below each table says how it was measured. CPU is processor time: of all processes
of the part, other tools included, or of one command in a column of a table. It depends less than
wall time on what else the machine does, and compares only within a table. Settings of other tools
are in `benchmarks/evidence/peers/`.
"""
SECTIONS = (
    Section(
        "registration",
        "Where does each tool put a point?",
        "Errors are distances to the true place, px, over points of the section that are not "
        f"damaged. A map whose 95th percentile is above {registration.LOST_PX:g} px is wrong. "
        "*Result* is what the tool itself says. unglow's row is the entire Snakemake command up to "
        "the map. Deformable settings are run on the deformed pairs, affine ones on all others "
        "(`--full`: all on all).",
        _registration,
        "Not measured: VALIS (its import downloads weights), palom (its pinned scikit-image has no "
        "wheel for Python 3.11), ANTs.",
    ),
    Section(
        "subtraction",
        "What is left of the background, and of the signal?",
        "Of pixels of the section without signal: *correlation* of what is left with the "
        "autofluorescence (4 x 4 px means, the larger one of two fluorophores) and its mean "
        "*level* over the noise of a pixel; *all 0*: cut off at 0. Error of the brightness of "
        "pixels whose true signal is 2 to 4 times that noise (*S/N 3*) or above 10 times "
        "(*bright*), and of the "
        "*gain*, the larger of two, over their sum. Of several markers each column has the worst. "
        "Cycles of the slides do not move. Tools other than unglow get the pair registered with "
        "the true map; Backsub and interpolation also get exposure times. *Formula*: computed as "
        "published, not by the program.",
        _subtraction,
        """\
Where another tool is better:

- With an unstained section that was imaged the same way, SAIBR is closest to the truth on slides
  (both sections have the same gain here). unglow takes no such section: it would have to read a
  third image.
- Where exposure times are the true ratio and the camera has no offset, Backsub's gain has no error
  (its correlation and level are those of noise that is cut off at 0). `scale.methods: [exposure]`
  makes unglow use exposure times as well.

Not measured: the program napari-PICASSO 0.3.0 (it opens a window, and needs torch with CUDA, 5 GB);
Akoya's processor, COMET HORIZON (closed).""",
    ),
    Section(
        "gain",
        "How right is the gain?",
        "Pairs with a known gain and offset, by each scale method. `moffat` is what exo2micro does "
        "(no offset).",
        printed_by(
            ("photometry", "gain", "--draws", "1", "--groups", "grid", "stained"),
            ("photometry", "gain", "--draws", "5", "--groups", "grid", "stained", "real"),
        ),
    ),
    Section(
        "coverage",
        "Do the intervals of the gain contain the true one?",
        "A 95 % interval should, in 182 to 197 of 200 pairs. *statistical* is what noise and "
        "differences over the section make uncertain; the *whole* interval, which is reported, has "
        "a margin as well, which follows from the pair. *covered* counts the pairs for each of the "
        "two: below 182 of 200 (91 %) an interval is too narrow, above 197 (98.5 %) wider than it "
        "has to be.",
        printed_by(
            ("photometry", "coverage", "--draws", "67", "--side", "512", "--jobs", "2"),
            ("photometry", "coverage", "--draws", "67", "--jobs", "2"),
        ),
    ),
    Section(
        "detection",
        "Which spots are found, and how many are false?",
        "Phantoms whose microbes are known; the false-discovery rate that unglow claims, and the "
        "true one.",
        printed_by(
            ("photometry", "detection", "--draws", "3", "--jobs", "2"),
            ("photometry", "detection", "--draws", "20", "--jobs", "2"),
        ),
    ),
    Section(
        "finding",
        "What do other tools find in the same difference?",
        "Every tool searches the same differences, made with the true map, gain and offset. Only "
        "unglow claims a false-discovery rate, and it also uses the noise of both images, for "
        "which the others have no input. *best F1*: with the threshold that suits this truth best, "
        "of seven from 0.5 to 4 times the advised one.",
        _finding,
        """\
Where another tool is better: at its advised threshold sep finds more of the microbes, with most of
its list false. `detect.fdr` sets that balance for unglow.

Not measured: deepBlink, Piscis (both download weights).""",
    ),
    Section(
        "honesty",
        "Is a wrong result reported?",
        "Pairs with one fault. A list is wrong if it has so many false candidates that this would "
        "be chance in less than 1 of 100 lists with 5 % false ones, or a quarter or less of the "
        "microbes (outside of spoilt places) that the undamaged pair gives. exo2micro has no list: "
        "its map is judged, and is wrong in any case if the images are swapped, copied, moved "
        "in part or of different sections; it says whether its fine alignment was rejected. "
        "greedy, elastix and Backsub say nothing of any result.",
        _honesty,
    ),
    Section(
        "verdicts",
        "Is a verdict on real images deserved?",
        "Real images with known truth: channels that were recorded at once, rounds registered "
        "there and back, and images warped by known maps, with spots put in, and with defects of "
        "cameras, stages and exports. A pair is wrong if its map is off by more than 1 px and 1.5 "
        "times what it says (or says so itself), its gain lies outside twice its interval, more "
        "than twice the claimed share of its list is false, or less than 0.7 of the spots are "
        "found that it predicts. *listed* and *false*: of pairs that end `ok`.",
        printed_by(("real", "verdicts", "--jobs", "2"), ("real", "verdicts", "--jobs", "2")),
    ),
    Section(
        "cells",
        "Are labelled cells listed where they are dense?",
        "Phantoms with three clusters of cells, each of one width and density. *Never*: cells in "
        "the list with `spoilt: never`, which excludes nothing.",
        printed_by(("damage", "cells", "--jobs", "2"), ("damage", "cells", "--draws", "5")),
    ),
    Section(
        "cost",
        "What does it cost?",
        "Whole runs of the command on a pair, from raw files to figures. Both images count as Mpx. "
        "*Floor* is reading the raw files once and writing the results once. `--full` measures up "
        "to 30000 x 25000 px.",
        _cost,
    ),
)


def main(words: Sequence[str] | None = None) -> int:
    """Measure everything, or some parts; return 1 if a command failed."""
    parser = argparse.ArgumentParser(prog="evidence", description=__doc__)
    parser.add_argument("--full", action="store_true", help="larger images, more draws: hours")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[section.key for section in SECTIONS],
        metavar="PART",
        help="measure these parts and keep the others of the page: "
        + ", ".join(section.key for section in SECTIONS),
    )
    parser.add_argument(
        "--peers",
        type=Path,
        default=WORK / "peers",
        metavar="DIR",
        help="environments of the other tools: DIR/greedy, DIR/elastix, ...",
    )
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE", help="what is written")
    options = parser.parse_args(words)
    parts = read_parts(options.page) if options.only else {}
    failed, rows = False, []
    WORK.mkdir(parents=True, exist_ok=True)
    for section in SECTIONS:
        if options.only and section.key not in options.only:
            continue
        say(section.title)
        started, used = time.monotonic(), cpu_seconds()
        with tempfile.TemporaryDirectory(prefix="evidence-", dir=WORK) as work:
            given = Options(options.peers.resolve(), options.full, Path(work))
            text, done = section.measure(given)
        failed |= not done
        taken = [(time.monotonic() - started) / 60, (cpu_seconds() - used) / 60]
        rows.append((section.key, *taken))
        words = f"--only {section.key}" + (" --full" if options.full else "")
        parts[section.title] = write_part(section, text, words, *taken)
        options.page.write_text(join_parts(parts))
    print(table_of_times(rows))
    return int(failed)


def cpu_seconds() -> float:
    """Return the processor time of this process and of all that it started and that ended, s."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in usages)


def table_of_times(rows: Sequence[tuple[str, float, float]]) -> str:
    """Return a line for each part, and their sum, from wall and processor time, min."""
    total = ("all", *(sum(values) for values in list(zip(*rows, strict=True))[1:]))
    lines = [(key, number(wall), number(cpu)) for key, wall, cpu in (*rows, total)]
    return table(("part", "wall min", "CPU min"), lines)


def read_parts(page: Path) -> dict[str, str]:
    """Return the parts of a page by their headings, each without its heading."""
    text = page.read_text() if page.is_file() else ""
    found = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)[1:]
    return {title: body.strip() for title, body in zip(found[::2], found[1::2], strict=True)}


def join_parts(parts: Mapping[str, str]) -> str:
    """Return the page with the parts that there are."""
    known = [section.title for section in SECTIONS if section.title in parts]
    return TOP + "".join(f"\n## {title}\n\n{parts[title]}\n" for title in known)


def write_part(section: Section, measured: str, words: str, wall_min: float, cpu_min: float) -> str:
    """Return a part without its heading: words, table, how it was measured, and more words."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)
    how = (
        f'Measured on {time.strftime("%Y-%m-%d")} with `make evidence ARGS="{words}"`: '
        f"{number(cpu_min)} min of CPU, {number(wall_min)} min with {load_text()}. "
        f"unglow {__version__}, Python {platform.python_version()}, {versions}."
    )
    after = [section.after] if section.after else []
    return "\n\n".join([wrap(section.about), measured, *map(wrap, [how, *after])])


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
