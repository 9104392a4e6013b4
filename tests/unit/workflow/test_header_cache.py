"""Headers of a batch: read once, read again when the file changed, and compared within a pair."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import tifffile

from unglow.core.errors import InputError
from unglow.images.tiff import read_header
from unglow.workflow import config
from unglow.workflow.header_cache import HeaderCache, headers_of
from unglow.workflow.samples.pair import Pair

CHOICE = {"series": None, "z": None, "t": None}


def image(path, shape=(40, 50), dtype=np.uint8, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"photometric": "minisblack"} | options
    tifffile.imwrite(path, np.full(shape, 7, dtype), **options)
    return path


def opened_after(cache, path, **choice):
    """Read a header through the cache, and say whether the file itself was opened for it.

    The file is made unreadable as an image without changing what the cache looks at.
    """
    state, content = path.stat(), path.read_bytes()
    with path.open("r+b") as stream:
        stream.write(b"\0" * 8)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    try:
        cache.read(path, **(CHOICE | choice))
    except InputError:
        return True
    finally:
        with path.open("r+b") as stream:
            stream.write(content)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    return False


@pytest.fixture
def kept(tmp_path):
    """An image, and the file of a cache that holds its header."""
    path, store = image(tmp_path / "a.tif"), tmp_path / "deep" / "headers.json"
    cache = HeaderCache(store)
    cache.read(path, **CHOICE)
    cache.save()
    return path, store


def test_a_second_parse_opens_no_file(kept):
    path, store = kept
    assert not opened_after(HeaderCache(store), path)
    assert HeaderCache(store).read(path, **CHOICE) == read_header(path)


def test_headers_are_the_same_from_the_cache_and_from_the_file(tmp_path):
    path = image(
        tmp_path / "rgb.tif",
        (64, 48, 3),
        photometric="rgb",
        tile=(16, 16),
        compression="zlib",
        resolution=(20000, 10000),
        resolutionunit="CENTIMETER",
    )
    first = HeaderCache(tmp_path / "c.json")
    fresh = first.read(path, **CHOICE)
    first.save()
    again = HeaderCache(tmp_path / "c.json").read(path, **CHOICE)
    assert again == fresh == read_header(path)
    assert again.pixel_size_um == (0.5, 1.0)
    assert [c.name for c in again.channels] == ["R", "G", "B"]


def rewritten(path):
    image(path, (60, 30))


def rewritten_later(path):
    """As many bytes, at another time."""
    size = path.stat().st_size
    image(path, (50, 40))
    assert path.stat().st_size == size
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


def moved_there(path):
    """Another file, of the same size and time."""
    state = path.stat()
    other = image(path.with_name("other.tif"), (50, 40))
    os.utime(other, ns=(state.st_atime_ns, state.st_mtime_ns))
    other.replace(path)
    assert path.stat().st_size == state.st_size
    assert path.stat().st_mtime_ns == state.st_mtime_ns


@pytest.mark.parametrize(
    ("change", "shape"),
    [(rewritten, (60, 30)), (rewritten_later, (50, 40)), (moved_there, (50, 40))],
)
def test_a_file_that_changed_is_read_again(kept, change, shape):
    path, store = kept
    change(path)
    assert HeaderCache(store).read(path, **CHOICE).shape == shape


def test_each_choice_of_a_plane_has_its_own_entry(tmp_path):
    path = tmp_path / "stack.tif"
    tifffile.imwrite(path, np.zeros((3, 40, 50), np.uint8), ome=True, metadata={"axes": "ZYX"})
    cache = HeaderCache(tmp_path / "c.json")
    assert cache.read(path, series=None, z=1, t=None).plane["z"] == 1
    assert cache.read(path, series=None, z="max", t=None).plane["z"] == "max"
    with pytest.raises(InputError, match="holds 3 planes along z"):
        cache.read(path, **CHOICE)
    cache.save()
    again = HeaderCache(tmp_path / "c.json")
    assert not opened_after(again, path, z=1)
    assert opened_after(again, path, z=2)


def test_failures_are_not_remembered(tmp_path):
    path, store = tmp_path / "late.tif", tmp_path / "c.json"
    cache = HeaderCache(store)
    with pytest.raises(InputError, match=r"late\.tif"):
        cache.read(path, **CHOICE)
    path.write_bytes(b"II*\0")
    with pytest.raises(InputError, match=r"late\.tif"):
        cache.read(path, **CHOICE)
    cache.save()
    assert not store.exists()
    image(path)
    assert cache.read(path, **CHOICE).shape == (40, 50)


def each(change):
    """Return a damage that changes every entry of a cache."""

    def damage(content):
        stored = json.loads(content)
        stored["headers"] = {key: change(entry) for key, entry in stored["headers"].items()}
        return json.dumps(stored).encode()

    return damage


DAMAGES = {
    "cut short": lambda content: content[: len(content) // 2],
    "null": lambda _: b"null",
    "another format": lambda content: json.dumps(json.loads(content) | {"format": 0}).encode(),
    "entries are numbers": each(lambda _: 7),
    "a header of another version": each(
        lambda entry: entry | {"header": {"new": 1} | dict([*entry["header"].items()][1:])}
    ),
    "a header with a wrong value": each(
        lambda entry: entry | {"header": entry["header"] | {"shape": 7}}
    ),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_or_old_cache_is_no_error_and_is_replaced(kept, damage):
    path, store = kept
    store.write_bytes(damage(store.read_bytes()))
    cache = HeaderCache(store)
    assert opened_after(cache, path)
    assert cache.read(path, **CHOICE).shape == (40, 50)
    cache.save()
    assert not opened_after(HeaderCache(store), path)


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path):
    path = image(tmp_path / "a.tif")
    (tmp_path / "file").write_text("in the way")
    cache = HeaderCache(tmp_path / "file" / "headers.json")
    assert cache.read(path, **CHOICE).shape == (40, 50)
    cache.save()
    assert (tmp_path / "file").read_text() == "in the way"


# ------------------------------------------------------------------------------------------ pairs


def pair_of(tmp_path, post, pre, setting=None, **own):
    paths = {}
    for role, options in (("post", post), ("pre", pre)):
        paths[role] = image(tmp_path / f"{role}.tif", **options)
    pair = Pair("s", "d", pre=paths["pre"], post=paths["post"], **own)
    return headers_of(pair, config.load(setting or {}), HeaderCache(tmp_path / "c.json"))


@pytest.mark.parametrize(
    ("post", "pre"),
    [("uint8", "uint8"), ("uint16", "uint16"), ("int16", "int16"), ("float32", "float64")],
)
def test_pairs_on_one_grey_scale_pass(tmp_path, post, pre):
    headers = pair_of(tmp_path, {"dtype": post}, {"dtype": pre, "shape": (70, 20)})
    assert [h.dtype for h in headers] == [post, pre]
    assert [h.shape for h in headers] == [(40, 50), (70, 20)]


@pytest.mark.parametrize(
    ("post", "pre", "message"),
    [
        ("uint16", "uint8", "different grey scales; export both with the same bit depth."),
        ("uint8", "uint16", "different grey scales; export both with the same bit depth."),
        ("float32", "uint16", "no common gain exists; export both in one type."),
        ("uint8", "float64", "no common gain exists; export both in one type."),
    ],
)
def test_pairs_on_two_grey_scales_are_refused_by_name_and_type(tmp_path, post, pre, message):
    with pytest.raises(InputError) as caught:
        pair_of(tmp_path, {"dtype": post}, {"dtype": pre})
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'post.tif'} holds {post} and {tmp_path / 'pre.tif'} holds")
    assert text.endswith(message)
    assert "\n" not in text


def test_whole_numbers_of_64_bits_are_refused_with_both_images_named(tmp_path):
    with pytest.raises(InputError) as caught:
        pair_of(tmp_path, {"dtype": "uint64"}, {"dtype": "int64"})
    assert "post.tif holds uint64: export it as grey or RGB of 8" in str(caught.value)
    assert "pre.tif holds int64" in str(caught.value)


RGB32 = {"shape": (40, 50, 3), "dtype": "uint32", "photometric": "rgb"}


def test_a_sum_that_would_need_64_bits_is_refused_and_a_single_channel_is_not(tmp_path):
    with pytest.raises(InputError, match=r"has 3 channels of uint32.*set `channel` to one of R"):
        pair_of(tmp_path, RGB32, RGB32)
    with pytest.raises(InputError, match="sum would need 64 bits"):
        pair_of(tmp_path, RGB32, RGB32, channel="R+G")
    assert pair_of(tmp_path, RGB32, RGB32, channel="G")[0].dtype == "uint32"
    assert pair_of(tmp_path, RGB32, RGB32, {"channel": "B"})[0].dtype == "uint32"


@pytest.mark.parametrize("channel", ["Q", "3", "R+Q", "R+R"])
def test_a_channel_that_is_not_there_is_refused_before_anything_runs(tmp_path, channel):
    rgb = {"shape": (40, 50, 3), "dtype": "uint8", "photometric": "rgb"}
    with pytest.raises(InputError) as caught:
        pair_of(tmp_path, rgb, rgb, channel=channel)
    assert "post.tif" in str(caught.value)
    assert "pre.tif" in str(caught.value)
    assert pair_of(tmp_path, {"dtype": "uint8"}, {"dtype": "uint8"}, channel=channel)


GREY, RGB = {}, {"shape": (40, 50, 3), "photometric": "rgb"}
RGBA = {"shape": (40, 50, 4), "photometric": "rgb", "extrasamples": ["unassalpha"]}
WITH_ALPHA = {"shape": (40, 50, 2), "planarconfig": "contig", "extrasamples": ["unassalpha"]}
DYES = {
    "shape": (2, 40, 50),
    "ome": True,
    "metadata": {"axes": "CYX", "Channel": {"Name": ["d", "e"]}},
}
RAMP = np.arange(256, dtype=np.uint16) * 257
PALETTE = {"photometric": "palette", "colormap": np.stack([RAMP, RAMP[::-1], RAMP])}
GREY_PALETTE = {"photometric": "palette", "colormap": np.stack([RAMP] * 3)}
BITS = {"dtype": bool}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("post", "pre", "own"),
    [
        (RGB, GREY, {}),
        (RGBA, GREY, {}),
        (PALETTE, GREY, {}),
        (RGB, GREY_PALETTE, {}),
        (RGB, WITH_ALPHA, {}),
        (RGB, DYES, {}),
        (DYES, GREY, {}),
        (RGB, GREY, {"series": 0}),
        (RGB, {"dtype": np.uint16}, {"channel": "G"}),
    ],
)
def test_images_of_different_kinds_are_refused_by_their_headers(tmp_path, post, pre, own, turned):
    images = (pre, post) if turned else (post, pre)
    with pytest.raises(InputError) as caught:
        pair_of(tmp_path, *images, **own)
    for name in ("post.tif", "pre.tif"):
        assert str(tmp_path / name) in str(caught.value)


@pytest.mark.parametrize(
    ("post", "pre", "own"),
    [
        (RGB, GREY, {"channel": "G"}),
        (PALETTE, GREY, {"channel": "2"}),
        (RGB, DYES, {"channel": "0"}),
        (RGB, RGBA, {}),
        (RGB, PALETTE, {}),
        (GREY, WITH_ALPHA, {}),
        (GREY, GREY_PALETTE, {}),
        (DYES, DYES, {}),
        (BITS, BITS, {}),
    ],
)
def test_images_of_one_kind_or_with_a_channel_set_pass(tmp_path, post, pre, own):
    assert pair_of(tmp_path, post, pre, **own)
    assert pair_of(tmp_path, pre, post, **own)


@pytest.mark.parametrize("name", ["pre_{1}.tif", "{a.b}/pre.tif", "<temp>/pre.tif", "{ x ,y}.tif"])
@pytest.mark.parametrize("role", ["pre", "post", "landmarks", "initial_transform"])
def test_a_name_that_snakemake_would_fill_in_is_refused_with_what_is_left_to_do(
    tmp_path, role, name
):
    files = {"post": image(tmp_path / "b.tif"), "pre": image(tmp_path / "a.tif")}
    strange = image(tmp_path / name)
    files[role] = (strange,) if role == "landmarks" else strange
    with pytest.raises(InputError, match=r"Snakemake would replace .* give a link") as caught:
        headers_of(Pair("s", "d", **files), config.load({}), HeaderCache(tmp_path / "c.json"))
    assert str(strange) in str(caught.value)


@pytest.mark.parametrize("name", ["pre_{3F25-11D3}.tif", "{", "{}_*[a]?.tif", "<X>.tif", "{0:x}"])
def test_braces_that_are_no_pattern_are_letters_like_others(tmp_path, name):
    pair = Pair("s", "d", post=image(tmp_path / "b.tif"), pre=image(tmp_path / name))
    headers = headers_of(pair, config.load({}), HeaderCache(tmp_path / "c.json"))
    assert [h.shape for h in headers] == [(40, 50), (40, 50)]


def test_the_plane_comes_from_the_configuration_and_the_series_from_the_sheet_first(tmp_path):
    for role in ("post", "pre"):
        path = tmp_path / f"{role}.tif"
        with tifffile.TiffWriter(path) as tif:
            tif.write(np.zeros((40, 50), np.uint8), photometric="minisblack", metadata=None)
            tif.write(np.zeros((60, 90), np.uint8), photometric="minisblack", metadata=None)
    pair = Pair("s", "d", post=tmp_path / "post.tif", pre=tmp_path / "pre.tif")
    cache = HeaderCache(tmp_path / "c.json")
    own = Pair(pair.sample, pair.dye, pair.pre, pair.post, series=0)
    settings = config.load({"series": 1})
    assert headers_of(pair, settings, cache)[0].shape == (60, 90)
    assert headers_of(own, settings, cache)[1].shape == (40, 50)
