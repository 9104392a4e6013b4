"""The lower part of a terminal that rich draws again and again, below lines that stay."""

from __future__ import annotations

import os
import sys
import tempfile
from functools import cached_property
from typing import TYPE_CHECKING

from unglow.reporting.terminal.formatting import make_console

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from rich.console import Console, RenderableType
    from rich.live import Live

# Columns left free at the right: a terminal writes ^C at the cursor, and must not break the line.
_MARGIN = 4
_SMALLEST = (20, 4)


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
            from rich.live import Live  # noqa: PLC0415 (only where something is drawn)

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
