"""The app on a real server, and small images for it."""

from __future__ import annotations

from functools import partial

import numpy as np
import tifffile
from seeing import Seen
from served_sites import served

from unglow.pages.app.site import NAME, App
from unglow.pages.report.live_site import Site


def write_image(path, seed=0, shape=(96, 128)):
    """Write a small image, directories included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(50, 200, shape).astype(np.uint8)
    tifffile.imwrite(path, pixels)
    return path


class SeenApp(Seen):
    """The app on a real server, for as long as the block goes on."""

    name = NAME

    def __init__(self, workplace, *, same_user=True):
        self.app = None
        site = Site([workplace.directory / "results"], {NAME: partial(self._make, workplace)})
        self._served = served(site, same_user=same_user)

    def _make(self, workplace, source):
        self.app = App(source, workplace)
        return self.app

    @property
    def version(self):
        return self.json("watch.json")["version"]


def photos(seen):
    """Choose the folder photos/ and return the ids of its images by name."""
    folder = next(f for f in seen.json("state.json")["folders"] if f["name"] == "photos")
    status, state = seen.send("folder", {"id": folder["id"], "version": seen.version})
    assert status == 200, state
    return {image["name"]: image["id"] for image in state["images"]}
