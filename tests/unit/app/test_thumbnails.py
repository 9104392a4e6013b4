"""Small pictures of raw images."""

from __future__ import annotations

import base64

import cv2
import numpy as np
import pytest
import tifffile

from unglow.app import thumbnails
from unglow.app.thumbnails import LONGEST, Thumbnails, draw
from unglow.io.raw_images import read_header
from unglow.workflow.config import load


def gradient(rows, cols):
    """Brighter to the right, and a bright corner below."""
    image = np.tile(np.linspace(100, 1000, cols), (rows, 1))
    image[-rows // 4 :, : cols // 4] = 4000
    return image.astype(np.uint16)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tile": (64, 64), "compression": "zlib"},
        {"rowsperstrip": 7, "compression": "zlib"},
        {"rowsperstrip": 600, "compression": "zlib"},
        {"photometric": "rgb"},
    ],
)
@pytest.mark.parametrize("most", [thumbnails._MOST_PX, 200_000])
def test_a_picture_looks_like_the_image(tmp_path, monkeypatch, options, most):
    monkeypatch.setattr(thumbnails, "_MOST_PX", most)
    image = gradient(600, 900)
    if "photometric" in options:
        image = np.stack([image // 16] * 3, axis=2).astype(np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", image, **options)
    header = read_header(tmp_path / "a.tif")
    if most == 200_000 and options.get("rowsperstrip") == 600:
        with pytest.raises(thumbnails.InputError, match="one piece"):
            draw(header)
        return
    picture = draw(header)
    assert picture.shape == (round(600 * LONGEST / 900), LONGEST)
    assert picture[:40, -20:].mean() > picture[:40, :20].mean()
    assert picture[-10:, :20].mean() > 200


def test_a_picture_is_made_once_until_the_file_changes(tmp_path):
    file, made, settings = tmp_path / "a.tif", Thumbnails(), load({})
    tifffile.imwrite(file, gradient(60, 90))
    first = made.describe(file, settings)
    assert (first["about"], first["problem"]) == ("90 x 60 px, uint16", "")
    coded = np.frombuffer(base64.b64decode(first["picture"]), np.uint8)
    assert cv2.imdecode(coded, cv2.IMREAD_UNCHANGED).shape == (60, 90)
    assert made.describe(file, settings) is first
    tifffile.imwrite(file, gradient(64, 90))
    assert made.describe(file, settings)["about"] == "90 x 64 px, uint16"


def test_what_cannot_be_read_has_a_sentence(tmp_path):
    made, settings = Thumbnails(), load({})
    (tmp_path / "a.tif").write_bytes(b"II*\0" + 40 * b"\xff")
    tifffile.imwrite(tmp_path / "b.tif", gradient(400, 400), compression="zlib")
    content = (tmp_path / "b.tif").read_bytes()
    (tmp_path / "b.tif").write_bytes(content[:600] + bytes(200) + content[800:])
    for name in ("a.tif", "b.tif", "none.tif"):
        answer = made.describe(tmp_path / name, settings)
        assert answer["problem"], name
        assert not answer["picture"]
