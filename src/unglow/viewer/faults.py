"""What goes wrong with results that are damaged, were edited, or were made to harm."""

from __future__ import annotations

from unglow.core.errors import UnglowError


class NoAddressError(Exception):
    """There is no such address: nothing that has to be there is missing."""


UNREADABLE = (
    *(UnglowError, OSError, MemoryError, RecursionError),
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError),
)
"""Errors of reading and computing where a file holds what no stage writes."""


def sentence_of(error: BaseException) -> str:
    """Return what is told of an error."""
    if isinstance(error, UnglowError):
        return str(error)
    return f"The results cannot be read ({type(error).__name__}: {error})."
