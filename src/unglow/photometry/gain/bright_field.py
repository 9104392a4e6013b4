"""What is said of a pair of which images are bright-field: dark is signal, white is nothing.

Transmitted light is divided by what absorbs, and nothing is added to it: gain and difference still
say how the light of both images goes together, and nothing about exposure, focus or stain follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.core.reasons import explain
from unglow.images.pair_plan import ROLES, Plan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from unglow.photometry.joint_histogram import JointStatistics

NOT_SEARCHED = (
    "candidates are looked for in fluorescence alone, and not in bright-field, where what was "
    "added is darker."
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
    """Return a reason if one image of a pair is bright-field and the other is not."""
    if len(roles) != 1:
        return []
    return [explain("mixed_light", role=roles[0])]


def describe_roles(roles: Sequence[str], stats: JointStatistics) -> list[str]:
    """Return what the reader of a bright-field pair has to know; nothing of it is a fault."""
    if len(roles) < len(ROLES):
        return []
    counts = stats.n
    if counts["post_at_maximum"] <= _WHITE * counts["ratio"]:
        return [explain("bright_field")]
    percent = 100 * counts["post_at_maximum"] / counts["pixels"]
    return [explain("bright_field"), explain("white_glass", percent=percent, top=stats.top)]
