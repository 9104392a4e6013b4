"""Subtraction of known backgrounds: what each tool leaves of them, and does to the signal."""

from __future__ import annotations

import csv
import shutil
import sys
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tifffile
from photometry.spots import Phantom
from running import command, say, snakemake_words

from evidence.registration import PEERS
from unglow import open_results
from unglow.core.files import read_json
from unglow.core.machine import processors
from unglow.core.windows import Window
from unglow.phantom.pair import make_pair
from unglow.phantom.slide import SlideRenderer, make_slide
from unglow.phantom.slide_spec import SlideSpec, compute_brightness
from unglow.phantom.spec import PhantomSpec
from unglow.phantom.texture import derive_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

HEADER = ("images", "tool", "correlation", "level", "S/N 3, %", "bright, %", "gain, %")
NAME = "slide"
DIM, BRIGHT = (2.0, 4.0), 10.0
"""Signal over the noise of a px: a signal-to-noise ratio of 3, and bright ones."""
MICROBES = 400.0
"""In 1e6 px of the pair, so that there are enough px with a signal-to-noise ratio of 3."""
_EDGE = 16


@dataclass(frozen=True, eq=False)
class Image:
    """An image to correct, and what is true of it.

    Attributes
    ----------
    pixels, blanks
        (rows, cols), and (N, rows, cols) in the same frame, counts.
    control, control_blanks
        The same of a section without stain.
    exposures, cycles
        Of the image and each blank, ms.
    signal, shared
        The true signal (rows, cols), and what is to be removed, (K, rows, cols), one for each
        fluorophore; 0 outside the section.
    gains, offset
        image = sum of gains * blanks + offset + signal.
    """

    pixels: Floats
    blanks: Floats
    control: Floats
    control_blanks: Floats
    exposures: tuple[float, ...]
    cycles: tuple[int, ...]
    signal: Floats
    shared: Floats
    gains: Floats
    offset: float

    @cached_property
    def noise(self) -> float:
        """Noise of a px of the section without signal, if gains and offset are right."""
        left = self.pixels - np.tensordot(self.gains, self.blanks, 1) - self.offset - self.signal
        free = left[self.free]
        return float(1.4826 * np.median(np.abs(free - np.median(free))))

    @property
    def free(self) -> NDArray[np.bool_]:
        """Px of the section without signal."""
        return (self.shared[0] > 0) & (self.signal < 0.5)


@dataclass(frozen=True, eq=False)
class Scene:
    """Images of one kind: their name, where their files are, and themselves."""

    name: str
    place: Path
    images: list[Image]
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Corrected:
    """What a tool gave: (rows, cols) of each image, and its gains (N,), NaN for none."""

    images: Sequence[Floats]
    gains: Sequence[Floats]


@dataclass(frozen=True)
class Remover:
    """A tool: its name, what runs it, and why it cannot be run."""

    name: str
    run: Callable[[Scene], Corrected]
    missing: str = ""


SLIDES = {
    "slide, exposure times right, no camera offset": SlideSpec(
        channels=8, gain_error=0.0, offset=0.0, offset_background=0.0
    ),
    "slide, gain 10 % off, camera offsets": SlideSpec(channels=8, gain_error=0.1),
    "slide, two backgrounds that bleach": SlideSpec(channels=12, cycles=4, fluorophores=2),
}


