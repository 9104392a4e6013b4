"""What the browser's view of results directories consists of: pages, news, pictures, logs."""

from __future__ import annotations

import json
import math
import threading
import time
from dataclasses import asdict, replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from unglow.core.levels import name_of
from unglow.reporting.html.curves import of_attempt
from unglow.reporting.html.live_answers import HTML, JSON, Answer
from unglow.reporting.html.live_changes import Changes
from unglow.reporting.html.live_logs import log_of
from unglow.reporting.html.page import page
from unglow.reporting.html.page_model import build, charts_of, flames_of
from unglow.reporting.runs import RunReader
from unglow.telemetry.reading.records import RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from unglow.reporting.html.live_answers import Part, Request
    from unglow.reporting.html.page_model import Model
    from unglow.reporting.html.thumbnails import Picture
    from unglow.reporting.runs import Run, Runs

# However many pages ask: at most one look in so many s, and at most this share of the time.
_LOOK_S, _LOOKING = 0.5, 0.2
# Not even a look that takes long keeps news back for longer, s; curves take another share.
_REST_S, _CHARTING, _OLDEST_S = 3.0, 0.1, 20.0
# Points of the curve of a running job.
_POINTS = 50
# Attempts in the flame graph of a run that goes on.
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
        self._changes = Changes()
        self._runs: Runs | None = None
        self._model: Model = {}
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
            return self._changes.version, self._model

    def news(self, version: int) -> dict[str, Any]:
        """Return what has changed after a state; see `Changes.since`."""
        with self._lock:
            self._look()
            return self._changes.since(version)

    def outcome(self) -> str:
        """Return how the last run ended, or ``running``; empty if there was none."""
        with self._lock:
            if time.monotonic() - self._looked > _GLANCE_S:
                self._look()
            last = None if self._runs is None else self._runs.history.last
            return "" if last is None else last.outcome

    def log(self, attempt: str) -> dict[str, str]:
        """Return the log of an attempt; see `unglow.reporting.html.live_logs.Log`."""
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
        from unglow.reporting.html.thumbnails import Sizes, packed_pictures  # noqa: PLC0415 (OpenCV)

        _, model = self.model()
        slides = ({"sample": slide} for slide in model.get("slides", ()))
        rows = [row for row in (*model["pairs"], *slides) if name_of(row) == pair][:1]
        with self._drawing:
            sizes = Sizes(320, 0, 0) if small else Sizes.of(1)
            return [p for g in packed_pictures(self.results, rows, sizes=sizes) for p in g]

    def _look(self) -> None:
        began = time.monotonic()
        if began < self._next:
            return
        runs = self._runs = self._reader.read()
        model = build(runs, live=True, charts=self._charts_of(runs))
        self._model = model | {"now": [_now(run) for run in runs.runs if not run.is_over]}
        self._changes.take(self._model)
        self._looked = time.monotonic()
        took = self._looked - began - self._charting
        self._next = self._looked + min(max(_LOOK_S, took / _LOOKING - took), _REST_S)

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
    curves = {
        a.attempt.id: (of_attempt(a.attempt, _POINTS) or {}).get("hi")
        for a in run.history.attempts
        if a.outcome == RUNNING
    }
    return {
        "run": run.id,
        "seconds": round(run.seconds),
        "left": run.left.words if run.left is not None else "",
        "done": run.done,
        "of": run.of,
        "rules": [asdict(row) | {"words": row.words} for row in run.rules],
        "budget_mb": run.budget_mb,
        "machine_mb": run.machine_mb,
        "available_mb": None if run.available_mb is None else round(run.available_mb, -1),
        "used_mb": run.used_mb,
        "declared_mb": run.declared_mb,
        "jobs": [asdict(job) | {"curve": curves.get(job.attempt)} for job in run.running],
    }


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
        if kind == "":
            return lambda: Answer.text(self.page(n), HTML)
        content = self._content(n, kind, asked)
        return lambda: _json(content())

    def _content(self, n: int, kind: str, asked: Mapping[str, str]) -> Callable[[], object]:
        """Return what makes the answer of the n-th directory to what a page asks for later."""
        match kind:
            case "news":
                return partial(self.news, n, int(asked["since"]))
            case "log":
                return partial(self.sources[n].log, asked["attempt"])
            case "flames":
                return self.sources[n].flames
            case "pictures":
                return partial(self.pictures, n, asked["pair"], small="small" in asked)
        raise KeyError(kind)

    def page(self, n: int) -> str:
        """Return the page of the n-th directory; pictures come later."""
        source = self.sources[n]
        version, model = source.model()
        state = {"version": version, "places": self.places(n), "parts": [*self._parts[n]]}
        return page(model | state, (), title=f"unglow monitor: {source.name}")

    def news(self, n: int, version: int) -> dict[str, Any]:
        """Return what has changed in the n-th directory after a state."""
        return {**self.sources[n].news(version), "places": self.places(n)}

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


def _json(content: object) -> Answer:
    return Answer.text(json.dumps(content), JSON)
