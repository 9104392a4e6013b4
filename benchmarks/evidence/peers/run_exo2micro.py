"""Register a pair with exo2micro 2.4 up to its fine alignment, and map points.

    python run_exo2micro.py POST PRE POINTS.npy MAPPED.npy

Settings: its defaults. It reads raw/<sample>/<sample>_pre_<dye>.tif, so POST and PRE have to be
named like that, in a directory raw/<sample>.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from exo2micro import pipeline

STAGES, PAD = 3, 2000


def main() -> None:
    """Register the images that the command line names."""
    post, _, points, target = sys.argv[1:]
    sample = Path(post).parent.name
    dye = Path(post).stem.removeprefix(f"{sample}_post_")
    found: dict[str, Any] = {}
    fine = pipeline.refine_interior_sift

    def keep(*args: Any, **named: Any) -> Any:
        result = fine(*args, **named)
        found["warp"], found["success"] = np.asarray(result[0], float), result[1]["success"]
        return result

    pipeline.refine_interior_sift = keep
    with tempfile.TemporaryDirectory() as out:
        raw = Path(post).parents[1]
        run = pipeline.SampleDye(sample, dye, output_dir=out, raw_dir=str(raw))
        run.set_params(pad=PAD)
        run.run(to_stage=STAGES, force_run=True)
    warp = np.vstack([found["warp"], [0, 0, 1]]) if found["warp"].shape[0] == 2 else found["warp"]
    padded = np.load(points) + PAD
    at = np.column_stack([padded, np.ones(len(padded))])
    mapped = at @ warp.T  # which OpenCV takes from post to pre (WARP_INVERSE_MAP)
    np.save(target, mapped[:, :2] / mapped[:, 2:] - PAD)
    if not found["success"]:
        print("says: fine alignment rejected")


if __name__ == "__main__":
    main()
