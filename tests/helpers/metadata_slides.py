"""Small TIFF files with the metadata of microscopes, as documents and readers describe them."""

from __future__ import annotations

import numpy as np
import tifffile

OME = "http://www.openmicroscopy.org/Schemas/OME/2016-06"
SHAPE = (96, 128)


def comet(path, channels):
    """Write an OME-TIFF of a COMET: name, filter, cycle from 0, exposure in ms of each channel."""
    described = "".join(
        f'<ChannelPriv ID="Channel:{n}" FluorescenceChannel="{kind}" CycleID="{cycle}"/>'
        for n, (_, kind, cycle, _) in enumerate(channels)
    )
    annotations = (
        '<StructuredAnnotations><XMLAnnotation ID="Annotation:0"><Value>'
        f'<Private xmlns="urn:private">{described}</Private>'
        "</Value></XMLAnnotation></StructuredAnnotations>"
    )
    write_ome(path, [(name, time) for name, _, _, time in channels], annotations)


def macsima(path, values, reagent=""):
    """Write an OME-TIFF of one channel of a MACSima, with its map annotation."""
    pairs = "".join(f'<M K="{key}">{value}</M>' for key, value in values.items())
    annotations = (
        '<StructuredAnnotations><MapAnnotation ID="Annotation:0"><Value>'
        f"{pairs}</Value></MapAnnotation></StructuredAnnotations>"
    )
    screen = f'<Screen ID="Screen:0"><Reagent ID="Reagent:0" Name="{reagent}"/></Screen>'
    write_ome(path, [("", None)], (screen if reagent else "") + annotations)


def write_ome(path, channels, more=""):
    """Write an OME-TIFF: (name, exposure in ms or None) of each channel, and more XML."""
    names = "".join(f'<Channel ID="Channel:0:{n}" Name="{c[0]}"/>' for n, c in enumerate(channels))
    times = "".join(
        f'<Plane TheZ="0" TheT="0" TheC="{n}" ExposureTime="{time}" ExposureTimeUnit="ms"/>'
        for n, (_, time) in enumerate(channels)
        if time is not None
    )
    xml = (
        f'<?xml version="1.0" encoding="UTF-8"?><OME xmlns="{OME}"><Image ID="Image:0" Name="a">'
        f'<Pixels ID="Pixels:0" DimensionOrder="XYCZT" Type="uint16" SizeX="{SHAPE[1]}" '
        f'SizeY="{SHAPE[0]}" SizeC="{len(channels)}" SizeZ="1" SizeT="1">{names}'
        f'<TiffData IFD="0" PlaneCount="{len(channels)}"/>{times}</Pixels></Image>{more}</OME>'
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 999, (len(channels), *SHAPE)).astype(np.uint16)
    tifffile.imwrite(path, pixels, description=xml, metadata=None, photometric="minisblack")


def qptiff(path, pages):
    """Write a qptiff file: the elements of the XML of each page; a thumbnail follows."""
    root = "PerkinElmer-QPI-ImageDescription"
    path.parent.mkdir(parents=True, exist_ok=True)
    with tifffile.TiffWriter(path) as out:
        for n, page in enumerate([*pages, {"ImageType": "Thumbnail"}]):
            inside = "".join(f"<{key}>{value}</{key}>" for key, value in page.items())
            colour = n == len(pages)
            out.write(
                np.full((24, 32, 3) if colour else SHAPE, n, np.uint8 if colour else np.uint16),
                description=f'<?xml version="1.0" encoding="utf-16"?><{root}>{inside}</{root}>',
                software="PerkinElmer-QPI",
                metadata=None,
                photometric="rgb" if colour else "minisblack",
                contiguous=False,
            )
