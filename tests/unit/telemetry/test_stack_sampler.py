"""The profiler: what it writes down, what it costs nothing of, and how it is read back."""

from __future__ import annotations

import gc
import json
import threading
import time
import weakref

import pytest

from unglow.core.errors import ConfigError
from unglow.telemetry.jsonl import LineFile
from unglow.telemetry.reading.profiles import Call, Calls, Span, read_profile, seconds_by_node
from unglow.telemetry.recording.stack_sampler import VARIABLE, StackSampler, wanted


def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(100))


def slow(seconds):
    spin(seconds)


def profiled(path, work):
    sampler = StackSampler(LineFile(path, pytest.fail), time.monotonic(), "")
    sampler.start()
    work()
    sampler.stop()
    calls = Calls()
    return calls, read_profile(path, calls)


def took(calls, spans, *names):
    """Seconds of the calls that end in these names, all together."""
    seconds, total = seconds_by_node(calls, spans), 0.0
    for node in range(1, len(calls.calls)):
        at, found = node, []
        while at and len(found) < len(names):
            found.insert(0, calls.calls[at].name)
            at = calls.parents[at]
        total += seconds[node] if found == list(names) else 0.0
    return total


def test_time_goes_to_the_functions_that_took_it(tmp_path):
    def work():
        slow(0.6)
        spin(0.3)

    calls, spans = profiled(tmp_path / "a.stacks", work)
    whole = spans[-1].end - spans[0].start
    assert took(calls, spans, "slow", "spin") == pytest.approx(0.6, abs=0.15)
    assert took(calls, spans, "spin") == pytest.approx(whole, abs=0.15)
    node = next(n for n, c in enumerate(calls.calls) if c and c.name == "slow")
    assert calls.calls[node].file.endswith("telemetry/test_stack_sampler.py")
    assert calls.calls[node].line == slow.__code__.co_firstlineno


def test_all_threads_are_seen_and_waiting_is_told(tmp_path):
    def work():
        others = [threading.Thread(target=slow, args=(0.4,)) for _ in range(2)]
        for other in others:
            other.start()
        for other in others:
            other.join()

    calls, spans = profiled(tmp_path / "a.stacks", work)
    assert took(calls, spans, "slow") == pytest.approx(0.8, abs=0.3)
    waiting = [c.name for c in calls.calls if c is not None and c.waits]
    assert any("join" in name or "_wait_for_tstate_lock" in name for name in waiting)


class Held:
    """Something that a weak reference can point to."""


def test_what_functions_held_is_let_go_when_they_return(tmp_path):
    seen = []

    def holding():
        held = Held()
        seen.append(weakref.ref(held))
        spin(0.02)
        return 0

    gc.disable()  # a cycle would be found some time; until then it is memory that was not declared
    try:
        profiled(tmp_path / "a.stacks", lambda: [holding() for _ in range(20)])
        alive = sum(one() is not None for one in seen)
    finally:
        gc.enable()
    assert alive == 0


def written(path, *lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def node(number, parent, name):
    return {"kind": "node", "id": number, "in": parent, "name": name, "file": "f.py", "line": 1}


def test_samples_become_spans_with_exact_times(tmp_path):
    path = tmp_path / "a.stacks"
    head = {"kind": "stacks", "schema": 1, "hz": 100, "how": "inside"}
    written(
        path, head, node(1, 0, "main"), node(2, 1, "read"), [0.50, 2], [0.51, 2], node(3, 1, "fit"),
        [0.52, 3, 2], {"kind": "new"}, [5.00, 3], [5.01, 1],
    )  # fmt: skip
    with path.open("a") as stream:
        stream.write("[5.02, 1")  # torn when the job was killed
    calls = Calls()
    spans = read_profile(path, calls)
    assert [c and c.name for c in calls.calls] == [None, "main", "read", "fit"]
    # 4.48 s without a sample stand for 0.2 s
    assert [(round(s.start, 3), round(s.end, 3), s.node) for s in spans] == [
        (0.49, 0.51, 2), (0.51, 0.52, 2), (0.51, 0.52, 3), (4.8, 5.0, 3), (5.0, 5.01, 1),
    ]  # fmt: skip
    assert seconds_by_node(calls, spans) == pytest.approx([0.25, 0.25, 0.03, 0.21])


def test_profiles_of_several_attempts_share_a_tree(tmp_path):
    calls = Calls()
    for name in ("a", "b"):
        written(tmp_path / name, node(1, 0, "main"), node(2, 1, name), [0.01, 2])
    spans = [span for name in ("a", "b") for span in read_profile(tmp_path / name, calls)]
    assert [c.name for c in calls.calls[1:]] == ["main", "a", "b"]
    assert spans == [Span(0.0, 0.01, 2), Span(0.0, 0.01, 3)]
    assert calls.calls[1] == Call("main", "f.py", 1)


@pytest.mark.parametrize(
    ("value", "rule", "expected"),
    [("", "register", False), ("all", "register", True), ("detect,register", "register", True),
     ("export_difference", "difference", False)],
)  # fmt: skip
def test_rules_are_named_whole(monkeypatch, value, rule, expected):
    monkeypatch.setenv(VARIABLE, value)
    assert wanted(rule) is expected


def test_a_rule_that_does_not_exist_is_refused():
    from unglow.workflow import config

    assert config.load({"profile": ["register"]})["profile"] == ["register"]
    assert config.load({})["profile"] is False
    with pytest.raises(ConfigError, match="profile"):
        config.load({"profile": ["regster"]})


def test_lines_that_are_torn_or_wrong_are_passed_over(tmp_path):
    wrong = (
        *(
            3000 * "[" + 3000 * "]",
            '{"kind":"node","id":1}',
            "[]",
            '["a",1]',
            "[1e308,1]",
            "7",
            "{",
        ),
        *("[1,[1]]", json.dumps(node("x", 0, "g")), json.dumps(node(1, 0, "f")), "[0.01,1]"),
    )
    path = tmp_path / "a.stacks"
    path.write_text("".join(line + "\n" for line in wrong))
    calls = Calls()
    assert read_profile(path, calls) == [Span(0.0, 0.01, 1)]
    assert [call and call.name for call in calls.calls] == [None, "f"]
