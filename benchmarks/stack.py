"""How right one stack of all cycles is, on a phantom whose maps, gains and signal are known.

    python benchmarks/stack.py --cycles 8 --deform-px 6 --size 2048x2048 --slides 3

Made, run with the real workflow (float32), and compared with truth: the composed map between any
two cycles, gains of two backgrounds, what is left of either fluorophore (and what the true gains
would leave on the same maps), and how bright cells are.
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
from unglow.multiplexed.images import Frame, SlideReader
from unglow.phantom.slide import SlideRenderer, make_slide
from unglow.phantom.slide_spec import SlideSpec, compute_brightness
from unglow.results.directory import SlideResults
from unglow.workflow.batch import Batch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_NAME, _BLOCK, _SNR = "stack", 512, 3.0
# The aims: error of maps without and with deformation, correlation, bias, and number of objects.
_P95_PX, _CORRELATION, _BIAS_PERCENT, _OBJECTS = (0.05, 0.1), 0.02, 2.0, 5000


def main() -> int:
    """Make, run and compare slides; print what was found; return 1 where an aim is missed."""
    options = arguments()
    options.work.mkdir(parents=True, exist_ok=True)
    each = [measure(options, options.seed + n) for n in range(options.slides)]
    found = summed(each, options.deform_px)
    print(json.dumps(found["summary"], indent=1))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(bool(found["summary"]["missed"]))


def measure(options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Make and run a slide; return what its maps and markers show."""
    spec = SlideSpec(
        options.size,
        channels=3 * options.cycles,
        cycles=options.cycles,
        fluorophores=2,
        deform_px=options.deform_px,
        deform_wavelength_px=max(1000.0, 40 * options.deform_px),
        seed=seed,
    )
    with tempfile.TemporaryDirectory(prefix="stack-", dir=options.work) as name:
        work = Path(name)
        say(f"slide {seed}: making {options.size[0]} x {options.size[1]} px")
        renderer = make_slide(spec, work / "raw", _NAME, workers=processors())
        run(work)
        found = {"maps": maps(renderer, work), "markers": markers(renderer, work)}
    biases = [one["bias_of_snr3_percent"] for one in found["markers"].values()]
    say(f"maps {found['maps']['worst_p95_px']} px, mean bias {np.mean(biases):.2f} %")
    return found


def summed(slides: list[dict[str, Any]], deform_px: float) -> dict[str, Any]:
    """Return the figures of all slides together, and the aims that they miss."""
    every = [one for slide in slides for one in slide["markers"].values()]
    left, floor = (
        np.abs([value for one in every for value in one[key]])
        for key in ("correlation_left", "with_true_gains")
    )
    objects = np.concatenate([one.pop("percent") for one in every])
    error = float(np.std(objects) / math.sqrt(len(objects)))
    held = [one for marker in every for one in marker["intervals_hold"]]
    summary = {
        "worst_p95_px": max(one["maps"]["worst_p95_px"] for one in slides),
        "worst_max_px": max(one["maps"]["worst_max_px"] for one in slides),
        "correlation_left": {
            "median": round(float(np.median(left)), 4),
            "largest": round(float(left.max()), 4),
            "within": f"{np.count_nonzero(left <= _CORRELATION)} of {len(left)}",
            "largest_with_true_gains": round(float(floor.max()), 4),
        },
        "bias_of_snr3_percent": round(float(objects.mean()), 3),
        "standard_error_percent": round(error, 3),
        "objects": len(objects),
        "largest_of_a_marker_percent": max((o["bias_of_snr3_percent"] for o in every), key=abs),
        "intervals_hold": f"{sum(held)} of {len(held)}",
    }
    aims = {
        "map": summary["worst_p95_px"] <= _P95_PX[deform_px > 0],
        "correlation": left.max() <= _CORRELATION,
        "bias": abs(objects.mean()) + 2 * error <= _BIAS_PERCENT,
        "objects": len(objects) >= _OBJECTS,
    }
    summary["missed"] = [name for name, good in aims.items() if not good]
    return {"summary": summary, "slides": slides}


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
    shared, backgrounds = fluorophores(renderer), backgrounds_in_frame(work)
    found = {}
    for n, channel in enumerate(kept):
        if channel.background is not None:
            seen = [backgrounds[name] for name in channel.background.split(";")]
            scale = scales[channel.name]
            found[channel.name] = _marker(renderer, channel, shared, stack[n], scale, seen)
    return found


