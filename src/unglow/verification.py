"""Whether results are whole: every byte of every store, and that what belongs together does.

One store is read at a time, in pieces, so memory does not grow with the images.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unglow import field
from unglow.errors import StoreError
from unglow.photometry import gain_map
from unglow.store import open_store
from unglow.store.metadata import DOCUMENT
from unglow.store.reader import verify

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

STORE = ".ome.zarr"
_RUN_DIRECTORIES = ("telemetry", "benchmarks")
_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_END = b"IEND\xaeB`\x82"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it was published.

    Attributes
    ----------
    message
        One sentence.
    remove
        The file without which Snakemake makes it again, and what hangs on it.
    """

    message: str
    remove: Path


def pair_directories(results: Path) -> list[Path]:
    """Return ``<results>/<sample>/<dye>`` of every pair, sorted."""
    samples = (p for p in results.iterdir() if p.is_dir() and p.name not in _RUN_DIRECTORIES)
    return sorted(dye for sample in samples for dye in sample.iterdir() if dye.is_dir())


def contents(pair: Path) -> tuple[list[Path], list[Path]]:
    """Return the stores and the files of a pair, of all its variants, sorted; no hidden ones."""
    stores: list[Path] = []
    files: list[Path] = []
    for path in sorted(pair.iterdir()):
        if path.name.startswith("."):
            continue
        if not path.is_dir():
            files.append(path)
        elif path.name.endswith(STORE):
            stores.append(path)
        else:
            more, others = contents(path)
            stores, files = [*stores, *more], [*files, *others]
    return stores, files


def check_store(store: Path, pair: Path) -> Iterator[Problem]:
    """Yield what is wrong with a store: damage, and inputs that are other ones by now."""
    root = store / DOCUMENT
    if not root.is_file():  # Snakemake knows that it is not there
        return
    try:
        damage = verify(store)
        attributes = open_store(store).attributes if not damage else {}
    except StoreError as error:
        yield Problem(str(error), root)
        return
    for sentence in damage:
        yield Problem(sentence, root)
    for name in stale(store, pair, attributes):
        yield Problem(
            f"{store} was made from another {name} than the one that is there now; delete {root} "
            "and rerun the workflow to make it again",
            root,
        )


def stale(store: Path, pair: Path, attributes: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the inputs that a store names in its attributes and that differ now.

    An input that is missing, or cannot be read, is told of where it should be, not here.
    """
    for name, digest in attributes.get("inputs", {}).items():
        path = above(store, pair, f"{name}{STORE}/{DOCUMENT}")
        found = _json(path)
        if found and found.get("attributes", {}).get("unglow", {}).get("digest") != digest:
            yield f"{name}{STORE}"
    role = attributes.get("role")
    plan = _json(above(store, pair, "plan.json"))
    if "fingerprint" in attributes and plan:
        images = plan.get("images", {})
        if images.get(role, {}).get("fingerprint") != attributes["fingerprint"]:
            yield "plan.json"
    transform = _json(above(store, pair, "transform.json"))
    if "matrix" in attributes and transform:
        matrix = None if transform.get("status") == "failed" else transform.get("matrix")
        if matrix != attributes["matrix"]:
            yield "transform.json"
    scale = _json(above(store, pair, "scale.json"))
    if role == "difference" and scale:
        found = scale.get("methods", {}).get(attributes["method"], {})
        if any(found.get(name) != attributes[name] for name in ("gain", "offset")):
            yield "scale.json"
    yield from _stale_arrays(store, pair, attributes)


def _stale_arrays(store: Path, pair: Path, attributes: Mapping[str, Any]) -> Iterator[str]:
    """Yield the archives of arrays whose digest is not the one in a store's attributes."""
    for name, load in (("displacement", field.load), ("gain_map", gain_map.load)):
        path = above(store, pair, f"{name}.npz")
        told = attributes.get(name)
        if path is None or not isinstance(told, dict) or "sha256" not in told:
            continue
        try:
            found = load(path)
        except (StoreError, OSError, ValueError, KeyError, zipfile.BadZipFile):
            continue  # `check_file` tells
        if found is None or found.digest != told["sha256"]:
            yield path.name


def above(store: Path, pair: Path, name: str) -> Path | None:
    """Return the nearest file of that name in the directories from a store up to its pair's."""
    for place in store.parents:
        if (place / name).is_file():
            return place / name
        if place == pair:
            return None
    return None


def _json(path: Path | None) -> dict[str, Any]:
    if path is not None:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if isinstance(content, dict):
            return content
    return {}


def check_file(path: Path) -> Problem | None:
    """Return what is wrong with a file of results, as far as its format can tell; None if nothing.

    JSON has to be JSON, archives of arrays have checksums, and pictures a beginning and an end.
    """
    try:
        fault = _fault(path)
    except OSError as error:
        fault = f"cannot be read ({error.strerror or error})"
    if fault is None:
        return None
    return Problem(f"{path} {fault}; delete it and rerun the workflow to make it again", path)


def _fault(path: Path) -> str | None:
    if path.suffix in (".json", ".geojson"):
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            return "is not whole JSON"
    elif path.suffix == ".npz":
        try:
            with zipfile.ZipFile(path) as archive:
                broken = archive.testzip()
        except zipfile.BadZipFile:
            return "is not a whole archive"
        if broken is not None:
            return f"is damaged ({broken})"
    elif path.suffix == ".png":
        content = path.read_bytes()
        if not (content.startswith(_PNG) and content.endswith(_PNG_END)):
            return "is not a whole picture"
    elif path.stat().st_size == 0:
        return "is empty"
    return None
