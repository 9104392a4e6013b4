"""Small files of users: sheet, configuration, markers, landmarks, first maps and regions."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tifffile

from fuzz.files import DAMAGES, copy_linked, damage_file
from fuzz.mutations import UNTOUCHED
from fuzz.trial import ESCAPED, OTHER, OVER, PARSING_MB, REFUSED, SAME, Outcome, peak_mb
from unglow.core.errors import UnglowError
from unglow.slides.rules import SLIDES
from unglow.transform import Transform
from unglow.workflow.batch import Batch
from unglow.workflow.config import CONFIG, read_stored

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DAMAGES", "damage", "lay_out", "read"]
PROJECT = Path(__file__).resolve().parents[2]
SHAPE = (240, 300)
# A sentence that is longer is of no use, characters: two paths and a sentence.
_LONGEST = 2000
_SHEET = "config/samples.tsv"
_ROWS = (
    "sample dye post pre landmarks landmarks_post landmarks_pre initial_transform regions",
    "a D raw/post.tif raw/pre.tif raw/both.csv - - raw/map.txt raw/qupath.geojson",
    "b D raw/post.tif raw/pre.tif - raw/post.csv raw/pre.csv raw/map.json -",
    "c D raw/post.tif raw/pre.tif - - - raw/transform.json raw/one.geojson",
)
_MARKERS = (
    "channel_number,cycle_number,marker_name,exposure,background,remove",
    "1,1,DNA,10,,", "2,1,AF,100,,", "3,1,CD3,150,AF,", "4,2,DNA2,10,,TRUE", "5,2,CD8,150,AF,",
)  # fmt: skip
_POINTS = ((20, 20), (280, 20), (150, 200), (40, 220))


def lay_out(folder: Path) -> list[tuple[str, Path]]:
    """Make a working directory with a sheet, and one with a slide; return names and paths."""
    sheet, slide = folder / "sheet", folder / "slide"
    for work in (sheet, slide):
        (work / "config").mkdir(parents=True)
        (work / "raw").mkdir()
        shutil.copy(PROJECT / "config" / "config.yaml", work / CONFIG)
    image = np.random.default_rng(0).integers(0, 4000, SHAPE, np.uint16)
    for name in ("post", "pre"):
        tifffile.imwrite(sheet / f"raw/{name}.tif", image, tile=(64, 64))
    rows = [row.replace(" ", "\t").replace("-", "") for row in _ROWS]
    _write(sheet / _SHEET, "\n".join(rows))
    _write_hints(sheet / "raw")
    (slide / "raw" / "s").mkdir()
    tifffile.imwrite(slide / "raw/s/s.ome.tif", np.stack([image] * 5), metadata={"axes": "CYX"})
    _write(slide / "raw/s/markers.csv", "\n".join(_MARKERS))
    names = (CONFIG.as_posix(), _SHEET, *(f"raw/{name}" for name in _HINTS))
    found = [(Path(name).name, sheet / name) for name in names]
    return [*found, ("markers.csv", slide / "raw/s/markers.csv")]


_HINTS = (
    "both.csv", "post.csv", "pre.csv", "map.txt", "map.json", "transform.json", "qupath.geojson",
    "one.geojson",
)  # fmt: skip


def _write_hints(raw: Path) -> None:
    """Write landmarks, first maps and regions, each as several programs do."""
    both = [f"{x},{y},{x + 2},{y - 3}" for x, y in _POINTS]
    _write(raw / "both.csv", "\n".join(["post_x,post_y,pre_x,pre_y", *both]))
    napari = [f"{k},{y}.5,{x}.25" for k, (x, y) in enumerate(_POINTS)]
    for role in ("post", "pre"):
        _write(raw / f"{role}.csv", "\n".join(["index,axis-0,axis-1", *napari]))
    matrix = [[1.0, 0.01, 2.0], [-0.01, 1.0, -3.0], [0.0, 0.0, 1.0]]
    _write(raw / "map.txt", "# a comment\n" + "\n".join(" ".join(map(str, r)) for r in matrix))
    _write(raw / "map.json", json.dumps(matrix))
    Transform("ok", SHAPE, SHAPE, matrix=np.array(matrix), model="affine").save(
        raw / "transform.json"
    )
    outline = [[10, 10], [200, 10], [200, 150], [10, 150], [10, 10]]
    hole = [[30, 30], [60, 30], [60, 60], [30, 30]]
    features = [_feature("exclude", [outline, hole]), _feature("Region*", [outline])]
    _write(raw / "qupath.geojson", json.dumps({"type": "FeatureCollection", "features": features}))
    _write(raw / "one.geojson", json.dumps(_feature("analyse", [outline])))


def _feature(name: str, rings: Sequence[Sequence[Sequence[float]]]) -> dict[str, object]:
    return {
        "type": "Feature",
        "id": name,
        "geometry": {"type": "Polygon", "coordinates": rings},
        "properties": {"classification": {"name": name}, "name": f"of {name}"},
    }


def _write(path: Path, text: str) -> None:
    path.write_text(f"{text}\n", encoding="utf-8")


def damage(whole: Path, how: str, rng: np.random.Generator, room: Path) -> Path:
    """Copy a working directory with one file damaged, and return that file."""
    path = copy_with_rest(whole, room)
    damage_file(path, how, rng)
    return path


def copy_with_rest(whole: Path, room: Path) -> Path:
    """Copy the working directory of a file into a folder; return the copy of the file."""
    base = base_of(whole)
    copy_linked(base, room / base.name)
    return room / base.name / whole.relative_to(base)


def base_of(path: Path) -> Path:
    """Return the working directory that a file is in."""
    return next(parent for parent in path.parents if parent.name in ("sheet", "slide"))


def read(path: Path, whole: Path, how: str, room: Path) -> Outcome:  # noqa: ARG001 - as all kinds
    """Read the configuration and find all pairs, as when the workflow is parsed."""
    base = base_of(path)
    os.chdir(base)
    before = peak_mb()
    try:
        batch = Batch.load(read_stored(base / CONFIG), base, SLIDES)
        said = [problem.message for problem in batch.problems]
    except UnglowError as error:
        said = str(error).splitlines()
    if (taken := peak_mb() - before) > PARSING_MB:
        return Outcome(OVER, f"parsing took {taken:.0f} MB")
    text = "\n".join(said)
    if any(len(line) > _LONGEST for line in said):
        return Outcome(ESCAPED, f"a sentence of {max(map(len, said))} characters")
    # what a configuration says is about its keys, and what is not there is not to be named
    is_named = path.name in text or path.name == CONFIG.name or not path.exists()
    if path.suffix in (".tsv", ".csv") and not is_named:  # the file that a cell names is as good
        cells = re.split(r"[\t,\n]", path.read_text(encoding="utf-8", errors="replace"))
        is_named = any("/" in cell and Path(cell).name in text for cell in cells)
    if said and not (is_named and all(line.endswith((".", "?")) for line in said)):
        return Outcome(ESCAPED, text)
    is_same = path.is_file() and (how == UNTOUCHED or path.samefile(whole))
    return Outcome(REFUSED if said else SAME if is_same else OTHER, text)
