"""What the exports of a transform hold, read by readers of its own: the map of `Transform.map`."""

from __future__ import annotations

import json
import re
from dataclasses import replace
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
from unglow.core.windows import Window
from unglow.export.itk import ERROR_PX, SampleGrid, error_px, precision, widest_step
from unglow.transform import Transform
from unglow.transform.displacement import Strips


def bspline(control, origin, knots, at):
    """A cubic B-spline as ITK defines it: sum over all control points, (N, 2)."""

    def kernel(u):
        u = np.abs(u)
        inner = (4 - 6 * u**2 + 3 * u**3) / 6
        return np.where(u < 1, inner, np.where(u < 2, (2 - u) ** 3 / 6, 0))

    # ITK moves only points whose 16 control points all exist
    index = (at - origin) / knots
    size = np.array(control.shape[:0:-1])
    assert ((index >= 1) & (index < size - 2)).all()
    wx = kernel(index[:, :1] - np.arange(size[0]))
    wy = kernel(index[:, 1:] - np.arange(size[1]))
    return np.einsum("nk,cki,ni->nc", wy, control, wx)


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
    dtype = {"MET_FLOAT": "<f4", "MET_DOUBLE": "<f8"}[keys["ElementType"]]
    cols, rows = (int(n) for n in keys["DimSize"].split())
    vectors = np.frombuffer(data, dtype).reshape(rows, cols, 2)
    return values(keys["ElementSpacing"].split()), vectors


@pytest.mark.parametrize("shape", FRAMES)
def test_itk_transform_is_exact(tmp_path, shape):
    path, found = saved(tmp_path, shape)
    assert main(["export", "--itk", str(tmp_path / "out.tfm"), str(path)]) == 0
    text = (tmp_path / "out.tfm").read_text()
    assert text.startswith("#Insight Transform File V1.0\n#Transform 0\n")
    names = re.findall(r"^Transform: (\w+)_double_2_2$", text, flags=re.MULTILINE)
    # the last of a composite transform is the first that moves a point
    assert names == ["CompositeTransform", "AffineTransform", "BSplineTransform"]
    linear, control = (
        values(p.split()) for p in re.findall(r"^Parameters: (.*)$", text, re.MULTILINE)
    )
    centre, grid = (
        values(p.split()) for p in re.findall(r"^FixedParameters: (.*)$", text, re.MULTILINE)
    )
    np.testing.assert_array_equal(centre, [0, 0])
    np.testing.assert_array_equal(grid[6:], [1, 0, 0, 1])
    at = points(shape)
    control = control.reshape(2, int(grid[1]), int(grid[0]))
    bent = at * POST_UM + bspline(control, grid[2:4], grid[4:6], at * POST_UM)
    assert off(bent @ linear[:4].reshape(2, 2).T + linear[4:], found, at, PRE_UM) < 1e-11


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
    np.testing.assert_allclose(spacing, np.array(POST_UM) * step, rtol=1e-15)
    assert vectors.dtype == np.float32
    assert ((np.array(vectors.shape[1::-1]) - 1) * step >= np.array(shape[::-1]) - 1).all()
    at = points(shape, 5000)
    worst = off(at * POST_UM + bilinear(vectors, at / step), found, at, PRE_UM)
    assert worst <= bound + 2e-5  # float32
    if step == 7:  # far from the rounding of float32, and from the distance of the knots
        assert worst > 0.4 * bound


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


def test_long_displacements_are_float64(tmp_path):
    turned = np.array([[-1, 0, 9000.0], [0, -1, 7000], [0, 0, 1]])
    path, found = saved(tmp_path, matrix=turned)
    assert precision(found) is np.float64
    assert main(["export", "--itk", str(tmp_path / "out.mha"), str(path)]) == 0
    assert metaimage(tmp_path / "out.mha")[1].dtype == np.float64


GRIDS = [
    (HOMOGRAPHY, wavy(FRAMES[1]), 7, [(0, 30, 0, 37), (29, 30, 35, 37), (3, 9, 36, 37)]),
    *(
        (AFFINE, torn(FRAMES[1], image, along), 1, [(0, 90, 0, 251), (50, 70, 60, 200)])
        for image in ("post", "pre")
        for along in ("rows", "columns")
    ),
]


@pytest.mark.parametrize(("matrix", "field", "step", "windows"), GRIDS)
def test_windows_of_a_grid_fit_together(matrix, field, step, windows):
    grid = SampleGrid(Transform("ok", FRAMES[1], PRE, matrix=matrix, displacement=field), step)
    whole = Window.from_shape(grid.shape)
    mapped, points = grid.mapped(whole), grid.points(whole)
    for window in (Window(*ends) for ends in windows):
        at = (slice(None), *window.slices)
        np.testing.assert_array_equal(grid.points(window), points[at])
        np.testing.assert_allclose(grid.mapped(window), mapped[at], atol=1e-11)


