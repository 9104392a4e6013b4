"""The viewer as a folder of files that any web server or object store can serve.

It holds what the live viewer answers, under the same names. What is written is copied; what the
live viewer computes on demand is omitted or computed entirely. Nothing can be saved
from such a page.
"""

from __future__ import annotations

import json
import re
import shutil
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from unglow.core.errors import UnglowError
from unglow.export.images import whole_directory
from unglow.images.artefacts import ARTEFACTS
from unglow.images.zarr.layout import DOCUMENT
from unglow.pages.report.live_answers import FileBody, Request
from unglow.pages.report.live_site import Source
from unglow.pages.viewer.computed_stores import ComputedStore
from unglow.pages.viewer.served_files import page_files
from unglow.pages.viewer.site import THUMBNAIL, Viewer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from unglow.pages.report.live_answers import Answer
    from unglow.pages.viewer.layers import Layer

_TABLES = ("candidates.json", ARTEFACTS, THUMBNAIL)
# Of each registration.
_OVERLAYS = ("blocks", "arrows")
_ANNOTATIONS = ("review.json", "regions.geojson")
# The directories of an absolute path in a sentence.
_DIRECTORIES = re.compile(r"(?<![\w.])/(?:[^\s/]+/)+")
_WHY = "These are copies of results, to look at: nothing can be saved here."
# Layers that are small or quick enough to be computed entirely without being asked for.
_SMALL = ("error", "gain")


def write_site(
    results: Path, target: Path, *, computed: bool, say: Callable[[str], None]
) -> tuple[int, int]:
    """Write a folder with the viewer and all that it shows of results.

    Parameters
    ----------
    results
        The results directory.
    target
        The folder; it must not exist, and appears when it is complete.
    computed
        Whether images that no store holds (differences by other methods, the signal-to-noise
        ratio) are written too.
    say
        Is given a line for each pair.

    Returns
    -------
    Number of pairs, and bytes.

    Raises
    ------
    InputError
        There is no pair with an image.
    UnglowError
        A result is damaged, or the folder cannot be written.
    """
    viewer = Viewer(Source(results, str(results)))
    viewer.check_images()
    listed = _remove_directories(_asked(viewer, "pairs.json"))
    models = {
        one["id"]: _remove_directories(_asked(viewer, "pair", one["id"], "pair.json"))
        for one in listed
    }
    listed = [one for one in listed if models[one["id"]]["layers"]]
    with whole_directory(target) as partial:
        for name, answer in page_files().items():
            place = partial / name if name == "index.html" else partial / "assets" / name
            _write(place, answer)
        _write_json(partial / "pairs.json", listed)
        for one in listed:
            say(f"{one['sample']} {one['dye']}")
            _write_pair(viewer, models[one["id"]], partial, computed=computed)
        total = sum(path.stat().st_size for path in partial.rglob("*") if path.is_file())
    return len(listed), total


def _write_pair(viewer: Viewer, about: dict[str, Any], partial: Path, *, computed: bool) -> None:
    """Write a pair; ``about`` is its pair.json."""
    pair = about["id"]
    place = partial / "pair" / unquote(pair)
    known = viewer.layers(viewer.pairs()[pair])
    layers = known.all
    shown = [
        layer
        for layer in about["layers"]
        if computed or not layer["computed"] or layer["kind"] in _SMALL
    ]
    changed = {"live": False, "writable": False, "why": _WHY, "layers": shown, "help": ""}
    _write_json(place / "pair.json", about | changed)
    overlays = (f"{name}{end}.json" for end in known.registered for name in _OVERLAYS)
    for name in (*_TABLES, *overlays):
        _write(place / name, _answer(viewer, "pair", pair, name))
    for name in _ANNOTATIONS:
        _write_json(place / name, _read_only(_asked(viewer, "pair", pair, name)))
    for layer in shown:
        for key in _keys(layers[layer["name"]]):
            at = ("pair", pair, *layer["url"].split("/"), *key.split("/"))
            _write(place / layer["url"] / key, _answer(viewer, *at))


def _remove_directories(content: Any) -> Any:
    """Return JSON whose texts name files without their directories."""
    if isinstance(content, dict):
        return {key: _remove_directories(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_remove_directories(value) for value in content]
    return _DIRECTORIES.sub("", content) if isinstance(content, str) else content


def _read_only(content: dict[str, Any]) -> dict[str, Any]:
    """Return annotations without their place on this machine."""
    changed = content | {"writable": False, "why": _WHY}
    if "file" in content:
        changed["file"] = ""
    if "unglow" in content:
        changed["unglow"] = _read_only(content["unglow"])
    return changed


def _keys(layer: Layer) -> Iterator[str]:
    """Yield the names of all files of a layer's store, as they are asked for."""
    store = layer.open()
    yield DOCUMENT
    for level in range(store.layout.levels):
        yield f"{level}/{DOCUMENT}"
        is_written = not isinstance(store, ComputedStore)
        side = store.layout.level_shards(level) if is_written else store.layout.chunks
        rows, cols = store.layout.level_shape(level)
        for row in range(-(-rows // side[0])):
            for col in range(-(-cols // side[1])):
                yield f"{level}/c/{row}/{col}"


def _asked(viewer: Viewer, *parts: str) -> Any:
    return json.loads(_read_body(_answer(viewer, *parts)))


def _answer(viewer: Viewer, *parts: str) -> Answer:
    """Return what the live viewer answers; UnglowError if that is an error."""
    answer = viewer.answer(Request("GET", parts))
    if answer.status >= HTTPStatus.BAD_REQUEST:
        raise UnglowError(str(json.loads(_read_body(answer))["error"]))
    return answer


def _read_body(answer: Answer) -> bytes:
    if isinstance(answer.body, bytes):
        return answer.body
    with answer.body.file as source:
        return source.read()


def _write(path: Path, answer: Answer) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        if isinstance(answer.body, FileBody):
            with answer.body.file as source:
                shutil.copyfileobj(source, stream, 1 << 20)
        else:
            stream.write(answer.body)


def _write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
