"""Draws in child processes, one after the other in each, so that CPU seconds are their own."""

from __future__ import annotations

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from time import process_time
from typing import TYPE_CHECKING, Any, TypeVar

import tifffile
from array_pixels import ArrayPixels
from tables import save_json

from unglow.core.windows import halve_stored
from unglow.images.zarr.layout import LONGEST_OVERVIEW
from unglow.registration.register import RegisterSettings, register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.registration.register import Registration

T = TypeVar("T")
R = TypeVar("R")


def in_children(work: Callable[[T], R], items: Iterable[T], jobs: int) -> Iterator[R]:
    """Yield ``work(item)`` as it is ready, from ``jobs`` processes that share nothing."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for done in as_completed([pool.submit(work, item) for item in items]):
            yield done.result()


def collect(
    work: Callable[[T], R], items: Sequence[T], jobs: int, describe: Callable[[R], str]
) -> list[R]:
    """Return what `in_children` yields, and print a line for each, unless it is empty."""
    found = []
    for one in in_children(work, items, jobs):
        found.append(one)
        if text := describe(one):
            print(f"{len(found)} of {len(items)}: {text}", file=sys.stderr, flush=True)
    return found


def call(job: Callable[[], R]) -> R:
    """Do a job that has all it needs."""
    return job()


class Pyramid(ArrayPixels):
    """An image in memory with the pyramid that its store would have, in the stored dtype."""

    def __init__(self, image: NDArray[Any]) -> None:
        super().__init__(image)
        while max(self._levels[-1].shape) > LONGEST_OVERVIEW and min(self._levels[-1].shape) > 1:
            self._levels.append(halve_stored(self._levels[-1]))


def registered(
    post: NDArray[Any],
    pre: NDArray[Any],
    settings: RegisterSettings | None = None,
    expected_scale: float | None = None,
) -> tuple[Registration, float]:
    """Register two images (rows, cols); the result and the CPU seconds of registration alone."""
    pixels = Pyramid(post), Pyramid(pre)
    started = process_time()
    found = register(*pixels, settings or RegisterSettings(), expected_scale=expected_scale)
    return found, process_time() - started


def write_pair(folder: Path, post: NDArray[Any], pre: NDArray[Any], truth: dict[str, Any]) -> None:
    """Write ``draw_post_SYTO9.tif``, ``draw_pre_SYTO9.tif`` and ``truth.json``, a raw layout."""
    below = folder / "raw" / "draw"
    below.mkdir(parents=True, exist_ok=True)
    for name, image in (("post", post), ("pre", pre)):
        tifffile.imwrite(below / f"draw_{name}_SYTO9.tif", image, compression="zlib")
    save_json(folder / "truth.json", truth)
    print(f"written to {folder}")
