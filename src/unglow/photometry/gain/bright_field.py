"""What is said of a pair of which images are bright-field: dark is signal, white is nothing.

Transmitted light is divided by what absorbs, and nothing is added to it: gain and difference still
say how the light of both images goes together, and nothing about exposure, focus or stain follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.io.pair_plan import ROLES, Plan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from unglow.photometry.joint_histogram import JointStatistics

NOT_SEARCHED = (
    "candidates are looked for in fluorescence alone, and not in bright-field, where what was "
    "added is darker."
)
_BOTH = (
    "Both images are bright-field (dark is signal on a bright background): the map is as good as "
    "that of fluorescence, but gain and difference are those of transmitted light, negative where "
    "post absorbs more, and no candidates are looked for. If this is fluorescence, set `light: "
    "fluorescence`."
)
# More px at the largest value than this are no longer single ones.
_WHITE = 0.05


def find_roles(plan: Path, light: str) -> tuple[str, ...]:
    """Return which images of a pair are bright-field.

    Parameters
    ----------
    plan
        ``plan.json`` of the pair, which says what its pixels look like; older ones do not.
    light
        ``fluorescence`` or ``bright-field`` where the configuration says it, else ``auto``.

    Raises
    ------
    StoreError
        The plan is damaged.
    """
    if light != "auto":
        return ROLES if light == "bright-field" else ()
    return Plan.load(plan).bright_field if plan.is_file() else ()


def check_roles(roles: Sequence[str]) -> list[str]:
    """Return a sentence if one image of a pair is bright-field and the other is not."""
    if len(roles) != 1:
        return []
    other = next(role for role in ROLES if role != roles[0])
    sentence = (
        f"The {roles[0]}-stain image is bright-field (dark is signal on a bright background) and "
        f"the {other}-stain image is not, so that their difference means nothing: give two images "
        "of one kind, set `light` if this is not so, or undo ImageJ's inverted table (WhiteIsZero)."
    )
    return [sentence]


def describe_roles(roles: Sequence[str], stats: JointStatistics | None = None) -> list[str]:
    """Return what the reader of a bright-field pair has to know; nothing of it is a fault."""
    if len(roles) < len(ROLES):
        return []
    counts = {} if stats is None else stats.n
    if stats is None or counts["post_at_maximum"] <= _WHITE * counts["ratio"]:
        return [_BOTH]
    share = 100 * counts["post_at_maximum"] / counts["pixels"]
    white = (
        f"{share:.0f} % of the post pixels have its largest value ({stats.top:g}), the white of "
        "the glass: what absorbs very little is lost there."
    )
    return [_BOTH, white]
