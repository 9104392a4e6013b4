"""What a page shows, as one JSON model (docs/report.md); the page draws it and computes little."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import UnglowError
from unglow.core.levels import name_of
from unglow.core.version import __version__
from unglow.core.workflow_files import is_foreign
from unglow.reporting.groups import NAME as GROUPS
from unglow.reporting.groups import is_group
from unglow.reporting.html import curves
from unglow.reporting.html.attempt_costs import costs_known
from unglow.reporting.html.flame_graph import flames
from unglow.reporting.outliers import NUMBERS, outliers
from unglow.reporting.pair_rows import costs_of
from unglow.results.directory import read_summary
from unglow.telemetry.reading import plan
from unglow.telemetry.reading.history import declared_of_all, memory_of_all
from unglow.telemetry.reading.incidents import incidents
from unglow.telemetry.reading.outcomes import machine_mb
from unglow.telemetry.reading.records import RUNNING
from unglow.telemetry.reading.rule_totals import by_rule, overhead
from unglow.telemetry.reading.step_totals import by_step, steps_of
from unglow.telemetry.reading.time_left import time_left

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from unglow.telemetry.reading.history import History, Placed, RunHistory
    from unglow.telemetry.reading.incidents import Incident

SCHEMA = 1
Model = dict[str, Any]
# Bins of a curve over a whole run, and of one over a run that is not the one to be shown.
_BINS, _FEW_BINS = 600, 150
# Where there are so many attempts that their curves have no more bins, images are not listed.
_FEW_POINTS = 30
_ENVIRONMENT = (
    *("unglow", "snakemake", "python", "platform", "packages", "executor", "resources"),
    *("host", "user", "pid", "cores", "machine_mb", "cgroup_mb"),
    *("directory", "started_in", "workflow", "results", "config_files"),
)


def build(
    results: Path,
    history: History,
    pairs: Sequence[Mapping[str, Any]] = (),
    *,
    live: bool = False,
    charts: Model | None = None,
) -> Model:
    """Return the model of a results directory.

    Parameters
    ----------
    results
        The results directory.
    history
        Its runs and attempts.
    pairs
        Rows of the summary.
    live
        Whether more is to come.
    charts
        What `charts_of` has returned, if that is as new as is wanted: it takes longest.
    """
    model = {
        "schema": SCHEMA,
        "unglow": __version__,
        "made": time.time(),
        "live": live,
        "results": str(results.absolute()),
        **({"foreign": True} if is_foreign(results) else {}),
        **(charts_of(history) if charts is None else charts),
        "incidents": [_incident(i) for i in incidents(history, results, pairs)],
        "pairs": [{k: v for k, v in row.items() if k != "working"} for row in pairs],
        "batch": _batch(results, history, pairs),
        "working": {name_of(row): row["working"] for row in pairs if row.get("working")},
    }
    if slides := slides_of(pairs):
        model["slides"] = slides
    profiled = None if live else flames_of(results, history)
    return model | {"flames": profiled} if profiled else model


def slides_of(pairs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the slides among the rows of the summary, sorted."""
    return sorted({str(row["sample"]) for row in pairs if row.get("background_channel")})


def charts_of(history: History) -> Model:
    """Return ``runs`` and ``attempts`` of a model, with their curves."""
    shown = [(n, a) for n, h in enumerate(history.runs) for a in h.attempts]
    bins = curves.bins_for(len(shown))
    tries = Counter((n, a.attempt.job) for n, a in shown)
    return {
        "runs": [_run(history, h) for h in history.runs],
        "attempts": [_attempt(n, a, tries[n, a.attempt.job], bins) for n, a in shown],
    }


def flames_of(results: Path, history: History, most: int | None = None) -> Model | None:
    """Return what the flame graph of the last run is drawn from; None if none was profiled.

    Parameters
    ----------
    results, history
        The results directory, and its runs.
    most
        Only so many attempts: those that ended last or go on.
    """
    last = history.last
    shown = () if last is None else last.attempts
    if most is not None:
        shown = tuple(sorted(shown, key=lambda a: (a.outcome == RUNNING, a.end))[-most:])
    return flames(results, shown)


def _batch(results: Path, history: History, pairs: Sequence[Mapping[str, Any]]) -> Model:
    """Return what pairs are compared by: what they took, and in what they are unlike the others."""
    costs = costs_of(pairs, history)
    unusual = outliers([{**row, **cost} for row, cost in zip(pairs, costs, strict=True)])
    told = {column for row in pairs for column in row if is_group(column) and row[column]}
    pooled: list[dict[str, str]] = []
    with suppress(UnglowError, OSError):
        pooled = read_summary(results / GROUPS)
    return {
        "names": {number.key: number.name for number in NUMBERS},
        "pairs": [cost | {"outlier": o} for cost, o in zip(costs, unusual, strict=True)],
        "groups": sorted(told),
        "pooled": pooled if told else [],
    }


