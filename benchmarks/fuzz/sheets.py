"""Sample sheets and marker tables with names, paths and numbers that nobody expects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz import inputs
from fuzz.mutations import UNTOUCHED, edit_cells, edit_columns, edit_lines, pick

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

__all__ = ["DAMAGES", "damage", "lay_out", "read"]
DAMAGES = ("names", "paths", "headers", "many", "layout", "coding")
_NAMES = (
    "a b", "\u00a0a", "a\u2028b", "a\x1cb", "\x85a", "a\rb", "a\x0bb", "a/b", "../a", ".", "..",
    "-a", "a" * 300, "é" * 200, "CON", "nul.", "a:b", "a*b", "a?b", "a{x}b", "{a", "a\x00b",
    "\x1b[2J",
    "=1+1", '"a"', "'a'", '"a', "#a", "a\\b", "A", "a ", "wildcard,{b}", "\u202ea", "\ufeffa", "１",
    "1e5", "nan", "None", "true", "results", "..\\a", "a\tb", "",
)  # fmt: skip
_PATHS = (
    "~nouser/a.tif", "~/a.tif", "~", "/", ".", "..", "raw", "raw/", "raw/post.tif/x", "/dev/zero",
    "/dev/null", "/dev/stdin", "loop/a.tif", "loop", "pipe", "file:///a.tif",
    "https://example.org/a.tif", "s3://a/b", "a" * 5000, "a/" * 3000, "*", "raw/*.tif", "{x}.tif",
    "raw/\x00", "raw/post.tif:1", "raw/post.tif,1", "//a/b", "\\\\a\\b", "C:\\a.tif", "$HOME/a",
    "raw/../raw/post.tif", "closed/a.tif", "results/a.tif", "config/config.yaml", "raw/both.csv",
)  # fmt: skip
# A valid pair with all its files takes a millisecond, so that this many end in time.
_MANY = (100, 3000, 6000)


def lay_out(folder: Path) -> list[tuple[str, Path]]:
    """Make the working directories of `inputs`; return the sheet and the marker table."""
    names = ("samples.tsv", "markers.csv")
    return [one for one in inputs.lay_out(folder) if one[0] in names]


def damage(whole: Path, how: str, rng: np.random.Generator, room: Path) -> Path:
    """Copy a working directory with one table damaged, and odd things next to it."""
    path = inputs.copy_with_rest(whole, room)
    work = inputs.base_of(path)
    if how == UNTOUCHED:
        return path
    (work / "loop").symlink_to("loop")
    (work / "closed").mkdir(mode=0)
    separator = "\t" if path.suffix == ".tsv" else ","
    rows = [line.split(separator) for line in whole.read_text(encoding="utf-8").splitlines()]
    rows = _damaged(rows, how, rng)
    text = "\n".join(separator.join(row) for row in rows) + "\n"
    path.unlink()
    path.write_bytes(_encoded(text, rng) if how == "coding" else text.encode())
    return path


def _damaged(rows: list[list[str]], how: str, rng: np.random.Generator) -> list[list[str]]:
    if how in ("names", "paths"):
        for _ in range(int(rng.integers(1, 4))):
            row = pick(rng, rows[1:])
            # samples and dyes come first; of markers, any
            at = int(rng.integers(0, 2)) if how == "names" else int(rng.integers(2, 9))
            row[min(at, len(row) - 1)] = pick(rng, _NAMES if how == "names" else _PATHS)
    elif how == "headers":
        at = int(rng.integers(0, len(rows[0])))
        rows[0][at] = pick(rng, (*_NAMES, rows[0][at].upper(), rows[0][0], f"{rows[0][at]}s"))
    elif how == "many":
        number = pick(rng, _MANY)
        own = pick(rng, (False, True))  # the same pair often, or as many pairs
        kept = pick(rng, rows[1:])
        rows += [[f"{kept[0]}{k if own else ''}", *kept[1:]] for k in range(number)]
        if rng.random() < 0.3:
            rows = [[*row, *["x"] * (number // len(rows))] for row in rows]
    elif how == "layout":
        rows = pick(rng, (edit_cells, edit_columns, edit_lines))(rows, rng)
    return rows


def _encoded(text: str, rng: np.random.Generator) -> bytes:
    coding = pick(rng, ("utf-16", "utf-32", "utf-8-sig", "latin-1", "cp1252", "utf-16-be", "utf-7"))
    text = text.replace("a", pick(rng, ("a", "é", "µ", "ß")))
    end = pick(rng, ("\n", "\r\n", "\r", "\x85", "\u2028", "\n\n", "\x00\n", ""))
    data = text.replace("\n", end).encode(coding, "replace")
    return data if rng.random() < 0.7 else data + bytes([255, 254, 0])


read = inputs.read
