"""Pixel sizes, and how channels were acquired, where a header has believable values; OME-XML.

Of channels, read are OME-XML, with the additions of COMET (Lunaphore) and MACSima (Miltenyi), and
the XML in each page of a qptiff file (PhenoCycler, Vectra; Akoya). What a file does not say stays
unknown.
"""

from __future__ import annotations

import math
import re
import uuid
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET  # attributes are read, nothing is resolved

from unglow.core.files import parse_whole, read_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import tifffile

    from unglow.images.tiff.series import Choice


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
"""Micrometres per unit, by values of the tag ResolutionUnit: inch, cm."""
BELIEVABLE_UM = (0.001, 25.0)
"""Sizes that are taken from bare resolution tags, um per px. These are mostly those of a printer or
a screen (72 to 600 dpi: 350 to 42 um): only what a microscope or film scanner has is believed."""
POSSIBLE_UM = (0.0001, 10000.0)
"""Sizes that are taken from metadata meant for them, um per px; others are slips."""


def possible(x: float, y: float) -> tuple[float, float] | None:
    """Return sizes from metadata meant for them, um per px; None where these are slips."""
    return _is_within(x, y, POSSIBLE_UM)


def _is_within(x: float, y: float, limits: tuple[float, float]) -> tuple[float, float] | None:
    low, high = limits
    return (x, y) if low <= x <= high and low <= y <= high else None


def ome_images(tif: tifffile.TiffFile) -> list[ET.Element]:
    """Return the Image elements of OME-XML that have pixels; none without valid XML."""
    root = _parse(tif.ome_metadata)
    images = [child for child in root if _local(child) == "Image"]
    return [image for image in images if any(_local(child) == "Pixels" for child in image)]


def read_companion(tif: tifffile.TiffFile) -> ET.Element | None:
    """Return the Image element that names this file, of the file with OME-XML that it refers to.

    Without its channels if they are in several files. None where no such file lies next to it.
    """
    refers = (one for one in _parse(tif.ome_metadata) if _local(one) == "BinaryOnly")
    name = PurePath(next((one.get("MetadataFile", "") for one in refers), "")).name
    try:
        root = _parse(read_file(Path(tif.filehandle.dirname) / name).decode("utf-8", "replace"))
    except OSError:
        return None
    for image in root:
        stored = {one.get("FileName") for one in image.iter() if _local(one) == "UUID"}
        if tif.filename in stored and any(_local(child) == "Pixels" for child in image):
            for channel in _inside_pixels(image, "Channel") if len(stored) > 1 else ():
                _pixels(image).remove(channel)
            return image
    return None


def _parse(text: str | None) -> ET.Element:
    """Return the root of a document; one without children where there is none that is valid."""
    try:
        return ET.fromstring(text or "")  # noqa: S314 - local raw file, tifffile parses it as well
    except (ET.ParseError, ValueError):
        return ET.Element("")


def _local(element: ET.Element) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def _inside_pixels(image: ET.Element, name: str) -> list[ET.Element]:
    """Return the elements of a name in the Pixels of an image of `ome_images`."""
    return [child for child in _pixels(image) if _local(child) == name]


def _pixels(image: ET.Element) -> ET.Element:
    return next(child for child in image if _local(child) == "Pixels")


def ome_pixel_size(image: ET.Element) -> tuple[float, float] | None:
    """(x, y) in um from PhysicalSizeX and PhysicalSizeY."""
    pixels = _pixels(image)
    x, y = (
        (_positive(pixels.get(f"PhysicalSize{axis}")) or 0.0)
        * UM_PER.get(pixels.get(f"PhysicalSize{axis}Unit", "µm"), 0.0)
        for axis in "XY"
    )
    return possible(x, y)


def ome_channel_names(image: ET.Element, attribute: str = "Name") -> list[str]:
    """Names of the channels in their order; an empty string where one has none.

    ``attribute`` is what they are read from: ``Fluor`` has the names of fluorophores.
    """
    return [channel.get(attribute, "") for channel in _inside_pixels(image, "Channel")]


