"""A job in a debugger, `unglow debug`: it runs in the process of its script, at the terminal.

Without a second process there is nothing that measures it or ends it: no samples, no limits of
memory and time. Results are the same.
"""

from __future__ import annotations

import os
import pdb  # noqa: T100 (it is what this module is for)
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType, TracebackType

VARIABLE = "UNGLOW_DEBUG"
"""Variable that `unglow debug` sets for the job."""


def is_debugged() -> bool:
    """Whether this process runs its job in a debugger."""
    return bool(os.environ.get(VARIABLE))


def stop_at(frame: FrameType) -> None:
    """Have the debugger stop at the next line of a frame."""
    pdb.Pdb(nosigint=True).set_trace(frame)


def look_at(error: BaseException, trace: TracebackType | None) -> None:
    """Show an error, and open the debugger where it was raised."""
    traceback.print_exception(error)
    if trace is not None:
        pdb.post_mortem(trace)
