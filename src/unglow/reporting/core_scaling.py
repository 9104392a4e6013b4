"""How many cores are worth it: the same real pairs with different numbers, compared and advised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unglow.telemetry.reading.history import declared_of_all, memory_of_all
from unglow.telemetry.reading.rule_totals import by_rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unglow.telemetry.reading.history import RunHistory

WORTH = 0.9
"""More cores are taken as long as the time falls to this share of what it was, or below."""
_PROFILE = """\
# Made by unglow tune from {what}.
# {advice}
{table}
__use_yte__: true
__definitions__:
  - from unglow.core.machine import memory_limit_mb
cores: {cores}
scheduler: greedy
scheduler-subsample: 100  # of more jobs that are ready, look at so many, drawn at random
keep-going: true
retries: 1  # only for a job that lacked memory
rerun-incomplete: true
resources:
  mem_mb: ?memory_limit_mb({share:g})
"""
_SHARES = (0.6, 0.9)


@dataclass(frozen=True, slots=True)
class Trial:
    """What a run took with some cores.

    Attributes
    ----------
    cores
        For all jobs together.
    seconds, cpu_s
        From its beginning to its end, and on processors, s.
    peak_mb, declared_mb
        The most that all jobs took, and had declared, at a time, MB.
    largest_mb
        The largest peak of a single job, MB.
    """

    cores: int
    seconds: float
    cpu_s: float
    peak_mb: float
    declared_mb: float
    largest_mb: float


def trial_of(run: RunHistory, cores: int) -> Trial:
    """Return what a run took, from its telemetry."""
    rules = by_rule(run.attempts)
    return Trial(
        cores,
        run.seconds,
        sum(rule.cpu_s for rule in rules),
        float(memory_of_all(run.attempts)[1].max(initial=0.0)),
        float(declared_of_all(run.attempts)[1].max(initial=0.0)),
        max((rule.largest_mb or 0.0 for rule in rules), default=0.0),
    )


def advised(trials: Sequence[Trial]) -> Trial:
    """Return the trial to follow: of growing numbers of cores, the last that was worth it."""
    best, *others = sorted(trials, key=lambda trial: trial.cores)
    for other in others:
        if other.seconds <= WORTH * best.seconds:
            best = other
    return best


def table(trials: Sequence[Trial]) -> list[str]:
    """Return the lines of a table, one trial in each; speed-ups are over the first."""
    header = ("cores", "time s", "speed-up", "CPU s", "peak MB", "declared MB", "largest job MB")
    rows: list[tuple[str, ...]] = [header]
    for one in trials:
        speed = trials[0].seconds / one.seconds
        numbers = (one.cpu_s, one.peak_mb, one.declared_mb, one.largest_mb)
        cells = (f"{one.seconds:.1f}", f"{speed:.2f}", *(f"{number:.0f}" for number in numbers))
        rows.append((str(one.cores), *cells))
    widths = [max(len(row[k]) for row in rows) for k in range(len(header))]
    return ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in rows]


def advice(trials: Sequence[Trial]) -> str:
    """Return in a sentence how many cores to take, and why."""
    ordered = sorted(trials, key=lambda trial: trial.cores)
    best = advised(ordered)
    plural = "s" * (best.cores != 1)
    took = f"{best.cores} core{plural}: {best.seconds:.1f} s"
    if best is not ordered[0]:
        speed = ordered[0].seconds / best.seconds
        took += f", {speed:.1f} times as fast as {ordered[0].cores}"
    sentence = f"{took}, with at most {best.peak_mb:.0f} MB of memory in use."
    more = [t for t in ordered if t.cores > best.cores]
    if more:
        sentence += f" More cores gain less than {100 * (1 - WORTH):.0f} %."
    elif len(ordered) > 1:
        sentence += " More may gain more."
    return sentence


def profile_text(trials: Sequence[Trial], what: str, total_mb: float) -> str:
    """Return a profile for ``--workflow-profile`` that follows the advice.

    Parameters
    ----------
    trials
        At least one.
    what
        What was run.
    total_mb
        Memory of the machine or container, MB: a larger share of it is given to the jobs where
        those that ran at a time had declared more than the usual one.
    """
    best = advised(trials)
    usual, most = _SHARES
    share = usual if best.declared_mb <= usual * total_mb else most
    lines = "\n".join(f"#   {line}" for line in table(trials))
    sentence = advice(trials)
    return _PROFILE.format(what=what, advice=sentence, table=lines, cores=best.cores, share=share)
