"""What jobs declared and what they took, one line for each rule, and those that are not right."""

from __future__ import annotations

import hashlib
import shutil
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from running import drift_text, read_telemetry, run, say
from tables import RIGHT_RATIO, number, ratio_text, save_json, table

from unglow import __version__
from unglow.core.machine import memory_available_mb

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence

#: Below this many MB libraries are most of it, and a ratio above 1.3 is a few MB.
COUNTS_ABOVE_MB = 200.0
#: Of the memory that is available, a single job may be predicted to take this much.
_SHARE = 0.6


class Named(Protocol):
    """What jobs were run on."""

    @property
    def name(self) -> str:
        """Name of its directories."""
        ...


@dataclass(frozen=True, slots=True)
class Setting:
    """What the memory of a job may depend on apart from the images."""

    budget: int
    threads: int

    def __str__(self) -> str:
        return f"{self.budget} MB, {self.threads} thread{'s' * (self.threads > 1)}"


@dataclass(frozen=True, slots=True)
class JobMemory:
    """One attempt at one job: what was declared and what it took, MB.

    The last three are of its control group: limit, largest use with cached files, processes killed.
    """

    case: Named
    setting: object
    rule: str
    what: str
    outcome: str
    declared_mb: float
    peak_mb: float
    in_flight: int | None = None
    limit_mb: float | None = None
    group_mb: float | None = None
    kills: int = 0

    @classmethod
    def of(cls, case: Named, setting: object, record: Mapping[str, Any]) -> JobMemory:
        """Take what is wanted from a record of telemetry."""
        names = {k: v for k, v in record["wildcards"].items() if k in ("role", "method")}
        return cls(
            case=case,
            setting=setting,
            rule=record["rule"],
            what=" ".join(names.values()),
            outcome=record["outcome"],
            declared_mb=record["declared_mb"],
            peak_mb=record["peak_mb"],
            in_flight=record.get("in_flight"),
            limit_mb=record.get("limit_mb"),
            group_mb=record.get("group_mb"),
            kills=record.get("kills", 0),
        )

    @property
    def ratio(self) -> float:
        """Predicted / measured."""
        return self.declared_mb / self.peak_mb

    @property
    def wrong(self) -> str:
        """What is wrong with it; empty if nothing is."""
        low, high = RIGHT_RATIO
        if self.kills:
            return "killed in its control group"
        if self.outcome != "ok":
            return f"ended as {self.outcome}"
        if self.ratio < low:
            return "took more than predicted"
        if self.ratio > high and self.peak_mb > COUNTS_ABOVE_MB:
            return "took much less than predicted"
        return ""

    @property
    def name(self) -> str:
        """Case and setting in words."""
        blocks = f", {self.in_flight} in flight" if self.in_flight is not None else ""
        what = f"{self.what} " if self.what else ""
        return f"{what}{self.case.name}, {self.setting}{blocks}"


def rules_table(jobs: Sequence[JobMemory]) -> str:
    """Return a line for each rule: predicted / measured, and the worst jobs either way by name."""
    header = ["rule", "jobs", "lowest ", "median ", "highest ", "wrong", "MB measured"]
    groups: dict[str, list[JobMemory]] = {}
    for job in jobs:
        groups.setdefault(job.rule, []).append(job)
    rows, worst = [], []
    for rule, all_jobs in groups.items():
        ordered = sorted((j for j in all_jobs if j.outcome == "ok"), key=lambda j: j.ratio)
        if not ordered:
            continue
        middle = statistics.median(j.ratio for j in ordered)
        peaks = [j.peak_mb for j in ordered]
        rows.append(
            [
                rule,
                str(len(all_jobs)),
                ratio_text(ordered[0].ratio),
                ratio_text(middle),
                ratio_text(ordered[-1].ratio),
                str(sum(bool(j.wrong) for j in all_jobs)),
                f"{min(peaks):.0f}-{max(peaks):.0f}",
            ]
        )
        large = [j for j in ordered if j.peak_mb > COUNTS_ABOVE_MB]
        named = [("tightest", ordered[0]), *(("loosest above 200 MB", j) for j in large[-1:])]
        worst += [[rule, kind, _figures(job), job.name] for kind, job in named]
    return "\n\n".join(
        [table(header, rows), table(["rule", "", "predicted / measured", "job"], worst, left=4)]
    )


def wrong_text(jobs: Sequence[JobMemory]) -> str:
    """Return a line for each job that is not as predicted, or say that there is none."""
    wrong = [job for job in jobs if job.wrong]
    if not wrong:
        return f"all {len(jobs)} jobs are as predicted"
    rows = [[job.rule, job.wrong, _figures(job), job.name] for job in wrong]
    head = f"{len(wrong)} of {len(jobs)} jobs are not as predicted:"
    return f"{head}\n{table(['rule', '', 'predicted / measured', 'job'], rows, left=4)}"


