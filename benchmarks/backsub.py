"""Run Backsub and unglow on the same multiplexed slides, and print what both take and what is left.

    python benchmarks/backsub.py /path/to/backsub --sizes 4096 8192 16384
    python benchmarks/backsub.py /path/to/backsub --residues 2048 --picture residues.png

The first compares time and memory, both subtracting the same way: background times the ratio of
exposure times, nothing registered, rounded down; pixels have to be identical. The second compares
what is left of the background where a cycle is 1.3 px and 0.05 degrees off the one before,
gains are 10 % off the ratio of exposure times and the cameras' offsets differ.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import psutil
import tifffile
from running import WORK, command, read_telemetry, say, snakemake_words
from tables import number, table

from unglow.core.machine import processors
from unglow.core.windows import Window, grid
from unglow.phantom.slide import SlideRenderer, SlideSpec, make_slide

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

SLIDE = "slide"
AS_BACKSUB: dict[str, object] = {
    "multiplexed": "{rounding: down}",
    "register": "{model: none}",
    "scale": "{methods: [exposure]}",
}
LEGEND = """\
wall, CPU  s, of the whole command and all of its processes; of unglow with figures and report.
tree       MB, most that all processes of the command held at once (resident, sampled every 50 ms;
           what they share counts once for each).
job        MB, most that one job of unglow held; it may take the budget.
ratio      Backsub / unglow.
differ     pixels of the two corrected slides that are not the same."""
LEFT_LEGEND = """\
mean, rms    of pixels without signal, counts; the truth is 0. They cannot be below 0.
correlation  of those pixels with the autofluorescence.
cells        median of (brightness - truth) / truth of pixels with a signal above 300 counts."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a command took: s, s and MB."""

    wall_s: float
    cpu_s: float
    tree_mb: float


@contextmanager
def watched() -> Iterator[list[float]]:
    """Give a list whose only number is the most that all children of this process hold, MB."""
    most, done, own = [0.0], threading.Event(), psutil.Process()

    def watch() -> None:
        while not done.wait(0.05):
            held = 0
            for child in own.children(recursive=True):
                try:
                    held += child.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            most[0] = max(most[0], held / 1e6)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        done.set()
        watcher.join()


def timed(*words: object, directory: Path) -> Taken:
    """Run a command."""
    with watched() as most:
        wall, cpu = command(*words, directory=directory)
    return Taken(wall, cpu, most[0])


def backsub(program: Path, place: Path) -> Taken:
    """Run Backsub on the slide in a directory."""
    raw = Path("raw") / SLIDE
    words = ("-in", raw / f"{SLIDE}.ome.tif", "-m", raw / "markers.csv")
    out = ("-o", "backsub.ome.tif", "-mo", "backsub.csv")
    return timed(program, *words, *out, directory=place)


def unglow(place: Path, config: dict[str, object]) -> tuple[Taken, float]:
    """Run the workflow in a directory; return also the peak of its largest job, MB."""
    took = timed(*snakemake_words(processors(), config), directory=place)
    records = read_telemetry(place / "results" / "telemetry")
    return took, max(record["peak_mb"] for record in records)


def corrected(place: Path) -> dict[str, Path]:
    """Return the corrected slides in a directory by tool."""
    return {
        "Backsub": place / "backsub.ome.tif",
        "unglow": place / "results" / SLIDE / "corrected.ome.tif",
    }


def different(place: Path) -> int:
    """Count the pixels that differ, plane by plane."""
    count = 0
    ours, theirs = (tifffile.TiffFile(path) for path in corrected(place).values())
    with ours, theirs:
        if len(ours.pages) != len(theirs.pages):
            sys.exit("the two corrected slides have not the same channels")
        for one, other in zip(ours.pages, theirs.pages, strict=True):
            count += int(np.count_nonzero(one.asarray() != other.asarray()))
    return count


def cost(program: Path, side: int, budget: int, place: Path) -> list[str]:
    """Measure both tools on a slide of eight channels."""
    spec = SlideSpec((side, side), shift_px=(0.0, 0.0), rotation_deg=0.0)
    make_slide(spec, place / "raw", SLIDE, workers=processors())
    ours, job = unglow(place, AS_BACKSUB | {"memory_per_job": budget})
    say(f"{side}: unglow {ours}, largest job {job:.0f} MB")
    theirs = backsub(program, place)
    say(f"{side}: Backsub {theirs}")
    both = [(one.wall_s, one.cpu_s, one.tree_mb) for one in (theirs, ours)]
    ratios = (a / b for a, b in zip(*both, strict=True))
    figures = [number(value) for value in (*both[0], *both[1], job, *ratios)]
    return [str(side), *figures, str(different(place))]


