"""Images of a pair in the viewer, at full resolution and compared."""

from __future__ import annotations

import json
import urllib.parse

import cv2
import numpy as np
import pytest
from made_results import made_pair, made_sweep
from viewer_hands import framed, picture_of, place_of, settled

from unglow.core.windows import Window
from unglow.images.zarr import StoreWriter, open_store
from unglow.photometry.difference import open_image

pytestmark = pytest.mark.slow

PAIR = "phantom~SYTO9"
#: Grey levels from 0 to 255 are drawn as they are.
PLAIN = {"look.intensity": urllib.parse.quote(json.dumps({"limits": [0, 255]}))}


def drawn(tab, n=0):
    """Return what a pane has drawn, without what lies over it, (rows, cols, 4) RGBA."""
    return picture_of(tab, f"unglow.panes[{n}].viewer.drawer.canvas")


def seen(tab, image, zoom, n=0):
    """Return rows and columns of px in view, and what their middles on the screen look like."""
    canvas, place = drawn(tab, n), place_of(tab, n)
    rows, cols = canvas.shape[:2]
    # of px k the middle is at (k - x) * zoom + cols / 2
    x = np.arange(int(place["x"] - cols / 2 / zoom) + 1, int(place["x"] + cols / 2 / zoom))
    y = np.arange(int(place["y"] - rows / 2 / zoom) + 1, int(place["y"] + rows / 2 / zoom))
    x, y = (v[(v >= 0) & (v < n)] for v, n in zip((x, y), image.shape[::-1], strict=True))
    across = np.floor((x - place["x"]) * zoom + cols / 2).astype(int)
    down = np.floor((y - place["y"]) * zoom + rows / 2).astype(int)
    return Window(y[0], y[-1] + 1, x[0], x[-1] + 1), canvas[np.ix_(down, across)]


@pytest.mark.parametrize("zoom", [1, 8])
def test_full_resolution_shows_the_very_pixels(view, small_finished, zoom):
    results = small_finished / "results"
    tab = view(results, pair=PAIR, a="post", x=450, y=350, zoom=zoom, **PLAIN)
    settled(tab)
    store = open_store(results / "phantom" / "SYTO9" / "post.ome.zarr")
    window, colours = seen(tab, store, zoom)
    pixels = store.read(window)
    assert min(pixels.shape) > 50
    assert np.abs(colours[..., 0].astype(int) - pixels).max() <= 1
    assert (colours[..., 0] == colours[..., 2]).all()
    assert not tab.complaints
    assert {urllib.parse.urlsplit(url).hostname for url in tab.requests} == {"127.0.0.1"}


@pytest.mark.parametrize("method", ["linear", "moffat"])
def test_a_difference_is_shown_written_or_computed(view, small_finished, method):
    results = small_finished / "results"
    look = urllib.parse.quote(json.dumps({"limits": [-20, 20], "map": "grey", "stretch": "linear"}))
    tab = view(
        results,
        pair=PAIR,
        a=f"difference-{method}",
        x=450,
        y=350,
        zoom=8,
        **{"look.difference": look},
    )
    settled(tab)
    image = open_image(results / "phantom" / "SYTO9" / f"difference_{method}.ome.zarr")
    window, colours = seen(tab, image, 8)
    wanted = np.clip((image.read(window) + 20) / 40, 0, 1) * 255
    assert np.abs(colours[..., 0] - wanted).max() < 1


def shift_aligned(results, px):
    """Rewrite the aligned pre of a pair, moved to the right: as a map that is wrong makes it."""
    place = results / "phantom" / "SYTO9" / "aligned_pre.ome.zarr"
    store = open_store(place)
    image = store.read(Window.from_shape(store.shape)).astype(np.float32)
    moved = cv2.warpAffine(
        image,
        np.float32([[1, 0, px], [0, 1, 0]]),
        image.shape[::-1],
        flags=cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REPLICATE,
    )
    about = {"name": store.name, "pixel_size_um": store.pixel_size_um, "attributes": {}}
    with StoreWriter(place, store.layout, **about) as writer:
        for window in writer.windows():
            writer.write(window, moved[window.slices].astype(store.dtype))
        writer.publish()


def shift_between(image, moved):
    """Return (x, y) by which one of two images is moved that also differ by gain and offset."""
    slopes = [s.ravel() for s in np.gradient(moved)[::-1]]
    columns = np.stack([*slopes, moved.ravel(), np.ones(moved.size)], axis=1)
    x, y, gain, _ = np.linalg.lstsq(columns, image.ravel(), rcond=None)[0]
    return x / gain, y / gain


@pytest.mark.parametrize("px", [0.0, 0.5])
def test_blinking_shows_half_a_px_that_previews_hide(view, small_work, px):
    results = small_work / "results"
    if px:
        shift_aligned(results, px)
    tab = view(results, pair=PAIR, a="post", b="aligned_pre", mode="blink", x=450, y=350, zoom=4)
    settled(tab)
    tab.run("unglow.blinking.hold()")
    pictures = []
    for front in (0, 1):
        tab.run(f"unglow.panes[0].arrange({{front: {front}}})")
        framed(tab)
        _, colours = seen(tab, open_store(results / "phantom" / "SYTO9" / "post.ome.zarr"), 4)
        pictures.append(cv2.GaussianBlur(colours[..., 0].astype(np.float32), (0, 0), 2))
    assert shift_between(*pictures) == pytest.approx((px, 0), abs=0.12)


