"""Files for MultiQC: what the summary says of each pair, and what its jobs took.

MultiQC reads every file whose name ends with ``_mqc.json`` as custom content: a kind of plot, its
settings and, by sample, the values (https://docs.seqera.io/multiqc/custom_content). A sample is a
pair here, named as in ``verdict.txt``. Shares are in percent.
"""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from unglow.core import digests
from unglow.core.files import read_file, write_changed_text
from unglow.core.levels import name_of, names_of
from unglow.core.printable import printable
from unglow.core.rounding import round_digits
from unglow.telemetry.attempt_files import number_of
from unglow.telemetry.jsonl import SUFFIX, number, parse_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

FOLDER = "multiqc"
"""Directory of these files, below the results."""
GENERAL, PAIRS, SPOILT, JOBS = (
    f"{FOLDER}/unglow_{name}_mqc.json" for name in ("general", "pairs", "spoilt", "jobs")
)
FILES = (GENERAL, PAIRS, SPOILT, JOBS)
"""All of them, below the results; in the last one are time and memory, which differ each time."""
LIST_OF_JOBS = "multiqc_jobs"
"""Name of the list with the digest of the last one, so that those of results are equal."""

Values = dict[str, dict[str, float | str]]
"""Values of each pair by their keys; what is not known is left out."""

_PARENT = {
    "parent_id": "unglow",
    "parent_name": "unglow",
    "parent_description": (
        "subtracts the autofluorescence that was imaged before staining from images after it. "
        "A sample is a pair of images (or a marker of a slide)."
    ),
}
_STATUS_RULES = {
    "pass": [{"s_eq": "ok"}],
    "warn": [{"s_eq": "suspect"}],
    "fail": [{"s_eq": "failed"}, {"s_eq": "incomplete"}],
}


class _Column(NamedTuple):
    """A column of a table of MultiQC: key, heading, what it means, and settings of MultiQC's."""

    key: str
    title: str
    description: str
    settings: Mapping[str, Any]

    @property
    def header(self) -> dict[str, Any]:
        """The column as MultiQC wants it."""
        return {"title": self.title, "description": self.description, **self.settings}


_NUMBER = {"min": 0, "format": "{:,.3g}"}
_PERCENT = {**_NUMBER, "max": 100, "suffix": " %"}
_COUNT = {"min": 0, "format": "{:,.0f}", "scale": "Blues"}
_STATUS = _Column(
    "status",
    "Status",
    "ok, suspect (look where the reason points), failed, skipped or incomplete",
    {"cond_formatting_rules": _STATUS_RULES, "scale": False},
)
_GENERAL = (
    _STATUS,
    _Column(
        "error_p95_px",
        "Map error",
        "Estimated error of the map: 95 % of the places with texture are off by less, px",
        {**_NUMBER, "suffix": " px", "scale": "YlOrRd"},
    ),
    _Column(
        "gain",
        "Gain",
        "Background of post over that of pre, by the default method",
        {"format": "{:,.4g}", "scale": "PuBu"},
    ),
    _Column("candidates", "Candidates", "Candidates on the section", _COUNT),
    _Column(
        "candidates_fdr",
        "False",
        "False-discovery rate: share of the candidates that is expected to be chance",
        {**_PERCENT, "scale": "YlOrRd"},
    ),
    _Column(
        "spoilt_share",
        "Spoilt",
        "Share of the section that is spoilt and not searched",
        {**_PERCENT, "scale": "YlOrRd"},
    ),
)
_PAIRS = (
    _STATUS,
    _Column("reasons", "Reasons", "Why it is not ok", {"scale": False}),
    _Column("notes", "Notes", "What was done otherwise than usual", {"scale": False}),
    _Column(
        "outdated", "Outdated", "Other settings, versions or inputs than now", {"scale": False}
    ),
    _Column("gain", "Gain", "By the default method", {"format": "{:,.4g}", "scale": False}),
    _Column("interval", "95 % interval", "Of the gain", {"scale": False}),
    _Column("method", "Method", "That the gain is by", {"scale": False}),
)
_JOBS = (
    _Column(
        "peak_mb",
        "Peak memory",
        "Of the largest job, MB (1e6 bytes)",
        {**_COUNT, "suffix": " MB", "scale": "Purples"},
    ),
    _Column(
        "seconds",
        "Time",
        "Sum of the wall times of its jobs, s; all markers of a slide have that of the slide",
        {**_NUMBER, "suffix": " s", "scale": "Greens"},
    ),
)
_SHARES = ("candidates_fdr", "spoilt_share")


def write(rows: Sequence[Mapping[str, str]], results: Path) -> list[Path]:
    """Write all files for MultiQC; one that would not change keeps its time.

    Parameters
    ----------
    rows
        Of the summary, as texts.
    results
        The results directory, with the telemetry of the jobs below it.

    Returns
    -------
    The paths of all but `JOBS`, which has a list of digests of its own, `LIST_OF_JOBS`.
    """
    named = dict(zip(_unique(map(name_of, rows)), rows, strict=True))
    contents = {
        GENERAL: _general_stats("unglow_general", _GENERAL, _general(named)),
        PAIRS: _table(_pairs(named)),
        SPOILT: _bar_graph(_spoilt(named)),
        JOBS: _general_stats("unglow_jobs", _JOBS, _costs(named, results / "telemetry")),
    }
    for name, content in contents.items():
        text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
        write_changed_text(results / name, text + "\n")
    digests.write(digests.list_of(results, LIST_OF_JOBS), [results / JOBS])
    return [results / name for name in contents if name != JOBS]


