"""Pairs to make and to run: phantoms with damage, many of them of one scene."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from running import say

from unglow.core.errors import InputError
from unglow.phantom.pair import Raster, make_pair, make_truth, write_tiff
from unglow.phantom.render import Renderer
from unglow.phantom.truth import Truth

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from unglow.phantom.spec import PhantomSpec

DYE = "SYTO9"
UNDAMAGED = "undamaged"
SIZES: dict[str, tuple[int, int, int]] = {
    "lost": (60, 120, 250),
    "debris": (40, 100, 160),
    "film": (40, 80, 150),
    "fold": (20, 50, 80),
    "blur": (100, 150, 300),
    "bleach": (100, 200, 300),
    "moved": (60, 100, 200),
    "tile": (64, 128, 256),
}
"""Kinds of spoilt places and their small, middle and large size, px; see `PhantomSpec.damage`."""
_IN_BOTH_IMAGES = ("dust", "swap")


@dataclass(frozen=True)
class Case:
    """One pair.

    Attributes
    ----------
    name
        Its sample.
    spec
        The phantom.
    kind, size
        Of its only spoilt place, or the name of its fault; `UNDAMAGED` and 0 without any.
    """

    name: str
    spec: PhantomSpec
    kind: str = UNDAMAGED
    size: int = 0

    @property
    def scene(self) -> PhantomSpec:
        """The same pair without damage."""
        return replace(self.spec, damage="", damage_seed=0)


@dataclass(frozen=True)
class Batch:
    """Pairs that the workflow runs at once, in a directory of this name."""

    name: str
    cases: tuple[Case, ...]


def make_batch(cases: Iterable[Case], raw: Path, workers: int) -> None:
    """Make the pairs that are not there, below ``raw``; pre is linked where scenes are the same."""
    with_pre: dict[PhantomSpec, Path] = {}
    for case in cases:
        folder = raw / case.name
        if not is_made(case, folder):
            say(f"making {case.name}")
            shutil.rmtree(folder, ignore_errors=True)
            source = with_pre.get(case.scene)
            if source is None or _changes_pre(case):
                make_pair(case.spec, raw, case.name, DYE, workers=workers)
            else:
                _make_post(case, folder, source, workers)
        if not _changes_pre(case):
            with_pre.setdefault(case.scene, image_path(folder, "pre").resolve())


def is_made(case: Case, folder: Path) -> bool:
    """Whether a folder holds the truth of this very pair, which is written last."""
    try:
        return Truth.load(truth_path(folder)).spec == case.spec
    except InputError:
        return False


def image_path(folder: Path, role: str) -> Path:
    """Return the path of an image of the pair that a folder is named after."""
    return folder / f"{folder.name}_{role}_{DYE}.tif"


def truth_path(folder: Path) -> Path:
    """Return the path of the truth of the pair that a folder is named after."""
    return folder / f"{folder.name}_{DYE}_truth.json"


def _changes_pre(case: Case) -> bool:
    return any(one.kind in _IN_BOTH_IMAGES for one in case.spec.damages)


def _make_post(case: Case, folder: Path, pre: Path, workers: int) -> None:
    """Write what differs from a pair of the same scene: post and truth."""
    renderer = Renderer(case.spec)
    folder.mkdir(parents=True)
    image_path(folder, "pre").symlink_to(os.path.relpath(pre, folder.resolve()))
    raster = Raster(
        case.spec.shape,
        np.dtype(case.spec.dtype),
        case.spec.rgb,
        partial(renderer.pixels, "post"),
        case.spec.pixel_sizes_um["post"],
    )
    write_tiff(
        image_path(folder, "post"), raster, layout="tiles", compression="zlib", workers=workers
    )
    make_truth(renderer, case.name, DYE).save(truth_path(folder))
