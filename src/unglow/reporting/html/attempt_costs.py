"""Details of what an attempt took, for its panel: parts of memory, threads, disks, files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.transfers import MOST_LISTED
from unglow.telemetry.reading.parsing import number
from unglow.telemetry.reading.records import once_per_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from unglow.telemetry.reading.records import Attempt

_AT_END = (
    *("available_before_mb", "available_after_mb", "left_behind_mb"),
    *("files_before_mb", "files_after_mb", "processes_left", "processes_left_mb"),
    *("disk_read", "disk_written", "opencv_threads"),
)
_AMOUNTS = ("read", "written", "decoded", "encoded", "first", "last")
# More threads than were asked for, in so many looks and in this share of them, are not by chance.
_LOOKS, _SHARE = 3, 0.1


@once_per_object
def costs_known(attempt: Attempt, *, images: bool = True) -> dict[str, Any]:
    """Return what is known of an attempt, by name; what is not known is left out.

    Parameters
    ----------
    attempt
        The attempt.
    images
        Whether to list what it moved of each image: the longest part.

    Returns
    -------
    Those of ``_AT_END`` as its end has them (docs/telemetry.md); ``parts``, MB of private, file,
    shared and swapped memory when most was resident; ``threads_seen`` and ``runnable``, the most of
    all threads and of those that could run at once; ``crowded``, whether these were too many again
    and again; ``transfers``, what it moved of each image.
    """
    samples, more = attempt.samples, attempt.end.more if attempt.end is not None else {}
    found: dict[str, Any] = {name: _short(more.get(name)) for name in _AT_END}
    if not np.isnan(samples.private).all():
        at = int(np.nanargmax(np.where(np.isnan(samples.private), np.nan, samples.rss)))
        values = (samples.private, samples.file, samples.shmem, samples.swap)
        found["parts"] = [round(float(np.nan_to_num(part[at])), 1) for part in values]
    found["threads_seen"] = _most(samples.threads)
    found["runnable"] = _most(samples.runnable)
    looks = samples.runnable[~np.isnan(samples.runnable)]
    beyond = int((looks > attempt.threads).sum())
    found["crowded"] = (beyond >= _LOOKS and beyond >= _SHARE * len(looks)) or None
    found["transfers"] = _transfers(more) if images else None
    return {name: value for name, value in found.items() if value is not None}


def _short(value: object) -> float | int | None:
    """Return a number, a whole one without a decimal point."""
    known = number(value)
    return int(known) if known is not None and known.is_integer() else known


def _most(values: NDArray[np.float64]) -> int | None:
    return None if np.isnan(values).all() else int(np.nanmax(values))


def _transfers(more: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the images that an end lists, as far as they are what they should be."""
    listed = more.get("transfers")
    if not isinstance(listed, list):
        return None
    rows = []
    for one in listed[:MOST_LISTED]:
        if isinstance(one, dict) and isinstance(path := one.get("path"), str):
            amounts = {name: _short(one.get(name)) or 0 for name in _AMOUNTS}
            rows.append(
                {
                    "path": path,
                    **amounts,
                    "kind": str(one.get("kind") or ""),
                    "remote": one.get("remote") is True,
                }
            )
    return rows or None
