"""Choice of a part of the pairs and slides by their names: the config key ``only``."""

from __future__ import annotations

import difflib
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from unglow.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from unglow.workflow.samples.pair import Problem

Key = tuple[str, str]
"""Sample and dye of a pair, or name and '' of a slide."""
# The most names that are suggested, and their least similarity.
_NAMED, _SIMILAR = 3, 0.3


def chosen_keys(
    patterns: Sequence[str], keys: Collection[Key], problems: Sequence[Problem]
) -> tuple[frozenset[Key], list[Problem]]:
    """Return the keys that patterns name, and the problems of those that could not be used.

    Parameters
    ----------
    patterns
        ``SAMPLE/DYE`` or ``SAMPLE``, with the wildcards of a shell.
    keys, problems
        All that can be processed, and all that was skipped.

    Raises
    ------
    InputError
        A pattern matches nothing.
    """
    named = [(p, (p.sample or "", p.dye or "")) for p in problems]
    known = {*keys, *(key for _, key in named if key[0])}
    for pattern in patterns:
        if not any(_matches(pattern, key) for key in known):
            raise InputError(_no_match(pattern, known))
    of_run = [p for p, key in named if any(_matches(pattern, key) for pattern in patterns)]
    return frozenset(k for k in keys if any(_matches(p, k) for p in patterns)), of_run


def _matches(pattern: str, key: Key) -> bool:
    sample, _, dye = pattern.partition("/")
    return "/".join(key) == pattern or (
        fnmatchcase(key[0], sample) and fnmatchcase(key[1], dye or "*")
    )


def _no_match(pattern: str, keys: Collection[Key]) -> str:
    names = sorted("/".join(filter(None, key)) for key in keys)
    near = difflib.get_close_matches(pattern, names, _NAMED, _SIMILAR) or names[:_NAMED]
    return f"'{pattern}' matches no pair; the nearest names are {', '.join(near)}."