def _unique(names: Iterable[str]) -> Iterator[str]:
    """Yield names, numbered where they come again (or are empty): MultiQC has one row for each."""
    seen: dict[str, int] = {}
    for name in names:
        title = printable(name) or "input"
        seen[title] = seen.get(title, 0) + 1
        yield title if seen[title] == 1 else f"{title} ({seen[title]})"


def _general(named: Mapping[str, Mapping[str, str]]) -> Values:
    return {
        name: _known(
            {c.key: row.get("status") if c is _STATUS else _number(row, c.key) for c in _GENERAL}
        )
        for name, row in named.items()
    }


def _pairs(named: Mapping[str, Mapping[str, str]]) -> Values:
    """Return values of the table of statuses."""
    found = {}
    for name, row in named.items():
        ends = [row.get(key) for key in ("gain_low95", "gain_high95")]
        texts = {
            **{key: row.get(key) for key in ("status", "reasons", "notes", "outdated", "method")},
            "interval": " to ".join(map(str, ends)) if all(ends) else "",
        }
        safe = {key: _escape(text or "") for key, text in texts.items()}
        found[name] = _known({**safe, "gain": _number(row, "gain")})
    return found


def _escape(text: str) -> str:
    """Return text for a cell: MultiQC puts it into its page as it is, but for commas."""
    return html.escape(printable(text), quote=False).replace(",", "&#44;")


def _spoilt(named: Mapping[str, Mapping[str, str]]) -> Values:
    """Return the share of the section that is spoilt, by reason, of each pair that reports it."""
    found = {
        name: dict(_reasons(row.get("spoilt_reasons", "")))
        for name, row in named.items()
        if row.get("spoilt_share")
    }
    known = dict.fromkeys((reason for shares in found.values() for reason in shares), 0.0)
    return {name: {**known, **shares} for name, shares in found.items() if known}


def _reasons(text: str) -> Iterator[tuple[str, float]]:
    """Yield reasons and percent of a text such as ``lost 0.021, debris 0.003``."""
    for part in text.split(", "):
        reason, _, share = part.rpartition(" ")
        value = _number({"share": share}, "share")
        if reason and isinstance(value, float):
            yield printable(reason), round_digits(100 * value)


def _costs(named: Mapping[str, Mapping[str, str]], telemetry: Path) -> Values:
    """Return peak memory (MB) and time (s) of the jobs of each row that have left a record.

    What several variants share counts to each of them, and what a slide took to all its markers.
    """
    found = {}
    for name, row in named.items():
        if row.get("status") == "skipped":  # which no job was started for, whatever its name is
            continue
        ends = [end for record in _records(telemetry, row) if (end := _last_line(record))]
        peaks = [peak for end in ends if (peak := number(end.get("peak_mb"))) is not None]
        seconds = [took for end in ends if (took := number(end.get("seconds"))) is not None]
        known = {
            "peak_mb": max(peaks, default=None),
            "seconds": round_digits(sum(seconds)) if seconds else None,
        }
        if any(value is not None for value in known.values()):
            found[name] = _known(known)
    return found


def _records(telemetry: Path, row: Mapping[str, str]) -> Iterator[Path]:
    """Yield the records of the jobs that a row rests on, from those of all variants down."""
    sample, *below = filter(None, names_of(row))
    if row.get("background_channel"):
        places = [telemetry / sample, *sorted((telemetry / sample / "registration").glob("*"))]
    else:
        places = [telemetry.joinpath(sample, *below[: n + 1]) for n in range(len(below))]
    for place in places:
        for path in sorted(place.glob(f"*{SUFFIX}")):
            if number_of(path.name) is None:
                yield path


def _last_line(record: Path) -> dict[str, Any]:
    """Return what a job's record says of its last attempt; empty if it cannot be read."""
    try:
        lines = read_file(record).splitlines()
    except OSError:
        return {}
    last = parse_line(lines[-1]) if lines else None
    return last if isinstance(last, dict) else {}


def _number(row: Mapping[str, str], key: str) -> float | None:
    """Return a number of a row, shares in percent; None where it has none."""
    try:
        value = number(float(row[key]))
    except (KeyError, ValueError):
        return None
    return round_digits(100 * value) if value is not None and key in _SHARES else value


def _known(values: Mapping[str, float | str | None]) -> dict[str, float | str]:
    return {key: value for key, value in values.items() if value not in (None, "")}


def _general_stats(key: str, columns: Sequence[_Column], data: Values) -> dict[str, Any]:
    """Return columns for MultiQC's first table; those without any value are left out."""
    there = {name for values in data.values() for name in values}
    headers = [{c.key: {**c.header, "namespace": "unglow"}} for c in columns if c.key in there]
    return {"id": key, "plot_type": "generalstats", "pconfig": headers, "data": data}


def _table(data: Values) -> dict[str, Any]:
    there = {name for values in data.values() for name in values}
    return {
        "id": "unglow_pairs",
        **_PARENT,
        "section_name": "Status of pairs",
        "description": "with the reasons for what is not ok, and the gain that was used.",
        "plot_type": "table",
        "pconfig": {"id": "unglow_pairs_table", "title": "unglow: status of pairs"},
        "headers": {c.key: c.header for c in _PAIRS if c.key in there},
        "data": data,
    }


def _bar_graph(data: Values) -> dict[str, Any]:
    return {
        "id": "unglow_spoilt",
        **_PARENT,
        "section_name": "Spoilt area",
        "description": "of the section, by reason; it is not searched for candidates.",
        "plot_type": "bargraph",
        "pconfig": {
            "id": "unglow_spoilt_graph",
            "title": "unglow: spoilt area by reason",
            "ylab": "share of the section, %",
            "ysuffix": " %",
            "cpswitch": False,
        },
        "data": data,
    }
