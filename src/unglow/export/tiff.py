"""Stores as OME-TIFF: tiled BigTIFF with the pyramid in SubIFDs, written tile by tile.

Float tiles have no predictor: the one for floats (3) saves a few per cent and Bio-Formats, so
QuPath and Fiji, cannot read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import imagecodecs
import numpy as np
import tifffile

from unglow.core.files import replacing
from unglow.core.progress import step
from unglow.core.windows import Window, bounded_map, grid
from unglow.export.provenance import about, provenance

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.photometry.difference import Image

TILE = 512
"""Side of the tiles of all levels, px."""
_DEFLATE_LEVEL = 1
"""Level 6 takes four times as long for files that are at most 8 % smaller."""
_HORIZONTAL = 2
"""The predictor of whole numbers: horizontal differences."""
_NAMESPACE = "http://www.openmicroscopy.org/Schemas/OME/2016-06"
_TYPES = {"float32": "float", "float64": "double"}


@step("write")
def write_tiff(store: Image, target: Path, *, workers: int = 1) -> None:
    """Write a store with its pyramid as a tiled OME-TIFF (BigTIFF, Deflate).

    One tile for each worker is in memory. Bytes depend on the store alone. Of a store that is
    marked empty, a single px without a value is written, and the reason.

    Parameters
    ----------
    store
        Any store of unglow; NaN stays NaN.
    target
        File to write or replace.
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
    integer = store.dtype.kind in "iu"
    with replacing(target) as partial, tifffile.TiffWriter(partial, bigtiff=True) as tiff:
        for level in range(levels):
            tags: dict[str, Any] = {"subfiletype": 1}
            if level == 0:
                tags = {"description": ome_xml(store), "software": "unglow", **_resolution(store)}
                tags["subifds"] = levels - 1
            tiff.write(
                _tiles(store, level, workers),
                shape=_shape(store, level),
                dtype=store.dtype,
                tile=(TILE, TILE),
                photometric="minisblack",
                compression="adobe_deflate",
                predictor=_HORIZONTAL if integer else None,
                metadata=None,
                **tags,
            )


def ome_xml(store: Image) -> bytes:
    """Return the OME-XML (2016-06) of a store: size, physical size, parameters; UTF-8."""
    rows, cols = _shape(store, 0)
    root = ET.Element("OME", {"xmlns": _NAMESPACE, "Creator": "unglow"})
    image = ET.SubElement(root, "Image", {"ID": "Image:0", "Name": store.name})
    ET.SubElement(image, "Description").text = about(store)
    sizes = {"SizeX": str(cols), "SizeY": str(rows), "SizeZ": "1", "SizeC": "1", "SizeT": "1"}
    for axis, size in zip("XY", store.pixel_size_um or (), strict=False):
        sizes |= {f"PhysicalSize{axis}": repr(size), f"PhysicalSize{axis}Unit": "µm"}
    kind = _TYPES.get(store.dtype.name, store.dtype.name)
    fixed = {"ID": "Pixels:0", "DimensionOrder": "XYZCT", "Type": kind, "BigEndian": "false"}
    pixels = ET.SubElement(image, "Pixels", fixed | sizes)
    named = {"ID": "Channel:0:0", "Name": store.name, "SamplesPerPixel": "1"}
    ET.SubElement(pixels, "Channel", named)
    ET.SubElement(pixels, "TiffData", {"IFD": "0", "PlaneCount": "1"})
    ET.SubElement(image, "AnnotationRef", {"ID": "Annotation:0"})
    annotations = ET.SubElement(root, "StructuredAnnotations")
    name = {"ID": "Annotation:0", "Namespace": "unglow"}
    value = ET.SubElement(ET.SubElement(annotations, "MapAnnotation", name), "Value")
    for key, text in provenance(store).items():
        ET.SubElement(value, "M", {"K": key}).text = text
    document: bytes = ET.tostring(root, encoding="UTF-8", xml_declaration=True)
    return document


def _shape(store: Image, level: int) -> tuple[int, int]:
    return store.level_shape(level) if store.empty is None else (1, 1)


def _resolution(store: Image) -> dict[str, Any]:
    """Return the resolution tags, px per cm, if the pixel size is known."""
    if store.pixel_size_um is None:
        return {}
    x, y = store.pixel_size_um
    return {"resolution": (1e4 / x, 1e4 / y), "resolutionunit": "CENTIMETER"}


def _tiles(store: Image, level: int, workers: int) -> Iterator[bytes]:
    """Compressed tiles of a level, row by row."""

    def encoded(window: Window) -> bytes:
        if store.empty is None:
            return _encoded(store.read(window, level))
        missing = np.nan if store.dtype.kind == "f" else 0
        return _encoded(np.full((1, 1), missing, store.dtype))

    return bounded_map(encoded, grid(_shape(store, level), (TILE, TILE)), workers)


def _encoded(pixels: NDArray[Any]) -> bytes:
    """Return a tile as it is stored; what lies beyond the image is zero."""
    tile = np.zeros((TILE, TILE), pixels.dtype.newbyteorder("<"))
    tile[: pixels.shape[0], : pixels.shape[1]] = pixels
    if tile.dtype.kind in "iu":
        bits = tile.view(f"<u{tile.itemsize}")
        bits[:, 1:] -= bits[:, :-1].copy()
    return bytes(imagecodecs.deflate_encode(tile.tobytes(), level=_DEFLATE_LEVEL))
