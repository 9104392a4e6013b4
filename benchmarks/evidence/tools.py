"""Tools that register a pair: how each is called, and what a run of it took and gave."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tifffile
from running import measure, snakemake_words

from unglow import open_results
from unglow.core.machine import processors

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

PEERS = Path(__file__).parent / "peers"
# What a script in peers/ prints before what its tool says of the result.
_SAYS = "says: "
MOST_S = 900.0
"""A tool that takes longer is ended, s."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool gave for a pair.

    Attributes
    ----------
    mapped
        (N, 2) places in pre (x, y), px; None if there is no map.
    said
        What the tool itself says of its result; '' if it says nothing.
    cpu_s, peak_mb
        Processor time of the whole command, and memory of the largest of its processes.
    """

    mapped: NDArray[np.float64] | None = None
    said: str = ""
    cpu_s: float = float("nan")
    peak_mb: float = float("nan")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its name with what it was set to, and what runs it on a pair.

    ``run`` takes the directory that holds raw/, the images (post, pre), and points of post.
    ``is_deformable`` says which maps these settings look for; None if the tool decides.
    """

    name: str
    run: Callable[[Path, tuple[Path, Path], NDArray[np.float64]], Outcome]
    missing: str = ""
    is_deformable: bool | None = None


def run_unglow(place: Path, _: tuple[Path, Path], points: NDArray[np.float64]) -> Outcome:
    """Register with unglow: the entire snakemake command up to the map."""
    taken = measure(*snakemake_words(processors(), {}, until="register"), directory=place)
    (pair,) = open_results(place / "results").pairs.values()
    status = str(pair.registration["status"])
    mapped = None if status == "failed" else pair.transform.map(points)
    return Outcome(mapped, status, taken.cpu_s, taken.peak_mb)


def make_peer(
    name: str,
    script: str,
    python: Path,
    *more: str,
    grey: bool = True,
    is_deformable: bool | None = None,
) -> Tool:
    """Return a tool that a script in peers/ runs in an environment of its own.

    It gets ``grey`` images as float32 in .npy files, so that it needs no reader, or the TIFF files.
    """

    def run(place: Path, raw: tuple[Path, Path], points: NDArray[np.float64]) -> Outcome:
        place = Path(tempfile.mkdtemp(dir=place))  # others may run on this pair at the same time
        given, mapped = place / "points.npy", place / "mapped.npy"
        np.save(given, points)
        mapped.unlink(missing_ok=True)
        images = raw
        if grey:
            images = (place / "post.npy", place / "pre.npy")
            for source, target in zip(raw, images, strict=True):
                np.save(target, read_grey(source))
        words = (python, PEERS / script, *images, given, mapped, *more)
        taken = measure("timeout", MOST_S, *words, directory=place)
        found = np.load(mapped) if taken.status == 0 and mapped.is_file() else None
        lines = [line for line in taken.text.splitlines() if line.startswith(_SAYS)]
        said = lines[0].removeprefix(_SAYS) if lines else ""
        said = said if found is not None else f"exit status {taken.status}"
        return Outcome(found, said, taken.cpu_s, taken.peak_mb)

    missing = "" if python.is_file() else f"no environment {python.parent.parent.name}"
    return Tool(name, run, missing, is_deformable)


def read_grey(path: Path) -> NDArray[np.float32]:
    """Read a TIFF image as (rows, cols), the brightest channel of each px."""
    image = tifffile.imread(path)
    return np.asarray(image.max(axis=-1) if image.ndim == 3 else image, np.float32)


def all_tools(environments: Path) -> list[Tool]:
    """Return unglow and the tools whose environments may be below a directory."""

    def python(name: str) -> Path:
        return environments / name / "bin" / "python"

    greedy, elastix, exo2micro = map(python, ("greedy", "elastix", "exo2micro"))
    return [
        Tool("unglow", run_unglow),
        make_peer("greedy, affine", "greedy.py", greedy, is_deformable=False),
        make_peer(
            "greedy, affine + deformable", "greedy.py", greedy, "deformable", is_deformable=True
        ),
        make_peer("elastix, rigid + affine", "elastix.py", elastix, is_deformable=False),
        make_peer(
            "elastix, + B-spline 128 px", "elastix.py", elastix, "bspline", is_deformable=True
        ),
        make_peer("exo2micro 2.4", "run_exo2micro.py", exo2micro, grey=False),
    ]
