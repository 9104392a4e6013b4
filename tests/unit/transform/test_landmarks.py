"""Landmarks and matrices that a person gives, in every form, and what is refused."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np
import pytest

from unglow.core.errors import InputError
from unglow.transform import Transform
from unglow.transform.landmarks import Landmarks, format_both, read_landmarks
from unglow.transform.matrix import read_initial


class Frame(NamedTuple):
    shape: tuple[int, int]
    pixel_size_um: tuple[float, float] | None = None


POST, PRE = Frame((600, 800), (0.5, 0.25)), Frame((700, 900))
PLACES = [[10.0, 20.0], [700.25, 30.5], [400.0, 500.0]]
NAPARI = "index,axis-0,axis-1\n0.0,20.0,10.0\n1.0,30.5,700.25\n2.0,500.0,400.0\n"


def write(folder, text, name="marks.csv", coding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(coding))
    return path


def other(folder, text=NAPARI):
    return write(folder, text, "other.csv")


FORMATS = {
    "napari": NAPARI,
    "napari with features": (
        "index,axis-0,axis-1,kind\n0.0,20.0,10.0,a\n1.0,30.5,700.25,a\n2.0,500.0,400.0,b\n"
    ),
    "napari on a stack": (
        "index,axis-0,axis-1,axis-2\r\n0.0,3.0,20.0,10.0\r\n1.0,3.0,30.5,700.25\r\n"
        "2.0,3.0,500.0,400.0\r\n"
    ),
    # QuPath ends its header, and only that, with a tab
    "QuPath points": (
        "x\ty\tclass\tname\t\n10.5\t20.5\tTumor\tPoints 1\n700.75\t31.0\tTumor\tPoints 1\n"
        "400.5\t500.5\t\tPoints 1\n"
    ),
    "QuPath measurements": (
        "Image\tObject ID\tName\tROI\tCentroid X px\tCentroid Y px\tNum points\n"
        "a.tif\t1\t\tPoints\t10.5\t20.5\t1\na.tif\t2\t\tPoints\t700.75\t31\t1\n"
        "a.tif\t3\t\tPoints\t400.5\t500.5\t1\n"
    ),
    "QuPath in micrometres": (
        "Image,Name,Centroid X µm,Centroid Y µm\n"
        "a.tif,,5.25,5.125\na.tif,,350.375,7.75\na.tif,,200.25,125.125\n"
    ),
    "BIRL": ",X,Y\n1,10,20\n2,700.25,30.5\n3,400,500\n",
    "a spreadsheet": "# clicked in March\nX;Y\n10;20\n\n700.25;30.5\n400;500\n",
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_places_x_first_from_pixel_centres(tmp_path, name):
    files = [write(tmp_path, FORMATS[name]), other(tmp_path)]
    found = read_landmarks(files, POST, PRE)
    assert found.post.tolist() == PLACES
    assert found.pre.tolist() == PLACES
    assert len(found) == 3


@pytest.mark.parametrize("coding", ["utf-8-sig", "utf-16"])
def test_text_as_windows_saves_it(tmp_path, coding):
    path = write(tmp_path, FORMATS["QuPath in micrometres"], coding=coding)
    assert read_landmarks([path, other(tmp_path)], POST, PRE).post.tolist() == PLACES


def test_one_table_of_both_images(tmp_path):
    path = write(tmp_path, "label,pre_x,pre_y,post_x,post_y\nvein,1,2,3,4\nhole,500,60,700,80\n")
    found = read_landmarks([path], POST, PRE)
    assert found.post.tolist() == [[3, 4], [700, 80]]
    assert found.pre.tolist() == [[1, 2], [500, 60]]
    assert found.names == ("vein", "hole")


def test_labels_pair_points_where_both_files_have_them(tmp_path):
    post = write(tmp_path, "label,x,y\na,10,20\nb,700,30\nc,400,500\n")
    found = read_landmarks([post, other(tmp_path, "label,x,y\nc,1,2\na,3,4\nb,500,6\n")], POST, PRE)
    assert found.names == ("a", "b", "c")
    assert found.pre.tolist() == [[3, 4], [500, 6], [1, 2]]


def test_the_order_pairs_points_whose_labels_repeat_or_are_in_one_file_only(tmp_path):
    post = write(tmp_path, "label,x,y\na,10,20\na,700,30\n")
    found = read_landmarks([post, other(tmp_path, "label,x,y\nb,1,2\na,500,4\n")], POST, PRE)
    assert found.names == ("1", "2")
    assert found.pre.tolist() == [[1, 2], [500, 4]]


REFUSED = {
    "empty": ("", "marks.csv is empty: landmarks are a CSV with post_x"),
    "other columns": ("a,b\n1,2\n", r"marks.csv has other columns \(a, b\): landmarks are"),
    "rubbish": ("x,y\n1,2\n\x01", r"line 3, column 'x': '\\x01' is not a number"),
    "letters": ("x,y\n1,2\n3,four\n", "marks.csv, line 3, column 'y': 'four' is not a number; "),
    "commas": ("x;y\n1,5;2\n3;4\n", r"'1,5' is not a number \(write decimals with a point\)"),
    "infinite": ("x,y\n1,inf\n3,4\n", "'inf' is not a number"),
    "too many cells": ("x,y\n1,2,3\n", "line 2 has more cells than the header"),
    "one": ("x,y\n1,2\n", "marks.csv holds 1 landmark, and at least 2 are needed"),
    "outside": (
        "x,y\n1,2\n3,4\n20,700\n",
        r"line 4: \(20.0, 700.0\) is outside of the post-stain image of 800 x 600 px",
    ),
    "negative": ("x,y\n1,2\n-0.6,4\n3,5\n", r"line 3: \(-0.6, 4.0\) is outside"),
    "twins": ("x,y\n1,2\n300,400\n1,2\n", "lines 2 and 4 are the same point: remove one"),
    "near": ("x,y\n1,2\n5,7\n9,2\n", "all landmarks lie within 9 px, too near"),
    "shapes": ("index,shape-type,vertex-index,axis-0,axis-1\n0,path,0,1,2\n", "Shapes layer"),
    "multi-point": (
        "Centroid X px,Centroid Y px,Num points\n1,2,5\n",
        "line 2 is an annotation of 5 points, of which QuPath measures the centre only",
    ),
    "two images": (
        "Image,Centroid X px,Centroid Y px\na.tif,1,2\nb.tif,3,4\n",
        r"holds measurements of 2 images \(a.tif, b.tif\)",
    ),
    "both": ("post_x,post_y,pre_x,pre_y\n1,2,3,4\n", "holds both images: name it alone"),
    "counts": ("x,y\n1,2\n300,4\n", "has 2 landmarks and .*other.csv has 3: click the same"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_landmarks_is_named_with_file_and_remedy(tmp_path, name):
    text, message = REFUSED[name]
    rows = 3 if name == "counts" else len(text.splitlines()) - 1
    partner = "".join(NAPARI.splitlines(keepends=True)[: rows + 1])
    files = [write(tmp_path, text), other(tmp_path, partner)]
    with pytest.raises(InputError, match=message) as error:
        read_landmarks(files, POST, PRE)
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_micrometres_need_a_pixel_size(tmp_path):
    files = [other(tmp_path), write(tmp_path, FORMATS["QuPath in micrometres"])]
    with pytest.raises(InputError, match=r"marks\.csv"):
        read_landmarks(files, POST, PRE)


def test_a_table_that_stands_alone_holds_both_images(tmp_path):
    with pytest.raises(InputError, match=r"is alone.*lacks post_x, post_y, pre_x, pre_y: add"):
        read_landmarks([other(tmp_path)], POST, PRE)


def test_a_label_without_a_partner_is_named(tmp_path):
    post = write(tmp_path, "label,x,y\na,10,20\nb,700,30\n")
    pre = other(tmp_path, "label,x,y\na,10,20\nc,700,30\n")
    with pytest.raises(InputError, match=r"marks\.csv"):
        read_landmarks([post, pre], POST, PRE)


def test_files_that_are_absent_or_no_text(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.csv"):
        read_landmarks([tmp_path / "nowhere.csv"], POST, PRE)
    path = tmp_path / "image.csv"
    path.write_bytes(b"II*\0\xff\xfe\x80")
    for read in (lambda: read_landmarks([path], POST, PRE), lambda: read_initial(path, POST, PRE)):
        with pytest.raises(InputError, match=r"image\.csv"):
            read()
    with pytest.raises(InputError, match=r"start\.txt"):
        read_initial(tmp_path / "start.txt", POST, PRE)


def test_landmarks_of_a_public_data_set(shared_data):
    folder = shared_data / "histology_landmarks" / "lesions_" / "scale-5pc"
    files = [folder / f"Izd2-29-041-w35_{stain}.csv" for stain in ("HE", "proSPC")]
    found = read_landmarks(files, Frame((733, 890)), Frame((735, 891)))
    assert len(found) == 78
    assert (found.post[0].tolist(), found.pre[0].tolist()) == ([59, 72], [20, 227])


def test_a_name_is_no_formula_in_the_table_and_is_read_back_unchanged(tmp_path):
    names = ("=1+1", "-a", "'=b", "c", "5")
    points = np.array([[100.0 * n, 20.0 * n * n] for n in range(1, 6)])
    path = tmp_path / "landmarks.csv"
    path.write_text(format_both(Landmarks(points, points, names)))
    assert not any(line.startswith(("=", "-")) for line in path.read_text().splitlines())
    assert read_landmarks([path], POST, PRE).names == names


MATRIX = np.array([[1.5, -0.25, 12.0], [0.25, 1.5, -7.0], [0.0, 0.0, 1.0]])
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
        ("1 2 3\n4 5 6\n7 8\n", "contains something other than numbers"),
        ("[[1, 0, 0], [0, 1, 0], [0, 0, NaN]]", "does not hold 3 x 3 finite numbers"),
        ('{"a": 1}', "does not hold 3 x 3 finite numbers"),
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
