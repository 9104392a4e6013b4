"""Writing the images of one draw, for a look at what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tifffile

from registration.pool import save_json

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


def write_pair(folder: Path, post: NDArray[Any], pre: NDArray[Any], truth: dict[str, Any]) -> None:
    """Write ``draw_post_SYTO9.tif``, ``draw_pre_SYTO9.tif`` and ``truth.json``, a raw layout."""
    below = folder / "raw" / "draw"
    below.mkdir(parents=True, exist_ok=True)
    for name, image in (("post", post), ("pre", pre)):
        tifffile.imwrite(below / f"draw_{name}_SYTO9.tif", image, compression="zlib")
    save_json(folder / "truth.json", truth)
    print(f"written to {folder}")
