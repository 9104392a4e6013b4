"""Draw the good and bad figures of docs/results.md side by side, from phantoms that it runs.

    python benchmarks/good_and_bad.py docs/pictures

One phantom as it should be, the same with a map that cannot follow its deformation, and one whose
cameras have offsets that the method ignores. Takes two minutes; with --work DIR the runs are kept,
and only what is missing is run again.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from PIL import Image, ImageDraw, ImageFont

DEFORMED = ("--deform-px", "4", "--deform-wavelength-px", "700")
OFFSETS = ("--offset-pre", "3", "--offset-post", "12")
# For each run: options of the phantom, and the configuration.
RUNS = {
    "good": (DEFORMED, "{}\n"),
    "map": (DEFORMED, "register: {model: similarity, field: never, strips: never}\n"),
    "gain": (OFFSETS, "scale: {methods: [percentile]}\n"),
}
# For each figure: the run that spoils it, and why.
FIGURES = {
    "registration": ("map", "bad: the map does not follow the deformation"),
    "map_error": ("map", "bad: the error is large everywhere"),
    "difference": ("map", "bad: bright edges"),
    "joint_histogram": ("gain", "bad: the line misses the band"),
    "candidates": ("gain", "bad: candidates in clusters"),
    "gallery": ("map", "bad: edges instead of spots"),
}
WIDTH, GAP, BAND = 690, 20, 40  # of one figure, between two, of the label above each; px
MOST_KB = 132
COLOURS = {"good": "#1a7f4b", "bad": "#b3402a"}


class Panel(NamedTuple):
    """A figure and the label above it."""

    label: str
    picture: Image.Image


def run(work: Path, name: str) -> Path:
    """Run a phantom unless its results are there; return the directory of its pair."""
    place = work / name
    options, config = RUNS[name]
    (place / "config").mkdir(parents=True, exist_ok=True)
    (place / "config" / "config.yaml").write_text(config)
    if not (place / "raw").exists():
        subprocess.run(
            ["unglow", "phantom", "--size", "1024x1024", *options], cwd=place, check=True
        )
    subprocess.run(
        ["unglow", "run", "--quiet", "--config", "allow_failed=true"], cwd=place, check=True
    )
    return place / "results" / "phantom" / "SYTO9"


def read_panel(label: str, file: Path) -> Panel:
    """Read a figure and bring it to the width of a panel."""
    picture = Image.open(file).convert("RGB")
    size = WIDTH, round(picture.height * WIDTH / picture.width)
    return Panel(label, picture.resize(size, Image.Resampling.LANCZOS))


def join(panels: list[Panel]) -> Image.Image:
    """Put figures of any height side by side, each below its label."""
    height = BAND + max(panel.picture.height for panel in panels)
    sheet = Image.new("RGB", (len(panels) * (WIDTH + GAP) - GAP, height), "white")
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.truetype(str(Path(mpl.get_data_path(), "fonts/ttf/DejaVuSans-Bold.ttf")), 22)
    for place, panel in enumerate(panels):
        left = place * (WIDTH + GAP)
        colour = COLOURS[panel.label.partition(":")[0]]
        pen.rectangle((left, 0, left + WIDTH - 1, BAND - 6), fill=colour)
        pen.text((left + 10, 3), panel.label, font=font, fill="white")
        sheet.paste(panel.picture, (left, BAND))
    return sheet


def save(sheet: Image.Image, target: Path) -> None:
    """Write a JPEG of at most MOST_KB, as good as that allows."""
    for quality in range(88, 30, -4):
        written = io.BytesIO()
        sheet.save(written, "JPEG", quality=quality, optimize=True)
        if written.tell() <= MOST_KB * 1000:
            break
    target.write_bytes(written.getvalue())
    print(f"{target}: {written.tell() / 1000:.0f} kB, quality {quality}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path, help="directory of the pictures to write")
    parser.add_argument("--work", type=Path, help="directory of the runs, to keep them")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = given.work or Path(scratch)
        figures = {name: run(work.absolute(), name) / "figures" for name in RUNS}
        for name, (spoilt, label) in FIGURES.items():
            good = read_panel("good", figures["good"] / f"{name}.png")
            bad = read_panel(label, figures[spoilt] / f"{name}.png")
            save(join([good, bad]), given.target / f"good-bad-{name}.jpg")


if __name__ == "__main__":
    main()
