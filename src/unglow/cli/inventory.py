"""Content of raw images, measured in sampled blocks: the figures behind ``unglow survey``."""

from __future__ import annotations

import copy
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from unglow.core.errors import InputError
from unglow.core.progress import track_progress
from unglow.core.records import to_plain
from unglow.io.raw_images import survey_blocks
from unglow.io.tiff import remedy
from unglow.photometry.gain.bright_field import check_roles
from unglow.workflow.batch import check_help
from unglow.workflow.channel_signal import is_bright_field
from unglow.workflow.channels import AUTO, BLOCKS, SIDE, choose_channels
from unglow.workflow.header_cache import (
    CACHE,
    HeaderCache,
    find_stored_type,
    headers_of,
    pixel_size_note,
)
from unglow.workflow.samples import describe_repeated, map_sources
from unglow.workflow.slides import marker_pairs, read_slides
from unglow.workflow.stages.plan import check_two_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from unglow.io.tiff import TiffHeader
    from unglow.workflow.channels import ChannelChoice
    from unglow.workflow.samples import Discovery, Pair, Problem
    from unglow.workflow.settings import Settings
    from unglow.workflow.slides import KnownSlide, MarkerPairs

T = TypeVar("T")
ROLES = ("post", "pre")
BRIGHT_FIELD = "bright-field (dark is signal on a bright background): no candidates are looked for"


def inventory(discovery: Discovery, settings: Settings) -> dict[str, Any]:
    """Look at every file of every pair.

    Parameters
    ----------
    discovery
        Pairs and the problems known so far.
    settings
        Configuration (`unglow.workflow.config.load`).

    Returns
    -------
    Plain JSON types: ``layout``, ``files``, ``pairs`` and ``problems``, and ``slides`` if there are
    any; what is wrong with a file or a pair is a problem, not an exception. ``skipped`` is true for
    the problems of inputs that a run would not start.
    """
    cache = HeaderCache(Path(CACHE))
    usable: dict[tuple[str, str], Pair] = {}
    shapes: dict[tuple[str, str], list[list[int]]] = {}
    files: list[dict[str, Any]] = []
    pairs: list[dict[str, Any]] = []
    problems = [_problem(problem) for problem in discovery.problems]
    looked: dict[str, Any] = {}
    for pair in track_progress(discovery.pairs, "pairs looked at"):
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is counted
            record, skipped, failures = _look(pair, settings, cache, looked)
        if record["chosen"] is not None:
            usable[pair.key] = pair
            shapes[pair.key] = [file["shape"] for file in record["files"]]
        files += record.pop("files")
        pairs.append(record)
        problems += [
            {"message": message, "kind": "image", "sample": pair.sample, "dye": pair.dye,
             "paths": [str(pair.post), str(pair.pre)], "skipped": message == skipped}
            for message in (*filter(None, [skipped]), *failures)
        ]  # fmt: skip
    _, unusable = map_sources(usable, shapes, settings.register.from_)
    problems += [_problem(problem) for problem in unusable]
    slides, left_out = read_slides(discovery.slides, settings, cache)
    searched = marker_pairs(slides, settings, discovery)
    problems += [_problem(problem) for problem in (*left_out, *searched.problems)]
    report = {"layout": discovery.layout, "files": files, "pairs": pairs, "problems": problems}
    of_slides = [_slide(known, searched) for known in slides.values()]
    repeated = describe_repeated(usable.values())
    return (
        report
        | ({"notes": repeated} if repeated else {})
        | ({"slides": of_slides} if slides else {})
    )


def _slide(known: KnownSlide, searched: MarkerPairs) -> dict[str, Any]:
    """Return the record of a slide."""
    candidates = [pair.dye for pair in searched.pairs if pair.slide == known.slide.name]
    return {
        **({"candidates": candidates} if candidates else {}),
        "slide": known.slide.name,
        "images": [str(image) for image in known.slide.images],
        "shape": list(known.shape),
        "dtype": known.dtype,
        "channels": to_plain(known.slide.channels),
        "registered_on": {str(cycle): name for cycle, name in known.slide.registered_on.items()},
    }


def _problem(problem: Problem) -> dict[str, Any]:
    paths = [str(path) for path in problem.paths]
    return {**asdict(problem), "paths": paths, "skipped": True}


