"""A piece that moved by itself: the map is off there, and as good as ever elsewhere."""

import numpy as np
import pytest

from unglow.core.errors import InputError
from unglow.detection.coarse_grid import estimate_error
from unglow.photometry.cells import map_error_px
from unglow.registration.quality import locate_error
from unglow.transform import LocalError, Quantiles, Transform, load

SHAPE, SIDE = (1000, 1400), 200
PLACE = np.array([[700.0, 500.0]])
POINTS = np.stack(np.meshgrid(np.arange(0, 1400, 50), np.arange(0, 1000, 50)), -1).reshape(-1, 2)
NEAR = np.hypot(*(POINTS - PLACE).T) < 150


def lengths(near=NEAR, off=3.0):
    return np.where(near, off, 0.01)


def made(local):
    return Transform(
        "ok", SHAPE, SHAPE, matrix=np.eye(3), model="affine", error_px=Quantiles(0.01, 0.9),
        overlap=1.0, local_error=local,
    )  # fmt: skip


def test_the_error_of_a_moved_piece_is_its_own(tmp_path):
    found = made(locate_error(POINTS, lengths(), SHAPE, SIDE))
    found.save(tmp_path / "transform.json")
    found = load(tmp_path / "transform.json")
    assert found.local_error.spacing_px == SIDE
    assert np.shape(found.local_error.px) == (5, 7)
    assert found.usual_error_px == 0.01
    x, y = (np.array(v, dtype=np.intp) for v in ((700, 100, 1300), (500, 100, 900)))
    np.testing.assert_allclose(estimate_error(found).evaluate(x, y), [3, 0.01, 0.01], rtol=0.01)
    np.testing.assert_allclose(map_error_px(found, np.stack([x, y], 1)), [3, 0.01, 0.01])


@pytest.mark.parametrize(
    "of",
    [lengths(off=0.04), lengths(POINTS[:, 0] < 700), lengths(off=np.inf), lengths(NEAR & False)],
    ids=["little", "half of the section", "unknown", "nowhere"],
)
def test_an_error_that_is_not_that_of_a_place_is_one_everywhere(of):
    found = made(locate_error(POINTS, of, SHAPE, SIDE))
    assert found.local_error is None
    assert "local_error" not in found.to_dict()
    assert found.usual_error_px == 0.9
    assert estimate_error(found).evaluate(np.array([3]), np.array([3])) == np.float32(0.9)


@pytest.mark.parametrize(
    ("side", "px"), [(200.0, ((1.0, 2.0), (1.0,))), (200.0, ((),)), (0.0, ((1.0,),))]
)
def test_a_grid_that_is_none_makes_no_transform(tmp_path, side, px):
    made(LocalError(side, px)).save(tmp_path / "transform.json")
    with pytest.raises(InputError, match=r"transform\.json"):
        load(tmp_path / "transform.json")
