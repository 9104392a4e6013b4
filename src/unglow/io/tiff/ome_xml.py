"""OME-XML (2016-06) of the one image of a file: its size, its channels, what is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

_NAMESPACE = "http://www.openmicroscopy.org/Schemas/OME/2016-06"
_TYPES = {"float32": "float", "float64": "double"}


@dataclass(frozen=True, slots=True)
class OmeChannel:
    """One channel of an image.

    Attributes
    ----------
    name
        Shown by viewers.
    colour
        Red, green and blue, 0 to 255; None for none.
    exposure_ms
        Exposure time, None if unknown.
    """

    name: str
    colour: tuple[int, int, int] | None = None
    exposure_ms: float | None = None


def ome_xml(
    name: str,
    shape: tuple[int, int],
    dtype: np.dtype,
    channels: Sequence[OmeChannel],
    *,
    pixel_size_um: tuple[float, float] | None = None,
    description: str = "",
    annotations: Mapping[str, str] | None = None,
) -> bytes:
    """Return the document, UTF-8; channel ``n`` is the directory ``n`` of the file.

    Parameters
    ----------
    name
        Of the image.
    shape, dtype
        Rows and columns, and the type of the pixels.
    channels
        In the order of the directories.
    pixel_size_um
        (x, y), or None if unknown.
    description
        A sentence about the image.
    annotations
        Texts by name, kept as an annotation of the image.
    """
    root = ET.Element("OME", {"xmlns": _NAMESPACE, "Creator": "unglow"})
    image = ET.SubElement(root, "Image", {"ID": "Image:0", "Name": name})
    if description:
        ET.SubElement(image, "Description").text = description
    _add_pixels(image, shape, dtype, channels, pixel_size_um)
    if annotations is not None:
        ET.SubElement(image, "AnnotationRef", {"ID": "Annotation:0"})
        _add_annotations(root, annotations)
    document: bytes = ET.tostring(root, encoding="UTF-8", xml_declaration=True)
    return document


def _add_pixels(
    image: ET.Element,
    shape: tuple[int, int],
    dtype: np.dtype,
    channels: Sequence[OmeChannel],
    pixel_size_um: tuple[float, float] | None,
) -> None:
    kind = _TYPES.get(dtype.name, dtype.name)
    about = {"ID": "Pixels:0", "DimensionOrder": "XYZCT", "Type": kind, "BigEndian": "false"}
    about |= {"SizeX": str(shape[1]), "SizeY": str(shape[0]), "SizeZ": "1"}
    about |= {"SizeC": str(len(channels)), "SizeT": "1"}
    for axis, size in zip("XY", pixel_size_um or (), strict=False):
        about |= {f"PhysicalSize{axis}": repr(size), f"PhysicalSize{axis}Unit": "µm"}
    pixels = ET.SubElement(image, "Pixels", about)
    for n, channel in enumerate(channels):
        told = {"ID": f"Channel:0:{n}", "Name": channel.name, "SamplesPerPixel": "1"}
        if channel.colour is not None:
            told["Color"] = str(_encode_rgba(channel.colour))
        ET.SubElement(pixels, "Channel", told)
    for n in range(len(channels)):
        first = {"FirstC": str(n)} if n else {}
        ET.SubElement(pixels, "TiffData", {**first, "IFD": str(n), "PlaneCount": "1"})
    for n, channel in enumerate(channels):
        if channel.exposure_ms is not None:
            time = {"ExposureTime": repr(channel.exposure_ms), "ExposureTimeUnit": "ms"}
            ET.SubElement(pixels, "Plane", {"TheZ": "0", "TheT": "0", "TheC": str(n), **time})


def _add_annotations(root: ET.Element, annotations: Mapping[str, str]) -> None:
    several = ET.SubElement(root, "StructuredAnnotations")
    name = {"ID": "Annotation:0", "Namespace": "unglow"}
    value = ET.SubElement(ET.SubElement(several, "MapAnnotation", name), "Value")
    for key, text in annotations.items():
        ET.SubElement(value, "M", {"K": key}).text = text


def _encode_rgba(colour: tuple[int, int, int]) -> int:
    """Return an opaque colour as OME has it: 32 bits of red, green, blue, alpha with a sign."""
    return int.from_bytes(bytes((*colour, 255)), "big", signed=True)
