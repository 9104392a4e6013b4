"""Damaged bytes anywhere: the file is refused with an `InputError`, or read."""

from __future__ import annotations

import numpy as np
import pytest
import tifffile

from unglow.blocks import Window
from unglow.errors import InputError
from unglow.tiff import open_reader, read_header, survey_blocks

IMAGE = (np.add.outer(np.arange(40), np.arange(56)) * 2).astype(np.uint8)
KINDS = {
    "strips": ("a.tif", IMAGE, {"rowsperstrip": 8}),
    "deflate tiles": ("a.tif", IMAGE, {"tile": (16, 16), "compression": "zlib", "predictor": True}),
    "lzw": ("a.tif", IMAGE, {"compression": "lzw"}),
    "packbits": ("a.tif", IMAGE, {"compression": "packbits", "byteorder": ">"}),
    "jpeg": ("a.tif", np.stack([IMAGE] * 3, -1), {"compression": "jpeg", "photometric": "rgb"}),
    "ome": ("a.ome.tif", np.stack([IMAGE] * 2), {"metadata": {"axes": "CYX"}, "bigtiff": True}),
    "imagej": ("a.tif", np.stack([IMAGE] * 2), {"imagej": True, "metadata": {"axes": "CYX"}}),
}
ROUNDS = 40


def mutated(data, rng):
    """Change a few bytes, mostly in the header; or cut, or overwrite a run."""
    data = bytearray(data)
    what = rng.integers(0, 6)
    if what == 0:
        return data[: rng.integers(1, len(data))]
    if what == 1:
        at = int(rng.integers(0, len(data)))
        data[at : at + 16] = rng.bytes(min(16, len(data) - at))
        return data
    limit = len(data) if what == 2 else min(len(data), 600)
    for at in rng.integers(0, limit, rng.integers(1, 4)):
        data[at] = rng.choice([0, 1, 255, 128, int(rng.integers(0, 256))])
    return data


def attempt(path):
    """Read a corner and a survey; return the sentence if the file is refused."""
    try:
        header = read_header(path, z=0, t=0)
        rows, cols = min(header.shape[0], 500), min(header.shape[1], 500)
        with open_reader(header) as reader:
            block = reader.read(Window(0, rows, 0, cols))
        blocks = list(survey_blocks(header, count=2, size=16))
    except InputError as error:
        return str(error)
    assert block.shape == (len(header.channels), rows, cols)
    assert blocks
    return None


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_else_escapes(tmp_path, kind):
    name, image, options = KINDS[kind]
    path = tmp_path / name
    tifffile.imwrite(path, image, **options)
    whole = path.read_bytes()
    rng = np.random.default_rng(sum(kind.encode()))
    outcomes = {"read": 0, "refused": 0}
    for _ in range(ROUNDS):
        path.write_bytes(mutated(whole, rng))
        refusal = attempt(path)
        assert refusal is None or (str(path) in refusal and "\n" not in refusal)
        outcomes["read" if refusal is None else "refused"] += 1
    assert min(outcomes.values()) > 0
