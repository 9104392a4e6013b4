"""The model of a page, as JSON (docs/telemetry.md); the page draws it and computes little."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow import __version__
from unglow.core.levels import name_of
from unglow.core.progress import MOST_LISTED
from unglow.core.workflow_files import is_foreign
from unglow.reporting.groups import is_group
from unglow.reporting.html import curves
from unglow.reporting.html.curves import flames
from unglow.reporting.pair_rows import NUMBERS, costs_of, outliers
from unglow.telemetry.jsonl import number
from unglow.telemetry.reading.incidents import incidents
from unglow.telemetry.reading.records import RUNNING, once_per_object
from unglow.telemetry.reading.totals import group_by_rule, group_by_step, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from unglow.reporting.runs import Run, Runs
    from unglow.telemetry.reading.history import History, RunHistory
    from unglow.telemetry.reading.records import Attempt, Placed

SCHEMA = 1
Model = dict[str, Any]
# Bins of a curve over the run that is shown first, and over any other run.
_BINS, _FEW_BINS = 600, 150
# Bins per attempt below which its images are not listed: there are too many attempts.
_FEW_POINTS = 30
_ENVIRONMENT = (
    *("unglow", "snakemake", "python", "platform", "packages", "executor", "resources"),
    *("host", "user", "pid", "cores", "machine_mb", "cgroup_mb"),
    *("directory", "started_in", "workflow", "results", "config_files"),
)


def build(runs: Runs, *, live: bool = False, charts: Model | None = None) -> Model:
    """Return the model of a page.

    Parameters
    ----------
    runs
        All runs of a results directory.
    live
        Whether the page is updated.
    charts
        An earlier result of `charts_of`, which takes longest, if it is new enough.
    """
    results, pairs = runs.results, runs.rows
    model = {
        "schema": SCHEMA,
        "unglow": __version__,
        "made": time.time(),
        "live": live,
        "results": str(results.absolute()),
        **({"foreign": True} if is_foreign(results) else {}),
        **(charts_of(runs) if charts is None else charts),
        "incidents": [
            asdict(i) | {"numbers": dict(i.numbers or {})}
            for i in incidents(runs.history, results, pairs)
        ],
        "pairs": [{k: v for k, v in row.items() if k != "working"} for row in pairs],
        "batch": _batch(runs.history, pairs),
        "working": {name_of(row): row["working"] for row in pairs if row.get("working")},
    }
    if slides := slides_of(pairs):
        model["slides"] = slides
    profiled = None if live else flames_of(runs)
    return model | {"flames": profiled} if profiled else model


def build_comparison(named: Mapping[str, Run]) -> Model:
    """Return the model of a page that shows runs of any directories, by name, without results."""
    placed = [(n, a) for n, run in enumerate(named.values()) for a in run.history.attempts]
    bins = curves.bins_for(len(placed))
    return {
        "schema": SCHEMA,
        "unglow": __version__,
        "made": time.time(),
        "live": False,
        "results": "",
        "foreign": True,
        "shown": 0,
        "runs": [_run(run, _BINS) | {"name": name} for name, run in named.items()],
        "attempts": [_attempt(a, n, 1, bins) for n, a in placed],
        "incidents": [],
        "pairs": [],
        "batch": {"names": {}, "pairs": [], "groups": []},
    }


def slides_of(pairs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the slides among the rows of the summary, sorted."""
    return sorted({str(row["sample"]) for row in pairs if row.get("background_channel")})


def charts_of(runs: Runs) -> Model:
    """Return ``runs`` and ``attempts``, with curves, and ``shown``: the run shown first."""
    shown = [(n, a) for n, run in enumerate(runs.runs) for a in run.history.attempts]
    bins = curves.bins_for(len(shown))
    tries = Counter((n, a.attempt.job) for n, a in shown)
    main = runs.history.last_work
    return {
        "shown": next((n for n, run in enumerate(runs.runs) if run.history is main), 0),
        "runs": [_run(run, _BINS if run.history is main else _FEW_BINS) for run in runs.runs],
        "attempts": [_attempt(a, n, tries[n, a.attempt.job], bins) for n, a in shown],
    }


def flames_of(runs: Runs, most: int | None = None) -> Model | None:
    """Return the flame graph of the run that is shown first; None if no attempt was profiled.

    ``most`` limits the number of attempts, to those that are running or ended last.
    """
    last = runs.history.last_work
    shown = () if last is None else last.attempts
    if most is not None:
        shown = tuple(sorted(shown, key=lambda a: (a.outcome == RUNNING, a.end))[-most:])
    return flames(runs.results, shown)


def _batch(history: History, pairs: Sequence[Mapping[str, Any]]) -> Model:
    """Return the costs of pairs, and the numbers in which they are outliers."""
    costs = costs_of(pairs, history)
    unusual = outliers([{**row, **cost} for row, cost in zip(pairs, costs, strict=True)])
    groups = {column for row in pairs for column in row if is_group(column) and row[column]}
    return {
        "names": {number.key: number.name for number in NUMBERS},
        "pairs": [cost | {"outlier": o} for cost, o in zip(costs, unusual, strict=True)],
        "groups": sorted(groups),
    }


