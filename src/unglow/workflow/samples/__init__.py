"""Which files belong together: pairs of a pre-stain and a post-stain image per sample and dye."""

from __future__ import annotations

from unglow.workflow.samples.discovery import discover
from unglow.workflow.samples.naming import SAFE_NAME, explain_unsafe
from unglow.workflow.samples.pair import Discovery, Pair, Problem, describe_repeated, map_sources
from unglow.workflow.samples.sheet import find_unwritable, read_sheet, sheet_text

__all__ = [
    "SAFE_NAME",
    "Discovery",
    "Pair",
    "Problem",
    "describe_repeated",
    "discover",
    "explain_unsafe",
    "find_unwritable",
    "map_sources",
    "read_sheet",
    "sheet_text",
]
