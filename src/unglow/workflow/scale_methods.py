"""The scale methods of a pair: which are on, which one is the main one, which are written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unglow.core.levels import VARIANT
from unglow.photometry.gain.scale import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from unglow.workflow.batch import Batch
    from unglow.workflow.samples import Pair
    from unglow.workflow.settings import Settings

RATIO_SETTINGS = ("fwhm_px", "max_error_px")
"""Keys of the section ``detect`` that the signal-to-noise ratio follows from."""


def manual_gain(pair: Pair, settings: Settings) -> float | None:
    """Return the manual gain of a pair: its own, or the configuration's, or None."""
    own = pair.manual_scale
    gain = own if own is not None else settings.scale.manual
    return None if gain is None else float(gain)


def scale_methods(batch: Batch, wildcards: Mapping[str, str]) -> tuple[str, ...]:
    """Return the scale methods of a pair; a given manual gain switches ``manual`` on.

    Exposure times are known of slides alone.
    """
    settings = batch.variant_settings(wildcards)
    methods = tuple(m for m in settings.scale.methods if m != "exposure")
    given = manual_gain(batch.pair(wildcards), settings) is not None
    return (*methods, "manual") if given and "manual" not in methods else methods


def main_method(batch: Batch, wildcards: Mapping[str, str]) -> str:
    """Return the main method of a pair, whose difference is always written."""
    default = batch.variant_settings(wildcards).scale.default
    return str(default or scale_methods(batch, wildcards)[0])


def written_methods(batch: Batch, wildcards: Mapping[str, str]) -> tuple[str, ...]:
    """Return the methods whose differences are written at full size, the main one first."""
    main = main_method(batch, wildcards)
    more = batch.variant_settings(wildcards).scale.write or ()
    others = (m for m in scale_methods(batch, wildcards) if m != main)
    return (main, *(m for m in others if more == "all" or m in more))


def counted_methods(batch: Batch, wildcards: Mapping[str, str]) -> list[str]:
    """Return the methods that the job of a difference counts in addition to the one it writes.

    That of the main method counts all others, so that one file has the counts of all.
    """
    main = main_method(batch, wildcards)
    methods = scale_methods(batch, wildcards) if wildcards["method"] == main else ()
    return [m for m in methods if m != main]


def same_difference_as(batch: Batch, wildcards: Mapping[str, str]) -> str | None:
    """Return the first variant of the subtraction whose difference by a method has to be the same.

    None if that is the one that the wildcards name themselves (``method`` among them).
    """
    method = wildcards["method"]

    def follows(names: Mapping[str, str]) -> list[Any] | None:
        written = method in written_methods(batch, names)
        return _follows_from(batch, names) if written else None

    return _first_same(batch, "subtraction", wildcards, follows)


def same_ratio_as(batch: Batch, wildcards: Mapping[str, str]) -> str | None:
    """Return the first variant of the search with the same signal-to-noise ratio, as above."""

    def follows(names: Mapping[str, str]) -> list[Any]:
        detect = batch.variant_settings(names).detect
        return [getattr(detect, key) for key in RATIO_SETTINGS]

    return _first_same(batch, "detection", wildcards, follows)


def _first_same(
    batch: Batch,
    level: str,
    wildcards: Mapping[str, str],
    follows: Callable[[Mapping[str, str]], list[Any] | None],
) -> str | None:
    """Return the first variant on a level for which ``follows`` gives the same; None for itself."""
    made = batch.variants[level]
    if len(made) == 1:
        return None
    others = ("sample", "dye", "method", *VARIANT[: VARIANT.index(level)])
    key = level, *(wildcards.get(name, "") for name in others)
    if key not in batch.first_same:  # compared once for all variants
        first: dict[str, str] = {}
        batch.first_same[key] = {
            name: first.setdefault(repr(follows({**wildcards, level: name})), name) for name in made
        }
    same = batch.first_same[key][wildcards[level]]
    return None if same == wildcards[level] else same


def _follows_from(batch: Batch, wildcards: Mapping[str, str]) -> list[Any]:
    """Return what of the configuration a difference by a method follows from.

    The focus is matched by what the main method finds.
    """
    settings = batch.variant_settings(wildcards)
    scale = replace(settings.scale, manual=manual_gain(batch.pair(wildcards), settings))
    blur = scale.match_blur
    methods = [wildcards["method"], *([] if blur == "never" else [main_method(batch, wildcards)])]
    return [blur, [(m, [getattr(scale, name) for name in METHODS[m].settings]) for m in methods]]