def make_slide_scene(name: str, spec: SlideSpec, size: int, place: Path) -> Scene:
    """Make a slide whose cycles do not move, with its truth and an unstained section."""
    spec = replace(spec, shape=(size, size), shift_px=(0.0, 0.0), rotation_deg=0.0)
    renderer = make_slide(spec, place / "raw", NAME, workers=processors())
    unstained = SlideRenderer(replace(spec, seed=spec.seed + 1))
    planes = tifffile.imread(place / "raw" / NAME / f"{NAME}.ome.tif").astype(np.float64)
    window = Window.from_shape(spec.shape)
    by_name = dict(zip((one.name for one in renderer.channels), renderer.channels, strict=True))
    numbers = {one.name: n for n, one in enumerate(renderer.channels)}
    ends = [1, spec.cycles] if spec.fluorophores == 2 else [1]
    seen = np.array([renderer.autofluorescence(cycle, window) for cycle in ends])
    parts = np.array([compute_brightness(spec, cycle) for cycle in ends])
    shared = np.tensordot(np.linalg.inv(parts), seen, 1)

    def unstained_channel(name: str) -> Floats:
        one = by_name[name]
        light = unstained.autofluorescence(one.cycle, window) * one.gain
        first = one.cycle == 1
        offset = spec.offset_background if first else spec.offset
        key = derive_key(spec.seed + 1, 12, one.plane)
        return unstained._camera.expose(light, offset, window, key).astype(np.float64)  # noqa: SLF001

    images, names = [], []
    for marker in renderer.channels:
        if marker.background is None:
            continue
        blanks = [by_name[one] for one in marker.background.split(";")]
        all_of = [marker, *blanks]
        controls = [unstained_channel(one.name) for one in all_of]
        images.append(
            Image(
                planes[numbers[marker.name]],
                np.array([planes[numbers[one.name]] for one in blanks]),
                controls[0],
                np.array(controls[1:]),
                tuple(one.exposure_ms for one in all_of),
                tuple(one.cycle for one in all_of),
                renderer.signal(marker, window),
                shared,
                np.array(marker.gains or (marker.gain,)),
                marker.offset,
            )
        )
        names.append(marker.name)
    return Scene(name, place, images, names)


def make_pair_scene(name: str, size: int, place: Path) -> Scene:
    """Make a pair; pre is in the frame of post by the true map, for all tools but unglow."""
    spec = PhantomSpec(
        shape=(size, size),
        shift_px=(0.0, 0.0),
        rgb=False,
        dtype="uint16",
        microbes_per_mpx=MICROBES,
    )
    make_pair(spec, place / "raw", NAME, "SYTO9", workers=processors())
    pairs = [Phantom.of(one) for one in (spec, replace(spec, seed=1, microbes_per_mpx=0.0))]
    aligned = [pair.aligned(pair.true_map()).astype(np.float64) for pair in pairs]
    known = np.isfinite(aligned[0])
    for one in aligned:
        one[~np.isfinite(one)] = np.nanmin(one)
    renderer, window = pairs[0].renderer, Window.from_shape(spec.shape)
    background = renderer.background("post", window)
    signal = (renderer.light("post", window) - spec.gain * background) * spec.counts_per_level
    gain, offset = pairs[0].scale
    image = Image(
        pairs[0].post.astype(np.float64),
        aligned[0][None],
        pairs[1].post.astype(np.float64),
        aligned[1][None],
        (1.0, 1.0),
        (1, 1),
        signal,
        np.where(known, background, 0.0)[None],
        np.array([gain]),
        offset,
    )
    return Scene(name, place, [image])


def judge(image: Image, corrected: Floats, gains: Floats) -> tuple[float, ...]:
    """Return the correlation left, the level over noise, two biases and the gain's error, %.

    The correlation is that of means of 4 x 4 px without signal with a fluorophore, the larger of
    two; NaN where all of these px are equal.
    """
    noise = image.noise
    inner = (slice(_EDGE, -_EDGE),) * 2
    signal, left = image.signal[inner], (corrected - image.signal)[inner]
    there = (image.shared[0][inner] > 0) & np.isfinite(left)
    free = there & (signal < 0.5)
    means = block_means(np.where(free, left, np.nan))
    known = np.isfinite(means)
    found = (means[known], [block_means(one[inner])[known] for one in image.shared])
    same = [
        float(np.corrcoef(found[0], one)[0, 1]) if found[0].std() else np.nan for one in found[1]
    ]
    biases = []
    for low, high in (DIM, (BRIGHT, np.inf)):
        at = there & (signal > low * noise) & (signal < high * noise)
        biases.append(100 * float(left[at].sum() / signal[at].sum()) if at.any() else np.nan)
    wrong = 100 * float(np.abs(gains - image.gains).max() / image.gains.sum())
    return _largest(same), float(left[free].mean() / noise), *biases, wrong


