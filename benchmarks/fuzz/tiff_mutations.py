"""Ways to damage a TIFF file: each takes the bytes of a whole one and a random generator."""

from __future__ import annotations

import contextlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuzz.mutations import BYTES, UNTOUCHED, change_bytes, pick

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    Mutation = Callable[[bytearray, np.random.Generator], bytearray]

# Bytes of one value, by the number of its type.
TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8,
              13: 4, 16: 8, 17: 8, 18: 8}  # fmt: skip
OFFSETS, COUNTS = (273, 324), (279, 325)
_DESCRIPTIONS = (270, 700, 50838, 50839)
# Tags that readers look at.
_KNOWN = (254, 256, 257, 258, 259, 262, 266, 269, 270, 273, 274, 277, 278, 279, 282, 284, 296, 317,
          320, 322, 323, 324, 325, 330, 338, 339, 347, 530, 32997, 50838)  # fmt: skip
_ODD = (0, 1, 2, 3, 7, 8, 16, 255, 256, 32767, 32768, 65535, 65536, 1 << 24, (1 << 31) - 1,
        1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)  # fmt: skip
_MOST_DIRECTORIES = 64


@dataclass(frozen=True, slots=True)
class Entry:
    """A tag in a directory: where its fields and its values lie in the file."""

    at: int
    code: int
    kind: int
    count: int
    values: int


class Map:
    """Where the directories of an undamaged TIFF file and their tags lie.

    Attributes
    ----------
    entries
        All tags of all directories of the main chain.
    directories
        Offset of the number of tags of each, and of the offset of the next one.
    """

    def __init__(self, data: bytes | bytearray) -> None:
        self.order = "<" if data[:2] == b"II" else ">"
        self.big = self.number(data, 2, 2) == 43
        self.entries: list[Entry] = []
        self.directories: list[tuple[int, int]] = []
        self._width = 8 if self.big else 4
        at = self.number(data, 8 if self.big else 4, self._width)
        while 0 < at < len(data) and len(self.directories) < _MOST_DIRECTORIES:
            at = self._directory(data, at)

    def number(self, data: bytes | bytearray, at: int, size: int) -> int:
        """Return an unsigned number of the file."""
        order = "little" if self.order == "<" else "big"
        return int.from_bytes(data[at : at + size], order)  # type: ignore[arg-type]

    def put(self, data: bytearray, at: int, size: int, value: int) -> None:
        """Overwrite an unsigned number of the file; its high bits are dropped."""
        order = "little" if self.order == "<" else "big"
        data[at : at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, order)  # type: ignore[arg-type]

    @property
    def fields(self) -> tuple[int, int, int]:
        """Bytes of the number of tags, of a tag, and of its number of values or an offset."""
        return (8, 20, 8) if self.big else (2, 12, 4)

    def _directory(self, data: bytes | bytearray, at: int) -> int:
        head, size, width = self.fields
        tags = self.number(data, at, head)
        for entry in range(at + head, at + head + tags * size, size):
            code, kind = struct.unpack_from(f"{self.order}HH", data, entry)
            count = self.number(data, entry + 4, width)
            inside = count * TYPE_BYTES.get(kind, 1) <= width
            values = entry + 4 + width
            values = values if inside else self.number(data, values, width)
            self.entries.append(Entry(entry, code, kind, count, values))
        following = at + head + tags * size
        self.directories.append((at, following))
        return self.number(data, following, width)

    def table(self, data: bytes | bytearray, codes: tuple[int, ...]) -> list[list[int]]:
        """Return the values of all tags with one of these codes."""
        found = []
        for entry in self.entries:
            if entry.code in codes:
                size = TYPE_BYTES[entry.kind]
                places = range(entry.values, entry.values + size * entry.count, size)
                found.append([self.number(data, place, size) for place in places])
        return found


