"""Stores as images of other formats: OME-TIFF with the pyramid, and FITS.

Nothing is overwritten, and a directory appears only when it is complete. What is written along is
parameters and fingerprints, never a time or a path.

FITS is one image in the primary HDU, written band by band. Source: FITS standard 4.0,
https://fits.gsfc.nasa.gov/fits_standard.html. A header of plain cards and rows of big-endian
numbers need no library.
"""

from __future__ import annotations

import json
import secrets
import shutil
import textwrap
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import tifffile

from unglow.core.errors import ConfigError
from unglow.core.files import name_unwritten, publish, replace_file
from unglow.core.levels import LEVELS
from unglow.core.progress import step
from unglow.core.windows import Window, grid, map_bounded
from unglow.images.tiff.metadata import OmeChannel
from unglow.images.tiff.metadata import ome_xml as image_xml
from unglow.images.tiff.tiles import TILE, encode_tile, write_levels
from unglow.memory import EXPORT_BAND

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from unglow.core.arrays import Array
    from unglow.photometry.difference import Image

_OF_THE_STORE = ("layout", "stored_bytes")
_ABOUT = {
    "post": "Image after staining, in its own frame, as it was read.",
    "pre": "Image before staining, in its own frame, as it was read.",
    "aligned_pre": "Image before staining, resampled once into the frame of post.",
    "difference": "Image after staining minus the scaled one before it, in the frame of post.",
    "snr": "Signal-to-noise ratio of the difference, filtered to a microbe's width, in the frame "
    "of post.",
}


def refuse_existing(target: Path) -> None:
    """Refuse to write where there is something.

    Raises
    ------
    ConfigError
        ``target`` exists.
    """
    if target.exists():
        raise ConfigError(f"{target} exists already; remove it or export to another path")


