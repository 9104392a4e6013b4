"""Pairs with a fault: whether the result is right and, if it is not, whether the tool says so."""

from __future__ import annotations

import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from damage.batches import UNDAMAGED, Batch, Case, image_path, make_batch, truth_path
from damage.judging import judge_batches
from phantom_damage.kinds import DamagedPair
from phantom_damage.pair import DamagedTruth
from registration.pool import call, in_children
from registration.robustness import negative
from running import say
from scipy.stats import binom

from evidence.registration import Case as MapCase
from evidence.registration import find_points, judge
from unglow.core.machine import processors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from damage.judging import Outcome

    from evidence.registration import Tool

HEADER = ("fault", "unglow", "microbes", "false", "list", "map of exo2micro")
FAULTS = {
    "lost:120,debris:60,fold:40": "spoilt places",
    "dark_clip:20": "clipped at the dark end",
    "coarse:8": "too few grey levels",
    "gamma:0.7": "not linear",
    "dust:12": "dust on the camera",
    "half_moved:40": "half of post moved",
    "swap": "pre and post swapped",
}
"""Damage that are made, and what they are."""
COPY, OTHER = "copy", "other"
MADE = {COPY: "pre is a copy of post", OTHER: "another section"}
NO_MAP = {"half_moved:40", "swap", COPY, OTHER}
"""Faults with which no single map is right, or a trivial one."""
CLAIMED, LEAST = 0.05, 0.01
"""False-discovery rate that lists claim; a list with so many false ones that the probability is
below the second number is wrong."""
RECALL = 0.25
"""A list with less than this part of the microbes of the undamaged pair is as good as empty."""
UNRELATED = "images with nothing in common"


def make_cases(side: int, seed: int, raw: Path) -> Batch:
    """Make the pairs of a scene that are not phantoms with damage alone; return all of them."""
    plain = DamagedPair(shape=(side, side), rgb=False, seed=seed)
    faulty = [(replace(plain, damage=fault), fault) for fault in FAULTS]
    faulty += [(plain, name) for name in MADE]
    cases = (
        Case(UNDAMAGED, plain),
        *(Case(f"fault-{n}", spec, kind) for n, (spec, kind) in enumerate(faulty)),
    )
    batch = Batch(f"scene-{seed}", cases)
    place = raw / batch.name / "raw"
    make_batch(cases, place, processors())
    foreign = Case("foreign", DamagedPair(shape=(side, side), rgb=False, seed=seed + 77))
    make_batch([foreign], raw / "foreign", processors())
    sources = {
        COPY: lambda folder: image_path(folder, "post"),
        OTHER: lambda _: image_path(raw / "foreign" / "foreign", "pre"),
    }
    for case in cases:
        if case.kind in sources:
            folder = place / case.name
            pre = image_path(folder, "pre")
            pre.unlink()
            shutil.copyfile(sources[case.kind](folder), pre)
    return batch


def measure(
    tools: list[Tool], side: int, draws: int, negatives: int, work: Path
) -> list[list[str]]:
    """Return the rows of the table: each fault, and a sum at the end."""
    place = work / "honesty"
    other = next((tool for tool in tools if tool.name.startswith("exo2micro")), None)
    rows: list[list[str]] = []
    outcomes: list[Outcome] = []
    said_by_other: list[str] = []
    for seed in range(draws):
        batch = make_cases(side, seed, place)
        judged = judge_batches([batch], place, processors())
        cases = [case for case in batch.cases if case.kind != UNDAMAGED]
        raw = place / batch.name / "raw"
        with ThreadPoolExecutor(processors()) as pool:
            said = list(pool.map(partial(run_other, other, raw), cases))
        said_by_other += said
        faulty = [one for one in judged if one.kind != UNDAMAGED]
        outcomes += faulty
        rows += [[*write_row(one), text] for one, text in zip(faulty, said, strict=True)]
    shutil.rmtree(place, ignore_errors=True)
    jobs = [partial(negative, seed, None) for seed in range(negatives)]
    counts = Counter(one.status for one in in_children(call, jobs, processors()))
    text = ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))
    rows.append([f"{UNRELATED} ({negatives} pairs)", text, "-", "-", "-", "-"])
    return [*rows, sum_up(outcomes, counts, said_by_other)]


def is_list_wrong(outcome: Outcome) -> bool:
    """Whether a list has too many false ones to be chance, or hardly any microbes."""
    few = outcome.found <= RECALL * outcome.found_undamaged
    listed = outcome.true + outcome.false
    return few or binom.sf(outcome.false - 1, listed, CLAIMED) < LEAST


def write_row(outcome: Outcome) -> list[str]:
    """Return the cells of unglow."""
    if not is_list_wrong(outcome):
        worth = "right"
    elif outcome.status == "failed":
        worth = "none"
    else:
        worth = "**wrong without a word**" if outcome.is_ok else "wrong, reported"
    named = {**FAULTS, **MADE}[outcome.kind]
    recall = f"{outcome.found} of {outcome.found_undamaged}"
    return [named, outcome.status, recall, str(outcome.false), worth]


def sum_up(outcomes: list[Outcome], unrelated: Counter[str], others: Sequence[str]) -> list[str]:
    """Return the last row: wrong results, and those that are reported, of both tools."""
    wrong = [one for one in outcomes if is_list_wrong(one)]
    count = len(wrong) + unrelated.total()
    silent = sum(one.is_ok for one in wrong) + unrelated["ok"]
    texts = zip(outcomes, others, strict=True)
    maps = [text for one, text in texts if "wrong" in text or one.kind in NO_MAP]
    named = sum("**" not in text for text in maps)
    own = f"{count - silent} of {count} wrong results reported"
    return ["sum", own, "-", "-", "-", f"{named} of {len(maps)} wrong maps reported"]


def run_other(tool: Tool | None, folders: Path, case: Case) -> str:
    """Return what the map of another tool is worth."""
    if tool is None or tool.missing:
        return tool.missing if tool else "-"
    say(f"{case.kind}: {tool.name}")
    folder = folders / case.name
    place = folders.parent / "other" / case.name
    raw = place / "raw" / case.name
    raw.mkdir(parents=True)
    truth = DamagedTruth.load(truth_path(folder))
    images = []
    for role in ("post", "pre"):
        source = image_path(folder, role)
        images.append(raw / source.name)
        shutil.copyfile(source, images[-1])
    points = find_points(images[0], images[1], truth)
    outcome = tool.run(place, (images[0], images[1]), points)
    shutil.rmtree(place)
    of = MapCase(case.kind, (), has_map=case.kind not in NO_MAP)
    _, p95, worth = judge(of, outcome, truth.map(points))
    return worth if p95 == "-" else f"{worth} ({p95} px)"
