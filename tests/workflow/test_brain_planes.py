"""Clusters of labelled cells in planes of a real brain are on the list, and not called debris."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest
from real_runs import TABLES, snakemake
from sharing import once

from unglow.images.detection_results import read_candidates

pytestmark = pytest.mark.workflow

FOLDER = "signal_autofluorescence"
PLACE = re.compile(r"<Marker[XYZ]>(\d+)</Marker[XYZ]>")  # x, y (px) and z (plane)
PLANES = 13, 14, 15
NEAR_PX, NEAR_PLANES = 6.0, 2


@pytest.fixture(scope="module")
def lists(tmp_path_factory, shared_data):
    """The directory of results by whether spoilt places are looked for."""

    def make(place):
        for spoilt in ("auto", "never"):
            for z in PLANES:
                raw = place / spoilt / "raw" / f"plane{z}"
                raw.mkdir(parents=True)
                for role, name in (
                    ("post", f"crop_signal/ch000{z}"), ("pre", f"crop_autofluorescence/ch100{z}")
                ):  # fmt: skip
                    source = shared_data / FOLDER / f"{name}.tif"
                    shutil.copyfile(source, raw / f"plane{z}_{role}_signal.tif")
            config = f"detect={{fwhm_px: 6, spoilt: {spoilt}}}"
            done = snakemake(place / spoilt, *TABLES, "--config", config)
            assert done.code == 0, done.text

    return once(tmp_path_factory, "brain_planes", make)[0]


@pytest.mark.parametrize("z", PLANES)
def test_expected_cells_are_found_as_without_spoilt_places(lists, shared_data, z):
    text = (shared_data / FOLDER / "crop_cells_expected.xml").read_text(encoding="utf-8")
    cells = np.array(PLACE.findall(text), float).reshape(-1, 3)  # as cellfinder expects them
    cells = cells[np.abs(cells[:, 2] - z) <= NEAR_PLANES, :2]
    found = {}
    for spoilt in ("auto", "never"):
        folder = lists / spoilt / "results" / f"plane{z}" / "signal"
        candidates = read_candidates(folder / "candidates.csv")
        at = candidates.xy[candidates.is_counted]
        away = np.hypot(*(cells[:, None] - at[None]).T).T
        found[spoilt] = int((away.min(axis=1) <= NEAR_PX).sum())
        report = json.loads((folder / "details/detection.json").read_text())
        assert report["spoilt"]["share"] < 0.01
    assert found["never"] > 0.7 * len(cells)
    assert found["auto"] >= 0.95 * found["never"]
