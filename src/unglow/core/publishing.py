"""Who may publish: what is asked just before a finished file gets its final name.

The rooms that publish (small files, stores) know nothing of jobs and attempts. A process that has
to be asked first sets a guard; without one, everything may be published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_guard: Callable[[], None] | None = None


def guard_with(guard: Callable[[], None] | None) -> None:
    """From here on, have this process ask before it publishes; None for asking no more.

    Parameters
    ----------
    guard
        Raises `unglow.core.errors.SupersededError` if nothing may be published any more.
    """
    global _guard  # noqa: PLW0603 (a process is one job)
    _guard = guard


def ask() -> None:
    """Ask whether what is finished may get its final name; call it last of all before renaming.

    Raises
    ------
    SupersededError
        Another attempt at the same job has begun meanwhile, and this one is to leave no trace.
    """
    if _guard is not None:
        _guard()
