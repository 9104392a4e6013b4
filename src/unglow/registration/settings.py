"""Settings of registration (config section ``register``)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from unglow.core.settings import Auto, Section, Text, about

LARGEST_SCALE = 5.0
"""Upper limit of `RegisterSettings.max_scale`."""
ORDINARY_SCALE = 1.25
"""Scales up to this are searched first, and without a level of their own."""
MODELS = ("translation", "similarity", "affine", "homography")
"""Global models, each richer than the one before."""
DECLARED = "none"
"""Instead of a model: the images are declared to be aligned, and no map is searched."""


class RegisterSettings(Section, frozen=True):
    """How pre is registered onto post (config section ``register``).

    ``from_`` and ``on`` are resolved before a job starts, and are no concern of
    `unglow.registration.register.register`.
    """

    model: Annotated[
        Literal["auto", "none", "translation", "similarity", "affine", "homography"],
        about(
            "How pre may be moved - shifted, turned, magnified, sheared. auto decides by held-out "
            "blocks; none says that it is aligned already, which unglow checks."
        ),
    ] = "auto"
    field: Annotated[
        Auto,
        about(
            "Whether a smooth displacement field may be added to the global model; auto adds one "
            "where it explains held-out blocks better."
        ),
    ] = "auto"
    strips: Annotated[
        Auto,
        about(
            "Whether the field may jump between the strips of a scanner, rows or columns of "
            "either image. auto looks for strips where a global model does not fit the section."
        ),
    ] = "auto"
    coarse_px: Annotated[
        int,
        about(
            "The coarse step works on the finest pyramid level that has no more pixels than a "
            "square of this side, in px.",
            ge=256,
            le=4096,
        ),
    ] = 1024
    block_px: Annotated[
        Literal[64, 128, 256, 512],
        about("Side, in px at full resolution, of the blocks that are matched."),
    ] = 256
    blocks: Annotated[
        int, about("At most this many blocks are matched at full resolution.", ge=25, le=20000)
    ] = 400
    max_scale: Annotated[
        float,
        about(
            "Largest magnification between pre and post, either way, that is accepted. More than "
            "1.25 is searched only if the pixel sizes in both headers ask for it or nothing else "
            "is found.",
            ge=1.0,
            le=LARGEST_SCALE,
        ),
    ] = LARGEST_SCALE
    mirror: Annotated[bool, about("Also try pre mirrored.")] = False
    suspect_px: Annotated[
        float,
        about(
            "A pair is suspect if its map is off by more than this many px, as estimated, in 5 % "
            "of the section.",
            gt=0,
            le=1e6,
        ),
    ] = 1.0
    min_overlap: Annotated[
        float, about("Share of the post section that pre has to cover.", ge=0.01, le=1)
    ] = 0.2
    from_: Annotated[
        Text | None,
        about(
            "Dye whose map the other dyes of its sample take over, checked in their own images; "
            "null registers each pair on its own. The sample sheet can set it per pair "
            "(register_from)."
        ),
    ] = msgspec.field(default=None, name="from")
    on: Annotated[
        Text | None,
        about(
            "Channel that the cycles of a multiplexed slide are registered on. null takes the "
            "stain of nuclei by its name (DAPI, Hoechst, DNA), or else the channel that shows "
            "most."
        ),
    ] = None
