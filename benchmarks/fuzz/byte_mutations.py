"""Ways to damage a file of any kind: each takes its bytes and a random generator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    Mutation = Callable[[bytearray, np.random.Generator], bytearray]

UNTOUCHED = "untouched"


def appended(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Put bytes behind the end, as an interrupted copy over a longer file leaves them."""
    return data + bytearray(rng.bytes(int(rng.integers(1, 5000))))


def truncated(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Cut the file, often near its end or inside its header."""
    n = len(data)
    cuts = (rng.integers(1, n), n - rng.integers(1, min(n, 64)), rng.integers(1, min(n, 600)))
    return data[: int(cuts[int(rng.integers(0, 3))])]


def zeroed(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Overwrite a block with zeros, as a disk that was full leaves it."""
    at = int(rng.integers(0, len(data)))
    size = min(int(2 ** rng.integers(4, 13)), len(data) - at)
    data[at : at + size] = bytes(size)
    return data


def bytes_changed(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Change a few bytes anywhere."""
    for at in rng.integers(0, len(data), rng.integers(1, 4)):
        data[at] = int(rng.choice([0, 1, 255, 128, int(rng.integers(0, 256))]))
    return data


def run_overwritten(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Overwrite 16 bytes anywhere."""
    at = int(rng.integers(0, len(data)))
    size = min(16, len(data) - at)
    data[at : at + size] = rng.bytes(size)
    return data


def shifted(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Insert or drop some bytes, so that all behind them is elsewhere (a transfer as text)."""
    at, size = int(rng.integers(8, len(data))), int(rng.integers(1, 9))
    if rng.random() < 0.5:
        data[at:at] = rng.bytes(size)
    else:
        del data[at : at + size]
    return data


BYTES: dict[str, Mutation] = {
    "bytes appended": appended,
    "cut short": truncated,
    "block of zeros": zeroed,
    "bytes anywhere": bytes_changed,
    "16 bytes anywhere": run_overwritten,
    "bytes inserted or lost": shifted,
}