def _look(
    pair: Pair, settings: Settings, cache: HeaderCache, looked: dict[str, Any]
) -> tuple[dict[str, Any], str, list[str]]:
    """Return the record of a pair, why a run would skip it (or ''), and what else is wrong.

    ``looked`` keeps what was measured, since pairs may share images.
    """
    skipped, failures = "", []
    files = []
    headers = {}
    series = pair.series if pair.series is not None else settings.series
    plane = settings.plane
    try:
        check_help(pair, headers_of(pair, settings, cache))
    except InputError as error:
        skipped = str(error)
    for role in ROLES:
        path = pair.post if role == "post" else pair.pre
        try:
            headers[role] = cache.read(path, series=series, z=plane.z, t=plane.t)
        except InputError:  # named above
            continue
        try:
            _check_memory(headers[role], settings)
            figures = _once(looked, (headers[role],), (), partial(channel_figures, headers[role]))
        except InputError as error:
            failures.append(str(error))
            continue
        failures += headers[role].problems
        files.append(_file(pair, role, headers[role], figures))
    channel = pair.channel if isinstance(pair.channel, str) else str(settings.channel)
    record: dict[str, Any] = {
        "sample": pair.sample,
        "dye": pair.dye,
        "pre": str(pair.pre),
        "post": str(pair.post),
        "rule": pair.rule,
        "channel": channel,
        "control": pair.control,
        "groups": dict(pair.groups),
        "chosen": None,
        "files": files,
    }
    if len(files) == len(ROLES) and not skipped:
        try:
            check_two_files(headers["post"], headers["pre"])
            choice = _once(
                looked,
                headers.values(),
                (channel, pair.dye),
                partial(choose_channels, headers, channel=channel, dye=pair.dye),
            )
            record["chosen"] = asdict(choice)
            for file in files:
                role = file["role"]
                for one in file["channels"]:
                    one["chosen"] = one["index"] in choice.indices[role]
                    one["share"] = choice.shares.get(role, {}).get(one["name"])
                file["stored_dtype"] = find_stored_type(headers[role], channel)
            bright = _once(
                looked,
                headers.values(),
                choice.indices,
                partial(_bright_field, headers, choice, str(settings.light)),
            )
            for file in files:
                file["notes"] += [BRIGHT_FIELD] if file["role"] in bright else []
            failures += [f"{pair.sample} {pair.dye}: {doubt}" for doubt in check_roles(bright)]
        except InputError as error:
            failures.append(f"{pair.sample} {pair.dye}: {error}")
    return record, skipped, failures


def _once(
    looked: dict[str, Any], headers: Iterable[TiffHeader], more: object, measure: Callable[[], T]
) -> T:
    """Return what is measured in images, or what was measured in them before; a copy of it."""
    key = repr(([to_plain(header) for header in headers], more))
    if key not in looked:
        looked[key] = measure()
    return copy.deepcopy(cast("T", looked[key]))


def _check_memory(header: TiffHeader, settings: Settings) -> None:
    """Raise `InputError` for an image of which decoding takes more memory than a job may."""
    needed, allowed = header.decode_bytes / 1e6, settings.memory_per_job
    if needed > allowed:
        sentence = remedy(header) or f"'{header.path}' takes {needed:.0f} MB to decode"
        raise InputError(f"{sentence}, or raise memory_per_job (now {allowed} MB).")


def _bright_field(
    headers: dict[str, TiffHeader], choice: ChannelChoice, light: str
) -> tuple[str, ...]:
    """Return which images of a pair are bright-field, as the configuration or their pixels say."""
    if light != AUTO:
        return ROLES if light == "bright-field" else ()
    signals = {
        role: (
            block[list(choice.indices[role])].sum(axis=0, dtype=np.float32)
            for block in survey_blocks(header, BLOCKS, SIDE)
        )
        for role, header in headers.items()
    }
    return tuple(role for role in ROLES if is_bright_field(signals[role]))


def _file(
    pair: Pair, role: str, header: TiffHeader, figures: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the record of one file."""
    return {
        "sample": pair.sample,
        "dye": pair.dye,
        "role": role,
        "path": header.path,
        "shape": list(header.shape),
        "dtype": header.dtype,
        "stored_dtype": None,
        "layout": header.layout,
        "unit": list(header.unit),
        "compression": header.compression,
        "pixel_size_um": None if header.pixel_size_um is None else list(header.pixel_size_um),
        "file_bytes": header.file_bytes,
        "notes": [*header.notes, *filter(None, [pixel_size_note(header)])],
        "channels": figures,
    }


def channel_figures(header: TiffHeader) -> list[dict[str, Any]]:
    """Return min, mean, max and the share of saturated pixels of each channel.

    Figures come from the sampled blocks that the channels are chosen by as well. Saturated is what
    stands at the limit of an integer dtype; None for floating point. Values that are not finite
    are counted apart (``missing``, share of the pixels) and left out.

    Raises
    ------
    InputError
        A sampled block cannot be decoded.
    """
    kind = np.dtype(header.dtype)
    top = np.iinfo(kind).max if kind.kind in "iu" else None
    tallies = [_Tally(top) for _ in header.channels]
    for block in survey_blocks(header, BLOCKS, SIDE):
        for tally, plane in zip(tallies, block, strict=True):
            tally.add(plane)
    return [
        {"index": i, "name": channel.name, "alpha": channel.alpha, **tally.figures(),
         "chosen": False, "share": None}
        for i, (channel, tally) in enumerate(zip(header.channels, tallies, strict=True))
    ]  # fmt: skip


class _Tally:
    """Running figures of one channel."""

    def __init__(self, top: int | None) -> None:
        self._top = top
        self._seen = self._counted = self._saturated = 0
        self._total = 0.0
        self._low, self._high = np.inf, -np.inf

    def add(self, plane: np.ndarray[Any, Any]) -> None:
        values = plane if plane.dtype.kind in "iu" else plane[np.isfinite(plane)]
        self._seen += plane.size
        if not values.size:
            return
        self._counted += values.size
        self._total += float(values.sum(dtype=np.float64))
        self._low = min(self._low, float(values.min()))
        self._high = max(self._high, float(values.max()))
        if self._top is not None:
            self._saturated += int(np.count_nonzero(values >= self._top))

    def figures(self) -> dict[str, float | None]:
        n = self._counted
        return {
            "min": self._low if n else None,
            "mean": self._total / n if n and np.isfinite(self._total) else None,
            "max": self._high if n else None,
            "saturated": None if self._top is None or not n else self._saturated / n,
            "missing": 1.0 - n / self._seen if self._seen else 0.0,
        }
