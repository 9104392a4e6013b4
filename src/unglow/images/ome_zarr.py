"""OME-Zarr images of other programs (0.4 to 0.6, folders or ZIP files): headers, and windows.

They are read one chunk at a time, so that memory stays what the header says.
Sources: https://ngff.openmicroscopy.org/0.4/ and https://ngff.openmicroscopy.org/0.5/
"""

from __future__ import annotations

import collections
import errno
import hashlib
import math
import os
import shlex
import zipfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from unglow.core.errors import InputError
from unglow.core.files import open_file
from unglow.core.windows import cells
from unglow.images.raw_header import DOCUMENTS, ChannelInfo, Plane, TiffHeader, find_key_file
from unglow.images.tiff.metadata import UM_PER, possible
from unglow.images.tiff.opening import shorten_reason
from unglow.images.tiff.read_header import choose_projected_dtype
from unglow.images.tiff.reader import Combine, combine
from unglow.images.tiff.series import pick_planes
from unglow.images.zarr_array import Node, ZarrArray, is_group, open_array, read_attributes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unglow.core.arrays import Array, Bools
    from unglow.core.windows import Window

_AXES = ("t", "c", "z", "y", "x")
# A chunk is there encoded, decoded, and as the part of it that is wanted. One of more px is kept,
# also while the next one is decoded.
_COPIES, _KEPT, _LARGE_PX = 3, 2, 2048 * 2048
# What unpacking of compressed files leaves to the allocator, bytes.
_UNPACKING = 50_000_000
# No image has larger chunks.
_MOST_CHUNK_BYTES = 1 << 50
_UM = UM_PER | {
    "picometer": 1e-6, "angstrom": 1e-4, "nanometer": 1e-3, "millimeter": 1e3, "centimeter": 1e4,
    "meter": 1e6,
}  # fmt: skip
# Files whose sizes are looked at, of how many the bytes make a fingerprint, and how many of each.
_SIZES, _CHUNKS, _PIECE = 1024, 64, 1 << 16


@dataclass(frozen=True, slots=True)
class _Image:
    """What is read of a store.

    Attributes
    ----------
    planes, projection
        (t, z) of each plane, and how they are put together; None for a single one.
    step
        Rows and columns that are read at once, px: a chunk, but of what is compressed once more in
        a ZIP file a whole shard, as each read begins at its first byte.
    """

    header: TiffHeader
    array: ZarrArray
    axes: tuple[str, ...]
    planes: tuple[tuple[int, int], ...]
    projection: str | None
    step: tuple[int, int]

    def part(self, **at: slice | int) -> Array:
        """Read a part of one file, by axis; axes that the image lacks are excluded."""
        return self.array.read_part([at[axis] for axis in self.axes])


