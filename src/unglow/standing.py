"""How far each pair is: what is there, what is missing, what runs and what went wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unglow.forecast import tasks_of
from unglow.summary import read_summary
from unglow.telemetry.records import ENDED_WELL, RUNNING

if TYPE_CHECKING:
    from pathlib import Path

    from unglow.batch import Batch
    from unglow.telemetry.history import History, Placed

Pair = tuple[str, str]
_WORST = ("failed", "suspect", "ok")


@dataclass(frozen=True, slots=True)
class Standing:
    """One pair.

    Attributes
    ----------
    status
        ``running``, ``broken`` (a job failed and is not there yet), ``waiting`` (jobs are missing),
        or, when all is there, what the summary says: ``ok``, ``suspect`` or ``failed``.
    done, of
        Jobs whose results are there, and all jobs of the pair.
    note
        What runs, what went wrong, or what is missing.
    """

    sample: str
    dye: str
    status: str
    done: int
    of: int
    note: str = ""


def standings(batch: Batch, results: Path, history: History) -> list[Standing]:
    """Return how far each pair of a batch is, then the pairs that were left out.

    Parameters
    ----------
    batch
        The pairs and settings.
    results
        The results directory.
    history
        Its telemetry.
    """
    every = Counter(_pair(task.track) for task in tasks_of(batch, results, again=True))
    missing: dict[Pair, list[str]] = {}
    for task in tasks_of(batch, results):
        missing.setdefault(_pair(task.track), []).append(task.rule)
    latest = {a.attempt.job: a for h in history.runs for a in h.attempts}
    verdicts = _verdicts(results)
    found = []
    for key in batch.pairs:
        left = missing.get(key, [])
        own = [a for a in latest.values() if _of(a) == key]
        status, note = _told(left, own, verdicts.get(key))
        found.append(Standing(*key, status, every[key] - len(left), every[key], note))
    for problem in batch.problems:
        names = (problem.sample or "", problem.dye or "")
        found.append(Standing(*names, "left out", 0, 0, problem.message))
    return found


def _told(
    left: list[str], attempts: list[Placed], verdict: dict[str, str] | None
) -> tuple[str, str]:
    """Return the status of a pair and what there is to say about it."""
    running = [a.attempt for a in attempts if a.outcome == RUNNING]
    if running:
        return RUNNING, ", ".join(_at_work(attempt) for attempt in running)
    failed = [a for a in attempts if a.outcome != ENDED_WELL and a.attempt.rule in left]
    if failed:
        last = max(failed, key=lambda a: a.attempt.wall)
        end = last.attempt.end
        sentence = end.message if end is not None and end.message else last.outcome
        return "broken", f"{last.attempt.stage}: {sentence}"
    if left:
        names = ", ".join(dict.fromkeys(left))
        return "waiting", f"{names} to do"
    return (verdict["status"], verdict["reasons"]) if verdict else ("done", "")


def _at_work(attempt: Any) -> str:
    share = f", {attempt.done / attempt.of:.0%}" if attempt.of and attempt.done is not None else ""
    return f"{attempt.stage} ({attempt.seconds:.0f} s{share})"


def _pair(track: str) -> Pair:
    sample, dye, *_ = (*track.split("/"), "")
    return sample, dye


def _of(a: Placed) -> Pair:
    names = a.attempt.wildcards
    return names.get("sample", ""), names.get("dye", "")


def _verdicts(results: Path) -> dict[Pair, dict[str, str]]:
    """Return status and reasons of each pair, of its worst variant, as the summary has them."""
    try:
        rows = read_summary(results / "summary.tsv")
    except OSError:
        return {}
    found: dict[Pair, dict[str, str]] = {}
    for status in reversed(_WORST):
        for row in rows:
            if row.get("status") == status:
                known = {"status": status, "reasons": row.get("reasons") or ""}
                found[row["sample"], row["dye"]] = known
    return found
