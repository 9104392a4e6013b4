"""Run the three-pass prototype on two images; a process of its own, since it is no part of unglow.

Arguments: folder of the prototype, post, pre, points, output. The output, a JSON file, holds CPU
seconds; the mapped points are written next to it as ``.npy``.
"""

from __future__ import annotations

import json
import math
import resource
import sys
from pathlib import Path

import numpy as np

from unglow.core.process import status_mb

if __name__ == "__main__":
    folder, post, pre, points, out = (Path(word) for word in sys.argv[1:])
    sys.path.insert(0, str(folder))
    from reg2 import mapf, register2  # throw-away code outside the project

    images = np.load(post, mmap_mode="r"), np.load(pre, mmap_mode="r")
    before = resource.getrusage(resource.RUSAGE_SELF)
    found = register2(*images)
    after = resource.getrusage(resource.RUSAGE_SELF)
    at = np.load(points)
    np.save(out.with_suffix(".npy"), mapf(found["M"], found["F"], at[:, 0], at[:, 1]))
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak_mb = status_mb().get("VmHWM", math.nan)
    out.write_text(json.dumps({"cpu_seconds": seconds, "peak_mb": peak_mb}), encoding="utf-8")
