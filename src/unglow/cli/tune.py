"""``unglow doctor --tune``: run a real pair with 1, 2, 4, ... cores, and write a profile."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING

import yaml

from unglow.cli.directories import add_working_directory
from unglow.core.errors import ConfigError, InputError, UnglowError
from unglow.core.files import open_file, write_text
from unglow.core.machine import busy_processors, memory_total_mb, processors
from unglow.core.printable import say
from unglow.core.printable import table as align
from unglow.core.records import to_plain
from unglow.core.workflow_files import snakefile
from unglow.jobs.snakemake_command import refuse_what_snakemake_stumbles_over
from unglow.telemetry.reading.history import History
from unglow.telemetry.reading.totals import group_by_rule
from unglow.wings import SLIDES
from unglow.workflow.batch import SHEET, Batch
from unglow.workflow.config import CONFIG, read_stored
from unglow.workflow.samples.sheet import sheet_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from unglow.telemetry.reading.history import RunHistory
    from unglow.workflow.samples.pair import Pair
    from unglow.workflow.settings import Settings


WORTH = 0.9
"""More cores are taken as long as the time falls to this share of what it was, or below."""
_PROFILE = """\
# Made by unglow doctor --tune from {what}.
# {advice}
{table}
__use_yte__: true
__definitions__:
  - from unglow.core.machine import memory_limit_mb
cores: {cores}
scheduler: greedy
scheduler-subsample: 100  # of more jobs that are ready, look at this many, drawn at random
keep-going: true
retries: 1  # only for a job that lacked memory
rerun-incomplete: true
resources:
  mem_mb: ?memory_limit_mb({share:g})
