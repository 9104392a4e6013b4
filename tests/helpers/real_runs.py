"""Real runs of the real commands, and what they leave."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import loaded_snakemake
import pytest
from result_digests import digest_of

from unglow.core.errors import UnglowError
from unglow.results import read_summary
from unglow.slides.rules import SLIDES
from unglow.telemetry.attempt_files import attempt_files, read_ends
from unglow.workflow.batch import Batch

PROJECT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
#: The end of all that is computed: a run to these draws no figures.
TABLES = ("results/summary.tsv", "results/verdict.txt")


@dataclass(frozen=True)
class Run:
    """How a command ended, and what it printed."""

    code: int
    text: str

    def jobs(self) -> dict[str, int]:
        """Jobs per rule, from Snakemake's own table; empty where there was nothing to do."""
        tables = re.findall(r"^job +count\n-+ +-+\n((?:\S+ +\d+\n)+)", self.text, re.MULTILINE)
        rows = [row.split() for row in tables[0].splitlines()] if tables else []
        return {name: int(count) for name, count in rows if name not in ("total", "all")}


def command(
    directory: Path, *words: str | Path, timeout: int = 1500, path: Path | None = None
) -> Run:
    """Run a command in a directory, with the tools of this environment first on the path.

    Python modules in ``path`` go before all others.
    """
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": "200"}
    if str(words[0]) in ("snakemake", str(BIN / "snakemake")) and path is None:
        loaded = [str(BIN / "snakemake"), *map(str, words[1:])]
        return Run(*loaded_snakemake.run(directory, loaded, environment, timeout))
    if path is not None:
        known = os.environ.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(path), known)))
    done = subprocess.run(
        [str(w) for w in words],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Run(done.returncode, done.stdout)


def snakemake(
    directory: Path, *words: str | Path, timeout: int = 1500, path: Path | None = None
) -> Run:
    """Run the project's Snakefile in a working directory with two cores."""
    start = ("snakemake", "-s", PROJECT / "Snakefile", "--cores", "2")
    return command(directory, *start, *words, timeout=timeout, path=path)


def debugged(work: Path, commands: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `unglow run --debug` with commands of pdb as its standard input."""
    return subprocess.run(
        [str(BIN / "unglow"), "run", "--debug", *words],
        cwd=work,
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"},
        input=commands,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )


def refusal(directory: Path, *words: str) -> str:
    """Return why the Snakefile would refuse what follows ``--config`` on the command line."""
    from snakemake.cli import parse_config  # takes more than a second

    with pytest.raises(UnglowError) as error:
        Batch.load(parse_config(words), directory, SLIDES)
    return str(error.value)


def bytes_of(results: Path) -> dict[str, str]:
    """Digest of every result file of every pair, by its path below the results directory."""
    skipped = ("telemetry", "benchmarks", "details")
    return {
        str(path.relative_to(results)): digest_of(path)
        for path in sorted(results.rglob("*"))
        if path.is_file()
        and path.relative_to(results).parts[0] not in skipped
        and len(path.relative_to(results).parts) > 1
        and path.name != ".snakemake_timestamp"
    }


def but_figures(found: dict[str, str]) -> dict[str, str]:
    """Return the digests of what a run to `TABLES` makes."""
    return {path: content for path, content in found.items() if "figures" not in path}


def summary_of(work: Path) -> dict[str, dict[str, str]]:
    """Return the row of each sample in the summary of a working directory."""
    return {row["sample"]: row for row in read_summary(work / "results" / "summary.tsv")}


def images_of(raw: Path) -> dict[str, Path]:
    """Return the files ``pre`` and ``post`` of the only sample below ``raw``."""
    (sample,) = (path for path in raw.iterdir() if path.is_dir())
    return {role: next(sample.glob(f"*_{role}_*.tif")) for role in ("pre", "post")}


def records_of(results: Path) -> list[Path]:
    """The records of all jobs; not the numbered files of their attempts, nor those of runs."""
    found = sorted((results / "telemetry").rglob("*.jsonl"))
    return [path for path in found if not path.name[0].isdecimal()]


def attempts_of(results: Path) -> list[Path]:
    """The files of all attempts at jobs, in the order in which they began."""

    found = ((path, read_ends(path).head) for path in attempt_files(results / "telemetry"))
    started = [(head["wall"], path) for path, head in found if head.get("kind") == "attempt"]
    return [path for _, path in sorted(started)]


def runs_of(results: Path) -> list[Path]:
    """The files of all runs, in the order in which they began."""
    return sorted((results / "telemetry" / "runs").glob("*.jsonl"))


def small_phantom(place: Path) -> None:
    """Make raw/ with one pair of 700 x 900, for tests of the machinery."""
    run = command(
        place,
        *("unglow", "phantom", "--size", "700x900", "--rotation-deg", "1"),
        *("--shift-px", "12", "-9", "--scale", "1.005"),
    )
    assert run.code == 0, run.text
