"""The figures of a pair: every target is written, from pixels or from the reason of a refusal."""

from __future__ import annotations

from dataclasses import replace

import cv2
import matplotlib.image
import numpy as np
import pytest
from made_stores import write_store

from unglow.core import digests
from unglow.core.errors import StoreError
from unglow.core.windows import Window
from unglow.figures.difference import mask_spoilt
from unglow.figures.drawing import draw_figures
from unglow.figures.figure_inputs import Differences, FigureInputs, draw_refusal
from unglow.figures.registration import _details
from unglow.figures.style import save_png
from unglow.images.artefacts import SavedPlace
from unglow.images.zarr import open_store, plan_layout
from unglow.images.zarr.reader import Overview
from unglow.photometry.difference import Difference, Matched
from unglow.photometry.difference_histogram import DifferenceHistogram
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.scale import MethodResult, Scale, ScaleSettings
from unglow.registration.block_table import BLOCK_DTYPE
from unglow.stages.align import AlignedStore
from unglow.stages.difference import DifferenceStore
from unglow.transform import Transform
from unglow.transform.displacement import Displacement

SHAPE = (200, 240)
REASON = "No match was found between pre and post."
REGISTRATION = ("registration", "residuals", "map_error")
HISTOGRAMS = ("joint_histogram", "ratio_histogram")
DIFFERENCE = ("difference", "difference_histogram")


def targets(place, names):
    return {name: place / f"{name}.png" for name in names}


def height_of(path):
    """Height of a figure in px, which for a refusal follows from the length of its sentence."""
    return matplotlib.image.imread(path).shape[0]


def raw_store(path, image):
    """Write a store as ingest does."""
    about = {"pixel_size_um": (0.5, 0.25), "attributes": {"grey_levels": "integer"}}
    statistics = {"min": int(image.min()), "max": int(image.max())}
    return write_store(path, image, **about, statistics=statistics)


def empty_store(path, dtype="uint8"):
    return write_store(path, np.zeros(SHAPE, dtype), empty=REASON)


def differences_of(images, scale, transform, statistics, place):
    """Subtract as the workflow does, and open what there is to draw."""
    written, rest = scale.default, [m for m in scale.methods if m != scale.default]
    layout = plan_layout(images[0].shape, "float32")
    path = place / f"difference_{written}.ome.zarr"
    matched = Matched(*images, scale.blur)
    store = DifferenceStore(matched, scale, statistics, (written, *rest), layout, path)
    store.make(workers=1)
    histogram, background = (
        path.with_name(f"{written}.{kind}.npz") for kind in ("histogram", "background")
    )
    store.save_residues(histogram, background)
    return Differences.load(images, scale, path, histogram)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """All that the figures of one good pair are drawn from."""
    place = tmp_path_factory.mktemp("pair")
    rng = np.random.default_rng(5)
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    section = 60 + 30 * np.sin(x / 17) * np.cos(y / 13)
    pre = rng.poisson(section).astype(np.uint8)
    signal = 1.3 * section
    signal[90:96, 150:156] += 100
    post = rng.poisson(signal).astype(np.uint8)
    stores = [raw_store(place / f"{n}.zarr", i) for n, i in (("post", post), ("pre", pre))]
    found = Transform(
        "ok", SHAPE, SHAPE, matrix=np.eye(3), model="translation", inliers=9, blocks=9
    )
    layout = plan_layout(SHAPE, "float32")
    made = AlignedStore(*stores, found, layout, place / "aligned.zarr")
    made.make(workers=1)
    aligned, statistics, bins = open_store(made.path), made.statistics, made.bins
    scale = estimate(Evidence(statistics, bins, found), ScaleSettings(default="moffat"))
    differences = differences_of((stores[0], aligned), scale, found, statistics, place)
    blocks = np.zeros(9, BLOCK_DTYPE)
    blocks["x"], blocks["y"] = np.repeat([40, 120, 200], 3), np.tile([30, 100, 170], 3)
    blocks["pre_x"], blocks["pre_y"] = blocks["x"] + 0.1, blocks["y"] - 0.1
    blocks["dx"], blocks["dy"], blocks["quality"] = 0.1, -0.1, 5.0
    blocks["used"] = True
    images = {"post": stores[0], "pre": stores[1], "aligned": aligned, "transform": found}
    known = {"blocks": blocks, "statistics": statistics, "scale": scale}
    return images | known | {"differences": differences}


