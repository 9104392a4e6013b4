"""The profiler in the job: what it writes down, what it costs nothing of, and how it is read."""

from __future__ import annotations

import gc
import json
import threading
import time
import weakref

import pytest

from unglow.core.errors import ConfigError
from unglow.telemetry.recording.profiler import (
    INTERVAL,
    VARIABLE,
    StackSampler,
    interval_s,
    is_wanted,
)
from unglow.telemetry.speedscope import MOST_BINS, Frame, Profile, read_profile, write_profile


def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(100))


def slow(seconds):
    spin(seconds)


def profiled(path, work):
    sampler = StackSampler(path, time.monotonic(), pytest.fail)
    sampler.start()
    work()
    sampler.stop()
    return read_profile(path).seconds


def took(profile, *names):
    """Seconds of stacks in which calls of these names follow each other."""
    runs = {stack: [frame.name for frame in stack] for stack in profile}
    return sum(
        seconds
        for stack, seconds in profile.items()
        if any(tuple(runs[stack][k : k + len(names)]) == names for k in range(len(stack)))
    )


def test_time_goes_to_the_functions_that_took_it(tmp_path):
    def work():
        slow(0.6)
        spin(0.3)

    started = time.monotonic()
    profile = profiled(tmp_path / "a.json", work)
    whole = time.monotonic() - started
    assert took(profile, "slow", "spin") == pytest.approx(0.6, abs=0.15)
    assert took(profile, "spin") == pytest.approx(whole, abs=0.15)
    frame = next(f for stack in profile for f in stack if f.name == "slow")
    assert frame.file == "unit/telemetry/test_stack_sampler.py"
    assert frame.line == slow.__code__.co_firstlineno


def test_all_threads_are_seen(tmp_path):
    def work():
        others = [threading.Thread(target=slow, args=(0.4,)) for _ in range(2)]
        for other in others:
            other.start()
        for other in others:
            other.join()

    profile = profiled(tmp_path / "a.json", work)
    assert took(profile, "slow") == pytest.approx(0.8, abs=0.3)


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
        profiled(tmp_path / "a.json", lambda: [holding() for _ in range(20)])
        alive = sum(one() is not None for one in seen)
    finally:
        gc.enable()
    assert alive == 0


def test_a_job_that_is_killed_leaves_what_was_seen(tmp_path, monkeypatch):
    monkeypatch.setattr("unglow.telemetry.recording.profiler._WRITE_S", 0.1)
    path = tmp_path / "a.json"
    sampler = StackSampler(path, time.monotonic(), pytest.fail)
    sampler.start()
    end = time.monotonic() + 300
    while not took(read_profile(path).seconds, "spin"):
        assert time.monotonic() < end
        spin(0.05)
    sampler.stop()


def test_a_profile_that_cannot_be_written_is_reported_and_harms_nothing(tmp_path):
    (tmp_path / "file").touch()
    warnings = []
    sampler = StackSampler(tmp_path / "file" / "a.json", time.monotonic(), warnings.append)
    sampler.start()
    sampler.stop()
    (warning,) = warnings
    assert "a.json could not be written" in warning


def test_a_profile_is_what_speedscope_reads(tmp_path):
    main, fit = Frame("main", "/home/me/env/a/b/f.py", 1), Frame("Model.fit", "g.py", 7)
    path = tmp_path / "a.speedscope.json"
    profile = Profile(0.5)
    profile.add((main, fit), 0.75, 0.5)
    profile.add((main,), 1.0, 0.25)
    write_profile(path, "unglow", profile)
    content = json.loads(path.read_text())
    assert content == {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "unglow",
        "name": "a",
        "shared": {
            "frames": [
                {"name": "main", "file": "a/b/f.py", "line": 1},
                {"name": "Model.fit", "file": "g.py", "line": 7},
            ]
        },
        "profiles": [
            {
                "type": "sampled",
                "name": "all threads",
                "unit": "seconds",
                "startValue": 0,
                "endValue": 0.75,
                "samples": [[0, 1], [0]],
                "weights": [0.5, 0.25],
            }
        ],
        "unglow": {"bin_s": 0.5, "bins": [[[0, 0.25], [1, 0.25]], [[1, 0.25]]]},
    }
    short = main._replace(file="a/b/f.py")
    assert read_profile(path).seconds == {(short, fit): 0.5, (short,): 0.25}


def test_however_long_a_job_is_its_profile_has_few_bins():
    stack, profile = (Frame("main", "f.py", 1),), Profile()
    for n in range(2000):
        profile.add(stack, n + 1.0, 1.0)
    bins = profile.times[stack]
    assert max(bins) < MOST_BINS
    assert sum(bins.values()) == pytest.approx(2000)
    assert all(s == pytest.approx(profile.bin_s) for n, s in bins.items() if n < max(bins))


@pytest.mark.parametrize(("text", "s"), [("5", 0.005), ("0", 0.001), ("x", 0.01), ("1e9", 1.0)])
def test_the_interval_is_that_of_the_variable_within_bounds(monkeypatch, text, s):
    monkeypatch.setenv(INTERVAL, text)
    assert interval_s() == s


def test_stacks_are_looked_at_in_this_interval(tmp_path, monkeypatch):
    monkeypatch.setenv(INTERVAL, "300")
    looks = []
    monkeypatch.setattr(StackSampler, "_add_stacks", lambda self, t, seconds: looks.append(seconds))
    profiled(tmp_path / "a.json", lambda: time.sleep(1.0))
    assert 2 <= len(looks) <= 3


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "[]",
        '{"shared":{"frames":[]},"profiles":[{"samples":[[0]],"weights":[1]}]}',
        '{"shared":{"frames":[{"name":"f"}]},"profiles":[]}',
        '{"shared":{"frames":[]},"profiles":[{"samples":[[]],"weights":[]}]}',
        3000 * "[" + 3000 * "]",
    ],
)
def test_a_file_that_is_no_profile_holds_nothing(tmp_path, wrong):
    (tmp_path / "a.json").write_text(wrong)
    assert not read_profile(tmp_path / "a.json").times
    assert not read_profile(tmp_path / "none.json").times


@pytest.mark.parametrize(
    ("value", "rule", "expected"),
    [("", "register", False), ("all", "register", True), ("detect,register", "register", True),
     ("export_difference", "difference", False)],
)  # fmt: skip
def test_rules_are_named_whole(monkeypatch, value, rule, expected):
    monkeypatch.setenv(VARIABLE, value)
    assert is_wanted(rule) is expected


def test_a_rule_that_does_not_exist_is_refused():
    from unglow.workflow import config

    assert config.load({"profile": ["register"]}).profile == ("register",)
    assert config.load({}).profile is False
    with pytest.raises(ConfigError, match="profile"):
        config.load({"profile": ["regster"]})
    assert config.load({}).profile_interval_ms == 10
    for wrong in (0, 1001, "fast"):
        with pytest.raises(ConfigError, match="profile_interval_ms"):
            config.load({"profile_interval_ms": wrong})
