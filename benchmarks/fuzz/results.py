"""Result files of a pair and of a slide, read by later stages and by the commands."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fuzz.files import DAMAGES, copy_linked, damage_file
from fuzz.mutations import UNTOUCHED
from fuzz.trial import (
    ESCAPED,
    OTHER,
    OVER,
    REFUSED,
    SAME,
    WRONG,
    Outcome,
    describe,
    forget_peak,
    peak_mb,
)
from unglow import cli
from unglow import transform as transforms
from unglow.core.digests import Listed, Published
from unglow.core.errors import UnglowError
from unglow.core.windows import Window
from unglow.detection.settings import DetectSettings
from unglow.images.detection_results import SearchCounts, read_candidates, read_report
from unglow.images.pair_plan import Plan
from unglow.images.zarr import open_store
from unglow.jobs.memory_limit import is_memory_failure
from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.difference_histogram import load_methods
from unglow.photometry.gain.bright_field import find_roles
from unglow.photometry.gain.scale import Scale
from unglow.photometry.joint_histogram import JointStatistics
from unglow.registration.block_table import read_blocks
from unglow.results.slide_files import SlideRecord, Subtraction, load_residues, overview_of
from unglow.review.decisions import Review
from unglow.stages.snr import DetectInputs
from unglow.transform.displacement import load as load_field
from unglow.workflow.verify import STORE, list_contents, pair_directories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Reader = tuple[str, Callable[[], Any]]

__all__ = ["DAMAGES", "damage", "lay_out", "read"]
# A command that reads results may take so much, with what it has imported, MB.
READING_MB = 150.0
TREE, RESULTS = "tree", "results"
_TABLES = ("summary.tsv", "verdict.txt", "report.html")
"""Files of a whole run that `unglow verify` answers for."""
_VIEWED = (
    *("transform.json", "scale.json", "details/detection.json", "summary.tsv"),
    *("candidates.csv", "details/blocks.csv", "review.csv"),
)
_WRONG_WORDS = ("Traceback", "Error(", "Error: ")
_REVIEW = 'id,x,y,decision,note,time,candidates\n1,20.0,30.0,accepted,"a note",,\n'
_PHANTOMS = (
    "--channels 5 --size 600x600 --sample slide",
    "--size 900x1100 --shading 0.25 --deform-px 6 --deform-wavelength-px 700",
)


def lay_out(folder: Path, *, finished: Path | None = None) -> list[tuple[str, Path]]:
    """Copy or make a run of a pair and a slide; return names and paths of its result files."""
    tree = folder / TREE
    if finished is not None:
        shutil.copytree(finished, tree, symlinks=True, ignore=shutil.ignore_patterns(".snakemake"))
    else:
        tree.mkdir()
        for words in _PHANTOMS:
            _run(tree, "phantom", *words.split())
        _run(tree, "run", "--cores", "2", "--quiet")
    candidates = next((tree / RESULTS).glob("*/*/candidates.csv"))
    candidates.with_name("review.csv").write_text(_REVIEW, encoding="utf-8")
    paths = sorted(p for p in (tree / RESULTS).rglob("*") if p.is_file() and _is_read(p))
    return [(path.relative_to(tree / RESULTS).as_posix(), path) for path in paths]


def _is_read(path: Path) -> bool:
    """Leave out what only Snakemake reads, and all but some of many figures and attempts."""
    if path.suffix == ".png":
        return path.name in ("registration.png", "M01.png")
    if "telemetry" in path.parts:
        return path.parent.name in ("runs", "register", "slide_scale", "summary")
    if _store_of(path) is not None:
        return not {"pre.ome.zarr", "2"} & set(path.parts)
    return "benchmarks" not in path.parts and not path.name.startswith(".")


def row_of(name: str) -> str:
    """Return the row of the table that a file counts in."""
    path = Path(name)
    if path.suffix in (".sha256", ".jsonl"):
        return path.suffix
    return "shard" if _store_of(path) is not None and path.suffix != ".json" else path.name


def _store_of(path: Path) -> str | None:
    """Return the name of the store that a file is in; None if it is in none."""
    return next((part for part in path.parts if part.endswith(STORE)), None)


def _run(tree: Path, *words: str) -> None:
    command = [sys.executable, "-m", "unglow", *words]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")


def damage(whole: Path, how: str, rng: np.random.Generator, room: Path) -> Path:
    """Copy a run with one file of its results damaged, and return that file."""
    tree = _tree(whole)
    copy_linked(tree, room / TREE)
    path = room / TREE / whole.relative_to(tree)
    damage_file(path, how, rng)
    return path


def _tree(path: Path) -> Path:
    return next(parent for parent in path.parents if parent.name == TREE)


def read(path: Path, whole: Path, how: str, room: Path) -> Outcome:
    """Read all results with every command and as later jobs do, and judge what came of it."""
    results = _tree(path) / RESULTS
    os.chdir(results.parent)
    is_changed = how != UNTOUCHED and not _is_same(path, whole)
    refused: list[str] = []
    for name, call in _calls(path, whole, room):
        said, bad = _attempt(name, call, path)
        if bad is not None:
            return bad
        naming = [line for line in said.splitlines() if _names(path, line)]
        refused += naming
        if name == "verify" and is_changed and not naming and _is_published(whole):
            return Outcome(WRONG, f"verify did not notice it: {said.strip()[-200:]}")
    if not is_changed:
        return Outcome(REFUSED if refused else SAME, " ".join(refused))
    return Outcome(REFUSED if refused else OTHER, " ".join(refused))


def _attempt(name: str, call: Callable[[], str], path: Path) -> tuple[str, Outcome | None]:
    """Call a reader; return what it said, and the outcome if that is bad."""
    forget_peak()
    before = peak_mb()
    try:
        said = call()
    except (UnglowError, OSError) as error:
        said = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        right = "\n" not in said and _names(path, said)
        return said, None if right else Outcome(ESCAPED, f"{name}: {said}")
    except BaseException as error:  # noqa: BLE001 - that is what is looked for
        kind = OVER if is_memory_failure(error) else ESCAPED
        return "", Outcome(kind, f"{name}: {describe(error)}")
    if (taken := peak_mb() - before) > READING_MB:
        return said, Outcome(OVER, f"{name} took {taken:.0f} MB")
    if any(word in said for word in _WRONG_WORDS):
        return said, Outcome(ESCAPED, f"{name}: {said.strip()[-300:]}")
    return said, None


def _is_same(path: Path, whole: Path) -> bool:
    """Return whether a file holds the same; nothing is waited for, and no large file is read."""
    if not path.is_file() or path.stat().st_size > 2 * whole.stat().st_size:
        return False
    now, before = path.read_bytes(), whole.read_bytes()
    if now == before or _store_of(path) is None or path.suffix != ".json":
        return now == before
    # the document of a level has no digest, and its attributes are for whoever looks at a store
    with contextlib.suppress(ValueError, RecursionError, TypeError):
        is_now, was = json.loads(now), json.loads(before)
        return bool(is_now == was or is_now | {"attributes": {}} == was)
    return False


def _calls(path: Path, whole: Path, room: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield each reader of a file of results by name; it returns what it prints."""
    results = str(_tree(path) / RESULTS)
    others = str(_tree(whole) / RESULTS)
    commands = {
        "verify": (results,),
        "status": (results,),
        "report": (results, "-o", str(room / "report.html")),
        "compare": (others, results, "-o", str(room / "runs.html")),
        "view": (results, "--static", str(room / "static")),
    }
    arrays = path.suffix == ".npz" or _store_of(path) is not None
    for name, words in commands.items():
        unread = (name in ("status", "report") and arrays) or (
            name == "view" and not arrays and path.name not in _VIEWED
        )
        if not unread:
            yield name, partial(_command, name, *words)
    # a job may fail, but with a sentence; each reads files of one pair
    for name, call in readers(path, _tree(path) / RESULTS):
        yield name, partial(_call, call)


