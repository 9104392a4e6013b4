"""Settings of registration (config section ``register``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unglow.core.settings import Checked, key

_AUTO = ("auto", "never")
LARGEST_SCALE = 5.0
"""Upper limit of `RegisterSettings.max_scale`."""
ORDINARY_SCALE = 1.25
"""Scales up to this are searched first, and without a level of their own."""
MODELS = ("translation", "similarity", "affine", "homography")
"""Global models, each richer than the one before."""
DECLARED = "none"
"""Instead of a model: the images are declared to be aligned, and no map is searched."""


@dataclass(frozen=True, slots=True)
class RegisterSettings(Checked):
    """How pre is registered onto post (config section ``register``).

    ``from_`` and ``on`` are resolved before a job starts, and are no concern of
    `unglow.registration.register.register`.
    """

    SECTION: ClassVar[str] = "register"

    model: str = key(
        "Global model of the map from post to pre; auto chooses by held-out blocks, none "
        "declares that the images are aligned already (unglow still measures whether they are).",
        default="auto",
        enum=("auto", DECLARED, *MODELS),
    )
    field: str = key(
        "Whether a smooth displacement field may be added to the global model; auto adds one "
        "where it explains held-out blocks better.",
        default="auto",
        enum=_AUTO,
    )
    strips: str = key(
        "Whether the field may jump between the strips of a scanner, rows or columns of "
        "either image; auto looks for strips where a global model does not fit the section.",
        default="auto",
        enum=_AUTO,
    )
    coarse_px: int = key(
        "The coarse step works on the finest pyramid level that has no more pixels than a "
        "square of this side, in px.",
        default=1024,
        minimum=256,
        maximum=4096,
    )
    block_px: int = key(
        "Side, in px at full resolution, of the blocks that are matched.",
        default=256,
        enum=[64, 128, 256, 512],
    )
    blocks: int = key(
        "At most this many blocks are matched at full resolution.",
        default=400,
        minimum=25,
        maximum=20000,
    )
    max_scale: float = key(
        "Largest magnification between pre and post, either way, that is accepted. More than "
        "1.25 is searched only if the pixel sizes in both headers ask for it or nothing else "
        "is found.",
        default=LARGEST_SCALE,
        minimum=1.0,
        maximum=LARGEST_SCALE,
    )
    mirror: bool = key(
        "Also try pre mirrored.",
        default=False,
    )
    suspect_px: float = key(
        "A pair is suspect if its map is off by more than this many px, as estimated, in 5 % of "
        "the section.",
        default=1.0,
        exclusiveMinimum=0,
    )
    min_overlap: float = key(
        "Share of the post section that pre has to cover.",
        default=0.2,
        minimum=0.01,
        maximum=1,
    )
    from_: str | None = key(
        "Dye whose map the other dyes of its sample take over, checked in their own images; "
        "null registers each pair on its own. The sample sheet can set it per pair "
        "(register_from).",
        default=None,
        minLength=1,
    )
    on: str | None = key(
        "Channel that the cycles of a multiplexed slide are registered on; null takes the "
        "stain of nuclei by its name (DAPI, Hoechst, DNA), or else the channel that shows "
        "most.",
        default=None,
        minLength=1,
    )