def read_header(path: str, plane: Plane) -> TiffHeader:
    """Read the metadata of an image; see `unglow.images.tiff.read_header`, whose choices it takes.

    Raises
    ------
    InputError
        One sentence that names the image, what is wrong and what to do.
    """
    image = _resolve(path, plane)
    node = image.array.node
    if node.is_zip:
        return replace(image.header, file_bytes=node.store.stat().st_size)
    place = node.store / node.inside
    files = list(_list_checked(path, node))
    sizes = [(place / name).stat().st_size for name in _select_some(files, _SIZES)]
    # of very many files by the mean size of some
    return replace(image.header, file_bytes=sum(sizes) * len(files) // max(1, len(sizes)))


def _resolve(path: str, plane: Plane) -> _Image:
    if not find_key_file(Path(path)).is_file():
        raise InputError(f"'{path}' holds no {' and no '.join(DOCUMENTS)}: copy the image again.")
    try:
        return _open_image(Path(path), path, plane)
    except InputError:
        raise
    # Damaged metadata raise nearly anything.
    except Exception as exc:
        remedy = "copy it again or export it again"
        if "Duplicate filename" in str(exc):  # zarr-python's, of attributes that were set later
            remedy = "unpack it into a folder that ends in .ome.zarr"
        raise InputError(
            f"'{path}' is not an OME-Zarr image that can be read ({shorten_reason(exc)}): {remedy}."
        ) from exc


def _open_image(store: Path, path: str, plane: Plane) -> _Image:
    group, series, notes = _series(Node(store), path, plane["series"])
    metadata = _metadata(group)
    multiscale = metadata["multiscales"][0]
    listed = _axes_of(multiscale, _AXES)
    axes = tuple(str(a["name"] if isinstance(a, dict) else a).lower() for a in listed)
    node = group.child(multiscale["datasets"][0]["path"])
    stored = _find_largest_packed(node) if node.is_zip else 0
    if not node.is_zip:
        collections.deque(_list_checked(path, node), maxlen=0)
    array = open_array(node, kept_px=_LARGE_PX)
    if axes[-2:] != ("y", "x") or not set(axes) <= set(_AXES) or len(axes) != len(array.shape):
        raise InputError(
            f"'{path}' has axes {', '.join(axes)}, but needs y, x and before them no others than "
            "t, c and z: export the image that is meant."
        )
    lengths = {axis: array.shape[axes.index(axis)] if axis in axes else 1 for axis in _AXES}
    axes_zt = [(role.upper(), lengths[role]) for role in "tz"]
    picks, projection = pick_planes(path, plane, lengths, axes_zt)
    if len(multiscale["datasets"]) > 1:
        notes.append(f"level 0 of {len(multiscale['datasets'])} pyramid levels is read")
    shape = lengths["y"], lengths["x"]
    unit = min(array.chunks[-2], shape[0]), min(array.chunks[-1], shape[1])
    chunk_bytes = math.prod(array.chunks) * array.dtype.itemsize
    if chunk_bytes > _MOST_CHUNK_BYTES:
        raise InputError(
            f"'{path}' says that each of its chunks has {chunk_bytes / 1e12:.3g} TB, so that its "
            "metadata are damaged: export the image again."
        )
    header = TiffHeader(
        path=path,
        shape=shape,
        dtype=choose_projected_dtype(array.dtype, projection).name,
        channels=_channels(metadata, lengths["c"]),
        layout="tiles",
        unit=unit,
        compression="+".join(array.compressors) or "none",
        predictor=1,
        planar=False,
        separate="c" not in axes or array.chunks[axes.index("c")] == 1,
        big_endian=False,
        bigtiff=False,
        pixel_size_um=_pixel_size(multiscale),
        file_bytes=0,
        segments=math.prod(-(-n // c) for n, c in zip(shape, unit, strict=True)),
        decode_bytes=(_COPIES + _KEPT * (math.prod(unit) > _LARGE_PX)) * chunk_bytes + stored,
        kept_bytes=0,
        parts=1,
        raw=False,
        streams=False,
        axes={axis.upper(): lengths[axis] for axis in "tz" if lengths[axis] > 1},
        plane={**plane, "series": series},
        notes=tuple(notes),
    )
    step = (array.file_shape if stored else array.chunks)[-2:]
    return _Image(header, array, axes, picks, projection, (step[0], step[1]))


def _metadata(group: Node) -> dict[str, Any]:
    attributes = read_attributes(group)
    return dict(attributes.get("ome", attributes))


def _series(group: Node, path: str, wanted: int | str | None) -> tuple[Node, int, list[str]]:
    """Return the group of the image: the store, or one of those that bioformats2raw makes in it."""
    if "multiscales" in _metadata(group):
        if wanted not in (None, 0):
            raise InputError(f"'{path}' holds one image: leave out `series: {wanted}`.")
        return group, 0, []
    for kind in ("plate", "well"):
        if kind in _metadata(group):
            raise InputError(_about_plate(path, kind, _metadata(group)[kind]))
    numbered = (name for name in group.names() if name.isdecimal())
    names = sorted((name for name in numbered if is_group(group.child(name))), key=int)
    if not names:
        raise InputError(
            f"'{path}' holds no image (no multiscales in its metadata): name the image in it."
        )
    if wanted is None and len(names) > 1:
        raise InputError(f"'{path}' holds {len(names)} images: choose one with `series: N`.")
    index = int(wanted or 0)
    if str(index) not in names:
        raise InputError(f"'{path}' has no series {index}: there are {', '.join(names)}.")
    notes = [f"series {index} of {len(names)} is read"] if len(names) > 1 else []
    return group.child(str(index)), index, notes


def _about_plate(path: str, kind: str, metadata: dict[str, Any]) -> str:
    """Say that a store is a plate (HCS), or a well of one, and how one of its fields is given."""
    listed = metadata.get("images" if kind == "well" else "wells") or [{}]
    first: dict[str, Any] = listed[0]
    field = str(first.get("path", 0)) if kind == "well" else f"{first.get('path', 'A/1')}/0"
    count = f"a plate of {len(metadata.get('wells', ()))} wells"
    count = count if kind == "plate" else "a well of a plate"
    source = shlex.quote(str(Path(path, field).absolute()))
    return (
        f"'{path}' is {count} (HCS), not one image: put a link to each field that is meant where "
        f"an image belongs, for example `ln -s {source} pre_DAPI.ome.zarr`."
    )


def _channels(metadata: dict[str, Any], count: int) -> tuple[ChannelInfo, ...]:
    channels = metadata.get("omero", {}).get("channels", [])
    names = [str(channel.get("label") or "") for channel in channels]
    names = names if len(names) == count else [""] * count
    return tuple(
        ChannelInfo(name or ("grey" if count == 1 else str(i))) for i, name in enumerate(names)
    )


def _axes_of(multiscale: dict[str, Any], default: Sequence[str]) -> Any:
    """Return the axes; those of the first coordinate system where there are some (version 0.6)."""
    return (multiscale.get("coordinateSystems") or [multiscale])[0].get("axes", default)


def _pixel_size(multiscale: dict[str, Any]) -> tuple[float, float] | None:
    """Return (x, y) in micrometres, where scale and unit of both axes are given.

    The scale of all levels together, if there is one, is applied after that of level 0. In version
    0.6 it leads to another system instead, and transformations may be in a sequence.
    """
    axes = _axes_of(multiscale, ())
    places = (multiscale["datasets"][0], {} if "coordinateSystems" in multiscale else multiscale)
    steps = [t for place in places for t in place.get("coordinateTransformations", ())]
    transforms = [t for step in steps for t in step.get("transformations", [step])]
    scales = [t["scale"] for t in transforms if t.get("type") == "scale" and "scale" in t]
    units = [_UM.get(a.get("unit", "")) if isinstance(a, dict) else None for a in axes]
    if not scales or len(units) < 2 or units[-1] is None or units[-2] is None:
        return None
    y, x = (math.prod(float(scale[i]) for scale in scales) for i in (-2, -1))
    return possible(x * units[-1], y * units[-2])


def _list_checked(path: str, node: Node) -> Iterator[str]:
    """Yield the files of an array; `InputError` if one is a pipe or a device, or cannot be seen."""
    try:
        yield from _files(str(node.store / node.inside), only_regular=True)
    except OSError as exc:
        raise InputError(
            f"'{path}' cannot be listed ({exc.strerror}): give yourself the right to read all of "
            "its folders, or copy it again."
        ) from exc


def _find_largest_packed(node: Node) -> int:
    """Return the bytes that reading the largest compressed file of a ZIP file takes: all of it."""
    packed = (one for one in node.entries() if one.compress_type != zipfile.ZIP_STORED)
    largest = max((one.file_size + one.compress_size for one in packed), default=0)
    return largest and largest + _UNPACKING


def _files(
    directory: str,
    below: str = "",
    above: tuple[tuple[int, int], ...] = (),
    *,
    only_regular: bool = False,
) -> Iterator[str]:
    """Yield the path of each file below a directory, in an order that does not change.

    Only directories are read: an image may have millions of files, and to ask for the size of each
    takes up to a millisecond on a file server. Raises `OSError` where a link leads back to a
    directory ``above`` it, as device and inode: there would be no end of files; with
    ``only_regular`` also for a pipe, a device, and a link to nothing.
    """
    about = os.stat(directory)  # noqa: PTH116
    itself = about.st_dev, about.st_ino
    if itself in above:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), directory)
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            name, path = entry.name, entry.path
            if entry.is_dir():
                yield from _files(
                    path, f"{below}{name}/", (*above, itself), only_regular=only_regular
                )
            elif only_regular and not entry.is_file():
                raise OSError(errno.EINVAL, f"{path} is not a regular file", path)
            else:
                yield f"{below}{name}"


def _select_some(files: Sequence[str], count: int) -> Sequence[str]:
    """Return about ``count`` of the files, spread evenly."""
    return files[:: max(1, len(files) // count)]


def fingerprint(path: str) -> str:
    """Return a digest of the names of all files of an image, of sizes of many and bytes of some.

    A chunk that cannot be read has none of both: whoever reads its pixels names it.
    """
    files = list(_files(path))
    digest = hashlib.sha256("\n".join(files).encode("utf-8", "surrogateescape"))
    sizes: list[int] = []
    for name in _select_some(files, _SIZES):
        with suppress(OSError):
            sizes.append(Path(path, name).stat().st_size)
    digest.update(repr(sizes).encode())
    for name in _select_some(files, _CHUNKS):
        with suppress(OSError), open_file(Path(path, name)) as stream:
            digest.update(stream.read(_PIECE))
    return digest.hexdigest()


class OmeZarrReader:
    """Reader of windows of one image; all methods may be called from several threads.

    Raises `InputError` if the image is no longer what the header says.
    """

    def __init__(self, header: TiffHeader) -> None:
        self._image = _resolve(header.path, header.plane)
        if self._image.header != replace(header, file_bytes=0):
            raise InputError(
                f"'{header.path}' has changed since its header was read: start the run again."
            )
        self.header = header

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing has to be closed."""

    def read(self, window: Window, channels: Sequence[int] | None = None) -> Array:
        """Read a window of some channels; see `unglow.images.tiff.TiffReader.read`."""
        image = self._image
        wanted = range(len(self.header.channels)) if channels is None else channels
        if window.clip(self.header.shape) != window:
            raise ValueError(f"{window} leaves the image of {self.header.shape}")
        out = np.zeros((len(wanted), *window.shape), self.header.dtype)
        # (place in the result, channel) of the channels that each chunk holds
        chunk = image.array.chunks[image.axes.index("c")] if "c" in image.axes else 1
        groups: dict[int, list[tuple[int, int]]] = {}
        for i, c in enumerate(wanted):
            groups.setdefault(c // chunk, []).append((i, c))
        how: Combine = "set"
        for t, z in image.planes:
            for group in groups.values():
                first, last = min(c for _, c in group), max(c for _, c in group)
                for _, part in cells(window, image.step):
                    block = self._part(t, slice(first, last + 1), z, *part.slices)
                    target = part.shift(-window.y0, -window.x0).slices
                    for i, c in group:
                        values = block[c - first] if "c" in image.axes else block
                        combine(out[i][target], values, how)
            how = "max" if image.projection == "max" else "add"
        if image.projection == "mean":
            out /= out.dtype.type(len(image.planes))
        return out

    def find_missing(self, channels: Sequence[int]) -> Bools:
        """Return which chunks are not stored; see `unglow.images.tiff.TiffReader.find_missing`.

        Raises
        ------
        InputError
            The image cannot be listed, or the index of a shard is damaged.
        """
        image, array = self._image, self._image.array
        numbers = [{"t": t, "c": c, "z": z} for c in channels for t, z in image.planes]
        leading = [tuple(at[axis] for axis in image.axes[:-2]) for at in numbers]
        try:
            missing = array.find_missing(leading)
        except ValueError as exc:
            raise InputError(
                f"'{self.header.path}' is damaged ({shorten_reason(exc)}): copy it again from "
                "its source or export it again."
            ) from exc
        by_channel = missing.reshape(len(channels), len(image.planes), *missing.shape[1:])
        return np.asarray(by_channel.any(axis=1))

    def _part(self, t: int, c: slice, z: int, y: slice, x: slice) -> Array:
        try:
            return self._image.part(t=t, c=c, z=z, y=y, x=x)
        except ValueError as exc:
            raise InputError(
                f"'{self.header.path}' is damaged: rows {y.start} to {y.stop - 1}, columns "
                f"{x.start} to {x.stop - 1} cannot be decoded ({shorten_reason(exc)}); copy it "
                "again from its source or export it again."
            ) from exc
