"""A store appears whole or not at all, over whatever was there before."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest

from unglow.core.errors import StoreError
from unglow.core.windows import Window
from unglow.images.zarr import StoreLayout, StoreWriter, open_store, plan_layout, verify

IMAGE = np.arange(600 * 500, dtype=np.uint16).reshape(600, 500)
LAYOUT = StoreLayout(IMAGE.shape, "uint16", (128, 128), (256, 256), levels=2)


def writer(path, layout=LAYOUT, **changes):
    arguments = {"name": "a", "pixel_size_um": None, "attributes": {}, **changes}
    return StoreWriter(path, layout, **arguments)


def fill(w, image=IMAGE):
    for window in w.windows():
        w.write(window, image[window.slices])


def publish(path, image=IMAGE):
    with writer(path) as w:
        fill(w, image)
        return w.publish()


def names(path):
    return sorted(p.name for p in path.iterdir())


def test_nothing_has_the_final_name_before_publish(tmp_path):
    path = tmp_path / "a.ome.zarr"
    with writer(path) as w:
        fill(w)
        assert not path.exists()
        (partial,) = names(tmp_path)
        assert partial.startswith(".a.ome.zarr.")
        assert partial.endswith(".partial")
        digest = w.publish()
        assert names(tmp_path) == ["a.ome.zarr"]
    assert names(tmp_path) == ["a.ome.zarr"]
    assert open_store(path).digest == digest


def test_replaces_an_old_store_and_the_directory_that_snakemake_made(tmp_path):
    path = tmp_path / "a.ome.zarr"
    publish(path)
    (path / "stray").write_text("left by somebody")
    publish(path, IMAGE + np.uint16(1))
    assert names(tmp_path) == ["a.ome.zarr"]
    assert not (path / "stray").exists()
    np.testing.assert_array_equal(open_store(path).read(Window.from_shape(IMAGE.shape)), IMAGE + 1)
    (path / "zarr.json").unlink()
    (path / ".snakemake_timestamp").touch()
    publish(path)
    assert verify(path) == []
    assert names(tmp_path) == ["a.ome.zarr"]


def test_a_link_is_replaced_and_its_target_left_alone(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "keep").touch()
    path = tmp_path / "a.ome.zarr"
    path.symlink_to(tmp_path / "elsewhere")
    publish(path)
    assert not path.is_symlink()
    assert names(tmp_path) == ["a.ome.zarr", "elsewhere"]
    assert names(tmp_path / "elsewhere") == ["keep"]


def test_an_exception_leaves_nothing_and_keeps_the_old_store(tmp_path):
    path = tmp_path / "a.ome.zarr"
    with pytest.raises(KeyboardInterrupt), writer(path) as w:  # noqa: PT012 (all of it is meant)
        fill(w)
        raise KeyboardInterrupt
    assert names(tmp_path) == []
    with writer(path) as w:
        fill(w)  # and does not publish
    assert names(tmp_path) == []
    digest = publish(path)
    with pytest.raises(MemoryError), writer(path) as w:
        raise MemoryError
    assert names(tmp_path) == ["a.ome.zarr"]
    assert open_store(path).digest == digest


def test_every_shard_once(tmp_path):
    with writer(tmp_path / "a.ome.zarr") as w:
        first, *rest = w.windows()
        w.write(first, IMAGE[first.slices])
        with pytest.raises(ValueError, match="was written before"):
            w.write(first, IMAGE[first.slices])
        for window in rest[:-1]:
            w.write(window, IMAGE[window.slices])
        with pytest.raises(ValueError, match=r"y0=512, y1=600, x0=256, x1=500.* was not written"):
            w.publish()
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("window", "block", "message"),
    [
        (Window(0, 256, 0, 256), np.zeros((256, 255), np.uint16), "does not fit"),
        (Window(0, 256, 0, 256), np.zeros((256, 256), np.int16), "does not fit"),
        (Window(1, 257, 0, 256), np.zeros((256, 256), np.uint16), "is not a shard"),
    ],
)
def test_blocks_that_do_not_fit(tmp_path, window, block, message):
    with writer(tmp_path / "a.ome.zarr") as w, pytest.raises(ValueError, match=message):
        w.write(window, block)


def test_attributes_must_be_json(tmp_path):
    with writer(tmp_path / "a.ome.zarr", attributes={"gain": float("nan")}) as w:
        fill(w)
        with pytest.raises(ValueError, match="not JSON compliant"):
            w.publish()
    assert names(tmp_path) == []


def test_empty_store(tmp_path):
    path = tmp_path / "a.ome.zarr"
    layout = plan_layout((3000, 2000), "float32")
    with writer(path, layout, attributes={"x": 1}) as w:
        first = next(w.windows())
        w.write(first, np.zeros(first.shape, np.float32))  # is dropped
        w.publish_empty("the pair could not be registered")
    assert names(tmp_path) == ["a.ome.zarr"]
    store = open_store(path)
    assert store.empty == "the pair could not be registered"
    assert store.attributes["x"] == 1
    assert (store.shape, store.levels) == ((3000, 2000), layout.levels)
    assert sum(f.is_file() for f in path.rglob("*")) == 1 + layout.levels
    assert verify(path) == []
    with pytest.raises(StoreError, match=r"a\.ome\.zarr"):
        store.read(Window(0, 1, 0, 1))


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "results").write_text("a file where a directory is wanted")
    path = tmp_path / "results" / "a.ome.zarr"
    with pytest.raises(StoreError, match=r"a\.ome\.zarr"), writer(path):
        pass


def test_a_full_file_system_is_named(tmp_path, monkeypatch):
    """The limit on file size stands in for a full disk: the kernel refuses the write."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    noise = np.random.default_rng(0).integers(0, 65536, IMAGE.shape, dtype=np.uint16)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with writer(tmp_path / "a.ome.zarr") as w:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limit[1]))
            with pytest.raises(StoreError, match=r"could not be written \(File too large\)"):
                fill(w, noise)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, old)
    assert names(tmp_path) == []


def test_no_trace_of_time_place_or_version(tmp_path):
    path = tmp_path / "a.ome.zarr"
    publish(path)
    document = json.loads((path / "zarr.json").read_text())
    assert set(document["attributes"]["unglow"]) == {"layout", "digest", "stored_bytes"}
    assert str(tmp_path) not in (path / "zarr.json").read_text()
