"""Throughput: what jobs take on this machine, fitted to the times of earlier runs.

A job takes a fixed time and one that grows with its px. The table of stages has a first guess of
both; a machine is so many times slower in each, and each rule once more. These factors are fitted
by least squares of relative errors, for all rules together first, which is where those of each
rule begin: a rule that has never run is as much slower as all others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from unglow.workflow.stage_table import STAGES, Time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from unglow.workflow.forecast.earlier_runs import EarlierRun, Times

LAUNCH, START, END = "launch", "start", "end"
SNAKEMAKE = {
    LAUNCH: Time(0.25),  # of a job: a new Python that imports Snakemake
    START: Time(2.3, 0.07),  # until the first job: libraries, then pairs instead of million px
    END: Time(1.0, 0.02),  # after the last one: summary and report, pairs as well
}
"""What Snakemake itself takes."""
# Relative standard deviations: of a machine from the one that the table was measured on, of a rule
# from the others, of a run from the next one, and of a job from the next one.
_OF_MACHINE, _OF_RULE, _OF_RUN, _OF_JOB = 0.35, 0.25, 0.2, 0.2
# So many runs is the first guess of the spread of runs worth.
_GUESS_RUNS = 4
# No factor is smaller than such a part of where it began.
_LEAST = 0.1


@dataclass(frozen=True, slots=True)
class Factors:
    """How many times slower than the table a rule is, and how well that is known.

    Attributes
    ----------
    fixed, growing
        Of the fixed time, and of what grows with the px.
    covariance
        Variance of the first, covariance, variance of the second.
    """

    fixed: float
    growing: float
    covariance: tuple[float, float, float]

    def error_of(self, fixed: float, growing: float) -> float:
        """Return the standard deviation of a time with such parts by the table, s."""
        aa, ab, bb = self.covariance
        return math.sqrt(max(0.0, aa * fixed**2 + 2 * ab * fixed * growing + bb * growing**2))

    def looser(self) -> Factors:
        """Return where a rule begins if these are the factors of all."""
        aa, ab, bb = self.covariance
        spread = aa + (_OF_RULE * self.fixed) ** 2, ab, bb + (_OF_RULE * self.growing) ** 2
        return Factors(self.fixed, self.growing, spread)


@dataclass(frozen=True, slots=True)
class Point:
    """A measured time, s, and its parts by the table; ``weight`` is 1 / its relative variance."""

    fixed: float
    growing: float
    seconds: float
    weight: float


_GUESS = Factors(1.0, 1.0, (_OF_MACHINE**2, 0.0, _OF_MACHINE**2))


def fitted(points: Iterable[Point], begin: Factors) -> Factors:
    """Return factors from where they begin and what was measured."""
    aa, ab, bb = begin.covariance
    determinant = aa * bb - ab * ab
    # the inverse of the covariance, and what it weighs
    p, q, r = bb / determinant, -ab / determinant, aa / determinant
    u = p * begin.fixed + q * begin.growing
    v = q * begin.fixed + r * begin.growing
    for point in points:
        expected = begin.fixed * point.fixed + begin.growing * point.growing
        weight = point.weight / expected**2
        p += weight * point.fixed**2
        q += weight * point.fixed * point.growing
        r += weight * point.growing**2
        u += weight * point.fixed * point.seconds
        v += weight * point.growing * point.seconds
    determinant = p * r - q * q
    aa, ab, bb = r / determinant, -q / determinant, p / determinant
    return Factors(
        max(_LEAST * begin.fixed, aa * u + ab * v),
        max(_LEAST * begin.growing, ab * u + bb * v),
        (aa, ab, bb),
    )


@dataclass(frozen=True, slots=True)
class Throughput:
    """What jobs take on this machine.

    Attributes
    ----------
    runs
        How many runs it was learnt from; with 0 it is a first guess.
    spread
        Relative standard deviation of a whole run.
    """

    runs: int
    spread: float
    _others: Factors
    _rules: Mapping[str, Factors]
    _cpu_others: Factors
    _cpu_rules: Mapping[str, Factors]

    @classmethod
    def of(cls, runs: Sequence[EarlierRun]) -> Throughput:
        """Learn from earlier runs: from the jobs of rules that this version has."""
        runs = [replace(run, times=tuple(filter(_is_of_a_rule, run.times))) for run in runs]
        others, rules = _learnt([times for run in runs for times in run.times], cpu=False)
        cpu_others, cpu_rules = _learnt([t for run in runs for t in run.times], cpu=True)
        guess = cls(len(runs), _OF_RUN, others, rules, cpu_others, cpu_rules)
        ratios = [guess._ratio(run) for run in runs]
        squares = _GUESS_RUNS * _OF_RUN**2 + sum(math.log(ratio) ** 2 for ratio in ratios)
        spread = math.sqrt(squares / (_GUESS_RUNS + len(runs)))
        return cls(len(runs), spread, others, rules, cpu_others, cpu_rules)

    def seconds(self, rule: str, mpx: float, threads: int) -> tuple[float, float]:
        """Return the time of a job, s, and its standard deviation."""
        fixed, growing = _by_table(rule, mpx, threads)
        factors = self._rules.get(rule) or self._others
        time = factors.fixed * fixed + factors.growing * growing
        return time, factors.error_of(fixed, growing)

    def cpu_s(self, rule: str, mpx: float) -> float:
        """Return what a job takes of processors, s."""
        fixed, growing = _by_table(rule, mpx, 1)
        factors = self._cpu_rules.get(rule) or self._cpu_others
        return factors.fixed * fixed + factors.growing * growing

    def _ratio(self, run: EarlierRun) -> float:
        """Return what the jobs of a run took over what they would be expected to."""
        took = sum(t.jobs * t.seconds for t in run.times)
        expected = sum(t.jobs * self.seconds(t.rule, t.mpx, t.threads)[0] for t in run.times)
        return took / expected if took and expected else 1.0


def _is_of_a_rule(times: Times) -> bool:
    """Whether there is such a rule: another checkout of this version may have left the file."""
    return times.rule in SNAKEMAKE or times.rule in STAGES


def _by_table(rule: str, mpx: float, threads: int) -> tuple[float, float]:
    """Return the fixed time of a job by the table, and the one that grows with the px, s."""
    time = SNAKEMAKE.get(rule) or STAGES[rule].time
    return time.fixed, time.per_mpx_with(threads) * mpx


def _learnt(times: Iterable[Times], *, cpu: bool) -> tuple[Factors, dict[str, Factors]]:
    """Return the factors of rules that have not run, and those of each that has."""
    points: dict[str, list[Point]] = defaultdict(list)
    for t in times:
        fixed, growing = _by_table(t.rule, t.mpx, 1 if cpu else t.threads)
        weight = 1 / (_OF_RUN**2 + _OF_JOB**2 / t.jobs)
        points[t.rule].append(Point(fixed, growing, t.cpu_s if cpu else t.seconds, weight))
    of_all = fitted([point for group in points.values() for point in group], _GUESS)
    begin = of_all.looser()
    return begin, {rule: fitted(group, begin) for rule, group in points.items()}
