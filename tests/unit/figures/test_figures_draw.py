"""Figures say what they should, stay inside their paper, and have equal bytes."""

from __future__ import annotations

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from drawn_figures import check_png, check_texts, said, texts

from unglow.figures.colour_maps import paint_values
from unglow.figures.difference import draw_difference
from unglow.figures.figure_inputs import draw_refusal
from unglow.figures.histograms import (
    draw_difference_histogram,
    draw_joint_histogram,
    draw_ratio,
    join_sparse,
)
from unglow.figures.map_error import ERROR, draw_map_error
from unglow.figures.registration import draw_registration
from unglow.figures.residuals import draw_residuals, gather
from unglow.figures.style import Crop, save_png, sheet, styling
from unglow.photometry.difference_histogram import DifferenceHistogram
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.scale import ScaleSettings
from unglow.photometry.joint_histogram import JointStatistics
from unglow.registration.block_table import BLOCK_DTYPE
from unglow.results.figure_table import FIGURES
from unglow.transform import Quantiles, Transform
from unglow.transform.displacement import Displacement

SHAPE = (400, 560)


@pytest.fixture(scope="module")
def images():
    random = np.random.default_rng(0)
    y, x = np.indices(SHAPE)
    light = 50 * (1.2 + np.sin(x / 31) * np.cos(y / 23))
    post = np.clip(random.poisson(1.4 * light), 0, 255).astype(np.uint8)
    pre = np.float32(random.poisson(light))
    post[200:206, 300:306] = 250
    pre[:, :40] = np.nan
    return post, pre


@pytest.fixture(scope="module")
def statistics(images):
    result = JointStatistics.create(
        post_range=(0, 255), pre_range=(0, 255), grey_level=1, integer=True
    )
    result.add(*images)
    return result


@pytest.fixture(scope="module")
def scale(statistics):
    return estimate(Evidence(statistics), ScaleSettings(("moffat", "percentile"), manual=1.2))


@pytest.fixture(scope="module")
def histogram(images, statistics):
    post, pre = images
    result = DifferenceHistogram.from_joint(statistics, 1.4, 0.0)
    result.add(np.float32(post - 1.4 * pre))
    return result


def transform(status="ok", reasons=(), **changes):
    values = {
        "matrix": np.eye(3),
        "model": "homography",
        "residual_px": Quantiles(0.0412, 0.132),
        "error_px": Quantiles(0.005892, 0.0312),
        "inliers": 733,
        "blocks": 812,
        "scale": 1.0203,
        "rotation_deg": 2.937,
        "shift_px": (62.1, -41.7),
    }
    values |= {"post_shape": SHAPE, "pre_shape": SHAPE}
    return Transform(status, reasons=reasons, **{**values, **changes})


def blocks(count=120):
    random = np.random.default_rng(1)
    table = np.zeros(count, BLOCK_DTYPE)
    table["x"], table["y"] = random.uniform(0, 560, count), random.uniform(0, 400, count)
    table["dx"], table["dy"] = random.normal(0, 0.05, (2, count))
    table["used"] = np.arange(count) % 10 > 0
    table["held_out"] = np.arange(count) % 5 == 1
    return table


def field(scale=1.0):
    """A field of up to 2 px, 32 px apart, known to 0.1 px."""
    grid = Displacement.zeros(SHAPE, 32).coefficients.shape[1:]
    row, col = np.indices(grid)
    waves = scale * np.stack([2 * np.sin(row / 3), np.cos(col / 4)])
    return Displacement(32, waves, np.full(grid, 0.1, np.float32))


def crops(images, count=4):
    post, pre = images
    parts = [np.s_[100:164, 100 + 70 * n : 164 + 70 * n] for n in range(count)]
    return [
        Crop(132 + 70 * n, 132, post[p], pre[p], np.float32(post[p] - 1.4 * pre[p]), "the first")
        for n, p in enumerate(parts)
    ]


