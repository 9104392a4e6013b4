"""Real files: each is read as tifffile reads it, or refused with a sentence."""

from __future__ import annotations

import numpy as np
import pytest
import tifffile

from unglow.core.errors import InputError
from unglow.core.windows import Window
from unglow.images.tiff import open_reader, read_header

# Settings for files that ask for a choice, and what to compare with.
CHOICES = {
    "bmcv_multiseries.ome.tiff": ({"series": 3}, lambda path: tifffile.imread(path, series=3)),
    "bmcv_zyx_uint16.tiff": ({"z": 4}, lambda path: tifffile.imread(path)[4]),
    "multi-channel-z-series.ome.tif": (
        {"z": "max"},
        lambda path: tifffile.imread(path).max(axis=1),
    ),
}
REFUSED = {
    "cmyk-3c-16b.tiff": "holds ink (CMYK) values",
    "ojpeg-tile.tif": "old-style JPEG",
    "bmcv_multiseries.ome.tiff": "holds 6 images",
    "bmcv_zyx_uint16.tiff": "holds 10 planes along z",
    "multi-channel-z-series.ome.tif": "holds 5 planes along z (axes: C of length 3, Z of length 5)",
}
# What tifffile leaves to its caller.
SHOWN = {
    "seq-1c-12b-miniswhite-47c39b31.tiff": lambda stored, page: 4095 - stored,
    "seq-1c-4b-palette-85108c5a.tiff": lambda stored, page: (page.colormap >> 8).astype(np.uint8)[
        :, stored
    ],
}
SMALL = 3_000_000


def zoo(shared_data):
    folders = ("tiff_variety", "scanners_one_slide", "two_round_fluorescence")
    found = [p for f in folders for p in sorted((shared_data / f).rglob("*")) if p.is_file()]
    found += sorted((shared_data / "signal_autofluorescence").rglob("*.tif"))
    assert len(found) > 40
    return found


def expected(path):
    choice, read = CHOICES.get(path.name, ({}, tifffile.imread))
    stored = read(path)
    with tifffile.TiffFile(path) as tif:
        page = tif.series[0].keyframe
        if path.name in SHOWN:
            stored = SHOWN[path.name](stored, page)
        elif page.samplesperpixel > 1 and page.planarconfig == 1:
            stored = np.moveaxis(stored, -1, 0)
    return choice, stored.reshape(-1, *stored.shape[-2:])


def test_every_file_is_read_right_or_refused(shared_data):
    rng = np.random.default_rng(11)
    for path in zoo(shared_data):
        if path.name in REFUSED:
            with pytest.raises(InputError) as caught:
                read_header(path)
            assert REFUSED[path.name] in str(caught.value)
            if path.name not in CHOICES:
                continue
        if path.stat().st_size > SMALL or "10kx5k" in path.name:
            continue
        choice, want = expected(path)
        header = read_header(path, **choice)
        assert (len(header.channels), *header.shape) == want.shape, path
        with open_reader(header) as reader:
            for _ in range(4):
                y0, x0 = (int(rng.integers(0, n)) for n in header.shape)
                window = Window(y0, y0 + 600, x0, x0 + 500).clip(header.shape)
                got = reader.read(window)
                assert np.array_equal(got, want[(slice(None), *window.slices)]), path


@pytest.mark.parametrize("name", ["yb10kx5k.zstd.tiff", "grey10kx5k.tif"])
def test_large_files_by_windows(shared_data, name):
    path = shared_data / "tiff_variety" / name
    header = read_header(path)
    assert header.shape == (5000, 10000)
    with tifffile.TiffFile(path) as tif:
        store = tif.pages.first.asarray()[900:1500, 4000:9000]
    with open_reader(header) as reader:
        got = np.moveaxis(reader.read(Window(900, 1500, 4000, 9000)), 0, -1)
    np.testing.assert_array_equal(got.reshape(store.shape), store)
