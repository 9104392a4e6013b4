"""Jobs that do not measure themselves, watched by the Snakemake that starts them.

Here is which job a child process of Snakemake belongs to, by its words and files. Neither its
environment nor its arguments name the job, so what is looked for is the command of the job, or
files that only this job writes. Of several jobs that fit equally well, all are returned.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.files import open_file
from unglow.core.process import find_outputs, words_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What Snakemake writes for `script`, `notebook` and wrappers, and removes when the job has ended.
_SCRIPT = re.compile(r"\.snakemake/scripts/tmp\w+\.")
# `run` blocks are run by another Snakemake.
_BLOCK = "--target-jobs"
_REDIRECTION = re.compile(
    r"(?:(?<=\s)\d|&)?(?:>>|>\||>&|>|<)\s*(?:&?\d+\b|'[^']*'|\"[^\"]*\"|[^\s;|&<>]+)"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_LARGEST_SCRIPT = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class OutsideJob:
    """A running job, as Snakemake describes it.

    Attributes
    ----------
    files
        What it writes, logs included; paths as the workflow names them.
    output
        Those of them that are its output.
    shell
        Its shell command; empty for scripts, notebooks and ``run`` blocks.
    """

    jobid: int
    rule: str
    wildcards: Mapping[str, str]
    output: tuple[str, ...]
    files: tuple[str, ...]
    shell: str

    @property
    def target(self) -> str:
        """The job as an inner Snakemake is given it."""
        return f"{self.rule}:" + ",".join(f"{k}={v}" for k, v in self.wildcards.items())


@dataclass(frozen=True, slots=True)
class Seen:
    """A child process: its words, name and text of its script if any, and where it writes to."""

    words: tuple[str, ...]
    script_name: str = ""
    script: str = ""
    writes: frozenset[str] = frozenset()

    @classmethod
    def from_pid(cls, pid: int) -> Seen:
        """Look at a process; one that is gone has no words."""
        words = words_of(pid)
        script = next((word for word in words if _SCRIPT.search(word)), "")
        return cls(words, script, _text(script) if script else "", find_outputs(pid))


def jobs_of(seen: Seen, jobs: Sequence[OutsideJob]) -> list[OutsideJob]:
    """Return the jobs that a process may belong to, only those for which there is most reason."""
    line = " ".join(seen.words)
    if f"{_BLOCK} " in line:
        return [j for j in jobs if not j.shell and _is_target(j.target, line)]
    if seen.script:
        named = [j for j in jobs if not j.shell and j.output]
        return _most_specific([j for j in named if all(o in seen.script for o in j.output)])
    commands = [j for j in jobs if j.shell]
    for fits in (
        [j for j in commands if _is_command(j.shell, seen.words)],
        _writers(commands, seen),
        [j for j in commands if j.shell.strip() in line],
        [j for j in commands if any(file in line for file in j.files)],
    ):
        if fits:
            # the same command, but perhaps only one of them writes where this process does
            return _writers(fits, seen) or _most_specific(fits)
    return []


def _is_target(target: str, line: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(target)}(?=['\"\s]|$)", line) is not None


def _writers(jobs: Sequence[OutsideJob], seen: Seen) -> list[OutsideJob]:
    return [j for j in jobs if seen.writes & {str(Path(file).absolute()) for file in j.files}]


def _most_specific(jobs: Sequence[OutsideJob]) -> list[OutsideJob]:
    """Drop jobs whose name in a text is a part of that of another: ``x/1`` of ``x/10``."""
    return [j for j in jobs if not any(_is_part(j, other) for other in jobs if other is not j)]


def _is_part(job: OutsideJob, other: OutsideJob) -> bool:
    if job.shell or other.shell:
        own, its = job.shell.strip(), other.shell.strip()
        if own != its:
            return own in its
    return bool(job.files) and all(any(o != p and o in p for p in other.files) for o in job.files)


def _is_command(shell: str, words: Sequence[str]) -> bool:
    """Whether words are a shell command: in a shell, or as bash replaces itself by it."""
    if len(words) > 2 and words[-1].rstrip().endswith(shell.strip()) and words[-2].endswith("c"):
        before = words[-1].rstrip().removesuffix(shell.strip())
        return not before or before[-1] in " ;\n"
    try:
        own = shlex.split(_REDIRECTION.sub(" ", shell), comments=True)
    except ValueError:  # quotes that the shell itself would not have
        return False
    while own and _ASSIGNMENT.match(own[0]):
        own.pop(0)
    return own == list(words)


def _text(script: str) -> str:
    """Return the text of a script, which holds the files of its job; empty if it is gone."""
    with contextlib.suppress(OSError), open_file(Path(script)) as stream:
        return stream.read(_LARGEST_SCRIPT).decode("utf-8", "replace")
    return ""
