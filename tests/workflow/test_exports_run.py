"""Exports by the workflow: those that are asked for, in every variant, with equal bytes."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import tifffile
from real_runs import bytes_of, command, snakemake

from unglow.core.windows import Window
from unglow.images.zarr import open_store
from unglow.photometry.difference import open_difference

pytestmark = pytest.mark.workflow
WANTED = "exports={tiff: [difference, post], fits: [aligned_pre, pre]}"
RATIO = "exports={zarr: [snr], tiff: [difference], fits: [aligned_pre, snr]}"


def files(work):
    return sorted(str(p.relative_to(work / "results")) for p in work.glob("results/**/exports/*"))


def test_nothing_is_exported_unless_it_is_asked_for(small_work):
    assert files(small_work) == []
    run = snakemake(small_work, "--config", WANTED)
    assert run.code == 0, run.text
    exports = {name: n for name, n in run.jobs().items() if name.startswith("export")}
    assert exports == {"export_difference": 3, "export_raw": 2, "export_aligned_pre": 1}
    place = "phantom/SYTO9"
    assert files(small_work) == [
        f"{place}/exports/{name}"
        for name in (
            "aligned_pre.fits", "difference_linear.ome.tif", "difference_moffat.ome.tif",
            "difference_percentile.ome.tif", "post.ome.tif", "pre.fits",
        )
    ]  # fmt: skip
    pair = small_work / "results" / place
    store = open_difference(pair, "moffat")
    assert not (pair / "difference_moffat.ome.zarr").exists()
    read = tifffile.imread(pair / "exports" / "difference_moffat.ome.tif")
    np.testing.assert_array_equal(read, store.read(Window.from_shape(store.shape)))
    second = snakemake(small_work, "--config", WANTED)
    assert second.jobs() == {}, second.text
    by_hand = small_work / "by_hand.fits"
    run = command(small_work, "unglow", "export", "--fits", by_hand, pair / "aligned_pre.ome.zarr")
    assert run.code == 0, run.text
    assert by_hand.read_bytes() == (pair / "exports" / "aligned_pre.fits").read_bytes()


def test_the_ratio_to_noise_is_an_image_if_it_is_asked_for(small_work):
    pair = small_work / "results" / "phantom" / "SYTO9"
    words = ("--config", "exports={zarr: [snr], tiff: [snr]}")
    run = snakemake(small_work, *words)
    assert run.code == 0, run.text
    assert {n: run.jobs()[n] for n in ("snr", "export_snr")} == {"snr": 1, "export_snr": 1}
    assert not {"detect", "difference", "align"} & set(run.jobs())
    (record,) = (small_work / "results" / "telemetry").rglob("snr.jsonl")
    content = json.loads(record.read_text())
    assert content["peak_mb"] <= content["declared_mb"]
    store = open_store(pair / "snr.ome.zarr")
    image = store.read(Window.from_shape(store.shape))
    assert (image.dtype, image.shape) == (np.float32, (700, 900))
    with (pair / "candidates.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) > 5
    for row in rows:
        x, y = (round(float(row[name])) for name in ("x", "y"))
        around = image[max(y - 2, 0) : y + 3, max(x - 2, 0) : x + 3]
        assert np.nanmax(around) >= float(row["snr"]) - 0.01
    threshold = json.loads((pair / "details/detection.json").read_text())["threshold_snr"]
    assert np.nanmedian(np.abs(image)) == pytest.approx(0.67, abs=0.15)
    assert np.count_nonzero(image > threshold) >= len(rows)
    by_tiff = tifffile.imread(pair / "exports" / "snr.ome.tif")
    np.testing.assert_array_equal(by_tiff, image)
    before = bytes_of(pair / "snr.ome.zarr")
    little = ("--set-threads", "snr=1", "--forcerun", "snr")
    run = snakemake(small_work, *words, "--config", "memory_per_job=300", *little)
    assert bytes_of(pair / "snr.ome.zarr") == before, run.text
    settings = ("exports={zarr: [snr], tiff: [snr]}", "detect={fdr: 0.1}")
    assert "snr" not in snakemake(small_work, "-n", "--config", *settings).jobs()
    settings = ("exports={zarr: [snr]}", "detect={fwhm_px: 4}")
    assert snakemake(small_work, "-n", "--config", *settings).jobs()["snr"] == 1


def test_a_pair_that_is_refused_has_marked_exports(tmp_path):
    folder = tmp_path / "raw" / "Black"
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    tifffile.imwrite(folder / "Black_pre_D.tif", random.poisson(30, (400, 500)).astype("u1"))
    tifffile.imwrite(folder / "Black_post_D.tif", np.zeros((400, 500), "u1"))
    run = snakemake(tmp_path, "--config", RATIO, "allow_failed=true")
    assert run.code == 0, run.text
    exports = tmp_path / "results" / "Black" / "D" / "exports"
    with tifffile.TiffFile(exports / "difference_moffat.ome.tif") as tiff:
        assert "No pixels: " in tiff.ome_metadata
        assert tiff.pages.first.shape == (1, 1)
    for name in ("aligned_pre.fits", "snr.fits"):
        assert (exports / name).read_bytes()[160:190] == b"NAXIS   =" + b" " * 20 + b"0"
    pair = exports.parent
    assert open_store(pair / "snr.ome.zarr").empty
    found = json.loads((pair / "details/detection.json").read_text())
    assert open_store(pair / "snr.ome.zarr").empty == found["reason"]
