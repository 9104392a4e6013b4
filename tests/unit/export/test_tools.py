"""Other programs read the exports of a transform as the map that `Transform.map` is.

They are large and no dependency of the tests, which read the same files with readers of their own
(test_transforms.py). They come with `make test`; a test whose program is missing is skipped.
"""

from __future__ import annotations

import json

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
)

from unglow.cli import main
from unglow.export.map_sampling import ERROR_PX

pytestmark = pytest.mark.slow

UNKNOWN = -1e9


def ramps():
    """Two images of pre whose pixels are their own x and y position, px."""
    y, x = np.indices(PRE).astype(np.float64)
    return x, y


def inside(found):
    """Post pixels whose position in pre is well inside it, and those positions."""
    y, x = np.indices(found.post_shape)
    mapped = found.map(np.column_stack([x.ravel(), y.ravel()])).T.reshape(2, *found.post_shape)
    last = np.array(PRE[::-1])[:, None, None] - 1
    return ((mapped > 12) & (mapped < last - 12)).all(axis=0), mapped


@pytest.fixture
def sitk():
    return pytest.importorskip("SimpleITK", reason="SimpleITK is not installed")


@pytest.mark.parametrize("shape", FRAMES)
def test_simpleitk_maps_points_alike(tmp_path, shape, sitk):
    path, found = saved(tmp_path, shape)
    at = points(shape)
    for name, most in (("out.tfm", 1e-10), ("out.mha", ERROR_PX + 2e-5)):
        assert main(["export", "--itk", str(tmp_path / name), str(path)]) == 0
        moves = read(sitk, tmp_path / name)
        got = np.array([moves.TransformPoint(p.tolist()) for p in at * POST_UM])
        assert off(got, found, at, PRE_UM) < most


def read(sitk, path):
    if path.suffix == ".tfm":
        return sitk.ReadTransform(str(path))
    return sitk.DisplacementFieldTransform(sitk.ReadImage(str(path), sitk.sitkVectorFloat64))


@pytest.mark.parametrize("matrix", [AFFINE, HOMOGRAPHY])
def test_simpleitk_resamples_pre_alike(tmp_path, matrix, sitk):
    path, found = saved(tmp_path, FRAMES[1], matrix)
    assert main(["export", "--itk", str(tmp_path / "out.mha"), str(path)]) == 0
    moves = read(sitk, tmp_path / "out.mha")
    frame = sitk.Image(*FRAMES[1][::-1], sitk.sitkFloat64)
    frame.SetSpacing(POST_UM)
    use, mapped = inside(found)
    assert use.mean() > 0.5
    for ramp, want in zip(ramps(), mapped, strict=True):
        image = sitk.GetImageFromArray(ramp)
        image.SetSpacing(PRE_UM)
        got = sitk.GetArrayFromImage(sitk.Resample(image, frame, moves, sitk.sitkLinear, UNKNOWN))
        assert np.abs(got - want)[use].max() < ERROR_PX + 2e-5


@pytest.mark.parametrize("field", [True, False])
def test_transformix_resamples_pre_alike(tmp_path, field):
    itk = pytest.importorskip("itk", reason="itk-elastix is not installed")
    if not hasattr(itk, "TransformixFilter"):
        pytest.skip("itk-elastix is not installed")
    path, found = saved(tmp_path, FRAMES[0], field=field)
    assert main(["export", "--elastix", str(tmp_path / "out"), str(path)]) == 0
    use, mapped = inside(found)
    for ramp, want in zip(ramps(), mapped, strict=True):
        image = itk.GetImageFromArray(ramp.astype(np.float32))
        image.SetSpacing(PRE_UM)
        transformix = itk.TransformixFilter.New(image)
        last = tmp_path / "out" / f"TransformParameters.{int(field)}.txt"
        transformix.SetTransformParameterFileName(str(last))
        transformix.Update()
        got = np.asarray(transformix.GetOutput())
        assert got.shape == FRAMES[0]
        assert np.abs(got - want)[use].max() < 1e-4  # float32


@pytest.mark.parametrize("matrix", [AFFINE, HOMOGRAPHY])
@pytest.mark.parametrize("field", [True, False])
def test_scenes_are_valid_ome_zarr(tmp_path, matrix, field):
    ngff_zarr = pytest.importorskip("ngff_zarr.validate", reason="ngff-zarr is not installed")
    path, _ = saved(tmp_path, matrix=matrix, field=field)
    assert main(["export", "--ngff", str(tmp_path / "out.zarr"), str(path)]) == 0
    models = {"": "scene", "coordinateTransformations/displacements": "image"}
    for place, model in models.items():
        document = tmp_path / "out.zarr" / place / "zarr.json"
        if not document.exists():
            assert matrix is AFFINE
            assert not field
            continue
        content = json.loads(document.read_text())["attributes"]
        ngff_zarr.validate(content, version="0.6", model=model)


def test_ngff_zarr_reads_the_same_map(tmp_path, sitk):
    ngff_zarr = pytest.importorskip("ngff_zarr", reason="ngff-zarr is not installed")
    path, found = saved(tmp_path, FRAMES[1])
    target = tmp_path / "out.zarr"
    assert main(["export", "--ngff", str(target), str(path)]) == 0
    scene = ngff_zarr.from_ome_zarr(target, kind="scene")
    (whole,) = scene.coordinateTransformations
    moves = sitk.CompositeTransform(2)
    for step in reversed(whole.transformations):  # ITK applies the last one first
        fields = {}
        if step.type == "displacements":
            fields = {step.path: ngff_zarr.from_ome_zarr(target / step.path)}
        (made,) = ngff_zarr.ngff_transform_to_itk_transform(step, ["y", "x"], fields=fields)
        moves.AddTransform(as_simpleitk(sitk, made))
    at = points(FRAMES[1])
    got = np.array([moves.TransformPoint(p.tolist()) for p in at * POST_UM])
    assert off(got, found, at, PRE_UM) < ERROR_PX + 2e-5


def as_simpleitk(sitk, made):
    """Turn one transform of ITK-Wasm into one of SimpleITK."""
    fixed = [float(v) for v in made.fixedParameters]
    if "Affine" in str(made.transformType.transformParameterization):
        affine = sitk.AffineTransform(2)
        affine.SetFixedParameters(fixed)
        affine.SetParameters([float(v) for v in made.parameters])
        return affine
    cols, rows = (int(n) for n in fixed[:2])
    vectors = np.asarray(made.parameters, dtype=np.float64).reshape(rows, cols, 2)
    field = sitk.GetImageFromArray(vectors, isVector=True)
    field.SetOrigin(fixed[2:4])
    field.SetSpacing(fixed[4:6])
    return sitk.DisplacementFieldTransform(field)
