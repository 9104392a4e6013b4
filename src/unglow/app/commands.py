"""Commands that the app gives for its users: survey, preflight, run and stop.

They are the commands of a terminal, as processes of their own. A run is in a session of its own:
it outlives the page, the server and the terminal.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError
from unglow.core.files import tail
from unglow.core.machine import processors
from unglow.core.printable import harmless, printable
from unglow.jobs.run_records import end_jobs, find_running, finish_jobs

if TYPE_CHECKING:
    from pathlib import Path

_PATIENCE_S = 900
_SECOND = "A run is at work here already: wait until it ends, or stop it first."
_TAIL_BYTES = 6000
# -P: what happens to lie in the directory is no library
_UNGLOW = (sys.executable, "-Pm", "unglow")
_OUTPUT = (".snakemake", "log", "unglow-app.log")


class Commands:
    """What is started in a working directory; any thread may ask.

    Parameters
    ----------
    directory
        The working directory.
    results
        Its results directory.
    """

    def __init__(self, directory: Path, results: Path) -> None:
        self.directory, self.results = directory, results
        self._lock, self._asking = threading.Lock(), threading.Lock()
        self._run: subprocess.Popen[bytes] | None = None

    def survey(self) -> dict[str, Any]:
        """Return what `unglow survey --json` finds; InputError with its sentence if it fails."""
        done = self._ask("survey", "--json")
        try:
            found: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            raise InputError(_last_sentence(done)) from None
        return found

    def preflight(self, cores: int | None) -> dict[str, Any]:
        """Return the lines of `unglow preflight`, and whether a run would be ``refused``."""
        done = self._ask("preflight", *_words(cores))
        if done.returncode not in (0, 1):
            raise InputError(_last_sentence(done))
        return {"text": harmless(done.stdout.strip()), "refused": done.returncode == 1}

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        with self._asking:
            try:
                return subprocess.run(  # noqa: S603 (words are ours, and numbers)
                    [*_UNGLOW, *words],
                    cwd=self.directory,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    encoding="utf-8",
                    errors="backslashreplace",
                    timeout=_PATIENCE_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise InputError(
                    f"`unglow {words[0]}` took more than {_PATIENCE_S} s: give it in a terminal."
                ) from None

    def start(self, cores: int | None) -> None:
        """Start a run.

        Raises
        ------
        InputError
            One is at work here already, or the directory may not be written.
        """
        with self._lock:
            if self._lives() or find_running(self.results) is not None:
                raise InputError(_SECOND)
            output = self.directory.joinpath(*_OUTPUT)
            if not output.resolve().is_relative_to(self.directory.resolve()):
                raise InputError(f"{output} leads out of {self.directory}: remove that link.")
            try:
                descriptor = _open_output(output)
            except OSError as error:
                raise InputError(
                    f"{self.directory} may not be written ({error.strerror}), so nothing can run "
                    "there: start `unglow app` in a directory of your own."
                ) from error
            try:
                self._run = subprocess.Popen(  # noqa: S603 (so are these)
                    [*_UNGLOW, "run", *_words(cores)],
                    cwd=self.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=descriptor,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            finally:
                os.close(descriptor)

    def stop(self, *, now: bool) -> str:
        """End the run after its running jobs, or at once; return what happens, in a sentence."""
        with self._lock:
            trace = find_running(self.results)
            if trace is None:
                if self._run is not None and self._lives():  # it has only just been started
                    self._run.terminate()
                    return "The run is stopped before its first job."
                return "Nothing runs any more."
            if now:
                end_jobs(trace, self.results)
                return "The run has been stopped. Run continues with what is missing."
            finish_jobs(trace)
            return "Running jobs finish, and no other job starts. Run continues later."

    def state(self) -> dict[str, Any]:
        """Return whether a run is at work, and how the last one of this server has ended."""
        with self._lock:
            own = self._lives()
            code = None if self._run is None else self._run.returncode
        try:
            running, why = own or find_running(self.results) is not None, ""
        except InputError as error:
            running, why = True, str(error)
        output = self.directory.joinpath(*_OUTPUT)
        text = ""
        if output.is_file():
            text = harmless(tail(output, _TAIL_BYTES)).strip()
        return {"running": running, "why": printable(why), "code": code, "output": text}

    def _lives(self) -> bool:
        return self._run is not None and self._run.poll() is None


def _open_output(path: Path) -> int:
    """Open the file that a run prints to, and keep other servers from starting one meanwhile.

    The lock is that of the open file: the run inherits it, and holds it until it ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError(_SECOND) from None
    except OSError:  # a file system without locks: Snakemake has one of its own
        pass
    os.truncate(descriptor, 0)
    return descriptor


def _words(cores: int | None) -> list[str]:
    return ["--cores", "all" if cores is None else str(cores)]


def cores_of(sent: object) -> int | None:
    """Return a number of cores that was sent; None for all. InputError for anything else."""
    if sent is None:
        return None
    if isinstance(sent, bool) or not isinstance(sent, int) or not 1 <= sent <= processors():
        raise InputError(f"Cores have to be a number from 1 to {processors()}.")
    return sent


def command(directory: Path, *words: str) -> str:
    """Return a command for a shell that does the same in a terminal."""
    return f"cd {shlex.quote(str(directory))} && {shlex.join(['unglow', *words])}"


def _last_sentence(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return printable(lines[-1]) if lines else f"The command ended with status {done.returncode}."
