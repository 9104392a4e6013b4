"""The figures of a pair, by the files that are published.

A row of `FIGURES` for each figure of a pair: rules, paths and captions follow from it. A new one is
a function ``draw_<name>_of_pair(pair, title)``, which takes
`unglow.figures.figure_inputs.FigureInputs` and returns the figure; a row here and in
`unglow.figures.drawing`; and its caption, ``report/<name>.rst``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A figure.

    Attributes
    ----------
    name
        Of the file in ``figures/``, of the output of its rule and of its caption.
    category
        Heading in Snakemake's report. It is drawn where a pair has results of this kind; if there
        are none, the reason is drawn in its place.
    label
        Its title.
    is_extra
        Whether it is drawn only where the configuration asks for all figures.
    """

    name: str
    category: str
    label: str
    is_extra: bool = False

    @property
    def file(self) -> str:
        """Path below the directory of a pair."""
        return f"figures/{self.name}.png"


REGISTRATION, SCALE, DIFFERENCE, CANDIDATES = "Registration", "Scale", "Difference", "Candidates"
FIGURES = {
    "figures_registration": (
        FigureRow("registration", REGISTRATION, "overlay before and after"),
        FigureRow("residuals", REGISTRATION, "residual vectors", is_extra=True),
        FigureRow("map_error", REGISTRATION, "map and its error"),
    ),
    "figures": (
        FigureRow("joint_histogram", SCALE, "post against pre"),
        FigureRow("ratio_histogram", SCALE, "ratio of post to pre", is_extra=True),
        FigureRow("difference", DIFFERENCE, "difference"),
        FigureRow(
            *("difference_histogram", DIFFERENCE, "histogram of the difference"),
            is_extra=True,
        ),
        FigureRow("candidates", CANDIDATES, "candidates"),
        FigureRow(*("purity", CANDIDATES, "purity against threshold"), is_extra=True),
        FigureRow("gallery", CANDIDATES, "gallery of candidates"),
    ),
}
"""Rows by the rule that draws them where a registration is shared, in the order of drawing.

`unglow.workflow.stage_table.figures_of` says which rule draws them in a run.
"""