def draw(pair, place, names, **changes):
    """Draw some figures of a pair into a directory; return their paths by name."""
    made, known = targets(place, names), {"spoilt": ()} | pair | changes
    draw_figures(FigureInputs({}, **known), made, "S D")
    return made


# ----------------------------------------------------------------------------------- good pairs


def test_no_list_of_digests_stays_of_figures_that_another_rule_had_drawn(pair, tmp_path):
    old = digests.list_of(tmp_path, "figures_registration")
    old.parent.mkdir(parents=True)
    old.write_text("of other bytes")
    draw(pair, tmp_path / "figures", ("residuals",))
    assert (tmp_path / "figures" / "residuals.png").is_file()
    assert not old.exists()


def test_a_figure_that_is_no_longer_drawn_does_not_stay_next_to_newer_ones(pair, tmp_path):
    place = tmp_path / "figures"
    draw(pair, place, HISTOGRAMS)
    (place / "mine.png").write_text("of the user")
    draw(pair, place, HISTOGRAMS[:1])
    assert sorted(p.name for p in place.iterdir()) == ["joint_histogram.png", "mine.png"]


def test_a_good_pair_gets_every_figure(pair, tmp_path):
    made = draw(pair, tmp_path, (*REGISTRATION, *HISTOGRAMS, *DIFFERENCE))
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(f"{n}.png" for n in made)
    for path in made.values():
        assert height_of(path) > 350
        assert path.stat().st_size > 10_000


def test_one_difference_is_read_from_its_store_and_the_others_are_computed(pair):
    found = pair["differences"]
    assert list(found.images) == list(found.histograms) == ["linear", "moffat", "percentile"]
    assert found.default == "moffat"
    for method, image in found.images.items():
        assert isinstance(image, Difference) is (method != "moffat")
        left = image.read(Window.from_shape(SHAPE))
        assert found.histograms[method].total == np.isfinite(left).sum()
        assert found.histograms[method].median() == np.nanmedian(left)


def test_a_file_without_the_histogram_of_a_method_is_not_that_of_the_pair(pair, tmp_path):
    path = tmp_path / "moffat.histogram.npz"
    pair["differences"].histograms["moffat"].save(path)
    images, store = (pair["post"], pair["aligned"]), pair["differences"].images["moffat"].path
    with pytest.raises(StoreError, match=r"histogram\.npz"):
        Differences.load(images, pair["scale"], store, path)


def test_a_registration_without_a_used_block_is_drawn(pair, tmp_path):
    blocks = pair["blocks"].copy()
    blocks["used"] = False
    for name, some in (("unused", blocks), ("none", blocks[:0])):
        made = draw(pair, tmp_path / name, REGISTRATION, blocks=some)
        assert all(height_of(path) > 350 for path in made.values())


def test_details_are_where_there_is_texture_and_the_worst_place_is_reported(pair):
    # A coarse pattern on the left, only the noise of dark glass on the right.
    rng = np.random.default_rng(3)
    image = rng.poisson(1.0, (400, 800)).astype(np.float32)
    image[:, :500] += cv2.GaussianBlur(rng.normal(0, 900, (400, 500)), (0, 0), 4).clip(0)
    blocks = np.zeros(28, BLOCK_DTYPE)
    blocks["x"], blocks["y"] = (
        v.ravel() for v in np.meshgrid(np.arange(60, 760, 100), [70, 150, 240, 330])
    )
    blocks["dx"], blocks["quality"], blocks["used"] = 0.01, 5.0, True
    on_glass = np.flatnonzero(blocks["x"] > 550)
    blocks["dx"][on_glass[0]], blocks["dx"][9] = 0.9, 0.2
    details, worst = _details(blocks, Overview(image, 0))
    assert all(x < 500 for x, *_ in details)
    assert details[1] == (blocks["x"][9], blocks["y"][9], "longest residual in texture 0.20 px")
    assert worst == (blocks["x"][on_glass[0]], blocks["y"][on_glass[0]], pytest.approx(0.9))


def test_a_pair_with_a_field_is_drawn(pair, tmp_path):
    field = Displacement.zeros(SHAPE, 32)
    bent = Displacement(32, field.coefficients + 0.5, np.full(field.coefficients.shape[1:], 0.1))
    found = replace(pair["transform"], displacement=bent)
    made = draw(pair, tmp_path, REGISTRATION, transform=found)
    plain = draw(pair, tmp_path / "plain", REGISTRATION)
    assert height_of(made["map_error"]) > height_of(plain["map_error"])


