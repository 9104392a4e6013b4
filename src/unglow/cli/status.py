"""``unglow status``: one line for each pair, how far it is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.cli.directories import add_directory, named, results_of
from unglow.cli.text_table import table
from unglow.core.terminal import say

if TYPE_CHECKING:
    import argparse

# Statuses with which a pair is as it should be, or on its way there.
_WELL = ("ok", "suspect", "running", "waiting")
# Characters of a line, and of the name of a sample or dye in it.
_WIDEST, _NAME = 200, 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow status` to a parser."""
    parser.description = (
        "One line for each pair: how many of its jobs are done, and what runs, is missing or went "
        "wrong. The exit status is 1 if something went wrong."
    )
    add_directory(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the table; return 1 if a pair failed, is incomplete or was left out."""
    from unglow.core.printable import clean, shortened  # noqa: PLC0415
    from unglow.reporting.terminal.run_view import Watched  # noqa: PLC0415
    from unglow.workflow.batch import Batch  # noqa: PLC0415 (so are the others)
    from unglow.workflow.config import CONFIG, read_config  # noqa: PLC0415
    from unglow.workflow.pair_status import pair_statuses, what_next  # noqa: PLC0415

    results = results_of(arguments.directory)
    history = Watched(results).history()
    last = history.last
    recorded = last.run.fields if last is not None else {}
    work = Path(str(recorded.get("directory") or results.absolute().parent))
    settings = dict(recorded.get("config") or read_config(work / CONFIG))
    statuses = pair_statuses(Batch.load(settings, work), results, history)
    width = min(_WIDEST, shutil.get_terminal_size((120, 0)).columns)
    rows = [("sample", "dye", "status", "jobs", "")]
    for p in statuses:
        sample, dye = (shortened(clean(name), _NAME) for name in (p.sample, p.dye))
        rows.append((sample, dye, p.status, f"{p.done}/{p.of}", clean(p.note)))
    for line in table(rows, "lllrl").splitlines():
        say(line if len(line) <= width else f"{line[: width - 1]}…")
    for line in what_next(history, named(arguments.directory, "."), named(results)):
        say(line)
    return int(any(pair.status not in _WELL for pair in statuses))
