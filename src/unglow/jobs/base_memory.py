"""Memory of jobs before they read a pixel; of those that read small files only, all of it."""

from __future__ import annotations

from unglow.core.demand import Demand

# VmHWM, MB, of a process that has imported what the stage needs and worked on a trivial image.
# Pages of shared libraries count, and how many of them come along with one that is used differs
# between kernels and file systems. For those that load OpenCV it is the peak where a used page
# brings in the 2 MB around it (a thread populated them all the time), less the terms below. For
# `detect` and `ingest` it is what a pair of 510 x 667 px took in an environment that was installed
# just before, whose pages come in large pieces, less all terms of the model. For jobs of slides
# each 2 MB of a library of which a page was used count whole, less all terms.
BASE = {
    "ingest": 60.0,
    "register": 122.0,
    "align": 104.0,
    "scale": 44.0,
    "difference": 64.0,
    "detect": 102.0,
    "snr": 112.0,
    "export": 58.0,
    "slide_scale": 98.0,
    "slide_subtract": 62.0,
    "figures_registration": 186.0,
    "figures": 182.0,
    "slide_figures": 148.0,
    "comparison": 205.0,
    "summary": 40.0,
}
BY_HEADER = ("ingest", "register", "align", "difference", "detect", "snr")
"""Stages whose memory depends on the images; the others read small files only."""
SLACK = 12.0
"""Small files, small arrays, and what the allocator keeps at hand, MB."""
# Cells of moments, and fits of gain and gain map to some of them, MB.
_FITS = 64.0


def small(stage: str) -> Demand:
    """Demand of a job that reads small data only: scale, figures, summary."""
    return Demand(BASE[stage], 0.0, fixed=SLACK + (_FITS if stage == "scale" else 0.0))
