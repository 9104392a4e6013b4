"""Pairs that are the same two images under several names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from unglow.workflow.samples.pair import Pair

_SHOWN = 5


def repeated_images(pairs: Iterable[Pair]) -> list[str]:
    """Return a sentence for each two files that several pairs read in the same way.

    Links to a file are that file; copies are known by their content, when they have been read.
    """
    names: dict[tuple[object, ...], list[str]] = {}
    for pair in pairs:
        files = [path.stat() for path in (pair.post, pair.pre)]
        same = tuple((file.st_dev, file.st_ino) for file in files)
        key = (same, str(pair.channel), pair.series)
        names.setdefault(key, []).append(f"{pair.sample} {pair.dye}")
    return [
        f"{_listed(same)} read the same two images, so they are not replicates: groups.tsv "
        "counts them once. Correct the files, or keep one of these pairs."
        for same in names.values()
        if len(same) > 1
    ]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
