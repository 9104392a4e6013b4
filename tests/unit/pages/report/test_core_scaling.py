"""Advice on cores: what a trial took, when more is worth it, and the profile that says so."""

from __future__ import annotations

from pathlib import Path

import yaml

from unglow.cli.tune import Trial, choose_trial, describe_gain, profile_text


def trials(*seconds, declared=500.0):
    return [
        Trial(2**k, s, 30.0, 400.0 * 2**k, declared * 2**k, 250.0) for k, s in enumerate(seconds)
    ]


def test_more_cores_are_taken_as_long_as_they_gain_a_tenth():
    assert choose_trial(trials(100, 60, 50, 49)).cores == 4
    assert choose_trial(trials(100, 95, 91)).cores == 1
    # each is compared with the last that was worth it
    assert choose_trial(trials(100, 95, 89)).cores == 4
    assert choose_trial(trials(100)).cores == 1


def test_the_advice_gives_numbers():
    assert describe_gain(trials(100, 60, 50, 49)) == (
        "4 cores: 50.0 s, 2.0 times as fast as 1, with at most 1600 MB of memory in use. More "
        "cores gain less than 10 %."
    )
    assert describe_gain(trials(100, 60)).endswith("in use. More may gain more.")
    assert describe_gain(trials(100)) == "1 core: 100.0 s, with at most 400 MB of memory in use."


def test_the_profile_gives_more_memory_only_where_it_was_declared():
    for total, share in ((8000.0, 0.6), (2000.0, 0.9)):
        text = profile_text(trials(100, 60, 40), "S1 DAPI", total)
        loaded = yaml.safe_load(text)
        assert loaded["cores"] == 4
        assert loaded["resources"] == {"mem_mb": f"?memory_limit_mb({share})"}
        assert text.startswith("# Made by unglow doctor --tune from S1 DAPI.\n# 4 cores: 40.0 s")


def test_the_profile_chooses_jobs_as_all_others_do():
    """Without a bound, each job of a large batch waits for a look at all that are ready."""
    shipped = (Path(__file__).resolve().parents[4] / "profiles").glob("*/config.yaml")
    texts = [path.read_text() for path in shipped]
    assert len(texts) >= 5
    for text in (*texts, profile_text(trials(100, 60, 40), "S1 DAPI", 1000.0)):
        chosen = yaml.safe_load(text)
        assert (chosen["scheduler"], chosen["scheduler-subsample"]) == ("greedy", 100)
