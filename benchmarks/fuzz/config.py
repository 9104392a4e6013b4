"""config.yaml of every shape that YAML allows: aliases, long lines, deep nesting, odd types."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import yaml

from fuzz import inputs
from fuzz.mutations import UNTOUCHED, pick
from unglow.workflow.config import CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy as np

__all__ = ["DAMAGES", "damage", "lay_out", "read"]
_LENGTHS = (10, 300, 5000, 100_000, 900_000, 3_000_000)
_ODD = (
    "~", "yes", "0o17", "0b1", "1_000", "1:30:00", ".inf", "-.inf", ".nan", "1e999", "-0", "0x1F",
    "2026-02-30", "2026-01-01", "2026-01-01T00:00:00Z", "!!binary aGk=", "!!set {a, b}",
    "!!omap []", "!!python/name:os.system", "!!python/object/new:type []", "!!int a", "!!float 1",
    "!!str 1",
    "!!map []", "!!timestamp x", "!x y", "!<tag:a> b", "*a", "&a", "<<: *a", "{? a}",
    "[1, [2], {}]", "{}", "[]", "''", '"\\0"', '"\\ud800"', '"\\x1b[31m"', "|\n  x\n", ">\n  x\n",
    "\ufeff",
    "\u202e", "\u2028", "@a", "`a", "%a", "---", "...", "9" * 5000, "1" + "0" * 400, "-", "?",
    ": :",
)  # fmt: skip


def _aliases(rng: np.random.Generator) -> str:
    """Return a value that is small with aliases and huge without; sometimes in a circle."""
    width, depth = pick(rng, (2, 9, 40)), pick(rng, (3, 8, 20))
    names = [f"k{n}" for n in range(depth + 1)]
    kind = pick(rng, ("list", "mapping", "circle", "merge"))
    if kind == "circle":
        return "&a [*a, *a]"
    lines = [f"  {names[0]}: &{names[0]} {'{x: 1}' if kind == 'merge' else '[x]'}"]
    for before, name in pairwise(names):
        if kind == "list":
            held = f"[{', '.join([f'*{before}'] * width)}]"
        elif kind == "merge":
            held = f"{{<<: [{', '.join([f'*{before}'] * width)}]}}"
        else:
            held = f"{{{', '.join(f'a{n}: *{before}' for n in range(width))}}}"
        lines.append(f"  {name}: &{name} {held}")
    return "\n" + "\n".join(lines)


def _long(rng: np.random.Generator) -> str:
    n = pick(rng, _LENGTHS)
    many = min(n, 300_000)
    ways = (
        lambda: "x" * n,
        lambda: '"' + "\\n" * (many // 2) + '"',
        lambda: "9" * n,
        lambda: "[" + "1," * (many // 20) + "]",
        lambda: "{" + ",".join(f"a{k}: 1" for k in range(many // 60)) + "}",
        lambda: "# " + "x" * n,
        lambda: " " * n + "x",
        lambda: "é" * many,
    )
    return str(pick(rng, ways)())


def _deep(rng: np.random.Generator) -> str:
    n = pick(rng, (10, 90, 900, 3000, 20_000))
    left, right = pick(rng, (("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", ""), ("!!seq [", "]")))
    close = right * n if rng.random() < 0.7 else ""
    return f"\n  {left * n}1{close}" if left in ("- ", "? ") else f"{left * n}1{close}"


def _odd(rng: np.random.Generator) -> str:
    one = str(pick(rng, _ODD))
    return pick(rng, (one, f"[{one}, {one}]", f"{{{one}: {one}}}", f"&a {one}"))  # type: ignore[no-any-return]


_VALUES: dict[str, Callable[[np.random.Generator], str]] = {
    "aliases": _aliases, "long": _long, "deep": _deep, "odd": _odd,
}  # fmt: skip
DAMAGES = tuple(_VALUES)
read = inputs.read


def lay_out(folder: Path) -> list[tuple[str, Path]]:
    """Make the working directories of `inputs`; return the configuration of one."""
    return [one for one in inputs.lay_out(folder) if one[0] == CONFIG.name]


def damage(whole: Path, how: str, rng: np.random.Generator, room: Path) -> Path:
    """Copy a working directory whose configuration has such a value, key or line."""
    path = inputs.copy_with_rest(whole, room)
    if how == UNTOUCHED:
        return path
    content = yaml.safe_load(whole.read_text(encoding="utf-8"))
    value = _VALUES[how](rng)
    key = pick(rng, (*content, "unknown", pick(rng, _ODD)))
    line = f"{key}: {value}\n" if rng.random() < 0.8 else f"? {value.strip()}\n: 1\n"
    others = {name: held for name, held in content.items() if name != key}
    if rng.random() < 0.3:  # inside a section
        inner = value.replace("\n", "\n    ")
        line = f"{pick(rng, ('registration', 'detection', 'plane', key))}:\n  x: {inner}\n"
    path.unlink()
    text = line if rng.random() < 0.2 else yaml.safe_dump(others) + line
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path
