"""The command: thousands of damaged files on all processors, and a table of what came of them."""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tables import table

from fuzz.mutations import UNTOUCHED
from fuzz.trial import BAD, SAME, VERDICTS, WRONG, Outcome, attempt, preload
from unglow.core.machine import processors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

KINDS = ("tiff", "codecs", "subifds", "ome-zarr", "inputs", "config", "sheets", "results")
"""Kinds of files. Each has a module with `DAMAGES` and functions `lay_out`, `damage` and `read`."""


def module_of(kind: str) -> Any:
    """Return the module of a kind; what others import takes memory, which is limited."""
    return import_module(f"fuzz.{kind.replace('-', '_')}")


@dataclass(frozen=True, slots=True)
class Case:
    """One damaged file; which one follows from kind, seed and ``number`` alone.

    Attributes
    ----------
    name, whole
        Of the undamaged file.
    damage
        UNTOUCHED, or one of its kind's.
    """

    kind: str
    number: int
    seed: int
    name: str
    whole: Path
    damage: str

    @property
    def row(self) -> str:
        """The row of the table that it counts in: of TIFF files by damage, of others by file."""
        if self.kind == "tiff":
            return f"{self.kind}: {self.damage}"
        name = module_of(self.kind).row_of(self.name) if self.kind == "results" else self.name
        return f"{self.kind}: {name}"

    def write(self, room: Path) -> Path:
        """Write the damaged file into a folder."""
        rng = np.random.default_rng([self.seed, abs(self.number), self.number < 0])
        return Path(module_of(self.kind).damage(self.whole, self.damage, rng, room))


def cases(
    count: int, seed: int, files: Sequence[tuple[str, Path]], kind: str = "tiff"
) -> Iterator[Case]:
    """Yield every undamaged file first, then ``count`` damaged ones: all damages in turn."""
    for number, (name, whole) in enumerate(files):
        yield Case(kind, -1 - number, seed, name, whole, UNTOUCHED)
    order = np.random.default_rng(seed).permutation(len(files))
    damages = module_of(kind).DAMAGES
    for number in range(count):
        # Each file meets each damage after as many cases as there are of both.
        turn, way = divmod(number, len(damages))
        name, whole = files[order[turn % len(files)]]
        yield Case(kind, number, seed, name, whole, damages[way])


def run_case(case: Case) -> tuple[Case, Outcome]:
    """Make and read one damaged file."""
    kind = module_of(case.kind)
    with _room() as room:
        path = case.write(room)
        work = room / "work"
        work.mkdir(exist_ok=True)
        outcome = attempt(partial(kind.read, path, case.whole, case.damage, work), path.name)
    is_whole = case.damage == UNTOUCHED
    harmless = getattr(kind, "is_harmless", lambda *_: is_whole)(case.whole, case.damage)
    if harmless and outcome.verdict not in (*BAD, SAME):
        outcome = Outcome(WRONG, f"{outcome.verdict}, though nothing is wrong: {outcome.text}")
    return case, outcome


def get_ready(first: Case) -> None:
    """Load libraries in a process that will read many files: those that a whole one needs."""
    with _room() as room:
        preload(partial(_read_whole, first, room))


def _read_whole(case: Case, room: Path) -> None:
    path = case.write(room)
    (room / "work").mkdir(exist_ok=True)
    module_of(case.kind).read(path, case.whole, UNTOUCHED, room / "work")


@contextmanager
def _room() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="unglow-fuzz-") as name:
        yield Path(name)


def report(outcomes: Iterable[tuple[Case, Outcome]]) -> int:
    """Print what was bad of `run_case` as it comes, then the table; return how many were bad."""
    counts: dict[str, Counter[str]] = {}
    for case, outcome in outcomes:
        counts.setdefault(case.row, Counter())[outcome.verdict] += 1
        if outcome.verdict in BAD:
            words = f"{case.name}, {case.damage}: {outcome.verdict}: {outcome.text}"
            print(f"case {case.kind} {case.number}: {words}", flush=True)
    total: Counter[str] = sum(counts.values(), Counter())
    rows = [
        [row, *(str(found[verdict] or "-") for verdict in VERDICTS), str(found.total())]
        for row, found in [*sorted(counts.items()), ("all", total)]
    ]
    print(table(["kind", *VERDICTS, "files"], rows))
    return sum(total[verdict] for verdict in BAD)


def main() -> int:
    """Run the command; exit status 1 if anything was bad."""
    options = _parser().parse_args()
    started = time.monotonic()
    with _room() as room:
        files: dict[str, list[tuple[str, Path]]] = {}
        for kind in options.kinds:
            (room / kind).mkdir()
            found = module_of(kind).lay_out(room / kind, **_choices(kind, options))
            files[kind] = [one for one in found if not options.files or one[0] in options.files]
        each = options.count // len(files)
        todo = {kind: [*cases(each, options.seed, own, kind)] for kind, own in files.items()}
        if options.case is not None:
            todo = {k: [c for c in own if c.number in options.case] for k, own in todo.items()}
        if options.keep is not None:
            return _keep(chain.from_iterable(todo.values()), options.keep)
        outcomes = chain.from_iterable(_outcomes(own, options.workers) for own in todo.values())
        bad = report(outcomes)
    seconds = time.monotonic() - started
    count = sum(map(len, files.values()))
    print(f"{count} whole files, seed {options.seed}: {bad} bad, {seconds:.0f} s")
    return 1 if bad else 0


def _outcomes(todo: Sequence[Case], workers: int) -> Iterator[tuple[Case, Outcome]]:
    """Yield what comes of the cases of one kind, which has processes of its own."""
    if todo:
        first = replace(todo[0], damage=UNTOUCHED)
        with multiprocessing.get_context("spawn").Pool(workers, get_ready, (first,)) as pool:
            yield from pool.imap_unordered(run_case, todo)


def _choices(kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return what a kind takes of the options."""
    if kind == "tiff":
        return {"made": options.made}
    return {"finished": options.finished} if kind == "results" else {}


def _keep(todo: Iterable[Case], target: Path) -> int:
    """Write damaged files instead of reading them."""
    for case in todo:
        place = target / f"{case.kind}{case.number}"
        place.mkdir(parents=True, exist_ok=True)
        case.write(place)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks/fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="damaged files (5000)")
    parser.add_argument("--seed", type=int, default=1, help="which damage (1)")
    parser.add_argument("--workers", type=int, default=processors(), help="files at a time")
    parser.add_argument(
        "--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="these kinds of files only"
    )
    parser.add_argument("--made", action="store_true", help="leave out the files in ../shared/data")
    parser.add_argument(
        "--finished", type=Path, metavar="DIR", help="damage the results of this run"
    )
    parser.add_argument("--files", nargs="+", metavar="NAME", help="damage these whole files only")
    parser.add_argument("--case", type=int, nargs="+", help="these ones only")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="write the files, do not read them"
    )
    return parser
