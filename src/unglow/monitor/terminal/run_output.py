"""Output of a run, from the records of Snakemake's logger and the run's own telemetry.

Every Snakemake with the plugin imports this module, runs of other workflows too: what draws is
imported where something is drawn. Snakemake itself is not imported: of its records only names and
plain values are used. The Snakefile adds to records of its own what a screen shows in another way
(``extra`` of `logging`):

- ``ending``: whether it is about the end of the run
- ``locked``: whether the lock of a killed run is still there
"""

from __future__ import annotations

import io
import logging
import os
import sys
import tempfile
import threading
from enum import Enum, auto
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.printable import SHOWN, WEB, clean, printable
from unglow.jobs.snakemake_command import restore_only
from unglow.results.wording import (
    BAD,
    DryRun,
    closing_sentence,
    count,
    count_pairs,
    make_console,
    name_pairs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import TextIO

    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.text import Text

    from unglow.monitor.terminal.run_watch import Event, LivePage, RunWatch
    from unglow.results.runs import Run

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
# Time, s, until a run is looked at: what that imports would delay the first jobs by 0.1 s.
_FIRST_LOOK_S = 1.0
_STYLES = {"ok": "green", "suspect": "yellow", "failed": BAD}


# Columns left free at the right: a terminal writes ^C at the cursor, and must not break the line.
_MARGIN = 4
_SMALLEST = (20, 4)


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
        self._dry = DryRun(restore_only(command))
        self._skipped = 0
        self._watch: RunWatch | None = None
        self._later: threading.Timer | None = None
        self._page: LivePage | None = None
        self._frame: LiveFrame | None = None
        self._diversion: Diversion | None = None
        self._last: list[tuple[str, str]] = []  # lines that end a run, below those of its pairs
        self._said: set[str] = set()
        if mode == Mode.SCREEN:  # what others write to the stream goes elsewhere while it draws
            terminal = os.dup(stream.fileno())
            stream = open(terminal, "w", encoding=stream.encoding, errors="replace")  # noqa: SIM115, PTH123
            self._frame = LiveFrame(stream, terminal, colours=colours)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
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

    def show_record(self, record: logging.LogRecord) -> None:
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
        later, self._later = self._later, None
        if later is not None:
            os.environ.pop(SHOWN, None)
            later.cancel()
            later.join()
            self._look().stop()
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
        if self._page is not None and self._page.lines:
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
        if self._later is not None or not self._places:
            return
        jobs = sum(n for rule, n in stats.items() if rule != "total" and not rule.endswith("all"))
        if self._mode in (Mode.SCREEN, Mode.LINES):
            for n, line in enumerate(self._header(jobs)):
                self._print(line, "" if n else "bold")
        if self._mode == Mode.SCREEN:
            self._diversion = Diversion()
        if self._mode in (Mode.SCREEN, Mode.LINES):
            os.environ[SHOWN] = "1"
            self._later = threading.Timer(_FIRST_LOOK_S, self._look)
            self._later.daemon = True
            self._later.start()

    def _look(self) -> RunWatch:
        """Start to look at the run, unless that has been done."""
        if self._watch is None:
            from unglow.monitor.terminal.run_watch import RunWatch

            self._watch = RunWatch(self._places, self._show)
            self._watch.start()
        return self._watch

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
        from unglow.monitor.terminal.run_watch import LivePage

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
            from unglow.monitor.terminal.screen import fit

            console = self._frame.console
            self._frame.draw(lambda: fit(console, runs))

    @cached_property
    def _console(self) -> Console:
        return make_console(self._stream, colours=self._colours)

    def _print(self, shown: RenderableType, style: str = "") -> None:
        if self._mode == Mode.SILENT:
            return
        if isinstance(shown, str) and not self._stream.isatty():  # without Rich: it takes 0.1 s
            with self._lock:
                self._stream.write(f"{shown}\n")
                self._stream.flush()
            return
        text = _text(shown, style) if isinstance(shown, str) else shown
        with self._lock:
            if self._frame is not None:
                self._frame.say(text)
            else:
                self._console.print(text, soft_wrap=True)
                self._console.file.flush()


def _text(text: str, style: str) -> Text:
    from rich.text import Text

    return Text(text, style=style)


def _style(record: logging.LogRecord) -> str:
    if record.levelno >= logging.ERROR:
        return BAD
    return "yellow" if record.levelno >= logging.WARNING else "default"


class LiveFrame:
    """Lines that stay, and a frame below them.

    Parameters
    ----------
    stream
        Where to write.
    terminal
        File descriptor of the terminal.
    colours
        Whether colours are wanted.
    """

    def __init__(self, stream: TextIO, terminal: int, *, colours: bool = True) -> None:
        self._stream, self._terminal, self._colours = stream, terminal, colours
        self._live: Live | None = None

    @cached_property
    def console(self) -> Console:
        """What writes to the terminal."""
        return make_console(self._stream, colours=self._colours)

    def say(self, text: RenderableType) -> None:
        """Print something above the frame, to stay."""
        self._measure()
        self.console.print(text)

    def draw(self, shown: Callable[[], RenderableType] | None) -> None:
        """Draw a frame in place of the last one; None for none.

        Parameters
        ----------
        shown
            Returns what is drawn, once the console has the size that there is.
        """
        if shown is None:
            live, self._live = self._live, None
            if live is not None:
                live.update("")  # drawn once more, as high as it is
                live.stop()
        if shown is None or not self._is_in_front():
            return
        self._measure()
        if self._live is None:
            from rich.live import Live  # only where something is drawn

            self._live = Live(
                console=self.console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="crop",
            )
            self._live.start()
            self.console.show_cursor()  # nothing has to be put right if the process is killed
        self._live.update(shown(), refresh=True)

    def _measure(self) -> None:
        """Take the size of the terminal; standard output is diverted while a frame is drawn."""
        size = os.get_terminal_size(self._terminal)
        columns = max(_SMALLEST[0], (size.columns or 80) - _MARGIN)
        self.console.size = (columns, max(_SMALLEST[1], (size.lines or 24) - 1))

    def _is_in_front(self) -> bool:
        """Whether this process is in the foreground of its terminal."""
        try:
            return os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:
            return False


class Diversion:
    """Standard output and error of this process and its jobs, in a file as long as one draws.

    Only what goes to a terminal is diverted. Nobody is held up: whoever writes, writes to a file.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed by end)
        self._read = 0
        _flush()
        self._before = {fd: os.dup(fd) for fd in (1, 2) if os.isatty(fd)}
        for fd in self._before:
            os.dup2(self._file.fileno(), fd)

    def new_lines(self, *, unfinished: bool = False) -> list[str]:
        """Return complete lines that are new; with ``unfinished``, the rest too."""
        os_size = os.fstat(self._file.fileno()).st_size
        text = os.pread(self._file.fileno(), os_size - self._read, self._read)
        lines = text if unfinished else text[: text.rfind(b"\n") + 1]
        self._read += len(lines)
        return lines.decode(errors="replace").splitlines()

    def end(self) -> list[str]:
        """Put everything back; return the lines that are left."""
        _flush()
        for fd, before in self._before.items():
            os.dup2(before, fd)
            os.close(before)
        self._before = {}
        left = self.new_lines(unfinished=True)
        self._file.close()
        return left


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
