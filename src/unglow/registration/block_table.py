"""The sample blocks that a registration rests on: their table, and its file ``blocks.csv``."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from unglow.core.errors import InputError
from unglow.core.files import read_file, write_text

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from unglow.core.arrays import Bools, Floats


BLOCKS = "details/blocks.csv"
"""Where the table is from the directory of ``transform.json``."""
BLOCK_DTYPE = np.dtype(
    [
        ("x", "f8"),
        ("y", "f8"),
        ("pre_x", "f8"),
        ("pre_y", "f8"),
        ("dx_before", "f8"),
        ("dy_before", "f8"),
        ("dx", "f8"),
        ("dy", "f8"),
        ("quality", "f8"),
        ("used", "?"),
        ("held_out", "?"),
    ]
)
"""One sample block: centre in post, measured position in pre, pre measured minus mapped by the
coarse and by the final map (px), height of the correlation peak over the next one, whether it
agrees with the map or with its neighbours, and whether it was kept out of the fit."""


class MeasuredBlocks(Protocol):
    """N matched blocks: centres in post, measured positions in pre (N, 2), and peaks (N,)."""

    @property
    def post(self) -> Floats: ...  # noqa: D102

    @property
    def pre(self) -> Floats: ...  # noqa: D102

    @property
    def peak_ratio(self) -> Floats: ...  # noqa: D102

    def __len__(self) -> int: ...


def block_table(
    matches: MeasuredBlocks, before: Floats, after: Floats, *, used: Bools, held_out: Bools
) -> NDArray[np.void]:
    """Return N measured blocks as `BLOCK_DTYPE`.

    ``before`` and ``after`` (N, 2) are what the coarse and the final map leave, px; ``used`` and
    ``held_out`` (N,) say whether a block agrees, and whether it was kept out of the fit.
    """
    blocks = np.zeros(len(matches), BLOCK_DTYPE)
    for names, values in (
        (("x", "y"), matches.post),
        (("pre_x", "pre_y"), matches.pre),
        (("dx_before", "dy_before"), before),
        (("dx", "dy"), after),
    ):
        for axis, name in enumerate(names):
            blocks[name] = values[:, axis]
    blocks["quality"] = matches.peak_ratio
    blocks["used"] = used
    blocks["held_out"] = held_out
    return blocks


def write_blocks(path: str | os.PathLike[str], blocks: NDArray[np.void]) -> None:
    """Write the sample blocks (`BLOCK_DTYPE`) as CSV: four decimals, flags as 0 or 1."""
    names = BLOCK_DTYPE.names or ()
    rows = [",".join(names)]
    rows += [",".join(_cells(row, names)) for row in blocks]
    write_text(Path(path), "\n".join(rows) + "\n")


def read_blocks(path: str | os.PathLike[str]) -> NDArray[np.void]:
    """Read what `write_blocks` wrote; (N,) `BLOCK_DTYPE`.

    Raises
    ------
    InputError
        The file is absent or has other columns.
    """
    path = Path(path)
    try:
        return _parse_blocks(read_file(path).decode("utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: run the registration first.") from None
    except (ValueError, csv.Error) as error:
        raise InputError(
            f"{path} is not a table of registration blocks ({error}): delete it and run the "
            "registration again."
        ) from error


def _parse_blocks(text: str) -> NDArray[np.void]:
    header, *rows = csv.reader(text.splitlines())
    if tuple(header) != BLOCK_DTYPE.names:
        raise ValueError("its columns are " + ", ".join(header))
    flags = {name for name in header if BLOCK_DTYPE[name] == np.bool_}
    values = [
        tuple(v == "1" if n in flags else float(v) for n, v in zip(header, row, strict=True))
        for row in rows
    ]
    return np.array(values, dtype=BLOCK_DTYPE)


def _cells(row: np.void, names: Iterable[str]) -> Iterable[str]:
    for name in names:
        value = row[name]
        # adding 0.0 after rounding turns -0.0 into 0.0, which would read as another number
        yield str(int(value)) if value.dtype == np.bool_ else f"{round(float(value), 4) + 0.0:.4f}"
