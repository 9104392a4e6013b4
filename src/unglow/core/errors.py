"""The errors that a user is meant to read: one sentence that says what is wrong and what to do."""

from __future__ import annotations

from unglow.core.printable import escape_controls


class UnglowError(Exception):
    """An error whose message is one complete sentence for the user, with no traceback needed.

    Several arguments are several lines; a name that breaks a line does not.
    """

    def __str__(self) -> str:
        """Return the sentence; names of files in it cannot act on a terminal."""
        return "\n".join(escape_controls(str(line)).replace("\n", "\\n") for line in self.args)


def describe(error: BaseException) -> str:
    """Return the message of an error for users, or type and text of one not meant for them."""
    if isinstance(error, UnglowError | OSError):
        return escape_controls(str(error))
    return escape_controls(f"{type(error).__name__}: {error}")


class InputError(UnglowError):
    """A raw file, a sample sheet or a directory is not usable; the message names it."""


class ConfigError(UnglowError):
    """A configuration value is missing, of the wrong type or out of range."""


class StoreError(UnglowError):
    """An OME-Zarr store is absent, incomplete or damaged."""


class ChangedError(UnglowError):
    """A raw file became another one while it was read."""


class SupersededError(UnglowError):
    """A later attempt at the same job has started, so this one may publish nothing."""

    def __init__(self) -> None:
        super().__init__(
            "another attempt at this job has started meanwhile, so this one has published nothing; "
            "there is nothing to do."
        )


class InstallationError(UnglowError):
    """A part of unglow's own installation is missing, or does not belong to the rest."""
