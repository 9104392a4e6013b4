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
from unglow.images.channel_signal import is_bright_field
from unglow.images.channels import AUTO, BLOCKS, SIDE, choose_channels, find_stored_type
from unglow.images.pair_plan import ROLES
from unglow.images.raw_images import survey_blocks
from unglow.images.tiff import remedy
from unglow.photometry.gain.bright_field import check_roles
from unglow.stages.plan import check_two_files
from unglow.wings import SLIDES
from unglow.workflow.batch import check_help
from unglow.workflow.header_cache import CACHE, HeaderCache, headers_of, pixel_size_note
from unglow.workflow.samples.pair import describe_repeated, map_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from unglow.images.channels import ChannelChoice
    from unglow.images.slide_plan import KnownSlide
    from unglow.images.tiff import TiffHeader
    from unglow.workflow.batch import FoundSlides
    from unglow.workflow.samples.pair import Discovery, Pair, Problem
    from unglow.workflow.settings import Settings

T = TypeVar("T")
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
            record, skipped, failures = _describe_pair(pair, settings, cache, looked)
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
    found = SLIDES.find(discovery, settings, cache)
    problems += [_problem(problem) for problem in found.problems]
    report = {"layout": discovery.layout, "files": files, "pairs": pairs, "problems": problems}
    slides = [_slide(known, found) for known in found.slides.values()]
    notes = [*describe_repeated(usable.values()), *discovery.notes]
    return report | ({"notes": notes} if notes else {}) | ({"slides": slides} if slides else {})


def _slide(known: KnownSlide, found: FoundSlides) -> dict[str, Any]:
    """Return the record of a slide."""
    candidates = [pair.dye for pair in found.pairs if pair.slide == known.slide.name]
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


def _describe_pair(
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
            figures = _remember(
                looked, (headers[role],), (), partial(channel_figures, headers[role])
            )
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
            choice = _remember(
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
            bright = _remember(
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


def _remember(
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
    blocks = [block.reshape(len(block), -1) for block in survey_blocks(header, BLOCKS, SIDE)]
    return [
        {"index": i, "name": channel.name, "alpha": channel.alpha, **_figures(values, top),
         "chosen": False, "share": None}
        for i, (channel, values) in enumerate(
            zip(header.channels, np.concatenate(blocks, axis=1), strict=True)
        )
    ]  # fmt: skip


def _figures(values: NDArray[Any], top: int | None) -> dict[str, float | None]:
    """Return the figures of the sampled values of a channel, whose type ends at ``top``."""
    there = values[np.isfinite(values)]
    mean = float(there.mean(dtype=np.float64)) if there.size else np.nan
    return {
        "min": float(there.min()) if there.size else None,
        "mean": mean if np.isfinite(mean) else None,
        "max": float(there.max()) if there.size else None,
        "saturated": None if top is None else float(np.mean(there >= top)),
        "missing": 1.0 - there.size / values.size,
    }