def backgrounds_in_frame(work: Path) -> dict[str, NDArray[np.float32]]:
    """Return the backgrounds as the maps of the run bring them into the frame, by name."""
    known = Batch.load({}, work).slides[_NAME]
    maps = SlideResults.read(work / "results" / _NAME).maps
    found = {}
    with SlideReader(known.headers) as reader:
        frame = Frame(reader, known.slide, dict(maps))
        for one in (one for one in known.slide.channels if one.name.startswith("AF")):
            found[one.name] = np.empty(frame.shape, np.float32)
            for window in grid(frame.shape, (_BLOCK, _BLOCK)):
                found[one.name][window.slices] = frame.read(window, [one])[0]
    return found


def fluorophores(renderer: SlideRenderer) -> NDArray[np.float32]:
    """Return what each fluorophore shows in the first cycle, (2, rows, cols), 0 on glass."""
    spec = renderer.spec
    shared = np.empty((2, *spec.shape), np.float32)
    ends = np.linalg.inv([compute_brightness(spec, 1), compute_brightness(spec, spec.cycles)])
    for window in grid(spec.shape, (_BLOCK, _BLOCK)):
        both = [_in_frame(renderer, cycle, window) for cycle in (1, spec.cycles)]
        shared[(slice(None), *window.slices)] = np.tensordot(ends, np.stack(both), 1)
    return shared


def _marker(
    renderer: SlideRenderer,
    channel: Any,
    shared: NDArray[np.float32],
    corrected: NDArray[np.float32],
    scale: Any,
    backgrounds: list[NDArray[np.float32]],
) -> dict[str, Any]:
    signal = np.empty(renderer.spec.shape, np.float32)
    for window in grid(signal.shape, (_BLOCK, _BLOCK)):
        signal[window.slices] = _signal(renderer, channel, window)
    edge = 128
    inner = (slice(edge, -edge),) * 2
    left = np.where(np.isnan(corrected), 0, corrected)[inner].astype(np.float64) - signal[inner]
    there = np.isfinite(corrected[inner]) & (shared[0][inner] > 0)
    free = there & (signal[inner] < 0.5)
    gains = {name: one["gain"] for name, one in scale["methods"]["fit"]["gains"].items()}
    by_true_gains = left + sum(
        (gain - true) * one[inner]
        for gain, true, one in zip(gains.values(), channel.gains, backgrounds, strict=True)
    )
    correlations, floor = (
        _correlations(np.where(free, one, np.nan), [each[inner] for each in shared])
        for one in (left, by_true_gains)
    )
    # an object of S/N 3 has a peak of 3 times the noise of single px of the corrected marker
    noise = 1.4826 * float(np.median(np.abs(left[free] - np.median(left[free]))))
    cells = there & (signal[inner] > 20)
    percent = 100 * _at_cells(left, cells) / (_SNR * noise)
    held = [
        one["ci95"][0] <= true <= one["ci95"][1]
        for one, true in zip(scale["methods"]["fit"]["gains"].values(), channel.gains, strict=True)
    ]
    return {
        "correlation_left": correlations,
        "with_true_gains": floor,
        "level_left": round(float(np.median(left[free])), 3),
        "bias_of_snr3_percent": round(float(percent.mean()), 3),
        "objects": len(percent),
        "percent": percent,
        "gains": gains,
        "true_gains": list(channel.gains),
        "intervals_hold": held,
    }


def _correlations(left: Floats, shared: list[NDArray[np.float32]]) -> list[float]:
    """Return how block means of what is left go with those of each fluorophore."""
    means = block_means(left)
    known = np.isfinite(means)
    each = (np.corrcoef(means[known], block_means(one)[known])[0, 1] for one in shared)
    return [round(float(one), 4) for one in each]


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


def _at_cells(left: Floats, cells: NDArray[np.bool_]) -> Floats:
    """Return the mean of what is left at each cell."""
    from scipy.ndimage import label, mean  # noqa: PLC0415

    labels, count = label(cells)
    return np.asarray(mean(left, labels, np.arange(1, count + 1)))


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="stack.py", description=__doc__)
    add = parser.add_argument
    add("--size", type=lambda text: tuple(map(int, text.split("x"))), default=(2048, 2048))
    add("--cycles", type=int, default=8)
    add("--deform-px", type=float, default=0.0)
    add("--slides", type=int, default=1, help="number of slides, whose objects are pooled")
    add("--seed", type=int, default=0, help="of the first slide")
    add("--work", type=Path, default=WORK, help="directory for the phantom and the run")
    add("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
