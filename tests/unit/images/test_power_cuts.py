"""What is published is on disk, and so is its name: after a power cut it is complete or absent."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from unglow.core.archive import save_arrays
from unglow.core.files import write_json, write_text
from unglow.export.images import whole_directory
from unglow.images.tiff.metadata import OmeChannel
from unglow.images.zarr.layout import plan_layout
from unglow.images.zarr.ome_zarr_sink import OmeZarrSink
from unglow.images.zarr.writer import StoreWriter

PIXELS = np.random.default_rng(2).integers(0, 4000, (2600, 2300)).astype("u2")


def contents(path):
    """Return what a file holds, or the names in a directory."""
    return path.read_bytes() if path.is_file() else sorted(one.name for one in path.iterdir())


class Disk:
    """A disk that keeps what was synchronized, and forgets all else when the power is cut."""

    def __init__(self, monkeypatch):
        self.kept, self.lost = {}, []
        sync, rename, replace = os.fsync, os.rename, os.replace

        def note_sync(descriptor):
            sync(descriptor)
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            self.kept[path.stat().st_ino] = contents(path)

        def note_rename(real):
            def do(source, target, **how):
                if not Path(target).name.endswith((".old", "old")):  # what is removed
                    self.check(Path(source))
                return real(source, target, **how)

            return do

        monkeypatch.setattr(os, "fsync", note_sync)
        monkeypatch.setattr(os, "rename", note_rename(rename))
        monkeypatch.setattr(os, "replace", note_rename(replace))

    def check(self, path):
        """Note what of a file or directory would be lost."""
        for one in (path, *path.rglob("*")):
            if self.kept.get(one.stat().st_ino) != contents(one):
                self.lost.append(one)

    def holds(self, path):
        """Whether a file or directory and its name are on disk."""
        self.check(path)
        return not self.lost and path.name in self.kept[path.parent.stat().st_ino]


def write_store(path):
    layout = plan_layout(PIXELS.shape, "uint16")
    about = {"name": "a", "pixel_size_um": None, "attributes": {}}
    with StoreWriter(path, layout, **about) as writer:
        for window in writer.windows():
            writer.write(window, PIXELS[window.slices])
        writer.publish()


def write_same_store(path):
    write_store(path.with_name("b"))
    layout = plan_layout(PIXELS.shape, "uint16")
    with StoreWriter(path, layout, name="a", pixel_size_um=None, attributes={}) as writer:
        assert writer.publish_same(path.with_name("b"))


def write_empty_store(path):
    layout = plan_layout(PIXELS.shape, "uint16")
    with StoreWriter(path, layout, name="a", pixel_size_um=None, attributes={}) as writer:
        writer.publish_empty("There is nothing.")


def write_slide(path):
    sink = OmeZarrSink(path, PIXELS.shape, "uint16", [OmeChannel("a"), OmeChannel("b")], name="s")
    with sink:
        for window in plan_layout(PIXELS.shape, "uint16").windows():
            for channel in range(2):
                sink.write(channel, window, PIXELS[window.slices])


def write_export(path):
    with whole_directory(path) as partial:
        (partial / "tables").mkdir(parents=True)
        (partial / "tables" / "a.csv").write_text("x,y\n")


WRITERS = {
    "store": write_store,
    "store of the same pixels": write_same_store,
    "store without pixels": write_empty_store,
    "slide": write_slide,
    "export": write_export,
    "table": lambda path: write_text(path, "x,y\n1,2\n"),
    "record": lambda path: write_json(path, {"a": 1}),
    "arrays": lambda path: save_arrays(path, {"a": np.arange(3)}),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_what_has_its_name_is_on_disk_with_all_of_it(tmp_path, monkeypatch, kind):
    disk = Disk(monkeypatch)
    path = tmp_path / "results" / "a.ome.zarr"
    for _ in range(1 if kind == "export" else 2):  # the second one takes the place of the first
        WRITERS[kind](path)
        assert disk.lost == []
        assert disk.holds(path), disk.lost