@pytest.fixture(scope="module")
def drawings(images, statistics, scale, histogram):
    post, pre = images
    difference = np.float32(post - 1.4 * pre)
    bright = [Crop(c.x / 4, c.y, c.post, c.pre, 300 * c.difference) for c in crops(images)]
    long = "The 95th percentile of the residuals is 1.3 px, above the limit of 1 px."
    return {
        "registration": draw_registration(
            post,
            np.roll(pre, 9, 1),
            pre,
            transform("suspect", (long,)),
            step=4,
            pixel_size_um=0.65,
            crops=crops(images),
            worst=(12345.4, 23456.1, 0.1836),
            title="Section 12, DAPI: registration",
        ),
        "residuals": draw_residuals(post, blocks(), transform(), step=1),
        "map_error": draw_map_error(post, np.isfinite(pre), blocks(), transform()),
        "field": draw_map_error(
            post, np.isfinite(pre), blocks(2000), transform(displacement=field())
        ),
        "wide_field": draw_map_error(
            post[:80],
            np.isfinite(pre[:80]),
            blocks(),
            transform("suspect", (long,), displacement=field(), post_shape=(80, 560)),
        ),
        "joint": draw_joint_histogram(statistics, scale),
        "ratio": draw_ratio(statistics, scale),
        "difference": draw_difference(
            difference, "moffat", 1.4, histogram, step=4, pixel_size_um=0.65, crops=crops(images)
        ),
        "difference_histogram": draw_difference_histogram(
            {"moffat": histogram, "percentile": histogram, "manual": histogram}
        ),
        "tall_difference": draw_difference(
            300 * np.tile(difference[:, :120], (2, 1)), "moffat", 1.4, None, crops=bright
        ),
        "refusal": draw_refusal("Section 12", "The images do not match. " * 6),
    }


def picture(figure):
    """What the first axes of a figure show."""
    (shown,) = figure.axes[0].images
    return np.asarray(shown.get_array())


NAMES = (
    *("registration", "residuals", "map_error", "field", "wide_field", "joint", "ratio"),
    *("difference", "tall_difference", "difference_histogram", "refusal"),
)


@pytest.mark.parametrize("name", NAMES)
def test_png_is_readable_small_and_the_same_each_time(drawings, name, tmp_path):
    check_png(drawings[name], tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_text_stays_on_the_paper_and_apart(drawings, name):
    check_texts(drawings[name], 2, -1.5)  # a line may be close below another, but not next to it


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("registration", "suspect; 0.041 px; 0.13 px; 733 of 812; homography; 0.0059 px"),
        ("registration", "0.18 px; 12345, 23456 px; 2.9370°; 1.020300; 62.100 px; -41.700 px"),
        ("registration", "95th percentile of the; 200 µm; at (132, 132), the first"),
        ("residuals", "held out; not used; 120 measured, 108 agree; arrows ×; px"),
        ("map_error", "0.0059 px; 0.031 px; spots found (F1); 0.94; 0.88; 0.55; homography; ok"),
        ("field", "Error of the map; homography + field; 32 px; Displacement field ×"),
        ("joint", "pre, aligned (grey level); post = pre; moffat: gain 1.; manual: gain 1.2"),
        ("ratio", "log10(post / pre); post / pre; mirrored; left out around ratio 1;  to "),
        ("difference", "moffat: post − 1.4 × pre; MAD; grey levels; no data; 200 µm"),
        ("difference_histogram", "percentile: median; 5σ; 16,000 without data"),
    ],
)
def test_the_numbers_that_matter_are_on_the_figure(drawings, name, words):
    text = said(drawings[name])
    for word in words.split("; "):
        assert word in text


def test_lines_have_the_slope_of_their_method(drawings, scale):
    lines = {line.get_label().split(":")[0]: line for line in drawings["joint"].axes[0].lines}
    assert lines["moffat"].get_color() == "#1fa03c"
    for method, result in scale.methods.items():
        x, y = lines[method].get_data()
        np.testing.assert_allclose(y, result.gain * np.asarray(x) + result.offset)


def test_the_error_has_the_colours_of_its_bar(drawings):
    shown = picture(drawings["field"])
    assert ERROR.paint(0.1).tolist() in shown.reshape(-1, 3).tolist()
    assert (shown[:, :30] == (0xD8, 0xDE, 0xE4)).all()  # no data in pre
    assert ERROR.paint([0.0001, 0.001, 5, 50]).tolist() == [
        *[ERROR.paint(0.001).tolist()] * 2,
        *[ERROR.paint(5.0).tolist()] * 2,
    ]
    assert ERROR.paint(np.nan).tolist() == [0xD8, 0xDE, 0xE4]
    assert ERROR.unit([0.001, 0.05, 5]) == pytest.approx([0, np.log(50) / np.log(5000), 1])


def test_where_no_block_agrees_there_are_stripes_and_no_claim():
    values = np.full((20, 20), 0.1)
    near, data = np.ones((20, 20), bool), np.ones((20, 20), bool)
    near[:, 10:], data[10:] = False, False
    out = paint_values(values, ERROR, near, data)
    assert (out[:10, :10] == ERROR.paint(0.1)).all()
    assert {tuple(p) for p in out[:10, 10:].reshape(-1, 3).tolist()} == {
        (0xBC, 0xC3, 0xCB),
        (255, 255, 255),
    }
    assert (out[10:] == (0xD8, 0xDE, 0xE4)).all()


