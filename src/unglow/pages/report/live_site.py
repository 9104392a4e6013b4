"""Content of the live page of results directories: pages, changes, pictures, logs."""

from __future__ import annotations

import json
import math
import threading
import time
from dataclasses import asdict, replace
from functools import partial
from http import HTTPStatus
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from unglow.core.levels import name_of
from unglow.pages.report.live_answers import HTML, JSON, Answer
from unglow.pages.report.page_model import build, charts_of, compute_curve, flames_of
from unglow.pages.report.report import page
from unglow.results.runs import RunReader
from unglow.telemetry.reading.incidents import log_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from unglow.pages.report.live_answers import Part, Request
    from unglow.pages.report.page_model import Model
    from unglow.pages.report.thumbnails import Picture
    from unglow.results.runs import Run, Runs
    from unglow.telemetry.reading.records import Attempt

# Least and longest time between two looks, s, and their largest share of the time, for any number
# of pages; curves take another share, and are renewed after this time, s.
_LOOK_S, _REST_S, _LOOKING = 0.5, 12.0, 0.03
_CHARTING, _OLDEST_S = 0.02, 60.0
# Points of the curve of a running job.
_POINTS = 50
# What is said of a running run as it is.
_OF_RUN = ("done", "of", "budget_mb", "machine_mb", "used_mb", "declared_mb")
_OF_JOB = (
    *("id", "title", "step", "number", "now_mb", "peak_mb", "declared_mb", "cores", "threads"),
    *("share", "host"),
)
# Attempts in the flame graph of a running run.
_FLAMES = 200
# How old the state of a directory may be that is only named, s.
_GLANCE_S = 5.0


class Source:
    """A results directory as pages show it; any thread may ask.

    Parameters
    ----------
    results
        The directory.
    name
        What it is called on pages.
    """

    def __init__(self, results: Path, name: str) -> None:
        self.results, self.name = results, name
        self._reader = RunReader(results)
        self._runs: Runs | None = None
        self._version = 0
        self._model: Model = {}
        self._changed: dict[str, int] = {}  # state in which a key of it has changed last
        self._attempts_changed: list[int] = []
        self._looked = self._next = self._charts_due = -math.inf
        self._charting = 0.0
        self._charts: Model = {}
        self._outcomes: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self._drawing = threading.Lock()

    def model(self) -> tuple[int, Model]:
        """Return the model as it is, and the number of its state."""
        with self._lock:
            self._look()
            return self._version, self._model

    def news(self, version: int) -> Model:
        """Return what has changed of the model since a state; of ``attempts``, (place, attempt)."""
        now, model = self.model()
        found: Model = {key: model[key] for key, at in self._changed.items() if at > version}
        if "attempts" in found:
            changed = enumerate(self._attempts_changed)
            found["attempts"] = [(n, model["attempts"][n]) for n, at in changed if at > version]
        return found | {"version": now, "made": model["made"], "tried": len(model["attempts"])}

    def outcome(self) -> str:
        """Return how the last run ended, or ``running``; empty if there was none."""
        with self._lock:
            if time.monotonic() - self._looked > _GLANCE_S:
                self._look()
            last = None if self._runs is None else self._runs.history.last
            return "" if last is None else last.outcome

    def log(self, attempt: str) -> dict[str, str]:
        """Return the log of an attempt; see `unglow.telemetry.reading.incidents.Log`."""
        with self._lock:
            self._look()
            runs = self._runs
        return {} if runs is None else asdict(log_of(runs.history, self.results, attempt))

    def flames(self) -> Model | None:
        """Return what the flame graph of the last run is drawn from, as of now."""
        with self._lock:
            self._look()
            runs = self._runs
        return None if runs is None else flames_of(runs, _FLAMES)

    def pictures(self, pair: str, *, small: bool) -> Sequence[Picture]:
        """Return the pictures of a pair or slide, by its name on pages; none if there is none.

        ``small`` are few and small, as for a row of a table.
        """
        from unglow.pages.report.thumbnails import Sizes, pack_pictures  # OpenCV

        _, model = self.model()
        slides = ({"sample": slide} for slide in model.get("slides", ()))
        rows = [row for row in (*model["pairs"], *slides) if name_of(row) == pair][:1]
        with self._drawing:
            sizes = Sizes(320, 0, 0) if small else Sizes.choose(1)
            return [p for g in pack_pictures(self.results, rows, sizes=sizes) for p in g]

    def _look(self) -> None:
        began = time.monotonic()
        if began < self._next:
            return
        runs = self._runs = self._reader.read()
        model = build(runs, live=True, charts=self._charts_of(runs))
        model["runs"] = [  # curves may be older than progress
            known | {"done": run.done, "of": run.of, "left": run.left_words}
            for known, run in zip(model["runs"], runs.runs, strict=False)
        ]
        self._replace(model | {"now": [_now(run) for run in runs.runs if not run.is_over]})
        self._looked = time.monotonic()
        took = self._looked - began - self._charting
        self._next = self._looked + min(max(_LOOK_S, took / _LOOKING - took), _REST_S)

    def _replace(self, model: Model) -> None:
        """Take another model, and note what is not as it was."""
        before, version = self._model, self._version + 1
        changed = [key for key in model if key not in before or model[key] != before[key]]
        if changed != ["made"]:
            self._version = version
            self._changed |= dict.fromkeys(changed, version)
            both = zip_longest(before.get("attempts", ()), model["attempts"])
            known = zip_longest(both, self._attempts_changed)
            self._attempts_changed = [
                at if old == new else version for (old, new), at in known if new is not None
            ]
        self._model = model

    def _charts_of(self, runs: Runs) -> Model:
        """Return curves of runs and attempts, which may be older the longer they take."""
        outcomes = [(h.run.id, h.outcome) for h in runs.history.runs]
        began = time.monotonic()
        if began >= self._charts_due or outcomes != self._outcomes:
            self._charts, self._outcomes = charts_of(runs), outcomes
            took = time.monotonic() - began
            self._charts_due = began + min(took / _CHARTING, _OLDEST_S)
        self._charting = time.monotonic() - began
        return self._charts


