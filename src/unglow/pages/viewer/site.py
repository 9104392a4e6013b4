"""The addresses of the viewer, below ``<n>/view/``, and parts of images as OME-TIFF to save."""

from __future__ import annotations

import base64
import hashlib
import math
import time
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from unglow.core.errors import InputError
from unglow.core.levels import VARIANT
from unglow.core.windows import Window
from unglow.export.images import write_tiff
from unglow.images.artefacts import ARTEFACTS, artefacts_json
from unglow.pages.report.live_answers import ASK_AGAIN, JSON, Answer, FileBody
from unglow.pages.report.report import to_json
from unglow.pages.viewer.computed_stores import ChunkMemory, ComputedStore, UnwantedError
from unglow.pages.viewer.layers import CANDIDATES, Layers, Pair, pairs_of
from unglow.pages.viewer.pair_model import (
    arrows,
    blocks_json,
    candidates_json,
    pair_list,
    pair_model,
)
from unglow.pages.viewer.raw_files import RawFiles, raw_files
from unglow.pages.viewer.saving import ReadOnlyError, UserAnnotations
from unglow.pages.viewer.served_files import (
    INDEX,
    UNREADABLE,
    NoAddressError,
    OpenedStores,
    answer_page,
    answer_problem,
    file_of,
    sentence_of,
)
from unglow.photometry.imaging import GAIN_MAP
from unglow.registration.block_table import BLOCKS
from unglow.results.pair import SLIDE, STAGE_FILES
from unglow.results.slide_files import SUBTRACTION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from unglow.pages.report.live_answers import Request
    from unglow.pages.report.live_site import Source
    from unglow.pages.viewer.layers import Layer, Shown
    from unglow.pages.viewer.slide_layers import AnyLayers
    from unglow.transform import Transform


MOST_PX = 200_000_000
"""Of a crop: entire images are exported by the workflow, and are in the stores."""
_NAMES = ("x", "y", "width", "height")


class Crop:
    """A part of level 0 of an image, with all that exports ask of a store.

    Parameters
    ----------
    store
        What it is a part of.
    window
        Which part.
    name
        Shown by viewers.
    wanted
        Whether somebody still waits for it.
    """

    levels = 1
    empty = None

    def __init__(self, store: Shown, window: Window, name: str, wanted: Callable[[], bool]) -> None:
        self._store, self._window, self._wanted = store, window, wanted
        rows, cols = window.shape
        place = {"x": window.x0, "y": window.y0, "width": cols, "height": rows}
        self.name, self.attributes = name, {**store.attributes, "crop": place}
        self.dtype, self.pixel_size_um = store.dtype, store.pixel_size_um

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._window.shape

    def level_shape(self, level: int) -> tuple[int, int]:
        """Rows and columns of a level, of which there is one."""
        return self._window.shape if level == 0 else (0, 0)

    def read(self, window: Window, level: int = 0) -> NDArray[Any]:
        """Pixels of a window of the crop; UnwantedError if nobody waits for them any more."""
        if not self._wanted():
            raise UnwantedError
        return self._store.read(window.shift(self._window.y0, self._window.x0), level)


def window_of(asked: Mapping[str, str], shape: tuple[int, int]) -> Window:
    """Return the part of an image of ``shape`` that is asked for, cut at its edges.

    Raises
    ------
    InputError
        Nothing of it is there, it is too large, or a number is missing.
    """
    try:
        x, y, width, height = (round(float(asked[name])) for name in _NAMES)
    except (KeyError, ValueError, OverflowError) as error:
        raise InputError("A crop needs x, y, width and height, px of the layer.") from error
    window = Window(y, y + height, x, x + width).clip(shape)
    if not window.size:
        raise InputError("The crop is outside of the image.")
    if window.size > MOST_PX:
        raise InputError(
            f"The crop has {window.size / 1e6:.0f} million px, and {MOST_PX / 1e6:.0f} are the "
            "most: choose a smaller part, or have the workflow export the image (`exports`)."
        )
    return window