def test_the_deformed_grid_is_magnified_as_its_heading_says(images):
    constant = Displacement(32, np.ones((2, 16, 21)) * [[[0.5]], [[-0.25]]])
    found = transform(displacement=constant)
    table = blocks(2000)
    figure = draw_map_error(images[0], np.isfinite(images[1]), table, found)
    heading = figure.axes[1].get_title(loc="left")
    magnified = float(heading.split("×")[1].split(",")[0])
    assert heading == f"Displacement field × {magnified:g}, squares of 20 px"
    lines = figure.axes[1].collections[0].get_segments()
    first = lines[0][np.isfinite(lines[0]).all(axis=1)]
    np.testing.assert_allclose(first[:, 0], 10 + 0.5 * magnified)
    assert "Length of the field: to 0.559 px" in said(figure)
    assert "Area change: +0 to +0 %" in said(figure)


def test_a_sparse_tail_has_wide_bins_and_keeps_its_pixels():
    counts = np.array([0, 1, 0, 2, 20, 900, 30, 1, 0, 4, 0, 9, 1])
    edges, means = join_sparse(np.arange(14.0), counts)
    assert edges.tolist() == [0, 4, 5, 6, 7, 12, 13]
    assert (means * np.diff(edges)).sum() == counts.sum()
    assert means[2] == 900