def _now(run: Run) -> dict[str, Any]:
    """Return what a running run uses at this moment."""
    return {
        **{name: getattr(run, name) for name in _OF_RUN},
        "run": run.id,
        "seconds": round(run.seconds),
        "left": run.left_words,
        "rules": [asdict(row) | {"words": row.words} for row in run.rules],
        "available_mb": None if run.available_mb is None else round(run.available_mb, -1),
        "jobs": [_describe(job) for job in run.running],
    }


def _describe(job: Attempt) -> dict[str, Any]:
    """Return a running job; one that has not written its file yet has neither id nor time."""
    curve = compute_curve(job, _POINTS) or {}
    shown = {name: getattr(job, name) for name in _OF_JOB}
    return shown | {"seconds": job.seconds if job.id else None, "curve": curve.get("hi")}


class Site:
    """All that can be asked for, below the address with the token.

    Parameters
    ----------
    places
        The results directories; the first is shown first.
    parts
        What else there is to see of each directory: the name in addresses, and what makes it.
    """

    def __init__(
        self, places: Sequence[Path], parts: Mapping[str, Callable[[Source], Part]] | None = None
    ) -> None:
        self.sources = [Source(place, str(place)) for place in places]
        made = (parts or {}).items()
        self._parts = [{name: make(s) for name, make in made} for s in self.sources]

    def found(self, request: Request) -> Callable[[], Answer]:
        """Return what makes the answer to a request; KeyError or ValueError if there is no such."""
        place, kind, *rest = request.parts
        n, asked = int(place), request.query
        if not 0 <= n < len(self.sources):
            raise KeyError(n)
        if kind in self._parts[n]:
            below = replace(request, parts=tuple(rest))
            return partial(self._parts[n][kind].answer, below)
        if rest:
            raise KeyError(kind)
        if request.method != "GET":
            text, status = "Nothing can be sent to this page.\n", HTTPStatus.METHOD_NOT_ALLOWED
            return lambda: Answer.text(text, status=status)
        content: Callable[[], object]
        match kind:
            case "":
                return lambda: Answer.text(self.page(n), HTML)
            case "news":
                content = partial(self.news, n, int(asked["since"]))
            case "log":
                content = partial(self.sources[n].log, asked["attempt"])
            case "flames":
                content = self.sources[n].flames
            case "pictures":
                content = partial(self.pictures, n, asked["pair"], small="small" in asked)
            case _:
                raise KeyError(kind)
        return lambda: Answer.text(json.dumps(content()), JSON)

    def page(self, n: int) -> str:
        """Return the page of the n-th directory; pictures come later."""
        source = self.sources[n]
        version, model = source.model()
        state = {"version": version, "places": self.places(n), "parts": [*self._parts[n]]}
        return page(model | state, (), title=f"unglow monitor: {source.name}")

    def news(self, n: int, version: int) -> dict[str, Any]:
        """Return what has changed of the model of the n-th directory since a state."""
        return self.sources[n].news(version) | {"places": self.places(n)}

    def pictures(self, n: int, pair: str, *, small: bool) -> list[dict[str, str]]:
        """Return the pictures of a pair of the n-th directory; no figure itself is served."""
        found = self.sources[n].pictures(pair, small=small)
        return [asdict(p) | {"file": ""} for p in found if p.image or p.problem]

    def places(self, shown: int) -> list[dict[str, Any]]:
        """Return names and states of all directories."""
        return [
            {"name": s.name, "outcome": s.outcome(), "shown": n == shown}
            for n, s in enumerate(self.sources)
        ]
