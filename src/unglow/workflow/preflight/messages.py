"""What preflight has to say about a run, and the commands that would help."""

from __future__ import annotations

import shlex
import textwrap
from typing import TYPE_CHECKING

from unglow.jobs.snakemake_command import changed
from unglow.workflow.preflight.judge import FORCE, Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unglow.workflow.preflight.judge import Judgement, Remedy

_MARKS = {Level.FINE: "ok", Level.WARNING: "warning", Level.REFUSED: "TOO MUCH"}
_WIDTH = 100


def told(
    judgement: Judgement,
    words: Sequence[str],
    least: Level = Level.WARNING,
    *,
    in_module: bool = False,
) -> list[str]:
    """Return the lines that tell what was found, and what would help if it was too much.

    Parameters
    ----------
    judgement
        What was found.
    words
        The command that remedies are told with.
    least
        Findings below this level are left out.
    in_module
        Whether the configuration belongs to a module, which no ``--config`` reaches.
    """
    lines = []
    for found in judgement.findings:
        if found.level >= least:
            start = f"  {found.about:<7} {_MARKS[found.level]:<9} "
            lines += _wrapped(found.text, start, " " * len(start))
    if judgement.remedies:
        lines.append("What would help:")
    for remedy in judgement.remedies:
        lines += _remedy(remedy, words, in_module=in_module)
    return lines


def _remedy(remedy: Remedy, words: Sequence[str], *, in_module: bool) -> list[str]:
    lines = _wrapped(remedy.text + (":" if remedy.options else ""), "  - ", "    ")
    options = dict(remedy.options)
    setting = options.get("--config")
    if in_module and isinstance(setting, tuple) and setting[0] != FORCE:
        lines.append(f"      in the configuration of the module: {': '.join(setting)}")
        del options["--config"]
    if options:
        lines.append(f"      {shlex.join(changed(words, options))}")
    return lines


def _wrapped(text: str, start: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=start,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
