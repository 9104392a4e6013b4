"""Other programs read the exports of a transform as the map that `Transform.map` is.

They are large and no dependency of the tests, which read the same files with readers of their own
(test_transforms.py). They come with `make test`; a test whose program is missing is skipped.
"""

from __future__ import annotations

import numpy as np
import pytest
from made_maps import AFFINE, FRAMES, HOMOGRAPHY, POST_UM, PRE, PRE_UM, off, points, saved

from unglow.cli import main
from unglow.export.itk import ERROR_PX

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
def test_simpleitk_maps_points_equally(tmp_path, shape, sitk):
    path, found = saved(tmp_path, shape)
    at = points(shape)
    assert main(["export", "--itk", str(tmp_path / "out.mha"), str(path)]) == 0
    moves = read(sitk, tmp_path / "out.mha")
    got = np.array([moves.TransformPoint(p.tolist()) for p in at * POST_UM])
    assert off(got, found, at, PRE_UM) < ERROR_PX + 2e-5


def test_a_map_without_a_field_is_an_affine_transform(tmp_path, sitk):
    """As docs/export.md has it."""
    _, found = saved(tmp_path, field=False)
    affine = sitk.AffineTransform(found.matrix[:2, :2].ravel(), found.matrix[:2, 2])
    at = points(found.post_shape)
    got = np.array([affine.TransformPoint(p.tolist()) for p in at])
    assert off(got, found, at) < 1e-10


def read(sitk, path):
    return sitk.DisplacementFieldTransform(sitk.ReadImage(str(path), sitk.sitkVectorFloat64))


@pytest.mark.parametrize("matrix", [AFFINE, HOMOGRAPHY])
def test_simpleitk_resamples_pre_equally(tmp_path, matrix, sitk):
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


# As in docs/export.md.
PARAMETERS = """(Transform "DeformationFieldTransform")
(DeformationFieldFileName "{field}")
(DeformationFieldInterpolationOrder 1)
(NumberOfParameters 0)
(InitialTransformParameterFileName "NoInitialTransform")
(HowToCombineTransforms "Compose")
(FixedImageDimension 2)
(MovingImageDimension 2)
(Size {cols} {rows})
(Index 0 0)
(Spacing {x} {y})
(Origin 0 0)
(Direction 1 0 0 1)
(ResampleInterpolator "FinalBSplineInterpolator")
(FinalBSplineInterpolationOrder 3)
(Resampler "DefaultResampler")
(DefaultPixelValue 0)
(ResultImageFormat "mha")
(ResultImagePixelType "float")
"""


@pytest.mark.parametrize("matrix", [AFFINE, HOMOGRAPHY])
def test_transformix_resamples_pre_equally(tmp_path, matrix):
    itk = pytest.importorskip("itk", reason="itk-elastix is not installed")
    if not hasattr(itk, "TransformixFilter"):
        pytest.skip("itk-elastix is not installed")
    path, found = saved(tmp_path, FRAMES[0], matrix)
    assert main(["export", "--itk", str(tmp_path / "field.mha"), str(path)]) == 0
    (rows, cols), (x, y) = FRAMES[0], POST_UM
    text = PARAMETERS.format(field=tmp_path / "field.mha", cols=cols, rows=rows, x=x, y=y)
    (tmp_path / "field.txt").write_text(text)
    use, mapped = inside(found)
    for ramp, want in zip(ramps(), mapped, strict=True):
        image = itk.GetImageFromArray(ramp.astype(np.float32))
        image.SetSpacing(PRE_UM)
        transformix = itk.TransformixFilter.New(image)
        transformix.SetTransformParameterFileName(str(tmp_path / "field.txt"))
        transformix.Update()
        got = np.asarray(transformix.GetOutput())
        assert got.shape == FRAMES[0]
        assert np.abs(got - want)[use].max() < ERROR_PX + 1e-4  # float32


def test_the_page_has_the_parameters_that_are_tested(project):
    page = (project / "docs" / "export.md").read_text()
    for line in PARAMETERS.splitlines():
        assert line.split(" ")[0] in page, line
