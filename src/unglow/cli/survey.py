"""``unglow survey`` and ``unglow init``: raw images, and a configuration for them.

The survey shows what the images hold, which channels carry the signal, and what is wrong.
"""

from __future__ import annotations

import json
import shlex
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from unglow.cli.directories import add_working_directory
from unglow.cli.inventory import inventory
from unglow.core.errors import ConfigError
from unglow.core.files import write_text
from unglow.core.printable import say, table
from unglow.core.rounding import number, percent
from unglow.core.settings import schema_of, types_of
from unglow.workflow import config as configuration
from unglow.workflow.config import CONFIG, read_config
from unglow.workflow.samples import discover, read_sheet, sheet_text
from unglow.workflow.settings import Settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from unglow.workflow.samples import Discovery


# Characters of a line.
WIDTH = 100
SHEET = Path("config") / "samples.tsv"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow survey` to a parser."""
    parser.description = (
        "Look at every raw image: layout, channels, values in sampled blocks, the channel that is "
        "chosen, and what is wrong with which remedy. Without RAW and --sheet it looks where the "
        "workflow would. The exit status is 1 if there are problems."
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("raw", nargs="?", type=Path, metavar="RAW", help="directory of raw images")
    source.add_argument("--sheet", type=Path, metavar="FILE", help="sample sheet (TSV or CSV)")
    parser.add_argument("--channel", help="channel that carries the signal, instead of config's")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def run(arguments: argparse.Namespace) -> int:
    """Print the survey; return 1 if there are problems."""
    settings = read_config(CONFIG)
    if arguments.channel:
        settings = replace(settings, channel=arguments.channel)
    discovery = find(settings, arguments.raw, arguments.sheet)
    report = inventory(discovery, settings)
    say(json.dumps(report, indent=1) if arguments.json else text(report))
    return 1 if report["problems"] else 0


def find(settings: Settings, raw: Path | None, sheet: Path | None) -> Discovery:
    """Return the pairs of a directory, of a sheet, or of where the workflow would look."""
    if raw is not None:
        return discover(raw, mapped=bool(settings.multiplexed.backgrounds))
    if sheet is None and settings.samples is not None:
        sheet = Path(settings.samples)
    if sheet is None and SHEET.exists():
        sheet = SHEET
    if sheet is not None:
        return read_sheet(sheet, base=Path())
    return find(settings, Path(settings.raw), None)


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
        reason = chosen["reason"] if chosen else "cannot be processed, see the problems."
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


# Snakemake's own, not what unglow computes.
_LEFT_OUT = ("pathvars",)
_COMMENT = 98
# The names of raw images cannot say this.
_ABOUT_CONTROLS = (
    "# Pairs that were imaged twice without stain in between: add a column control, with true in "
    "their rows."
)


def add_arguments_init(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow init` to a parser."""
    parser.description = (
        "Write config/config.yaml (every key with its default and what it means) and "
        "config/samples.tsv (the pairs found in RAW, if there are no slides next to them), and "
        "print a survey of the images. The exit status is 1 if the survey shows problems."
    )
    parser.add_argument("raw", type=Path, metavar="RAW", help="directory of raw images")
    add_working_directory(parser, "working directory that config/ belongs to")
    parser.add_argument("--force", action="store_true", help="overwrite files that are there")


def run_init(arguments: argparse.Namespace) -> int:
    """Write both files and print the survey; return 1 if it shows problems."""
    targets = [arguments.directory / CONFIG, arguments.directory / SHEET]
    there = [str(target) for target in targets if target.exists()]
    if there and not arguments.force:
        raise ConfigError(
            f"{' and '.join(there)} {'are' if len(there) > 1 else 'is'} there already; use --force "
            f"to overwrite, or `unglow survey {shlex.quote(str(arguments.raw))}` to only look."
        )
    discovery = discover(arguments.raw)
    report = inventory(discovery, configuration.load({}))
    if discovery.slides:  # which a sheet cannot name, and would hide
        del targets[1]
    if discovery.pairs or discovery.slides:
        write_text(targets[0], config_text(_relate(arguments.raw, arguments.directory)))
    if discovery.pairs and not discovery.slides:
        write_text(targets[1], _sheet(discovery, arguments.directory))
    say(text(report))
    if discovery.pairs or discovery.slides:
        say(f"Written: {', '.join(map(str, targets))}")
        here = arguments.directory.absolute() == Path.cwd()
        option = "" if here else f" --directory {shlex.quote(str(arguments.directory))}"
        say(f"Next: `unglow run -n{option}` shows what a run would do and take.")
    else:
        say("Nothing written, since no pair was found.")
    return 1 if report["problems"] else 0


def config_text(raw: str) -> str:
    """Return a configuration file with every key, its default and its description.

    Parameters
    ----------
    raw
        The directory of raw images, as the working directory sees it.
    """
    lines = ["# What unglow computes; every key may be left out. Written by `unglow init`.", ""]
    _write_keys(schema_of(Settings), 0, {"raw": raw}, lines)
    return "\n".join(lines).rstrip() + "\n"


def _write_keys(
    rule: Mapping[str, Any], depth: int, given: Mapping[str, Any], lines: list[str]
) -> None:
    """Append the keys of one mapping of the schema."""
    indent = "  " * depth
    for key, inner in rule["properties"].items():
        if depth == 0 and key in _LEFT_OUT:
            continue
        about = str(inner["description"])
        if "enum" in inner and "string" in types_of(inner):
            about += f" One of: {', '.join(value for value in inner['enum'] if value)}."
        lines += textwrap.wrap(
            about, _COMMENT, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "
        )
        if inner.get("properties"):
            lines.append(f"{indent}{key}:")
            _write_keys(inner, depth + 1, {}, lines)
        else:
            value = given.get(key, inner["default"])
            lines.append(f"{indent}{key}: {_inline(value)}")
        if depth == 0:
            lines.append("")


def _inline(value: Any) -> str:
    """Return a value as YAML on one line."""
    written = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10_000)
    return written.removesuffix("\n").removesuffix("\n...")


def _relate(raw: Path, directory: Path) -> str:
    """Return a path as seen from the working directory: relative below it, links as given."""
    absolute, top = raw.absolute(), directory.absolute()
    if ".." in (*absolute.parts, *top.parts):
        absolute, top = raw.resolve(), directory.resolve()
    return str(absolute.relative_to(top) if absolute.is_relative_to(top) else absolute)


def _sheet(discovery: Discovery, directory: Path) -> str:
    """Return the sample sheet; what could not be paired is kept in it as comments."""
    lines = [f"# skipped: {problem.message}" for problem in discovery.problems]
    lines.append(_ABOUT_CONTROLS)
    return sheet_text(discovery.pairs, directory) + "".join(f"{line}\n" for line in lines)
