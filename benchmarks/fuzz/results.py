"""Result files of a pair and of a slide, read by later stages and by the commands."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.byte_mutations import UNTOUCHED
from fuzz.file_mutations import DAMAGES, copy_linked, damage_file
from fuzz.result_readers import readers
from fuzz.trial import (
    ESCAPED,
    OTHER,
    OVER,
    REFUSED,
    SAME,
    WRONG,
    Outcome,
    describe,
    forget_peak,
    peak_mb,
)
from unglow import cli
from unglow.core.digests import Published
from unglow.core.errors import UnglowError
from unglow.jobs.memory_limit import is_memory_failure
from unglow.workflow.verify import STORE, contents, pair_directories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

__all__ = ["DAMAGES", "HARMLESS", "damage", "is_known", "lay_out", "read"]
HARMLESS: tuple[str, ...] = ()
# A command that reads results may take so much, with what it has imported, MB.
READING_MB = 150.0
TREE, RESULTS = "tree", "results"
_TABLES = ("summary.tsv", "verdict.txt", "report.html")
"""Files of a whole run that `unglow verify` answers for."""
_VIEWED = (
    *("transform.json", "scale.json", "detection.json", "summary.tsv"),
    *("candidates.csv", "blocks.csv", "review.csv"),
)
_WRONG_WORDS = ("Traceback", "Error(", "Error: ")
_REVIEW = 'id,x,y,decision,note,time,candidates\n1,20.0,30.0,accepted,"a note",,\n'
_PHANTOMS = (
    "--channels 5 --size 600x600 --sample slide",
    "--size 900x1100 --shading 0.25 --deform-px 6 --deform-wavelength-px 700",
)


def lay_out(folder: Path, *, finished: Path | None = None) -> list[tuple[str, Path]]:
    """Copy or make a run of a pair and a slide; return names and paths of its result files."""
    tree = folder / TREE
    if finished is not None:
        shutil.copytree(finished, tree, symlinks=True, ignore=shutil.ignore_patterns(".snakemake"))
    else:
        tree.mkdir()
        for words in _PHANTOMS:
            _run(tree, "phantom", *words.split())
        _run(tree, "run", "--cores", "2", "--quiet")
    candidates = next((tree / RESULTS).glob("*/*/candidates.csv"))
    candidates.with_name("review.csv").write_text(_REVIEW, encoding="utf-8")
    paths = sorted(p for p in (tree / RESULTS).rglob("*") if p.is_file() and _is_read(p))
    return [(path.relative_to(tree / RESULTS).as_posix(), path) for path in paths]


def _is_read(path: Path) -> bool:
    """Leave out what only Snakemake reads, and all but some of many figures and attempts."""
    if path.suffix == ".png":
        return path.name in ("registration.png", "M01.png")
    if "telemetry" in path.parts:
        return path.parent.name in ("runs", "register", "slide_scale", "summary")
    if _store_of(path) is not None:
        return not {"pre.ome.zarr", "2"} & set(path.parts)
    return "benchmarks" not in path.parts and not path.name.startswith(".")


def row_of(name: str) -> str:
    """Return the row of the table that a file counts in."""
    path = Path(name)
    if path.suffix in (".sha256", ".jsonl"):
        return path.suffix
    return "shard" if _store_of(path) is not None and path.suffix != ".json" else path.name


def _store_of(path: Path) -> str | None:
    """Return the name of the store that a file is in; None if it is in none."""
    return next((part for part in path.parts if part.endswith(STORE)), None)


def _run(tree: Path, *words: str) -> None:
    command = [sys.executable, "-m", "unglow", *words]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")


def damage(whole: Path, how: str, rng: np.random.Generator, room: Path) -> Path:
    """Copy a run with one file of its results damaged, and return that file."""
    tree = _tree(whole)
    copy_linked(tree, room / TREE)
    path = room / TREE / whole.relative_to(tree)
    damage_file(path, how, rng)
    return path


def _tree(path: Path) -> Path:
    return next(parent for parent in path.parents if parent.name == TREE)


def is_known(whole: Path) -> bool:  # noqa: ARG001 - as all kinds
    """Return that it is known what a whole file holds."""
    return True


def read(path: Path, whole: Path, how: str, room: Path) -> Outcome:
    """Read all results with every command and as later jobs do, and judge what came of it."""
    results = _tree(path) / RESULTS
    os.chdir(results.parent)
    is_changed = how != UNTOUCHED and not _is_same(path, whole)
    refused: list[str] = []
    for name, call in _calls(path, whole, room):
        said, bad = _attempt(name, call, path)
        if bad is not None:
            return bad
        naming = [line for line in said.splitlines() if _names(path, line)]
        refused += naming
        if name == "verify" and is_changed and not naming and _is_published(whole):
            return Outcome(WRONG, f"verify did not notice it: {said.strip()[-200:]}")
    if not is_changed:
        return Outcome(REFUSED if refused else SAME, " ".join(refused))
    return Outcome(REFUSED if refused else OTHER, " ".join(refused))


def _attempt(name: str, call: Callable[[], str], path: Path) -> tuple[str, Outcome | None]:
    """Call a reader; return what it said, and the outcome if that is bad."""
    forget_peak()
    before = peak_mb()
    try:
        said = call()
    except (UnglowError, OSError) as error:
        said = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        right = "\n" not in said and _names(path, said)
        return said, None if right else Outcome(ESCAPED, f"{name}: {said}")
    except BaseException as error:  # noqa: BLE001 - that is what is looked for
        kind = OVER if is_memory_failure(error) else ESCAPED
        return "", Outcome(kind, f"{name}: {describe(error)}")
    if (taken := peak_mb() - before) > READING_MB:
        return said, Outcome(OVER, f"{name} took {taken:.0f} MB")
    if any(word in said for word in _WRONG_WORDS):
        return said, Outcome(ESCAPED, f"{name}: {said.strip()[-300:]}")
    return said, None


def _is_same(path: Path, whole: Path) -> bool:
    """Return whether a file holds the same; nothing is waited for, and no large file is read."""
    if not path.is_file() or path.stat().st_size > 2 * whole.stat().st_size:
        return False
    now, before = path.read_bytes(), whole.read_bytes()
    if now == before or _store_of(path) is None or path.suffix != ".json":
        return now == before
    with contextlib.suppress(ValueError, RecursionError):  # the document of a level has no digest
        return bool(json.loads(now) == json.loads(before))
    return False


def _calls(path: Path, whole: Path, room: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield each reader of a file of results by name; it returns what it prints."""
    results = str(_tree(path) / RESULTS)
    others = str(_tree(whole) / RESULTS)
    commands = {
        "verify": (results,),
        "status": (results,),
        "report": (results, "-o", str(room / "report.html")),
        "compare": (others, results, "-o", str(room / "compare.html")),
        "view": (results, "--static", str(room / "static")),
    }
    arrays = path.suffix == ".npz" or _store_of(path) is not None
    for name, words in commands.items():
        unread = (name in ("status", "report") and arrays) or (
            name == "view" and not arrays and path.name not in _VIEWED
        )
        if not unread:
            yield name, partial(_command, name, *words)
    # a job may fail, but with a sentence; each reads files of one pair
    for name, call in readers(path, _tree(path) / RESULTS):
        yield name, partial(_call, call)


def _call(reader: Callable[[], object]) -> str:
    reader()
    return ""


def _command(*words: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = cli.main(words)
    return out.getvalue() if status else ""


def _names(path: Path, sentence: str) -> bool:
    """Whether a sentence names a file, or the store or the folder of attempts that it is in."""
    return (_store_of(path) or path.name) in sentence or (
        path.parent.name == "digests" and "no digests" in sentence
    )


def _is_published(whole: Path) -> bool:
    """Whether `unglow verify` answers for a file: it has a digest, or is of the whole run."""
    results = _tree(whole) / RESULTS
    if whole.parent == results:
        return whole.name in _TABLES
    if _store_of(whole) is not None:
        return True
    return any(
        whole in Published.from_files(contents(pair)[1]).digests
        for pair in pair_directories(results)
    )
