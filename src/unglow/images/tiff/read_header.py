"""Header of an image in a TIFF file, and the stored pages that the reader decodes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import tifffile

from unglow.core.errors import InputError
from unglow.images.raw_header import ChannelInfo, Plane, TiffHeader
from unglow.images.tiff import metadata, samples, segments
from unglow.images.tiff.opening import open_checked
from unglow.images.tiff.segments import Geometry, StoredPage
from unglow.images.tiff.series import Choice, choose

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from unglow.images.tiff.metadata import Acquisition
    from unglow.images.tiff.samples import SampleRule


@dataclass(frozen=True, eq=False)
class StoredImage:
    """Everything that reading one image needs; the file itself is closed.

    ``planes[p][c]`` is the page of plane p of a projection and of page channel c; they share
    ``geometry`` and ``rule``. Channel k is sample ``k % per_page`` of page channel
    ``k // per_page``. The decoder of a strip that is streamed looks back ``window`` bytes.
    """

    header: TiffHeader
    geometry: Geometry
    rule: SampleRule
    planes: tuple[tuple[StoredPage, ...], ...]
    per_page: int
    window: int
    projection: str | None


def read_header(
    path: str | os.PathLike[str],
    *,
    series: int | None = None,
    z: int | str | None = None,
    t: int | str | None = None,
) -> TiffHeader:
    """Read the headers of a TIFF file, no pixels.

    Parameters
    ----------
    path
        The file.
    series
        Number of the series, where a file holds several images.
    z, t
        Number of the plane along z and t from 0, or ``max`` or ``mean`` to project them. Pages
        whose meaning the file does not say are chosen with ``z``.

    Returns
    -------
    The header of level 0.

    Raises
    ------
    InputError
        One sentence that names the file, what is wrong and what to do: it is missing, no TIFF,
        damaged, cut short, holds something else than intensities, uses a codec that is not there,
        or holds several images or planes and nothing chooses.
    """
    return resolve(os.fspath(path), {"series": series, "z": z, "t": t}).header


def read_exposures(header: TiffHeader) -> list[float | None]:
    """Return the exposure times of an image's channels by its OME-XML, ms; None if not known.

    Raises
    ------
    InputError
        The file cannot be read any more.
    """
    with open_checked(header.path) as tif:
        image = find_ome_image(tif, choose(tif, header.path, header.plane))
        times = [] if image is None else metadata.ome_exposures_ms(image)
    count = len(header.channels)
    return times if len(times) == count else [None] * count


def read_acquisition(header: TiffHeader) -> Acquisition | None:
    """Return what the metadata of an image say of its channels; None if they name none.

    Raises
    ------
    InputError
        The file cannot be read any more.
    """
    with open_checked(header.path) as tif:
        choice = choose(tif, header.path, header.plane)
        image = find_ome_image(tif, choice)
        if image is not None:
            found = metadata.read_ome_channels(tif, image)
        elif choice.series.kind == "qpi":
            found = metadata.read_qptiff_channels(choice)
        else:
            return None
    is_complete = len(found.channels) == len(header.channels)
    return found if is_complete and any(one.name for one in found.channels) else None


def resolve(path: str, plane: Plane) -> StoredImage:
    """Return the header together with the segment tables; see `read_header`."""
    with open_checked(path) as tif:
        choice = choose(tif, path, plane)
        page = choice.series.keyframe
        rule, notes = samples.sample_rule(path, page)
        geometry, planes = _find_stored(path, choice)
        raw = segments.is_raw(page, geometry)
        problems = _check_all(planes, geometry)
        image = find_ome_image(tif, choice)
        channels = _channels(page, rule, choice, image)
        per_page = len(channels) // choice.page_channels
        notes += [*choice.notes, *_file_notes(tif, choice, channels, image)]
        pages = [one for plane in planes for one in plane]
        window = None if raw else segments.stream_window(pages, geometry)
        parts = geometry.apart * choice.page_channels * (1 if window is None else len(planes))
        encoded = max(int(one.counts.max()) for one in pages)
        dtype = choose_projected_dtype(rule.dtype, choice.projection)
        header = TiffHeader(
            path=path,
            shape=geometry.shape,
            dtype=dtype.name,
            channels=tuple(channels),
            layout=geometry.layout,
            unit=geometry.unit,
            compression=tifffile.COMPRESSION(page.compression).name,
            predictor=int(page.predictor),
            planar=geometry.apart > 1,
            separate=geometry.samples == 1 and rule.palette is None,
            big_endian=tif.byteorder == ">",
            bigtiff=bool(tif.is_bigtiff),
            pixel_size_um=metadata.read_pixel_size(tif, tif.pages.first, image),
            file_bytes=int(tif.filehandle.size),
            segments=geometry.count,
            decode_bytes=samples.decode_bytes(
                page, geometry, rule, encoded, raw=raw, window=window
            ),
            kept_bytes=samples.kept_bytes(
                page, geometry, raw=raw, window=window, projected=len(planes) > 1
            ),
            parts=parts,
            raw=raw,
            streams=window is not None,
            axes=choice.axes,
            plane=choice.plane,
            problems=tuple(problems),
            notes=tuple(notes),
        )
    return StoredImage(header, geometry, rule, planes, per_page, window or 0, choice.projection)


def _find_stored(path: str, choice: Choice) -> tuple[Geometry, tuple[tuple[StoredPage, ...], ...]]:
    """Return the grid and the pages of all planes and page channels."""
    series = choice.series
    keyframe = series.keyframe
    geometry = segments.make_geometry(keyframe)
    start = series.dataoffset if len(series) > 1 or series.is_truncated else None
    if start is not None:
        # Planes lie back to back and may have no directories of their own (ImageJ, tifffile).
        geometry = Geometry(
            geometry.shape, geometry.shape, geometry.samples, geometry.apart, tiled=False
        )
        sample = keyframe.nbytes // geometry.apart

        def locate(number: int) -> StoredPage:
            offsets = start + number * keyframe.nbytes + sample * np.arange(geometry.apart)
            counts = np.full(geometry.apart, sample, np.int64)
            return StoredPage(path, keyframe, offsets.astype(np.int64), counts, None)

    else:

        @cache  # planes may share a page, whose tables are taken from it
        def locate(number: int) -> StoredPage:
            page: Any = series[number] if number < len(series) else None
            if page is None:
                raise InputError(
                    f"'{path}' lacks page {number} of its series (its header promises it, perhaps "
                    "in another file): put the whole set in place or write it again."
                )
            page.keyframe.decode  # noqa: B018 - built once here, not by several threads at once
            tables = page.dataoffsets, page.databytecounts
            offsets, counts = map(segments.convert_table, tables)
            _forget_tables(page)
            own, file = path, page.parent.filehandle
            if series.is_multifile:
                own = os.path.join(file.dirname, file.name)  # noqa: PTH118
            return StoredPage(own, page.keyframe, offsets, counts, page.jpegtables)

    planes = tuple(tuple(locate(number) for number in plane) for plane in choice.pages)
    for level in series.levels[1:]:
        for page in level:
            _forget_tables(page)
    return geometry, planes


def _forget_tables(page: Any) -> None:
    """Take its tables, tuples of large integers, from a page: it stays in memory with the file."""
    if isinstance(page, tifffile.TiffFrame):
        page.dataoffsets = page.databytecounts = ()


def _check_all(planes: tuple[tuple[StoredPage, ...], ...], geometry: Geometry) -> list[str]:
    """Check every page that will be read; return what the user should know of them."""
    sparse = total = 0
    sizes: dict[str, int] = {}
    for plane in planes:
        for stored in plane:
            if stored.path not in sizes:
                sizes[stored.path] = os.stat(stored.path).st_size  # noqa: PTH116
            sparse += segments.check_segments(stored, geometry, sizes[stored.path])
            total += geometry.count
    if not sparse:
        return []
    unit = "tiles" if geometry.tiled else "strips"
    return [f"{sparse} of {total} {unit} are not stored: there are no data there"]


def find_ome_image(tif: tifffile.TiffFile, choice: Choice) -> Element | None:
    """Return the Image element of OME-XML that describes the chosen series, if there is one."""
    if choice.series.kind != "ome":
        return metadata.read_companion(tif) if len(tif.series) == 1 else None
    images = metadata.ome_images(tif)
    if len(images) == len(tif.series):
        return images[int(choice.plane["series"] or 0)]
    named = [image for image in images if image.get("Name") == choice.series.name]
    return named[0] if len(named) == 1 else None


def _channels(
    page: tifffile.TiffPage, rule: SampleRule, choice: Choice, image: Element | None
) -> list[ChannelInfo]:
    """Page channels times the samples of a page, with the names that OME-XML gives."""
    inside = samples.sample_channels(page, rule)
    names = metadata.ome_channel_names(image) if image is not None else []
    pages = [names[i] if i < len(names) else "" for i in range(choice.page_channels)]
    if choice.page_channels == 1 and len(inside) == 1:
        return [ChannelInfo(pages[0] or inside[0].name)]
    if choice.page_channels == 1:
        # OME-XML names either each sample or, mostly, the colour image as a whole.
        if len(names) == len(inside) and all(names):
            inside = [ChannelInfo(n, s.alpha) for n, s in zip(names, inside, strict=True)]
        return inside
    pages = [name or str(i) for i, name in enumerate(pages)]
    if len(inside) == 1:
        return [ChannelInfo(name) for name in pages]
    return [ChannelInfo(f"{name} {s.name}", s.alpha) for name in pages for s in inside]


def _file_notes(
    tif: tifffile.TiffFile, choice: Choice, channels: list[ChannelInfo], image: Element | None
) -> list[str]:
    notes = []
    if any(channel.alpha for channel in channels):
        notes.append("the alpha channel is never taken for signal")
    if choice.series.is_pyramidal:
        notes.append(f"level 0 of {len(choice.series.levels)} pyramid levels is read")
    if choice.series.is_multifile:
        notes.append("its planes are spread over several files of an OME-TIFF set")
    elif tif.is_ome and image is None and choice.series.kind != "ome":
        notes.append("its OME-XML cannot be used: axes and channel names come from the TIFF pages")
    return notes


def choose_projected_dtype(dtype: np.dtype[Any], projection: str | None) -> np.dtype[Any]:
    """Give a mean its fractions: float32 where that holds the samples exactly, else float64."""
    if projection != "mean":
        return dtype
    return np.result_type(dtype, np.float32)
