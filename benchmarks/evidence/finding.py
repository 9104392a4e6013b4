"""Spots in differences whose truth is known: what each tool finds, and how many are false."""

from __future__ import annotations

import math
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from photometry.spots import Phantom, Score, judged, match, pooled, searched
from running import command, say

from evidence.registration import PEERS
from unglow.core.machine import processors
from unglow.images.stored_values import quantise
from unglow.phantom.spec import PhantomSpec
from unglow.photometry.difference import difference

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

HEADER = (
    *("tool", "found", "recall", "precision", "F1"),
    *("false, claimed", "false, true", "best F1 (threshold)"),
)
SIGMA_PX = 1.5
"""Standard deviation of a typical microbe of a phantom, which tools that ask for it are given."""
ADVISED = 1.0
PEER_TOOLS = (
    ("sep 1.4.1, 1.5 x noise", "spots", "sep"),
    ("photutils 3.0.0, DAOStarFinder, 5 x noise", "spots", "daofind"),
    ("scikit-image 0.26.0, blob_log, 0.1", "spots", "log"),
    ("Big-FISH 0.6.2, its own threshold", "bigfish", "bigfish"),
)
ABSENT = (
    ("RS-FISH", "a plugin of Fiji with a window"),
    ("Spotiflow 0.6.5", "downloads its weights when it starts"),
)


@dataclass(frozen=True, eq=False)
class Search:
    """What unglow found in a pair, and what others are given: the difference and the truth."""

    left: NDArray[np.float32]
    microbes: NDArray[np.float64]
    score: Score
    claimed: float


def search_pair(seed: int, side: int) -> Search:
    """Render a pair, subtract with the true map, gain and offset, and search it with unglow."""
    phantom = Phantom.of(PhantomSpec(shape=(side, side), rgb=False, seed=seed))
    true = phantom.true_map()
    left = quantise(difference(phantom.post, phantom.aligned(true), *phantom.scale))
    found = searched(phantom, true, phantom.scale)
    microbes = phantom.microbes()
    claimed = found.report(None)["fdr"]
    return Search(left, microbes, judged(found, microbes), math.nan if claimed is None else claimed)


def measure(environments: Path, side: int, pairs: int, work: Path) -> list[list[str]]:
    """Return the rows of the table, one for each tool."""
    place = work / "spots"
    place.mkdir(parents=True)
    searches = []
    for seed in range(pairs):
        say(f"spots: pair {seed + 1} of {pairs}")
        searches.append(search_pair(seed, side))
    given = place / "given.npz"
    np.savez(given, images=np.array([one.left for one in searches]), sigma=SIGMA_PX)
    own = pooled([one.score for one in searches])
    rows = [["unglow", *write_score(own), f"{claimed_of(searches):.3f}", *_false(own), "-"]]

    def run(tool: tuple[str, str, str]) -> list[str]:
        name, environment, word = tool
        python = environments / environment / "bin" / "python"
        if not python.is_file():
            return [name, f"no environment {environment}", *["-"] * 6]
        say(f"spots: {name}")
        found = place / f"{word}.npz"
        command(python, PEERS / "find_spots.py", word, given, found, directory=place)
        return [name, *judge_lists(found, searches)]

    with ThreadPoolExecutor(processors()) as pool:
        rows += pool.map(run, PEER_TOOLS)
    rows += [[name, why, *["-"] * 6] for name, why in ABSENT]
    shutil.rmtree(place)
    return rows


def claimed_of(searches: Sequence[Search]) -> float:
    """Return the false-discovery rate that the lists claim, each weighted by its candidates."""
    listed = [one for one in searches if not math.isnan(one.claimed)]
    count = sum(one.score.candidates for one in listed)
    return sum(one.score.candidates * one.claimed for one in listed) / max(1, count)


def judge_lists(found: Path, searches: Sequence[Search]) -> list[str]:
    """Return the cells of a tool whose lists are in a file of peers/find_spots.py."""
    scores: dict[float, list[Score]] = {}
    with np.load(found) as lists:
        for name in lists.files:
            n, factor = name.split("-")
            scored = match(lists[name], searches[int(n)].microbes)
            scores.setdefault(float(factor), []).append(scored)
    pools = {factor: pooled(some) for factor, some in scores.items()}
    best = max(pools, key=lambda factor: pools[factor].f1)
    advised = pools[ADVISED]
    best_text = f"{pools[best].f1:.3f} ({best:g} x)"
    return [*write_score(advised), "claims nothing", *_false(advised), best_text]


def write_score(score: Score) -> list[str]:
    """Return the cells of what was found, recall, precision and F1."""
    shares = (score.recall, score.precision, score.f1)
    return [str(score.candidates), *(f"{one:.3f}" for one in shares)]


def _false(score: Score) -> list[str]:
    return [f"{1 - score.precision:.3f}"]