def crop_answer(crop: Crop, name: str) -> Answer:
    """Write a crop as OME-TIFF and return it as a file to save, which is gone when it is sent.

    Errors are those of `write_tiff`.
    """
    with TemporaryDirectory(prefix="unglow-crop-") as folder:
        place = Path(folder) / "crop.ome.tif"
        write_tiff(crop, place)  # type: ignore[arg-type]  # all of an image that is needed
        body = FileBody(place)
    title = quote(f"{name}.ome.tif", safe="", errors="replace")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{title}"}
    return Answer("image/tiff", body, headers=headers)


NAME = "view"
"""Of this part of the site, in addresses."""
# Number of pairs that are kept ready: their maps, gains and backgrounds.
_KEPT_PAIRS = 4
# Results are checked for changes at most once in this time, s: network disks are slow.
_LOOK_S = 1.0
# Raw files are looked for again after this time, s.
_RAW_S = 2.0
_RESULT_FILES = (
    *STAGE_FILES,
    *(GAIN_MAP, BLOCKS, "post.ome.zarr/zarr.json", "pre.ome.zarr/zarr.json"),
    *("aligned_pre.ome.zarr/zarr.json", SLIDE, SUBTRACTION),
    *("corrected.ome.tif", "corrected.ome.zarr/zarr.json", "artefacts.geojson"),
)
_POST = "POST"
THUMBNAIL = "thumbnail.jpg"
_THUMBNAIL_PX = 160
_LAYERS, _SUFFIX = "layers", ".zarr"