def _run(history: History, h: RunHistory) -> Model:
    run = h.run
    command = run.fields.get("command")
    left = time_left(h, [e for e in history.runs if e is not h])
    done, of = plan.jobs_done(plan.by_rule(h))
    return {
        "id": run.id,
        "recorded": bool(run.fields),
        "outcome": h.outcome,
        "wall": run.wall,
        "seconds": round(h.seconds, 3),
        "left_s": left.seconds if left is not None else None,
        "left": left.words if left is not None else "",
        "command": shlex.join(map(str, command)) if isinstance(command, list) else "",
        "cores": run.cores or None,
        "budget_mb": run.budget_mb,
        "machine_mb": machine_mb(run.fields) or _largest_machine(h),
        "rows": list(h.rows),
        "done": done,
        "of": of,
        "totals": dict(run.totals),
        "shifts": dict(h.shifts),
        "lines": _lines(h, _BINS if h is history.last else _FEW_BINS),
        "rules": [_with_rates(asdict(row), row.mb_per_s, row.cores) for row in by_rule(h.attempts)],
        "steps": [asdict(row) for row in by_step(h.attempts)],
        "overhead": asdict(took) if (took := overhead(h)) else None,
        "messages": [{"t": m.t, "level": m.level, "text": m.text} for m in run.messages],
        "environment": {k: run.fields[k] for k in _ENVIRONMENT if run.fields.get(k) is not None},
        "config": run.fields.get("config"),
    }


def _with_rates(row: Model, mb_per_s: float | None, cores: float | None) -> Model:
    return row | {"mb_per_s": mb_per_s, "cores": cores}


def _largest_machine(h: RunHistory) -> float | None:
    sizes = (machine_mb(a.attempt.fields) for a in h.attempts)
    return max((mb for mb in sizes if mb), default=None)


def _lines(h: RunHistory, bins: int) -> Model | None:
    """Return the curves of a whole run, in equal bins; None if nothing was sampled."""
    t, mb = memory_of_all(h.attempts)
    if not len(t) or h.seconds <= 0:
        return None
    edges = np.linspace(0.0, h.seconds, bins + 1)
    low, high = curves.of_steps(t, mb, edges)
    declared = curves.of_steps(*declared_of_all(h.attempts), edges)[1]
    available = _available(h.attempts, edges)
    cpu, moved = curves.rates(h.attempts, edges)
    peak = int(np.argmax(mb))
    return {
        "lo": curves.rounded(low, 1),
        "hi": curves.rounded(high, 1),
        "declared": curves.rounded(declared, 1),
        "available": curves.rounded(available, 0),
        "cpu": curves.rounded(cpu, 2),
        "io": curves.rounded(moved, 2),
        "peak": {"t": float(t[peak]), "mb": round(float(mb[peak]), 1)},
    }


def _available(placed: Iterable[Placed], edges: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the least memory that the machine had left in each bin."""
    sampled = [a for a in placed if len(a.attempt.samples)]
    t = np.concatenate([a.start + a.attempt.samples.t for a in sampled])
    mb = np.concatenate([a.attempt.samples.available for a in sampled])
    return curves.low_high(t, mb, edges)[0]


def _attempt(run: int, a: Placed, tries: int, bins: int) -> Model:
    attempt, end, job = a.attempt, a.attempt.end, a.job
    return {
        "id": attempt.id,
        "run": run,
        "stage": attempt.stage,
        "rule": attempt.rule,
        "title": attempt.title,
        "wildcards": dict(attempt.wildcards),
        "number": attempt.number,
        "tries": tries,
        "host": attempt.host,
        "start": round(a.start, 3),
        "end": round(a.end, 3),
        "launched": a.launched,
        "closed": a.closed,
        "outcome": a.outcome,
        "slot": a.slot,
        "threads": attempt.threads,
        "declared_mb": attempt.declared_mb,
        "peak_mb": attempt.peak_mb,
        "cpu_s": attempt.cpu_s,
        "read": attempt.read,
        "written": attempt.written,
        "message": end.message if end is not None else "",
        "reason": job.reason if job is not None else "",
        "log": attempt.log,
        "done": attempt.done,
        "of": attempt.of,
        "unit": attempt.unit,
        "stalls": [[s.t, s.seconds, s.reason] for s in attempt.whole_stalls],
        "steps": [[name, begin, stop, depth] for name, begin, stop, depth in steps_of(attempt)],
        "curve": curves.of_attempt(attempt, bins),
        **costs_known(attempt, images=bins > _FEW_POINTS),
    }


def _incident(i: Incident) -> Model:
    return asdict(i) | {"numbers": dict(i.numbers or {})}
