"""Snakemake as `unglow run` starts it: without the line about the profile that it always names.

It also ends at once, where Python would first take apart all that Snakemake has imported.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TextIO

_START, _END = "Using workflow specific profile ", "for setting default command line arguments."


class ProfileLineFilter:
    """A stream without this line; everything else reaches it unchanged.

    Snakemake prints it before it loads any logger plugin.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drops_newline = False

    def write(self, text: str) -> int:
        """Write a text, unless it is that line or its end."""
        if self._drops_newline and text == "\n":
            self._drops_newline = False
            return len(text)
        if text.startswith(_START) and text.endswith(_END):
            self._drops_newline = True
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


if __name__ == "__main__":
    from snakemake.cli import main

    from unglow.jobs.watchdog import leave

    if "--verbose" not in sys.argv:
        sys.stderr = ProfileLineFilter(sys.stderr)
    sys.argv[0] = "snakemake"  # the name in its usage
    try:
        main()
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        leave(end.code)
