"""How the channels of an image were acquired, by the metadata of microscopes in TIFF files.

Read are OME-XML, with the additions of COMET (Lunaphore) and MACSima (Miltenyi), and the XML in
each page of a qptiff file (PhenoCycler, Vectra; Akoya). What a file does not say stays unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET  # attributes are read, nothing is resolved

from unglow.io.tiff.metadata import MS_PER, ome_channel_names, ome_exposures_ms
from unglow.io.tiff.opening import open_checked
from unglow.io.tiff.read_header import find_ome_image
from unglow.io.tiff.series import choose

if TYPE_CHECKING:
    import tifffile

    from unglow.io.raw_header import TiffHeader
    from unglow.io.tiff.series import Choice

QPTIFF, COMET, MACSIMA, OME = "qptiff", "COMET OME-XML", "MACSima OME-XML", "OME-XML"
"""Kinds of metadata that are read."""
_QPI = "PerkinElmer-QPI-ImageDescription"
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
            found = _of_ome(tif, image)
        elif choice.series.kind == "qpi":
            found = _of_qptiff(choice)
        else:
            return None
    is_complete = len(found.channels) == len(header.channels)
    return found if is_complete and any(one.name for one in found.channels) else None


def _of_qptiff(choice: Choice) -> Acquisition:
    """Read the XML of the page of each channel.

    ``Name`` is the band where there is a biomarker, and all that is known of a channel otherwise.
    """
    channels = []
    for number in choice.pages[0]:
        root = _parse(getattr(choice.series[number], "description", ""))
        said = {} if root is None else {one.tag: (one.text or "").strip() for one in root}
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


def _of_ome(tif: tifffile.TiffFile, image: ET.Element) -> Acquisition:
    """Read OME-XML, and what COMET and MACSima add to it."""
    names, times = ome_channel_names(image), ome_exposures_ms(image)
    dyes = ome_channel_names(image, "Fluor")
    channels = [
        AcquiredChannel(name, dye, time) for name, dye, time in zip(names, dyes, times, strict=True)
    ]
    root = _parse(tif.ome_metadata or "")
    annotations = next((one for one in root or () if _local(one) == "StructuredAnnotations"), None)
    if root is None or annotations is None:
        return Acquisition(OME, tuple(channels))
    described = [one for one in annotations.iter() if one.get("FluorescenceChannel")]
    if described and len(described) == len(channels):
        return Acquisition(COMET, tuple(map(_add_comet, channels, described)))
    values = _map_values(annotations)
    # one file holds one channel, and its annotations are those of the file
    if len(channels) == 1 and values.keys() & {"ScanType", "MICS cycle type", "MICS cycle ID"}:
        return Acquisition(MACSIMA, (_of_macsima(root, values, channels[0]),))
    return Acquisition(OME, tuple(channels))


def _add_comet(channel: AcquiredChannel, described: ET.Element) -> AcquiredChannel:
    """Add the filter and cycle that COMET notes for a channel."""
    cycle = described.get("CycleID", "")
    return replace(
        channel,
        filter=described.get("FluorescenceChannel", ""),
        cycle=int(cycle) if cycle.isdecimal() else None,
    )


def _of_macsima(
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
        cycle=int(cycle) if cycle.isdecimal() else None,
        is_blank=scan.lower() in _UNSTAINED,
    )


def _map_values(annotations: ET.Element) -> dict[str, str]:
    """Return the pairs of key and value of all map annotations, the first of each key."""
    values: dict[str, str] = {}
    for one in annotations.iter():
        if _local(one) == "M" and one.get("K"):
            values.setdefault(str(one.get("K")), (one.text or "").strip())
    return values


def _parse(text: str) -> ET.Element | None:
    try:
        return ET.fromstring(text)  # noqa: S314 - local raw file, tifffile parses it as well
    except (ET.ParseError, ValueError):
        return None


def _local(element: ET.Element) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def _positive(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value < math.inf else None
