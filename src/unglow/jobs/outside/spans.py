"""The steps that scripts of jobs write with `unglow.span`, each in a file of its process."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unglow.core.files import open_file
from unglow.telemetry.jsonl import SUFFIX
from unglow.telemetry.reading.parsing import parse_line, texts
from unglow.telemetry.recording.span import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_PLACE = "spans"


@dataclass
class _SpanFile:
    path: Path
    head: Mapping[str, Any] = field(default_factory=dict)
    offset: int = 0
    lines: list[dict[str, Any]] = field(default_factory=list)

    def read(self) -> None:
        """Take in complete lines that are new."""
        with contextlib.suppress(OSError), open_file(self.path) as stream:
            stream.seek(self.offset)
            complete, newline, _ = stream.read().rpartition(b"\n")
            self.offset += len(complete) + len(newline)
            records = [
                line for line in map(parse_line, complete.split(b"\n")) if isinstance(line, dict)
            ]
            self.head = self.head or next((t for t in records if t.get("kind") == "spans"), {})
            self.lines += [t for t in records if t.get("kind") in ("step", "progress")]

    def is_of(self, rule: str, wildcards: Mapping[str, str], pids: Sequence[int]) -> bool:
        """Whether a process of a job has written it."""
        if "rule" in self.head:
            return self.head["rule"] == rule and texts(self.head.get("wildcards")) == wildcards
        return self.head.get("pid") in pids


class SpanFiles:
    """Files of the processes of a run; the environment names their directory.

    Parameters
    ----------
    telemetry
        Directory of all telemetry.
    run_id
        The run.
    """

    def __init__(self, telemetry: Path, run_id: str) -> None:
        self._place = telemetry / _PLACE / run_id
        self._files: dict[str, _SpanFile] = {}
        self._place.mkdir(parents=True, exist_ok=True)
        os.environ[VARIABLE] = str(self._place)

    def lines_of(
        self, rule: str, wildcards: Mapping[str, str], pids: Sequence[int]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the lines of a job that are new, each with the name of its file."""
        for name, file in self._files.items():
            if file.is_of(rule, wildcards, pids):
                while file.lines:
                    yield name, file.lines.pop(0)

    def look(self) -> None:
        """Read what is new."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._place):  # noqa: PTH208 (names are all that is needed)
                if name.endswith(SUFFIX):
                    self._files.setdefault(name, _SpanFile(self._place / name)).read()

    def remove(self) -> None:
        """Remove the files, which have been copied, and the variable."""
        if os.environ.get(VARIABLE) == str(self._place):
            del os.environ[VARIABLE]
        shutil.rmtree(self._place, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._place.parent.rmdir()
