"""Give each rule too little memory: one sentence reports it, and the next run fixes it.

Two ways to have too little. *Declared*: the model is wrong, or the user has set too little, and the
machine gives what was declared and some; the job's own memory limit has to speak. *Given*: the
model is right and the machine gives less; the kernel kills, and the job's watchdog has to speak. A
job that gets through because it works with fewer blocks at a time is as good.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from running import read_telemetry, run, say, snakemake_words
from tables import table

from unglow.core.machine import processors
from unglow.jobs.memory_limit import allowance_mb
from unglow.jobs.outcomes import LACKED_MEMORY

if TYPE_CHECKING:
    from control_groups import ControlGroups, Use
    from phantoms import Case

#: An output of each rule below results/phantom/SYTO9, and the name of its record.
TARGETS = {
    "ingest": ("post.ome.zarr/zarr.json", "ingest"),
    "register": ("transform.json", "register"),
    "align": ("aligned_pre.ome.zarr/zarr.json", "align"),
    "scale": ("scale.json", "scale"),
    "difference": ("difference/moffat.ome.zarr/zarr.json", "difference_moffat"),
    "detect": ("candidates.csv", "detect"),
    "figures": ("figures/candidates.png", "figures"),
}
PAIR = Path("results") / "phantom" / "SYTO9"
_CONFIG: dict[str, object] = {"scale": "{methods: [moffat]}", "force_run": True}
# What the machine gives beyond what is declared.
_SPARE = 1.2
# Pages of libraries that are touched once the limit is set, MB: it does not hold them.
_TOUCHED_LATER_MB = 10.0
# What a job says that ended well above what it had declared.
_REPORTED = "MB that were declared for it; what it made is whole"


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one run with too little memory did, and whether it was as it should be."""

    rule: str
    kind: str
    declared_mb: float
    limit_mb: float
    outcome: str
    peak_mb: float
    kills: int
    sentence: str
    problems: tuple[str, ...]


def shortage(case: Case, raw: Path, work: Path, groups: ControlGroups, factor: float) -> bool:
    """Run a pair to its end, then every rule again with too little; print a table.

    Returns
    -------
    Whether one sentence reported every shortage, and the next run fixed it, to the same bytes.
    """
    with tempfile.TemporaryDirectory(prefix=f"short-{case.name}-", dir=work) as name:
        directory = Path(name)
        (directory / "raw").symlink_to(raw.resolve(), target_is_directory=True)
        status, text = run(*snakemake_words(processors(), _CONFIG), directory=directory)
        if status != 0:
            print(text[-2000:])
            return False
        attempts = []
        for rule in TARGETS:
            for kind in ("declared", "given"):
                say(f"{case.name}: {rule}, {factor:g} of its memory {kind}")
                attempts.append(_starve(directory, rule, kind, groups, factor))
    print(f"\n{case.name}: {factor:g} of the memory\n{_table(attempts)}\n")
    for attempt in attempts:
        if attempt.sentence:
            print(f"{attempt.kind}: {attempt.sentence}")
        for problem in attempt.problems:
            print(f"PROBLEM {attempt.rule}, {attempt.kind}: {problem}")
    return not any(attempt.problems for attempt in attempts)


def _starve(directory: Path, rule: str, kind: str, groups: ControlGroups, factor: float) -> Attempt:
    """Run one rule again with too little memory, and once more with enough."""
    target = PAIR / TARGETS[rule][0]
    before = digest(directory / target)
    needed = _records(directory, rule)[-1]["declared_mb"]
    words = [str(target), "--force", "--allowed-rules", rule, "--rerun-triggers", "mtime"]
    (directory / target).unlink()
    if kind == "declared":
        little = ["--set-resources", f"{rule}:mem_mb={int(needed * factor)}"]
        environment = groups.environment(_SPARE)
    else:
        # Another attempt would ask the machine for more, which it has not.
        little, environment = ["--retries", "0"], groups.environment(factor)
    base = snakemake_words(processors(), _CONFIG)
    command = [base[0], *words, *base[1:]]
    starved = [base[0], *words, *little, *base[1:]]
    status, text = run(*starved, directory=directory, environment=environment)
    uses = groups.collect()
    records = _records(directory, rule)
    sentences = sorted(set(re.findall(rf"^{rule} \(.*", text, re.MULTILINE)))
    problems = _problems(status, records, sentences)
    problems += [why for record in records if (why := _beyond(record, text))]
    if status == 0 and digest(directory / target) != before:
        problems.append("it ended well with other bytes")
    if status != 0:
        again, text = run(*command, directory=directory)
        if again != 0:
            problems.append(f"the next run with enough memory fails:\n{text[-800:]}")
        elif digest(directory / target) != before:
            problems.append("the next run gave other bytes")
    return _attempt(rule, kind, records, uses, " / ".join(sentences), problems)


def _problems(status: int, records: list[dict[str, Any]], sentences: list[str]) -> list[str]:
    """Return what is wrong with how a shortage was reported."""
    outcome = records[-1]["outcome"]
    if status == 0 and outcome == "ok":
        return []
    found = []
    if outcome not in LACKED_MEMORY:
        found.append(f"it ended as {outcome}, which does not mention memory")
    if not sentences:
        found.append("no sentence about it")
    elif not all("phantom" in s and "MB" in s for s in sentences):
        found.append("the sentence does not say which pair, or how much")
    return found


def _beyond(record: dict[str, Any], text: str) -> str:
    """Return what is wrong if an attempt took more than it had declared; empty if nothing is."""
    declared, peak = record["declared_mb"], record.get("peak_mb", 0.0)
    if record["outcome"] == "ok":
        quiet = peak > declared and _REPORTED not in text
        return f"it took {peak:.0f} of {declared:.0f} MB without a word" if quiet else ""
    allowed = declared + allowance_mb(record["threads"]) + _TOUCHED_LATER_MB
    if record["outcome"] != "memory" or peak <= allowed:
        return ""
    return f"it got to {peak:.0f} of {declared:.0f} MB before it was refused more"


def _attempt(
    rule: str,
    kind: str,
    records: list[dict[str, Any]],
    uses: list[Use],
    sentence: str,
    problems: list[str],
) -> Attempt:
    last = records[-1]
    return Attempt(
        rule=rule,
        kind=kind,
        declared_mb=last["declared_mb"],
        limit_mb=max((use.limit_mb for use in uses), default=0.0),
        outcome=" then ".join(record["outcome"] for record in records),
        peak_mb=max(record.get("peak_mb", 0.0) for record in records),
        kills=sum(use.kills for use in uses),
        sentence=sentence,
        problems=tuple(problems),
    )


def _table(attempts: list[Attempt]) -> str:
    header = ["rule", "too little", "outcome", "MB declared", "group MB", "peak MB", "killed"]
    rows = [
        [
            a.rule,
            a.kind,
            a.outcome,
            *(f"{mb:.0f}" for mb in (a.declared_mb, a.limit_mb, a.peak_mb)),
            str(a.kills),
        ]
        for a in attempts
    ]
    return table(header, rows, left=3)


def _records(directory: Path, rule: str) -> list[dict[str, Any]]:
    folder = directory / "results" / "telemetry"
    (path,) = folder.rglob(f"{TARGETS[rule][1]}.jsonl")
    return [r for r in read_telemetry(path.parent) if _is(r, rule, path)]


def _is(record: dict[str, Any], rule: str, path: Path) -> bool:
    role = record["wildcards"].get("role")
    return record["rule"] == rule and (role is None or path.stem.endswith(role))


def digest(path: Path) -> str:
    """Return the digest of a file; of a store's root metadata, which holds one of all pixels."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
