"""The pairs of a results directory, and their images: written as a store, or computed on demand."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import quote

import numpy as np

from unglow.core.archive import make_damage_error
from unglow.core.errors import ConfigError, InputError
from unglow.core.levels import PAIR, RESULT_OF, name_of, names_of, place_of
from unglow.core.reasons import DETAILS
from unglow.core.records import to_plain
from unglow.core.settings import from_json
from unglow.detection.coarse_grid import estimate_error
from unglow.detection.settings import DetectSettings
from unglow.images.detection_results import read_candidates
from unglow.images.zarr.layout import DOCUMENT
from unglow.pages.viewer.computed_stores import (
    ComputedStore,
    MadeStores,
    Ratio,
    SmoothImage,
    error_store,
)
from unglow.pages.viewer.served_files import UNREADABLE
from unglow.photometry.difference import Difference, choose_image, compute_difference, name_store
from unglow.registration.block_table import BLOCKS
from unglow.results.pair import PairResults
from unglow.review.decisions import Listed
from unglow.stages.snr import DetectInputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.detection.snr import Scene
    from unglow.images.zarr import Store
    from unglow.pages.viewer.served_files import OpenedStores
    from unglow.photometry.difference import Image
    from unglow.photometry.gain.scale import Scale
    from unglow.photometry.imaging import GainMap
    from unglow.transform import Transform


# What a browser leaves as it is when it encodes a part of an address, but for "~".
_PLAIN = "!'()*"


@dataclass(frozen=True, eq=False)
class Pair:
    """A pair, or a variant of one; or a slide, which has a sample alone.

    Attributes
    ----------
    results
        The results directory.
    row
        As in the summary.
    """

    results: Path
    row: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Sample, dye and names of the variant."""
        return tuple(filter(None, names_of(self.row)))

    @property
    def id(self) -> str:
        """Its name in addresses: `names`, each encoded as a part of one, with ~ between them."""
        encoded = (quote(name, safe=_PLAIN, errors="surrogateescape") for name in self.names)
        return "~".join(name.replace("~", "%7E") for name in encoded)

    @property
    def title(self) -> str:
        """Its name for people."""
        return name_of(self.row)

    @property
    def files(self) -> PairResults:
        """Its results, each read when it is asked for."""
        return PairResults(self.directory, self.section)

    @property
    def is_slide(self) -> bool:
        """Whether it is a multiplexed slide, with all of its markers."""
        return len(self.names) == 1

    @property
    def section(self) -> Path:
        """Directory of what concerns the section, which all variants share."""
        return place_of(self.results, self.row, PAIR[-1])

    def place(self, level: str) -> Path:
        """Return the directory of its results on a level, such as ``registration``."""
        return place_of(self.results, self.row, level)

    @property
    def directory(self) -> Path:
        """Directory of its candidates."""
        return place_of(self.results, self.row)


def pairs_of(results: Path, rows: Iterable[Mapping[str, Any]]) -> dict[str, Pair]:
    """Return the pairs of the rows of a summary by their ids, in the order of the rows.

    Rows without both names (files that were skipped) have no results; those of the markers of a
    slide become one, with the worst of their states. A name that would lead out of the results
    directory is not one of unglow's.
    """
    named = [row for row in rows if row.get("sample") and row.get("dye")]
    pairs = [Pair(results, row) for row in named if not row.get("background_channel")]
    markers: dict[str, list[Mapping[str, Any]]] = {}
    for row in named:
        if row.get("background_channel"):
            markers.setdefault(str(row["sample"]), []).append(row)
    pairs += [Pair(results, _row_of_slide(name, own)) for name, own in markers.items()]
    return {pair.id: pair for pair in pairs if all(map(_is_plain, pair.names))}


