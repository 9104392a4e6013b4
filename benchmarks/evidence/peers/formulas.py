"""Subtract backgrounds by published formulas, where the program is not used.

    python formulas.py {interpolation,hubmap,picasso,kintsugi} GIVEN.npz FOUND.npz

GIVEN has, for each of M images: ``images`` (M, rows, cols), ``blanks`` (M, N, rows, cols),
``exposures`` (M, 1 + N) of the image and its blanks, ms, and ``cycles`` (M, 1 + N). FOUND gets
``corrected`` (M, rows, cols) and ``gains`` (M, N); a gain is NaN where the formula has none.

interpolation
    The blanks of the first and last cycle, weighted by cycle, times the ratio of exposure times,
    as in mplexable 1.0.3 (`afsub.py`) and the manual of Akoya's processor.
hubmap
    The same without exposure times, as in HuBMAP's codex-pipeline
    (`run_background_subtraction.py`).
picasso
    The gains that minimise the mutual information of what is left and each blank, by the simplex
    of Nelder and Mead (Seo et al., Nature Communications 13, 2475, 2022), over every fourth px of
    rows and columns. What is below 0 counts in the search, and is cut off at its end.
kintsugi
    signal - min(signal, scale * blank), with the limit below which a blank counts as 0, and the
    scale, that `kintsugi.signal.analyze_for_subtraction` suggests; without smoothing and erosion.
"""

import sys
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

Array = np.ndarray
BINS = 64
"""Of each axis of the histogram of mutual information."""


def interpolate(
    image: Array, blanks: Array, exposures: Array, cycles: Array, *, times: bool = True
) -> tuple[Array, Array]:
    """Return what is left and the gains, with the two blanks that are weighted by cycle."""
    share = np.clip((cycles[0] - cycles[1]) / (cycles[2] - cycles[1]), 0.0, 1.0)
    gains = np.array([1.0 - share, share])
    if times:
        gains *= exposures[0] / exposures[1:]
    return np.clip(image - np.tensordot(gains, blanks, 1), 0.0, None), gains


def unmix(image: Array, blanks: Array, *_: Array) -> tuple[Array, Array]:
    """Return what is left and the gains of the least mutual information."""
    few, of = image[::4, ::4], blanks[:, ::4, ::4]

    def shared(gains: Array) -> float:
        left = few - np.tensordot(gains, of, 1)
        return sum(mutual_information(left, blank) for blank in of)

    start = np.full(len(blanks), 1.0 / len(blanks))
    gains = minimize(shared, start, method="Nelder-Mead", options={"xatol": 1e-3}).x
    return np.clip(image - np.tensordot(gains, blanks, 1), 0.0, None), gains


def mutual_information(a: Array, b: Array) -> float:
    """Return the mutual information of two images, nat."""
    ranges = np.array([np.quantile(one, (0.001, 0.999)) for one in (a, b)])
    x, y = (np.clip(one, *ends).ravel() for one, ends in zip((a, b), ranges, strict=True))
    joint = np.histogram2d(x, y, bins=BINS, range=ranges)[0] / a.size
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    seen = joint > 0
    return float((joint[seen] * np.log(joint[seen] / apart[seen])).sum())


def weigh(image: Array, blanks: Array, *_: Array) -> tuple[Array, Array]:
    """Return what is left, and no gains, with the mean of the blanks and a suggested scale."""
    blank = blanks.mean(axis=0)
    low, middle = np.percentile(blank, (5, 50))
    same = float(np.corrcoef(image.ravel(), blank.ravel())[0, 1])
    if same > 0.7:
        scale = 1.0 + (same - 0.7) * 1.5
    elif same > 0.4:
        scale = 0.8 + (same - 0.4) * 0.67
    else:
        scale = 0.5 + same * 0.75
    limit = int(low + (middle - low) * 0.3)
    kept = np.where(blank > limit, blank, 0.0)
    scale = round(min(max(scale, 0.1), 3.0), 2)
    return image - np.minimum(image, kept * scale), np.full(len(blanks), np.nan)


FORMULAS: dict[str, Callable[..., tuple[Array, Array]]] = {
    "interpolation": interpolate,
    "hubmap": lambda *given: interpolate(*given, times=False),
    "picasso": unmix,
    "kintsugi": weigh,
}


def main() -> None:
    """Correct the images that the command line names."""
    name, given, target = sys.argv[1:]
    with np.load(given) as file:
        parts = [file[key] for key in ("images", "blanks", "exposures", "cycles")]
    done = [FORMULAS[name](*one) for one in zip(*parts, strict=True)]
    corrected, gains = (np.array(list(all_of)) for all_of in zip(*done, strict=True))
    np.savez(target, corrected=corrected, gains=gains)


if __name__ == "__main__":
    main()
