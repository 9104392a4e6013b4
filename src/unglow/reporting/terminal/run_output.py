"""Output of a run, from the records of Snakemake's logger and the run's own telemetry.

Every Snakemake with the plugin imports this module, runs of other workflows too: what draws is
imported where something is drawn. Snakemake itself is not imported: of its records only names and
plain values are used. The Snakefile adds to records of its own what a screen shows in another way
(``extra`` of `logging`):

- ``ending``: whether it is about the end of the run
- ``locked``: whether the lock of a killed run is still there
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from enum import Enum, auto
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.printable import SHOWN, WEB, clean, printable
from unglow.reporting.terminal.formatting import (
    BAD,
    DryRun,
    closing_sentence,
    count,
    count_pairs,
    make_console,
    name_pairs,
)
from unglow.reporting.terminal.live_frame import Diversion, LiveFrame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import TextIO

    from rich.console import Console, RenderableType
    from rich.text import Text

    from unglow.reporting.runs import Run
    from unglow.reporting.terminal.run_watch import Event, LivePage, RunWatch

NOTHING_TO_DO = "Nothing to be done"
_SKIPPED, _PREFLIGHT, _LOG = "skipped: ", "preflight: ", "Complete log(s): "
_REFUSED = "preflight: refused: "
# What Snakemake says when it is asked to end, and what is said instead, once.
_STOPPING = {
    "on user request": (
        "Stopping: running jobs are ended, which takes some seconds. Finished files are kept; "
        "`{}` continues."
    ),
    "Will exit after finishing currently running jobs": (
        "Stopping: no other job starts, and running jobs finish. Finished files are kept; "
        "`{}` continues."
    ),
}
# Errors that say of a failed job what its own record says better.
_JOB_ERRORS = (
    *("CalledProcessError", "At least one job did not complete successfully"),
    "Exiting because a job execution failed",
)
_MOST_SKIPPED = 3
_STYLES = {"ok": "green", "suspect": "yellow", "failed": BAD}


class Mode(Enum):
    """How a run is shown: on a screen, in lines, by its result, not at all; or what it would do."""

    SCREEN = auto()
    LINES = auto()
    QUIET = auto()
    SILENT = auto()
    PLAN = auto()


class RunOutput:
    """Prints a run.

    Parameters
    ----------
    stream
        Where to.
    mode
        How.
    command
        The words that the user typed.
    colours
        Whether Snakemake may use colours.
    """

    def __init__(
        self, stream: TextIO, mode: Mode, command: Sequence[str], *, colours: bool = True
    ) -> None:
        self._mode, self._command = mode, [*command]
        self._lock = threading.RLock()
        self._places: list[Path] = []
        self._pairs: list[tuple[str, str]] = []
        self._dry = DryRun(command)
        self._skipped = 0
        self._watch: RunWatch | None = None
        self._page: LivePage | None = None
        self._frame: LiveFrame | None = None
        self._diversion: Diversion | None = None
        self._last: list[tuple[str, str]] = []  # lines that end a run, below those of its pairs
        self._said: set[str] = set()
        if mode == Mode.SCREEN:  # what others write to the stream goes elsewhere while it draws
            terminal = os.dup(stream.fileno())
            stream = open(terminal, "w", encoding=stream.encoding, errors="replace")  # noqa: SIM115, PTH123
            self._frame = LiveFrame(stream, terminal, colours=colours)
        self._stream, self._colours = stream, colours

    def attach(
        self, *, results: Path, pairs: Sequence[tuple[str, str]], problems: Sequence[str]
    ) -> None:
        """Take facts about the batch from the Snakefile; with several modules, from each.

        Parameters
        ----------
        results
            The results directory.
        pairs
            Sample and dye of each pair, and of each slide, whose dye is ''.
        problems
            Why inputs are skipped, in sentences.
        """
        self._places.append(Path(os.path.relpath(results)))
        self._pairs += pairs
        self._dry.pairs = self._pairs
        self._dry.skipped += problems
        if self._frame is not None:
            self._frame.draw(lambda: _text("Planning the jobs ...", "dim"))

    def replace_tracebacks(self) -> None:
        """Have a sentence printed, where Snakemake does not expect Ctrl-C: while it plans."""

        def print_sentence(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            if self._frame is not None:
                self._frame.draw(None)
            if issubclass(kind, KeyboardInterrupt):
                sentence = closing_sentence("interrupted", any_failed=False, skipped=0)
                self._print(sentence, "bold yellow")
            else:
                sys.__excepthook__(kind, error, trace)

        sys.excepthook = print_sentence

    def understands(self, record: logging.LogRecord) -> bool:
        """Whether the run is one of unglow, as far as is known."""
        return bool(self._places) or str(getattr(record, "event", None) or "") != "run_info"

    def take(self, record: logging.LogRecord) -> None:
        """Show what is to be seen of a record."""
        event = str(getattr(record, "event", None) or "")
        text = str(record.getMessage()) if record.msg else ""
        if self._mode == Mode.PLAN:
            self._plan(record, event, text)
        elif event == "run_info":
            self._start(vars(record)["stats"])
        elif event in ("", "error"):
            self._message(record, text)

    def close(self) -> None:
        """Show how it ended, and leave the terminal to others."""
        watch, self._watch = self._watch, None
        if watch is not None:
            os.environ.pop(SHOWN, None)
            watch.stop()
        if self._page is not None:
            self._page.stop()
        if self._frame is not None:
            self._frame.draw(None)
        diversion, self._diversion = self._diversion, None
        if diversion is not None:
            for line in diversion.end():
                self._print(printable(line), "dim")
        for line in self._dry.lines() if self._mode == Mode.PLAN else ():
            self._print(line)
        for text, style in self._last:
            self._print(text, style)
        if self._page is not None:
            self._print(
                "The live page has ended with the run: unglow monitor --web opens it again."
            )

    # ------------------------------------------------------------------------------------ records

    def _plan(self, record: logging.LogRecord, event: str, text: str) -> None:
        if event == "job_info":
            self._dry.add_job(vars(record))
        elif event == "run_info":
            self._dry.set_rules(vars(record)["stats"])
        elif text.startswith(_REFUSED):
            self._dry.refusal = text.removeprefix(_REFUSED)
        elif text.startswith(_PREFLIGHT):
            self._dry.preflight = text.splitlines()
        elif text.startswith(NOTHING_TO_DO):
            self._dry.is_done = True
        elif record.levelno >= logging.WARNING and not text.startswith(_SKIPPED):
            self._dry.is_locked |= getattr(record, "locked", False)
            self._print(printable(text), _style(record))

    def _start(self, stats: Mapping[str, int]) -> None:
        """Print the first lines, and start to watch the run."""
        if self._watch is not None or not self._places:
            return
        jobs = sum(n for rule, n in stats.items() if rule != "total" and not rule.endswith("all"))
        if self._mode in (Mode.SCREEN, Mode.LINES):
            for n, line in enumerate(self._header(jobs)):
                self._print(line, "" if n else "bold")
        if self._mode == Mode.SCREEN:
            self._diversion = Diversion()
        if self._mode in (Mode.SCREEN, Mode.LINES):
            os.environ[SHOWN] = "1"
            from unglow.reporting.terminal.run_watch import RunWatch  # noqa: PLC0415

            self._watch = RunWatch(self._places, self._show)
            self._watch.start()

    def _header(self, jobs: int) -> list[str]:
        results = ", ".join(clean(str(place)) for place in self._places)
        pairs = f"{name_pairs(self._pairs)}; " if self._pairs else ""
        return [
            f"{pairs}{count(jobs, 'job')} to do",
            f"{'Results' if pairs else 'Record'}: {results}",
            *self._start_page(),
        ]

    def _start_page(self) -> list[str]:
        """Start the live page if it was asked for; return where it is, or how to open it."""
        if not os.environ.pop(WEB, None):
            return ["Live page: unglow monitor --web (in another terminal)"]
        from unglow.reporting.terminal.run_watch import LivePage  # noqa: PLC0415

        self._page = LivePage(self._places)
        if not self._page.lines:
            return ["The live page could not be started: see unglow monitor --web"]
        address, *more = self._page.lines
        return [f"Live page: {address.removeprefix('Open ')} (until the run ends)", *more]

    def _message(self, record: logging.LogRecord, text: str) -> None:
        """Show a message of Snakemake or of the Snakefile that matters."""
        if getattr(record, "ending", False):
            self._last.append((printable(text), _style(record)))
        elif asked := next((words for words in _STOPPING if words in text), ""):
            sentence = _STOPPING[asked].format(" ".join(self._command[:2]))
            if sentence not in self._said:
                self._said.add(sentence)
                self._print(sentence, "bold yellow")
        elif text.startswith(_LOG):
            self._last.append((f"Log of Snakemake: {printable(text.removeprefix(_LOG))}", ""))
        elif text.startswith(NOTHING_TO_DO):
            done = f"{count_pairs(self._pairs)} finished" if self._pairs else "all is made"
            self._print(f"Nothing to do: {done}.")
        elif text.startswith(_SKIPPED):
            self._skip(text)
        elif record.levelno >= logging.WARNING and not any(words in text for words in _JOB_ERRORS):
            self._print(printable(text), _style(record))

    def _skip(self, text: str) -> None:
        self._skipped += 1
        if self._skipped <= _MOST_SKIPPED:
            self._print(printable(text), "yellow")
        elif self._skipped == _MOST_SKIPPED + 1:
            self._print("More inputs are skipped: `unglow survey` shows them.", "yellow")

    # ------------------------------------------------------------------------------------- looking

    def _show(self, runs: Sequence[Run], events: Sequence[Event]) -> None:
        """Show what `RunWatch` has seen."""
        for line in self._diversion.new_lines() if self._diversion is not None else ():
            self._print(printable(line), "dim")
        for event in events:
            self._print(event.line, _STYLES.get(event.status, "default"))
        if self._frame is not None and runs:
            from unglow.reporting.terminal.screen import fit  # noqa: PLC0415

            console = self._frame.console
            self._frame.draw(lambda: fit(console, runs))

    @cached_property
    def _console(self) -> Console:
        return make_console(self._stream, colours=self._colours)

    def _print(self, shown: RenderableType, style: str = "") -> None:
        if self._mode == Mode.SILENT:
            return
        text = _text(shown, style) if isinstance(shown, str) else shown
        with self._lock:
            if self._frame is not None:
                self._frame.say(text)
            else:
                self._console.print(text, soft_wrap=True)
                self._console.file.flush()


def _text(text: str, style: str) -> Text:
    from rich.text import Text  # noqa: PLC0415

    return Text(text, style=style)


def _style(record: logging.LogRecord) -> str:
    if record.levelno >= logging.ERROR:
        return BAD
    return "yellow" if record.levelno >= logging.WARNING else "default"