def test_the_bar_of_a_difference_is_black_in_the_middle_bright_above_and_dark_below(drawings):
    figure = drawings["difference"]
    bar = max((np.asarray(a.get_array()) for a in figure.images), key=len)[:, 9]
    top, middle, bottom = (int(bar[row].astype(int).sum()) for row in (1, len(bar) // 2, -2))
    assert middle < 9 < bottom < top / 2
    at = {text: box.y0 for text, box in texts(figure)}
    assert at["+5"] + at["-5"] == pytest.approx(2 * at["±2"], abs=1)
    assert at["+5"] > at["±2"]


def test_dollar_signs_in_a_name_are_no_formula():
    with styling():
        ((text, box),) = texts(sheet(9.0, 3.0, "sample $a_1$ b"))
        ((_, plain),) = texts(sheet(9.0, 3.0, "sample Sa_1S b"))
    assert text == "sample $a_1$ b"
    assert box.width == pytest.approx(plain.width, abs=5)


def blocks_in_cells():
    """Blocks in lines, each in a cell of its own."""
    table = blocks()
    table["x"], table["y"] = np.arange(120) % 12 * 46 + 20, np.arange(120) // 12 * 38 + 15
    return table


def quivers(figure):
    return [a for a in figure.axes[0].collections if hasattr(a, "U")]


def test_arrows_are_magnified_as_the_heading_says(images):
    table = blocks_in_cells()
    figure = draw_residuals(images[0], table, transform(matrix=np.eye(3)), step=1)
    arrows = quivers(figure)
    heading = figure.axes[0].get_title(loc="right")
    assert heading.startswith(f"arrows × {1 / arrows[0].scale:g}:")
    assert "one block each" in said(figure)
    held = table["held_out"] & table["used"]
    assert [len(q.U) for q in arrows] == [(table["used"] & ~held).sum(), held.sum()]
    np.testing.assert_allclose(np.sort(arrows[1].U), np.sort(table["dx"][held]))


def test_arrows_of_a_turned_pair_are_turned_back(images):
    table = blocks(200)
    table["dx"], table["dy"] = 0.1, 0.0
    quarter = np.array([[0, -1.02, 400], [1.02, 0, 0], [0, 0, 1]])  # x of post is y of pre
    figure = draw_residuals(images[0], table, transform(matrix=quarter), step=1)
    for arrows in quivers(figure):
        np.testing.assert_allclose(arrows.U, 0, atol=1e-12)
        np.testing.assert_allclose(arrows.V, -0.1)


def test_a_long_arrow_is_cut_and_counted_and_does_not_rule_the_scale(images):
    table, wild = blocks_in_cells(), blocks_in_cells()
    wild["dx"][np.flatnonzero(table["used"] & table["held_out"])[0]] = 40
    calm, stormy = (draw_residuals(images[0], b, transform(), step=1) for b in (table, wild))
    assert quivers(calm)[0].scale == quivers(stormy)[0].scale
    side = max(SHAPE) / 22
    longest = max(np.hypot(q.U, q.V).max() / q.scale for q in quivers(stormy))
    assert longest == pytest.approx(2 * side)
    assert ", drawn at that length: 1" in said(stormy)
    assert "drawn at that length" not in said(calm)


def test_cells_have_the_median_of_their_blocks():
    points = np.array([[1, 1], [3, 5], [9, 9], [12, 3]], np.float64)
    vectors = np.array([[0, 1], [0, 3], [60, 2], [7, 7]], np.float64)
    found = gather(points, vectors, 10)
    assert found.most == 3
    assert found.points.tolist() == [[3, 5], [12, 3]]
    assert found.vectors.tolist() == [[0, 2], [7, 7]]
    assert found.lengths.tolist() == pytest.approx([2, 98**0.5])


@pytest.mark.parametrize("count", [0, 1, pytest.param(30_000, marks=pytest.mark.slow)])
def test_any_number_of_blocks(images, count, tmp_path):
    figure = draw_residuals(images[0], blocks(count), transform())
    save_png(figure, tmp_path / "a.png")
    assert max(len(q.U) for q in quivers(figure)) <= 22 * 16
    known = np.isfinite(images[1])
    for found in (transform(), transform(displacement=field())):
        figure = draw_map_error(images[0], known, blocks(count), found)
        save_png(figure, tmp_path / "b.png")
        assert "Error of the map" in said(figure)


@pytest.mark.parametrize("shape", [(900, 60), (60, 900), (1, 1)])
def test_any_shape_of_section(shape, tmp_path):
    post = np.random.default_rng(0).normal(20, 3, shape).astype(np.float32)
    nothing = np.full(shape, np.nan, np.float32)
    name = "A sample whose name goes on and on and on " * 4
    drawn = [
        draw_registration(post, nothing, nothing, transform(), title=name),
        draw_residuals(post, blocks(), transform(), step=2),
        draw_map_error(post, post > 0, blocks(), transform(post_shape=shape)),
        draw_map_error(post, post > 0, blocks(), transform(post_shape=shape, displacement=field())),
        draw_difference(nothing, "percentile", 1.2),
        draw_difference(post, "percentile", 1.2, pixel_size_um=300.0),
    ]
    for figure in drawn:
        save_png(figure, tmp_path / "a.png")
        assert max(box.x1 for _, box in texts(figure)) <= figure.bbox.x1


def test_empty_statistics_can_be_drawn(tmp_path):
    nothing = JointStatistics.empty()
    scale = estimate(Evidence(nothing), ScaleSettings())
    for figure in (
        draw_joint_histogram(nothing, scale),
        draw_ratio(nothing, scale),
        draw_difference_histogram({"moffat": DifferenceHistogram.create(0, 1, 1)}),
    ):
        save_png(figure, tmp_path / "a.png")
    assert "No fit: only 0 pixels have a ratio" in said(draw_ratio(nothing, scale))


def test_settings_of_the_user_change_nothing(statistics, scale, tmp_path):
    save_png(draw_joint_histogram(statistics, scale), tmp_path / "a.png")
    with mpl.rc_context({"font.size": 21, "axes.facecolor": "red", "savefig.dpi": 37}):
        save_png(draw_joint_histogram(statistics, scale), tmp_path / "b.png")
        assert mpl.rcParams["font.size"] == 21
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize(
    ("module", "unneeded"), [("figures.histograms", "matplotlib.pyplot"), ("figures", "matplotlib")]
)
def test_drawing_loads_no_pyplot_and_the_table_of_figures_no_drawing(module, unneeded):
    code = f"import sys, unglow.{module}; print({unneeded!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


ROWS = [row for rows in FIGURES.values() for row in rows]


@pytest.mark.parametrize("name", [row.name for row in ROWS])
def test_every_figure_has_a_caption(name, project):
    import jinja2

    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=True)
    text = (project / "report" / f"{name}.rst").read_text()
    text = environment.from_string(text).render(
        snakemake={"wildcards": {"sample": "S1", "dye": "DAPI"}}
    )
    assert "S1" in text
    assert len(text.split()) > 40


@pytest.mark.parametrize("bright_field", [False, True])
def test_the_legend_of_a_bright_field_difference_is_the_other_way_round(bright_field):
    """Of transmitted light, what was added is darker in post."""
    post = np.random.default_rng(0).normal(0, 3, (64, 64)).astype(np.float32)
    figure = draw_difference(post, "linear", 1.0, bright_field=bright_field)
    bright, dark = ("pre", "post") if bright_field else ("post", "pre")
    assert f"Bright: only in {bright}. Dark blue: only in {dark}." in said(figure)
