"""Count what there is to read: lines of code, modules, functions, and words that are not plain.

`size.py [DIRECTORY]` counts a checkout; given another one, its numbers stand next to it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path

from tables import table

HERE = Path(__file__).resolve().parents[1]
PYTHON = {
    "src": "src",
    "telemetry and displays": "src",
    "tests": "tests",
    "benchmarks": "benchmarks",
}
SHOWS_RUNS = re.compile(
    r"src/(snakemake_logger_plugin_unglow|unglow/(telemetry|monitor|pages/report"
    r"|workflow/(forecast|preflight)))/"
)
PARTICIPLE = re.compile(r"_*[a-z]+(?:ed|en|wn|ld|ought|aught|un|eft)(?:_|$)")
PREPOSITION = re.compile(
    r"_*(?:of|in|on|at|by|for|with|without|before|after|between|under|over|as|its|own|what|how"
    r"|which|where|when|if)(?:_|$)"
)
WORD = re.compile(r"[a-z]+", re.IGNORECASE)
SHORT = 6
"""Lines of a function's body below which its name should say more than its body."""


def sources(root: Path, directory: str, suffixes: tuple[str, ...]) -> list[Path]:
    """Return files below a directory of a checkout, without those of others and what is made."""
    others = {"vendor", "uplot", ".venv", "work"}
    found = (p for p in (root / directory).rglob("*") if p.suffix in suffixes and p.is_file())
    return sorted(p for p in found if not others & set(p.relative_to(root).parts))


def code_lines(text: str) -> int:
    """Return the number of lines without docstrings, comments and blank lines."""
    lines = text.splitlines()
    kept = {n for n, line in enumerate(lines, 1) if line.strip() and line.strip()[0] != "#"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            kept -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(kept)


def functions(text: str) -> list[ast.FunctionDef]:
    """Return all functions of a module but special methods."""
    found = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef))
    return [n for n in found if not n.name.startswith("__")]


def count_lines(root: Path) -> dict[str, int]:
    """Return lines of code, all lines and modules of each part of a checkout."""
    out = {}
    for part, directory in PYTHON.items():
        paths = sources(root, directory, (".py",))
        if part == "telemetry and displays":
            paths = [p for p in paths if SHOWS_RUNS.match(str(p.relative_to(root)))]
        texts = [path.read_text(encoding="utf-8") for path in paths]
        out[f"{part}: lines of code"] = sum(map(code_lines, texts))
        out[f"{part}: all lines"] = sum(len(text.splitlines()) for text in texts)
        out[f"{part}: modules"] = len(texts)
    pages = sources(root, "src", (".js", ".css", ".html"))
    out["src: lines of JavaScript, CSS and HTML"] = sum(
        len(path.read_text(encoding="utf-8").splitlines()) for path in pages
    )
    return out


def count_functions(root: Path) -> dict[str, int]:
    """Return how functions of src are named, and how many short ones have a single caller."""
    texts = [path.read_text(encoding="utf-8") for path in sources(root, "src", (".py",))]
    named = [function for text in texts for function in functions(text)]
    uses = Counter(word for text in texts for word in re.findall(r"\w+", text))
    short = [f for f in named if (f.end_lineno or f.lineno) - f.body[0].lineno < SHORT]
    return {
        "functions": len(named),
        "functions that begin with a participle": sum(
            bool(PARTICIPLE.match(f.name)) for f in named
        ),
        "functions that begin with a preposition": sum(
            bool(PREPOSITION.match(f.name)) for f in named
        ),
        "functions below 6 lines with one caller": sum(uses[f.name] == 2 for f in short),
    }


def count_words(root: Path) -> dict[str, int]:
    """Return how often words occur that docs/glossary.md replaces."""
    listed = (HERE / "tests" / "plain_words.txt").read_text(encoding="utf-8")
    dialect = {line.split("->")[0] for line in listed.splitlines()}
    out = {}
    for directory in ("src", "rules", "scripts", "docs", "tests", "benchmarks"):
        paths = sources(root, directory, (".py", ".smk", ".md", ".js", ".html", ".yaml"))
        words = Counter(
            word.lower()
            for path in paths
            for word in WORD.findall(path.read_text(encoding="utf-8"))
        )
        out[f"words to replace in {directory}"] = sum(words[word] for word in dialect)
    return out


def main() -> None:
    """Print the table."""
    roots = [Path(name) for name in sys.argv[1:]] + [HERE]
    counts = [count_lines(r) | count_functions(r) | count_words(r) for r in roots]
    rows = [[name, *(f"{count[name]}" for count in counts)] for name in counts[-1]]
    print(table(["", *(root.name for root in roots)], rows))


if __name__ == "__main__":
    main()
