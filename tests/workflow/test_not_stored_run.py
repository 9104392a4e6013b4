"""Images of which tiles are not stored: by accident within the section, on purpose around it."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import tifffile
from partial_images import drop
from real_runs import TABLES, command, records_of, snakemake, summary_of
from sharing import once

from unglow.images.detection_results import read_candidates
from unglow.images.zarr import open_store

pytestmark = pytest.mark.workflow

TILE = 64
GLASS = 20
"""Grey level of the glass: what is read as 0 is darker."""
LOST = [(4, 8), (8, 5)]
"""Tiles (row, column) of post that are lost within the section."""
CLEAR = 7
"""Signal-to-noise ratio well above any threshold."""


def tiles_of(image):
    """Yield number, row and column of each tile with the pixels around it, one tile further."""
    down, across = (-(-n // TILE) for n in image.shape)
    for row in range(down):
        for col in range(across):
            y, x = row * TILE, col * TILE
            around = image[max(0, y - TILE) : y + 2 * TILE, max(0, x - TILE) : x + 2 * TILE]
            yield row * across + col, row, col, around


def write_samples(place):
    """Write the same pair whole, with lost tiles, sparse on purpose, and cut in half."""
    made = command(
        place,
        *("unglow", "phantom", "--raw", "made", "--size", "1000x1000", "--rotation-deg", "1"),
        *("--shift-px", "12", "-9", "--scale", "1.005", "--no-rgb"),
        *("--microbes-per-mpx", "120"),
    )
    assert made.code == 0, made.text
    for role in ("post", "pre"):
        image = tifffile.imread(place / "made" / "phantom" / f"phantom_{role}_SYTO9.tif")
        image = np.clip(image.astype(int) + GLASS, 0, 255).astype(np.uint8)
        tiles = list(tiles_of(image))
        missing = {
            "whole": [],
            "lost": [n for n, *at, _ in tiles if role == "post" and tuple(at) in LOST],
            "sparse": [n for n, _, _, around in tiles if around.max() < GLASS + 8],
            "half": [n for n, row, *_ in tiles if role == "post" and row >= 8],
        }
        for name, units in missing.items():
            path = place / "raw" / name / f"{name}_{role}_SYTO9.tif"
            path.parent.mkdir(parents=True, exist_ok=True)
            # the description makes two files of one image
            tifffile.imwrite(
                path, image, tile=(TILE, TILE), compression="zlib", description=f"{name} {role}"
            )
            drop(path, units)
        assert len(missing["sparse"]) > 8
    shutil.rmtree(place / "made")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    def make(place):
        write_samples(place)
        drawn = [f"results/{name}/SYTO9/figures/difference.png" for name in ("lost", "half")]
        done = snakemake(place, *TABLES, *drawn, "--config", "allow_failed=true")
        assert done.code == 0, done.text

    return once(tmp_path_factory, "not_stored", make)[0]


def pair(place, name):
    return place / "results" / name / "SYTO9"


def candidates(place, name):
    """Return (x, y, snr) of the candidates of a sample."""
    table = read_candidates(pair(place, name) / "candidates.csv")
    return np.column_stack([table.xy, table.snr])


def in_lost_tiles(found, margin=0):
    """Say which candidates are in the lost tiles or within a margin of them, px."""
    distances = [
        np.maximum(abs(found[:, 1] - (row + 0.5) * TILE), abs(found[:, 0] - (col + 0.5) * TILE))
        for row, col in LOST
    ]
    return np.min(distances, axis=0) < TILE / 2 + margin


def test_lost_tiles_make_the_pair_suspect_with_their_share(run):
    summary = summary_of(run)
    assert (summary["whole"]["status"], summary["lost"]["status"]) == ("ok", "suspect")
    reason = summary["lost"]["reasons"]
    assert reason == "Parts of lost_post_SYTO9.tif are missing, and are left out."
    found = json.loads((run / "results/lost/SYTO9/transform.json").read_text())["reasons"]
    assert found[0]["numbers"].startswith("2 of 256 tiles of lost_post_SYTO9.tif are not stored: 1")
    gains = [float(summary[name]["gain"]) for name in ("lost", "whole")]
    assert gains[0] == pytest.approx(gains[1], rel=2e-4)  # of other cells


def test_candidates_outside_of_lost_tiles_are_those_of_the_whole_pair(run):
    whole, lost = candidates(run, "whole"), candidates(run, "lost")
    assert in_lost_tiles(whole).sum() >= 2
    assert not in_lost_tiles(lost).any()
    # far from a threshold that a few candidates less may move
    clear = [one[(one[:, 2] > CLEAR) & ~in_lost_tiles(one, margin=10)] for one in (whole, lost)]
    assert len(clear[0]) > 30
    np.testing.assert_allclose(clear[1][:, :2], clear[0][:, :2], atol=0.1)


def test_an_image_that_is_sparse_on_purpose_gives_the_list_of_the_full_one(run):
    assert (summary_of(run)["sparse"]["status"], summary_of(run)["sparse"]["reasons"]) == ("ok", "")
    assert open_store(pair(run, "sparse") / "pre.ome.zarr").attributes["not_stored"]["count"] > 8
    whole, sparse = candidates(run, "whole"), candidates(run, "sparse")
    # the weakest few are on one side of the threshold or the other
    assert len(sparse) == pytest.approx(len(whole), rel=0.05)
    clear, own = (found[found[:, 2] > CLEAR] for found in (whole, sparse))
    np.testing.assert_allclose(own[:, :2], clear[:, :2], atol=0.1)


def test_a_pair_of_which_half_is_cut_off_fails_with_its_file_and_its_share(run):
    row = summary_of(run)["half"]
    assert row["status"] == "failed"
    assert row["reasons"] == "Too much of half_post_SYTO9.tif is missing."


def test_no_job_takes_more_than_it_declared(run):
    records = [json.loads(p.read_text().splitlines()[-1]) for p in records_of(run / "results")]
    assert {"ingest", "register", "align"} <= {record["rule"] for record in records}
    for record in records:
        if "peak_mb" in record and "declared_mb" in record:
            assert record["peak_mb"] <= record["declared_mb"], record["rule"]
