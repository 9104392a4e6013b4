"""The plan of a pair: from images and configuration alone, and readable where they are moved to."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
import tifffile
import zarr

from unglow.core.errors import ChangedError, InputError, StoreError
from unglow.core.records import to_plain
from unglow.images import raw_images
from unglow.images.raw_file import RawFile, fingerprint
from unglow.images.raw_header import find_key_file
from unglow.images.tiff import read_header
from unglow.results.pair import judge
from unglow.stages.ingest import ingest_both
from unglow.stages.plan import Plan, add_light, check_two_files, make_plan, plan_pair

SHAPE = (192, 160)


def picture(channel=1, channels=3, seed=3):
    """Return an RGB image whose signal is in one channel."""
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    rng = np.random.default_rng(seed)
    image = np.zeros((*SHAPE, channels), np.uint8)
    signal = 60 + 40 * np.sin(x / 9) * np.cos(y / 7) + rng.normal(0, 2, SHAPE)
    image[..., channel] = signal.astype(np.uint8)
    return image


def save(path, image, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = "rgb" if image.shape[2:] == (3,) else "minisblack"
    tifffile.imwrite(path, image, **({"photometric": colour} | options))
    return read_header(path)


def test_a_plan_of_ome_zarr_images_is_made_from_the_files_that_stand_for_them(tmp_path):
    for role, seed in (("post", 3), ("pre", 4)):
        group = zarr.open_group(str(tmp_path / f"{role}.zarr"), mode="w")
        group.create_array("0", data=picture(seed=seed)[..., 1], chunks=(64, 64))
        levels = [{"path": "0"}]
        group.attrs["ome"] = {"multiscales": [{"axes": ["y", "x"], "datasets": levels}]}
    paths = {role: tmp_path / f"{role}.zarr" for role in ("post", "pre")}
    headers = {role: to_plain(raw_images.read_header(path)) for role, path in paths.items()}
    standing = [find_key_file(paths[role]) for role in ("post", "pre")]
    assert [path.name for path in standing] == ["zarr.json", "zarr.json"]
    plan = plan_pair(*standing, headers, channel="auto", dye="D")
    assert plan.reason is None
    assert plan.headers["post"].path == str(paths["post"])
    plan.save(tmp_path / "details/plan.json")
    raw = RawFile(plan.headers["post"], plan.fingerprints["post"])
    raw.check()
    (tmp_path / "post.zarr" / "0" / "c" / "0" / "0").write_bytes(b"other")
    with pytest.raises(ChangedError, match=r"post\.zarr was changed"):
        raw.check()


@pytest.fixture
def headers(tmp_path):
    place = tmp_path / "raw"
    options = {"resolution": (20000, 10000), "resolutionunit": "CENTIMETER"}
    roles = enumerate(("post", "pre"))
    return [save(place / f"{role}.tif", picture(seed=n), **options) for n, role in roles]


def test_one_channel_is_chosen_for_both_and_the_reason_is_kept(headers, tmp_path):
    plan = make_plan(*headers, channel="auto")
    assert plan.reason is None
    assert plan.channels == {"post": (1,), "pre": (1,)}
    assert plan.choice["names"] == ("G",)
    assert plan.choice["reason"] == "G carries 100 % of the signal."
    assert {role: layout.dtype for role, layout in plan.layouts.items()} == {
        "post": "uint16",
        "pre": "uint16",
        "derived": "float32",
    }


def test_one_file_twice_is_refused_by_name_and_two_of_one_size_are_not(tmp_path, headers):
    assert headers[0].file_bytes == headers[1].file_bytes
    check_two_files(*headers)
    post, pre = (save(tmp_path / f"{role}.tif", picture()) for role in ("post", "pre"))
    plan = make_plan(post, pre, channel="auto")
    assert plan.reason.startswith("post.tif and pre.tif hold the same bytes")
    with pytest.raises(InputError, match="hold the same bytes"):
        check_two_files(post, pre)


def test_a_plan_is_read_back_as_it_was_wherever_the_images_are(headers, tmp_path):
    plan = make_plan(*headers, channel="auto")
    plan.save(tmp_path / "details/plan.json")
    raw = {"post": tmp_path / "elsewhere" / "post.tif", "pre": tmp_path / "raw" / "pre.tif"}
    again = Plan.load(tmp_path / "details/plan.json", raw)
    assert again.channels == plan.channels
    assert again.layouts == plan.layouts
    assert again.fingerprints == plan.fingerprints
    assert again.reason is None
    assert again.headers["pre"] == plan.headers["pre"]
    assert again.headers["post"].path == str(raw["post"])
    assert list(Plan.load(tmp_path / "details/plan.json", {"pre": raw["pre"]}).headers) == ["pre"]


@pytest.mark.parametrize(
    ("channel", "message"),
    [
        ("auto", "no channel carries signal in both images"),
        ("infrared", "the post image has no channel 'infrared'; set `channel` to auto or one of"),
    ],
)
def test_channels_that_do_not_go_together_make_a_failed_plan(tmp_path, channel, message):
    made = [save(tmp_path / f"{n}.tif", picture(n)) for n in (0, 2)]
    plan = make_plan(*made, channel=channel)
    assert message in str(plan.reason)
    assert plan.channels == {"post": (), "pre": ()}
    plan.save(tmp_path / "details/plan.json")
    stored = json.loads((tmp_path / "details/plan.json").read_text())
    assert stored["status"] == "failed"
    assert stored["reason"] == plan.reason
    again = Plan.load(tmp_path / "details/plan.json", {"post": tmp_path / "0.tif"})
    assert again.reason == plan.reason
    assert again.layouts["derived"].shape == SHAPE


def damaged(tmp_path, role):
    """Make a pair with a compressed strip of one image overwritten."""
    paths = {name: tmp_path / "raw" / f"{name}.tif" for name in ("post", "pre")}
    for path in paths.values():
        save(path, picture(), compression="zlib")
    path = paths[role]
    with tifffile.TiffFile(path) as tif:
        start = tif.pages[0].dataoffsets[0]
    with path.open("r+b") as stream:
        stream.seek(start)
        stream.write(bytes(40))
    return map(read_header, paths.values())


@pytest.mark.parametrize("role", ["post", "pre"])
def test_pixels_that_cannot_be_decoded_make_a_failed_plan_that_names_the_file(tmp_path, role):
    plan = make_plan(*damaged(tmp_path, role), channel="auto")
    assert plan.reason is not None
    assert f"{role}.tif' is damaged" in plan.reason
    assert "\n" not in plan.reason
    plan.save(tmp_path / "details/plan.json")
    assert str(tmp_path) not in (tmp_path / "details/plan.json").read_text()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: "",
        lambda text: text.replace('"version": 1', '"version": 0'),
        lambda text: text.replace('"layouts"', '"Layouts"'),
        lambda text: text.replace('"segments"', '"parts"'),
    ],
)
def test_a_damaged_plan_is_named_with_a_remedy(headers, tmp_path, damage):
    path = tmp_path / "details/plan.json"
    make_plan(*headers, channel="auto").save(path)
    path.write_text(damage(path.read_text()))
    raw = {"post": tmp_path / "raw" / "post.tif"}
    with pytest.raises(StoreError, match=r"plan\.json"):
        Plan.load(path, raw)


def test_the_fingerprint_is_of_size_and_64_pieces(tmp_path):
    header = save(tmp_path / "small.tif", picture())
    content = (tmp_path / "small.tif").read_bytes()
    last = max(0, len(content) - 65536)
    pieces = [content[n * last // 63 :][:65536] for n in range(64)]
    wanted = hashlib.sha256(str(len(content)).encode() + b"".join(pieces)).hexdigest()
    assert fingerprint(header) == wanted


def test_the_fingerprint_covers_the_first_and_the_last_byte(tmp_path):
    path = tmp_path / "large.tif"
    image = np.random.default_rng(0).integers(0, 99, (2500, 3000), np.uint8)
    header = save(path, image, rowsperstrip=2500)
    assert header.file_bytes > 64 * 65536
    first = fingerprint(header)
    assert fingerprint(header) == first
    for place in (8 + 300, header.file_bytes - 1):
        with path.open("r+b") as stream:
            stream.seek(place)
            old = stream.read(1)
            stream.seek(place)
            stream.write(bytes([old[0] ^ 1]))
            stream.flush()
            assert fingerprint(header) != first, place
            stream.seek(place)
            stream.write(old)
    assert fingerprint(header) == first


@pytest.mark.parametrize(
    ("counts", "status"), [((5, 5), "ok"), ((5, 7), "ok"), ((1, 5), "suspect")]
)
def test_projections_of_other_numbers_of_planes_are_said(tmp_path, counts, status):
    headers = []
    for role, count in zip(("post", "pre"), counts, strict=True):
        stack = np.stack([picture(seed=len(headers) + 2 * i)[..., 1] for i in range(count)])
        axes = {"axes": "ZYX"} if count > 1 else None
        tifffile.imwrite(tmp_path / f"{role}.tif", stack, metadata=axes, photometric="minisblack")
        headers.append(read_header(tmp_path / f"{role}.tif", z="max", t=0))
    plan = add_light(make_plan(*headers, channel="auto"), {})
    plan.save(tmp_path / "details/plan.json")
    state, reasons, notes = judge(Plan.load(tmp_path / "details/plan.json"), None, None, None)
    assert (state, len(reasons), len(notes)) == (
        status,
        int(status == "suspect"),
        int(counts == (5, 7)),
    )
    for said in (*reasons, *notes):
        assert said.numbers == f"{counts[0]} planes of post, {counts[1]} of pre."


@pytest.mark.parametrize(
    ("names", "channel", "summed"),
    [
        (
            ["DAPI", "Cy5"],
            "auto",
            ["Channels DAPI and Cy5 were summed: they may be different dyes."],
        ),
        (["DAPI", "Cy5"], "DAPI+Cy5", []),  # so it was asked for
        (["Channel:0:0", "C2"], "auto", []),
    ],
)
def test_a_sum_of_channels_of_several_dyes_is_said(tmp_path, names, channel, summed):
    headers = []
    for role in ("post", "pre"):
        planes = np.stack([picture(seed=7)[..., 1]] * 2) // np.array([[[1]], [[2]]], np.uint8)
        about = {"axes": "CYX", "Channel": {"Name": names}}
        tifffile.imwrite(tmp_path / f"{role}.ome.tif", planes + (role == "pre"), metadata=about)
        headers.append(read_header(tmp_path / f"{role}.ome.tif"))
    plan = make_plan(*headers, channel=channel, dye="stain")
    assert len(plan.channels["post"]) == 2
    assert judge(add_light(plan, {}), None, None, None) == ("ok", [], summed)


def test_values_that_wrapped_around_are_the_only_reason(tmp_path):
    shape, rng = (300, 400), np.random.default_rng(6)
    y, x = np.mgrid[: shape[0], : shape[1]]
    bright = 300 + 200 * np.sin(x / 15) * np.cos(y / 12) + rng.normal(0, 3, shape)
    images = {"post": bright.astype(np.int64).astype(np.uint8), "pre": (bright / 2).astype("u1")}
    paths, headers = {}, {}
    for role, image in images.items():
        headers[role] = save(tmp_path / f"{role}.tif", image)
        paths[role] = tmp_path / f"{role}.zarr"
    plan = make_plan(headers["post"], headers["pre"], channel="auto")
    ingest_both(plan, paths, workers=1)
    plan = add_light(plan, paths)
    assert plan.bright_field == ()
    plan.save(tmp_path / "details/plan.json")
    others = {"status": "ok", "reasons": ["pre and post look swapped"]}
    state, reasons, _ = judge(Plan.load(tmp_path / "details/plan.json"), None, None, others)
    assert state == "suspect"
    assert [one.key for one in reasons] == ["overflow"]
    assert "post-stain image wrapped around" in reasons[0]
