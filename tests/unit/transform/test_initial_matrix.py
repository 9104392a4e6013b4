"""Matrices that a person gives, in every form, and what is refused."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np
import pytest

from unglow.core.errors import InputError
from unglow.transform import Transform
from unglow.transform.matrix import read_initial

MATRIX = np.array([[1.5, -0.25, 12.0], [0.25, 1.5, -7.0], [0.0, 0.0, 1.0]])


class Frame(NamedTuple):
    shape: tuple[int, int]
    pixel_size_um: tuple[float, float] | None = None


POST, PRE = Frame((600, 800)), Frame((700, 900))

FORMS = {
    "json": json.dumps((2 * MATRIX).tolist()),
    "csv": "1.5,-0.25,12\n0.25,1.5,-7\n0,0,1\n",
    "semicolons": "\ufeff1.5; -0.25; 12;\n0.25; 1.5; -7;\n0; 0; 1;\n",
    "spaces": "# from another program\n 1.5 -0.25  12.0\n0.25\t1.5\t-7e0 # y\n\n0 0 1\n",
    "only the matrix": json.dumps({"matrix": MATRIX.tolist()}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_matrix(tmp_path, form):
    path = tmp_path / "start.txt"
    path.write_text(FORMS[form])
    np.testing.assert_array_equal(read_initial(path, POST, PRE), MATRIX)


def test_a_transform_of_unglow_is_read_if_it_belongs_to_images_of_these_sizes(tmp_path):
    path = tmp_path / "transform.json"
    Transform("ok", POST.shape, PRE.shape, matrix=MATRIX, model="affine").save(path)
    np.testing.assert_array_equal(read_initial(path, POST, PRE), MATRIX)
    with pytest.raises(InputError, match=r"pre-stain image of another size than the .*800 x 600"):
        read_initial(path, POST, Frame((600, 800)))
    Transform("failed", POST.shape, PRE.shape).save(path)
    with pytest.raises(InputError, match="registration that failed, so it holds no map"):
        read_initial(path, POST, PRE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "does not hold 3 x 3 finite numbers: an initial transform is"),
        ("1 2 3\n4 5 6\n", "does not hold 3 x 3 finite numbers"),
        ("1 2 3\n4 5 6\n7 8\n", "holds something else than numbers"),
        ("a b c\nd e f\n0 0 1\n", "holds something else than numbers"),
        ("[[1, 0, 0], [0, 1, 0], [0, 0, NaN]]", "does not hold 3 x 3 finite numbers"),
        ('{"a": 1}', "does not hold 3 x 3 finite numbers"),
        ("1 0 0\n2 0 0\n0 0 1\n", "maps post onto a line or a point"),
        ("1 0 0\n0 1 0\n0 0 0\n", "maps post onto a line or a point"),
        ("1 0 5000\n0 1 0\n0 0 1\n", "wholly outside of the pre-stain image"),
    ],
)
def test_what_cannot_be_a_map_is_named_with_the_file(tmp_path, text, message):
    path = tmp_path / "start.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        read_initial(path, POST, PRE)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_a_file_that_is_absent_or_no_text(tmp_path):
    with pytest.raises(InputError, match=r"cannot be read \(No such file"):
        read_initial(tmp_path / "start.txt", POST, PRE)
    (tmp_path / "start.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InputError, match=r"cannot be read \(it is not UTF-8 text\)"):
        read_initial(tmp_path / "start.txt", POST, PRE)