"""
_SHARES = (0.6, 0.9)


@dataclass(frozen=True, slots=True)
class Trial:
    """Time and memory of a run with some cores, or the mean of several runs.

    Attributes
    ----------
    cores
        For all jobs together.
    seconds, cpu_s
        From its beginning to its end, and on processors, s.
    peak_mb, declared_mb
        The most that all jobs took, and had declared, at a time, MB.
    largest_mb
        The largest peak of a single job, MB.
    spread_s
        Standard deviation of the time of several runs, s; None for one run.
    """

    cores: int
    seconds: float
    cpu_s: float
    peak_mb: float
    declared_mb: float
    largest_mb: float
    spread_s: float | None = None


def measure(run: RunHistory, cores: int) -> Trial:
    """Return what a run took, from its telemetry."""
    rules = group_by_rule(run.attempts)
    return Trial(
        cores,
        run.seconds,
        sum(rule.cpu_s for rule in rules),
        float(run.memory[1].max(initial=0.0)),
        float(run.declared[1].max(initial=0.0)),
        max((rule.largest_mb or 0.0 for rule in rules), default=0.0),
    )


def average(trials: Sequence[Trial]) -> Trial:
    """Return the mean time of runs with as many cores, and the most memory that any took."""
    seconds = [trial.seconds for trial in trials]
    return Trial(
        trials[0].cores,
        mean(seconds),
        mean(trial.cpu_s for trial in trials),
        max(trial.peak_mb for trial in trials),
        max(trial.declared_mb for trial in trials),
        max(trial.largest_mb for trial in trials),
        stdev(seconds) if len(seconds) > 1 else None,
    )


def choose_trial(trials: Sequence[Trial]) -> Trial:
    """Return the trial to follow: of growing numbers of cores, the last that was worth it."""
    best, *others = sorted(trials, key=lambda trial: trial.cores)
    for other in others:
        if other.seconds <= WORTH * best.seconds:
            best = other
    return best


def format_trials(trials: Sequence[Trial]) -> list[str]:
    """Return the lines of a table, one trial in each; speed-ups are over the first."""
    header = ("cores", "time s", "speed-up", "CPU s", "peak MB", "declared MB", "largest job MB")
    rows: list[tuple[str, ...]] = [header]
    for one in trials:
        spread = "" if one.spread_s is None else f" ± {one.spread_s:.1f}"
        times = f"{one.seconds:.1f}{spread}", f"{trials[0].seconds / one.seconds:.2f}"
        numbers = (one.cpu_s, one.peak_mb, one.declared_mb, one.largest_mb)
        rows.append((str(one.cores), *times, *(f"{number:.0f}" for number in numbers)))
    return [line[2:] for line in align(rows, "r" * len(header)).splitlines()]


def describe_gain(trials: Sequence[Trial]) -> str:
    """Return in a sentence how many cores to take, and why."""
    ordered = sorted(trials, key=lambda trial: trial.cores)
    best = choose_trial(ordered)
    plural = "s" * (best.cores != 1)
    took = f"{best.cores} core{plural}: {best.seconds:.1f} s"
    if best is not ordered[0]:
        speed = ordered[0].seconds / best.seconds
        took += f", {speed:.1f} times as fast as {ordered[0].cores}"
    sentence = f"{took}, with at most {best.peak_mb:.0f} MB of memory in use."
    more = [t for t in ordered if t.cores > best.cores]
    if more:
        sentence += f" More cores gain less than {100 * (1 - WORTH):.0f} %."
    elif len(ordered) > 1:
        sentence += " More may gain more."
    return sentence


def profile_text(trials: Sequence[Trial], what: str, total_mb: float) -> str:
    """Return a profile for ``--workflow-profile`` that follows the advice.

    Parameters
    ----------
    trials
        At least one.
    what
        What was run.
    total_mb
        Memory of the machine or container, MB: a larger share of it is given to the jobs where
        those that ran at a time had declared more than the usual one.
    """
    best = choose_trial(trials)
    usual, most = _SHARES
    share = usual if best.declared_mb <= usual * total_mb else most
    lines = "\n".join(f"#   {line}" for line in format_trials(trials))
    sentence = describe_gain(trials)
    return _PROFILE.format(what=what, advice=sentence, table=lines, cores=best.cores, share=share)


# Lines of a failed run's output that are shown.
_LAST_LINES = 15
# Above this load, as a share of the processors, times depend on other programs.
_BUSY = 0.4
# Raw files are read in pieces of this many bytes.
_READ = 1 << 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow doctor --tune` to a parser."""
    parser.description = (
        "Run the whole workflow on a pair of this directory with 1, 2, 4, ... cores, print time, "
        "speed-up and memory, and write a profile with the number of cores that pays off. If there "
        "are several pairs, it runs on copies of the pair, enough for all cores, since pairs run "
        "side by side. Existing results are not touched. Telemetry of all runs is kept for "
        "unglow compare."
    )
    parser.add_argument(
        "--pair", metavar="SAMPLE/DYE", help="pair to run (default: the one with the most pixels)"
    )
    parser.add_argument(
        "--cores",
        nargs="+",
        type=int,
        metavar="N",
        help="numbers of cores to try (default: 1, 2, 4, ... up to those of the machine)",
    )
    parser.add_argument(
        "--profile",
        type=Path,
        default=Path("profiles") / "tuned",
        metavar="DIR",
        help="profile to write (default: profiles/tuned)",
    )
    parser.add_argument(
        "--repeat", type=int, default=1, metavar="N", help="run each N times, and report the spread"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="directory for telemetry and logs of all runs (default: tune/<time>)",
    )
    parser.add_argument("--force", action="store_true", help="run on a busy machine as well")
    add_working_directory(parser, "working directory of the run")
    parser.add_argument(
        "-s",
        "--snakefile",
        type=Path,
        metavar="FILE",
        help="Snakefile of unglow, if it is not found",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run all trials, print the table and the advice, write the profile."""
    numbers = _choose_cores(arguments.cores)
    if arguments.repeat < 1:
        raise ConfigError(f"--repeat is {arguments.repeat} but has to be at least 1.")
    load = busy_processors()
    if load > _BUSY * processors() and not arguments.force:
        raise UnglowError(
            f"this machine is busy with other work (load {load:.1f}), so times would not show how "
            "many cores are worth it: run again on an idle machine, or add --force."
        )
    refuse_what_snakemake_stumbles_over()
    path = (arguments.snakefile or snakefile()).absolute()
    if not path.is_file():
        raise InputError(f"{path} does not exist; say with -s where unglow's Snakefile is.")
    directory = arguments.directory
    batch = Batch.load(read_stored(directory / CONFIG), directory, SLIDES)
    settings = batch.settings
    pair = _choose_pair(batch, arguments.pair)
    copies = min(len(batch.pairs), numbers[-1])
    what = f"{copies} copies of {pair.sample} {pair.dye}" if copies > 1 else " ".join(pair.key)
    say(f"{what}; cores: {', '.join(map(str, numbers))}")
    _warm_up(pair)
    stamp = time.strftime("%Y%m%dT%H%M%S")
    kept: Path = arguments.keep or directory / "tune" / stamp
    trials = []
    for cores in numbers:
        repeats = []
        for k in range(1, arguments.repeat + 1):
            name = f"{cores}-core{'s' * (cores != 1)}" + f"-{k}" * (arguments.repeat > 1)
            with tempfile.TemporaryDirectory(prefix=".unglow-tune-", dir=directory) as place:
                found = _run_trial(Path(place), path, settings, [pair] * copies, cores)
                for part in (Path("results") / "telemetry", Path("logs")):  # without images
                    shutil.copytree(Path(place) / part, kept / name / part)
            repeats.append(found)
        trials.append(average(repeats))
        say(format_trials(trials)[-1] if len(trials) > 1 else "\n".join(format_trials(trials)))
    say(describe_gain(trials))
    say(f"Memory and time of these runs: unglow compare {kept}/* -o runs.html")
    target = arguments.profile / "config.yaml"
    write_text(target, profile_text(trials, what, memory_total_mb()))
    say(f"Take it with --workflow-profile {target.parent}")
    return 0


def _choose_cores(given: Sequence[int] | None) -> list[int]:
    if given is None:
        most = processors()
        return [2**k for k in range(most.bit_length()) if 2**k <= most]
    if min(given) < 1:
        raise ConfigError(f"--cores has {min(given)} but needs whole numbers above 0.")
    return sorted(set(given))


def _choose_pair(batch: Batch, name: str | None) -> Pair:
    """Return the pair of a name, or the one with the most pixels."""
    # markers of slides cannot be written in a sample sheet
    pairs = {key: pair for key, pair in batch.pairs.items() if pair.slide is None}
    if not pairs:
        raise InputError("there is no pair to copy: slides cannot be tried.")
    if name is None:
        return max(pairs.values(), key=lambda p: batch.pixels({"sample": p.sample, "dye": p.dye}))
    sample, _, dye = name.partition("/")
    if (sample, dye) not in pairs:
        names = ", ".join("/".join(key) for key in list(pairs)[:5])
        raise InputError(f"--pair {name} is not one of the pairs: {names}.")
    return pairs[sample, dye]


def _warm_up(pair: Pair) -> None:
    """Do once what only a first run does: read the raw files from the disk."""
    files = [
        [f for f in path.rglob("*") if f.is_file()] if path.is_dir() else [path]
        for path in (pair.pre, pair.post)
    ]
    for path in itertools.chain(*files):
        with open_file(path) as stream:
            while stream.read(_READ):
                pass


def _run_trial(
    place: Path, workflow: Path, settings: Settings, pairs: Sequence[Pair], cores: int
) -> Trial:
    """Run the workflow in a directory of its own; return what it took."""
    named = [
        replace(pair, sample=f"copy{k}", register_from=None) for k, pair in enumerate(pairs, 1)
    ]
    own = to_plain(settings)
    own |= {"samples": str(SHEET), "only": None, "results": "results", "allow_failed": True}
    own["register"]["from"] = None
    write_text(place / SHEET, sheet_text(named, place))
    write_text(place / CONFIG, yaml.safe_dump(own, sort_keys=False))
    words = ["-m", "snakemake", "-s", str(workflow), "--cores", str(cores), "--nolock"]
    done = subprocess.run(  # noqa: S603 (our own interpreter)
        [sys.executable, *words],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    last = History.read(place / "results").last
    if done.returncode != 0 or last is None:
        end = "\n".join(done.stdout.splitlines()[-_LAST_LINES:])
        logs = Path(tempfile.mkdtemp(prefix="unglow-tune-"))
        shutil.copytree(place / "logs", logs / "logs", dirs_exist_ok=True)
        raise UnglowError(
            f"the run with {cores} cores ended with status {done.returncode} (its logs are in "
            f"{logs}):\n{end}"
        )
    return measure(last, cores)
