"""Landmarks clicked in the viewer, for pairs that no search registers."""

from __future__ import annotations

import csv
import json
import shutil

import numpy as np
import pytest
import tifffile
from made_scenes import render_hard
from real_runs import command, snakemake
from viewer_hands import press, spot

from unglow import transform

pytestmark = pytest.mark.slow

SHAPE = (768, 768)
PLACES = np.array([[200.0, 180], [210, 560], [560, 220], [540, 570], [380, 400]])
MATRIX = np.array([[0.9, -0.45, 250.0], [0.45, 0.9, -140.0], [0, 0, 1]])
SETTINGS = ("--config", "register={coarse_px: 256}", "allow_failed=true")
PARTNERS = transform.apply_matrix(MATRIX, PLACES)
PANEL = "unglow.panels.open"


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """A working directory in which the one pair could not be registered."""
    work = tmp_path_factory.mktemp("hard")
    folder = work / "raw" / "Hard"
    folder.mkdir(parents=True)
    images = {"post": render_hard(MATRIX, SHAPE, 20), "pre": render_hard(np.eye(3), SHAPE, 40)}
    for role, image in images.items():
        tifffile.imwrite(folder / f"Hard_{role}_SYTO9.tif", image, tile=(256, 256))
    run = snakemake(work, *SETTINGS)
    assert run.code == 0, run.text
    return work


@pytest.fixture
def work(tmp_path, failed):
    """The same, which is put in order again: the command of its run names the directory."""
    kept = tmp_path / "kept"
    shutil.copytree(failed, kept, symlinks=True)
    yield failed
    shutil.rmtree(failed)
    shutil.copytree(kept, failed, symlinks=True)


@pytest.fixture
def landmarks(view, work):
    """The failed pair with the panel of landmarks: the tab, and the working directory."""
    tab = view(work / "results", pair="Hard~SYTO9", panel="landmarks")
    tab.wait("unglow.panes.length === 2 && unglow.settled", 120)
    return tab, work


def found_of(work):
    return transform.load(work / "results" / "Hard" / "SYTO9" / "transform.json")


def landmark_file(work):
    return work / "raw" / "Hard" / "Hard_post_SYTO9.landmarks.csv"


def click_pairs(tab, numbers, shift=(0, 0)):
    for k in numbers:
        for n, (x, y) in enumerate((PLACES[k], PARTNERS[k] + shift)):
            tab.click(*spot(tab, x, y, n))
            wanted = ("pre", "post")[n]
            half = f"(({PANEL}.marks.half || {{ pre: 1 }}).{wanted})"
            tab.wait(f"{half} {'===' if n == 0 else '!=='} null", 120)


def fit(tab, residuals):
    """Wait for the fit of so many points, and return it."""
    tab.wait(f"{PANEL}.marks.fit.residuals_px.length === {residuals}", 120)
    return json.loads(tab.run(f"JSON.stringify({PANEL}.marks.fit)"))


def rows_of(path):
    with path.open() as stream:
        return list(csv.DictReader(stream))


def test_landmarks_that_are_clicked_register_a_pair_that_failed(landmarks):
    tab, work = landmarks
    assert found_of(work).status == "failed"
    click_pairs(tab, [0])
    press(tab, "Save landmarks")
    tab.wait("document.body.innerText.includes('Two landmarks at least')", 120)
    assert not landmark_file(work).exists()
    click_pairs(tab, range(1, 5))
    found = fit(tab, 5)
    assert np.abs(np.array(found["matrix"]) - MATRIX)[:2, :2].max() < 0.02
    assert max(found["residuals_px"]) < 4
    press(tab, "Save landmarks")
    tab.wait("document.body.innerText.includes('run again with')", 120)
    rows = rows_of(landmark_file(work))
    post = np.array([[float(row["post_x"]), float(row["post_y"])] for row in rows])
    assert np.abs(post - PLACES).max() < 2
    assert [row["name"] for row in rows] == ["1", "2", "3", "4", "5"]
    line = tab.run("document.querySelector('.command code').textContent")

    run = command(work, "bash", "-c", line)

    assert run.code == 0, run.text
    assert "register" in run.jobs()
    assert "ingest" not in run.jobs()
    found = found_of(work)
    assert found.status == "ok", found.reasons
    assert found.coarse_method == "landmarks"
    off = np.hypot(*(found.map(PLACES) - PARTNERS).T)
    assert off.max() < 0.2
    assert not tab.complaints


