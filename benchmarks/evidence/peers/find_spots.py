"""Find spots in differences of images, with the settings that the tools' documents advise.

    python find_spots.py {sep,daofind,log,bigfish} GIVEN.npz FOUND.npz

GIVEN has ``images`` (M, rows, cols) with NaN where there are no data (searched as 0), and
``sigma``, the width of a spot, px. FOUND gets for image m and factor f of `FACTORS` ``{m}-{f}``:
(N, 2) places (x, y), px, with f times the threshold that is advised.

sep
    Its tutorial: minus its background, 1.5 times its global noise, 5 px or more.
daofind
    photutils' quick start: DAOStarFinder above 5 standard deviations, clipped at 3.
log
    scikit-image's example: blob_log above 0.1 of an image from 0 to 1, widths of 1 to 3.5 px.
bigfish
    Its example: detect_spots with the threshold that it sets itself. (It sets another one if all
    px are multiplied by a number; given is the difference in grey levels, as float32.)
"""

import sys
import warnings
from typing import Any

import numpy as np

Array = np.ndarray
FACTORS = (0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.0)


def find_by_sep(image: Array, known: Array, _: float, factor: float) -> Array:
    """Find spots with sep."""
    import sep

    data = np.ascontiguousarray(image, np.float32)
    background = sep.Background(data, mask=~known)
    found = sep.extract(data - background, 1.5 * factor, err=background.globalrms, mask=~known)
    return np.column_stack([found["x"], found["y"]])


def find_by_daofind(image: Array, known: Array, sigma: float, factor: float) -> Array:
    """Find spots with photutils."""
    from astropy.stats import sigma_clipped_stats
    from photutils.detection import DAOStarFinder

    _, median, spread = sigma_clipped_stats(image, mask=~known, sigma=3.0)
    finder = DAOStarFinder(threshold=5.0 * spread * factor, fwhm=2.3548 * sigma)
    found = finder(image - median, mask=~known)
    if found is None:
        return np.zeros((0, 2))
    separator = "_" if "x_centroid" in found.colnames else ""
    return np.column_stack([np.asarray(found[f"{axis}{separator}centroid"]) for axis in "xy"])


def find_by_log(image: Array, _known: Array, _sigma: float, factor: float) -> Array:
    """Find spots with scikit-image."""
    from skimage.feature import blob_log

    scaled = (image - image.min()) / (image.max() - image.min())
    found = blob_log(scaled, min_sigma=1.0, max_sigma=3.5, num_sigma=6, threshold=0.1 * factor)
    return found[:, 1::-1]


def find_by_bigfish(image: Array, _known: Array, sigma: float, factor: float) -> Array:
    """Find spots with Big-FISH, in px of 100 nm."""
    from bigfish import detection

    pixels = image.astype(np.float32)
    given = {"voxel_size": (100, 100), "spot_radius": (100 * sigma, 100 * sigma)}
    found, threshold = detection.detect_spots(pixels, return_threshold=True, **given)
    if factor != 1.0:
        found = detection.detect_spots(pixels, threshold=threshold * factor, **given)
    return np.asarray(found)[:, ::-1]


TOOLS = {
    "sep": find_by_sep,
    "daofind": find_by_daofind,
    "log": find_by_log,
    "bigfish": find_by_bigfish,
}


def main() -> None:
    """Search the images that the command line names."""
    name, given, target = sys.argv[1:]
    warnings.simplefilter("ignore")
    with np.load(given) as file:
        images, sigma = file["images"].astype(np.float64), float(file["sigma"])
    found: dict[str, Any] = {}
    for n, image in enumerate(images):
        known = np.isfinite(image)
        filled = np.where(known, image, 0.0)
        for factor in FACTORS:
            found[f"{n}-{factor}"] = TOOLS[name](filled, known, sigma, factor)
    np.savez(target, **found)


if __name__ == "__main__":
    main()
