"""Registration of two stores, one of which may be marked empty because its image was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.registration import RegisterSettings, Registration, register
from unglow.transform import BLOCK_DTYPE, Transform

if TYPE_CHECKING:
    from unglow.store import Store


def register_stores(
    post: Store, pre: Store, settings: RegisterSettings, *, workers: int
) -> Registration:
    """Register two stores; the reason of an empty one becomes the reason of the refusal."""
    reasons = tuple(dict.fromkeys(s.empty for s in (post, pre) if s.empty is not None))
    if reasons:
        refused = Transform("failed", post.shape, pre.shape, reasons)
        return Registration(refused, np.zeros(0, BLOCK_DTYPE))
    return register(post, pre, settings, workers=workers)