def test_affine_maps_need_one_transform_only(tmp_path):
    path, _ = saved(tmp_path, field=False)
    assert main(["export", "--itk", str(tmp_path / "out.tfm"), str(path)]) == 0
    assert (tmp_path / "out.tfm").read_text().count("Transform: ") == 1


def test_units(tmp_path, capsys):
    path, _ = saved(tmp_path)
    assert main(["export", "--itk", str(tmp_path / "px.mha"), "--unit", "px", str(path)]) == 0
    assert "in px" in capsys.readouterr().out
    spacing, _ = metaimage(tmp_path / "px.mha")
    assert spacing[0] == spacing[1] == int(spacing[0])
    # a sweep has its transforms one level below the stores
    (tmp_path / "variant").mkdir()
    for name in ("transform.json", "displacement.npz"):
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
    assert "samples 1 px apart" in output
    assert (
        f"on two sides of a seam of {along} of {image} it blurs the jump (up to 3.1 px)" in output
    )
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


def test_splines_cannot_jump(tmp_path, capsys):
    path, _ = saved(tmp_path / "torn", field=torn(FRAMES[0], "pre", "rows"), um=False)
    error = failure(capsys, "--itk", tmp_path / "out.tfm", path)
    assert "jumps between strips (rows of pre), which an ITK transform file cannot expr" in error
    assert error.endswith("with --itk OUT.mha --spacing 1.\n")
    assert [p.name for p in tmp_path.iterdir()] == ["torn"]


def test_offsets_count_for_the_precision():
    far = np.array([[0.0, 0], [5000, 0]])
    strips = Strips("post", "rows", np.eye(3), np.array([90.0]), far)
    field = replace(wavy(FRAMES[0]), strips=strips)
    found = Transform("ok", FRAMES[0], PRE, matrix=AFFINE, displacement=field)
    assert precision(found) is np.float64


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
    bent, _ = saved(tmp_path / "bent", matrix=HOMOGRAPHY, um=False)
    for words, named in (
        ((out, "--unit", "um", path), "pixel sizes"), ((out, path.parent), "is a directory"),
        ((out, tmp_path / "absent.json"), "absent.json"), ((out, path, path), "one transform"),
        ((out, tmp_path / "list.json"), "list.json"), ((tmp_path / "out.nii", path), ".mha"),
        ((tmp_path / "out.tfm", bent), "homography"),
    ):  # fmt: skip
        assert named in failure(capsys, "--itk", *words)
    failed = Transform("failed", (9, 9), (9, 9), reasons=("No block agrees.",))
    failed.save(tmp_path / "failed.json")
    error = failure(capsys, "--itk", tmp_path / "out.mha", tmp_path / "failed.json")
    assert error.endswith("has no map to export: No block agrees.\n")
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["bent", "failed.json", "good", "list.json"]


def test_options_that_do_not_fit(tmp_path, capsys):
    path, _ = saved(tmp_path)
    assert "leave it out" in failure(capsys, "--itk", "x.tfm", "--spacing", 4, path)
    assert "1 or more" in failure(capsys, "--itk", "x.mha", "--spacing", 0, path)
    assert "leave them out" in failure(capsys, "--spatialdata", "x", "--unit", "px", path)


@pytest.mark.parametrize("kind", ["--itk out.mha", "--itk out.tfm"])
def test_nothing_is_overwritten_and_nothing_is_left_half(tmp_path, kind, capsys, monkeypatch):
    path, _ = saved(tmp_path / "pair", um=False)
    option, name = kind.split()
    target = tmp_path / name
    target.write_text("mine")
    assert "exists already" in failure(capsys, option, target, path)
    assert target.read_text() == "mine"
    target.unlink()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("unglow.core.files.os.fsync", full)
    monkeypatch.setattr(Path, "rename", full)
    assert "No space left on device" in failure(capsys, option, target, path)
    assert [p.name for p in tmp_path.iterdir()] == ["pair"]


def test_a_suspect_map_says_so(tmp_path, capsys):
    path, _ = saved(tmp_path)
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | {"status": "suspect", "reasons": ["Few blocks agree."]}))
    assert main(["export", "--itk", str(tmp_path / "out.tfm"), str(path)]) == 0
    assert "is suspect: Few blocks agree." in capsys.readouterr().err
