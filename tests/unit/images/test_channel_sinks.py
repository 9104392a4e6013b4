"""Images of many channels that are written window by window: OME-TIFF and OME-Zarr."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tifffile
import zarr

from unglow.core.windows import Window, grid, halve_stored
from unglow.images.tiff import read_header
from unglow.images.tiff.metadata import OmeChannel
from unglow.images.tiff.tiles import OmeTiffSink
from unglow.images.zarr.ome_zarr_sink import OmeZarrSink

SINKS = {"tiff": OmeTiffSink, "zarr": OmeZarrSink}
SIZES = [
    ((2052, 2300), "uint16", 2),  # windows of 4 px, and levels that are made of others
    ((2049, 2049), "float32", 1),
    ((1, 700), "uint8", 3),
    ((65, 33), "uint16", 60),
]


def planes_of(shape, dtype, channels):
    noise = np.random.default_rng(7).integers(0, 250, (channels, *shape))
    return (noise + 100 * np.arange(channels)[:, None, None]).astype(dtype)


def channels_named(count):
    return [OmeChannel(f"marker <{n}> µ", (n, 255, 7)) for n in range(count)]


def write(kind, path, planes, *, workers=1, shuffled=False, **more):
    shape = planes.shape[1:]
    sink = SINKS[kind](
        *(path, shape, planes.dtype, channels_named(len(planes))),
        **{"name": "slide", "pixel_size_um": (0.325, 0.65), "workers": workers, **more},
    )
    with sink, ThreadPoolExecutor(workers) as pool:
        jobs = [(n, w) for w in grid(shape, (sink.window,) * 2) for n in range(len(planes))]
        if shuffled:
            np.random.default_rng(1).shuffle(jobs)
        list(pool.map(lambda job: sink.write(job[0], job[1], planes[job[0]][job[1].slices]), jobs))


def write_some(sink, path, planes, some):
    with sink(path, (100, 90), "uint16", channels_named(2), name="s") as opened:
        for n, window in some:
            opened.write(n, window, planes[n][window.slices])


def levels_of(planes, count):
    found = [planes]
    while len(found) < count:
        found.append(np.stack([halve_stored(one) for one in found[-1]]))
    return found


@pytest.mark.parametrize(("shape", "dtype", "channels"), SIZES)
def test_tifffile_reads_every_level(tmp_path, shape, dtype, channels):
    planes = planes_of(shape, dtype, channels)
    path = tmp_path / "a.ome.tif"
    write("tiff", path, planes)
    with tifffile.TiffFile(path) as tif:
        (series,) = tif.series
        assert tif.is_ome
        assert tif.is_bigtiff
        assert series.axes == ("CYX" if channels > 1 else "YX")
        assert max(series.levels[-1].shape[-2:]) <= 512 or min(series.levels[-1].shape[-2:]) == 1
        for level, wanted in zip(series.levels, levels_of(planes, len(series.levels)), strict=True):
            np.testing.assert_array_equal(level.asarray().reshape(wanted.shape), wanted)


@pytest.mark.parametrize(("shape", "dtype", "channels"), SIZES)
def test_zarr_reads_every_level(tmp_path, shape, dtype, channels):
    planes = planes_of(shape, dtype, channels)
    write("zarr", tmp_path / "a.ome.zarr", planes)
    group = zarr.open_group(tmp_path / "a.ome.zarr", mode="r")
    arrays = [group[str(n)] for n in range(len(group.attrs["ome"]["multiscales"][0]["datasets"]))]
    for array, wanted in zip(arrays, levels_of(planes, len(arrays)), strict=True):
        np.testing.assert_array_equal(array[:], wanted)
    assert [one.name for one in tmp_path.iterdir()] == ["a.ome.zarr"]


def test_ome_zarr_py_reads_names_and_colours(tmp_path):
    pytest.importorskip("ome_zarr", reason="ome-zarr is not installed")
    from ome_zarr.io import parse_url  # takes a second
    from ome_zarr.reader import Reader

    write("zarr", tmp_path / "a.ome.zarr", planes_of((40, 50), "uint16", 2))
    (image,) = Reader(parse_url(tmp_path / "a.ome.zarr"))()
    assert image.metadata["channel_names"] == ["marker <0> µ", "marker <1> µ"]
    assert image.metadata["colormap"][1][1] == pytest.approx([1 / 255, 1, 7 / 255])
    scale = image.metadata["coordinateTransformations"][0][0]["scale"]
    assert scale == [1.0, 0.65, 0.325]


def test_the_header_records_names_and_pixel_size(tmp_path):
    write("tiff", tmp_path / "a.ome.tif", planes_of((40, 50), "uint16", 2))
    header = read_header(tmp_path / "a.ome.tif")
    assert header.pixel_size_um == (0.325, 0.65)
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as tif:
        pixels = tifffile.xml2dict(tif.ome_metadata)["OME"]["Image"]["Pixels"]
    assert [one["Name"] for one in pixels["Channel"]] == ["marker <0> µ", "marker <1> µ"]
    assert [one["Color"] for one in pixels["Channel"]] == [0x00FF07FF, 0x01FF07FF]
    assert pixels["SizeC"] == 2


@pytest.mark.parametrize("kind", SINKS)
def test_bytes_follow_from_the_pixels_alone(tmp_path, kind):
    planes = planes_of((2060, 2100), "uint16", 2)
    one, four = tmp_path / "1" / "a", tmp_path / "4" / "a"
    four.parent.mkdir()
    four.mkdir() if kind == "zarr" else four.write_text("what was there before")
    write(kind, one, planes)
    write(kind, four, planes, workers=4, shuffled=True)
    assert content(one) == content(four)
    assert [path.name for path in four.parent.iterdir()] == ["a"]


def content(path):
    if path.is_file():
        return path.read_bytes()
    return {p.relative_to(path): p.read_bytes() for p in path.rglob("*") if p.is_file()}


@pytest.mark.parametrize("kind", SINKS)
def test_a_window_that_is_missing_or_does_not_fit_is_refused(tmp_path, kind):
    planes = planes_of((100, 90), "uint16", 2)
    whole = Window.from_shape((100, 90))
    for bad in ([(0, whole)], [(0, whole), (0, whole)], [(0, Window(0, 50, 0, 90))]):
        with pytest.raises(ValueError, match=r"written|window|shard"):
            write_some(SINKS[kind], tmp_path / "a", planes, bad)
    assert not list(tmp_path.iterdir())


WRITER = """
import os, resource, signal, sys
from pathlib import Path
import numpy as np
from unglow.core.windows import Window
from unglow.images.tiff.tiles import OmeTiffSink
from unglow.images.tiff.metadata import OmeChannel
from unglow.images.zarr.ome_zarr_sink import OmeZarrSink
if sys.argv[3] == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
channels = [OmeChannel("a"), OmeChannel("b")]
sink = {"tiff": OmeTiffSink, "zarr": OmeZarrSink}[sys.argv[1]]
with sink(Path(sys.argv[2]), (60, 60), "uint8", channels, name="s") as sink:
    noise = np.random.default_rng(0).integers(0, 255, (60, 60), np.uint8)
    sink.write(0, Window.from_shape((60, 60)), noise)
    if sys.argv[3] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    sink.write(1, Window.from_shape((60, 60)), noise)
"""


@pytest.mark.parametrize("kind", SINKS)
def test_a_writer_that_is_killed_leaves_what_was_there(tmp_path, kind):
    path = tmp_path / "a"
    write(kind, path, planes_of((60, 60), "uint8", 2))
    before = content(path)
    done = subprocess.run([sys.executable, "-c", WRITER, kind, path, "killed"], check=False)
    assert done.returncode == -9
    assert content(path) == before
    assert [one.name for one in tmp_path.iterdir() if not one.name.startswith(".")] == ["a"]


@pytest.mark.parametrize("kind", SINKS)
def test_a_file_system_without_space_is_reported(tmp_path, kind):
    command = [sys.executable, "-c", WRITER, kind, tmp_path / "a", "full"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert re.search(r"Error: \S+/a could not be written \(File too large\)", done.stderr)
    assert not list(tmp_path.iterdir())