def left_of(renderer: SlideRenderer, path: Path, channel: int) -> NDArray[np.float64]:
    """Return pixels as rows of corrected, truth and autofluorescence, of all px of the tissue."""
    marker = renderer.channels[channel]
    kept = [one.name for one in renderer.channels if not one.name.startswith("AF")]
    with tifffile.TiffFile(path) as tif:
        names = len(tif.pages)
        plane = tif.pages[kept.index(marker.name) if names == len(kept) else channel].asarray()
    rows = []
    for window in grid(renderer.spec.shape, (1024, 1024)):
        shared = renderer.autofluorescence(marker.cycle, window)
        signal = renderer.signal(marker, window)
        inside = shared > 50
        rows.append([one[inside] for one in (plane[window.slices].astype(float), signal, shared)])
    return np.concatenate([np.array(row) for row in rows], axis=1)


def residue(pixels: NDArray[np.float64]) -> list[str]:
    """Return mean, rms and correlation of pixels without signal, and the error of cells."""
    value, signal, shared = pixels
    dark, cells = signal < 0.5, signal > 300
    left = value[dark]
    moments = (left.mean(), np.sqrt(np.mean(left**2)))
    same = np.corrcoef(left, shared[dark])[0, 1] if left.std() else 0.0
    wrong = np.median((value[cells] - signal[cells]) / signal[cells])
    return [*(f"{one:.1f}" for one in moments), f"{same:+.2f}", f"{wrong:+.1%}"]


def residues(
    program: Path, side: int, budget: int, place: Path
) -> tuple[list[list[str]], list[Any]]:
    """Compare what both tools leave, with gains above and below the ratio of exposure times."""
    rows, pictures = [], []
    for error in (0.1, -0.1):
        spec = SlideSpec((side, side), shift_px=(1.3, 0.0), rotation_deg=0.05, gain_error=error)
        here = place / f"gain{error:+}"
        here.mkdir()
        renderer = make_slide(spec, here / "raw", SLIDE, workers=processors())
        number_of, marker = next((n, c) for n, c in enumerate(renderer.channels) if c.background)
        backsub(program, here)
        as_imaged = f"{{reference: {marker.cycle}}}"  # Backsub moves nothing, nor does the truth
        unglow(here, {"memory_per_job": budget, "multiplexed": as_imaged})
        raw = here / "raw" / SLIDE / f"{SLIDE}.ome.tif"
        for tool, path in {"as imaged": raw, **corrected(here)}.items():
            cells = residue(left_of(renderer, path, number_of))
            rows.append([f"{error:+.0%}", tool, *cells])
        pictures.append(picture(renderer, here, number_of))
    return rows, pictures


def picture(renderer: SlideRenderer, place: Path, channel: int) -> NDArray[np.uint8]:
    """Return one corner of the tissue side by side: as imaged, by Backsub, by unglow, the truth."""
    side = renderer.spec.shape[0]
    window = Window(side // 4, side // 4 + 320, side // 2, side // 2 + 320)
    marker = renderer.channels[channel]
    kept = [one.name for one in renderer.channels if not one.name.startswith("AF")]
    paths = [place / "raw" / SLIDE / f"{SLIDE}.ome.tif", *corrected(place).values()]
    views = []
    for path, page in zip(paths, (channel, *[kept.index(marker.name)] * 2), strict=True):
        with tifffile.TiffFile(path) as tif:
            views.append(tif.pages[page].asarray()[window.slices].astype(float))
    views.append(renderer.signal(marker, window))
    return np.hstack([np.clip(one / 1500 * 255, 0, 255).astype(np.uint8) for one in views])


def main(words: Sequence[str] | None = None) -> int:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("program", type=Path, help="the command backsub")
    parser.add_argument("--sizes", type=int, nargs="*", default=[], metavar="PX", help="of sides")
    parser.add_argument(
        "--residues", type=int, metavar="PX", help="compare what is left, of a side"
    )
    parser.add_argument("--budget", type=int, default=300, help="memory of a job of unglow, MB")
    parser.add_argument("--picture", type=Path, help="PNG to write of what is left")
    options = parser.parse_args(words)
    program = options.program.resolve()
    WORK.mkdir(parents=True, exist_ok=True)
    rows = []
    for side in options.sizes:
        with tempfile.TemporaryDirectory(prefix="backsub-", dir=WORK) as place:
            rows.append(cost(program, side, options.budget, Path(place)))
    if rows:
        units = ("wall", "CPU", "tree")
        header = ("px", *(f"B. {u}" for u in units), *(f"u. {u}" for u in units), "job")
        print(table((*header, *(f"ratio {u}" for u in units), "differ"), rows), LEGEND, sep="\n\n")
    if options.residues:
        with tempfile.TemporaryDirectory(prefix="backsub-", dir=WORK) as place:
            rows, pictures = residues(program, options.residues, options.budget, Path(place))
        if options.picture:
            cv2.imwrite(str(options.picture), np.vstack(pictures))
        header = ("gain", "", "mean", "rms", "correlation", "cells")
        print(table(header, rows, left=2), LEFT_LEGEND, sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
