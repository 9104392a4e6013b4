"""Progress of what takes long: nothing for some seconds, then a line now and again."""

from __future__ import annotations

import io

import pytest

from unglow.core import progress
from unglow.core.progress import track_progress


class Stream(io.StringIO):
    def __init__(self, *, at_terminal):
        super().__init__()
        self.at_terminal = at_terminal

    def isatty(self):
        return self.at_terminal


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def walk(clock, step, *, at_terminal, count=10):
    stream, seen = Stream(at_terminal=at_terminal), []
    for item in track_progress(range(count), "pairs read", stream):
        seen.append(item)
        clock[0] += step
    assert seen == list(range(count))
    return stream.getvalue()


def test_what_is_quick_says_nothing(clock):
    assert walk(clock, 0.2, at_terminal=False) == ""
    assert walk(clock, 0.2, at_terminal=True) == ""


def test_a_log_gets_a_line_every_few_seconds(clock):
    lines = walk(clock, 1.5, at_terminal=False).splitlines()
    assert lines == [f"pairs read: {n} of 10" for n in (2, 4, 6, 8)]


def test_a_terminal_has_one_line_that_changes_and_goes(clock):
    text = walk(clock, 1.5, at_terminal=True)
    assert text.startswith("\rpairs read: 2 of 10\rpairs read: 3 of 10")
    assert text.endswith("\r\033[K")
    assert "\n" not in text
