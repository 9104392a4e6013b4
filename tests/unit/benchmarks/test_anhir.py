"""The measures of ANHIR, by hand, and of a pair in the layout of BIRL whose map is known."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest
from made_scenes import render, similarity
from registration import anhir
from subcommands import run_command

from unglow.core.errors import InputError
from unglow.transform import apply_matrix

pytestmark = pytest.mark.slow

SHAPE, SOURCE_SHAPE = (640, 600), (650, 620)
COVER = "Target image,Target landmarks,Source image,Source landmarks\n"


@pytest.fixture
def data(tmp_path):
    """Two stains of a tissue with landmarks: the second is the first, turned and moved."""
    place = tmp_path / "lung_1" / "scale-5pc"
    place.mkdir(parents=True)
    moved = similarity(2.0, 1.01, (9, -5), SHAPE, SOURCE_SHAPE)
    points = np.random.default_rng(3).uniform(60, 540, (20, 2))
    images = {"HE": (np.eye(3), SHAPE, points), "CD4": (moved, SOURCE_SHAPE, None)}
    for name, (matrix, shape, own) in images.items():
        grey = render(np.linalg.inv(matrix), shape, noise=1.0) / 12
        cv2.imwrite(str(place / f"{name}.png"), grey.clip(0, 255).astype(np.uint8))
        at = apply_matrix(moved, points) if own is None else own
        lines = [f"{n + 1},{x:.4f},{y:.4f}" for n, (x, y) in enumerate(at)]
        (place / f"{name}.csv").write_text(",X,Y\n" + "\n".join(lines) + "\n")
    return tmp_path


def test_landmarks_of_a_known_map_are_met(data, capsys):
    words = ["anhir", str(data), "--json", str(data / "out.json")]
    assert run_command("registration", ["anhir"], words) == 0
    figures = json.loads((data / "out.json").read_text())
    assert set(figures) == {"HE to CD4", "CD4 to HE"}
    for one in figures.values():
        assert one["status"] != "failed"
        assert max(one["rTRE"]) * np.hypot(*SHAPE) < 0.5  # px
    whole = capsys.readouterr().out.splitlines()[-2]
    assert whole.split()[:3] == ["all", "pairs", "2"]
    assert whole.split()[-1] == "1.000"


def test_measures_are_those_of_the_formulas():
    target = np.array([[0.0, 0], [10, 0], [20, 0]])
    source = target + np.array([0, 10])
    warped = np.array([[0, 5.0], [10, 20], [np.nan, np.nan]])
    score = anhir.judge("a to b", ("ok", ""), target, source, warped, (30, 40))
    np.testing.assert_allclose(score.before, 10 / 50)
    np.testing.assert_allclose(score.after, [5 / 50, 20 / 50, 10 / 50])  # one has no position
    assert score.robustness == pytest.approx(1 / 3)
    refused = anhir.judge("c", ("failed", "no map"), target, source, source * np.nan, (30, 40))
    np.testing.assert_allclose(refused.after, refused.before)
    assert refused.robustness == 0
    words = anhir.table_of_all([score, refused]).splitlines()
    numbers = words[1].split()[-8:-1]
    assert numbers == ["2", *("21.667", "21.667", "20.000", "20.000", "30.000", "30.000")]
    assert words[2].split()[-8] == "1"


def test_pairs_of_a_cover_without_landmarks_are_left_out(data, capsys):
    cover = data / "dataset.csv"
    place = "lung_1/scale-5pc"
    rows = [
        f"{place}/HE.png,{place}/HE.csv,{place}/CD4.png,{place}/CD4.csv",
        f"{place}/HE.png,{place}/HE.csv,{place}/CD8.png,{place}/CD8.csv",
    ]
    cover.write_text(COVER + "\n".join(rows) + "\n")
    (case,) = anhir.read_cover(cover, data)
    assert case.name == "CD4 to HE"
    assert "1 of 2 pairs" in capsys.readouterr().out
    cover.write_text("images\nHE.png\n")
    with pytest.raises(InputError, match="no column 'Target image'"):
        anhir.read_cover(cover, data)


def test_a_directory_without_landmarks_is_named(tmp_path):
    with pytest.raises(InputError, match="no two images with landmarks"):
        anhir.find(tmp_path)
