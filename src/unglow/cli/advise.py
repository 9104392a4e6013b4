"""``unglow report --advise``: what memory rules of any workflow should declare."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.errors import InputError
from unglow.core.files import write_text
from unglow.core.printable import say
from unglow.core.rounding import number
from unglow.jobs.outcomes import LACKED_MEMORY
from unglow.results.runs import find_results
from unglow.telemetry.reading.history import History
from unglow.telemetry.reading.records import ENDED_WELL

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from unglow.telemetry.reading.records import Attempt

_MARGIN = 1.2
# A line through fewer sizes of input than this, or with a weaker correlation, is not believed.
_LEAST_SIZES, _LEAST_CORRELATION = 4, 0.9
# Numbers are rounded up to a multiple of this, MB; no job is given less.
_STEP_MB, _LEAST_MB = 10, 50
# Snakemake counts sizes of input in MiB.
_MIB = 2**20 / 1e6


@dataclass(frozen=True, slots=True)
class Advice:
    """Memory that the jobs of a rule should declare: ``fixed_mb + per_mb * input``, MB.

    ``jobs`` have been measured, with peaks up to ``peak_mb``, where ``declared_mb`` was declared at
    most (None for nothing); ``per_mb`` is 0 where memory does not follow the size of the input.
    """

    rule: str
    fixed_mb: int
    per_mb: float
    jobs: int
    peak_mb: float
    declared_mb: float | None

    @property
    def expression(self) -> str:
        """What ``mem_mb`` is set to in a profile."""
        if not self.per_mb:
            return str(self.fixed_mb)
        size = f"{math.ceil(self.per_mb * _MIB * 100) / 100:g} * input.size_mb"
        return f'"max({_LEAST_MB}, int({size} + {self.fixed_mb}))"'

    @property
    def lines(self) -> list[str]:
        """The lines of a profile."""
        declared = self.declared_mb
        before = "nothing declared" if declared is None else f"declared {number(declared)} MB"
        jobs = f"{self.jobs} job{'s' * (self.jobs != 1)}"
        return [
            f"  {self.rule}:  # {before}, peak {number(self.peak_mb)} MB of {jobs}",
            f"    mem_mb: {self.expression}",
        ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow report --advise` to a parser."""
    parser.description = (
        "Print a profile with the memory that each rule should declare. It follows from the peaks "
        "that `snakemake --logger unglow` has recorded, and from the size of the input. Every "
        "recorded job would have had enough, with the margin."
    )
    add, here = parser.add_argument, Path()
    add("directory", nargs="?", type=Path, default=here, help="where the workflow ran (default: .)")
    margin_help = f"more than the peaks by this factor (default: {_MARGIN:g})"
    add("--margin", type=float, default=_MARGIN, metavar="FACTOR", help=margin_help)
    output_help = "write it there: PROFILE/config.yaml for --workflow-profile PROFILE"
    add("-o", "--output", type=Path, metavar="FILE", help=output_help)


def run(options: argparse.Namespace) -> int:
    """Print or write the profile."""
    if not 1 <= options.margin <= 100:
        raise InputError(f"--margin {options.margin:g} is not a factor from 1 to 100.")
    results, _ = find_results(options.directory)
    history = History.read(results)
    found = advise([a for h in history.runs for a in h.attempts], options.margin)
    if not found:
        raise InputError(
            f"{options.directory} has no recorded jobs of rules whose memory is to be declared: "
            "run the workflow with `snakemake --logger unglow` first."
        )
    head = f"# By unglow report --advise, from {sum(one.jobs for one in found)} jobs in {results}."
    text = "\n".join([head, "set-resources:", *(line for one in found for line in one.lines)])
    if options.output is None:
        say(text)
    else:
        write_text(options.output, f"{text}\n")
    return 0


def advise(attempts: Sequence[Attempt], margin: float = _MARGIN) -> list[Advice]:
    """Return what each rule should declare, by its jobs that were recorded from outside."""
    rules: dict[str, list[Attempt]] = defaultdict(list)
    for one in attempts:
        fields = one.fields
        if fields.get("recorded") == "outside" and "jobs" not in fields:
            rules[one.rule].append(one)
    found = (_advise_on_rule(rule, own, margin) for rule, own in sorted(rules.items()))
    return [one for one in found if one is not None]


def _advise_on_rule(rule: str, attempts: Sequence[Attempt], margin: float) -> Advice | None:
    points = []
    for one in attempts:
        end, peak = one.ending, one.peak_mb
        if end is None or peak is None:
            continue
        if one.outcome in LACKED_MEMORY:  # it would have taken more
            peak = max(peak, float(end.needed_mb or 0) / margin)
        elif one.outcome != ENDED_WELL:
            continue
        points.append((float(one.fields.get("input_mb") or 0), peak))
    if not points:
        return None
    sizes, peaks = np.array(points).T
    per_mb = _slope(sizes, peaks) * margin
    fixed = float((peaks * margin - per_mb * sizes).max())
    step = math.ceil(fixed / _STEP_MB) * _STEP_MB
    declared = [a.declared_mb for a in attempts if a.declared_mb is not None]
    return Advice(
        rule=rule,
        fixed_mb=step if per_mb else max(_LEAST_MB, step),
        per_mb=per_mb,
        jobs=len(points),
        peak_mb=float(peaks.max()),
        declared_mb=max(declared, default=None),
    )


def _slope(sizes: NDArray[np.float64], peaks: NDArray[np.float64]) -> float:
    """Return MB of memory for each MB of input; 0 where memory does not follow it."""
    if len(np.unique(sizes)) < _LEAST_SIZES or np.ptp(peaks) == 0:
        return 0.0
    if np.corrcoef(sizes, peaks)[0, 1] < _LEAST_CORRELATION:
        return 0.0
    return float(np.polyfit(sizes, peaks, 1)[0])
