"""Pixel size, names and exposure times of channels, where a header has believable ones."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET  # attributes are read, nothing is resolved

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import tifffile


UM_PER = {
    "µm": 1.0,
    "μm": 1.0,
    "um": 1.0,
    "micron": 1.0,
    "microns": 1.0,
    "micrometer": 1.0,
    "\\u00b5m": 1.0,
    "nm": 1e-3,
    "mm": 1e3,
    "cm": 1e4,
    "m": 1e6,
    "inch": 25400.0,
    "pm": 1e-6,
    "Å": 1e-4,
}
"""Micrometres per unit, by the names that OME-XML and ImageJ give."""
MS_PER = {"s": 1e3, "ms": 1.0, "µs": 1e-3, "us": 1e-3, "min": 6e4}
"""Milliseconds per unit of time, by the names in OME-XML."""
UM_PER_RESOLUTION_UNIT = {2: 25400.0, 3: 1e4}
"""The same by values of the tag ResolutionUnit: inch, cm."""
BELIEVABLE_UM = (0.001, 25.0)
"""Sizes that are taken from bare resolution tags, um per px. These are mostly those of a printer or
a screen (72 to 600 dpi: 350 to 42 um): only what a microscope or film scanner has is believed."""
POSSIBLE_UM = (0.0001, 10000.0)
"""Sizes that are taken from metadata meant for them, um per px; others are slips."""


def possible(x: float, y: float) -> tuple[float, float] | None:
    """Return sizes from metadata meant for them, um per px; None where these are slips."""
    return _is_within(x, y, POSSIBLE_UM)


def _is_within(
    x: float | None, y: float | None, limits: tuple[float, float]
) -> tuple[float, float] | None:
    if x is None or y is None:
        return None
    low, high = limits
    return (x, y) if low <= x <= high and low <= y <= high else None


def ome_images(tif: tifffile.TiffFile) -> list[ET.Element]:
    """Return the Image elements of OME-XML that have pixels; none without valid XML."""
    text = tif.ome_metadata
    if not text:
        return []
    try:
        root = ET.fromstring(text)  # noqa: S314 - local raw file, tifffile parses it as well
    except (ET.ParseError, ValueError):
        return []
    images = [child for child in root if child.tag.endswith("}Image") or child.tag == "Image"]
    return [image for image in images if _pixels(image) is not None]


def _pixels(image: ET.Element) -> ET.Element | None:
    return next((child for child in image if child.tag.endswith("Pixels")), None)


def ome_pixel_size(image: ET.Element) -> tuple[float, float] | None:
    """(x, y) in um from PhysicalSizeX and PhysicalSizeY."""
    pixels = _pixels(image)
    if pixels is None:
        return None
    sizes: list[float | None] = []
    for axis in "XY":
        factor = UM_PER.get(pixels.get(f"PhysicalSize{axis}Unit", "µm"))
        try:
            value = float(pixels.get(f"PhysicalSize{axis}", ""))
        except ValueError:
            value = 0.0
        sizes.append(None if factor is None else value * factor)
    return _is_within(sizes[0], sizes[1], POSSIBLE_UM)


def ome_channel_names(image: ET.Element, attribute: str = "Name") -> list[str]:
    """Names of the channels in their order; an empty string where one has none.

    ``attribute`` is what they are read from: ``Fluor`` has the names of fluorophores.
    """
    pixels = _pixels(image)
    if pixels is None:
        return []
    return [child.get(attribute, "") for child in pixels if child.tag.endswith("Channel")]


def ome_exposures_ms(image: ET.Element) -> list[float | None]:
    """Exposure times of the channels in their order, ms; None where there is none above 0."""
    pixels = _pixels(image)
    if pixels is None:
        return []
    times: dict[int, float] = {}
    for plane in (child for child in pixels if child.tag.endswith("Plane")):
        factor = MS_PER.get(plane.get("ExposureTimeUnit", "s"))
        try:
            channel, time = int(plane.get("TheC", "")), float(plane.get("ExposureTime", ""))
        except ValueError:
            continue
        if factor is not None and time > 0:
            times.setdefault(channel, time * factor)
    return [times.get(channel) for channel in range(len(ome_channel_names(image)))]


def pixel_size(
    tif: tifffile.TiffFile, page: tifffile.TiffPage, image: ET.Element | None
) -> tuple[float, float] | None:
    """(x, y) in um per px from OME-XML, Aperio, ImageJ or resolution tags; None if not known."""
    size = None if image is None else ome_pixel_size(image)
    if size is not None:
        return size
    aperio = re.search(r"\bMPP\s*=\s*([0-9.]+)", page.description or "")
    if aperio and aperio[1].count(".") < 2:
        value = float(aperio[1])
        return _is_within(value, value, POSSIBLE_UM)
    per_unit = _resolution(page)
    if per_unit is None:
        return None
    imagej: dict[str, Any] = tif.imagej_metadata or {}
    unit = str(imagej.get("unit", "")).strip()
    factor = UM_PER.get(unit.lower(), UM_PER.get(unit))
    if factor is not None:
        return _is_within(factor / per_unit[0], factor / per_unit[1], POSSIBLE_UM)
    tag = page.tags.get(296)
    factor = UM_PER_RESOLUTION_UNIT.get(int(tag.value)) if tag is not None else None
    if factor is None or unit:
        return None
    return _is_within(factor / per_unit[0], factor / per_unit[1], BELIEVABLE_UM)


def _resolution(page: tifffile.TiffPage) -> tuple[float, float] | None:
    """Pixels per unit in x and y; None unless both tags hold positive numbers."""
    values = []
    for code in (282, 283):
        tag = page.tags.get(code)
        if tag is None or not isinstance(tag.value, tuple) or len(tag.value) != 2:
            return None
        numerator, denominator = tag.value
        if numerator <= 0 or denominator <= 0:
            return None
        values.append(numerator / denominator)
    return values[0], values[1]


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
        attributes = {"ID": f"Channel:0:{n}", "Name": channel.name, "SamplesPerPixel": "1"}
        if channel.colour is not None:
            attributes["Color"] = str(_encode_rgba(channel.colour))
        ET.SubElement(pixels, "Channel", attributes)
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
