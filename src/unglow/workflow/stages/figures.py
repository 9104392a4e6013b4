"""The figures of a pair, drawn from stores and small result files.

Overviews and a few crops are read, never an image at full resolution; a pair that was refused gets
figures that say why.
"""

from __future__ import annotations

import itertools
from importlib import import_module
from typing import TYPE_CHECKING

from unglow.core import digests
from unglow.reporting.figures import FIGURES
from unglow.reporting.figures.comparison import draw_refusal
from unglow.reporting.figures.style import save_png, styling

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unglow.reporting.figures.figure_inputs import FigureInputs


def draw_figures(pair: FigureInputs, targets: Mapping[str, Path], title: str) -> None:
    """Write the figures with these names, or in their place why there are none."""
    # Where a sweep begins or ends, another rule draws the same files.
    for directory in {path.parents[1] for path in targets.values()}:
        for rule in FIGURES:
            digests.list_of(directory, rule).unlink(missing_ok=True)
    rows = itertools.chain.from_iterable(FIGURES.values())
    with styling():
        for row in (row for row in rows if row.name in targets):
            if refusal := pair.refusal(row.category):
                save_png(draw_refusal(title, *refusal), targets[row.name])
                continue
            module = import_module(f"unglow.reporting.figures.{row.module}")
            draw = getattr(module, f"draw_{row.name}_of_pair")
            save_png(draw(pair, f"{title}: {row.label}"), targets[row.name])
