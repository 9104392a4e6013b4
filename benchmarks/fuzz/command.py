"""The command: thousands of damaged files on all processors, and a table of what came of them."""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tables import table

from fuzz.mutations import KINDS, UNTOUCHED, mutated
from fuzz.seeds import make_seeds, real_seeds
from fuzz.trial import BAD, SAME, VERDICTS, WRONG, Outcome, attempt, preload
from unglow.core.machine import processors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fuzz.seeds import Seed

REAL = Path(__file__).resolve().parents[3] / "shared" / "data"
# Damage that is none.
HARMLESS = (UNTOUCHED, "bytes appended")


@dataclass(frozen=True, slots=True)
class Case:
    """One damaged file; which one follows from the seed and ``number`` alone.

    Attributes
    ----------
    whole
        Of the undamaged file; its pixels, where they are known, lie beside it as ``.npy``.
    """

    number: int
    seed: int
    name: str
    whole: Path
    kind: str

    def damaged(self) -> bytes:
        """Return the bytes of the damaged file."""
        rng = np.random.default_rng([self.seed, abs(self.number), self.number < 0])
        return mutated(self.whole.read_bytes(), self.kind, rng)


def lay_out(seeds: Sequence[Seed], folder: Path) -> list[tuple[str, Path]]:
    """Write undamaged files and their pixels into a folder; return names and files."""
    found = []
    for number, one in enumerate(seeds):
        path = folder / f"{number}{one.suffix}"
        path.write_bytes(one.data)
        if one.pixels is not None:
            np.save(_pixels(path), one.pixels)
        found.append((one.name, path))
    return found


def _pixels(whole: Path) -> Path:
    return whole.with_name(f"{whole.name}.npy")


def cases(count: int, seed: int, files: Sequence[tuple[str, Path]]) -> Iterator[Case]:
    """Yield every undamaged file first, then ``count`` damaged ones: all kinds in turn."""
    for number, (name, whole) in enumerate(files):
        yield Case(-1 - number, seed, name, whole, UNTOUCHED)
    order = np.random.default_rng(seed).permutation(len(files))
    for number in range(count):
        # Each file meets each kind after as many cases as there are of both.
        turn, kind = divmod(number, len(KINDS))
        yield Case(number, seed, *files[order[turn % len(files)]], KINDS[kind])


def run_case(case: Case) -> tuple[Case, Outcome]:
    """Make and read one damaged file."""
    pixels: Path | None = _pixels(case.whole)
    pixels = pixels if pixels is not None and pixels.exists() else None
    with _room() as room:
        path = room / f"case{''.join(case.whole.suffixes)}"
        path.write_bytes(case.damaged())
        outcome = attempt(path, room / "work" / "post.ome.zarr", pixels)
    if case.kind in HARMLESS and pixels is not None and outcome.verdict not in (*BAD, SAME):
        outcome = Outcome(WRONG, f"{outcome.verdict}, though nothing is wrong: {outcome.text}")
    return case, outcome


def get_ready(whole: Path) -> None:
    """Load libraries in a process that will read many files."""
    with _room() as room:
        preload(whole, room / "work" / "post.ome.zarr")


@contextmanager
def _room() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="unglow-fuzz-") as name:
        yield Path(name)


def report(outcomes: Iterable[tuple[Case, Outcome]], *, show: Sequence[str] = ()) -> int:
    """Print what was bad as it comes, then the table.

    Parameters
    ----------
    outcomes
        From `run_case`.
    show
        Verdicts that are printed although they are not bad.

    Returns
    -------
    How many were bad.
    """
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in (UNTOUCHED, *KINDS)}
    for case, outcome in outcomes:
        counts[case.kind][outcome.verdict] += 1
        if outcome.verdict in (*BAD, *show):
            words = f"{case.name}, {case.kind}: {outcome.verdict}: {outcome.text}"
            print(f"case {case.number}: {words}", flush=True)
    total: Counter[str] = sum(counts.values(), Counter())
    rows = [
        [kind, *(str(found[verdict] or "-") for verdict in VERDICTS), str(found.total())]
        for kind, found in [*counts.items(), ("all", total)]
        if found
    ]
    print(table(["damage", *VERDICTS, "files"], rows))
    return sum(total[verdict] for verdict in BAD)


def main() -> int:
    """Run the command; exit status 1 if anything was bad."""
    options = _parser().parse_args()
    seeds = make_seeds()
    if REAL.is_dir() and not options.made:
        seeds += real_seeds(REAL)
    seeds = [one for one in seeds if not options.files or one.name in options.files]
    started = time.monotonic()
    with _room() as room:
        files = lay_out(seeds, room)
        todo = cases(options.count, options.seed, files)
        if options.case is not None:
            todo = (case for case in todo if case.number == options.case)
        if options.keep is not None:
            return _keep(todo, options.keep)
        context = multiprocessing.get_context("spawn")
        with context.Pool(options.workers, get_ready, (files[0][1],)) as pool:
            bad = report(pool.imap_unordered(run_case, todo), show=options.show)
    seconds = time.monotonic() - started
    print(f"{len(files)} whole files, seed {options.seed}: {bad} bad, {seconds:.0f} s")
    return 1 if bad else 0


def _keep(todo: Iterable[Case], target: Path) -> int:
    """Write damaged files instead of reading them."""
    target.mkdir(parents=True, exist_ok=True)
    for case in todo:
        (target / f"case{case.number}{case.whole.suffix}").write_bytes(case.damaged())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks/fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="damaged files (5000)")
    parser.add_argument("--seed", type=int, default=1, help="which damage (1)")
    parser.add_argument("--workers", type=int, default=processors(), help="files at a time")
    parser.add_argument(
        "--made", action="store_true", help="leave the files in ../shared/data aside"
    )
    parser.add_argument("--files", nargs="+", metavar="NAME", help="damage these whole files only")
    parser.add_argument("--case", type=int, help="this one only")
    parser.add_argument(
        "--show", nargs="+", choices=VERDICTS, default=(), help="print these as well"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="write the files, do not read them"
    )
    return parser
