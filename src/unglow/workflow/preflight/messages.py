"""Messages of preflight: what was found, and the commands that would help."""

from __future__ import annotations

import shlex
import textwrap
from typing import TYPE_CHECKING

from unglow.jobs.snakemake_command import changed
from unglow.workflow.preflight.check import FORCE, Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unglow.workflow.preflight.check import PreflightResult, Suggestion

_MARKS = {Level.FINE: "ok", Level.WARNING: "warning", Level.REFUSED: "TOO MUCH"}
_WIDTH = 100  # characters of a line


def messages(
    result: PreflightResult,
    command: Sequence[str],
    least: Level = Level.WARNING,
    *,
    takes: str = "",
    in_module: bool = False,
) -> list[str]:
    """Return lines with the findings from a level on, and what would help if it is too much.

    Suggestions change the words of the ``command``. The configuration of a module (``in_module``)
    is one that no ``--config`` reaches. What the run ``takes`` is told beside a finding.
    """
    lines = []
    for finding in result.findings:
        if finding.level >= least:
            start = f"  {finding.about:<7} {_MARKS[finding.level]:<9} "
            lines += _wrapped(finding.text, start, " " * len(start))
    if takes and lines:
        start = f"  {'time':<17} "
        lines += _wrapped(takes, start, " " * len(start))
    if result.suggestions:
        lines.append("What would help:")
    for suggestion in result.suggestions:
        lines += _suggestion(suggestion, command, in_module=in_module)
    return lines


def _suggestion(suggestion: Suggestion, command: Sequence[str], *, in_module: bool) -> list[str]:
    options = dict(suggestion.options)
    lines = _wrapped(suggestion.text + (":" if options else ""), "  - ", "    ")
    setting = options.get("--config")
    if in_module and isinstance(setting, tuple) and setting[0] != FORCE:
        lines.append(f"      in the configuration of the module: {': '.join(setting)}")
        del options["--config"]
    if options:
        lines.append(f"      {shlex.join(changed(command, options))}")
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
