"""Which files belong together: pairs of a pre-stain and a post-stain image per sample and dye."""

from __future__ import annotations

from unglow.pairs.discovery import discover
from unglow.pairs.naming import SAFE_NAME, unsafe
from unglow.pairs.records import ROLES, Discovery, Pair, Problem
from unglow.pairs.sheet import read_sheet, sheet_text
from unglow.pairs.sources import map_sources

__all__ = [
    "ROLES",
    "SAFE_NAME",
    "Discovery",
    "Pair",
    "Problem",
    "discover",
    "map_sources",
    "read_sheet",
    "sheet_text",
    "unsafe",
]