@contextmanager
def whole_directory(target: Path) -> Iterator[Path]:
    """Give the path of a hidden sibling to make; it becomes ``target`` when the block ends well.

    Raises
    ------
    UnglowError
        It could not be written.
    """
    partial = target.with_name(f".{target.name}.{secrets.token_hex(6)}.partial")
    try:
        with name_unwritten(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            yield partial
            publish(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def about(store: Image) -> str:
    """Return what a store shows, in a sentence or two."""
    if store.empty is not None:
        return f"No pixels: {store.empty}"
    sentence = _ABOUT.get(str(store.attributes.get("role")), store.name)
    return f"{sentence} NaN where there is no data." if store.dtype.kind == "f" else sentence


def provenance(store: Image, names: Mapping[str, str]) -> dict[str, str]:
    """Return what was written along with a store, one text for each name, sorted.

    Nested names are joined with dots (``inputs.post``). Numbers and lists are JSON. How the store
    is laid out on disk is omitted. ``names`` are those of its pair (`names_of`).
    """
    attributes = {k: v for k, v in store.attributes.items() if k not in _OF_THE_STORE}
    return dict(sorted([*names.items(), *_flatten(attributes, "")]))


def _flatten(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flatten(value, f"{name}.")
        elif isinstance(value, str):
            yield name, value
        else:
            yield name, json.dumps(value)


def names_of(wildcards: Mapping[str, str]) -> dict[str, str]:
    """Return ``sample``, ``dye`` and, in a sweep, ``variant`` of a job."""
    sample, dye, *variant = (str(wildcards[level]) for level in LEVELS if wildcards.get(level))
    return _make_names(sample, dye, variant)


def names_at(store: Path) -> dict[str, str]:
    """Return the names of the pair in whose results a store is; none for one that is elsewhere."""
    place = store.absolute().parent
    for results in place.parents:
        if (results / "telemetry").is_dir() or (results / "summary.tsv").is_file():
            sample, *rest = place.relative_to(results).parts
            return _make_names(sample, rest[0], rest[1:]) if rest else {}
    return {}


def _make_names(sample: str, dye: str, variant: Sequence[str]) -> dict[str, str]:
    names = {"sample": sample, "dye": dye}
    return {**names, "variant": "/".join(variant)} if variant else names


BLOCK = 2880
"""Header and data are multiples of this many bytes."""
_CARD, _TEXT, _STRING = 80, 72, 68
"""Characters of a card, of text in one, and of a string that is a value."""

# BITPIX, and BZERO for the types that FITS does not have: they are stored with another sign.
_BITPIX = {
    "uint8": (8, 0),
    "int8": (8, -(2**7)),
    "int16": (16, 0),
    "uint16": (16, 2**15),
    "int32": (32, 0),
    "uint32": (32, 2**31),
    "float32": (-32, 0),
    "float64": (-64, 0),
}

# GAIN itself means electrons per grey level to programs for telescopes.
_KEYWORDS = {
    "sample": ("SAMPLE", ""),
    "dye": ("DYE", ""),
    "variant": ("VARIANT", "of a sweep"),
    "role": ("ROLE", "which image of the pair"),
    "method": ("METHOD", "scale method"),
    "gain": ("BGGAIN", "post - (BGGAIN * pre + BGOFFSET)"),
    "offset": ("BGOFFSET", "grey levels"),
    "digest": ("DIGEST", ""),
    "fingerprint": ("RAWPRINT", ""),
    "inputs.post": ("IN_POST", ""),
    "inputs.pre": ("IN_PRE", ""),
    "inputs.aligned_pre": ("IN_ALIGN", ""),
    "displacement.sha256": ("MAPFIELD", ""),
}
_ROW_ORDER = (
    "The first row of the data is the TOP of the image. Arrays are [y, x], and positions are those "
    "of unglow plus 1. Viewers that put the first row at the bottom show it upside down. "
    "There are no world coordinates (WCS)."
)


@step("write")
def write_fits(store: Image, target: Path, names: Mapping[str, str] | None = None) -> None:
    """Write level 0 of a store as a FITS image, the first row of the image first.

    At most `EXPORT_BAND` of the image are in memory, twice. Bytes depend on the store alone. Of a
    store that is marked empty, only a header with the reason is written.

    Parameters
    ----------
    store
        Any store of unglow; NaN stays NaN.
    target
        File to write or replace.
    names
        Sample, dye and variant, for the header (`unglow.export.images.names_of`).

    Raises
    ------
    StoreError
        A shard is missing or damaged.
    UnglowError
        The file could not be written.
    """
    header = fits_header(store, names or {})
    rows, cols = (0, 0) if store.empty is not None else store.shape
    size = rows * cols * store.dtype.itemsize
    height, width = store.layout.chunks
    width *= max(1, EXPORT_BAND // (height * width * store.dtype.itemsize))
    with replace_file(target) as partial, partial.open("wb") as stream:
        stream.write(header)
        for window in grid((rows, cols), (height, width)):
            block = _to_big_endian(store.read(window))
            for row, line in enumerate(block, start=window.y0):
                stream.seek(len(header) + (row * cols + window.x0) * store.dtype.itemsize)
                stream.write(line.data)
        stream.truncate(len(header) + -(-size // BLOCK) * BLOCK)


def fits_header(store: Image, names: Mapping[str, str]) -> bytes:
    """Return the header of a store: complete blocks of cards of 80 characters, ASCII."""
    bitpix, zero = _BITPIX[store.dtype.name]
    shape = () if store.empty is not None else store.shape
    values: list[tuple[str, Any, str]] = [
        ("SIMPLE", True, ""),
        ("BITPIX", bitpix, ""),
        ("NAXIS", len(shape), ""),
        *((f"NAXIS{axis}", size, "") for axis, size in enumerate(reversed(shape), start=1)),
    ]
    if zero:
        values += [("BSCALE", 1, ""), ("BZERO", zero, "unsigned" if zero > 0 else "signed")]
    values += [
        ("BUNIT", "adu", "grey levels"),
        ("ROWORDER", "TOP-DOWN", "first row of the data is the top"),
        ("CREATOR", "unglow", ""),
    ]
    for axis, size in enumerate(store.pixel_size_um or (), start=1):
        values.append((f"PIXSIZE{axis}", size, "size of a pixel, micrometres"))
    texts = provenance(store, names)
    for name, (keyword, comment) in _KEYWORDS.items():
        if name in texts:
            value = store.attributes.get(name, texts[name])
            if isinstance(value, str):  # the hexadecimal digits of a digest just fit a card
                value = value.removeprefix("sha256:")
            values.append((keyword, value, comment))
    cards = [_make_card(*one) for one in values]
    cards += [card for text in (about(store), _ROW_ORDER) for card in _wrap_text("COMMENT", text)]
    others = (f"{name} = {text}" for name, text in texts.items() if name not in _KEYWORDS)
    cards += [card for line in others for card in _wrap_text("HISTORY", line)]
    joined = "".join([*cards, "END".ljust(_CARD)])
    return joined.ljust(-(-len(joined) // BLOCK) * BLOCK).encode("ascii")


def _make_card(keyword: str, value: Any, comment: str) -> str:
    """Return a card of 80 characters in the fixed format of FITS."""
    if isinstance(value, bool):
        text = ("T" if value else "F").rjust(20)
    elif isinstance(value, str):
        plain = _to_ascii(value).replace("'", " ")[:_STRING]
        text = f"'{plain:8}'".ljust(20)
    elif value is None:
        text = " " * 20  # a value that is not defined
    else:
        text = (repr(value).upper()).rjust(20)
    card = f"{keyword:8}= {text}"
    return (f"{card} / {comment}" if comment else card)[:_CARD].ljust(_CARD)


def _wrap_text(keyword: str, text: str) -> list[str]:
    """Return as many cards of text as it takes."""
    parts = textwrap.wrap(_to_ascii(text), _TEXT) or [""]
    return [f"{keyword:8}{part}".ljust(_CARD) for part in parts]


def _to_ascii(text: str) -> str:
    """Return text with everything that FITS does not allow written out."""
    plain = text.encode("ascii", "backslashreplace").decode("ascii")
    return "".join(c if " " <= c <= "~" else " " for c in plain)


def _to_big_endian(block: Array) -> Array:
    """Return the numbers as FITS stores them."""
    _, zero = _BITPIX[block.dtype.name]
    if zero:  # the other sign: the highest bit turned round
        bits = block.view(f"u{block.itemsize}")
        block = bits ^ bits.dtype.type(1 << (8 * block.itemsize - 1))
    return block.astype(block.dtype.newbyteorder(">"))


@step("write")
def write_tiff(
    store: Image, target: Path, names: Mapping[str, str] | None = None, *, workers: int = 1
) -> None:
    """Write a store with its pyramid as a tiled OME-TIFF (BigTIFF, Deflate).

    One tile for each worker is in memory. Bytes depend on the store alone. Of a store that is
    marked empty, a single px without a value is written, and the reason.

    Parameters
    ----------
    store
        Any store of unglow; NaN stays NaN.
    target
        File to write or replace.
    names
        Sample, dye and variant, for the OME-XML (`unglow.export.images.names_of`).
    workers
        Tiles that are read and compressed at a time.

    Raises
    ------
    StoreError
        A shard is missing or damaged.
    UnglowError
        The file could not be written.
    """
    levels = 1 if store.empty is not None else store.levels
    content = [(_shape(store, n), _encode_tiles(store, n, workers)) for n in range(levels)]
    with replace_file(target) as partial, tifffile.TiffWriter(partial, bigtiff=True) as tiff:
        write_levels(tiff, content, store.dtype, store.pixel_size_um, ome_xml(store, names or {}))


def ome_xml(store: Image, names: Mapping[str, str]) -> bytes:
    """Return the OME-XML (2016-06) of a store: size, physical size, parameters; UTF-8."""
    return image_xml(
        store.name,
        _shape(store, 0),
        store.dtype,
        [OmeChannel(store.name)],
        pixel_size_um=store.pixel_size_um,
        description=about(store),
        annotations=provenance(store, names),
    )


def _shape(store: Image, level: int) -> tuple[int, int]:
    return store.level_shape(level) if store.empty is None else (1, 1)


def _encode_tiles(store: Image, level: int, workers: int) -> Iterator[bytes]:
    """Compressed tiles of a level, row by row."""

    def encoded(window: Window) -> bytes:
        if store.empty is None:
            return encode_tile(store.read(window, level))
        missing = np.nan if store.dtype.kind == "f" else 0
        return encode_tile(np.full((1, 1), missing, store.dtype))

    return map_bounded(encoded, grid(_shape(store, level), (TILE, TILE)), workers)
