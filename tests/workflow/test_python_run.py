"""Runs and subtractions that Python starts."""

from __future__ import annotations

import tempfile

import numpy as np
import pytest
import tifffile

import unglow
from unglow.core.errors import InputError, UnglowError

pytestmark = pytest.mark.slow


def test_a_run_returns_its_results_and_reads_what_was_finished(small_raw, tmp_path):
    results = unglow.run(
        small_raw,
        tmp_path,
        settings={"detect": {"fdr": np.float32(0.125)}},
        cores=2,
        memory_mb=2000,
    )
    [pair] = results
    assert pair.state == "ok"
    assert pair.detection["settings"]["fdr"] == 0.125
    with pytest.raises(UnglowError, match="mem_mb"):
        unglow.run(small_raw, tmp_path, settings={"detect": {"fdr": 0.2}}, memory_mb=50)
    with pytest.raises(UnglowError, match=r"detect\.fdrr"):
        unglow.run(small_raw, tmp_path, settings={"detect": {"fdrr": 0.2}})
    made = (tmp_path / "results" / "report.html").stat().st_mtime_ns
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text("results: out\n")
    (tmp_path / "results").rename(tmp_path / "out")
    again = unglow.run(small_raw, tmp_path, settings={"detect": {"fdr": 0.125}}, quiet=True)
    assert [p.names for p in again] == [pair.names]
    assert (tmp_path / "out" / "report.html").stat().st_mtime_ns >= made


def test_two_arrays_are_subtracted_and_nothing_stays(small_raw, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    files = (next(small_raw.glob(f"*/*{name}*.tif")) for name in ("pre", "post"))
    pre, post = map(tifffile.imread, files)
    found = unglow.subtract(pre, post, cores=2, memory_mb=2000)
    assert found.state == "ok"
    assert found.difference.shape == found.aligned_pre.shape == post.shape[:2]
    low, high = found.scale.methods["linear"].gain_ci95
    assert low - 0.02 < 1.3 < high + 0.02
    assert found.candidates["counted"].any()
    assert np.isfinite(found.transform.map([[100.0, 100.0]])).all()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("image", [np.zeros((9, 9)), np.zeros((2, 3, 4, 5), "uint8"), np.uint8(3)])
def test_what_is_not_an_image_is_refused(image):
    with pytest.raises(InputError, match="post is an array of"):
        unglow.subtract(np.zeros((9, 9), "uint8"), image)


def test_masked_px_are_refused_and_the_order_of_bytes_is_free(small_raw):
    image = tifffile.imread(next(small_raw.glob("*/*post*.tif")))[:64, :64]
    with pytest.raises(InputError, match="pre is a masked array"):
        unglow.subtract(np.ma.masked_less(image, image.max()), image)
    with pytest.raises(UnglowError) as error:  # it is too small, and no more than that
        unglow.subtract(image.astype(">f4"), image.astype(">u2"))
    assert "is an array of" not in str(error.value)


def test_results_anywhere_are_returned_with_their_failed_pair(small_raw, tmp_path):
    image = tifffile.imread(next(small_raw.glob("*/*post*.tif")))[:64, :64]
    (tmp_path / "work/raw/s").mkdir(parents=True)
    for role in ("pre", "post"):
        tifffile.imwrite(tmp_path / f"work/raw/s/{role}_D.tif", image)
    elsewhere = {"results": tmp_path / "far/off"}
    [pair] = unglow.run(None, tmp_path / "work", settings=elsewhere, cores=2, quiet=True)
    assert pair.state == "failed"
    assert pair.directory == tmp_path / "far/off/s/D"


def test_a_failed_pair_raises_its_reason():
    with pytest.raises(UnglowError, match="pre"):
        unglow.subtract(np.zeros((300, 300), "uint16"), np.zeros((300, 300), "uint16"))
