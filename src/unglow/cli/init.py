"""``unglow init``: a configuration for raw images, a sample sheet, and tables of markers."""

from __future__ import annotations

import shlex
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from unglow.cli.directories import add_working_directory
from unglow.cli.inventory import inventory
from unglow.cli.survey import WIDTH, text
from unglow.core.errors import ConfigError, InputError
from unglow.core.files import read_file, resolve_links, write_text
from unglow.core.printable import say
from unglow.core.settings import schema_of, types_of
from unglow.images.raw_header import is_ome_zarr
from unglow.images.raw_images import read_header
from unglow.images.tiff.metadata import MACSIMA
from unglow.images.tiff.read_header import read_acquisition
from unglow.images.tiff.series import CHANNELS
from unglow.slides.marker_tables import (
    RULES,
    apply_rule,
    draft_rows,
    list_gaps,
    names_background,
    write_rows,
)
from unglow.slides.markers import read_cells
from unglow.workflow import config as configuration
from unglow.workflow.batch import SHEET
from unglow.workflow.config import CONFIG
from unglow.workflow.samples.discovery import discover
from unglow.workflow.samples.pair import MARKER_TABLE
from unglow.workflow.samples.sheet import find_unwritable, sheet_text
from unglow.workflow.settings import Settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from unglow.images.tiff.metadata import Acquisition
    from unglow.workflow.samples.pair import Discovery, SlideFiles


