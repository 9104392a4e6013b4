"""How long a large slide takes to plan, and what its plan says, without any of its pixels.

    python benchmarks/slide_plans.py --sizes 30000 100000

One OME-TIFF for each cycle, whose tiles are all black, so that files are small. ``unglow run -n``
is started several times, after one that does not count.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import zlib
from itertools import repeat
from pathlib import Path

import numpy as np
import tifffile
from running import BIN, WORK, command, run
from tables import table

_TILE = 1024
_HEAD = "channel_number,cycle_number,marker_name,background,exposure,remove"


def main() -> int:
    """Make, plan and print."""
    options = arguments()
    options.work.mkdir(parents=True, exist_ok=True)
    rows = []
    for side in options.sizes:
        with tempfile.TemporaryDirectory(prefix="plan-", dir=options.work) as name:
            make(Path(name) / "raw" / "slide", side, options.channels, options.cycles)
            rows.append((f"{side} x {side}", *plan(Path(name), options.repeats)))
    print(table(("px", "wall s, median", "least", "CPU s, median", "least"), rows))
    return 0


def make(folder: Path, side: int, channels: int, cycles: int) -> None:
    """Write the table and the sparse images of a slide: nuclei in each cycle, blanks in the first.

    Its other channels are markers, each with a blank of the first cycle.
    """
    folder.mkdir(parents=True)
    each = channels // cycles
    rows = []
    for cycle in range(1, cycles + 1):
        names = [
            f"DNA_{cycle}",
            *(f"{'M' * (cycle > 1) or 'AF'}_{cycle}_{n}" for n in range(1, each)),
        ]
        path = folder / f"slide_cycle{cycle}.ome.tif"
        with tifffile.TiffWriter(path, bigtiff=True, ome=True) as tif:
            tif.write(
                repeat(zlib.compress(bytes(2 * _TILE**2)), each * math.ceil(side / _TILE) ** 2),
                shape=(each, side, side),
                dtype=np.uint16,
                tile=(_TILE, _TILE),
                compression="zlib",
                photometric="minisblack",
                metadata={"axes": "CYX", "Channel": {"Name": names}},
            )
        for n, name in enumerate(names):
            background = f"AF_1_{n}" if n and cycle > 1 else ""
            removed = "TRUE" if name.startswith("AF") else ""
            rows.append(f"{len(rows) + 1},{cycle},{name},{background},100,{removed}")
    (folder / "markers.csv").write_text("\n".join([_HEAD, *rows, ""]), encoding="utf-8")


def plan(place: Path, repeats: int) -> list[str]:
    """Return wall and CPU time of planning, s, and print what the plan says."""
    words = [BIN / "unglow", "run", "-n", "--cores", "2"]
    status, text = run(*words, directory=place)
    if status:
        sys.exit(text)
    print(text)
    times = zip(*(command(*words, directory=place) for _ in range(repeats)), strict=True)
    return [f"{v:.2f}" for some in times for v in (statistics.median(some), min(some))]


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="slide_plans.py", description=__doc__)
    add = parser.add_argument
    add("--sizes", type=int, nargs="+", default=[30000, 100000], help="px of a side")
    add("--channels", type=int, default=40)
    add("--cycles", type=int, default=10)
    add("--repeats", type=int, default=3)
    add("--work", type=Path, default=WORK, help="directory for the slides; sparse files")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
