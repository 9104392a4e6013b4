"""Runs on a terminal of any width (bars by rule, running jobs, memory, problems), or in a log.

On a terminal the screen is drawn again and again, in a log there is a line for each event. Names
and messages are shown as plain text, never as markup. No meaning depends on colour alone.
"""

from __future__ import annotations

import math
import re
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from unglow.core.printable import clean, wrap_text
from unglow.core.rounding import duration, memory
from unglow.monitor.terminal.run_watch import EventLines
from unglow.results.runs import RunReader
from unglow.results.wording import (
    BAD,
    clock,
    count,
    describe_end,
    make_console,
    megabytes,
    stopwatch,
)
from unglow.telemetry.reading.history import UNRECORDED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import TextIO

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from unglow.results.runs import Run, Runs
    from unglow.telemetry.reading.incidents import Incident
    from unglow.telemetry.reading.plan import RuleProgress
    from unglow.telemetry.reading.records import Attempt


STYLES = {"ok": "green", "running": "cyan", "not recorded": "default"}
_WIDEST_BAR = 40
_UNDONE = re.compile("failed|skipped|incomplete")
# Widths of the terminal, columns, below which these are omitted.
_WITH_HOST, _WITH_STEP, _WITH_CPU = 90, 72, 46
_COLUMNS = {"at": _WITH_STEP, "host": _WITH_HOST, "time": 0, "memory": 96, "MB now": 0}
_COLUMNS |= {"peak": 58, "declared": 36, "CPU": _WITH_CPU}


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: its thick part (``=`` where there is only ASCII) is the part that is done."""

    share: float
    width: int
    style: str = "green"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it as one line."""
        full = int(self.width * min(1.0, max(0.0, self.share)))
        thick, thin = "=-" if options.ascii_only else "━─"
        yield Text.assemble((thick * full, self.style), (thin * (self.width - full), "dim"))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Say how wide it is."""
        return Measurement(self.width, self.width)


#: Most rules, jobs and incidents, from many to few, for terminals that are not high enough.
MOST = (1000, 12, 8, 6, 4, 3, 2, 1, 0)


def draw(runs: Sequence[Run], width: int, most: int = MOST[0]) -> Group:
    """Draw runs for a terminal of a width, columns, with at most ``most`` rules and jobs."""
    parts: list[RenderableType] = []
    for n, run in enumerate(runs):
        parts += [Text("")] if n else []
        parts += _run(run, width, most)
    return Group(*parts)


def fit(console: Console, runs: Sequence[Run]) -> Group:
    """Draw as much as a terminal has space for."""
    width, height = console.size
    for most in MOST:
        shown = draw(runs, width, most)
        if len(console.render_lines(shown, pad=False)) <= height:
            break
    return shown


def _run(run: Run, width: int, most: int) -> list[RenderableType]:
    parts: list[RenderableType] = [_head(run)]
    if run.of:
        parts.append(_label(Bar(run.done / run.of, _bar_width(width), _style(run)),
                             f"{run.done} of {count(run.of, 'job')}"))  # fmt: skip
    if not run.is_over:
        parts += [Text(f"pairs: {run.pair_counts}")] if run.pair_counts else []
        parts.append(_memory(run))
    rules = sorted(run.rules, key=lambda row: not _is_started(row))[: most if most > 3 else 0]
    rules = [row for row in run.rules if row in rules]
    if rules:
        parts += [Text(""), _rules(rules, width)]
    if not run.is_over and run.running and most:
        parts += [Text(""), _jobs(run, width, most)]
    if run.incidents and most > 3:
        parts += [Text(""), *_incidents(run.incidents, min(5, most // 2), width)]
    return parts


def _bar_width(width: int) -> int:
    return max(8, min(_WIDEST_BAR, width - 34))


def _style(run: Run) -> str:
    return BAD if run.is_over and _UNDONE.search(run.pair_counts) else STYLES.get(run.outcome, BAD)


def _label(bar: Bar, words: str) -> Table:
    line = Table.grid(padding=(0, 1))
    line.add_row(bar, Text(words))
    return line


def _head(run: Run) -> Text:
    text = Text(clean(str(run.results)), style="bold")
    if run.id == UNRECORDED:
        return text.append(" contains jobs without the record of a run", style="default")
    spent = duration(run.seconds)
    if run.is_over:
        text.append(f": {describe_end(run)}", style=_style(run))
        when = f" after {spent}, at {clock(run.wall + run.seconds)}"
    else:
        text.append(": running", style=_style(run))
        left = "" if run.left is None else f", {run.left.words}"
        when = f" for {spent}{left}"
    return text.append(when, style="not bold default")


def _memory(run: Run) -> Text:
    limit = "" if run.budget_mb is None else f" of {memory(run.budget_mb)} allowed"
    text = f"jobs take {memory(run.used_mb)} (PSS){limit} ({memory(run.declared_mb)} declared)"
    if run.available_mb is not None:
        text += f"; machine: {memory(run.available_mb)} of {memory(run.machine_mb)} free"
    return Text(text)


def _is_started(row: RuleProgress) -> bool:
    return bool(row.running or row.failed or 0 < row.done < row.of)


def _rules(rows: Sequence[RuleProgress], width: int) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=width >= _WITH_STEP)
    if width >= _WITH_CPU:
        table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column()
    for row in rows:
        style = BAD if row.failed else STYLES["running"] if row.running else STYLES["ok"]
        bar = Bar(row.done / max(1, row.of), _bar_width(width) // 2, style)
        table.add_row(
            _name(row.rule),
            *([bar] if width >= _WITH_CPU else []),
            Text(f"{row.done} of {row.of}"),
            Text(
                row.words,
                style if row.running or row.failed else "dim",
                no_wrap=True,
                overflow="ellipsis",
            ),
        )
    return table


def _name(text: str) -> Text:
    """Return a name that is cut where there is no space."""
    return Text(clean(text), no_wrap=True, overflow="ellipsis")


def _jobs(run: Run, width: int, most: int) -> RenderableType:
    several = len({job.host for job in run.running if job.host}) > 1
    least = {**_COLUMNS, "host": _WITH_HOST if several else math.inf}
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column()
    shown = [name for name in _COLUMNS if width >= least[name]]
    for name in shown:
        left = name in ("at", "host", "memory")
        table.add_column(no_wrap=True, justify="left" if left else "right")
    table.add_row(*(Text(name, style="dim") for name in ("running", *shown)))
    for job in run.running[:most]:
        cells, again = (
            _cells(job, run.later_s),
            f" (attempt {job.number})" if job.number > 1 else "",
        )
        table.add_row(_name(job.title + again), *(cells[name] for name in shown))
    more = len(run.running) - most
    return Group(table, Text(f"and {more} more", style="dim")) if more > 0 else table


def _cells(job: Attempt, later_s: float) -> dict[str, RenderableType]:
    at = job.step + ("" if job.share is None else f" {100 * job.share:.0f} %")
    declared = job.declared_mb or 0.0
    near = declared and (job.peak_mb or 0.0) > 0.95 * declared
    return {
        "at": Text(clean(at)),
        "host": Text(clean(job.host)),
        "time": stopwatch(job.seconds + later_s) if job.id else "",
        "memory": Bar((job.now_mb or 0.0) / declared if declared else 0.0, 12, "cyan"),
        "MB now": megabytes(job.now_mb),
        "peak": Text(megabytes(job.peak_mb), style="bold yellow" if near else "default"),
        "declared": megabytes(job.declared_mb),
        "CPU": "" if job.cores is None else f"{100 * job.cores:.0f} %",
    }


def _incidents(incidents: Sequence[Incident], most: int, width: int) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for incident in incidents[:most]:
        line = Text("" if incident.wall is None else f"{clock(incident.wall)} ")
        line.append(f"{clean(incident.title)}: ", style="bold")
        line.append(clean(incident.cause.replace("_", " ")), style=BAD)
        parts.append(line)
        if incident.message not in ("", incident.cause):
            parts.append(_paragraphs(incident.message, width))
        if incident.remedy:
            parts.append(Text(f"  {clean(incident.remedy)}", style="bold"))
        elif incident.helps:
            parts.append(_paragraphs(f"What helps: {incident.helps}", width))
    more = len(incidents) - most
    if more > 0:
        parts.append(Text(f"and {count(more, 'earlier incident')}", style="dim"))
    return parts


def _paragraphs(text: str, width: int) -> Text:
    """Return indented lines of text, each of them broken between words where it is too long."""
    lines = (wrap_text(clean(line), max(20, width), "  ", "  ") for line in text.splitlines())
    return Text("\n".join(part for parts in lines for part in parts))


# Looking takes at most this share of the time.
_INTERVAL_S = 1.0
_LOOKING = 0.1
GOOD = ("ok", "running", "not recorded")
"""Outcomes of a run that are not a problem."""


def follow(places: Sequence[Path], stream: TextIO, *, once: bool) -> int:
    """Show the runs of results directories until all are over.

    Parameters
    ----------
    places
        The directories.
    stream
        Where to write; if it is not a terminal, a line for each event.
    once
        Look once, and return.

    Returns
    -------
    0, or 1 if the last run of a directory failed or was killed.
    """
    console = make_console(stream)
    readers = [RunReader(place) for place in places]
    seen = [reader.read() for reader in readers]
    if not (once or _are_over(seen)):
        is_log = not console.is_terminal or console.is_dumb_terminal
        seen = _look_until_over(console, readers, is_log=is_log)
        if is_log:
            return _exit_code(seen)
    shown = _shown(seen)
    if shown:  # the terminal breaks long lines, so that commands can be copied
        console.print(draw(shown, console.width), soft_wrap=True)
    for line in _missing(seen):
        console.print(line, soft_wrap=True)
    return _exit_code(seen)


def _shown(seen: Sequence[Runs]) -> list[Run]:
    return [run for runs in seen for run in runs.shown]


def _are_over(seen: Sequence[Runs]) -> bool:
    """Whether every directory has had a run, and all are over."""
    return all(runs.runs for runs in seen) and all(run.is_over for run in _shown(seen))


def _exit_code(seen: Sequence[Runs]) -> int:
    return int(any(run.outcome not in GOOD for run in _shown(seen)))


def _missing(seen: Sequence[Runs]) -> list[Text]:
    return [
        Text(f"{clean(str(runs.results))} has no telemetry: no run has started.")
        for runs in seen
        if not runs.runs
    ]


def _look_until_over(console: Console, readers: Sequence[RunReader], *, is_log: bool) -> list[Runs]:
    """Look and show again and again until all is over, or the user presses Ctrl-C."""
    events = [EventLines(str(one.results) if len(readers) > 1 else "") for one in readers]
    screen = nullcontext() if is_log else Live(console=console, screen=True, auto_refresh=False)
    seen: list[Runs] = []
    with screen as live, suppress(KeyboardInterrupt):
        while not (seen and _are_over(seen)):
            began = time.monotonic()
            seen = [reader.read() for reader in readers]
            if live is not None:
                shown = _shown(seen)
                live.update(fit(console, shown) if shown else _missing(seen)[0], refresh=True)
            else:
                for runs, new in zip(seen, events, strict=True):
                    for line in new.lines(runs):
                        console.print(Text(line), soft_wrap=True)
                console.file.flush()
            took = time.monotonic() - began
            time.sleep(max(_INTERVAL_S, took / _LOOKING))
    return seen