def test_a_link_shows_the_same_view(view, small_finished):
    results = small_finished / "results"
    tab = view(
        results,
        pair=PAIR,
        a="post",
        b="aligned_pre",
        mode="swipe",
        x=300.5,
        y=200.25,
        zoom=3,
        at=0.3,
        blur=1.5,
    )
    settled(tab)
    tab.run("unglow.address.set({look: {intensity: {stretch: 'asinh', invert: true}}})")
    settled(tab)
    before, link = drawn(tab), tab.run("unglow.address.link()")
    tab.open("about:blank")
    tab.wait("location.href === 'about:blank'")
    tab.open(link)
    tab.wait("window.unglow && unglow.settled")
    settled(tab)
    assert (drawn(tab) == before).all()
    assert place_of(tab) == pytest.approx({"x": 300.5, "y": 200.25, "zoom": 3, "turn": 0})


def test_keys_alone_move_and_compare(view, small_finished):
    tab = view(small_finished / "results", pair=PAIR)
    settled(tab)
    start = place_of(tab)
    tab.key("+")
    tab.key("ArrowRight")
    settled(tab)
    moved = place_of(tab)
    assert moved["zoom"] == pytest.approx(1.5 * start["zoom"], rel=1e-3)
    assert moved["x"] > start["x"] + 10
    for key, mode in {
        "b": "blink",
        "k": "checker",
        "o": "overlay",
        "v": "side",
        "w": "swipe",
    }.items():
        tab.key(key)
        settled(tab)
        assert tab.run("unglow.address.get('mode')") == mode
        assert len(np.unique(drawn(tab)[..., 0])) > 20, mode
    assert not tab.complaints


def test_panes_side_by_side_move_together_by_the_map(view, small_finished):
    results = small_finished / "results"
    tab = view(results, pair=PAIR, a="post", b="pre", mode="side", x=300, y=250, zoom=4)
    settled(tab)
    tab.run("unglow.go({x: 420, y: 310, zoom: 5})")
    settled(tab)
    place = place_of(tab, 1)
    matrix = np.array(json.loads((results / "phantom/SYTO9/transform.json").read_text())["matrix"])
    x, y, w = matrix @ (420, 310, 1)
    assert (place["x"], place["y"]) == pytest.approx((x / w, y / w), abs=0.01)
    post, pre = (drawn(tab, n)[..., 0].astype(float) for n in (0, 1))
    middle = np.s_[100:-100, 60:-60]
    assert np.corrcoef(post[middle].ravel(), pre[middle].ravel())[0, 1] > 0.9


def test_a_damaged_chunk_is_a_tile_that_says_so(view, small_work):
    results = small_work / "results"
    shard = results / "phantom" / "SYTO9" / "post.ome.zarr" / "0" / "c" / "0" / "0"
    content = bytearray(shard.read_bytes())
    content[2000:2100] = bytes(100)
    shard.write_bytes(content)
    tab = view(results, pair=PAIR, a="post", x=250, y=250, zoom=2)
    settled(tab)
    assert "post, level 0, chunk" in tab.run("unglow.message.textContent")
    assert "damaged" in tab.run("unglow.message.textContent")
    red = (drawn(tab)[..., :3] == (0x5A, 0x1A, 0x1E)).all(axis=2)
    assert red.mean() > 0.05


def test_a_missing_shard_is_never_shown_as_an_empty_image(view, small_work):
    results = small_work / "results"
    (results / "phantom" / "SYTO9" / "aligned_pre.ome.zarr" / "0" / "c" / "0" / "0").unlink()
    tab = view(results, pair=PAIR, a="aligned_pre")
    tab.wait("unglow.message.textContent.includes('is missing')")


def test_variants_of_a_sweep_are_compared_in_one_view(view, tmp_path):
    made_pair(tmp_path / "S1" / "DAPI")
    made_sweep(tmp_path / "S1" / "DAPI", tmp_path / "results" / "S1" / "DAPI")
    first, other = "S1~DAPI~model-affine~percentile-40", "S1~DAPI~model-any~percentile-50"
    tab = view(tmp_path / "results", pair=first, mode="side", a="aligned_pre", x=500, y=300, zoom=4)
    settled(tab)
    titles = tab.run("unglow.pair.layers.map((layer) => layer.title).join('|')").split("|")
    assert "aligned pre of model-any percentile-50" in titles
    assert "difference, linear of model-affine percentile-50" in titles
    assert "aligned pre of model-affine percentile-50" not in titles  # it is the one of this pair
    tab.run(f"unglow.address.set({{b: '{other}/aligned_pre'}})")
    settled(tab)
    assert (drawn(tab, 0) == drawn(tab, 1)).all()
    assert len(np.unique(drawn(tab, 1)[..., 0])) > 20
