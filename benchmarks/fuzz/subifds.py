"""TIFF pyramids whose SubIFDs name directories very often, in circles, or nested very deep."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from fuzz import tiff
from fuzz.mutations import UNTOUCHED, pick
from fuzz.tiff_mutations import Map

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DAMAGES", "damage", "is_harmless", "lay_out", "read"]
read = tiff.read
_SUBIFDS = 330
DAMAGES = ("one often", "itself", "the whole chain", "anywhere", "nested", "circle", "chain of one")
_COUNTS = (1, 2, 3, 100, 4096, 20_000, 100_000)
_DEPTHS = (2, 10, 300, 3000)


def is_harmless(whole: Path, how: str) -> bool:  # noqa: ARG001 - as all kinds
    """Return whether a damaged file must be read as the whole one."""
    return how == UNTOUCHED


def lay_out(folder: Path) -> list[tuple[str, Path]]:
    """Write pyramids: in either order, BigTIFF, and with OME-XML."""
    found = []
    pixels = tiff.picture("uint8")[0]
    layouts: dict[str, dict[str, Any]] = {
        "plain": {}, "big endian": {"byteorder": ">"}, "bigtiff": {"bigtiff": True},
        "ome": {"ome": True},
    }  # fmt: skip
    for name, options in layouts.items():
        path = folder / f"{name}{'.ome' if 'ome' in options else ''}.tif"
        tiff.write_pyramid(path, pixels, **options)
        np.save(tiff.pixels_file(path), pixels[None])
        found.append((name, path))
    return found


def damage(whole: Path, how: str, rng: np.random.Generator, room: Path) -> Path:
    """Write a copy with other SubIFDs."""
    path = room / f"case{''.join(whole.suffixes)}"
    if how == UNTOUCHED:
        return shutil.copy(whole, path)  # type: ignore[return-value]
    data = bytearray(whole.read_bytes())
    plan = Map(data)
    main, following = plan.directories[0]
    entry = next(e for e in plan.entries if e.code == _SUBIFDS)
    levels = plan.table(data, (_SUBIFDS,))[0]
    count = pick(rng, _COUNTS)
    if how in ("nested", "circle"):
        _nest(data, plan, pick(rng, _DEPTHS), closed=how == "circle")
    elif how == "chain of one":  # the levels name a next directory: themselves, or the first
        head, size, width = plan.fields
        for level in levels:
            end = level + head + size * plan.number(data, level, head)
            plan.put(data, end, width, pick(rng, (level, main, levels[0])))
    else:
        named = {
            "one often": [pick(rng, levels)] * count,
            "itself": [main] * count,
            "the whole chain": [*levels, main, following] * max(1, count // 4),
            "anywhere": rng.integers(0, len(data) + 9, min(count, 4096)).tolist(),
        }[how]
        _name(data, plan, entry.at, named)
    path.write_bytes(data)
    return path


def _name(data: bytearray, plan: Map, entry: int, offsets: list[int]) -> None:
    """Have the tag at ``entry`` name directories, by values behind all else."""
    width = plan.fields[2]
    plan.put(data, entry + 2, 2, 16 if plan.big else 4)
    plan.put(data, entry + 4, width, len(offsets))
    if len(offsets) == 1:
        plan.put(data, entry + 4 + width, width, offsets[0])
        return
    plan.put(data, entry + 4 + width, width, len(data))
    data += struct.pack(f"{plan.order}{len(offsets)}{'Q' if plan.big else 'I'}", *offsets)


def _nest(data: bytearray, plan: Map, depth: int, *, closed: bool) -> None:
    """Put copies of the first directory behind all else, each with the next as its SubIFD."""
    main, following = plan.directories[0]
    entry = next(e for e in plan.entries if e.code == _SUBIFDS).at
    copy = bytes(data[main : following + plan.fields[2]])
    start = len(data)
    places = [start + k * len(copy) for k in range(depth)]
    data += copy * depth
    last = main if closed else plan.table(data, (_SUBIFDS,))[0][0]
    for at, target in zip([main, *places], [*places, last], strict=True):
        _name(data, plan, at + entry - main, [target])
        end = at + following - main
        if at != main:
            plan.put(data, end, plan.fields[2], 0)