# Snakemake's own, not what unglow computes.
_LEFT_OUT = ("pathvars",)
_COMMENT = 98
# The names of raw images cannot say this.
_ABOUT_CONTROLS = (
    "# Pairs that were imaged twice without stain in between: add a column control, with true in "
    "their rows."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow init` to a parser."""
    parser.description = (
        "Write config/config.yaml (every key with its default and what it means), and print a "
        "survey of the images. Pairs in RAW without slides next to them go to config/samples.tsv. "
        "Next to the images of a slide without a table, write markers.csv from their metadata. "
        "The exit status is 1 if the survey shows problems."
    )
    parser.add_argument("raw", type=Path, metavar="RAW", help="directory of raw images")
    add_working_directory(parser, "working directory to write config/ in")
    parser.add_argument("--force", action="store_true", help="overwrite existing files")
    rules = ". ".join(f"{name}: {about}" for name, about in RULES.items())
    parser.add_argument(
        "--background",
        choices=tuple(RULES),
        metavar="RULE",
        help=f"fill in the backgrounds of markers that have none, by a rule. {rules}. "
        "Existing configuration and sheet are kept.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the files and print the survey; return 1 if it shows problems."""
    targets = [arguments.directory / CONFIG, arguments.directory / SHEET]
    there = [str(target) for target in targets if target.exists()]
    if there and not arguments.force and arguments.background is None:
        raise ConfigError(
            f"{' and '.join(there)} {'are' if len(there) > 1 else 'is'} there already; use --force "
            f"to overwrite, or `unglow survey {shlex.quote(str(arguments.raw))}` to only look."
        )
    here = arguments.directory.absolute() == Path.cwd()
    option = "" if here else f" --directory {shlex.quote(str(arguments.directory))}"
    command = f"unglow init {shlex.quote(str(arguments.raw))}{option}"
    tables, remarks = draft_tables(arguments.raw)
    discovery = discover(arguments.raw)
    unwritable = find_unwritable(discovery.pairs, arguments.directory)
    named = {(problem.sample, problem.dye) for problem in unwritable}
    discovery = replace(
        discovery,
        pairs=tuple(pair for pair in discovery.pairs if pair.key not in named),
        problems=(*discovery.problems, *unwritable),
    )
    filled, more = fill_tables(
        discovery.slides, arguments.background, drafts=tables, command=command
    )
    report = inventory(discovery, configuration.load({}))
    written = _write_files(arguments, discovery)
    say(text(report))
    for line in "\n".join((*remarks, *more)).splitlines():
        say(textwrap.fill(line, WIDTH, break_long_words=False, break_on_hyphens=False))
    written += [path for path in dict.fromkeys((*tables, *filled)) if path not in written]
    if written:
        say(f"Written: {', '.join(map(str, written))}")
    if discovery.pairs or discovery.slides:
        say(f"Next: `unglow run -n{option}` shows what a run would do and take.")
    else:
        say("Nothing written, since no pair was found.")
    return 1 if report["problems"] else 0


def _write_files(arguments: argparse.Namespace, discovery: Discovery) -> list[Path]:
    """Write configuration and sheet for what was found; return their paths."""
    texts = {}
    if discovery.pairs or discovery.slides:
        raw = _relate(arguments.raw, arguments.directory)
        texts[arguments.directory / CONFIG] = config_text(raw)
    if discovery.pairs and not discovery.slides:  # which a sheet cannot name, and would hide
        texts[arguments.directory / SHEET] = _sheet(discovery, arguments.directory)
    written = [path for path in texts if arguments.force or not path.exists()]
    for path in written:
        write_text(path, texts[path])
    return written


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
        absolute, top = resolve_links(raw), resolve_links(directory)
    return str(absolute.relative_to(top) if absolute.is_relative_to(top) else absolute)


def _sheet(discovery: Discovery, directory: Path) -> str:
    """Return the sample sheet; what could not be paired is kept in it as comments."""
    lines = [f"# skipped: {problem.message}" for problem in discovery.problems]
    lines.append(_ABOUT_CONTROLS)
    return sheet_text(discovery.pairs, directory) + "".join(f"{line}\n" for line in lines)


def draft_tables(raw: Path) -> tuple[list[Path], list[str]]:
    """Write ``markers.csv`` for each slide without one whose metadata name its channels.

    Returns
    -------
    The tables that were written, and a sentence for each on what they hold and what they lack.
    """
    tables, remarks = [], []
    paired = {image for pair in discover(raw).pairs for image in (pair.pre, pair.post)}
    for files in discover(raw, mapped=True).slides:
        if files.table is not None or not paired.isdisjoint(files.images):
            continue
        acquired = _read_slide(files.images)
        if acquired is None:
            continue
        channels = [channel for one in acquired for channel in one.channels]
        rows = draft_rows(channels)
        table = files.images[0].parent / MARKER_TABLE
        write_rows(table, rows)
        tables.append(table)
        gaps = list_gaps(rows)
        remarks.append(
            f"{table} has {len(rows)} channels, as the {acquired[0].kind} of its images describes "
            "them" + (f". Not in the metadata, so empty: {'; '.join(gaps)}." if gaps else ".")
        )
        corrected = [
            row["marker_name"]
            for row, channel in zip(rows, channels, strict=True)
            if channel.is_corrected
        ]
        if corrected:
            remarks.append(
                f"{table}: the microscope's program has removed autofluorescence from "
                f"{', '.join(corrected)} already, by the metadata. Do not subtract it again."
            )
    return tables, remarks


def _read_slide(images: Sequence[Path]) -> list[Acquisition] | None:
    """Return what the metadata of a folder's images say; None if that is not a slide.

    A slide has images of several channels, or those of a MACSima, which have one each.
    """
    found = []
    for path in images:
        if is_ome_zarr(path):
            return None
        try:
            acquisition = read_acquisition(read_header(path, z=CHANNELS))
        except InputError:  # the survey names it
            return None
        if acquisition is None:
            return None
        found.append(acquisition)
    several = any(len(one.channels) > 1 for one in found)
    single = len(found) > 1 and all(one.kind == MACSIMA for one in found)
    return found if several or single else None


def fill_tables(
    slides: Iterable[SlideFiles], rule: str | None, *, drafts: Collection[Path], command: str
) -> tuple[list[Path], list[str]]:
    """Name backgrounds in the tables of slides that name none, by one of `RULES`.

    Without a rule nothing is changed. A table that is changed is kept as ``markers.csv.before``,
    unless it is one of ``drafts``. ``command`` is what the user types before a rule.

    Returns
    -------
    The tables that were written; for each table a sentence on what the rule found and what not, or
    one for all that lists the rules.
    """
    tables, remarks, unnamed = [], [], []
    for files in slides:
        if files.table is None:
            continue
        try:
            rows = read_cells(files.table)
        except InputError:  # the survey names it
            continue
        if names_background(rows):
            continue
        if rule is None:
            unnamed.append(str(files.table))
            continue
        filled, blanks, missed = apply_rule(rows, rule, images=len(files.images))
        remarks.append(
            f"{files.table}: background by the rule {rule} ({RULES[rule]}). Taken for blanks: "
            f"{', '.join(blanks) or 'none'}."
            + (f" No background found for: {', '.join(missed)}." if missed else "")
        )
        if names_background(filled):
            if files.table not in drafts:
                before = read_file(files.table).decode("utf-8", "surrogateescape")
                write_text(files.table.with_name(f"{files.table.name}.before"), before)
            write_rows(files.table, filled)
            tables.append(files.table)
    if unnamed:
        rules = "".join(f"\n  {name:<16} {about}" for name, about in RULES.items())
        remarks.append(
            f"No background is named in {', '.join(unnamed)}. Name one for each marker in the "
            "column background, or let one of these rules do so, with "
            f"`{command} --background RULE`:{rules}"
        )
    return tables, remarks
