"""Damage to small files of users and to results: each is refused with its name, or read."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from fuzz import files, results, trial
from fuzz import inputs as small_files
from made_results import made_pair

from unglow.core.errors import UnglowError

#: Those that change what a file holds; what may be in its place needs a process for each file.
CONTENT = ("cut short", "bytes anywhere", "values", "types", "keys", "extremes")
FILES = {
    "transform.json": ("transform", "field"),
    "details/displacement.npz": ("transform", "field"),
    "scale.json": ("scale",),
    "details/gain_map.npz": ("scale",),
    "details/detection.json": ("detection",),
    "candidates.csv": ("candidates", "review"),
    "details/blocks.csv": ("blocks",),
    "details/search.npz": ("search",),
    "details/plan.json": ("plan", "bright field"),
    "review.csv": ("review",),
}
REVIEW = 'id,x,y,decision,note,time,candidates\n1,20.0,30.0,accepted,"a note",,\n'


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results") / "sample" / "dye"
    made_pair(folder)
    (folder / "details/digests").mkdir(parents=True, exist_ok=True)
    (folder / "review.csv").write_text(REVIEW)
    return folder


def sentence_of(reader):
    """Return the sentence with which a reader refuses; None if it does not."""
    try:
        reader()
    except UnglowError as error:
        return str(error)
    return None


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FILES)
def test_damaged_results_are_read_or_refused_by_name(pair, tmp_path, name):
    readers = dict(results.readers(pair / name, pair.parents[1]))
    whole = tmp_path / Path(name).name
    shutil.copy(pair / name, whole)
    refused = 0
    try:
        for number in range(6 * len(CONTENT)):
            damage, rng = CONTENT[number % len(CONTENT)], np.random.default_rng([3, number])
            shutil.copy(whole, pair / name)
            files.damage_file(pair / name, damage, rng)
            for reader in FILES[name]:
                said = sentence_of(readers[reader])
                assert said is None or name in said, (damage, number, said)
                refused += said is not None
    finally:
        shutil.copy(whole, pair / name)
    assert refused > 5


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return dict(small_files.lay_out(tmp_path_factory.mktemp("inputs")))


@pytest.mark.parametrize(
    "name", ["both.csv", "post.csv", "map.txt", "map.json", "transform.json", "qupath.geojson"]
)
def test_damaged_help_of_users_is_used_or_refused_by_name(inputs, tmp_path, monkeypatch, name):
    verdicts = []
    for number in range(4 * len(CONTENT)):
        damage, rng = CONTENT[number % len(CONTENT)], np.random.default_rng([5, number])
        room = tmp_path / str(number)
        path = small_files.damage(inputs[name], damage, rng, room)
        monkeypatch.chdir(room)
        outcome = small_files.read(path, inputs[name], damage, room)
        assert outcome.verdict not in trial.BAD, (damage, number, outcome.text)
        verdicts.append(outcome.verdict)
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(room)
    assert "refused" in verdicts
