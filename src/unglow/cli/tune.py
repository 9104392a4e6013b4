"""``unglow tune``: run a real pair with 1, 2, 4, ... cores, and write a profile that fits."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from unglow.cli.directories import add_working_directory
from unglow.cli.survey import SHEET
from unglow.core.errors import ConfigError, InputError, UnglowError
from unglow.core.files import open_file, write_text
from unglow.core.machine import busy_processors, memory_total_mb, processors
from unglow.core.terminal import say
from unglow.core.workflow_files import snakefile
from unglow.jobs.obstacles import refuse_what_snakemake_stumbles_over
from unglow.reporting.core_scaling import Trial, advice, profile_text, table, trial_of
from unglow.telemetry.reading.follower import Follower
from unglow.telemetry.reading.history import History
from unglow.workflow.batch import Batch
from unglow.workflow.config import CONFIG, read_config
from unglow.workflow.samples import sheet_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from unglow.workflow.samples import Pair
    from unglow.workflow.schema import Settings

# Lines of a failed run's output that are shown.
_LAST_LINES = 15
# Above this load, as a share of the processors, times depend on other programs.
_BUSY = 0.4
# Raw files are read in pieces of so many bytes.
_READ = 1 << 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow tune` to a parser."""
    parser.description = (
        "Run the whole workflow on a pair of this directory with 1, 2, 4, ... cores, print time, "
        "speed-up and memory, and write a profile with as many cores as are worth it. If there are "
        "several pairs, it is run on as many copies of the pair as the most cores can work on, "
        "since pairs run side by side. Results that are there are not touched."
    )
    parser.add_argument(
        "--pair",
        metavar="SAMPLE/DYE",
        help="pair to run (default: the one with the most pixels)",
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
    parser.add_argument("--force", action="store_true", help="run on a busy machine as well")
    add_working_directory(parser, "working directory of the run")
    parser.add_argument(
        "-s", "--snakefile", type=Path, metavar="FILE", help="unglow's Snakefile, if not found"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run all trials, print the table and the advice, write the profile."""
    numbers = _numbers(arguments.cores)
    load = busy_processors()
    if load > _BUSY * processors() and not arguments.force:
        raise UnglowError(
            f"this machine is busy with other work (load {load:.1f}), so times would not show how "
            "many cores are worth it: run again on an idle machine, or add --force."
        )
    refuse_what_snakemake_stumbles_over()
    snakefile = _snakefile(arguments.snakefile)
    directory = arguments.directory
    settings = read_config(directory / CONFIG)
    batch = Batch.load(settings, directory)
    pair = _chosen(batch, arguments.pair)
    copies = min(len(batch.pairs), numbers[-1])
    what = f"{copies} copies of {pair.sample} {pair.dye}" if copies > 1 else " ".join(pair.key)
    say(f"{what}; cores: {', '.join(map(str, numbers))}")
    _warm_up(pair)
    trials = []
    for cores in numbers:
        with tempfile.TemporaryDirectory(prefix=".unglow-tune-", dir=directory) as name:
            trials.append(_trial(Path(name), snakefile, settings, [pair] * copies, cores))
        say(table(trials)[-1] if len(trials) > 1 else "\n".join(table(trials)))
    say(advice(trials))
    target = arguments.profile / "config.yaml"
    write_text(target, profile_text(trials, what, memory_total_mb()))
    say(f"Take it with --workflow-profile {target.parent}")
    return 0


def _numbers(given: Sequence[int] | None) -> list[int]:
    if given is None:
        most = processors()
        return [2**k for k in range(most.bit_length()) if 2**k <= most]
    if min(given) < 1:
        raise ConfigError(f"--cores has {min(given)} but needs whole numbers above 0.")
    return sorted(set(given))


def _snakefile(given: Path | None) -> Path:
    path = given or snakefile()
    if not path.is_file():
        raise InputError(f"{path} does not exist; say with -s where unglow's Snakefile is.")
    return path.absolute()


def _chosen(batch: Batch, name: str | None) -> Pair:
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
        raise InputError(f"--pair {name} is none of the pairs: {names}.")
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


def _trial(
    place: Path, snakefile: Path, settings: Settings, pairs: Sequence[Pair], cores: int
) -> Trial:
    """Run the workflow in a directory of its own; return what it took."""
    named = [
        replace(pair, sample=f"copy{k}", register_from=None) for k, pair in enumerate(pairs, 1)
    ]
    own = {**settings, "samples": str(SHEET), "results": "results", "allow_failed": True}
    own["register"] = {**settings["register"], "from": None}
    if settings["detect"]["threshold_from"] == "control":  # there may be none among the copies
        own["detect"] = {**settings["detect"], "threshold_from": "negative"}
    write_text(place / SHEET, sheet_text(named, place))
    write_text(place / CONFIG, yaml.safe_dump(own, sort_keys=False))
    words = ["-m", "snakemake", "-s", str(snakefile), "--cores", str(cores), "--nolock"]
    done = subprocess.run(  # noqa: S603 (our own interpreter)
        [sys.executable, *words],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    read = Follower(place / "results")
    read.poll()
    last = History.of(read).last
    if done.returncode != 0 or last is None:
        end = "\n".join(done.stdout.splitlines()[-_LAST_LINES:])
        logs = Path(tempfile.mkdtemp(prefix="unglow-tune-"))
        shutil.copytree(place / "logs", logs / "logs", dirs_exist_ok=True)
        raise UnglowError(
            f"the run with {cores} cores ended with status {done.returncode} (its logs are in "
            f"{logs}):\n{end}"
        )
    return trial_of(last, cores)