def groups_text(jobs: Sequence[JobMemory]) -> str:
    """Say how the jobs did in their control groups; empty if they were in none."""
    inside = [job for job in jobs if job.limit_mb]
    if not inside:
        return ""
    killed = sum(job.kills for job in inside)
    factor = (inside[0].limit_mb or 0) / inside[0].declared_mb
    fullest = max(inside, key=lambda job: (job.group_mb or 0) / (job.limit_mb or 1))
    return (
        f"{len(inside)} jobs in control groups of {factor:g} x declared, no swap: "
        f"{killed} processes killed; fullest {fullest.group_mb:.0f} of {fullest.limit_mb:.0f} MB, "
        f"cached files included: {fullest.rule} {fullest.name}"
    )


def _figures(job: JobMemory) -> str:
    return f"{number(job.declared_mb)} / {number(job.peak_mb)} = {ratio_text(job.ratio)}".rstrip()


class MemoryRuns:
    """Runs of a matrix, one after the other, and what they have shown.

    Attributes
    ----------
    options
        Of the command line.
    jobs
        What was measured.
    troubles
        Sentences about runs that failed or gave other bytes.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.work: Path = options.work.resolve()
        self.jobs: list[JobMemory] = []
        self.troubles: list[str] = []

    @property
    def fine(self) -> bool:
        """Whether something was measured, and all of it is right."""
        return bool(self.jobs) and not self.troubles and not any(job.wrong for job in self.jobs)

    def measure(self) -> None:
        """Go through the matrix."""
        raise NotImplementedError

    def declarations(self, case: Any, setting: Any, work: Path) -> list[tuple[Any, ...]]:
        """Return what decides the memory of each job of a run: its names, and last declared MB."""
        raise NotImplementedError

    def run(self, case: Any, setting: Any, work: Path) -> None:
        """Run a case with a setting in a directory, and note what its jobs took."""
        raise NotImplementedError

    def digests(self, setting: Any, work: Path) -> dict[str, str]:
        """Return digests of the results that do not depend on the setting."""
        raise NotImplementedError

    def run_settings(self, case: Named, raw: Path, settings: Iterable[object]) -> None:
        """Run a case with all settings, but those that declare the same for every job only once.

        The raw directory is deleted at the end.
        """
        known: dict[tuple[Any, ...], object] = {}
        bytes_of: dict[str, str] = {}
        for setting in settings:
            with tempfile.TemporaryDirectory(prefix=f"run-{case.name}-", dir=self.work) as name:
                work = Path(name)
                (work / "raw").symlink_to(raw.resolve(), target_is_directory=True)
                declared = self.declarations(case, setting, work)
                same = known.setdefault(tuple(declared), setting)
                most = max(one[-1] for one in declared)
                if same is not setting:
                    say(f"{case.name}: {setting} declares what {same} does")
                    continue
                if most > _SHARE * memory_available_mb():
                    say(f"{case.name}: {setting} needs {most} MB, which this machine has not")
                    continue
                say(f"{case.name}: {setting}")
                self.run(case, setting, work)
                for path, digest in sorted(self.digests(setting, work).items()):
                    if bytes_of.setdefault(path, digest) != digest:
                        self.troubles.append(f"{case.name}: {setting} gave other bytes in {path}")
        shutil.rmtree(raw, ignore_errors=True)

    def records(
        self, about: str, words: Sequence[object], work: Path, environment: Mapping[str, str]
    ) -> list[dict[str, Any]]:
        """Run a command that messages call ``about``; return the telemetry of its jobs."""
        status, text = run(*words, directory=work, environment=environment)
        if status != 0:
            end = "\n".join(text.splitlines()[-15:])
            self.troubles.append(f"{about} ended with status {status}:\n{end}")
        records = read_telemetry(work / "results" / "telemetry")
        say(f"  {drift_text(records)}")
        return records

    def report(self) -> int:
        """Measure, print the tables, write all figures; return the exit status."""
        self.work.mkdir(parents=True, exist_ok=True)
        try:
            self.measure()
        finally:
            save_json(self.options.json, {"version": __version__, "jobs": self.jobs})
            parts = [rules_table(self.jobs), wrong_text(self.jobs)] if self.jobs else []
            parts += [*self.troubles, groups_text(self.jobs)]
            print("\n\n".join(filter(None, parts)) or "nothing was measured")
        return 0 if self.fine else 1


def digest_of(path: Path) -> str:
    """Return the SHA-256 digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
