"""The figures of a slide: one of each marker that stays in it, and one of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.core.printable import shorten
from unglow.multiplexed.results import (
    SLIDE_FIGURE,
    SlideRecord,
    Subtraction,
    figure_names,
    load_residues,
    load_scales,
    overview_of,
)
from unglow.reporting.figures.comparison import draw_refusal
from unglow.reporting.figures.markers import MarkerPictures, draw_marker
from unglow.reporting.figures.markers import draw_slide as draw_all
from unglow.reporting.figures.style import save_png
from unglow.reporting.marker_rows import SlideEntry, marker_rows
from unglow.reporting.summary import texts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Characters of a marker's name in the title of its figure.
_LONGEST_NAME = 60


def draw_slide(paths: Mapping[str, Path], target: Path, title: str) -> None:
    """Write the figures of a slide into a directory; those of markers that failed say why.

    Parameters
    ----------
    paths
        Its results: ``slide``, ``scale``, ``subtraction``, ``residues`` and ``overviews``.
    target
        The directory.
    title
        Of the slide.
    """
    record, subtraction = SlideRecord.load(paths["slide"]), Subtraction.load(paths["subtraction"])
    scales = load_scales(paths["scale"])
    place = paths["slide"].absolute().parent
    entry = SlideEntry(place.name, record.slide.subtracted, place.name)
    rows = {row["dye"]: texts(row) for row in marker_rows(entry, place.parent)}
    residues = load_residues(paths["residues"], list(subtraction.markers))
    size = record.pixel_size_um and sum(record.pixel_size_um) / 2
    files = {name: target / file for name, file in figure_names(rows).items()}
    target.mkdir(parents=True, exist_ok=True)
    titles = {name: f"{title} {shorten(name, _LONGEST_NAME)}" for name in rows}
    shown = {name: MarkerPictures(row) for name, row in rows.items()}
    for n, (name, one) in enumerate(subtraction.markers.items()):
        if rows[name]["status"] == "failed":
            continue
        overview, step = overview_of(paths["overviews"], n)
        chosen = scales[name].scale.methods[one.method]
        line = chosen.gain or 0.0, chosen.offset or 0.0
        shown[name] = MarkerPictures.of(rows[name], overview, line)
        figure = draw_marker(
            shown[name], one, residues[name], step=step, pixel_size_um=size, title=titles[name]
        )
        save_png(figure, files[name])
    for name, marker in shown.items():
        if marker.before is None:
            refusal = draw_refusal(
                titles[name], marker.row["reasons"], marker.row["status"], of="marker"
            )
            save_png(refusal, files[name])
    save_png(draw_all([*shown.values()], title=f"{title}: all markers"), target / SLIDE_FIGURE)
