"""The compiled loop that counts pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unglow.core.kernels import kernel, pixel_type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def count_pairs(
    post: NDArray[Any],
    pre: NDArray[np.float32],
    corner: NDArray[np.int64],
    binning: NDArray[np.float64],
    cells: NDArray[np.int32],
    edges: NDArray[np.float32],
    joint: NDArray[np.int64],
    post_only: NDArray[np.int64],
    ratios: NDArray[np.int64],
    counters: NDArray[np.int64],
    extremes: NDArray[np.float64],
) -> None:
    """Add one pair of co-registered blocks to the counts, in place; releases the interpreter lock.

    Parameters
    ----------
    post, pre
        (rows, cols), native byte order; NaN where there is no data. Post is uint8, uint16, int16,
        float32 or float64.
    corner
        Row and column of the first pixel, and the side of a tile and the number of tile groups.
    binning
        First edge, inverse width, least pre value of a ratio, largest post value.
    cells, edges
        Ratio table of `unglow.photometry.joint_histogram`.
    joint, post_only, ratios, counters, extremes
        Counts that grow: [pre bin, post bin], [post bin], [group, ratio bin], the `COUNTERS`
        of `unglow.photometry.joint_histogram`, and the smallest and largest ratio.
    """
    arrays = post, pre, corner, binning, cells, edges, joint, post_only, ratios, counters, extremes
    if not all(array.flags.c_contiguous for array in arrays):
        raise ValueError("counting takes arrays without gaps")
    kernel("count_pairs")(
        post,
        pixel_type(post.dtype),
        pre,
        *post.shape,
        corner,
        binning,
        cells,
        edges,
        edges.size,
        joint,
        len(joint),
        post_only,
        ratios,
        len(ratios),
        counters,
        extremes,
    )