@dataclass
class _Known:
    """Layers, the state of the results that they are of, and when that was looked at."""

    state: object
    layers: AnyLayers
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
        """Answer a request; errors are sent as ``{"error": "one sentence"}``."""
        try:
            return self._found(request)
        except NoAddressError:
            return answer_problem("There is no such address.", HTTPStatus.NOT_FOUND)
        except UnwantedError:
            return answer_problem("Nobody waited for it.", HTTPStatus.SERVICE_UNAVAILABLE)
        except ReadOnlyError as error:
            return answer_problem(str(error), HTTPStatus.FORBIDDEN)
        except UNREADABLE as error:
            asked = isinstance(error, InputError) and (request.method == _POST or request.query)
            status = HTTPStatus.BAD_REQUEST if asked else HTTPStatus.INTERNAL_SERVER_ERROR
            return answer_problem(sentence_of(error), status)

    def _found(self, request: Request) -> Answer:
        first, *rest = request.parts or ("",)
        if first == "pair" and len(rest) > 1:
            return self._of_pair(self._pair(rest[0]), tuple(rest[1:]), request)
        if request.method == _POST:
            raise NoAddressError(first)
        if (first, *rest) == ("pairs.json",):
            return _json(pair_list(self.pairs().values()))
        return answer_page(("",) if request.parts == (INDEX,) else request.parts, NAME)

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
        annotations = UserAnnotations(pair, layers, partial(self._raw, pair))
        name = "/".join(parts)
        if request.method == _POST:
            return _json(annotations.write(name, request.body))
        if parts[0] == _LAYERS and len(parts) > 1:
            return self._of_layer(layers, parts[1:], request)
        made: dict[str, Callable[[], Answer]] = {
            "pair.json": lambda: _json(self._model(annotations)),
            "candidates.json": lambda: Answer(
                JSON, candidates_json(pair.directory / CANDIDATES, layers.detection)
            ),
            ARTEFACTS: lambda: Answer(JSON, artefacts_json(pair.directory / ARTEFACTS)),
            THUMBNAIL: lambda: self._thumbnail(pair),
            "crop.ome.tif": lambda: self._crop(pair, layers, request),
        }
        for end, (transform, blocks) in layers.registered.items():
            made[f"blocks{end}.json"] = partial(_blocks, blocks)
            made[f"arrows{end}.json"] = partial(_arrows, transform)
        return made[name]() if name in made else _json(annotations.read(name))

    def _thumbnail(self, pair: Pair) -> Answer:
        """Return a small picture, the difference or else post; empty if there is none."""
        from unglow.pages.report.thumbnails import Sizes, pack_pictures  # OpenCV

        found = [picture.small for picture in self._source.pictures(pair.title, small=True)]
        if not any(found) and not pair.is_slide:
            sizes = Sizes(0, _THUMBNAIL_PX, 0)
            (pictures,) = pack_pictures(self._source.results, [pair.row], sizes=sizes)
            found = [picture.image for picture in pictures]
        content = base64.b64decode(next(filter(None, found), ""))
        return Answer("image/jpeg", content, headers={"Cache-Control": ASK_AGAIN})

    def _raw(self, pair: Pair) -> RawFiles:
        """Find the raw files of a pair, at most once in a while: a page asks at every click."""
        key, now = (*pair.names, "")[:2], time.monotonic()
        found = self._found_raw.get(key)
        if found is None or now - found[0] > _RAW_S:
            found = now, raw_files(self._source.results, *key)
            self._found_raw = {key: found}
        return found[1]

    def _crop(self, pair: Pair, layers: AnyLayers, request: Request) -> Answer:
        layer = _named(layers, request.query.get("layer", ""))
        store = layer.open()
        window = window_of(request.query, store.shape)
        crop = Crop(store, window, layer.title, request.wanted)
        with self._crops:
            return crop_answer(crop, f"{pair.title} {layer.name} {window.x0} {window.y0}")

    def _of_layer(self, layers: AnyLayers, parts: tuple[str, ...], request: Request) -> Answer:
        name, suffix = parts[0][: -len(_SUFFIX)], parts[0][-len(_SUFFIX) :]
        if suffix != _SUFFIX:
            raise NoAddressError(parts[0])
        store = _named(layers, name).open()
        if isinstance(store, ComputedStore):
            return store.file(parts[1:], self._memory, request.wanted)
        return file_of(store, parts[1:])

    def layers(self, pair: Pair) -> AnyLayers:
        """Return the images of a pair or slide, read again when one of its results has changed."""
        with self._lock:
            found = self._layers.pop(pair.id, None)
            now = time.monotonic()
            if found is None or now - found.looked > _LOOK_S:
                state = _state(pair)
                if found is None or found.state != state:
                    found = _Known(state, self._read(pair))
                found.looked = now
            self._layers[pair.id] = found
            while len(self._layers) > _KEPT_PAIRS:
                self._layers.popitem(last=False)
        return found.layers

    def _read(self, pair: Pair) -> AnyLayers:
        if pair.is_slide:
            from unglow.pages.viewer.slide_layers import SlideLayers  # needs the wing of slides

            return SlideLayers(pair)
        return Layers(pair, self._stores)

    def _model(self, annotations: UserAnnotations) -> dict[str, Any]:
        runs = self._source.model()[1]["runs"]
        version = str((runs[-1].get("environment") or {}).get("unglow") or "") if runs else ""
        model = pair_model(annotations.pair, annotations.layers, self.pairs().values(), version)
        return {**model, "writable": not annotations.why_not, "why": annotations.why_not}


def _named(layers: AnyLayers, name: str) -> Layer:
    if name not in layers.all:
        raise NoAddressError(name)
    return layers.all[name]


def _state(pair: Pair) -> object:
    """Return what changes when a result of a pair does."""
    places = dict.fromkeys(map(pair.place, VARIANT))
    found = []
    for place in places:
        for name in _RESULT_FILES:
            try:
                about = (place / name).stat()
            except OSError:
                continue
            found.append((place, name, about.st_mtime_ns, about.st_size, about.st_ino))
    written = sorted(pair.place("subtraction").glob("difference*.ome.zarr/zarr.json"))
    return found, written


def _json(content: object) -> Answer:
    body = to_json(content).encode()
    tag = hashlib.sha256(body).hexdigest()[:32]
    return Answer(JSON, body, tag=tag, headers={"Cache-Control": ASK_AGAIN})


def _blocks(path: Path) -> Answer:
    return Answer(JSON, blocks_json(path))


def _arrows(transform: Transform | None) -> Answer:
    return _json(arrows(transform))