def ome_exposures_ms(image: ET.Element) -> list[float | None]:
    """Exposure times of the channels in their order, ms; None where there is none above 0."""
    times: dict[str, float] = {}
    for plane in _inside_pixels(image, "Plane"):
        factor = MS_PER.get(plane.get("ExposureTimeUnit", "s"))
        time = _positive(plane.get("ExposureTime"))
        if factor is not None and time is not None:
            times.setdefault(plane.get("TheC", ""), time * factor)
    return [times.get(str(channel)) for channel in range(len(ome_channel_names(image)))]


def read_pixel_size(
    tif: tifffile.TiffFile, page: tifffile.TiffPage, image: ET.Element | None
) -> tuple[float, float] | None:
    """Return (x, y) in um per px from OME-XML, Aperio, ImageJ or resolution tags, or None."""
    if image is not None and (size := ome_pixel_size(image)) is not None:
        return size
    aperio = re.search(r"\bMPP\s*=\s*([0-9.]+)", page.description or "")
    if aperio and aperio[1].count(".") < 2:
        return possible(float(aperio[1]), float(aperio[1]))
    per_unit = _resolution(page)
    if per_unit is None:
        return None
    imagej: dict[str, Any] = tif.imagej_metadata or {}
    unit = str(imagej.get("unit", "")).strip()
    factor = UM_PER.get(unit.lower(), UM_PER.get(unit))
    if factor is not None:
        return possible(factor / per_unit[0], factor / per_unit[1])
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


QPTIFF, COMET, MACSIMA, OME = "qptiff", "COMET OME-XML", "MACSima OME-XML", "OME-XML"
"""Kinds of metadata that are read."""
# What qptiff files hold where no biomarker was entered.
_NO_BIOMARKER = {"", "--", "none", "n/a"}
# Of a MACSima: types of cycles and scans that are imaged without a new stain.
_UNSTAINED = {"bleachcycle", "b", "af"}


@dataclass(frozen=True, slots=True)
class AcquiredChannel:
    """What the metadata say of one channel; empty or None where they do not.

    ``filter`` is the filter, band or fluorophore that it was imaged with, ``exposure`` its time in
    ms, ``cycle`` as the instrument counts (some from 0). ``is_blank`` is true where the instrument
    says that nothing was stained, ``is_corrected`` where it has removed autofluorescence already.
    """

    name: str = ""
    filter: str = ""
    exposure: float | None = None
    cycle: int | None = None
    is_blank: bool = False
    is_corrected: bool = False


@dataclass(frozen=True, slots=True)
class Acquisition:
    """The channels of an image in their order, and the kind of metadata that describes them."""

    kind: str
    channels: tuple[AcquiredChannel, ...]


def read_qptiff_channels(choice: Choice) -> Acquisition:
    """Read the XML of the page of each channel.

    ``Name`` is the band where there is a biomarker, and all that is known of a channel otherwise.
    """
    channels = []
    for number in choice.pages[0]:
        root = _parse(getattr(choice.series[number], "description", ""))
        said = {one.tag: (one.text or "").strip() for one in root}
        biomarker = said.get("Biomarker", "")
        has_biomarker = biomarker.lower() not in _NO_BIOMARKER
        band, dye = said.get("Name", ""), said.get("Fluorophore", "") or said.get("Fluor", "")
        # microseconds by its specification, unless a unit is there
        per_unit = MS_PER.get(said.get("ExposureTimeUnit", "µs"))
        exposure = _positive(said.get("ExposureTime"))
        flags = (said.get("IsUnmixedComponent", ""), said.get("AutofluorescenceSubtracted", ""))
        channels.append(
            AcquiredChannel(
                name=biomarker if has_biomarker else band,
                filter=band if has_biomarker and band else dye,
                exposure=None if exposure is None or per_unit is None else exposure * per_unit,
                is_corrected=any(flag.lower() == "true" for flag in flags),
            )
        )
    return Acquisition(QPTIFF, tuple(channels))


