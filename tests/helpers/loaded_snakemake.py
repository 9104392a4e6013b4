"""Snakemake with its libraries loaded: each command runs in a copy of that process.

Loading them takes most of the time of what tests ask of it. A copy is the process of the command:
it has its directory, environment and words, calls what the installed script calls, and starts jobs
as ever. Only its command line, as others see it, is another one.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from pathlib import Path

# What each of them comes to need.
LIBRARIES = (
    "snakemake.cli",
    "snakemake.dag",
    "snakemake.executors.local",
    "unglow.telemetry.recording.run",
    "unglow.workflow.batch",
    "unglow.workflow.preflight",
)


def run(
    directory: Path, words: list[str], environment: dict[str, str], timeout: int
) -> tuple[int, str]:
    """Run ``snakemake`` to its end; exit status and output. A signal ends it after the timeout."""
    with tempfile.NamedTemporaryFile("r") as output:
        request = (str(directory), words, environment, timeout, output.name)
        server = _server()
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        return int(server.stdout.readline()), output.read()


@cache
def _server() -> subprocess.Popen[str]:
    """Start the process that is copied. It ends with this one, which closes its input."""
    words = [sys.executable, "-P", __file__]
    server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.communicate)
    return server


def _serve() -> None:
    """Copy this process for each line that comes, and report how the copy ended."""
    for name in LIBRARIES:
        import_module(name)
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    for line in requests:
        number = os.fork()
        if number == 0:
            _become(*json.loads(line))
        _, status = os.waitpid(number, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _become(
    directory: str, words: list[str], environment: dict[str, str], timeout: int, output: str
) -> NoReturn:
    """Be the command, up to its end."""
    status: Any = 1
    try:
        into = os.open(output, os.O_WRONLY)
        os.dup2(into, 1)
        os.dup2(into, 2)
        os.close(into)
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = words
        signal.alarm(timeout)
        sys.modules["snakemake.cli"].main()
    except SystemExit as end:
        status = end.code or 0
    except BaseException:  # noqa: BLE001 (as Python itself reports what nobody has caught)
        traceback.print_exc()
    # as at the end of any process, but for what the first one has open
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    _serve()
