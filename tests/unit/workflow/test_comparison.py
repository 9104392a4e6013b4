"""The comparison of variants: which candidates they share, and where they differ."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_figures import texts

from unglow.reporting.figures.style import save_png
from unglow.workflow.stages.comparison import (
    MOST,
    MOST_PICTURES,
    WINDOW_PX,
    Listed,
    add_agreement,
    draw_comparison,
    read_listed,
)

SHAPE = (900, 1200)
SHARED = np.array([[30.0, 40.0], [700.0, 500.0], [900.0, 600.0]])


class Plane:
    """A difference of noise."""

    empty, levels, shape = None, 1, SHAPE

    def __init__(self, seed):
        random = np.random.default_rng(seed)
        self.pixels = random.normal(0, 2, SHAPE).astype(np.float32)

    def level_shape(self, _):
        return SHAPE

    def read(self, window, _=0):
        return self.pixels[window.slices]


def row_of(name, count):
    return {
        "sample": "S",
        "dye": "D",
        "detection": name,
        "status": "ok",
        "method": "linear",
        "gain": 1.3,
        "candidates": count,
        "candidates_fdr": 0.04,
        "density_per_mm2": 12.0,
        "density_low95": 8.0,
        "density_high95": 16.0,
    }


def made(**lists):
    rows = [row_of(name, len(xy)) for name, xy in lists.items()]
    return [(row, Listed(xy, 0.1)) for row, xy in zip(rows, lists.values(), strict=True)]


def drawn(lists):
    stores = {("S", "D", "", "", "", row["detection"], "linear"): Plane(1) for row, _ in lists}
    return draw_comparison([row for row, _ in lists], stores, lists, "S D")


def words(figure):
    return [text for text, _ in texts(figure)]


def pictures(figure):
    """All axes but that of the colour bar."""
    return [axes for axes in figure.axes if axes.collections]


def rings(figure):
    """Number of white and of yellow rings in each picture."""
    return [[len(part.get_offsets()) for part in axes.collections] for axes in pictures(figure)]


def test_the_share_of_candidates_is_reported_both_ways():
    more = np.vstack([SHARED + 0.3, [[1000, 100], [1010, 100], [1020, 100]]])
    lists = made(a=SHARED, b=more, none=np.zeros((0, 2)))
    add_agreement(lists)
    shares = [(row["in_first"], row["of_first"]) for row, _ in lists]
    assert shares == [(1, 1), (0.5, 1), (None, 0)]


@pytest.mark.parametrize(("error", "found"), [(0.1, False), (0.7, True)])
def test_candidates_are_the_same_within_their_errors(error, found):
    one, other = Listed(SHARED, error), Listed(SHARED + np.array([2.0, 0.0]), error)
    assert one.found_in(other).tolist() == [found] * 3


def test_the_sheet_shows_where_searches_differ_and_marks_what_others_lack(tmp_path):
    extra = np.array([[1000.0, 100], [1010, 130], [1020, 100], [1150, 200]])
    lists = made(strict=SHARED, loose=np.vstack([SHARED, extra]))
    figure = drawn(lists)
    said = words(figure)
    assert {"strict", "loose", "3", "7", "12 (8 to 16)", "4 %", "42.9", "100"} <= set(said)
    (left, right), (bottom, top) = figure.axes[0].get_xlim(), figure.axes[0].get_ylim()
    assert right - left == bottom - top == WINDOW_PX
    assert left < 1000
    assert right > 1150
    assert rings(figure) == [[0, 0], [0, 4]]
    save_png(figure, tmp_path / "c.png")
    assert (tmp_path / "c.png").stat().st_size > 100_000


def test_searches_that_agree_are_shown_where_candidates_are():
    figure = drawn(made(one=SHARED, other=SHARED, nothing=np.zeros((0, 2))))
    assert rings(figure)[2] == [0, 0]
    assert "nan" not in "".join(words(figure))
    assert drawn(made(one=np.zeros((0, 2)), other=np.zeros((0, 2)))).axes


def test_one_search_is_no_comparison_and_very_many_are_not_all_drawn():
    assert not pictures(drawn(made(one=SHARED)))
    figure = drawn(made(**{f"v{n}": SHARED for n in range(MOST + 3)}))
    assert len(pictures(figure)) == MOST
    assert any("3 more variants are in comparison.tsv alone" in text for text in words(figure))


def test_the_first_of_very_many_variants_have_an_overview():
    """Each takes memory of the job, which declares the same for any number."""
    rows = [{**row_of(f"v{n}", 3), "gain": 1.0 + n} for n in range(MOST_PICTURES + 3)]
    stores = {("S", "D", "", "", "", row["detection"], "linear"): Plane(1) for row in rows}
    figure = draw_comparison(rows, stores, [], "S D")
    assert sum(bool(axes.images) for axes in figure.axes) == MOST_PICTURES
    assert any(f"v{MOST_PICTURES + 2}" in text for text in words(figure))


def test_only_what_counts_is_compared(tmp_path):
    place = tmp_path / "S" / "D" / "v"
    place.mkdir(parents=True)
    cells = ["id,x,y,x_err,y_err,snr,flags", "1,10,20,0.3,0.4,9,", "2,50,60,0.3,0.4,9,outside"]
    (place / "candidates.csv").write_text("\n".join(cells) + "\n")
    rows = [row_of("v", 1), row_of("v", 1) | {"candidates": None}]
    ((row, listed),) = read_listed(rows, tmp_path)
    assert row is rows[0]
    assert listed.xy.tolist() == [[10, 20]]
    assert listed.error == pytest.approx(0.5)