def test_the_worst_is_reported_and_fixed(landmarks):
    tab, _ = landmarks
    click_pairs(tab, range(4))
    click_pairs(tab, [4], shift=(60, 0))
    found = fit(tab, 5)
    worst = int(np.argmax(found["residuals_px"]))
    assert max(found["residuals_px"]) > 10
    assert tab.run(f"{PANEL}.marks.worst") == worst
    assert tab.run("document.querySelectorAll('.points tr.worst').length") == 1
    press(tab, "Move together")  # by a map with shear, which turns pre alone
    tab.run("new Promise((done) => setTimeout(done, 300))")
    assert abs(tab.run("unglow.panes[0].place().turn")) < 1e-6
    press(tab, "Move together")
    x, y = PARTNERS[4]
    tab.drag(spot(tab, x + 60, y, 1), spot(tab, x, y, 1))
    tab.wait(f"Math.max(...{PANEL}.marks.fit.residuals_px) < 4", 120)
    tab.key("z")
    tab.wait(f"Math.max(...{PANEL}.marks.fit.residuals_px) > 10", 120)
    tab.click(*spot(tab, x + 60, y, 1))
    tab.key("Delete")
    assert max(fit(tab, 4)["residuals_px"]) < 4
    assert not tab.complaints


def test_a_fit_says_where_the_partner_lies(landmarks):
    tab, _ = landmarks
    click_pairs(tab, range(2))
    assert "similarity" in fit(tab, 2)["model"]
    tab.click(*spot(tab, *PLACES[3]))
    tab.wait("document.body.innerText.includes('now click the same place in pre')", 120)
    place = tab.run("(({ x, y }) => [x, y])(unglow.panes[1].place(false))")
    assert np.hypot(*(np.array(place) - PARTNERS[3])) < 15
    tab.key("m")
    assert tab.run("unglow.panes.map((pane) => pane.place(false).zoom)") == [4, 4]
    tab.key("m")
    press(tab, "Move together")
    tab.run("unglow.panes[0].go({ x: 380, y: 400 })")
    x, y = PARTNERS[4]
    tab.wait(
        f"(({{ x, y }}) => Math.hypot(x - {x}, y - {y}))(unglow.panes[1].place(false)) < 15", 120
    )
    tab.click(*spot(tab, 380, 410, 1))  # a turned image is pointed at as well
    x, y = tab.run(f"{PANEL}.marks.points[2].pre")
    assert np.hypot(x - 380, y - 410) < 2
    press(tab, "Regions")
    assert tab.run("[unglow.unlinked, unglow.tried]") == [False, None]


def test_landmarks_are_set_without_a_mouse_and_found_again(landmarks):
    tab, work = landmarks
    tab.run("document.activeElement.blur()")
    for k in (0, 3):
        for n, (x, y) in enumerate((PLACES[k], PARTNERS[k])):
            tab.run(f"unglow.panes[{n}].go({{ x: {x}, y: {y} }})")
            tab.key("Enter")
            tab.key("Tab")
    tab.key("ArrowRight")
    assert len(fit(tab, 2)["matrix"]) == 3
    press(tab, "Save landmarks")
    tab.wait("document.body.innerText.includes('run again with')", 120)
    rows = rows_of(landmark_file(work))
    pre = np.array([[float(row["pre_x"]), float(row["pre_y"])] for row in rows])
    np.testing.assert_allclose(pre, PARTNERS[[0, 3]], atol=0.1)
    tab.run("window.isOld = true; location.reload()")
    tab.wait(
        f"!window.isOld && window.unglow && {PANEL} && {PANEL}.marks && {PANEL}.marks.fit.matrix",
        30,
    )
    assert tab.run(f"{PANEL}.marks.points.length") == 2
    assert landmark_file(work).samefile(tab.run(f"{PANEL}.marks.about.file"))
