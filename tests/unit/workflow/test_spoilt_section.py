"""What is not stored counts where the section lies, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from array_pixels import ArrayPixels

from unglow.core import shapes
from unglow.images.stored_values import MissingTiles
from unglow.registration.settings import RegisterSettings
from unglow.stages.register import judge_gaps, register_stores
from unglow.transform import Transform

SIDE, TILE = 1024, 64
RADIUS = 380
SHIFT = 40
"""Pre shows the section so many px further to the right."""
MAP = Transform(
    "ok", (SIDE, SIDE), (SIDE, SIDE), matrix=np.array([[1.0, 0, SHIFT], [0, 1, 0], [0, 0, 1]])
)


def make_texture(seed=0):
    rng = np.random.default_rng(seed)
    texture = shapes.blur(rng.normal(size=(SIDE, SIDE)).astype(np.float32), 2)
    return 120 + 300 * texture


def on_glass(image, column=SIDE // 2):
    rows, cols = np.indices(image.shape)
    inside = np.hypot(rows - SIDE / 2, cols - column) < RADIUS
    return np.where(inside, image, 20) + np.random.default_rng(1).normal(0, 1, image.shape)


class Image(ArrayPixels):
    """An image that stands for a store, of which some tiles are not stored."""

    empty = None
    pixel_size_um = None

    def __init__(self, pixels, missing=(), file="a.tif"):
        pixels = np.clip(pixels, 1, 255).astype(np.uint8)
        grid = np.zeros((SIDE // TILE, SIDE // TILE), bool)
        for row, col in missing:
            grid[row, col] = True
            pixels[row * TILE : (row + 1) * TILE, col * TILE : (col + 1) * TILE] = 0
        gaps = MissingTiles.from_grid(grid, (TILE, TILE), pixels.shape, file, "tiles")
        self.attributes = {} if gaps is None else {"not_stored": gaps.to_json()}
        super().__init__(pixels, 3)


def outer_tiles(column):
    """Tiles that the section does not touch."""
    half = RADIUS + 3 * 2  # some glass stays around it, as with every writer
    for row in range(SIDE // TILE):
        for col in range(SIDE // TILE):
            near = [
                np.clip(centre, n * TILE, (n + 1) * TILE) - centre
                for n, centre in ((row, SIDE / 2), (col, column))
            ]
            if np.hypot(*near) > half:
                yield row, col


def pair(missing_post=(), missing_pre=()):
    post = Image(on_glass(make_texture()), missing_post, "post.tif")
    moved = np.roll(make_texture(), SHIFT, axis=1)
    return post, Image(on_glass(moved, SIDE // 2 + SHIFT), missing_pre, "pre.tif")


@pytest.mark.parametrize("role", ["post", "pre"])
def test_tiles_within_the_section_are_reported_with_their_share(role):
    missing = {f"missing_{role}": [(7, 7), (7, 8), (10, 8)]}
    (reason,), too_much = judge_gaps(*pair(**missing), MAP)
    assert reason == f"Parts of {role}.tif are missing, and are left out."
    assert reason.numbers.startswith(f"3 of 256 tiles of {role}.tif are not stored: ")
    share = float(reason.numbers.split(": ")[1].split(" %")[0]) / 100
    assert share == pytest.approx(3 * TILE**2 / (np.pi * RADIUS**2), rel=0.06)
    assert not too_much


@pytest.mark.parametrize("role", ["post", "pre"])
def test_a_tile_at_the_rim_is_seen_by_the_other_image(role):
    rim = (SIDE // 2) // TILE, (SIDE // 2 - RADIUS + 30 + SHIFT * (role == "pre")) // TILE
    (reason,), _ = judge_gaps(*pair(**{f"missing_{role}": [rim]}), MAP)
    assert f"{role}.tif" in reason


def test_an_image_that_is_sparse_on_purpose_is_not_suspect():
    outer = list(outer_tiles(SIDE // 2)), list(outer_tiles(SIDE // 2 + SHIFT))
    assert min(len(one) for one in outer) > 60
    assert judge_gaps(*pair(*outer), MAP) == ([], False)
    assert judge_gaps(*pair(outer[0]), MAP) == ([], False)
    assert judge_gaps(*pair((), outer[1]), MAP) == ([], False)
    (reason,), _ = judge_gaps(*pair([*outer[0], (7, 7)], outer[1]), MAP)
    assert "post.tif" in reason
    assert "0.9" in reason.numbers


def test_without_glass_everything_is_section():
    post = Image(make_texture(), [(0, 0), (0, 1)], "post.tif")
    pre = Image(np.roll(make_texture(), SHIFT, axis=1), (), "pre.tif")
    (reason,), _ = judge_gaps(post, pre, MAP)
    share = float(reason.numbers.split(": ")[1].split(" %")[0]) / 100
    assert share == pytest.approx(2 / 256, rel=0.15)


def test_half_a_section_is_too_little():
    lower = [(row, col) for row in range(8, 16) for col in range(16)]
    (reason,), too_much = judge_gaps(*pair(lower), MAP)
    assert too_much
    assert reason == "Too much of post.tif is missing."
    assert reason.numbers.startswith("128 of 256 tiles of post.tif are not stored: ")
    # neither alone is too much
    parts = [[(r, c) for r in rows for c in range(4, 12)] for rows in ((5, 6), (9, 10))]
    assert [judge_gaps(*pair(*both), MAP)[1] for both in ((parts[0],), parts)] == [False, True]


def test_the_verdict_of_the_pair_follows(monkeypatch):
    monkeypatch.setattr("unglow.stages.register._cache_chunks", lambda store: store)
    lower = [(row, col) for row in range(8, 16) for col in range(16)]
    whole, lost, half = (
        register_stores(*pair(missing), RegisterSettings(), workers=1).transform
        for missing in ((), [(7, 7)], lower)
    )
    assert [one.status for one in (whole, lost, half)] == ["ok", "suspect", "failed"]
    assert lost.reasons[-1].numbers.startswith("1 of 256 tiles of post.tif ")
    assert half.reasons[-1].numbers.startswith("128 of 256 tiles of post.tif ")
    assert np.abs(lost.matrix - MAP.matrix)[:2, 2].max() < 0.05


def test_an_image_of_which_nothing_is_stored_is_refused_by_name():
    every = [(r, c) for r in range(16) for c in range(16)]
    (reason,) = register_stores(*pair(every), RegisterSettings(), workers=1).transform.reasons
    assert reason == "post.tif holds no pixels."
    assert reason.numbers == "None of its 256 tiles is stored."


def test_a_refusal_for_other_reasons_names_what_is_not_stored_as_well(monkeypatch):
    monkeypatch.setattr("unglow.stages.register._cache_chunks", lambda store: store)
    post = Image(on_glass(make_texture(5)), [(7, col) for col in range(4, 9)], "post.tif")
    settings = RegisterSettings(max_scale=1.25)  # a search of other scales takes four times as long
    found = register_stores(post, pair()[1], settings, workers=1).transform
    assert found.status == "failed"
    assert found.reasons[-1] == "Parts of post.tif are missing."
    assert found.reasons[-1].numbers == "5 of 256 tiles of post.tif are not stored."
