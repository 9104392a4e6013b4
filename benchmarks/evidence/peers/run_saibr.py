"""Subtract backgrounds with SAIBR (saibr 0.1.6).

    python run_saibr.py {unstained,image} GIVEN.npz FOUND.npz

The files are those of formulas.py; GIVEN has also ``control_images`` and ``control_blanks`` of a
section without stain, on which it is calibrated (``unstained``), as its documents advise; without
one (``image``), on the image itself. Settings: its defaults (Gaussian blur of 2 px, then ordinary
least squares with an intercept); with two blanks its form with a third channel.
"""

import sys

import numpy as np
from saibr import SaibrCalibrate, saibr_correct, saibr_correct_3channel


def main() -> None:
    """Correct the images that the command line names."""
    source, given, target = sys.argv[1:]
    with np.load(given) as file:
        own = ("images", "blanks")
        keys = (*own, *(f"control_{key}" if source == "unstained" else key for key in own))
        parts = [file[key] for key in keys]
    corrected, gains = [], []
    for image, blanks, control, control_blanks in zip(*parts, strict=True):
        named = dict(zip(("af", "rfp"), ([one] for one in control_blanks), strict=False))
        fit = SaibrCalibrate(gfp=[control], **named)
        fit.run()
        correct = saibr_correct if len(blanks) == 1 else saibr_correct_3channel
        corrected.append(correct(image, *blanks, *fit.params))
        gains.append(fit.params[: len(blanks)])
    np.savez(target, corrected=np.array(corrected), gains=np.array(gains))


if __name__ == "__main__":
    main()
