"""Figures say what they should, stay inside their paper, and have equal bytes."""

from __future__ import annotations

import itertools
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from unglow import figures
from unglow.figures import ComparisonRow, Crop, save_png
from unglow.figures.difference import compressed, knee_of, symmetric_limit
from unglow.figures.style import (
    DIVERGING,
    nice,
    number,
    overlay,
    sheet,
    shrunk,
    stretch,
    tile,
)
from unglow.photometry import DifferenceHistogram, JointStatistics, ScaleSettings, estimate
from unglow.transform import BLOCK_DTYPE, Quantiles, Transform

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
    return estimate(statistics, ScaleSettings(manual=1.2))


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
        "error_px": Quantiles(0.012, 0.031),
        "inliers": 733,
        "blocks": 812,
        "scale": 1.0203,
        "rotation_deg": 2.937,
        "shift_px": (62.1, -41.7),
    }
    return Transform(status, SHAPE, SHAPE, reasons, **{**values, **changes})


def blocks(count=120):
    random = np.random.default_rng(1)
    table = np.zeros(count, BLOCK_DTYPE)
    table["x"], table["y"] = random.uniform(0, 560, count), random.uniform(0, 400, count)
    table["dx"], table["dy"] = random.normal(0, 0.05, (2, count))
    table["used"] = np.arange(count) % 10 > 0
    table["held_out"] = np.arange(count) % 5 == 1
    return table


def crops(images, count=4):
    post, pre = images
    parts = [np.s_[100:164, 100 + 70 * n : 164 + 70 * n] for n in range(count)]
    return [
        Crop(132 + 70 * n, 132, post[p], pre[p], np.float32(post[p] - 1.4 * pre[p]))
        for n, p in enumerate(parts)
    ]


@pytest.fixture(scope="module")
def drawings(images, statistics, scale, histogram):
    post, pre = images
    difference = np.float32(post - 1.4 * pre)
    rows = [
        ComparisonRow("percentile=40", "ok", 1.31, (1.3, 1.32), 0.04, 0.13, -0.2, 2.9, difference),
        ComparisonRow("max_scale=1.01", "failed", None, None, *[np.nan] * 4, None),
    ]
    bright = [Crop(c.x / 4, c.y, c.post, c.pre, 300 * c.difference) for c in crops(images)]
    long = "The 95th percentile of the residuals is 1.3 px, above the limit of 1 px."
    return {
        "registration": figures.draw_registration(
            post,
            np.roll(pre, 9, 1),
            pre,
            transform("suspect", (long,)),
            step=4,
            pixel_size_um=0.65,
            crops=crops(images),
            title="Section 12, DAPI: registration",
        ),
        "residuals": figures.draw_residuals(post, blocks(), transform(), step=1),
        "joint": figures.draw_joint_histogram(statistics, scale),
        "excess": figures.draw_excess(statistics, scale),
        "histograms": figures.draw_histograms(statistics),
        "ratio": figures.draw_ratio(statistics, scale),
        "difference": figures.draw_difference(
            difference, "moffat", 1.4, histogram, step=4, pixel_size_um=0.65, crops=crops(images)
        ),
        "difference_histogram": figures.draw_difference_histogram(
            {"moffat": histogram, "percentile": histogram, "manual": histogram}
        ),
        "tall_difference": figures.draw_difference(
            300 * np.tile(difference[:, :120], (2, 1)), "moffat", 1.4, None, crops=bright
        ),
        "refusal": figures.draw_refusal("Section 12", "The images do not match. " * 6),
        "comparison": figures.draw_comparison(rows),
    }


NAMES = (
    "registration",
    "residuals",
    "joint",
    "excess",
    "histograms",
    "ratio",
    "difference",
    "tall_difference",
    "difference_histogram",
    "refusal",
    "comparison",
)