def _call(reader: Callable[[], object]) -> str:
    reader()
    return ""


def _command(*words: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = cli.main(words)
    return out.getvalue() if status else ""


def _names(path: Path, sentence: str) -> bool:
    """Whether a sentence names a file, or the store or the folder of attempts that it is in."""
    return (_store_of(path) or path.name) in sentence or (
        path.parent.name == "digests" and "no digests" in sentence
    )


def _is_published(whole: Path) -> bool:
    """Whether `unglow verify` answers for a file: it has a digest, or is of the whole run."""
    results = _tree(whole) / RESULTS
    if whole.parent == results:
        return whole.name in _TABLES
    if _store_of(whole) is not None:
        return True
    return any(
        whole in Published.from_files(list_contents(pair)[1]).digests
        for pair in pair_directories(results)
    )


# The results of a pair or slide as later jobs read them


def readers(path: Path, results: Path) -> Iterator[Reader]:
    """Yield the readers of the pair or slide that a file is of, each with a name."""
    parts = path.relative_to(results).parts
    pair = results.joinpath(*parts[:2])
    if path.parent.name == "digests":
        yield "digests", lambda: Listed.read(path)
    if (results / parts[0] / "slide.json") in (results / parts[0]).glob("*"):
        yield from _of_slide(results / parts[0])
    elif len(parts) > 2 and (pair / "details/digests").is_dir():
        yield from _of_pair(pair)


def _of_pair(pair: Path) -> Iterator[Reader]:
    raw = {role: pair / f"{role}.tif" for role in ("post", "pre")}
    stores = {name: pair / f"{name}.ome.zarr" for name in ("post", "pre", "aligned_pre")}
    stores["difference"] = pair / "difference.ome.zarr"
    yield "plan", lambda: Plan.load(pair / "details/plan.json", raw)
    yield "bright field", lambda: find_roles(pair / "details/plan.json", "auto")
    yield "transform", partial(_load_map, pair / "transform.json")
    yield "field", lambda: load_field(pair / "details/displacement.npz")
    yield "blocks", lambda: read_blocks(pair / "details/blocks.csv")
    yield (
        "scale",
        lambda: _use_scale(Scale.load(pair / "scale.json", pair / "details/gain_map.npz")),
    )
    yield "statistics", lambda: JointStatistics.load(pair / "details/statistics.npz")
    yield "bins", lambda: CellMoments.load(pair / "details/bins.npz")
    yield "histogram", lambda: load_methods(pair / "details/difference.histogram.npz", "robust")
    yield "candidates", lambda: read_candidates(pair / "candidates.csv").xy
    yield "detection", lambda: read_report(pair / "details/detection.json")
    yield "search", lambda: SearchCounts.load(pair / "details/search.npz").searched_px
    yield "review", lambda: Review.read(pair / "review.csv", pair / "candidates.csv").to_json()
    for name, store in stores.items():
        yield name, partial(_read_store, store)
    yield "scene", lambda: _use_scene(pair, stores)


def _of_slide(slide: Path) -> Iterator[Reader]:
    yield "slide", lambda: SlideRecord.load(slide / "slide.json")
    yield "subtraction", lambda: _read_slide(slide)
    for place in sorted((slide / "registration").iterdir()):
        yield "map", partial(_load_map, place / "transform.json")
        yield "blocks", partial(read_blocks, place / "details/blocks.csv")


def _read_slide(slide: Path) -> None:
    markers = list(Subtraction.load(slide / "details/subtraction.json").markers)
    load_residues(slide / "details/residues.npz", markers)
    for n in range(len(markers)):
        overview_of(slide / "details/overviews.npz", n)


def _load_map(path: Path) -> None:
    _use_map(transforms.load(path))


def _use_map(found: transforms.Transform) -> None:
    """Map the corners, there and back, and read what figures show."""
    rows, cols = found.post_shape
    corners = np.array([[0, 0], [cols - 1, 0], [0, rows - 1], [cols - 1, rows - 1]], float)
    found.inverse_map(found.resampling_map.map(corners))
    str(found.to_dict())
    str((found.turn_error, found.error_px.median + 1, found.inliers + found.blocks))


def _use_scale(scale: Scale) -> None:
    """Compute with the gain of each method, and with the light where it is uneven."""
    for result in scale.methods.values():
        if result.ok:
            _ = (result.gain or 0) * 2.0 + (result.offset or 0), result.gain_ci95
        if result.gain_map is not None:
            result.gain_map.evaluate_window(Window(0, 16, 0, 16))
    str((scale.to_json(), scale.blur and asdict(scale.blur)))


def _read_store(path: Path) -> None:
    """Read all pixels of all levels."""
    store = open_store(path)
    for level in range(store.levels):
        for window in store.layout.windows(level):
            store.read(window, level)


def _use_scene(pair: Path, stores: dict[str, Path]) -> None:
    """Open what the search reads, and read a window of the difference and of its background."""
    files = {name: path / "zarr.json" for name, path in stores.items()}
    files["aligned"] = files.pop("aligned_pre")
    for name, file in (("transform", "transform.json"), ("scale", "scale.json")):
        files[name] = pair / file
    inputs = DetectInputs.open(files | {"gain_map": pair / "details/gain_map.npz"})
    inputs.scene(DetectSettings())
    inputs.difference.read(Window(0, 64, 0, 64))
