"""``unglow doctor``: what is wrong with this machine, each with what helps.

All checks run within a few seconds, whatever does not answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from unglow import doctor as checks
from unglow.cli.directories import add_working_directory, read_results_directory
from unglow.core.errors import InputError
from unglow.core.printable import say
from unglow.doctor import Finding, Level

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator


PATIENCE_S = 4.0
"""How long checks of disks may take by default, s."""
_HELPS = (
    "see if its disk or server answers (`df`, `dmesg`), or give it more time: "
    "unglow doctor --patience 60"
)


class _Checks:
    """Checks in a process of their own: one that a disk does not let go can be left behind."""

    def __init__(self, name: str, checks: Callable[[], Iterable[Finding]]) -> None:
        self._name = name
        self._answers, answer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            with contextlib.suppress(BaseException):
                self._work(checks, answer)
            os._exit(0)
        os.close(answer)

    def _work(self, checks: Callable[[], Iterable[Finding]], answer: int) -> None:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):  # whoever reads what is printed does not wait for this process
            os.dup2(nothing, stream)
        try:
            for finding in checks():
                os.write(answer, f"{json.dumps(finding)}\n".encode())
        except Exception as error:  # noqa: BLE001 (a check that fails is a finding, too)
            what = f"a check failed ({error!r})"
            failed = Finding(self._name, Level.WARNING, what, "please report it")
            os.write(answer, f"{json.dumps(failed)}\n".encode())

    def found(self, until: float) -> Iterator[Finding]:
        """Yield what is found until then (monotonic, s), and a fault for what is not."""
        said, ended = b"", False
        while not ended:
            left = max(0.0, until - time.monotonic())
            if not select.select([self._answers], [], [], left)[0]:
                break
            heard = os.read(self._answers, 1 << 16)
            said, ended = said + heard, not heard
        os.close(self._answers)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0 if ended else os.WNOHANG)
        for line in said.splitlines():
            name, level, *words = json.loads(line)
            yield Finding(name, Level(level), *words)
        if not ended:
            yield Finding(self._name, Level.FAULT, "has not answered in time", _HELPS)


def examine(directory: Path, results: Path, patience_s: float = PATIENCE_S) -> list[Finding]:
    """Return what all checks have found, in their order.

    Parameters
    ----------
    directory, results
        A working directory, and the results of its runs, which need not exist.
    patience_s
        A disk that has not answered by then, s, is a fault.
    """
    until = time.monotonic() + patience_s
    uses = {
        "working directory": directory,
        "results": results,
        "cache": Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"),
        "temporary files": Path(tempfile.gettempdir()),
    }
    looks = {use: _Checks(f"disk of {use}", partial(_look, path)) for use, path in uses.items()}
    soon = time.monotonic() + patience_s / 4
    silent = {use: [*look.found(soon)] for use, look in looks.items()}
    answering = {use: path for use, path in uses.items() if not silent[use]}
    away = [
        _Checks(f"disk of {place.use}", partial(checks.check, place))
        for place in checks.places(answering)
    ]
    found = [
        checks.check_processors(),
        checks.check_memory(),
        checks.limits(),
        checks.versions(),
        checks.loops(),
        checks.opencv(),
    ]
    for disk in away:
        found += disk.found(until)
    return [*found, *(finding for use in uses for finding in silent[use])]


def _look(path: Path) -> tuple[Finding, ...]:
    """See if a path answers at all."""
    path.exists()
    return ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow doctor` to a parser."""
    parser.description = (
        "Check this machine for unglow: versions, processors, memory, limits, disks, locks and "
        "clocks. It takes up to five seconds. Paste the output into bug reports. The exit status "
        "is 1 if there is a fault."
    )
    add_working_directory(parser, "working directory of the run")
    about = "results directory (default: as configured)"
    parser.add_argument("--results", type=Path, metavar="DIR", help=about)
    about = f"s that a disk may take to answer (default: {PATIENCE_S:g})"
    parser.add_argument("--patience", type=float, default=PATIENCE_S, metavar="S", help=about)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print what was found; return 1 if there is a fault."""
    directory = arguments.directory
    if not directory.is_dir():
        raise InputError(f"{directory} is not a directory; give the working directory of a run.")
    results = arguments.results or read_results_directory(directory)
    found = examine(directory, results, arguments.patience)
    if arguments.json:
        say(json.dumps([finding._asdict() for finding in found], indent=1))
    else:
        say("\n".join(lines(found)))
    return int(any(finding.level is Level.FAULT for finding in found))


def lines(found: Iterable[Finding]) -> list[str]:
    """Return a line for each finding, and one with what helps for each that is not ok."""
    lines = []
    for finding in found:
        lines.append(f"{finding.level:8} {finding.name}: {finding.found}")
        if finding.remedy:
            lines.append(f"         -> {finding.remedy}")
    return lines
