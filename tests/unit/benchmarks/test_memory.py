"""The verdicts of benchmarks/memory_model.py, and the pairs that benchmarks make."""

from __future__ import annotations

import job_memory
import numpy as np
import phantoms
import pytest
import slides
import tifffile

from unglow.core.windows import Window
from unglow.io.raw_images import open_reader, read_header

pytestmark = pytest.mark.slow


def job(declared, peak, **more):
    values = {"rule": "align", "what": "", "outcome": "ok", **more}
    case = phantoms.Case(1024, 1024, "tiles", "uint8")
    setting = job_memory.Setting(400, 2)
    return job_memory.JobMemory(case, setting, declared_mb=declared, peak_mb=peak, **values)


@pytest.mark.parametrize(
    ("declared", "peak", "more", "wrong"),
    [
        (300, 300, {}, ""),
        (390, 300, {}, ""),
        (299, 300, {}, "took more than predicted"),
        (392, 300, {}, "took much less than predicted"),
        (300, 199, {}, ""),
        (50, 51, {}, "took more than predicted"),
        (390, 300, {"outcome": "memory"}, "ended as memory"),
        (390, 300, {"kills": 1}, "killed in its control group"),
    ],
)
def test_what_is_wrong_with_a_prediction(declared, peak, more, wrong):
    assert job(declared, peak, **more).wrong == wrong


def test_the_table_names_the_worst_jobs():
    jobs = [job(d, 300, what=w) for d, w in ((330, "pre"), (290, "post"), (600, "both"))]
    lines = [line.split() for line in job_memory.rules_table(jobs).splitlines()]
    assert lines[1] == ["align", "3", "0.97!", "1.10", "2.00+", "2", "300-300"]
    assert lines[4][:6] == ["align", "tightest", "290", "/", "300", "="]
    assert "post 1024-tiles-uint8, 400 MB, 2 threads" in " ".join(lines[4])
    assert "both 1024-tiles-uint8" in " ".join(lines[5])
    assert job_memory.wrong_text(jobs).startswith("2 of 3 jobs are not as predicted:")
    assert job_memory.wrong_text(jobs[:1]) == "all 1 jobs are as predicted"


@pytest.mark.parametrize(
    ("text", "size"), [("8192", (8192, 8192)), ("30000x25000", (30000, 25000))]
)
def test_sizes(text, size):
    assert phantoms.size_of(text) == size
    with pytest.raises(ValueError, match="30000 x"):
        phantoms.size_of("30000 x 25000")


@pytest.mark.parametrize(
    ("layout", "dtype", "strips"),
    [
        ("tiles", "uint16", None),
        ("deflate-strip", "uint8", 1),
        ("zstd-strip", "uint8", 1),
        ("zstd-strip", "uint16", 1),
    ],
)
def test_pairs_of_all_layouts_show_the_same_section(tmp_path, layout, dtype, strips):
    raw = phantoms.phantom(phantoms.Case(300, 260, layout, dtype), tmp_path, 2)
    plain = phantoms.phantom(phantoms.Case(300, 260, "strips", dtype), tmp_path, 1)
    assert phantoms.phantom(phantoms.Case(300, 260, layout, dtype), tmp_path, 2) == raw
    for name, shape in (("post", (300, 260)), ("pre", (306, 268))):
        path = f"phantom/phantom_{name}_SYTO9.tif"
        with tifffile.TiffFile(raw / path) as tif:
            page = tif.pages.first
            assert page.is_tiled == (strips is None)
            assert strips is None or len(page.dataoffsets) == strips
            pixels = page.asarray()
        assert pixels.shape[:2] == shape
        assert pixels.dtype == dtype
        np.testing.assert_array_equal(pixels, tifffile.imread(plain / path))
    phantoms.forget_canvases(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {raw.name, plain.name}


@pytest.mark.parametrize("dtype", phantoms.DTYPES)
@pytest.mark.parametrize("layout", phantoms.ZARR_LAYOUTS)
def test_pairs_in_zarr_show_the_same_section(tmp_path, layout, dtype):
    raw = phantoms.phantom(phantoms.Case(300, 260, layout, dtype), tmp_path, 1)
    plain = phantoms.phantom(phantoms.Case(300, 260, "strips", dtype), tmp_path, 1)
    for path in (raw / "phantom").iterdir():
        with open_reader(read_header(path)) as reader:
            found = reader.read(phantoms.Window.from_shape(reader.header.shape))
        expected = tifffile.imread(plain / "phantom" / f"{path.name.partition('.')[0]}.tif")
        np.testing.assert_array_equal(np.moveaxis(found, 0, -1).squeeze(), expected)


def test_a_turned_window_of_pre_does_not_depend_on_the_window():
    section = phantoms.Section((900, 800), (918, 824))
    whole = section.pre(phantoms.Window(0, 918, 0, 824)).astype(int)
    part = section.pre(phantoms.Window(300, 500, 200, 600)).astype(int)
    assert np.abs(whole[300:500, 200:600] - part).max() <= 3  # positions of 1/32 px


@pytest.mark.parametrize("layout", ["tiles", "samples", "strips", "zarr"])
def test_slides_of_all_layouts_hold_the_same_pixels(tmp_path, layout):
    case = slides.SlideCase(300, 340, 4, layout, "uint16")
    folder = slides.make_slide(case, tmp_path, 1) / slides.SAMPLE
    assert (folder / "markers.csv").read_text().splitlines()[2:] == [
        "2,1,AF_1,,100,True",
        "3,2,DNA_2,,20,",
        "4,2,M_1,AF_1,100,",
    ]
    header = read_header(next(folder.glob("*.ome.*")))
    assert (header.shape, len(header.channels), header.dtype) == ((300, 340), 4, "uint16")
    assert header.separate == (layout != "samples")
    planes = slides._Planes(case, 1)
    with open_reader(header) as reader:
        for channel, found in enumerate(reader.read(Window.from_shape(header.shape), range(4))):
            np.testing.assert_array_equal(found, planes.of(channel, slice(0, 300)))
