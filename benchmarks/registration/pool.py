"""Draws in child processes, one after the other in each, so that CPU seconds are their own."""

from __future__ import annotations

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, as_completed
from time import process_time
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from unglow.core.windows import ArrayPixels, halve_stored
from unglow.io.zarr.layout import LONGEST_OVERVIEW
from unglow.registration.register import RegisterSettings, register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
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


class Pyramid(ArrayPixels):
    """An image in memory with the pyramid that its store would have, in the stored dtype."""

    def __init__(self, image: NDArray[Any]) -> None:
        super().__init__(image)
        while max(self._levels[-1].shape) > LONGEST_OVERVIEW and min(self._levels[-1].shape) > 1:
            self._levels.append(halve_stored(self._levels[-1]))


def registered(
    post: NDArray[Any], pre: NDArray[Any], settings: RegisterSettings | None = None
) -> tuple[Registration, float]:
    """Register two images (rows, cols); the result and the CPU seconds of registration alone."""
    pixels = Pyramid(post), Pyramid(pre)
    started = process_time()
    found = register(*pixels, settings or RegisterSettings())
    return found, process_time() - started


def save_json(path: Path | None, values: object) -> None:
    """Write figures for machines, if a file was asked for; NaN becomes null."""
    if path is not None:
        path.write_text(json.dumps(plain(values), indent=1) + "\n", encoding="utf-8")


def plain(values: Any) -> Any:
    """Turn arrays, NumPy numbers and NaN into what JSON knows."""
    if isinstance(values, dict):
        return {str(key): plain(value) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [plain(value) for value in values]
    if isinstance(values, np.ndarray):
        return plain(values.tolist())
    if isinstance(values, np.generic):
        values = values.item()
    if isinstance(values, float) and not np.isfinite(values):
        return None
    return values
