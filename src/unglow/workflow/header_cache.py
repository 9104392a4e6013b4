"""TIFF headers of a whole batch, each read once and cached on disk by path, size and mtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from unglow.core.errors import InputError, UnglowError
from unglow.core.files import write_text
from unglow.core.printable import printable
from unglow.core.records import RecordError, read_record, to_plain
from unglow.core.workflow_files import OWN
from unglow.images.channels import (
    AUTO,
    choose_by_headers,
    find_stored_dtype,
    find_stored_type,
    list_names,
    parse_channels,
    setting_for,
)
from unglow.images.pair_plan import ROLES
from unglow.images.raw_header import find_key_file
from unglow.images.raw_images import read_exposures, read_header
from unglow.images.tiff import TiffHeader
from unglow.images.zarr.layout import DTYPES

if TYPE_CHECKING:
    from unglow.images.channels import ChannelSetting
    from unglow.workflow.samples.pair import Pair
    from unglow.workflow.settings import Settings

CACHE = OWN / "headers.json"
# Micrometres; a pixel of any microscope is smaller.
_LARGEST_PIXEL = 100.0
# Raised when what a header record holds changes, or files are refused that were not before, so
# that old caches are left aside.
_FORMAT: Literal[5] = 5


class _Header(msgspec.Struct):
    stamp: list[int]
    header: TiffHeader


class _Exposures(msgspec.Struct):
    stamp: list[int]
    exposures: list[float | None]


class _Cache(msgspec.Struct):
    format: Literal[5]
    headers: dict[str, _Header] = msgspec.field(default_factory=dict)
    exposures: dict[str, _Exposures] = msgspec.field(default_factory=dict)


class HeaderCache:
    """Headers by file and plane choice; `save` keeps what was read for the next parse.

    A cache that cannot be read or written is no error: headers are then read again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._new = False
        try:
            self._stored = read_record(path, _Cache)
        except (OSError, RecordError):  # none, damaged, or written by another version of unglow
            self._stored = _Cache(_FORMAT)

    def read(self, path: Path, **choice: Any) -> TiffHeader:
        """Return the header of a file, from the cache if the file has not changed since.

        Raises
        ------
        InputError
            The file cannot be used; the sentence is the reader's (failures are not cached).
        """
        try:
            state = find_key_file(path).stat()
        except OSError:
            return read_header(path, **choice)  # its sentence says what is wrong
        key = json.dumps([str(path), choice], sort_keys=True)
        stamp = [state.st_size, state.st_mtime_ns, state.st_ino]
        entry = self._stored.headers.get(key)
        if entry is None or entry.stamp != stamp:
            entry = _Header(stamp, read_header(path, **choice))
            self._stored.headers[key], self._new = entry, True
        return entry.header

    def exposures(self, header: TiffHeader) -> list[float | None]:
        """Return the exposure times of an image that was read just now, ms; cached as well."""
        choice = {name: header.plane[name] for name in ("series", "z", "t")}
        key = json.dumps([header.path, choice], sort_keys=True)
        stamp = [header.file_bytes, Path(header.path).stat().st_mtime_ns]
        entry = self._stored.exposures.get(key)
        if entry is None or entry.stamp != stamp:
            entry = _Exposures(stamp, read_exposures(header))
            self._stored.exposures[key], self._new = entry, True
        return entry.exposures

    def save(self) -> None:
        """Write the cache in one step, if anything was added to it."""
        if not self._new:
            return
        try:
            write_text(self._path, json.dumps(to_plain(self._stored)))
        except UnglowError:  # a read-only directory: headers are read again next time
            return
        self._new = False


def headers_of(pair: Pair, settings: Settings, cache: HeaderCache) -> tuple[TiffHeader, TiffHeader]:
    """Return the headers of post and pre of a pair.

    Raises
    ------
    InputError
        Files cannot be used (one sentence for each), or the two do not go together.
    """
    for path in pair.files:
        check_name(path)
    series = pair.series if pair.series is not None else settings.series
    plane = settings.plane
    channel = channel_of(pair, settings)
    headers, faults = [], []
    for role, path in zip(ROLES, (pair.post, pair.pre), strict=True):
        try:
            headers.append(cache.read(path, series=series, z=plane.z, t=plane.t))
            _check_storable(path, headers[-1], setting_for(channel, role))
        except InputError as error:
            faults.append(str(error))
    if faults:
        raise InputError(" ".join(faults))
    post, pre = headers
    kinds = {post.dtype[0], pre.dtype[0]}
    if kinds >= {"f"} and len(kinds) > 1:
        raise InputError(
            f"{pair.post} holds {post.dtype} and {pair.pre} holds {pre.dtype}: one has whole grey "
            "levels and the other has not, so no common gain exists; export both in one type."
        )
    if post.dtype != pre.dtype and "f" not in kinds:
        raise InputError(
            f"{pair.post} holds {post.dtype} and {pair.pre} holds {pre.dtype}: the two are on "
            "different grey scales; export both with the same bit depth."
        )
    choose_by_headers({"post": post, "pre": pre}, channel=channel, dye=pair.dye)
    return post, pre


def channel_of(pair: Pair, settings: Settings) -> ChannelSetting:
    """Return the channel setting of a pair: its own, or the run's."""
    return pair.channel if pair.channel is not None else str(settings.channel)


def check_name(path: Path) -> None:
    """Raise for a name that would end the whole run in Snakemake: not UTF-8, or with a pattern."""
    shown = printable(str(path))
    if any("\ud800" <= c <= "\udfff" for c in str(path)):
        raise InputError(
            f"the name of '{shown}' is not UTF-8 text, as names from old archives may be: rename "
            "the file."
        )
    from unglow.workflow.samples.naming import placeholder_in  # not in jobs

    placeholder = placeholder_in(str(path))
    if placeholder is not None:
        raise InputError(
            f"'{shown}' holds {placeholder}, which Snakemake would replace by something else: "
            "rename it, or give a link to it that is called otherwise."
        )


def _check_storable(path: Path, header: TiffHeader, channel: str) -> None:
    """Raise for channels that are not there, and for grey values or sums that need 64 bits."""
    if channel.strip().casefold() != AUTO:
        parse_channels(channel, header.channels, str(path))
    if find_stored_type(header, channel) in DTYPES:
        return
    if find_stored_dtype(header.dtype, 1) in DTYPES:
        count = sum(not info.alpha for info in header.channels)
        raise InputError(
            f"{path} has {count} channels of {header.dtype}, whose sum would need 64 bits: set "
            f"`channel` to one of {list_names(header.channels)}, or export it with 16 bits."
        )
    raise InputError(not_storable(header))


def not_storable(header: TiffHeader) -> str:
    """Say that an image has grey values that are not worked on."""
    return f"{header.path} holds {header.dtype}: export it as grey or RGB of 8, 16 or 32 bits."


def pixel_size_note(header: TiffHeader) -> str:
    """Say that a pixel is larger than one of a microscope can be, or ''."""
    size = max(header.pixel_size_um or (0.0,))
    if size <= _LARGEST_PIXEL:
        return ""
    return (
        f"a pixel of {size:g} um is larger than those of microscopes. Densities per mm² and scale "
        "bars follow from it: correct the pixel size in the file."
    )