def _row_of_slide(name: str, markers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    states = [str(row.get("status") or "") for row in markers]
    known = ("ok", "suspect", "failed")
    worst = max(states, key=lambda one: known.index(one) if one in known else len(known))
    if worst == "failed" and len({*states}) > 1:
        worst = "suspect"  # others have a result
    reasons = dict.fromkeys(
        f"{row['dye']}: {row['reasons']}" for row in markers if row.get("reasons")
    )
    why = {one["sentence"]: one for row in markers for one in row.get(DETAILS, ())}
    shown = {"reasons": " ".join(reasons), DETAILS: list(why.values())}
    return {"sample": name, "dye": "", "status": worst, **shown}


def _is_plain(name: str) -> bool:
    return name not in (".", "..") and "/" not in name and "\0" not in name


CANDIDATES = "candidates.csv"
# Of a registration, which pages have elsewhere.
_SAID = ("version", "matrix", "post_shape", "pre_shape")
GREY, RATIO, PX, FACTOR = "grey levels", "", "px", ""
# The first range of viewers: most of it is noise, which is 1.
_SNR_WINDOW = {"min": -1000.0, "max": 1000.0, "start": -10.0, "end": 10.0}

Shown: TypeAlias = "Store | ComputedStore"


@dataclass(frozen=True, eq=False)
class Layer:
    """An image of a pair.

    Attributes
    ----------
    name, title
        In addresses, and for people.
    kind
        ``intensity``, ``difference``, ``snr``, ``error``, ``gain`` or ``channel``.
    unit
        Of its pixels.
    open
        Returns the store; StoreError if it is damaged.
    frame
        ``post`` or ``pre``: which image's coordinates it has.
    computed
        Whether nothing of it is written.
    default
        Whether it is the difference of the default method.
    more
        Of a slide: the ``cycle``, and of its channels the ``colour``.
    """

    name: str
    title: str
    kind: str
    unit: str
    open: Callable[[], Shown]
    frame: str = "post"
    computed: bool = False
    default: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)

    def about(self) -> dict[str, Any]:
        """Return the layer for a page, as JSON types."""
        return {
            "name": self.name,
            "title": self.title,
            "url": f"layers/{self.name}.zarr",
            "frame": self.frame,
            "kind": self.kind,
            "unit": self.unit,
            "computed": self.computed,
            "default": self.default,
            **self.more,
        }


def registration_model(transform: Transform) -> dict[str, Any]:
    """Return what a page says of a registration, as JSON types."""
    return {key: value for key, value in transform.to_dict().items() if key not in _SAID}


class Registered(NamedTuple):
    """What overlays show of a registration: the map, None if it cannot be read, and its blocks."""

    transform: Transform | None
    blocks: Path


