"""Draws the figures of a pair that a job is to write."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from unglow.core import digests
from unglow.figures.candidate_checks import draw_gallery_of_pair, draw_purity_of_pair
from unglow.figures.candidates import draw_candidates_of_pair
from unglow.figures.difference import draw_difference_of_pair
from unglow.figures.figure_inputs import draw_refusal
from unglow.figures.histograms import (
    draw_difference_histogram_of_pair,
    draw_joint_histogram_of_pair,
    draw_ratio_histogram_of_pair,
)
from unglow.figures.map_error import draw_map_error_of_pair
from unglow.figures.registration import draw_registration_of_pair
from unglow.figures.residuals import draw_residuals_of_pair
from unglow.figures.style import save_png, styling
from unglow.results.figure_table import FIGURES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unglow.figures.figure_inputs import FigureInputs

DRAW = {
    "registration": draw_registration_of_pair,
    "residuals": draw_residuals_of_pair,
    "map_error": draw_map_error_of_pair,
    "joint_histogram": draw_joint_histogram_of_pair,
    "ratio_histogram": draw_ratio_histogram_of_pair,
    "difference": draw_difference_of_pair,
    "difference_histogram": draw_difference_histogram_of_pair,
    "candidates": draw_candidates_of_pair,
    "purity": draw_purity_of_pair,
    "gallery": draw_gallery_of_pair,
}
"""What draws each row of `FIGURES`, by its name."""


def draw_figures(pair: FigureInputs, targets: Mapping[str, Path], title: str) -> None:
    """Write the figures with these names, or in their place why there are none."""
    # Where a sweep begins or ends, another rule draws the same files; others are out of date.
    for directory in {path.parents[1] for path in targets.values()}:
        for row in itertools.chain.from_iterable(FIGURES.values()):
            if row.name not in targets:
                (directory / row.file).unlink(missing_ok=True)
        for rule in FIGURES:
            digests.list_of(directory, rule).unlink(missing_ok=True)
    rows = itertools.chain.from_iterable(FIGURES.values())
    with styling():
        for row in (row for row in rows if row.name in targets):
            if refusal := pair.refusal(row.category):
                save_png(draw_refusal(title, *refusal), targets[row.name])
                continue
            figure = DRAW[row.name](pair, f"{title}: {row.label}")
            save_png(figure, targets[row.name])
            figure.clear()  # else its cycles of references keep its pictures
