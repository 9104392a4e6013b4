"""Choice of the series, z and t of a file that make up the image, and the pages they are in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import tifffile

from unglow.core.errors import InputError
from unglow.images.tiff.opening import AGAIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unglow.images.raw_header import Plane

PROJECTIONS = ("max", "mean")
CHANNELS, MARKERS = "channels", "markers"
"""As a choice along z: pages whose meaning the file does not say are channels. Of markers, those of
a single z or t axis too: some programs call channels so."""
# Pictures about the slide, never of the section at full resolution.
SIDE_PICTURES = ("thumbnail", "label", "macro", "map", "overview", "preview")
BASELINE = "baseline"
CLEARLY_LARGER = 16
"""An image of at least this many times the px of any other is the baseline, if it is alone."""


@dataclass(frozen=True)
class Choice:
    """Pages of the chosen series: for each plane of a projection, one page per page channel.

    ``pages[p][c]`` numbers the pages of the series; ``page_channels`` is the length of the channel
    axis that runs over pages; ``plane`` and ``axes`` as in `TiffHeader`.
    """

    series: tifffile.TiffPageSeries
    pages: tuple[tuple[int, ...], ...]
    page_channels: int
    plane: Plane
    axes: dict[str, int]
    projection: str | None
    notes: tuple[str, ...]


def choose(tif: tifffile.TiffFile, path: str, plane: Plane) -> Choice:
    """Return the pages of one image.

    Raises
    ------
    InputError
        The file holds more than one image or plane and the settings do not choose, or they choose
        what is not there.
    """
    index, notes = choose_series(tif, path, plane["series"])
    chosen = tif.series[index]
    _check_count(path, tif, chosen)
    if chosen.transform is not None:
        raise InputError(
            f"'{path}' stores values that need a transformation of their own ({chosen.kind}): "
            "export it as plain TIFF."
        )
    page_axes = _page_axes(path, chosen)
    roles, plane_z = _roles(path, page_axes), plane["z"]
    if plane["z"] in (CHANNELS, MARKERS):
        plane = {**plane, "z": None}
        if plane_z == MARKERS and len(page_axes) == 1 and plane["t"] is None:
            roles = {"z": [], "t": [], "c": [0]}
        elif not roles["c"] and all(page_axes[i][0] not in "ZT" for i in roles["z"]):
            roles["c"], roles["z"] = roles["z"], []
    lengths = {role: math.prod(page_axes[i][1] for i in at) for role, at in roles.items()}
    picks, projection = pick_planes(path, plane, lengths, page_axes)
    notes += [
        f"projected by {plane[role]} over {lengths[role]} {role} planes"
        for role in "zt"
        if isinstance(plane[role], str) and lengths[role] > 1
    ]
    planes = tuple(
        tuple(_page_number(page_axes, roles, {"z": z, "t": t, "c": c}) for c in range(lengths["c"]))
        for t, z in picks
    )
    return Choice(
        series=chosen,
        pages=planes,
        page_channels=lengths["c"],
        plane={**plane, "series": index, "z": plane_z},
        axes={axis: n for axis, n in page_axes if axis not in "CS"},
        projection=projection,
        notes=tuple(notes),
    )


def pick_planes(
    path: str, plane: Plane, lengths: Mapping[str, int], axes: list[tuple[str, int]]
) -> tuple[tuple[tuple[int, int], ...], str | None]:
    """Return (t, z) of the planes that the settings choose, and how they are projected.

    ``lengths`` are those along z and t; ``axes`` are for sentences. InputError as `choose`.
    """
    picks = {role: _pick(path, role, plane[role], lengths[role], axes) for role in "zt"}
    ways = {str(plane[role]) for role in "zt" if len(picks[role]) > 1}
    if len(ways) > 1:
        raise InputError(
            f"'{path}': z and t cannot be projected in two ways; give both the same, or a number "
            "for one of them."
        )
    return tuple(product(picks["t"], picks["z"])), next(iter(ways), None)


def choose_series(
    tif: tifffile.TiffFile, path: str, wanted: int | str | None
) -> tuple[int, list[str]]:
    """Return the number of the series to read, and a note if others are left aside.

    Raises
    ------
    InputError
        There is none, not the wanted one, or more than one that could be meant.
    """
    every = list(tif.series)
    if not every:
        raise InputError(f"'{path}' holds no image: copy it again from its source.")
    if wanted is not None:
        wanted = int(wanted)
        if not 0 <= wanted < len(every):
            raise InputError(
                f"'{path}' has no series {wanted}: its {len(every)} are {_list_series(every)}; set "
                f"`series` to one of 0 to {len(every) - 1}."
            )
        return wanted, []
    real = [i for i, one in enumerate(every) if not _is_side_picture(one)] or [0]
    named = [i for i in real if every[i].name.lower() == BASELINE]
    if len(real) > 1 and len(named) == 1:
        real = named
    if len(real) > 1 and every[0].kind != "ome":
        sizes = {i: every[i].keyframe.imagelength * every[i].keyframe.imagewidth for i in real}
        largest = max(real, key=lambda i: sizes[i])
        if all(sizes[largest] >= CLEARLY_LARGER * n for i, n in sizes.items() if i != largest):
            real = [largest]
    if len(real) > 1:
        raise InputError(
            f"'{path}' holds {len(real)} images: {_list_series(every)}; "
            "choose one with `series: N`."
        )
    index = real[0]
    notes = []
    if len(every) > 1:
        notes.append(f"series {index} of {len(every)} is read: {_list_series(every)}")
    return index, notes


def _check_count(path: str, tif: tifffile.TiffFile, chosen: tifffile.TiffPageSeries) -> None:
    """Raise `InputError` if a file lacks planes that it describes, or has more of their shape."""
    pages, frame = len(tif.pages), chosen.keyframe
    described, source = pages, "OME-XML" if chosen.kind == "ome" else "description"
    if chosen.kind == "ome":
        every = [page for one in tif.series for page in one]
        own = {page.index for page in every if page is not None and page.parent is tif}
        if any(i not in own and _has_shape_of(tif, i, frame) for i in range(pages)):
            described = len(own)
        elif None in every and "<UUID" not in str(tif.ome_metadata):  # none is in another file
            described = len(every)
    else:
        count = int((tif.imagej_metadata or {}).get("images", pages))
        count = chosen.size // max(1, frame.size) if chosen.kind == "shaped" else count
        # samples may be counted as well, and of Micro-Manager all files of a set
        if count > pages and count != pages * frame.samplesperpixel and not tif.is_micromanager:
            # one directory may stand for planes that lie back to back
            is_stored = frame.dataoffsets[0] + count * frame.nbytes <= tif.filehandle.size
            described = pages if is_stored else count
    if described != pages:
        raise InputError(
            f"'{path}' holds {pages} page{'s' * (pages > 1)}, its {source} counts {described}: "
            f"{AGAIN} or write it again."
        )


def _has_shape_of(tif: tifffile.TiffFile, number: int, other: tifffile.TiffPage) -> bool:
    """Return whether a page, which may be known by the tags of another one, is of a shape."""
    tif.filehandle.seek(tif.pages[number].offset)
    page = tifffile.TiffPage(tif, number)
    return not page.is_reduced and (page.shape, page.dtype) == (other.shape, other.dtype)


def _is_side_picture(series: tifffile.TiffPageSeries) -> bool:
    name = series.name.lower()
    page = series.keyframe
    return any(word in name for word in SIDE_PICTURES) or bool(page.is_reduced or page.is_mask)


def _list_series(every: list[tifffile.TiffPageSeries]) -> str:
    parts = []
    for i, one in enumerate(every[:8]):
        name = f"{one.name!r} " if one.name else ""
        parts.append(f"{i} {name}{' x '.join(map(str, one.shape))} {one.axes}")
    more = len(every) - len(parts)
    return ", ".join(parts) + (f" and {more} more" if more > 0 else "")


def _page_axes(path: str, series: tifffile.TiffPageSeries) -> list[tuple[str, int]]:
    """Axes of the series that run over pages: what is left of those that a page has itself.

    Those of length 1 are excluded, as some versions of tifffile do and others do not.
    """
    shape = list(series.shape)
    axes = list(series.axes)
    page_size = math.prod(series.keyframe.shape)
    inside = 1
    while shape and (inside < page_size or "Y" in axes or "X" in axes):
        inside *= shape.pop()
        axes.pop()
    if inside != page_size:
        raise InputError(
            f"'{path}' has axes {series.axes} that do not match its pages of "
            f"{' x '.join(map(str, series.keyframe.shape))}: export it as plain TIFF."
        )
    return [(axis, int(n)) for axis, n in zip(axes, shape, strict=True) if n > 1]


def _roles(path: str, page_axes: list[tuple[str, int]]) -> dict[str, list[int]]:
    """Positions in ``page_axes`` of what acts as z, t and c.

    A sequence of unknown meaning takes the setting ``z`` if there is no z axis, else ``t``.
    """
    roles: dict[str, list[int]] = {"z": [], "t": [], "c": []}
    unknown = []
    for i, (axis, _) in enumerate(page_axes):
        if axis in "CS":
            roles["c"].append(i)
        elif axis in "ZT" and not roles[axis.lower()]:
            roles[axis.lower()].append(i)
        else:
            unknown.append(i)
    for role in "zt":
        if unknown and not roles[role]:
            roles[role] = [unknown.pop(0)]
    if unknown:
        raise InputError(
            f"'{path}' has more axes than can be chosen from ({_axes_text(page_axes)}): export "
            "the plane that is meant as a file of its own."
        )
    return roles


def _axes_text(page_axes: list[tuple[str, int]]) -> str:
    unknown = {"I", "Q"}
    return ", ".join(
        f"{n} pages of unknown meaning ({axis})" if axis in unknown else f"{axis} of length {n}"
        for axis, n in page_axes
        if n > 1
    )


def _pick(
    path: str, role: str, wanted: int | str | None, length: int, page_axes: list[tuple[str, int]]
) -> Sequence[int]:
    """Planes along one axis that the setting chooses."""
    if isinstance(wanted, str):
        if wanted not in PROJECTIONS:
            raise InputError(
                f"'{path}': plane {role} is {wanted!r}; give a number or one of max and mean."
            )
        return range(length)
    if wanted is None:
        if length > 1:
            raise InputError(
                f"'{path}' holds {length} planes along {role} (axes: {_axes_text(page_axes)}): "
                f"choose one with `plane: {{{role}: N}}` (0 to {length - 1}) or project them with "
                f"`plane: {{{role}: max}}` or `plane: {{{role}: mean}}`."
            )
        return (0,)
    if not 0 <= wanted < length:
        remedy = (
            f"set `plane: {{{role}: N}}` with N from 0 to {length - 1}"
            if length > 1
            else f"leave `{role}` out of `plane`"
        )
        raise InputError(
            f"'{path}' has no plane {role} = {wanted} (number of planes: {length}): {remedy}."
        )
    return (wanted,)


def _page_number(
    page_axes: list[tuple[str, int]], roles: dict[str, list[int]], at: dict[str, int]
) -> int:
    """Return the number of a page in its series, from positions along z, t and c."""
    number = 0
    for role, axes in roles.items():
        places = np.unravel_index(at[role], [page_axes[i][1] for i in axes])
        for i, place in zip(axes, places, strict=True):
            number += int(place) * math.prod(n for _, n in page_axes[i + 1 :])
    return number
