"""Settings of registration (config section ``register``)."""

from __future__ import annotations

from dataclasses import dataclass

from unglow.core.errors import ConfigError

FIELDS = ("auto", "never")
"""Whether a displacement field may be added to the global model, and strips to the field."""
LARGEST_SCALE = 5.0
"""`RegisterSettings.max_scale` cannot be larger."""
ORDINARY_SCALE = 1.25
"""Scales up to this are searched first, and without a level of their own."""
MODELS = ("translation", "similarity", "affine", "homography")
"""Global models, each richer than the one before."""
DECLARED = "none"
"""Instead of a model: the images are said to lie on each other, and no map is searched."""


@dataclass(frozen=True, slots=True)
class RegisterSettings:
    """Settings of `unglow.registration.register.register`.

    Attributes
    ----------
    model
        ``translation``, ``similarity``, ``affine``, ``homography``, or ``auto``: the simplest one
        that a richer one does not clearly beat on blocks that were kept out of the fit. ``none``:
        the images lie on each other; nothing is searched, and what they say is measured.
    field
        ``auto``: add a displacement field where it beats the global model on blocks that were kept
        out of the fit; or ``never``.
    strips
        ``auto``: look for the strips of a scanner, between which the field jumps; or ``never``.
        Without a field there are none.
    coarse_px
        The coarse map is searched on the finest pyramid level with no more pixels than a square of
        this side (px).
    block_px
        Side (px, full resolution) of the sample blocks, a power of two of at least 64; smaller
        images take smaller blocks.
    blocks
        Most full-resolution sample blocks to measure.
    max_scale
        Accept a pre/post scale between ``1 / max_scale`` and ``max_scale``. Beyond
        `ORDINARY_SCALE` it is searched only if pixel sizes ask for it or nothing else is found.
    mirror
        Also look for a pre image that is mirrored (a section mounted upside down).
    suspect_px
        A 95th percentile of the held-out residuals above this (px) makes a pair suspect.
    min_overlap
        Refuse pairs with less than this share (0 to 1) of the post section inside pre.

    Raises
    ------
    ConfigError
        A value is out of range; the message names it.
    """

    model: str = "auto"
    field: str = "auto"
    strips: str = "auto"
    coarse_px: int = 1024
    block_px: int = 256
    blocks: int = 400
    max_scale: float = LARGEST_SCALE
    mirror: bool = False
    suspect_px: float = 1.0
    min_overlap: float = 0.2

    def __post_init__(self) -> None:
        rules = (
            (
                "model",
                self.model in ("auto", DECLARED, *MODELS),
                f"one of auto, {DECLARED}, " + ", ".join(MODELS),
            ),
            ("field", self.field in FIELDS, "one of " + ", ".join(FIELDS)),
            ("strips", self.strips in FIELDS, "one of " + ", ".join(FIELDS)),
            ("coarse_px", 256 <= self.coarse_px <= 4096, "between 256 and 4096 px"),
            (
                "block_px",
                64 <= self.block_px <= 1024 and self.block_px & (self.block_px - 1) == 0,
                "64, 128, 256, 512 or 1024 px",
            ),
            ("blocks", 25 <= self.blocks <= 100_000, "between 25 and 100000"),
            (
                "max_scale",
                1 < self.max_scale <= LARGEST_SCALE,
                f"above 1 and at most {LARGEST_SCALE:g}",
            ),
            ("suspect_px", self.suspect_px > 0, "above 0 px"),
            ("min_overlap", 0 < self.min_overlap < 1, "between 0 and 1"),
        )
        for name, good, wanted in rules:
            if not good:
                raise ConfigError(
                    f"register: {name} is {getattr(self, name)!r}, but it must be {wanted}."
                )


FEATURE_PX = 1 << 18
"""Features are searched on at most this many px at a time."""
FIELD_POINTS = 50_000
"""About as many control points and blocks a displacement field may have."""