def test_pixel_size_is_the_mean_of_both_sides_or_unknown(pair, tmp_path):
    assert FigureInputs({}, **pair).pixel_size_um == 0.375
    assert FigureInputs({}, post=empty_store(tmp_path / "e.zarr")).pixel_size_um is None


# ------------------------------------------------------------------------------------- refusals


def refusal(tmp_path, reason):
    """Return the bytes of the figure that a refusal has to be."""
    path = tmp_path / "expected.png"
    save_png(draw_refusal("S D", reason), path)
    return path.read_bytes()


def refused_registration(pair, place):
    found = Transform("failed", SHAPE, SHAPE, (REASON,))
    aligned = empty_store(place / "a.zarr", dtype="float32")
    return {"aligned": aligned, "transform": found, "blocks": np.zeros(0, BLOCK_DTYPE)}


def refused_image(pair, place):
    return {"post": empty_store(place / "p.zarr")}


def refused_scale(pair, place):
    failed = {"moffat": MethodResult.make_failed("a.")}
    return {"scale": Scale("moffat", failed, "failed", REASON.split(" between "))}


def refused_difference(pair, place):
    difference = empty_store(place / "d.zarr", dtype="float32")
    histograms = {"moffat": DifferenceHistogram.create(0, 0, 1)}
    return {
        "differences": replace(
            pair["differences"], images={"moffat": difference}, histograms=histograms
        )
    }


@pytest.mark.parametrize(
    ("refuse", "names", "reason"),
    [
        (refused_registration, REGISTRATION, REASON),
        (refused_image, REGISTRATION, REASON),
        (refused_scale, HISTOGRAMS, REASON.replace(" between ", " ")),
        (refused_difference, DIFFERENCE, REASON),
    ],
)
def test_a_refused_pair_says_why_in_each_place(pair, tmp_path, refuse, names, reason):
    made = draw(pair, tmp_path / "deep", names, **refuse(pair, tmp_path))
    expected = refusal(tmp_path, reason)
    for name in names:
        assert made[name].read_bytes() == expected, name


def test_a_manual_gain_without_any_overlap_is_drawn(pair, tmp_path):
    away = Transform(
        "suspect", SHAPE, SHAPE, ("Far.",), np.array([[1, 0, 9e3], [0, 1, 0], [0, 0, 1.0]])
    )
    layout = plan_layout(SHAPE, "float32")
    post, pre = pair["post"], pair["pre"]
    made = AlignedStore(post, pre, away, layout, tmp_path / "a.zarr")
    made.make(workers=1)
    aligned, statistics = open_store(made.path), made.statistics
    assert np.isnan(aligned.read(Window.from_shape(SHAPE))).all()
    scale = estimate(Evidence(statistics), ScaleSettings(("manual",), manual=2.0, default="manual"))
    assert scale.status == "ok"
    found = differences_of((post, aligned), scale, away, statistics, tmp_path)
    known = {"aligned": aligned, "transform": away, "blocks": np.zeros(0, BLOCK_DTYPE)}
    known |= {"scale": scale, "statistics": statistics, "differences": found}
    names = (*REGISTRATION, *HISTOGRAMS, *DIFFERENCE)
    made = draw(pair, tmp_path / "figures", names, **known)
    assert all(path.is_file() for path in made.values())


def test_a_reason_of_any_length_or_none_is_a_figure(tmp_path):
    for n, reason in enumerate(["", "x" * 500, "a word " * 300, "$\\frac{1}{2}$ \t\n ünï"]):
        save_png(draw_refusal("S D", reason), tmp_path / f"{n}.png")
        assert height_of(tmp_path / f"{n}.png") >= 190


def test_the_brightest_places_are_not_looked_for_in_spoilt_ones():
    corners = ([8, 8], [24, 8], [24, 24], [8, 24], [8, 8])
    hole = ([12, 12], [12, 20], [20, 20], [20, 12], [12, 12])
    rings = tuple(np.array(ring, float) for ring in (corners, hole))
    place = SavedPlace("lost", 7.0, 192, (rings,))
    view = Overview(np.zeros((10, 12), np.float32), 2)
    expected = np.zeros((10, 12), np.bool_)
    expected[2:6, 2:6] = True
    expected[3:5, 3:5] = False
    np.testing.assert_array_equal(np.isnan(mask_spoilt(view, [place]).image), expected)
    assert not np.isnan(view.image).any()