class Layers:
    """The layers of a pair, from its results as they are when this is made.

    Parameters
    ----------
    pair
        The pair, or variant.
    stores
        Keeps stores open.
    """

    def __init__(self, pair: Pair, stores: OpenedStores) -> None:
        self._pair, self._stores = pair, stores
        self._results = pair.files
        self._made = MadeStores()

    @cached_property
    def transform(self) -> Transform | None:
        """The map from post to pre; None if there is none, or it cannot be read."""
        with suppress(*UNREADABLE):
            return self._results.transform
        return None

    @property
    def registered(self) -> dict[str, Registered]:
        """The registration, by what the names of its files end with: nothing."""
        return {"": Registered(self.transform, self._pair.place("registration") / BLOCKS)}

    @cached_property
    def scale(self) -> Scale | None:
        """Gains and offsets; None if there are none, or they cannot be read."""
        with suppress(*UNREADABLE):
            return self._results.scale
        return None

    @cached_property
    def detection(self) -> dict[str, Any] | None:
        """What the search says of itself; None if there was none, or it cannot be read."""
        with suppress(*UNREADABLE):
            return self._results.detection
        return None

    @cached_property
    def all(self) -> dict[str, Layer]:
        """The layers by name, in the order in which they are shown."""
        made = (*self._images(), *self._differences(), *self._ratio(), *self._maps())
        return {layer.name: layer for layer in made}

    def about(self) -> dict[str, Any]:
        """Return what a page knows of a slide alone: nothing."""
        return {}

    def place_of(self, layer: Layer) -> str:
        """Return where below the results a layer belongs: variants share those of one place."""
        pair = self._pair
        levels = {"difference": "subtraction", "gain": "subtraction", "snr": "detection"}
        if layer.kind == "intensity":
            place = self._place(layer.name).parent
        else:
            place = pair.place(levels.get(layer.kind, "registration"))
        return place.relative_to(pair.results).as_posix()

    def store(self, name: str) -> Store:
        """Open ``post``, ``pre`` or ``aligned_pre``; StoreError if it is not there or damaged."""
        return self._stores.open(self._place(name))

    @cached_property
    def listed(self) -> Listed:
        """The candidates, as decisions are about them; InputError if the list is damaged."""
        return Listed.read(self._pair.directory / CANDIDATES)

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        """Which of the candidates (N,) are counted as such; InputError as above."""
        place = self._pair.directory / CANDIDATES
        return read_candidates(place, ()).is_counted if place.is_file() else np.zeros(0, np.bool_)

    def _place(self, name: str) -> Path:
        level = "registration" if name == "aligned_pre" else "ingestion"
        return self._pair.place(level) / f"{name}.ome.zarr"

    def _images(self) -> Iterator[Layer]:
        titles = {"post": "post", "pre": "pre", "aligned_pre": "aligned pre"}
        for name, title in titles.items():
            if self._is_there(self._place(name)):
                frame = "pre" if name == "pre" else "post"
                yield Layer(name, title, "intensity", GREY, partial(self.store, name), frame)

    def _is_there(self, place: Path) -> bool:
        """Whether there is a store with pixels, or a damaged one, which has to be reported."""
        if not (place / DOCUMENT).is_file():
            return False
        try:
            return self._stores.open(place).empty is None
        except UNREADABLE:
            return True

    def _differences(self) -> Iterator[Layer]:
        if self.scale is None or not self._is_there(self._place("aligned_pre")):
            return
        for method, result in self.scale.methods.items():
            if result.ok:
                store = self._pair.place("subtraction") / name_store(method, self.scale.default)
                yield Layer(
                    f"difference-{method}",
                    f"difference, {method}",
                    "difference",
                    GREY,
                    partial(self._difference_store, method),
                    computed=not (store / DOCUMENT).is_file(),
                    default=method == self.scale.default,
                )

    def difference(self, method: str) -> Image:
        """Return the difference by a method, written or not; StoreError if that cannot be."""
        place = self._pair.place("subtraction")
        if self.scale is None:
            raise InputError(f"{place / 'scale.json'} cannot be read.")
        post, aligned = self.store("post"), self.store("aligned_pre")
        made = compute_difference(post, aligned, self.scale, method, place)
        return choose_image(made, self._stores.open)

    def _difference_store(self, method: str) -> Shown:
        image = self.difference(method)
        if not isinstance(image, Difference):
            return image
        return self._made.get(
            f"difference-{method}",
            partial(ComputedStore, image, image.name, image.attributes, image.pixel_size_um),
        )

    def _ratio(self) -> Iterator[Layer]:
        if self.detection is not None and self.detection["status"] == "ok":
            make = partial(self._made.get, "snr", self._ratio_store)
            yield Layer("snr", "signal-to-noise ratio", "snr", RATIO, make, computed=True)

    def _ratio_store(self) -> ComputedStore:
        inputs, settings = self._inputs(), self._settings()
        follows = {
            "role": "snr",
            "difference": inputs.difference.digest,
            "settings": to_plain(settings),
            "scale": inputs.scale.default_result.to_json(),
            "transform": inputs.transform.to_dict(),
        }
        image = Ratio(lambda: self._scene, inputs.post.shape)
        size = inputs.post.pixel_size_um
        return ComputedStore(image, "signal-to-noise ratio", follows, size, _SNR_WINDOW)

    @cached_property
    def _scene(self) -> Scene:
        return self._inputs().scene(self._settings())

    def _settings(self) -> DetectSettings:
        try:
            return from_json(DetectSettings, (self.detection or {}).get("settings"), "settings")
        except ConfigError as error:
            raise make_damage_error(self._pair.directory / RESULT_OF["detection"], error) from error

    def _inputs(self) -> DetectInputs:
        post, pre, aligned = (self.store(name) for name in ("post", "pre", "aligned_pre"))
        scale = self._results.scale
        difference = self.difference(scale.default)
        return DetectInputs(post, pre, aligned, difference, scale, self._results.transform)

    def _maps(self) -> Iterator[Layer]:
        transform = self.transform
        if transform is None or transform.has_failed:
            return

        def make_error() -> ComputedStore:
            post = self.store("post")
            return error_store(transform, post.shape, post.pixel_size_um)

        if not estimate_error(transform).is_flat:
            make = partial(self._made.get, "map_error", make_error)
            yield Layer("map_error", "error of the map", "error", PX, make, computed=True)
        light = None if self.scale is None else self.scale.gain_map
        if light is not None:
            make = partial(self._made.get, "gain_map", partial(self._gain_store, light))
            yield Layer("gain_map", "gain map", "gain", FACTOR, make, computed=True)

    def _gain_store(self, gain_map: GainMap) -> ComputedStore:
        post = self.store("post")
        image = SmoothImage(post.shape, gain_map.evaluate_window)
        return ComputedStore(image, "gain map", {"sha256": gain_map.digest}, post.pixel_size_um)
