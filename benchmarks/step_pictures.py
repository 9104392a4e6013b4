"""Draw the small pictures of the steps on the front page of the site, from a finished pair.

    python benchmarks/step_pictures.py docs/pictures demo/results/phantom/SYTO9

The part of the pair with the most candidates: pre and post as they came, both in one frame, the
grey levels of one against the other, the difference, and the candidates on post.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
from first_picture import IMAGE, SMOOTH_PX, fullest

from unglow.io.detection_results import read_candidates
from unglow.io.zarr import open_store
from unglow.photometry.gain.scale import Scale
from unglow.reporting.difference_picture import NoiseColours

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIDE = 260  # of a picture, px
CIRCLE, LINE = (53, 208, 160), (240, 140, 30)  # red, green, blue


def stretch(pixels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return grey levels between the quantiles IMAGE as 0 to 255."""
    low, high = np.nanquantile(pixels, IMAGE)
    return (np.clip((np.nan_to_num(pixels) - low) / (high - low), 0, 1) * 255).astype(np.uint8)


def split(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return one picture: the left one above the diagonal, the right one below."""
    rows, cols = np.indices(left.shape[:2])
    joined = np.where((rows + cols < SIDE)[..., None], left, right)
    cv2.line(joined, (SIDE, 0), (0, SIDE), (255, 255, 255), 3, cv2.LINE_AA)
    return joined


def grey(pixels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return a stretched image in three equal channels."""
    return np.repeat(stretch(pixels)[..., None], 3, axis=2)


def overlay(post: NDArray[np.float32], pre: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return post in green and pre in magenta: equal is grey."""
    magenta = stretch(pre)
    return np.stack([magenta, stretch(post), magenta], axis=2)


def against(post: NDArray[np.float32], pre: NDArray[np.float32], scale: Scale) -> NDArray[np.uint8]:
    """Return the histogram of grey levels, post upwards and pre to the right, with the gain."""
    known = np.isfinite(pre)
    edges = np.linspace(0, max(np.quantile(post, 0.999), 1), SIDE // 4 + 1)
    counts, _, _ = np.histogram2d(post[known], pre[known], bins=(edges, edges))
    shades = 255 - 215 * np.sqrt(np.log1p(counts) / np.log1p(counts.max()))
    shades = cv2.resize(shades[::-1], (SIDE, SIDE), interpolation=cv2.INTER_NEAREST)
    picture = np.repeat(shades.astype(np.uint8)[..., None], 3, axis=2)
    per_level = SIDE / edges[-1]
    gain, offset = scale.default_result.gain, scale.default_result.offset
    ends = [(x, SIDE - round((gain * x / per_level + offset) * per_level)) for x in (0, SIDE)]
    cv2.line(picture, ends[0], ends[1], LINE, 3, cv2.LINE_AA)
    return picture


def draw(pair: Path) -> dict[str, NDArray[np.uint8]]:
    """Return the pictures by name, SIDE x SIDE px, red, green, blue."""
    candidates = read_candidates(pair / "candidates.csv")
    found = candidates.xy[candidates.is_counted]
    store = open_store(pair / "post.ome.zarr")
    window = fullest(found, store.shape)
    post = store.read(window).astype(np.float32)
    raw = open_store(pair / "pre.ome.zarr").read(window).astype(np.float32)
    pre = open_store(pair / "aligned_pre.ome.zarr").read(window)
    difference = open_store(next(pair.glob("difference/*.ome.zarr"))).read(window)
    difference = cv2.GaussianBlur(difference, (0, 0), SMOOTH_PX)
    marked = grey(post)
    for x, y in found - (window.x0, window.y0):
        if 0 <= x < SIDE and 0 <= y < SIDE:
            cv2.circle(marked, (round(x), round(y)), 11, CIRCLE, 2, cv2.LINE_AA)
    return {
        "images": split(grey(raw), grey(post)),
        "register": split(overlay(post, raw), overlay(post, pre)),
        "gain": against(post, pre, Scale.load(pair / "scale.json")),
        "subtract": NoiseColours.of(difference, pre).pixels(difference, pre)[..., :3],
        "find": marked,
    }


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path, help="directory of the pictures to write")
    parser.add_argument("pair", type=Path, help="results of the pair")
    given = parser.parse_args()
    for name, picture in draw(given.pair).items():
        file = str(given.target / f"step-{name}.jpg")
        cv2.imwrite(file, np.ascontiguousarray(picture)[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 85])


if __name__ == "__main__":
    main()