def block_means(image: Floats, side: int = 4) -> Floats:
    """Return means of squares, NaN where one has a px without data."""
    rows, cols = (n // side for n in image.shape)
    squares = image[: rows * side, : cols * side].reshape(rows, side, cols, side)
    return np.asarray(squares.mean(axis=(1, 3)).ravel())


def _largest(values: Sequence[float]) -> float:
    """Return the value that is furthest from 0; NaN if one is."""
    return float(max(values, key=lambda one: np.inf if np.isnan(one) else abs(one)))


def run_unglow_slide(scene: Scene) -> Corrected:
    """Run the workflow on the slide of a scene."""
    config = {"multiplexed": "{dtype: float32}"}
    command(*snakemake_words(processors(), config), directory=scene.place)
    place = scene.place / "results" / NAME
    with tifffile.TiffFile(place / "corrected.ome.tif") as tif:
        planes = tif.series[0].levels[0].asarray().astype(np.float64)
    with (place / "markers_corrected.csv").open() as stream:
        names = [row["marker_name"] for row in csv.DictReader(stream)]
    markers = read_json(place / "scale.json")["markers"]
    gains = []
    for name in scene.names:
        method = markers[name]["methods"][markers[name]["default"]]
        several = method.get("gains")
        found = [one["gain"] for one in several.values()] if several else [method["gain"]]
        gains.append(np.array(found))
    return Corrected([planes[names.index(name)] for name in scene.names], gains)


def run_unglow_pair(scene: Scene) -> Corrected:
    """Run the workflow on the pair of a scene, registration included."""
    command(*snakemake_words(processors(), {}, until="difference"), directory=scene.place)
    return read_pair(scene, None)


def read_pair(scene: Scene, method: str | None) -> Corrected:
    """Read the difference of the pair of a scene by a scale method, or the default one."""
    (pair,) = open_results(scene.place / "results").pairs.values()
    found = pair.scale.methods[method or pair.scale.default]
    left = np.asarray(pair.difference(method)[:, :], np.float64)
    return Corrected([left], [np.array([found.gain])])


def run_backsub(program: Path, scene: Scene) -> Corrected:
    """Run Backsub on the slide of a scene; of several blanks it gets the nearest."""
    table = scene.place / "raw" / NAME / "markers.csv"
    with table.open() as stream:
        rows = list(csv.DictReader(stream))
    cycle_of = {row["marker_name"]: int(row["cycle_number"]) for row in rows}
    for row in rows:
        blanks = row["background"].split(";")
        own = int(row["cycle_number"])
        row["background"] = min(blanks, key=lambda one: abs(cycle_of.get(one, own) - own))
    kept = table.read_text()
    with table.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    raw = Path("raw") / NAME
    words = ("-in", raw / f"{NAME}.ome.tif", "-m", raw / "markers.csv")
    out = ("-o", "backsub.ome.tif", "-mo", "backsub.csv")
    command(program, *words, *out, directory=scene.place)
    table.write_text(kept)
    with (scene.place / "backsub.csv").open() as stream:
        names = [row["marker_name"] for row in csv.DictReader(stream)]
    planes = tifffile.imread(scene.place / "backsub.ome.tif").astype(np.float64)
    chosen = {row["marker_name"]: row["background"] for row in rows}
    gains = []
    for name, image in zip(scene.names, scene.images, strict=True):
        near = int(chosen[name].endswith("_end"))
        one = np.zeros(len(image.blanks))
        one[near] = image.exposures[0] / image.exposures[1 + near]
        gains.append(one)
    return Corrected([planes[names.index(name)] for name in scene.names], gains)


def run_peer(python: Path, words: Sequence[str], scene: Scene) -> Corrected:
    """Run a script of peers/ on the images of a scene."""
    given, found = scene.place / "given.npz", scene.place / "found.npz"
    of = {
        "images": "pixels",
        "blanks": "blanks",
        "exposures": "exposures",
        "cycles": "cycles",
        "control_images": "control",
        "control_blanks": "control_blanks",
    }
    arrays: dict[str, Any] = {
        k: np.array([getattr(one, v) for one in scene.images]) for k, v in of.items()
    }
    np.savez(given, **arrays)
    script, *more = words
    command(python, PEERS / script, *more, given, found, directory=scene.place)
    with np.load(found) as file:
        return Corrected(list(file["corrected"]), list(file["gains"]))


def list_removers(environments: Path, scene: Scene) -> list[Remover]:
    """Return the tools for a scene."""
    own = Path(sys.executable)
    saibr = environments / "saibr" / "bin" / "python"
    program = environments / "backsub" / "bin" / "backsub"
    formula = partial(run_peer, own)
    is_pair, is_double = not scene.names, len(scene.images[0].blanks) == 2
    tools = [Remover("unglow", run_unglow_pair if is_pair else run_unglow_slide)]
    if is_pair:  # unglow has aligned it
        tools.append(Remover("exo2micro's gain (`moffat`)", partial(read_pair, method="moffat")))
    missing = "" if program.is_file() else "no environment backsub"
    missing = "needs exposure times" if is_pair else missing
    name = "Backsub 0.5.2" + (", nearest blank" if is_double else "")
    tools.append(Remover(name, partial(run_backsub, program), missing))
    if is_double:
        for about, word in (("mplexable, Akoya", "interpolation"), ("HuBMAP", "hubmap")):
            tools.append(
                Remover(
                    f"interpolation ({about}; formula)", partial(formula, ["formulas.py", word])
                )
            )
    missing = "" if saibr.is_file() else "no environment saibr"
    for about, word in (("with an unstained section", "unstained"), ("without one", "image")):
        run = partial(run_peer, saibr, ["run_saibr.py", word])
        tools.append(Remover(f"SAIBR 0.1.6, {about}", run, missing))
    for about, word in (("PICASSO", "picasso"), ("KINTSUGI", "kintsugi")):
        tools.append(Remover(f"{about} (formula)", partial(formula, ["formulas.py", word])))
    return tools


def measure(environments: Path, size: int, work: Path) -> list[list[str]]:
    """Return the rows of the table: each scene with each tool, the worst image of a scene."""
    rows = []
    makers: dict[str, Callable[[Path], Scene]] = {
        name: partial(make_slide_scene, name, spec, size) for name, spec in SLIDES.items()
    }
    makers["pair of 16 bit"] = partial(make_pair_scene, "pair of 16 bit", size)
    for n, make in enumerate(makers.values()):
        place = work / f"subtraction-{n}"
        place.mkdir(parents=True)
        scene = make(place)
        for tool in list_removers(environments, scene):
            if tool.missing:
                rows.append([scene.name, tool.name, tool.missing, *["-"] * 4])
                continue
            say(f"{scene.name}: {tool.name}")
            done = tool.run(scene)
            each = [judge(*one) for one in zip(scene.images, done.images, done.gains, strict=True)]
            rows.append([scene.name, tool.name, *write_cells(each)])
        shutil.rmtree(place, ignore_errors=True)
    return rows


def write_cells(each: Sequence[tuple[float, ...]]) -> list[str]:
    """Return the cells of the worst images."""
    same, level, dim, bright, gain = (_largest(values) for values in zip(*each, strict=True))
    return [
        "all 0" if np.isnan(same) else f"{same:+.2f}",
        f"{level:+.2f}",
        *("-" if np.isnan(one) else f"{one:+.1f}" for one in (dim, bright)),
        "-" if np.isnan(gain) else f"{gain:.2f}",
    ]
