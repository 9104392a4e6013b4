"""How right one stack of all cycles is, on a phantom whose maps, gains and signal are known.

    python benchmarks/stack.py --cycles 8 --deform-px 6 --size 4096x4096

Made, run with the real workflow (float32), and compared with truth: the composed map between any
two cycles, gains of two backgrounds, what is left of either fluorophore, and how bright cells are.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tifffile
from running import WORK, say, snakemake_words

from unglow import transform
from unglow.core.files import read_json
from unglow.core.machine import processors
from unglow.core.windows import Window, grid
from unglow.phantom.slide import SlideRenderer, make_slide
from unglow.phantom.slide_spec import SlideSpec, brightness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_NAME, _BLOCK, _SNR = "stack", 512, 3.0


def main() -> int:
    """Make, run and compare; print what was found."""
    options = arguments()
    spec = SlideSpec(
        options.size,
        channels=3 * options.cycles,
        cycles=options.cycles,
        fluorophores=2,
        deform_px=options.deform_px,
        deform_wavelength_px=max(1000.0, 40 * options.deform_px),
        seed=options.seed,
    )
    options.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="stack-", dir=options.work) as name:
        work = Path(name)
        say(f"making {options.size[0]} x {options.size[1]} px, {spec.channels} channels")
        renderer = make_slide(spec, work / "raw", _NAME, workers=processors())
        run(work)
        found = {"maps": maps(renderer, work), "markers": markers(renderer, work)}
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def run(work: Path) -> None:
    """Run the workflow as users do."""
    import subprocess  # noqa: PLC0415 (the command is ours)

    config = {"multiplexed": {"dtype": "float32"}}
    words = snakemake_words(processors(), config)
    subprocess.run(words, cwd=work, check=True, capture_output=True)


def maps(renderer: SlideRenderer, work: Path) -> dict[str, Any]:
    """Return errors of the composed maps, px: from the frame, and between any two cycles."""
    rows, cols = renderer.spec.shape
    x, y = np.meshgrid(np.linspace(0, cols - 1, 60), np.linspace(0, rows - 1, 60))
    points = np.column_stack([x.ravel(), y.ravel()])
    points = points[renderer._inside(*map(np.ascontiguousarray, points.T))]  # noqa: SLF001 (its own section)
    off = {1: np.zeros_like(points)}
    for cycle in range(2, renderer.spec.cycles + 1):
        path = work / f"results/{_NAME}/registration/1-{cycle}/transform.json"
        off[cycle] = transform.load(path).map(points) - renderer.maps[cycle].to_pre(points)
    # content of a and b that belongs together lies apart in the stack by the difference of both
    apart = {f"{a}-{b}": np.hypot(*(off[a] - off[b]).T) for a, b in itertools.combinations(off, 2)}
    worst = max(apart, key=lambda pair: float(np.quantile(apart[pair], 0.95)))
    return {
        "p95_px": {pair: round(float(np.quantile(v, 0.95)), 4) for pair, v in apart.items()},
        "worst_p95_px": round(float(np.quantile(apart[worst], 0.95)), 4),
        "worst_max_px": round(float(apart[worst].max()), 4),
    }


def markers(renderer: SlideRenderer, work: Path) -> dict[str, Any]:
    """Return what is left of the fluorophores, and the bias of cells, of each marker."""
    scales = read_json(work / f"results/{_NAME}/scale.json")["markers"]
    with tifffile.TiffFile(work / f"results/{_NAME}/corrected.ome.tif") as tif:
        stack = tif.series[0].levels[0].asarray()
    kept = [one for one in renderer.channels if not one.name.startswith("AF")]
    found = {}
    for n, channel in enumerate(kept):
        if channel.background is not None:
            found[channel.name] = _marker(renderer, channel, stack[n], scales[channel.name])
            say(f"{channel.name}: {found[channel.name]}")
    return found


def _marker(
    renderer: SlideRenderer, channel: Any, corrected: NDArray[np.float32], scale: Any
) -> dict[str, Any]:
    spec = renderer.spec
    signal = np.empty(spec.shape, np.float32)
    shared = np.empty((2, *spec.shape), np.float32)  # what each fluorophore shows in cycle 1
    ends = np.array([brightness(spec, 1), brightness(spec, spec.cycles)])
    for window in grid(spec.shape, (_BLOCK, _BLOCK)):
        first = _in_frame(renderer, 1, window)
        last = _in_frame(renderer, spec.cycles, window)
        shared[(slice(None), *window.slices)] = np.tensordot(
            np.linalg.inv(ends), np.stack([first, last]), 1
        )
        signal[window.slices] = _signal(renderer, channel, window)
    edge = 128
    inner = (slice(edge, -edge),) * 2
    left = np.where(np.isnan(corrected), 0, corrected)[inner].astype(np.float64) - signal[inner]
    there = np.isfinite(corrected[inner]) & (shared[0][inner] > 0)
    free = there & (signal[inner] < 0.5)
    means = block_means(np.where(free, left, np.nan))
    known = np.isfinite(means)
    correlations = [
        round(float(np.corrcoef(means[known], block_means(one[inner])[known])[0, 1]), 4)
        for one in shared
    ]
    # an object of S/N 3 has a peak of 3 times the noise of single px of the corrected marker
    noise = 1.4826 * float(np.median(np.abs(left[free] - np.median(left[free]))))
    cells = there & (signal[inner] > 20)
    bias, error, count = _at_cells(left, cells)
    gains = {name: one["gain"] for name, one in scale["methods"]["fit"]["gains"].items()}
    held = [
        one["ci95"][0] <= true <= one["ci95"][1]
        for one, true in zip(scale["methods"]["fit"]["gains"].values(), channel.gains, strict=True)
    ]
    return {
        "correlation_left": correlations,
        "level_left": round(float(np.median(left[free])), 3),
        "bias_of_snr3_percent": round(100 * bias / (_SNR * noise), 3),
        "standard_error_percent": round(100 * error / (_SNR * noise), 3),
        "objects": count,
        "gains": gains,
        "true_gains": list(channel.gains),
        "intervals_hold": held,
    }


def _in_frame(renderer: SlideRenderer, cycle: int, window: Window) -> Floats:
    x = np.arange(window.x0, window.x1, dtype=np.float64)[None, :]
    y = np.arange(window.y0, window.y1, dtype=np.float64)[:, None]
    x, y = (one.ravel().copy() for one in np.broadcast_arrays(x, y))
    return renderer._render_shared(cycle, x, y).reshape(window.shape)  # noqa: SLF001 (its own tissue)


def _signal(renderer: SlideRenderer, channel: Any, window: Window) -> Floats:
    """Return a marker's own light in the frame of the first cycle."""
    from dataclasses import replace  # noqa: PLC0415

    return renderer.signal(replace(channel, cycle=1), window)


def block_means(image: Floats, side: int = 4) -> Floats:
    """Return means of squares, NaN where one has a px without data."""
    rows, cols = (n // side for n in image.shape)
    squares = image[: rows * side, : cols * side].reshape(rows, side, cols, side)
    return np.asarray(squares.mean(axis=(1, 3)).ravel())


def _at_cells(left: Floats, cells: NDArray[np.bool_]) -> tuple[float, float, int]:
    """Return the mean of what is left at cells, its standard error over cells, and their number."""
    from scipy.ndimage import label, mean  # noqa: PLC0415

    labels, count = label(cells)
    if not count:
        return math.nan, math.nan, 0
    each = mean(left, labels, np.arange(1, count + 1))
    return float(np.mean(each)), float(np.std(each) / math.sqrt(count)), int(count)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="stack.py", description=__doc__)
    add = parser.add_argument
    add("--size", type=lambda text: tuple(map(int, text.split("x"))), default=(2048, 2048))
    add("--cycles", type=int, default=8)
    add("--deform-px", type=float, default=0.0)
    add("--seed", type=int, default=0)
    add("--work", type=Path, default=WORK, help="directory for the phantom and the run")
    add("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
