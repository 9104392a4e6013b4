"""``unglow survey``: what the raw images hold, which channels carry the signal, what is wrong."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from unglow.cli.inventory import inventory
from unglow.core.printable import say, table
from unglow.core.rounding import number, percent
from unglow.workflow.batch import find_pairs
from unglow.workflow.config import CONFIG, read_config
from unglow.workflow.samples.discovery import discover

if TYPE_CHECKING:
    import argparse

    from unglow.workflow.samples.pair import Discovery
    from unglow.workflow.settings import Settings


# Characters of a line.
WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow survey` to a parser."""
    parser.description = (
        "List every raw image: layout, channels, values in sampled blocks, the channel that is "
        "read, and problems with what to do. Without RAW and --sheet, list what the workflow would "
        "use. The exit status is 1 if there are problems."
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("raw", nargs="?", type=Path, metavar="RAW", help="directory of raw images")
    source.add_argument("--sheet", type=Path, metavar="FILE", help="sample sheet (TSV or CSV)")
    parser.add_argument("--channel", help="channel with the signal (default: as configured)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def run(arguments: argparse.Namespace) -> int:
    """Print the survey; return 1 if there are problems."""
    settings = read_config(CONFIG)
    if arguments.channel:
        settings = msgspec.structs.replace(settings, channel=arguments.channel)
    discovery = find(settings, arguments.raw, arguments.sheet)
    report = inventory(discovery, settings)
    say(json.dumps(report, indent=1) if arguments.json else text(report))
    return 1 if report["problems"] else 0


def find(settings: Settings, raw: Path | None, sheet: Path | None) -> Discovery:
    """Return the pairs of a directory, of a sheet, or of where the workflow would look."""
    if raw is not None:
        return discover(raw, mapped=bool(settings.multiplexed.backgrounds))
    if sheet is not None:
        settings = msgspec.structs.replace(settings, samples=str(sheet))
    return find_pairs(settings, Path())[1]


def text(report: dict[str, Any]) -> str:
    """Return the survey as plain text, at most 100 columns wide where names allow it."""
    parts = [report["layout"]]
    if report["files"]:
        parts += ["Files", _files(report["files"])]
        parts += ["Channels (sampled blocks; * is read)", _channels(report["files"])]
        parts += ["Pairs", _pairs(report["pairs"])]
    slides = report.get("slides", [])
    if slides:
        parts += ["Slides", _slides(slides), "Channels of slides", _channels_of(slides)]
    notes = [f"{Path(f['path']).name}: {note}" for f in report["files"] for note in f["notes"]]
    notes += report.get("notes", ())
    if notes:
        parts += ["Notes", _list(notes)]
    skipped = [p for p in report["problems"] if p["skipped"]]
    others = [p for p in report["problems"] if not p["skipped"]]
    for title, found in (("Skipped", skipped), ("Problems", others)):
        if found:
            parts += [f"{title} ({len(found)})", _list([p["message"] for p in found])]
    names = {(p["sample"], p["dye"]) for p in skipped}
    good = sum(
        pair["chosen"] is not None and (pair["sample"], pair["dye"]) not in names
        for pair in report["pairs"]
    )
    counts = [f"{len(skipped)} skipped"] * bool(skipped)
    counts += [f"{len(others)} problem{'' if len(others) == 1 else 's'}"] * bool(others)
    parts.append(
        f"{good} pair{'' if good == 1 else 's'} "
        + (f"and {len(slides)} slide{'' if len(slides) == 1 else 's'} " if slides else "")
        + f"can be processed; {', '.join(counts) or 'no problems'}."
    )
    return "\n".join(parts)


def _slides(slides: list[dict[str, Any]]) -> str:
    rows = [["slide", "images", "rows x cols", "dtype", "channels", "cycles", "registered on"]]
    for one in slides:
        cycles = {channel["cycle"] for channel in one["channels"]}
        shape = "{} x {}".format(*one["shape"])
        counts = (str(len(n)) for n in (one["channels"], cycles))
        on = ", ".join(one["registered_on"].values()) or "what shows most"
        rows.append([one["slide"], str(len(one["images"])), shape, one["dtype"], *counts, on])
    return table(rows, "lrrlrrl")


def _channels_of(slides: list[dict[str, Any]]) -> str:
    rows = [["slide", "channel", "cycle", "background", "exposure", ""]]
    for one in slides:
        for channel in one["channels"]:
            exposure = channel["exposure"]
            remarks = ["left out"] if channel["removed"] else []
            remarks += ["candidates"] if channel["name"] in one.get("candidates", ()) else []
            rows.append([
                one["slide"],
                channel["name"],
                str(channel["cycle"]),
                channel["background"] or "-",
                "-" if exposure is None else number(exposure, digits=4),
                ", ".join(remarks),
            ])  # fmt: skip
    return table(rows, "llrlrl")


def _files(files: list[dict[str, Any]]) -> str:
    head = ["sample", "dye", "image", "rows x cols", "dtype"]
    head += ["layout", "compression", "um/px", "MB"]
    return table([head, *map(_file_row, files)], "lllrlllrr")


def _file_row(file: dict[str, Any]) -> list[str]:
    return [
        file["sample"],
        file["dye"],
        file["role"],
        "{} x {}".format(*file["shape"]),
        file["dtype"],
        _layout(file),
        file["compression"].lower().replace("_", " "),
        _pixel_size(file["pixel_size_um"]),
        f"{file['file_bytes'] / 1e6:.1f}",
    ]


def _layout(file: dict[str, Any]) -> str:
    rows, cols = file["unit"]
    if file["layout"] == "tiles":
        return f"tiles {rows} x {cols}"
    return f"strips of {rows}" if file["layout"] == "strips" else str(file["layout"])


def _pixel_size(size: list[float] | None) -> str:
    if size is None:
        return "-"
    x, y = (number(s, digits=4) for s in size)
    return x if x == y else f"{x} x {y}"


def _channels(files: list[dict[str, Any]]) -> str:
    rows = [["sample", "dye", "image", "channel", "min", "mean", "max", "saturated", "signal"]]
    for file in files:
        names = [file["sample"], file["dye"], file["role"]]
        for channel in file["channels"]:
            mark = " *" if channel["chosen"] else ""
            mark += " (alpha)" if channel["alpha"] else ""
            rows.append([
                *names,
                channel["name"] + mark,
                *(_number(channel[key]) for key in ("min", "mean", "max")),
                _percent(channel["saturated"]),
                _percent(channel["share"]),
            ])  # fmt: skip
            names = ["", "", ""]
    return table(rows, "llllrrrrr")


def _number(value: float | None) -> str:
    return "-" if value is None else number(value, digits=4)


def _percent(share: float | None) -> str:
    return "-" if share is None else percent(share, least=1e-6)


def _pairs(pairs: list[dict[str, Any]]) -> str:
    lines = []
    for pair in pairs:
        chosen = pair["chosen"]
        reason = chosen["reason"] if chosen else "skipped, for the reason below."
        kind = " (unstained control)" if pair["control"] else ""
        lines.append(f"  {pair['sample']} {pair['dye']}{kind}: {reason[0].upper()}{reason[1:]}")
        names = f"pre {Path(pair['pre']).name}, post {Path(pair['post']).name} ({pair['rule']})"
        lines += textwrap.wrap(names, WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 4)
    return "\n".join(lines)


def _list(sentences: list[str]) -> str:
    return "\n".join(
        textwrap.fill(
            sentence, WIDTH, initial_indent="  - ", subsequent_indent="    ",
            break_long_words=False, break_on_hyphens=False,
        )
        for sentence in sentences
    )  # fmt: skip
