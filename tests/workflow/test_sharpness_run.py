"""A pair of differing focus through the real workflow, matched and not."""

from __future__ import annotations

import json

import numpy as np
import pytest
from real_runs import command, records_of, snakemake

from unglow.core.windows import Window
from unglow.images.zarr import open_store

pytestmark = pytest.mark.workflow


def test_a_pair_of_differing_focus_is_matched_and_leaves_less(tmp_path):
    made = command(
        tmp_path,
        *("unglow", "phantom", "--size", "700x700", "--rotation-deg", "1", "--scale", "1.005"),
        *("--shift-px", "12", "-9", "--blur-post-px", "1"),
    )
    assert made.code == 0, made.text
    pair = tmp_path / "results" / "phantom" / "SYTO9"
    variants = {name: pair / f"match_blur-{name}" for name in ("auto", "never")}
    targets = [v / "difference.ome.zarr/zarr.json" for v in variants.values()]
    run = snakemake(
        tmp_path,
        *(target.relative_to(tmp_path) for target in targets),
        *("--config", "sweep={scale.match_blur: [auto, never]}"),
    )
    assert run.code == 0, run.text
    found, never = (
        json.loads((variants[name] / "scale.json").read_text())["sharpness"] for name in variants
    )
    assert never is None
    assert found["blurred"] == "pre"
    assert found["width_px"] == pytest.approx(1, abs=0.1)
    scatter = {}
    for name, target in zip(variants, targets, strict=True):
        store = open_store(target.parent)
        left = store.read(Window.from_shape(store.shape))
        below = left[left < 0]  # stain is above
        scatter[name] = float(np.sqrt(np.mean(below**2)))
        kept = store.attributes.get("blur")
        assert (kept is None) == (name == "never")
    assert scatter["auto"] < 0.9 * scatter["never"]
    for path in records_of(tmp_path / "results"):
        record = json.loads(path.read_text().splitlines()[-1])
        if record["rule"] in ("scale", "difference"):
            assert record["peak_mb"] <= record["declared_mb"], path