def texts(figure):
    """All text that is really drawn, with its box in px."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    # Ticks beyond the limits of their axes exist as texts but are not drawn.
    beyond = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            if not low <= tick.get_loc() <= high:
                beyond |= {tick.label1, tick.label2}
    return [
        (text.get_text(), text.get_window_extent(renderer))
        for text in figure.findobj(mpl.text.Text)
        if text not in beyond and text.get_visible() and text.get_text().strip()
    ]


def said(figure):
    return "\n".join(text for text, _ in texts(figure))


@pytest.mark.parametrize("name", NAMES)
def test_png_is_readable_small_and_the_same_each_time(drawings, name, tmp_path):
    for copy in "ab":
        save_png(drawings[name], tmp_path / f"{copy}.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    with Image.open(tmp_path / "a.png") as image:
        assert 900 <= image.width <= 2000
        assert "Software" not in image.info
        assert np.asarray(image.convert("L")).std() > 5
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "b.png"]


@pytest.mark.parametrize("name", NAMES)
def test_text_stays_on_the_paper_and_apart(drawings, name):
    figure = drawings[name]
    drawn = texts(figure)
    paper = figure.bbox
    assert drawn
    for text, box in drawn:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= paper.x1, text
        assert box.y1 <= paper.y1, text
    for (text, box), (other, there) in itertools.combinations(drawn, 2):
        assert not box.padded(-1.5).overlaps(there.padded(-1.5)), (text, other)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "registration",
            ["suspect", "0.0412 px", "0.132 px", "733 of 812", "homography", "2.937°", "1.02030"],
        ),
        (
            "registration",
            ["95th percentile of the", "200 µm", "64 × 64 px at (132, 132)", "overlay"],
        ),
        ("residuals", ["held out", "not used", "120 measured, 108 agree", "arrows ×", "px"]),
        (
            "joint",
            ["pre, aligned (grey level)", "post = pre", "moffat: gain 1.", "manual: gain 1.2"],
        ),
        ("excess", ["pixels in excess per bin", "percentile: gain 1.", ", default"]),
        ("histograms", ["pre, aligned: median", "post, where pre has none", "grey level"]),
        (
            "ratio",
            ["log10(post / pre)", "post / pre", "mirrored", "left out around ratio 1", " to "],
        ),
        ("difference", ["moffat: post - 1.4 × pre", "MAD", "grey levels", "no data", "200 µm"]),
        ("difference_histogram", ["percentile: median", "5σ", "16,000 without data"]),
        ("refusal", ["Section 12", "failed", "The images do not match."]),
        ("comparison", ["percentile=40", "1.3 to 1.32", "0.04 / 0.13", "no difference", "failed"]),
    ],
)
def test_the_numbers_that_matter_are_on_the_figure(drawings, name, words):
    text = said(drawings[name])
    for word in words:
        assert word in text


def test_lines_have_the_slope_of_their_method(drawings, scale):
    for name in ("joint", "excess"):
        lines = {line.get_label().split(":")[0]: line for line in drawings[name].axes[0].lines}
        assert lines["moffat"].get_color() == "#1fa03c"
        for method, result in scale.methods.items():
            x, y = lines[method].get_data()
            np.testing.assert_allclose(y, result.gain * np.asarray(x) + result.offset)


def test_excess_is_the_upper_triangle_only(drawings, statistics):
    shown = drawings["excess"].axes[0].images[0].get_array()
    difference = (statistics.joint - statistics.joint.T).T
    row, col = np.unravel_index(np.argmax(difference), difference.shape)
    assert row > col
    assert shown[row, col] == difference[row, col]
    assert np.ma.getmaskarray(shown)[np.triu_indices(len(shown))].all()


def test_ratio_axes_agree(drawings, scale):
    axes = drawings["ratio"].axes[0]
    lines = {line.get_label().split(":")[0]: line for line in axes.lines}
    assert lines["moffat"].get_xdata()[0] == pytest.approx(np.log10(scale.chosen.gain))


def test_difference_colours_are_symmetric_and_black_at_zero(drawings):
    image = drawings["difference"].axes[0].images[0]
    low, high = image.get_clim()
    assert low == -high
    assert DIVERGING(0.5)[:3] == pytest.approx((0, 0, 0), abs=0.02)
    assert DIVERGING(np.ma.masked)[:3] not in {DIVERGING(0.0)[:3], DIVERGING(1.0)[:3]}
    ticks = drawings["difference"].axes[1].get_yticklabels()
    assert [t.get_text() for t in ticks][len(ticks) // 2] == "0"


def test_asinh_is_linear_at_zero_and_keeps_nan():
    values = np.array([0, 0.1, -1000, np.nan], np.float32)
    out = compressed(values, 10.0)
    assert out[:3] == pytest.approx([0, 0.01, -np.arcsinh(100)], rel=1e-4)
    assert np.isnan(out[3])
    assert symmetric_limit(np.full(9, np.nan, np.float32)) == 1


def test_the_knee_is_one_grey_level_at_least(histogram):
    assert knee_of(np.zeros((4, 4), np.float32), None, 1.0) == 1
    assert knee_of(np.full((4, 4), -6, np.float32), None, 1.0) == 6
    assert knee_of(np.zeros((4, 4), np.float32), histogram, 1.0) == histogram.median_absolute()


def test_overlay_is_green_magenta_and_grey():
    post, pre = np.array([[1, 0, 0.5]], np.float32), np.array([[0, 1, 0.5]], np.float32)
    assert overlay(post, pre)[0].tolist() == [[0, 255, 0], [255, 0, 255], [128, 128, 128]]
    assert np.isnan(stretch(np.array([[1, np.nan, 3]]))).tolist() == [[False, True, False]]


def test_overviews_are_shrunk_by_means_to_what_the_paper_shows():
    values = np.arange(12, dtype=np.uint8).reshape(2, 6) * 10
    assert shrunk(values, 1.0) is values
    assert shrunk(values, 0.5).tolist() == [[35, 55, 75]]
    assert shrunk(values, 2 / 6).tolist() == [[40, 70]]
    assert shrunk(np.full((7, 1000), 9, np.uint8), 0.123).tolist() == [[9] * 123]


def test_details_keep_each_px_and_have_a_frame():
    pixels = np.random.default_rng(0).integers(0, 255, (50, 50, 3), dtype=np.uint8)
    figure = sheet(4.0, 3.0, "title")
    tile(figure, 0.5, 1.0, 1.0, pixels)
    figure.canvas.draw()
    drawn = np.asarray(figure.canvas.buffer_rgba())[..., :3]
    assert (drawn[100:200:2, 50:150:2] == pixels).all()
    assert (drawn[101:200:2, 51:150:2] == pixels).all()
    assert len(np.unique(drawn[99:201, [49, 150]].reshape(-1, 3), axis=0)) == 1
    assert len(np.unique(drawn[[99, 200], 49:151].reshape(-1, 3), axis=0)) == 1
    assert (drawn[202, 49:151] == 255).all()


@pytest.mark.parametrize(("value", "round_"), [(0.9, 0.5), (1, 1), (4.99, 2), (5, 5), (1234, 1000)])
def test_nice(value, round_):
    assert nice(value) == pytest.approx(round_)


def test_number():
    assert [number(v) for v in (None, np.nan, 0.04123, 12345.6)] == [
        "–",
        "–",
        "0.04123",
        "12,346",
    ]
    assert number(2.0, "px") == "2 px"


def test_arrows_are_magnified_as_the_heading_says(images):
    figure = figures.draw_residuals(images[0], blocks(), transform(), step=1)
    quivers = [a for a in figure.axes[0].collections if hasattr(a, "U")]
    heading = figure.axes[0].get_title(loc="right")
    assert heading.startswith(f"arrows × {1 / quivers[0].scale:g}:")
    held = blocks()["held_out"] & blocks()["used"]
    assert [len(q.U) for q in quivers] == [(blocks()["used"] & ~held).sum(), held.sum()]


@pytest.mark.parametrize("count", [0, 1, 30_000])
def test_any_number_of_blocks(images, count, tmp_path):
    figure = figures.draw_residuals(images[0], blocks(count), transform())
    save_png(figure, tmp_path / "a.png")
    arrows = sum(len(a.U) for a in figure.axes[0].collections if hasattr(a, "U"))
    assert arrows <= 2 * 900


@pytest.mark.parametrize("shape", [(900, 60), (60, 900), (1, 1)])
def test_any_shape_of_section(shape, tmp_path):
    post = np.random.default_rng(0).normal(20, 3, shape).astype(np.float32)
    nothing = np.full(shape, np.nan, np.float32)
    name = "A sample whose name goes on and on and on " * 4
    drawn = [
        figures.draw_registration(post, nothing, nothing, transform(), title=name),
        figures.draw_residuals(post, blocks(), transform(), step=2),
        figures.draw_difference(nothing, "percentile", 1.2),
        figures.draw_difference(post, "percentile", 1.2, pixel_size_um=300.0),
    ]
    for figure in drawn:
        save_png(figure, tmp_path / "a.png")
        assert max(box.x1 for _, box in texts(figure)) <= figure.bbox.x1


def test_empty_statistics_can_be_drawn(tmp_path):
    nothing = JointStatistics.empty()
    scale = estimate(nothing, ScaleSettings())
    for figure in (
        figures.draw_joint_histogram(nothing, scale),
        figures.draw_excess(nothing, scale),
        figures.draw_histograms(nothing),
        figures.draw_ratio(nothing, scale),
        figures.draw_difference_histogram({"moffat": DifferenceHistogram.create(0, 1, 1)}),
        figures.draw_comparison([]),
    ):
        save_png(figure, tmp_path / "a.png")
    assert "No fit: only 0 pixels have a ratio" in said(figures.draw_ratio(nothing, scale))


def test_settings_of_the_user_change_nothing(statistics, scale, tmp_path):
    save_png(figures.draw_joint_histogram(statistics, scale), tmp_path / "a.png")
    with mpl.rc_context({"font.size": 21, "axes.facecolor": "red", "savefig.dpi": 37}):
        save_png(figures.draw_joint_histogram(statistics, scale), tmp_path / "b.png")
        assert mpl.rcParams["font.size"] == 21
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_pyplot_is_never_loaded():
    code = "import sys, unglow.figures; print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_figure_has_a_caption_in_plain_words(project):
    import jinja2

    names = {p.stem for p in (project / "report").glob("*.rst")}
    assert names >= {"registration", "residuals", "joint_histogram", "excess_histogram"}
    assert names >= {"histograms", "ratio_histogram", "difference", "difference_histogram"}
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=True)
    for path in (project / "report" / f"{name}.rst" for name in names - {"workflow", "summary"}):
        job = {"wildcards": {"sample": "S1", "dye": "DAPI"}}
        text = environment.from_string(path.read_text()).render(snakemake=job)
        assert "S1" in text
        assert len(text.split()) > 40
