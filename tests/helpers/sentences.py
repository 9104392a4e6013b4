"""Sentences that are too long to be read once."""

from __future__ import annotations

import re

MOST_WORDS = 25
_CODE = re.compile(r"`[^`]*`")
_END = re.compile(r"(?<=[.?!])\s+|[\n\t]| {3,}")
_PART = re.compile(r"(?<=[.?!;:])\s+|\n\s*\n")


def long_sentences(text: str, *, wrapped: bool = False) -> list[str]:
    """Return sentences of more than 25 words; those of one line, or of one paragraph if wrapped."""
    text = _CODE.sub("code", text)
    if wrapped:
        text = re.sub(r"(?<=\S)\n {4,}(?=\S)", " ", text)
    return [one for one in _END.split(text) if len(one.split()) > MOST_WORDS]


def long_parts(text: str) -> list[str]:
    """Return parts of sentences, which a colon or semicolon ends, of more than 25 words."""
    return [one for one in _PART.split(_CODE.sub("code", text)) if len(one.split()) > MOST_WORDS]
