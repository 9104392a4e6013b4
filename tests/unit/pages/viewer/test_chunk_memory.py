"""Computed chunks: once for all who ask, one at a time, for nobody who has gone."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from unglow.pages.viewer.computed_stores import ChunkMemory, UnwantedError


def wanted():
    return True


class Held:
    """A chunk whose making can be held."""

    def __init__(self, content=b"x"):
        self.started, self.go_on = threading.Event(), threading.Event()
        self.made, self._content = 0, content

    def __call__(self):
        self.started.set()
        assert self.go_on.wait(300)
        self.made += 1
        return self._content


def asked(memory, key, make, is_wanted=wanted):
    """Ask in a thread of its own; returns it and where the answer will be."""
    found = []

    def ask():
        try:
            found.append(memory.get(key, make, is_wanted))
        except Exception as error:  # noqa: BLE001 (the test looks at it)
            found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread, found


def waiting_for(condition):
    while not condition():
        time.sleep(0.001)


def test_who_asks_for_the_same_chunk_waits_for_it():
    memory, held = ChunkMemory(), Held()
    asking = [asked(memory, "a", held) for _ in range(5)]
    assert held.started.wait(300)
    held.go_on.set()
    for thread, _ in asking:
        thread.join()
    assert [found for _, found in asking] == [[b"x"]] * 5
    assert held.made == 1
    assert memory.get("a", held, wanted) == b"x"
    assert held.made == 1


def test_one_is_computed_at_a_time():
    memory, first, second = ChunkMemory(), Held(b"1"), Held(b"2")
    one = asked(memory, "a", first)
    assert first.started.wait(300)
    two = asked(memory, "b", second)
    waiting_for(lambda: "b" in memory._waiting)
    assert not second.started.is_set()
    first.go_on.set()
    assert second.started.wait(300)
    second.go_on.set()
    for thread, _ in (one, two):
        thread.join()
    assert (one[1], two[1]) == ([b"1"], [b"2"])


def test_what_nobody_waits_for_is_not_computed():
    memory, held, calls = ChunkMemory(), Held(), []
    first = asked(memory, "a", held)
    assert held.started.wait(300)
    gone = asked(memory, "b", lambda: calls.append(1) or b"gone", lambda: False)
    waiting_for(lambda: "b" in memory._waiting)
    other = asked(memory, "b", lambda: calls.append(2) or b"there")
    held.go_on.set()
    for thread, _ in (first, gone, other):
        thread.join()
    assert isinstance(gone[1][0], UnwantedError)
    assert other[1] == [b"there"]
    assert calls == [2]


def test_an_error_reaches_all_who_wait_and_is_not_kept():
    memory = ChunkMemory()

    def fail():
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            memory.get("a", fail, wanted)
    assert memory.get("a", lambda: b"well", wanted) == b"well"


def test_the_chunks_that_were_asked_for_last_are_kept():
    memory, made = ChunkMemory(kept_bytes=300), []

    def make(key):
        made.append(key)
        return bytes(100)

    for key in "abcadaebbb":
        memory.get(key, lambda key=key: make(key), wanted)
    # d takes the place of b, e that of c, and b that of d
    assert made == list("abcdeb")
    memory.get("huge", lambda: bytes(1000), wanted)
    assert memory.get("a", lambda: make("a"), wanted) == bytes(100)
    assert made[-1] == "a"


def test_its_thread_ends_with_it():
    before = threading.active_count()
    memories = [ChunkMemory() for _ in range(5)]
    assert threading.active_count() == before + 5
    del memories
    gc.collect()
    waiting_for(lambda: threading.active_count() == before)
