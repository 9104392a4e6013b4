"""Figures that let a person judge a result at a glance, drawn from small arrays only."""

from __future__ import annotations

from unglow.reporting.figures.candidates import draw_candidates
from unglow.reporting.figures.comparison import ComparisonRow, draw_comparison, draw_refusal
from unglow.reporting.figures.difference import draw_difference
from unglow.reporting.figures.histograms import (
    draw_difference_histogram,
    draw_excess,
    draw_histograms,
    draw_joint_histogram,
    draw_ratio,
)
from unglow.reporting.figures.map_error import draw_map_error
from unglow.reporting.figures.purity import draw_purity
from unglow.reporting.figures.registration import DETAIL_PX, draw_registration
from unglow.reporting.figures.residuals import draw_residuals
from unglow.reporting.figures.stamps import SIDE_PX, Stamp, draw_gallery
from unglow.reporting.figures.style import Crop, save_png

__all__ = [
    "DETAIL_PX",
    "SIDE_PX",
    "ComparisonRow",
    "Crop",
    "Stamp",
    "draw_candidates",
    "draw_comparison",
    "draw_difference",
    "draw_difference_histogram",
    "draw_excess",
    "draw_gallery",
    "draw_histograms",
    "draw_joint_histogram",
    "draw_map_error",
    "draw_purity",
    "draw_ratio",
    "draw_refusal",
    "draw_registration",
    "draw_residuals",
    "save_png",
]