def read_ome_channels(tif: tifffile.TiffFile, image: ET.Element) -> Acquisition:
    """Read OME-XML, and what COMET and MACSima add to it."""
    names, times = ome_channel_names(image), ome_exposures_ms(image)
    dyes = ome_channel_names(image, "Fluor")
    channels = [
        AcquiredChannel(name, dye, time) for name, dye, time in zip(names, dyes, times, strict=True)
    ]
    root = _parse(tif.ome_metadata)
    annotations = next((one for one in root if _local(one) == "StructuredAnnotations"), None)
    if annotations is None:
        return Acquisition(OME, tuple(channels))
    described = [one for one in annotations.iter() if one.get("FluorescenceChannel")]
    if described and len(described) == len(channels):
        return Acquisition(COMET, tuple(map(_add_comet, channels, described)))
    values = _map_values(annotations)
    # one file holds one channel, and its annotations are those of the file
    if len(channels) == 1 and values.keys() & {"ScanType", "MICS cycle type", "MICS cycle ID"}:
        return Acquisition(MACSIMA, (_read_macsima(root, values, channels[0]),))
    return Acquisition(OME, tuple(channels))


def _add_comet(channel: AcquiredChannel, described: ET.Element) -> AcquiredChannel:
    """Add the filter and cycle that COMET notes for a channel."""
    cycle = described.get("CycleID", "")
    return replace(
        channel,
        filter=described.get("FluorescenceChannel", ""),
        cycle=parse_whole(cycle),
    )


def _read_macsima(
    root: ET.Element, values: dict[str, str], channel: AcquiredChannel
) -> AcquiredChannel:
    """Read the annotations of a file of MACSima, of software versions 0 and 1."""
    reagents = (one.get("Name", "") for one in root.iter() if _local(one) == "Reagent")
    antigen = next(reagents, "").partition("__")[0]  # then the clone
    cycle = values.get("Cycle") or values.get("MICS cycle ID") or ""
    scan = values.get("ScanType") or values.get("MICS cycle type") or ""
    time = _positive(values.get("ExposureTime") or values.get("Exposure time"))
    return AcquiredChannel(
        name=values.get("Biomarker") or values.get("Dye") or antigen or channel.name,
        filter=values.get("Fluorochrome") or values.get("Dye") or channel.filter,
        exposure=time if channel.exposure is None else channel.exposure,
        cycle=parse_whole(cycle),
        is_blank=scan.lower() in _UNSTAINED,
    )


def _map_values(annotations: ET.Element) -> dict[str, str]:
    """Return the pairs of key and value of all map annotations, the first of each key."""
    values: dict[str, str] = {}
    for one in annotations.iter():
        if _local(one) == "M" and one.get("K"):
            values.setdefault(str(one.get("K")), (one.text or "").strip())
    return values


def _positive(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


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
    import tifffile  # readers of other formats need none

    about: dict[str, Any] = {"Name": name, "Description": description or None}
    for axis, size in zip("XY", pixel_size_um or (), strict=False):
        about |= {f"PhysicalSize{axis}": size, f"PhysicalSize{axis}Unit": "µm"}
    about["Channel"] = [
        {"Name": one.name, "Color": one.colour and _encode_rgba(one.colour)} for one in channels
    ]
    times = [one.exposure_ms for one in channels]
    about["Plane"] = [
        {} if time is None else {"ExposureTime": time, "ExposureTimeUnit": "ms"} for time in times
    ]
    if annotations is not None:
        about["MapAnnotation"] = {"Namespace": "unglow", "Value": dict(annotations)}
    # of the content: tifffile's own is one of time and machine
    identity = uuid.uuid5(uuid.NAMESPACE_OID, repr((shape, dtype, about)))
    document = tifffile.OmeXml(Creator="unglow", UUID=str(identity))
    count = len(channels)
    document.addimage(dtype, (count, *shape), (count, 1, 1, *shape, 1), axes="CYX", **about)
    return document.tostring(declaration=True).encode()


def _encode_rgba(colour: tuple[int, int, int]) -> int:
    """Return an opaque colour as OME has it: 32 bits of red, green, blue, alpha with a sign."""
    return int.from_bytes(bytes((*colour, 255)), "big", signed=True)
