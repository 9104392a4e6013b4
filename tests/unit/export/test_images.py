"""TIFF and FITS exports hold the pixels of the stores, and what is known of them."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tifffile
from made_stores import write_store

from unglow.cli import main
from unglow.core.windows import Window
from unglow.export.images import names_at, names_of, write_fits, write_tiff
from unglow.images.zarr import open_store
from unglow.photometry.difference import open_difference
from unglow.photometry.gain.scale import MethodResult, Scale

ATTRIBUTES = {
    "role": "difference",
    "method": "moffat",
    "gain": 1.3051,
    "offset": -0.5,
    "inputs": {"post": "sha256:" + "5a" * 32, "aligned_pre": "sha256:" + "0f" * 32},
    "matrix": [[1.0, 0.0, 12.5], [0.0, 1.0, -3.25], [0.0, 0.0, 1.0]],
}
DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64")


def image_of(shape, dtype):
    random = np.random.default_rng(3)
    if np.dtype(dtype).kind == "f":
        image = (random.normal(size=shape) * 50).astype(dtype)
        image[:9, :9] = np.nan
        return image
    info = np.iinfo(dtype)
    image = random.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    image.flat[:2] = info.min, info.max
    return image


def store_of(path, image, pixel_size_um=(0.325, 0.65), attributes=None, empty=None):
    about = {"attributes": ATTRIBUTES if attributes is None else attributes, "name": "Präparat 1"}
    return write_store(path, image, pixel_size_um=pixel_size_um, empty=empty, **about)


@pytest.fixture
def store(tmp_path):
    return store_of(tmp_path / "moffat.ome.zarr", image_of((1531, 1177), "float32"))


def read_fits(path):
    """Cards by keyword (text ones joined), and the numbers of the data unit as they are stored."""
    raw = path.read_bytes()
    assert len(raw) % 2880 == 0
    lines = [raw[at : at + 80].decode("latin-1") for at in range(0, len(raw), 80)[:200]]
    end = next(n for n, line in enumerate(lines) if line.rstrip() == "END")
    cards = {}
    for line in lines[:end]:
        key, text = line[:8].strip(), line[8:].strip()
        if line[8:10] == "= ":
            cards[key] = text[2:].partition(" / ")[0].strip().strip("'").rstrip()
        else:
            cards[key] = f"{cards.get(key, '')} {text}".strip()
    kind = {"8": ">u1", "16": ">i2", "32": ">i4", "-32": ">f4", "-64": ">f8"}[cards["BITPIX"]]
    start = -(-(end + 1) * 80 // 2880) * 2880
    count = int(cards.get("NAXIS1", 0)) * int(cards.get("NAXIS2", 0))
    return cards, np.frombuffer(raw, kind, count, start), raw[start + count * int(kind[2]) :]


def test_every_level_of_the_tiff_is_that_of_the_store(store, tmp_path):
    write_tiff(store, tmp_path / "a.ome.tif", workers=3)
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as tiff:
        assert (tiff.is_bigtiff, tiff.is_ome, len(tiff.series)) == (True, True, 1)
        (series,) = tiff.series
        assert len(series.levels) == store.levels == 3
        for level, page in enumerate(series.levels):
            pixels = store.read(Window.from_shape(store.level_shape(level)), level)
            np.testing.assert_array_equal(page.asarray(), pixels)
        first = tiff.pages.first
        assert (first.is_tiled, first.tilewidth, first.compression) == (True, 512, 8)
        # tifffile 2025.10 rounds a resolution to 3e-6
        sizes = pytest.approx((1e4 / 0.325, 1e4 / 0.65), rel=1e-5)
        assert first.get_resolution("CENTIMETER") == sizes
        assert len(first.subifds) == 2
        xml = tiff.ome_metadata
    for text in ('Name="Präparat 1"', 'Type="float"', 'PhysicalSizeX="0.325"',
                 'PhysicalSizeY="0.65"', '<M K="gain">1.3051</M>', '<M K="offset">-0.5</M>',
                 f'<M K="inputs.post">sha256:{"5a" * 32}</M>', '<M K="method">moffat</M>',
                 '<M K="matrix">[[1.0, 0.0, 12.5], [0.0, 1.0, -3.25], [0.0, 0.0, 1.0]]</M>',
                 f'<M K="digest">{store.digest}</M>'):  # fmt: skip
        assert text in xml
    assert "layout" not in xml
    assert "stored_bytes" not in xml


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_of_pixel_comes_through(dtype, tmp_path):
    image = image_of((523, 70), dtype)
    store = store_of(tmp_path / "post.ome.zarr", image, None, {"role": "post"})
    write_tiff(store, tmp_path / "a.tif")
    page = tifffile.imread(tmp_path / "a.tif")
    assert page.dtype == image.dtype
    np.testing.assert_array_equal(page, image)
    write_fits(store, tmp_path / "a.fits")
    cards, stored, rest = read_fits(tmp_path / "a.fits")
    assert not any(rest)
    zero = float(cards.get("BZERO", 0))
    np.testing.assert_array_equal(stored.reshape(523, 70).astype("f8") + zero, image.astype("f8"))


def test_the_fits_header_records_where_the_image_comes_from(store, tmp_path):
    write_fits(store, tmp_path / "a.fits")
    cards, stored, _ = read_fits(tmp_path / "a.fits")
    np.testing.assert_array_equal(
        stored.reshape(store.shape), store.read(Window.from_shape(store.shape))
    )
    assert list(cards)[:5] == ["SIMPLE", "BITPIX", "NAXIS", "NAXIS1", "NAXIS2"]
    expected = {"SIMPLE": "T", "NAXIS1": "1177", "NAXIS2": "1531", "ROWORDER": "TOP-DOWN",
                "PIXSIZE1": "0.325", "PIXSIZE2": "0.65", "METHOD": "moffat", "BGGAIN": "1.3051",
                "BGOFFSET": "-0.5", "IN_POST": "5a" * 32, "IN_ALIGN": "0f" * 32,
                "DIGEST": store.digest.removeprefix("sha256:")}  # fmt: skip
    assert {key: cards[key] for key in expected} == expected
    assert "matrix = [[1.0, 0.0, 12.5]," in cards["HISTORY"]
    assert "The first row of the data is the TOP of the image" in cards["COMMENT"]
    assert not [key for key in cards if re.match(r"CRVAL|CTYPE|CD\d|WCS", key)]


def test_an_export_says_which_pair_it_is_of(tmp_path):
    place = tmp_path / "results" / "Rock7" / "SYTO9"
    place.joinpath("model-affine").mkdir(parents=True)
    (tmp_path / "results" / "telemetry").mkdir()
    path = place / "model-affine" / "difference.ome.zarr"
    made = store_of(path, image_of((9, 9), "u1"))
    names = names_at(made.path)
    wildcards = {"dye": "SYTO9", "sample": "Rock7", "registration": "model-affine"}
    assert names == names_of(wildcards | {"form": "fits"})
    assert names_at(tmp_path / "a.ome.zarr") == {}
    write_fits(made, tmp_path / "a.fits", names)
    cards, _, _ = read_fits(tmp_path / "a.fits")
    found = [cards[key] for key in ("SAMPLE", "DYE", "VARIANT")]
    assert found == ["Rock7", "SYTO9", "model-affine"]
    write_tiff(made, tmp_path / "a.tif", names)
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        assert "Rock7" in tiff.ome_metadata
        assert "SYTO9" in tiff.ome_metadata


def test_text_that_fits_does_not_allow_is_written_out(tmp_path):
    image = image_of((9, 9), "uint8")
    attributes = {"role": "pre", "method": "Mo'ffat é", "note": "Grüße\nan alle" + 90 * "x"}
    write_fits(store_of(tmp_path / "a.ome.zarr", image, None, attributes), tmp_path / "a.fits")
    cards, _, _ = read_fits(tmp_path / "a.fits")
    assert cards["METHOD"] == "Mo ffat \\xe9"
    assert cards["HISTORY"].startswith("note = Gr\\xfc\\xdfe an alle")


def test_bytes_do_not_depend_on_time_place_or_workers(store, tmp_path):
    copy = tmp_path / "elsewhere" / "copy.ome.zarr"
    copy.parent.mkdir()
    store_of(copy, image_of((1531, 1177), "float32"))
    write_tiff(store, tmp_path / "a.tif")
    write_tiff(open_store(copy), tmp_path / "elsewhere" / "b.ome.tif", workers=4)
    assert (tmp_path / "a.tif").read_bytes() == (tmp_path / "elsewhere" / "b.ome.tif").read_bytes()


def test_an_empty_store_leaves_its_reason(tmp_path):
    empty = store_of(tmp_path / "a.ome.zarr", np.zeros((900, 800), "f4"), empty="No <texture>.")
    write_tiff(empty, tmp_path / "a.tif")
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        assert "No pixels: No &lt;texture&gt;." in tiff.ome_metadata
        assert np.isnan(tiff.asarray()).tolist() == [[True]]
    write_fits(empty, tmp_path / "a.fits")
    cards, stored, _ = read_fits(tmp_path / "a.fits")
    assert (cards["NAXIS"], len(stored)) == ("0", 0)
    assert cards["COMMENT"].startswith("No pixels: No <texture>.")


def test_astropy_reads_it(tmp_path):
    astropy = pytest.importorskip("astropy.io.fits", reason="astropy is not installed")
    for dtype in DTYPES:
        image = image_of((523, 70), dtype)
        write_fits(store_of(tmp_path / f"{dtype}.ome.zarr", image), tmp_path / f"{dtype}.fits")
        with astropy.open(tmp_path / f"{dtype}.fits") as read:
            read.verify("exception")
            np.testing.assert_array_equal(read[0].data, image)
            assert read[0].header["BGGAIN"] == 1.3051


def test_the_command(store, tmp_path, capsys):
    path = str(store.path)
    assert main(["export", "--tiff", str(tmp_path / "a.ome.tif"), path]) == 0
    assert re.search(r"a\.ome\.tif: 1177 x 1531 px, float32, \d+\.\d MB$", capsys.readouterr().out)
    assert main(["export", "--fits", str(tmp_path / "a.fits"), path]) == 0
    assert (tmp_path / "a.fits").stat().st_size == 2880 * (1 + 2503)
    for words, sentence in (
        (["--tiff", str(tmp_path / "a.ome.tif"), path], "exists already; remove it"),
        (["--tiff", str(tmp_path / "b.png"), path], "has to end in .tif or .tiff."),
        (["--fits", str(tmp_path / "b.tif"), path], "has to end in .fits or .fit."),
        (["--fits", str(tmp_path / "b.fits"), path, path], "one store is exported at a time"),
        (["--fits", str(tmp_path / "b.fits"), "--spacing", "4", path], "belongs to a transform"),
        (["--tiff", str(tmp_path / "b.tif"), str(tmp_path / "no")], "is not a finished store"),
        (["--tiff", str(tmp_path / "b.tif"), str(store.path.parent)], str(store.path)),
    ):
        assert main(["export", *words]) == 2
        assert sentence in capsys.readouterr().err
    empty = store_of(tmp_path / "e.ome.zarr", np.zeros((9, 8), "f4"), empty="No texture.")
    assert main(["export", "--tiff", str(tmp_path / "e.tif"), str(empty.path)]) == 2
    assert "holds no pixels to export: No texture." in capsys.readouterr().err
    assert not (tmp_path / "e.tif").exists()


def test_a_difference_that_is_not_written_is_exported_with_the_same_px(tmp_path, capsys):
    post = image_of((1531, 1177), "uint16") % 4096
    aligned = image_of(post.shape, "float32") + np.float32(900)
    stored = store_of(tmp_path / "post.ome.zarr", post, attributes={"grey_levels": "integer"})
    store_of(tmp_path / "aligned_pre.ome.zarr", aligned, attributes={})
    methods = {
        "linear": MethodResult.make_failed("Too dark."),
        "moffat": MethodResult(1.25, -0.5, None),
    }
    Scale("moffat", methods).save(tmp_path / "scale.json")
    place = tmp_path / "difference.ome.zarr"
    path = str(place)
    assert main(["export", "--tiff", str(tmp_path / "a.ome.tif"), path]) == 0
    assert "a.ome.tif: 1177 x 1531 px, float32" in capsys.readouterr().out
    assert main(["export", "--fits", str(tmp_path / "a.fits"), path]) == 0
    assert not place.exists()
    made = open_difference(tmp_path)
    expected = made.read(Window.from_shape(made.shape))
    assert np.isfinite(expected).mean() > 0.99
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as tiff:
        assert len(tiff.series[0].levels) == made.levels == 3
        np.testing.assert_array_equal(tiff.asarray(), expected)
        xml = tiff.ome_metadata
    about_post = f'<M K="inputs.post">{stored.digest}</M>'
    for text in ('<M K="method">moffat</M>', '<M K="gain">1.25</M>', about_post):
        assert text in xml
    cards, numbers, _ = read_fits(tmp_path / "a.fits")
    assert (cards["METHOD"], cards["BGGAIN"]) == ("moffat", "1.25")
    np.testing.assert_array_equal(numbers.reshape(post.shape), expected)
    for method, sentence in (
        ("linear", "difference_linear.ome.zarr holds no pixels to export: Too dark."),
        ("manual", "has no difference by 'manual': its scale.json has linear, moffat; add it to"),
    ):
        unwritten = str(tmp_path / f"difference_{method}.ome.zarr")
        assert main(["export", "--tiff", str(tmp_path / "c.tif"), unwritten]) == 2
        assert sentence in capsys.readouterr().err
