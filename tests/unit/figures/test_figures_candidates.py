"""Figures of candidates say what was found, circle it where it is, and have equal bytes."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_figures import check_png, check_texts, said
from PIL import Image

from unglow.core.windows import Window
from unglow.figures.candidate_checks import Stamp, draw_gallery, draw_purity
from unglow.figures.candidates import CLASSES, density, draw_candidates
from unglow.figures.difference import HATCHES, draw_difference
from unglow.figures.style import save_png
from unglow.images.artefacts import SavedPlace
from unglow.images.detection_results import Candidates, SearchCounts, count_per_square, square_px
from unglow.spoilt.places import REASONS
from unglow.spoilt.seams import SEAM

SHAPE = (300, 420)


def candidates(count, shape=SHAPE, step=4):
    random = np.random.default_rng(count)
    numbers = {
        "id": np.arange(1.0, count + 1),
        "x": random.uniform(0, shape[1] * step, count),
        "y": random.uniform(0, shape[0] * step, count),
        "snr": random.uniform(4, 30, count),
        "fdr": random.choice([0.0005, 0.004, 0.03], count),
    }
    return Candidates(numbers, tuple("outside" if n % 10 == 9 else "" for n in range(count)))


def report(count=180, threshold=4.35, **changes):
    snr = np.arange(3.5, 10.01, 0.25)
    rows = [
        {
            "snr": float(t),
            "candidates": round(900 / t),
            "negative": round(700 * np.exp(-2 * (t - 3))),
            "fdr": round(float(min(1, 0.6 * np.exp(-2 * (t - 3)) * t)), 4),
        }
        for t in snr
    ]
    return {
        "status": "ok",
        "is_control": False,
        "settings": {"fwhm_px": 3.0, "fdr": 0.05, "min_snr": 3.5, "max_error_px": 3.0},
        "candidates": count,
        "not_counted": 20,
        "fdr": None if threshold is None else 0.0486,
        "fdr_control": None,
        "fdr_control_ci95": None,
        "threshold_snr": threshold,
        "area_mm2": 1.25,
        "density_per_mm2": 144.0,
        "density_ci95_per_mm2": [123.6, 166.7],
        "searched_px": 8_534_000,
        "masked_px": {"no_data": 494_989, "saturated": 1849, "misregistered": 77},
        "extended_px": 0,
        "dropped": 0,
        "completeness": {
            "peak_50": {"value": 10.65, "error": 0.43},
            "peak_90": {"value": 13.91, "error": 1.1},
        },
        "by_threshold": rows,
        **changes,
    }


def report_with_controls():
    """The rates of controls are half as high again as those of the negated difference."""
    rows = [
        row
        | {"control": round(2 * row["negative"])}
        | {"fdr_control": min(1, 1.5 * row["fdr"])}
        | {"fdr_control_ci95": [min(1, 1.2 * row["fdr"]), min(1, 2 * row["fdr"] + 0.01)]}
        for row in report()["by_threshold"]
    ]
    return report(by_threshold=rows, fdr_control=0.0729, fdr_control_ci95=[0.0583, 0.107])


def difference(shape=SHAPE):
    random = np.random.default_rng(0)
    image = random.normal(0, 3, shape).astype(np.float32)
    image[:, :30] = np.nan
    return image


def search_counts(shape=SHAPE, step=4):
    """All of an image was searched, but for its left fifth."""
    whole = shape[0] * step, shape[1] * step
    searched = np.ones(whole, bool)
    searched[:, : whole[1] // 5] = False
    none = np.zeros(0, np.int64)
    squares = count_per_square(searched, Window.from_shape(whole), whole)
    return SearchCounts(3.5, none, none, squares, square_px(whole))


def stamps(count, size=39):
    random = np.random.default_rng(count)
    y, x = np.indices((size, size)) - size // 2
    spot = 40 * np.exp(-(x**2 + y**2) / 8)
    made = []
    for n in range(count):
        background = random.normal(100, 5, (size, size)).astype(np.float32)
        post = np.float32(background + spot + random.normal(0, 3, (size, size)))
        made.append(Stamp(20_000.4 + n, 17_000.6, 30 - n, post, background))
    return made


def square(x, y, side, reason="lost"):
    """Return a square place with a square hole, of corners counted from that of the first px."""
    box = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]], np.float64)
    corner = np.array([x, y])
    hole = corner + side / 2 + box[::-1] * side / 4
    return SavedPlace(reason, 9.0, side * side, ((corner + box * side, hole),))


def spoilt_report(**changes):
    detection = report(**changes)
    detection["masked_px"] |= {"spoilt": 123_456, "excluded": 4000}
    return detection | {"spoilt": {"share": 0.0238}}


def drawn(shape, found, detection):
    return draw_candidates(difference(shape), found, detection, search_counts(shape), step=4)


@pytest.fixture(scope="module")
def drawings():
    none = {"area_mm2": None, "density_per_mm2": None, "density_ci95_per_mm2": None}
    nothing = report(0, None, **none, not_counted=0, completeness=None)
    nothing["by_threshold"] = [
        row | {"candidates": 0 if row["snr"] > 5 else 3, "negative": 0, "fdr": 1.0}
        for row in nothing["by_threshold"]
    ]
    return {
        "candidates": draw_candidates(
            *(difference(), candidates(200), report(), search_counts()),
            step=4,
            pixel_size_um=0.325,
            title="A DAPI",
        ),
        "many": drawn((420, 200), candidates(20_000, (420, 200)), report(18_000)),
        "wide": drawn((60, 420), candidates(30, (60, 420)), report(27)),
        "nothing": drawn(SHAPE, candidates(0), nothing),
        "with_controls": drawn(SHAPE, candidates(200), report_with_controls()),
        "control": drawn(SHAPE, candidates(30), report(27, is_control=True)),
        "spoilt": draw_candidates(
            *(difference(), candidates(200), report_with_controls() | spoilt_report()),
            search_counts(),
            step=4,
            spoilt=[square(96 * n, 320, 96, reason) for n, reason in enumerate(REASONS)],
        ),
        "purity_with_controls": draw_purity(report_with_controls()),
        "purity": draw_purity(report()),
        "no_purity": draw_purity(nothing),
        "gallery": draw_gallery(stamps(24), stamps(24)[::-1], total=1234),
        "few": draw_gallery(stamps(2), [], total=2),
    }


NAMES = ("candidates", "spoilt", "many", "wide", "nothing", "with_controls", "control", "purity",
         "purity_with_controls", "no_purity", "gallery", "few")  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_png_is_readable_small_and_the_same_each_time(drawings, name, tmp_path):
    check_png(drawings[name], tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_text_stays_on_the_paper_and_apart(drawings, name):
    check_texts(drawings[name], -1.5, -1.5)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("candidates", "A DAPI (180); signal to noise of 4.35; 4.9 %; 100 µm"),
        ("candidates", "1.25 mm², 8.53 M; 494,989 px; 1,849 px; 77 px; 20 in the list"),
        ("candidates", "4.9 %, about 9; 50 % found from; peak 10.7 ± 0.4 grey levels"),
        ("nothing", "Candidates (0); No threshold has a false-discovery rate of 5 %"),
        ("nothing", "not known without a pixel size; none"),
        ("with_controls", "4.9 %, about 9; by controls; 7.3 (5.8 to 10.7) %"),
        ("purity_with_controls", "4.9 % of them false, 7.3 (5.8 to 10.7) % by controls"),
        ("gallery", "The 24 most significant of 1,234; The 24 least significant"),
        ("gallery", "S/N 30.0   (20000, 17001); same grey scale"),
    ],
)
def test_the_numbers_that_matter_are_on_the_figure(drawings, name, words):
    text = said(drawings[name])
    for word in words.split("; "):
        assert word in text


def test_circles_are_where_the_candidates_are(drawings):
    lines = drawings["candidates"].axes[0].lines
    found = candidates(200)
    best_first = np.argsort(-found.snr)
    assert [line.get_markeredgecolor() for line in lines] == [colour for _, colour, _ in CLASSES]
    for line, rate in zip(lines, (0.0005, 0.004, 0.03), strict=True):
        shown = (found.is_counted & (found.fdr == rate))[best_first]
        expected = found.xy[best_first][shown]
        np.testing.assert_array_equal(line.get_xydata(), expected)
    for name, (rows, cols) in (("candidates", SHAPE), ("many", (420, 200))):
        axes = drawings[name].axes[0]
        assert axes.get_xlim() == (-0.5, 4 * cols - 0.5)
        assert axes.get_ylim() == (4 * rows - 0.5, -0.5)


def test_density_counts_in_cells_and_fills_up_what_was_not_searched():
    searched = np.full((48, 48), 100)  # squares of 10 px
    searched[:, 42:] = 0  # half of the last cells of 12 x 12 squares
    searched[36:, :12] = 0  # one cell
    searched[24:36, :12] = 30  # three tenths of one, as between masked px
    made = SearchCounts(3.5, *np.zeros((2, 0), np.int64), searched, 10)
    points = np.array([[-0.5, -0.5], [119.4, 119.4], [119.6, 0], [450, 250], [400, 30], [9, 300]])
    counts, side = density(points, made)
    assert side == 120
    expected = np.zeros((4, 4))
    expected[0, 0], expected[0, 1], expected[0, 3], expected[2, 3] = 2, 1, 2, 2
    expected[2, 0] = 1 / 0.3
    expected[3, 0] = np.nan
    np.testing.assert_allclose(counts, expected)


def test_cells_are_finer_where_there_are_more_candidates():
    made = SearchCounts(3.5, *np.zeros((2, 0), np.int64), np.full((48, 48), 400), 20)
    points = np.random.default_rng(0).uniform(0, 960, (20_000, 2))
    for count, joined in ((0, 12), (40, 12), (150, 6), (20_000, 2)):
        counts, side = density(points[:count], made)
        assert (side, np.nansum(counts)) == (20 * joined, pytest.approx(count))


def test_the_chosen_threshold_is_drawn(drawings):
    for axes in drawings["purity"].axes:
        (dashed,) = (line for line in axes.lines if line.get_linestyle() == "--")
        assert list(dashed.get_xdata()) == [4.35, 4.35]
    for axes in drawings["no_purity"].axes:
        assert not [line for line in axes.lines if line.get_linestyle() == "--"]
    purity = drawings["purity"].axes[1].lines[0].get_ydata()
    np.testing.assert_allclose(purity, [100 * (1 - r["fdr"]) for r in report()["by_threshold"]])
    assert np.isnan(drawings["no_purity"].axes[1].lines[0].get_ydata()[-1])


def test_rates_by_controls_are_drawn_with_their_interval(drawings):
    upper, lower = drawings["purity_with_controls"].axes
    rows = report_with_controls()["by_threshold"]
    expected = [row["fdr_control"] * row["candidates"] for row in rows]
    np.testing.assert_allclose(upper.lines[2].get_ydata(), expected)
    purity = [100 * (1 - row["fdr_control"]) for row in rows]
    by_controls = lower.lines[2]
    assert by_controls.get_label() == "by unstained controls, 95 %"
    np.testing.assert_allclose(by_controls.get_ydata(), purity)
    (band,) = lower.collections
    drawn = band.get_paths()[0].vertices[:, 1]
    ends = np.array([row["fdr_control_ci95"] for row in rows])
    assert drawn.min() == pytest.approx(100 * (1 - ends.max()))
    assert drawn.max() == pytest.approx(100 * (1 - ends.min()))
    assert len(drawings["purity"].axes[1].lines) == 3  # purity, what is wanted, the threshold


def rgb(figure, path):
    save_png(figure, path)
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def test_every_reason_of_a_spoilt_place_has_a_hatch_of_its_own():
    assert tuple(HATCHES) == (*REASONS, SEAM)
    assert len(set(HATCHES.values())) == len(HATCHES)


def test_spoilt_places_are_hatched_where_they_are_and_named(tmp_path):
    made = [square(400, 240, 320), square(1200, 640, 64), square(40, 40, 32, "out of focus")]
    flat = np.zeros(SHAPE, np.float32)
    plain, hatched = (
        draw_difference(flat, "linear", 1.3, step=4, spoilt=spoilt) for spoilt in ((), made)
    )
    changed = (rgb(plain, tmp_path / "a.png") != rgb(hatched, tmp_path / "b.png")).any(axis=-1)
    axes = next(axes for axes in hatched.axes if axes.get_xlabel() == "x (px)")
    assert axes.get_xlim() == next(a for a in plain.axes if a.get_xlabel() == "x (px)").get_xlim()
    # px of the paper, rows from the top
    (x0, y0), (x1, y1) = axes.transData.transform([(399.5, 239.5), (719.5, 559.5)]).round()
    top, bottom = (round(hatched.bbox.y1 - y) for y in (y0, y1))
    inside = changed[top : bottom + 1, round(x0) : round(x1) + 1]
    assert inside[:2].all(axis=1).any()  # the outline lies on the edges of the place
    assert inside[:, :2].all(axis=0).any()
    assert 0.1 < inside[3:-3, 3:-3].mean() < 0.5  # data are seen between the lines
    # nothing is drawn in the hole, but for its outline
    side = len(inside)
    hole = inside[side // 2 + 3 : side * 3 // 4 - 2, side // 2 + 3 : side * 3 // 4 - 2]
    assert not hole.any()
    assert not changed[top - 4, round(x0) : round(x1)].any()
    assert {"Spoilt places", "lost: 2", "out of focus: 1"} <= set(said(hatched).splitlines())
    assert "poilt" not in said(plain)
