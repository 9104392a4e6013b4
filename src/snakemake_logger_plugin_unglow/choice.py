"""Choice of what a call of Snakemake shows: a screen, lines, a plan, or Snakemake's own text."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from unglow.jobs.snakemake_command import only_looks, snakemake_words
from unglow.reporting.terminal.run_output import Mode, RunOutput
from unglow.workflow.snakemake_internals import command_line, quiet_kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TextIO

SWITCH = "UNGLOW_MONITOR"
"""Environment variable that switches the screen off if it is 0: lines are printed instead."""


def output_for(settings: Any) -> RunOutput | None:
    """Return the output for the settings of Snakemake's logger; None to leave all to Snakemake."""
    options = command_line()
    is_alone = len(settings.log_handler_settings or ()) <= 1
    looks = options is not None and only_looks(options)
    if settings.verbose or settings.debug_dag or looks or not is_alone:
        return None
    stream = sys.stdout if settings.stdout else sys.stderr
    mode = mode_for(stream, os.environ, quiet_kinds(settings), is_dry=settings.dryrun)
    output = RunOutput(stream, mode, snakemake_words(sys.argv), colours=not settings.nocolor)
    output.replace_tracebacks()
    return output


def mode_for(
    stream: TextIO, environment: Mapping[str, str], quiet: Iterable[str], *, is_dry: bool
) -> Mode:
    """Return how a run is shown.

    Parameters
    ----------
    stream
        Where to.
    environment
        Of this process.
    quiet
        What Snakemake was asked to be quiet about.
    is_dry
        Whether it is a dry run.
    """
    kinds = set(quiet)
    if is_dry:
        return Mode.PLAN
    if "all" in kinds:
        return Mode.SILENT
    if "progress" in kinds:
        return Mode.QUIET
    has_screen = stream.isatty() and environment.get("TERM", "dumb") != "dumb"
    return Mode.SCREEN if has_screen and environment.get(SWITCH) != "0" else Mode.LINES
