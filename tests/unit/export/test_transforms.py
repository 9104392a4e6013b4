"""What the exports of a transform hold, read by readers of its own: the map of `Transform.map`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from made_maps import (
    AFFINE,
    FRAMES,
    HOMOGRAPHY,
    POST_UM,
    PRE,
    PRE_UM,
    off,
    points,
    saved,
    torn,
    wavy,
)

from unglow.cli import main
from unglow.export.itk import ERROR_PX, error_px, widest_step
from unglow.transform import Transform


def bilinear(samples, index):
    """Interpolate (rows, cols, 2) samples at index (N, 2) (x, y), which lies inside."""
    first = np.minimum(np.floor(index), np.array(samples.shape[1::-1]) - 2).astype(int)
    (x, y), (s, t) = first.T, (index - first).T[:, :, None]
    upper = samples[y, x] * (1 - s) + samples[y, x + 1] * s
    lower = samples[y + 1, x] * (1 - s) + samples[y + 1, x + 1] * s
    return upper * (1 - t) + lower * t


def values(words):
    return np.array([float(word) for word in words])


def metaimage(path):
    """Read spacing and (rows, cols, 2) vectors of a MetaImage."""
    head, _, data = path.read_bytes().partition(b"ElementDataFile = LOCAL\n")
    keys = dict(line.split(" = ") for line in head.decode().splitlines())
    assert keys["ElementNumberOfChannels"] == "2"
    assert keys["BinaryDataByteOrderMSB"] == keys["CompressedData"] == "False"
    assert keys["TransformMatrix"] == "1 0 0 1"
    assert keys["Offset"] == "0 0"
    assert keys["ElementType"] == "MET_FLOAT"
    cols, rows = (int(n) for n in keys["DimSize"].split())
    vectors = np.frombuffer(data, "<f4").reshape(rows, cols, 2)
    return values(keys["ElementSpacing"].split()), vectors


@pytest.mark.parametrize("matrix", [AFFINE, HOMOGRAPHY])
@pytest.mark.parametrize("step", [None, 1, 7, 32])
@pytest.mark.parametrize("shape", FRAMES)
def test_itk_field_is_as_precise_as_it_says(tmp_path, shape, step, matrix, capsys):
    path, found = saved(tmp_path, shape, matrix)
    target = tmp_path / "out.mha"
    more = [] if step is None else ["--spacing", str(step)]
    assert main(["export", "--itk", str(target), *more, str(path)]) == 0
    step = step or widest_step(found)
    bound = error_px(found, step)
    assert f"at most {bound:.2g} px" in capsys.readouterr().out
    spacing, vectors = metaimage(target)
    assert (spacing <= np.array(POST_UM) * step * (1 + 1e-15)).all()
    last = np.array(shape[::-1]) - 1.0
    np.testing.assert_allclose((np.array(vectors.shape[1::-1]) - 1) * spacing, last * POST_UM)
    at = points(shape, 5000)
    worst = off(at * POST_UM + bilinear(vectors, at * POST_UM / spacing), found, at, PRE_UM)
    assert worst <= bound + 2e-5  # float32
    if step == 7:  # far from the rounding of float32, and from the distance of the knots
        assert worst > 0.4 * bound


def test_bands_of_samples_fit_together(tmp_path, monkeypatch):
    path, _ = saved(tmp_path)
    for name in ("one", "many"):
        target = tmp_path / f"{name}.mha"
        assert main(["export", "--itk", str(target), "--spacing", "3", str(path)]) == 0
        monkeypatch.setattr("unglow.export.itk._BAND_SAMPLES", 100)
    assert (tmp_path / "one.mha").read_bytes() == (tmp_path / "many.mha").read_bytes()


def test_the_step_is_the_widest_that_is_precise_enough():
    found = Transform("ok", FRAMES[0], PRE, matrix=AFFINE, displacement=wavy(FRAMES[0]))
    step = widest_step(found)
    assert 1 < step < 32
    assert error_px(found, step) <= ERROR_PX < error_px(found, step + 1)
    rough = Transform("ok", FRAMES[0], PRE, matrix=AFFINE, displacement=wavy(FRAMES[0], 32, 9))
    assert widest_step(rough) == 1
    straight = Transform("ok", FRAMES[0], PRE, matrix=AFFINE)
    assert (widest_step(straight), error_px(straight, 256)) == (256, 0)
    horizon = np.array([[1, 0, 0], [0, 1, 0], [-0.005, 0, 1.0]])
    assert error_px(Transform("ok", FRAMES[0], PRE, matrix=horizon), 1) == np.inf


def test_units(tmp_path, capsys):
    path, _ = saved(tmp_path / "px", um=False)
    assert main(["export", "--itk", str(tmp_path / "px.mha"), "--spacing", "1", str(path)]) == 0
    assert "in px" in capsys.readouterr().out
    spacing, _ = metaimage(tmp_path / "px.mha")
    assert spacing.tolist() == [1, 1]
    # a sweep has its transforms one level below the stores
    saved(tmp_path)
    (tmp_path / "variant/details").mkdir(parents=True)
    for name in ("transform.json", "details/displacement.npz"):
        (tmp_path / name).rename(tmp_path / "variant" / name)
    below = tmp_path / "variant" / "transform.json"
    assert main(["export", "--itk", str(tmp_path / "um.mha"), str(below)]) == 0
    assert "in um" in capsys.readouterr().out


KINDS = [(image, along) for image in ("post", "pre") for along in ("rows", "columns")]


def clear_of_seams(found, at, reach):
    """Whether points are ``reach`` px of post or more from where the strips change."""
    strips = found.displacement.strips
    across = strips.project(at, found.displacement.smooth.evaluate(at))
    slope = np.abs(strips.frame[strips.axis, :2]).sum()
    return strips.gap(across) > 1.05 * slope * reach


@pytest.mark.parametrize("matrix", [AFFINE, HOMOGRAPHY])
@pytest.mark.parametrize(("image", "along"), KINDS)
def test_pixels_have_the_map_of_their_strip(tmp_path, image, along, matrix, capsys):
    shape = FRAMES[0]
    path, found = saved(tmp_path, shape, matrix, torn(shape, image, along, matrix))
    assert widest_step(found) == 1
    assert main(["export", "--itk", str(tmp_path / "out.mha"), str(path)]) == 0
    output = capsys.readouterr().out
    assert f"(up to 3.1 px) at seams of {along} of {image}" in output
    _, vectors = metaimage(tmp_path / "out.mha")
    at = np.argwhere(np.ones(shape))[:, ::-1].astype(float)
    assert vectors.shape == (*shape, 2)
    assert off(at * POST_UM + vectors.reshape(-1, 2), found, at, PRE_UM) < 2e-4  # float32
    jumps = np.hypot(*np.diff(vectors / PRE_UM, axis=0 if along == "rows" else 1).T).max()
    assert jumps > 2.5
    # and between them, where no seam is
    at = points(shape, 5000)
    far = clear_of_seams(found, at, 1)
    assert 0.9 < far.mean() < 1
    got = at * POST_UM + bilinear(vectors, at)
    assert off(got[far], found, at[far], PRE_UM) <= error_px(found, 1) + 2e-4
    assert off(got, found, at, PRE_UM) > 0.5


def failure(capsys, *arguments):
    """Run an export that has to fail; return its one sentence."""
    assert main(["export", *map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_what_cannot_be_exported_is_one_sentence(tmp_path, capsys):
    path, _ = saved(tmp_path / "good", um=False)
    out = tmp_path / "out.mha"
    (tmp_path / "list.json").write_text("[1]")
    for words, named in (
        ((out, path.parent), "is a directory"), ((tmp_path / "out.tfm", path), ".mha"),
        ((out, tmp_path / "absent.json"), "absent.json"), ((out, path, path), "one transform"),
        ((out, tmp_path / "list.json"), "list.json"), ((tmp_path / "out.nii", path), ".mha"),
    ):  # fmt: skip
        assert named in failure(capsys, "--itk", *words)
    failed = Transform("failed", (9, 9), (9, 9), reasons=("No block agrees.",))
    failed.save(tmp_path / "failed.json")
    error = failure(capsys, "--itk", tmp_path / "out.mha", tmp_path / "failed.json")
    assert error.endswith("has no map to export: No block agrees.\n")
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["failed.json", "good", "list.json"]


def test_nothing_is_overwritten_and_nothing_is_left_half(tmp_path, capsys, monkeypatch):
    path, _ = saved(tmp_path / "pair", um=False)
    target = tmp_path / "out.mha"
    target.write_text("mine")
    assert "exists already" in failure(capsys, "--itk", target, path)
    assert target.read_text() == "mine"
    target.unlink()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("unglow.core.files.os.fsync", full)
    monkeypatch.setattr(Path, "rename", full)
    assert "No space left on device" in failure(capsys, "--itk", target, path)
    assert [p.name for p in tmp_path.iterdir()] == ["pair"]


def test_a_suspect_map_says_so(tmp_path, capsys):
    path, _ = saved(tmp_path)
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | {"status": "suspect", "reasons": ["Few blocks agree."]}))
    assert main(["export", "--itk", str(tmp_path / "out.mha"), str(path)]) == 0
    assert "is suspect: Few blocks agree." in capsys.readouterr().err
