"""``unglow compare``: what came out of runs, and what they cost."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.cli.directories import results_of
from unglow.core.errors import InputError
from unglow.core.files import write_text
from unglow.core.printable import cell, say, table
from unglow.core.rounding import amount
from unglow.results.comparison.measures import WORDS
from unglow.workflow.config import CONFIG

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from unglow.results.comparison.results import Comparison, PairComparison
    from unglow.results.directory import Results
    from unglow.results.runs import Run


def full_table(comparisons: Iterable[Comparison]) -> str:
    """Return the table; ``lost_at`` and ``new_at`` list x, y (px of post) of all candidates."""
    rows = [
        {"a": one.a, "b": one.b, "pair": pair.name, **_row(pair)}
        for one in comparisons
        for pair in one.pairs
    ]
    ends = ("lost_at", "new_at", "sentence")
    columns = [*dict.fromkeys(name for row in rows for name in row if name not in ends), *ends]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, delimiter="\t", lineterminator="\n", restval="")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: cell(text) for key, text in row.items()})
    return stream.getvalue()


def _row(pair: PairComparison) -> dict[str, str]:
    row = {"verdict": WORDS[pair.verdict]}
    row |= {finding.what: WORDS[finding.verdict] for finding in pair.findings}
    points: dict[str, list[str]] = {"lost_at": [], "new_at": []}
    for finding in pair.findings:
        row |= {name: f"{value:.6g}" for name, value in finding.numbers.items()}
        for word, x, y, _ in finding.points:
            points[f"{word}_at"].append(f"{x:.2f},{y:.2f}")
    row |= {key: " ".join(places) for key, places in points.items()}
    return row | {"sentence": "; ".join(pair.sentences)}


# Number of pairs that differ, or are equal within errors, that are listed.
_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow compare` to a parser."""
    parser.description = (
        "Compare the results of runs (maps, gains, candidates, pixels of each pair) with those of "
        "the first, and the time and memory that they took. RUN is a results directory, the "
        "directory of a pair or variant, or the file of a run in results/telemetry/runs (only time "
        "and memory). With a single results directory, its variants and all its runs are compared."
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="what to compare")
    parser.add_argument(
        "--against",
        type=Path,
        metavar="PUBLISHED",
        help="check whether RUN reproduces these results (stores may be missing); exit status 1 if "
        "not",
    )
    parser.add_argument(
        "--all-pixels",
        action="store_true",
        help="compare all pixels of difference images above 64 Mpx, not a sample",
    )
    parser.add_argument("--table", type=Path, metavar="FILE.tsv", help="also write all numbers")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE.html",
        help="also write a page with time and memory of all runs",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print what differs, write page and table; return 1 if RUN does not reproduce PUBLISHED."""
    from unglow.pages.report.page_model import build_comparison  # numpy
    from unglow.pages.report.report import page
    from unglow.pages.report.run_comparison import compare_environments

    published: Path | None = arguments.against
    paths: list[Path] = arguments.runs
    if published is not None:
        if len(paths) > 1:
            raise InputError("Give one RUN only with --against.")
        paths = [published, *paths]
    comparisons, named = compare(paths, everything=arguments.all_pixels)
    if published is not None and not comparisons:
        raise InputError(f"{published} and {paths[1]} hold no results to compare.")
    parts: list[Iterable[str]]
    parts = [*map(_lines if published is None else _lines_of_all, comparisons)]
    if named and published is None:
        parts.append(["\n" * bool(parts) + text(named)])
        parts.append([] if comparisons else compare_environments(named))
    say("\n".join(line for part in parts for line in part))
    if arguments.output is not None:
        write_text(arguments.output, page(build_comparison(named), title="unglow compare"))
        say(f"\n{arguments.output}")
    if arguments.table is not None:
        write_text(arguments.table, full_table(comparisons))
        say(arguments.table)
    if published is None:
        return 0
    say(f"\n{comparisons[0].verdict}")
    return 0 if comparisons[0].is_reproduced else 1


def compare(paths: Sequence[Path], *, everything: bool) -> tuple[list[Comparison], dict[str, Run]]:
    """Return comparisons of all results with the first, and the runs whose cost is compared.

    Raises
    ------
    InputError
        There is nothing to compare.
    """
    from unglow.pages.report.run_comparison import origins, select_runs
    from unglow.results.comparison.results import compare_results, compare_variants

    sides = [Side.read(path) for path in paths]
    (first, *others), comparisons = sides, []
    if not others and first.results is not None:
        variants = compare_variants(first.results, everything=everything)
        comparisons = [] if variants is None else [variants]
    for side in others:
        if first.results is not None and side.results is not None:
            found = compare_results(first.results, side.results, everything=everything)
            if first.results.directory != side.results.directory:
                found = replace(found, origins=tuple(origins(first.last, side.last)))
            comparisons.append(found)
    complete = all(side.runs and not (side.results and side.results.is_part) for side in sides)
    named = select_runs([side.runs for side in sides]) if complete else {}
    if len(named) < 2 and not comparisons:
        raise InputError(
            f"{paths[0]} holds one run only and no variants, so there is nothing to compare it "
            "with; give other results as well."
        )
    return comparisons, named if len(named) > 1 else {}


@dataclass(frozen=True, slots=True)
class Side:
    """One side: its results (None for a run alone), and its recorded runs."""

    results: Results | None
    runs: dict[str, Run]

    @classmethod
    def read(cls, path: Path) -> Side:
        """Read it; InputError if there is neither."""
        from unglow.pages.report.run_comparison import runs_of
        from unglow.results.directory import open_results

        if (path / CONFIG).is_file():
            path = results_of(path)
        results, problem = None, None
        if not path.is_file():
            try:
                results = open_results(path)
            except InputError as error:
                problem = error
        try:
            runs = runs_of(results.directory if results is not None and results.is_part else path)
        except InputError as error:
            if results is None:
                raise problem or error from None
            runs = {}
        return cls(results, runs)

    @property
    def last(self) -> Run | None:
        """The last run; None without telemetry."""
        return [*self.runs.values()][-1] if self.runs else None


def _lines(comparison: Comparison) -> Iterator[str]:
    """Yield a comparison as lines of text: the summary, then what is not identical, worst first."""
    yield from _head(comparison)
    shown = [p for p in comparison.pairs if p.verdict != "identical" or p.sentences]
    for pair in shown[:_SHOWN]:
        yield f"{pair.word}: {pair.name}"
        yield from (f"    {sentence}" for sentence in pair.sentences)
    if len(shown) > _SHOWN:
        yield f"and {len(shown) - _SHOWN} more: --table FILE.tsv has all"
    yield from comparison.alone


def _lines_of_all(comparison: Comparison) -> Iterator[str]:
    """Yield a comparison as lines of text: the summary, then one for each pair, worst first."""
    yield from _head(comparison)
    for pair in comparison.pairs:
        yield ": ".join(filter(None, [pair.word, pair.name, "; ".join(pair.sentences)]))
    yield from comparison.alone


def _head(comparison: Comparison) -> Iterator[str]:
    yield f"A  {comparison.a}"
    yield f"B  {comparison.b}"
    yield from comparison.origins
    yield comparison.summary


def text(named: Mapping[str, Run]) -> str:
    """Return the cost of runs as plain text."""
    from unglow.pages.report.run_comparison import compare_rules, rows  # imports numpy

    names, runs = [*named], named.values()
    sides = "l" + "r" * len(names)
    numbers = [
        [row.name, *(amount(value, row.unit) for value in row.values), row.change or ""]
        for row in rows(runs)
    ]
    lines = [table([["", *names, ""], *numbers], sides + "r"), ""]
    for what, key, unit in (("time of all jobs", "seconds", "s"), ("peak memory", "peak_mb", "MB")):
        by_rule = compare_rules(runs, key).items()
        cells = [[rule, *(amount(value, unit) for value in values)] for rule, values in by_rule]
        lines += [f"By rule: {what}", table([["", *names], *cells], sides), ""]
    return "\n".join(lines).rstrip()
