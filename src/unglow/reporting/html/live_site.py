"""Content of the live page of results directories: pages, changes, pictures, logs."""

from __future__ import annotations

import json
import math
import threading
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from unglow.core.files import tail
from unglow.core.levels import name_of
from unglow.reporting.html.curves import compute_curve
from unglow.reporting.html.live_answers import HTML, JSON, Answer
from unglow.reporting.html.page_model import build, charts_of, flames_of
from unglow.reporting.html.report import page
from unglow.reporting.runs import RunReader
from unglow.telemetry.reading.incidents import log_files
from unglow.telemetry.reading.records import RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from unglow.reporting.html.live_answers import Part, Request
    from unglow.reporting.html.page_model import Model
    from unglow.reporting.html.thumbnails import Picture
    from unglow.reporting.runs import Run, Runs
    from unglow.telemetry.reading.history import History
    from unglow.telemetry.reading.records import Placed

# Least time between two looks, s, and their largest share of the time, for any number of pages.
_LOOK_S, _LOOKING = 0.5, 0.1
# Longest time between two looks, s; curves take another share, and are renewed after this time.
_REST_S, _CHARTING, _OLDEST_S = 3.0, 0.05, 20.0
# Points of the curve of a running job.
_POINTS = 50
# Attempts in the flame graph of a running run.
_FLAMES = 200
# How old the state of a directory may be that is only named, s.
_GLANCE_S = 5.0
TAIL_BYTES = 65536
# A log that was written later than this after an attempt's end, s, is of another attempt.
_SAME_LOG_S = 30.0


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
        self._version, self._content = 0, ""
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
            return self._version, self._model

    def outcome(self) -> str:
        """Return how the last run ended, or ``running``; empty if there was none."""
        with self._lock:
            if time.monotonic() - self._looked > _GLANCE_S:
                self._look()
            last = None if self._runs is None else self._runs.history.last
            return "" if last is None else last.outcome

    def log(self, attempt: str) -> dict[str, str]:
        """Return the log of an attempt; see `Log`."""
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
        from unglow.reporting.html.thumbnails import Sizes, pack_pictures  # noqa: PLC0415 (OpenCV)

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
        # curves may be older than progress
        model["runs"] = [
            known | {"done": run.done, "of": run.of, "left": run.left.words if run.left else ""}
            for known, run in zip(model["runs"], runs.runs, strict=False)
        ]
        self._model = model | {"now": [_now(run) for run in runs.runs if not run.is_over]}
        content = json.dumps(self._model | {"made": 0})
        self._version, self._content = self._version + (content != self._content), content
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
        a.attempt.id: (compute_curve(a.attempt, _POINTS) or {}).get("hi")
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
        """Return the model of the n-th directory, unless it is as it was in a state."""
        now, model = self.sources[n].model()
        changed = model if now != version else {"made": model["made"]}
        return {**changed, "version": now, "places": self.places(n)}

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


@dataclass(frozen=True, slots=True)
class Log:
    """The end of a log.

    Attributes
    ----------
    name
        As the attempt names it; empty if there is no such attempt.
    text
        Its last `TAIL_BYTES`, from the start of a line on.
    note
        Why there is no text, or a warning about it; empty for none.
    """

    name: str
    text: str = ""
    note: str = ""


def log_of(history: History, results: Path, attempt: str) -> Log:
    """Return the log of an attempt, given its id; only logs of these results are read."""
    for h in history.runs:
        for a in h.attempts:
            if a.attempt.id == attempt:
                return _read(a, log_files(a.attempt.log, h, results))
    return Log("", note="There is no such attempt.")


def _read(a: Placed, files: list[Path]) -> Log:
    name = a.attempt.log
    if not name:
        return Log("", note="This attempt has no log.")
    if not files:
        return Log(name, note="It is none of the logs of these results, and is not shown.")
    path = next((path for path in files if path.is_file()), None)
    if path is None:
        return Log(name, note="It is not there any more.")
    try:
        text, about = tail(path, TAIL_BYTES), path.stat()
    except OSError as error:
        return Log(name, note=f"It cannot be read ({error.strerror}).")
    if about.st_size > TAIL_BYTES:
        text = text.partition("\n")[2]
    over = a.attempt.end is not None
    later = over and about.st_mtime > a.attempt.wall + a.attempt.seconds + _SAME_LOG_S
    return Log(name, text, "A later attempt has written over it." if later else "")