def _odd(rng: np.random.Generator, near: int) -> int:
    """Return a number that is often wrong: a limit of some type, or one next to the right one."""
    close = (near - 1, near + 1, near * 2, near // 2, near + 7, int(rng.integers(0, 1 << 16)))
    return int(pick(rng, (*_ODD, *close, *close)))


def tag_value(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Give one value of a tag a number that it should not have."""
    plan = Map(data)
    entry = pick(rng, plan.entries)
    size = TYPE_BYTES.get(entry.kind, 1)
    at = entry.values + size * int(rng.integers(0, max(1, entry.count)))
    plan.put(data, at, size, _odd(rng, plan.number(data, at, size)))
    return data


def tag_type(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Give a tag another type."""
    plan = Map(data)
    plan.put(data, pick(rng, plan.entries).at + 2, 2, int(rng.integers(0, 20)))
    return data


def tag_count(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Give a tag another number of values."""
    plan = Map(data)
    entry = pick(rng, plan.entries)
    plan.put(data, entry.at + 4, plan.fields[2], _odd(rng, entry.count))
    return data


def tag_code(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Turn a tag into another one: the one is missing then, the other there twice or new."""
    plan = Map(data)
    plan.put(data, pick(rng, plan.entries).at, 2, int(rng.choice(_KNOWN)))
    return data


def tag_offset(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Have the values of a tag lie elsewhere."""
    plan = Map(data)
    entry = pick(rng, plan.entries)
    width = plan.fields[2]
    places = (int(rng.integers(0, len(data) + 100)), _odd(rng, entry.values))
    plan.put(data, entry.at + 4 + width, width, pick(rng, places))
    return data


def segment_table(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Change an offset or a byte count of a strip or tile, or swap two."""
    plan = Map(data)
    entry = pick(rng, [e for e in plan.entries if e.code in OFFSETS + COUNTS])
    size = TYPE_BYTES[entry.kind]
    first, second = (entry.values + size * int(i) for i in rng.integers(0, entry.count, 2))
    a, b = (plan.number(data, at, size) for at in (first, second))
    values = (b, 0, _odd(rng, a), int(rng.integers(0, len(data))))
    plan.put(data, first, size, pick(rng, values))
    if entry.count > 1 and rng.random() < 0.5:
        plan.put(data, second, size, a)
    return data


def chain(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Have a directory say that it has other tags, or that another follows: itself, or nonsense."""
    plan = Map(data)
    at, following = pick(rng, plan.directories)
    head, _, width = plan.fields
    if rng.random() < 0.3:
        plan.put(data, at, head, _odd(rng, plan.number(data, at, head)))
        return data
    first = plan.directories[0][0]
    places = (at, first, following, at + head, int(rng.integers(0, len(data))), _odd(rng, at))
    plan.put(data, following, width, pick(rng, places))
    return data


def description(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Change digits and other letters of a description (OME-XML, ImageJ)."""
    plan = Map(data)
    texts = [e for e in plan.entries if e.code in _DESCRIPTIONS and e.count > 4]
    if not texts:
        return change_bytes(data, rng)
    entry = pick(rng, texts)
    size = TYPE_BYTES.get(entry.kind, 1) * entry.count
    digits = [i for i in range(entry.values, entry.values + size) if 48 <= data[i] < 58]
    for _ in range(int(rng.integers(1, 4))):
        if digits and rng.random() < 0.7:
            data[pick(rng, digits)] = int(rng.integers(48, 58))
        else:
            data[int(rng.integers(entry.values, entry.values + size))] = int(rng.integers(0, 256))
    return data


def pixels(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Change bytes inside strips or tiles alone."""
    plan = Map(data)
    offsets, counts = plan.table(data, OFFSETS)[0], plan.table(data, COUNTS)[0]
    for _ in range(int(rng.integers(1, 4))):
        i = int(rng.integers(0, len(offsets)))
        # Headers of streams lie at the beginning.
        most = counts[i] if rng.random() < 0.5 else min(counts[i], 32)
        if most:
            at = offsets[i] + int(rng.integers(0, most))
            data[at : at + 1] = bytes([int(rng.integers(0, 256))])
    return data[:]


MUTATIONS: dict[str, Mutation] = {
    **BYTES,
    "value of a tag": tag_value,
    "type of a tag": tag_type,
    "count of a tag": tag_count,
    "code of a tag": tag_code,
    "offset of a tag": tag_offset,
    "table of segments": segment_table,
    "chain of directories": chain,
    "description": description,
    "pixel data": pixels,
}
SEVERAL = "several of these"
DAMAGES = (*MUTATIONS, SEVERAL)
# These need a file whose directories can still be read.
_IN_PLACE = ("value of a tag", "type of a tag", "code of a tag", "table of segments", "pixel data",
             "description")  # fmt: skip


def mutate(whole: bytes, kind: str, rng: np.random.Generator) -> bytes:
    """Return a copy of a file with one kind of `DAMAGES`, or `UNTOUCHED`."""
    data = bytearray(whole)
    if kind == SEVERAL:
        for one in rng.choice(_IN_PLACE, int(rng.integers(2, 5))):
            with contextlib.suppress(LookupError, ValueError, struct.error):  # damaged beyond that
                data = MUTATIONS[one](data, rng)
    elif kind != UNTOUCHED:
        data = MUTATIONS[kind](data, rng)
    return bytes(data)
