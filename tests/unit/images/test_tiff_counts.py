"""A file holds the planes that its description counts, or is refused; stacks cut in a copy."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
import tifffile
from reading_tiff import read_all, refusal

from unglow.images.tiff import read_header

IMAGE = np.random.default_rng(0).integers(0, 255, (64, 80)).astype(np.uint8)


STACKS = ("plain", "ome", "ome CZ", "ome zlib", "shaped", "shaped zlib", "imagej", "imagej TZC")


def write_stack(path, kind, order="<", big=False):
    """Write six planes; an ImageJ stack of one directory has its planes back to back."""
    data = np.random.default_rng(5).integers(0, 999, (6, 40, 50), np.uint16)
    options = {"byteorder": order, "photometric": "minisblack"}
    if kind == "plain":
        with tifffile.TiffWriter(path, byteorder=order, bigtiff=big) as tif:
            for page in data:
                tif.write(page, metadata=None, contiguous=False, photometric="minisblack")
    elif kind.startswith("imagej"):
        axes = "TZCYX" if "TZC" in kind else "ZYX"
        data = data.reshape(1, 3, 2, 40, 50) if "TZC" in kind else data
        tifffile.imwrite(path, data, imagej=True, metadata={"axes": axes}, **options)
    else:
        data = data.reshape(2, 3, 40, 50) if "CZ" in kind else data
        axes = {"metadata": {"axes": "CZYX" if "CZ" in kind else "ZYX"}}
        codec = "zlib" if "zlib" in kind else None
        is_ome = kind.startswith("ome")
        tifffile.imwrite(path, data, ome=is_ome, compression=codec, bigtiff=big, **axes, **options)
    return path


@pytest.mark.parametrize(("order", "big"), [("<", False), (">", False), (">", True)])
@pytest.mark.parametrize("kind", STACKS)
@pytest.mark.parametrize("z", ["max", 0])
def test_a_stack_that_lost_its_end_is_refused(tmp_path, kind, order, big, z):
    path = write_stack(tmp_path / "a.tif", kind, order, big and not kind.startswith("imagej"))
    stack = path.read_bytes()
    assert read_header(path, z=z, t=0).axes
    with tifffile.TiffFile(path) as tif:
        pages = [tif.pages[i] for i in range(len(tif.pages))]
        # behind the data and behind the directory of a page, as far as they are known
        places = [page.offset for page in pages[1:]]
        places += [pages[0].dataoffsets[0] + 3 * 40 * 50 * 2] if "imagej" in kind else []
    # a strip that is missing at the very end is one of the last plane, which is not read for z = 0
    shares = (0.3, 0.6, 0.8, 0.99)[: 4 if z == "max" else 3]
    for end in [*places, *(int(len(stack) * share) for share in shares)]:
        path.write_bytes(stack[:end])
        assert "copy it again from its source" in refusal(path, z=z, t=0), end


def cut_chain(path):
    """Leave the first directory of a classic TIFF file without a next one."""
    with tifffile.TiffFile(path) as tif:
        place = tif.pages.first.offset + 2 + 12 * len(tif.pages.first.tags)
        end = tif.pages.first.dataoffsets[0] + 6 * 40 * 50 * 2
    content = bytearray(path.read_bytes())
    content[place : place + 4] = bytes(4)
    path.write_bytes(content)
    return end


@pytest.mark.parametrize("kind", ["imagej", "imagej TZC"])
def test_imagej_stacks_of_one_directory(tmp_path, kind):
    """So ImageJ writes what has more than 4 GB."""
    path = write_stack(tmp_path / "a.tif", kind)
    end = cut_chain(path)
    os.truncate(path, end)
    assert read_header(path, z=0).axes in ({"Z": 3}, {"Z": 6})
    os.truncate(path, end - 1)
    assert refusal(path, z=0).startswith("holds 1 page, its description counts 6: copy it again")


def write_pages(path, count, description):
    with tifffile.TiffWriter(path) as tif:
        for i in range(count):
            text = description if i == 0 else None
            tif.write(IMAGE, metadata=None, contiguous=False, description=text)
    return path


def ome_description(folder, planes, axes, shape=IMAGE.shape):
    path = folder / "described.ome.tif"
    data = np.zeros((planes, *shape), IMAGE.dtype)
    tifffile.imwrite(path, data, metadata={"axes": f"{axes}YX"}, photometric="minisblack")
    with tifffile.TiffFile(path) as tif:
        return tif.ome_metadata


@pytest.mark.parametrize("axis", ["C", "Z", "T"])
@pytest.mark.parametrize(("described", "pages"), [(1, 3), (3, 1), (5, 3)])
def test_ome_xml_that_counts_other_pages_is_refused(tmp_path, axis, described, pages):
    description = ome_description(tmp_path, described, axis)
    path = write_pages(tmp_path / "a.ome.tif", pages, description)
    assert refusal(path, z=0, t=0) == (
        f"holds {pages} page{'s' * (pages > 1)}, its OME-XML counts {described}: copy it again "
        "from its source or write it again."
    )


@pytest.mark.parametrize("pages", [1, 3])
def test_imagej_and_tifffile_descriptions_that_count_more_pages_are_refused(tmp_path, pages):
    rows, cols = IMAGE.shape
    for text in ("ImageJ=1.53t\nimages=5\nslices=5\n", f'{{"shape": [5, {rows}, {cols}]}}'):
        path = write_pages(tmp_path / "a.tif", pages, text)
        assert "its description counts 5: copy it again" in refusal(path, z=0)


def test_descriptions_that_are_of_other_files_do_not_matter(tmp_path):
    description = ome_description(tmp_path, 3, "C", (9, 9))
    path = write_pages(tmp_path / "a.ome.tif", 1, description)
    assert np.array_equal(read_all(path)[0], IMAGE)
    others = re.sub(r"(<TiffData[^>]*)/>", r'\1><UUID FileName="b.tif">urn:b</UUID></TiffData>',
                    ome_description(tmp_path, 3, "C"))  # fmt: skip
    path = write_pages(tmp_path / "a.ome.tif", 1, others)
    assert np.array_equal(read_all(path)[0], IMAGE)


def test_samples_that_are_counted_as_images_are_read(tmp_path):
    data = np.random.default_rng(5).integers(0, 999, (3, 40, 50), np.uint16)
    text = "ImageJ=1.53t\nimages=3\nchannels=3\nmode=composite\n"
    options = {"photometric": "rgb", "planarconfig": "separate", "metadata": None}
    tifffile.imwrite(tmp_path / "a.tif", data, description=text, **options)
    assert np.array_equal(read_all(tmp_path / "a.tif"), data)
    tifffile.imwrite(tmp_path / "b.ome.tif", data, photometric="rgb", planarconfig="separate")
    assert np.array_equal(read_all(tmp_path / "b.ome.tif"), data)
