"""The addresses of the viewer, below ``<n>/view/``."""

from __future__ import annotations

import hashlib
import math
import time
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError
from unglow.reporting.html.live_answers import ASK_AGAIN, JSON, Answer
from unglow.reporting.html.page import as_json
from unglow.spoilt.saved_places import ARTEFACTS, artefacts_json
from unglow.viewer.chunk_memory import ChunkMemory, UnwantedError
from unglow.viewer.computed_stores import ComputedStore
from unglow.viewer.crops import Crop, crop_answer, window_of
from unglow.viewer.layers import CANDIDATES, Layers
from unglow.viewer.opened_stores import OpenedStores
from unglow.viewer.pair_model import arrows, blocks_json, candidates_json, pair_list, pair_model
from unglow.viewer.pairs import Pair, pairs_of
from unglow.viewer.raw_files import RawFiles, raw_files
from unglow.viewer.saving import ReadOnlyError, Told
from unglow.viewer.served_files import (
    INDEX,
    UNREADABLE,
    NoAddressError,
    file_of,
    page_files,
    sentence_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from unglow.reporting.html.live_answers import Request
    from unglow.reporting.html.live_site import Source
    from unglow.viewer.layers import Layer

NAME = "view"
"""Of this part of the site, in addresses."""
# So many pairs are kept ready: their maps, gains and backgrounds.
_KEPT_PAIRS = 4
# Whether results have changed is asked at most once in so many s: on network disks it takes time.
_LOOK_S = 1.0
# So long raw files are taken to be where they were found, s.
_RAW_S = 2.0
_RESULT_FILES = (
    *("transform.json", "scale.json", "gain_map.npz", "detection.json", "candidates.csv"),
    *("blocks.csv", "post.ome.zarr/zarr.json", "pre.ome.zarr/zarr.json"),
    "aligned_pre.ome.zarr/zarr.json",
)
_POST = "POST"
_LAYERS, _SUFFIX, _ASSETS = "layers", ".zarr", "assets"


@dataclass
class _Known:
    """Layers, the state of the results that they are of, and when that was looked at."""

    state: object
    layers: Layers
    looked: float = -math.inf


class Viewer:
    """All that can be asked for of a results directory, but for its runs.

    Parameters
    ----------
    source
        The directory, as the page of the runs knows it.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._stores, self._memory = OpenedStores(), ChunkMemory()
        self._layers: OrderedDict[str, _Known] = OrderedDict()
        self._lock, self._crops = Lock(), Lock()
        self._pairs: dict[str, Pair] = {}
        self._found_raw: dict[tuple[str, ...], tuple[float, RawFiles]] = {}

    def answer(self, request: Request) -> Answer:
        """Answer a request; what goes wrong is told as ``{"error": "one sentence"}``."""
        try:
            return self._found(request)
        except NoAddressError:
            return _problem("There is no such address.", HTTPStatus.NOT_FOUND)
        except UnwantedError:
            return _problem("Nobody waited for it.", HTTPStatus.SERVICE_UNAVAILABLE)
        except ReadOnlyError as error:
            return _problem(str(error), HTTPStatus.FORBIDDEN)
        except UNREADABLE as error:
            asked = isinstance(error, InputError) and (request.method == _POST or request.query)
            status = HTTPStatus.BAD_REQUEST if asked else HTTPStatus.INTERNAL_SERVER_ERROR
            return _problem(sentence_of(error), status)

    def _found(self, request: Request) -> Answer:
        first, *rest = request.parts or ("",)
        if first == "pair" and len(rest) > 1:
            return self._of_pair(self._pair(rest[0]), tuple(rest[1:]), request)
        if request.method == _POST:
            raise NoAddressError(first)
        if not request.parts:  # without a slash at its end, all that the page asks for is elsewhere
            return Answer("text/plain", status=HTTPStatus.FOUND, headers={"Location": f"{NAME}/"})
        if (first, *rest) == ("pairs.json",):
            return _json(pair_list(self.pairs().values()))
        whole = "/".join(rest) if first == _ASSETS else INDEX if not rest else None
        if whole is None or whole not in page_files() or first not in ("", INDEX, _ASSETS):
            raise NoAddressError(first)
        return page_files()[whole]

    def pairs(self) -> dict[str, Pair]:
        """Return the pairs by their ids, in the order of the report."""
        self._pairs = pairs_of(self._source.results, self._source.model()[1]["pairs"])
        return self._pairs

    def check_images(self) -> None:
        """Raise `InputError` if no pair has an image to look at."""
        results = self._source.results
        pairs = self.pairs().values()
        if any(self.layers(pair).all for pair in pairs):
            return
        if slide := next(results.glob("*/slide.json"), None):
            image = next(slide.parent.glob("corrected.ome.*"), slide.parent)
            raise InputError(
                f"{results} has no pair with an image to look at, and slides cannot be viewed yet: "
                f"open {image} in QuPath or napari."
            )
        reasons = (f".\n{p.title}: {p.row['reasons']}" for p in pairs if p.row.get("reasons"))
        why = next(reasons, " yet: run the workflow first.")
        raise InputError(f"{results} has no pair with an image to look at{why}")

    def _pair(self, name: str) -> Pair:
        """Return a pair by its id; tiles do not wait for a look at all results."""
        found = self._pairs.get(name) or self.pairs().get(name)
        if found is None:
            raise NoAddressError(name)
        return found

    def _of_pair(self, pair: Pair, parts: tuple[str, ...], request: Request) -> Answer:
        layers = self.layers(pair)
        told = Told(pair, layers, partial(self._raw, pair))
        name = "/".join(parts)
        if request.method == _POST:
            return _json(told.write(name, request.body))
        if parts[0] == _LAYERS and len(parts) > 1:
            return self._of_layer(layers, parts[1:], request)
        made: dict[str, Callable[[], Answer]] = {
            "pair.json": lambda: _json(self._model(told)),
            "candidates.json": lambda: Answer(
                JSON, candidates_json(pair.directory / CANDIDATES, layers.detection)
            ),
            "blocks.json": lambda: Answer(JSON, blocks_json(pair.registered / "blocks.csv")),
            "arrows.json": lambda: _json(arrows(layers.transform)),
            ARTEFACTS: lambda: Answer(JSON, artefacts_json(pair.directory / ARTEFACTS)),
            "crop.ome.tif": lambda: self._crop(pair, layers, request),
        }
        return made[name]() if name in made else _json(told.read(name))

    def _raw(self, pair: Pair) -> RawFiles:
        """Find the raw files of a pair, at most once in a while: a page asks at every click."""
        key, now = pair.names[:2], time.monotonic()
        found = self._found_raw.get(key)
        if found is None or now - found[0] > _RAW_S:
            found = now, raw_files(self._source.results, *key)
            self._found_raw = {key: found}
        return found[1]

    def _crop(self, pair: Pair, layers: Layers, request: Request) -> Answer:
        layer = _named(layers, request.query.get("layer", ""))
        store = layer.open()
        window = window_of(request.query, store.shape)
        crop = Crop(store, window, layer.title, request.wanted)
        with self._crops:
            return crop_answer(crop, f"{pair.title} {layer.name} {window.x0} {window.y0}")

    def _of_layer(self, layers: Layers, parts: tuple[str, ...], request: Request) -> Answer:
        name, suffix = parts[0][: -len(_SUFFIX)], parts[0][-len(_SUFFIX) :]
        if suffix != _SUFFIX:
            raise NoAddressError(parts[0])
        store = _named(layers, name).open()
        if isinstance(store, ComputedStore):
            return store.file(parts[1:], self._memory, request.wanted)
        return file_of(store, parts[1:])

    def layers(self, pair: Pair) -> Layers:
        """Return what a pair has to show, anew when one of its results has changed."""
        with self._lock:
            found = self._layers.pop(pair.id, None)
            now = time.monotonic()
            if found is None or now - found.looked > _LOOK_S:
                state = _state(pair)
                if found is None or found.state != state:
                    found = _Known(state, Layers(pair, self._stores))
                found.looked = now
            self._layers[pair.id] = found
            while len(self._layers) > _KEPT_PAIRS:
                self._layers.popitem(last=False)
        return found.layers

    def _model(self, told: Told) -> dict[str, Any]:
        runs = self._source.model()[1]["runs"]
        version = str((runs[-1].get("environment") or {}).get("unglow") or "") if runs else ""
        model = pair_model(told.pair, told.layers, self.pairs().values(), version)
        return {**model, "writable": not told.why_not, "why": told.why_not}


def _named(layers: Layers, name: str) -> Layer:
    if name not in layers.all:
        raise NoAddressError(name)
    return layers.all[name]


def _state(pair: Pair) -> object:
    """Return what changes when a result of a pair does."""
    places = dict.fromkeys((pair.images, pair.registered, pair.subtracted, pair.directory))
    found = []
    for place in places:
        for name in _RESULT_FILES:
            try:
                about = (place / name).stat()
            except OSError:
                continue
            found.append((place, name, about.st_mtime_ns, about.st_size, about.st_ino))
    written = sorted(pair.subtracted.glob("difference/*.ome.zarr/zarr.json"))
    return found, written


def _json(content: object) -> Answer:
    body = as_json(content).encode()
    tag = hashlib.sha256(body).hexdigest()[:32]
    return Answer(JSON, body, tag=tag, headers={"Cache-Control": ASK_AGAIN})


def _problem(sentence: str, status: HTTPStatus) -> Answer:
    return Answer.text(as_json({"error": sentence}), JSON, status)
