"""Pixel size, names and exposure times of channels, where a header has believable ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET  # attributes are read, nothing is resolved

if TYPE_CHECKING:
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
    """Return the Image elements of OME-XML that have pixels; none if there is no valid XML."""
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


def ome_channel_names(image: ET.Element) -> list[str]:
    """Names of the channels in their order; an empty string where one has none."""
    pixels = _pixels(image)
    if pixels is None:
        return []
    return [child.get("Name", "") for child in pixels if child.tag.endswith("Channel")]


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