def _run(run: Run, bins: int) -> Model:
    h, fields = run.history, run.history.run.fields
    return {
        "id": run.id,
        "recorded": bool(fields),
        "outcome": h.outcome,
        "wall": run.wall,
        "seconds": round(run.seconds, 3),
        "left_s": run.left_s,
        "left": run.left.words if run.left is not None else "",
        "command": run.command,
        "cores": run.cores,
        "budget_mb": run.budget_mb,
        "machine_mb": run.machine_mb,
        "rows": list(h.rows),
        "done": run.done,
        "of": run.of,
        "totals": dict(h.run.totals),
        "shifts": dict(h.shifts),
        "lines": _lines(h, bins),
        "rules": [
            asdict(row) | {"mb_per_s": row.mb_per_s, "cores": row.cores}
            for row in group_by_rule(h.attempts)
        ],
        "steps": [asdict(row) for row in group_by_step(h.attempts)],
        "messages": [asdict(message) for message in run.messages],
        "environment": {k: fields[k] for k in _ENVIRONMENT if fields.get(k) is not None},
        "config": run.config,
    }


def _lines(h: RunHistory, bins: int) -> Model | None:
    """Return the curves of a run, in equal bins; None if nothing was sampled."""
    t, mb = h.memory
    if not len(t) or h.seconds <= 0:
        return None
    edges = np.linspace(0.0, h.seconds, bins + 1)
    high = curves.bound_steps(t, mb, edges)
    declared = curves.bound_steps(*h.declared, edges)
    available = _available(h.attempts, edges)
    cpu, moved = curves.rates(h.attempts, edges)
    peak = int(np.argmax(mb))
    return {
        "hi": curves.round_values(high, 1),
        "declared": curves.round_values(declared, 1),
        "available": curves.round_values(available, 0),
        "cpu": curves.round_values(cpu, 2),
        "io": curves.round_values(moved, 2),
        "peak": {"t": float(t[peak]), "mb": round(float(mb[peak]), 1)},
    }


def _available(placed: Iterable[Placed], edges: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the least memory that the machine had left in each bin."""
    sampled = [a for a in placed if len(a.attempt.samples)]
    t = np.concatenate([a.start + a.attempt.samples.t for a in sampled])
    mb = np.concatenate([a.attempt.samples.available for a in sampled])
    return -curves.find_highest(t, -mb, edges)


@once_per_object
def _attempt(a: Placed, run: int, tries: int, bins: int) -> Model:
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
        "stalls": [[s.t, s.seconds, s.reason] for s in attempt.complete_stalls],
        "steps": [[name, start, stop, depth] for name, start, stop, depth in steps_of(attempt)],
        "curve": curves.compute_curve(attempt, bins),
        **costs_known(attempt, images=bins > _FEW_POINTS),
    }


_AT_END = (
    *("available_before_mb", "available_after_mb", "left_behind_mb"),
    *("files_before_mb", "files_after_mb", "processes_left", "processes_left_mb"),
    *("disk_read", "disk_written", "opencv_threads"),
)
_AMOUNTS = ("read", "written", "decoded", "encoded", "first", "last")
# Looks, and share of them, with more threads than were asked for that are not by chance.
_LOOKS, _SHARE = 3, 0.1


@once_per_object
def costs_known(attempt: Attempt, *, images: bool = True) -> dict[str, Any]:
    """Return known costs of an attempt, by name; unknown ones are omitted.

    Parameters
    ----------
    attempt
        The attempt.
    images
        Whether to list what it moved of each image: the longest part.

    Returns
    -------
    Those of ``_AT_END`` as its end has them (docs/telemetry.md); ``parts``, MB of private, file,
    shared and swapped memory when most was resident; ``threads_seen`` and ``runnable``, the most of
    all threads and of those that could run at once; ``crowded``, whether these were too many again
    and again; ``transfers``, what it moved of each image.
    """
    samples, more = attempt.samples, attempt.end.more if attempt.end is not None else {}
    found: dict[str, Any] = {name: _short(more.get(name)) for name in _AT_END}
    if not np.isnan(samples.private).all():
        at = int(np.nanargmax(np.where(np.isnan(samples.private), np.nan, samples.rss)))
        values = (samples.private, samples.file, samples.shmem, samples.swap)
        found["parts"] = [round(float(np.nan_to_num(part[at])), 1) for part in values]
    found["threads_seen"] = _most(samples.threads)
    found["runnable"] = _most(samples.runnable)
    looks = samples.runnable[~np.isnan(samples.runnable)]
    beyond = int((looks > attempt.threads).sum())
    found["crowded"] = (beyond >= _LOOKS and beyond >= _SHARE * len(looks)) or None
    found["transfers"] = _transfers(more) if images else None
    return {name: value for name, value in found.items() if value is not None}


def _short(value: object) -> float | int | None:
    """Return a number, an integer without a decimal point."""
    known = number(value)
    return int(known) if known is not None and known.is_integer() else known


def _most(values: NDArray[np.float64]) -> int | None:
    return None if np.isnan(values).all() else int(np.nanmax(values))


def _transfers(more: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the images that an end lists, as far as they are what they should be."""
    listed = more.get("transfers")
    if not isinstance(listed, list):
        return None
    rows = []
    for one in listed[:MOST_LISTED]:
        if isinstance(one, dict) and isinstance(path := one.get("path"), str):
            amounts = {name: _short(one.get(name)) or 0 for name in _AMOUNTS}
            rows.append(
                {
                    "path": path,
                    **amounts,
                    "kind": str(one.get("kind") or ""),
                    "remote": one.get("remote") is True,
                }
            )
    return rows or None
