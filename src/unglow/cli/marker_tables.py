"""Tables of markers that ``unglow init`` writes: drafts from metadata, backgrounds by a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.core.errors import InputError
from unglow.core.files import read_file, write_text
from unglow.io.raw_header import is_ome_zarr
from unglow.io.raw_images import read_header
from unglow.io.tiff.metadata import MACSIMA
from unglow.io.tiff.read_header import read_acquisition
from unglow.io.tiff.series import CHANNELS
from unglow.multiplexed.drafts import (
    RULES,
    apply_rule,
    draft_rows,
    list_gaps,
    names_background,
    write_rows,
)
from unglow.multiplexed.markers import NAME, read_cells
from unglow.workflow.samples import discover

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from unglow.io.tiff.metadata import Acquisition
    from unglow.workflow.samples.pair import SlideFiles


def draft_tables(raw: Path) -> tuple[list[Path], list[str]]:
    """Write ``markers.csv`` for each slide without one whose metadata name its channels.

    Returns
    -------
    The tables that were written, and a sentence for each on what they hold and what they lack.
    """
    tables, remarks = [], []
    for files in discover(raw, mapped=True).slides:
        acquired = _read_slide(files.images) if files.table is None else None
        if acquired is None:
            continue
        channels = [channel for one in acquired for channel in one.channels]
        rows = draft_rows(channels)
        table = files.images[0].parent / NAME
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
