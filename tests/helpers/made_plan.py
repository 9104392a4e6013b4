"""The plan of a small pair, as plan.json holds it."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from made_headers import header

from unglow.images.pair_plan import Plan
from unglow.images.zarr import plan_layout

ROLES = ("post", "pre")


def plan_content(names=("G",), fingerprints=("1", "2"), channels=((1,), (1,)), bright_field=()):
    """Return the content of plan.json; fingerprints and channels are those of post and pre."""
    with TemporaryDirectory() as place:
        found = header(Path(place) / "x_D.tif", (40, 50))
        layouts = dict.fromkeys((*ROLES, "derived"), plan_layout((40, 50), "uint16"))
        choice = {"names": list(names)}
        pairs = dict(zip(ROLES, channels, strict=True)), dict(zip(ROLES, fingerprints, strict=True))
        plan = Plan(
            dict.fromkeys(ROLES, found),
            pairs[0],
            choice,
            layouts,
            pairs[1],
            bright_field=bright_field,
        )
        plan.save(Path(place) / "details/plan.json")
        return json.loads((Path(place) / "details/plan.json").read_text())
