"""Names, filters, exposure times and cycles of channels, from the metadata of microscopes."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
import tifffile
from metadata_slides import comet, macsima, qptiff, write_ome

from unglow.images.raw_images import read_header
from unglow.images.tiff.metadata import AcquiredChannel
from unglow.images.tiff.read_header import read_acquisition
from unglow.images.tiff.series import CHANNELS


def read(path):
    return read_acquisition(read_header(path, z=CHANNELS))


def test_comet_notes_filter_and_cycle_of_each_channel(tmp_path):
    path = tmp_path / "a.ome.tif"
    comet(path, [("DAPI", "DAPI", 0, 20), ("TRITC", "TRITC", 0, 400), ("CD3", "TRITC", 1, 200.5)])
    found = read(path)
    assert found.kind == "COMET OME-XML"
    assert [astuple(one)[:4] for one in found.channels] == [
        ("DAPI", "DAPI", 20, 0),
        ("TRITC", "TRITC", 400, 0),
        ("CD3", "TRITC", 200.5, 1),
    ]


def test_filters_of_another_number_of_channels_are_not_taken(tmp_path):
    path = tmp_path / "a.ome.tif"
    one = '<Private FluorescenceChannel="DAPI" CycleID="0"/>'
    write_ome(
        path, [("DAPI", 20), ("CD3", None)], f"<StructuredAnnotations>{one}</StructuredAnnotations>"
    )
    found = read(path)
    assert found.kind == "OME-XML"
    assert found.channels == (AcquiredChannel("DAPI", "", 20), AcquiredChannel("CD3"))


def test_each_page_of_a_qptiff_describes_its_channel(tmp_path):
    path = tmp_path / "a.qptiff"
    qptiff(
        path,
        [
            {"Biomarker": "CD8", "Name": "Cy5", "ExposureTime": "15000"},
            {"Biomarker": "--", "Name": "DAPI", "Fluor": "DAPI", "ExposureTime": "0"},
            {"Name": "CK (Opal 690)", "ExposureTime": "3", "ExposureTimeUnit": "ms"},
            {"Name": "PD1", "ExposureTime": "x", "IsUnmixedComponent": "True"},
        ],
    )
    found = read(path)
    assert found.kind == "qptiff"
    assert found.channels == (
        AcquiredChannel("CD8", "Cy5", 15),  # microseconds
        AcquiredChannel("DAPI", "DAPI"),
        AcquiredChannel("CK (Opal 690)", "", 3),
        AcquiredChannel("PD1", is_corrected=True),
    )


@pytest.mark.parametrize(
    ("values", "reagent", "channel"),
    [
        (
            {"Biomarker": "CD3", "Fluorochrome": "APC", "ExposureTime": "45.6", "Cycle": "3",
             "ScanType": "S"},
            "",
            AcquiredChannel("CD3", "APC", 45.6, 3),
        ),
        (
            {"Dye": "DAPI", "Cycle": "NaN", "ExposureTime": "no", "ScanType": "AF"},
            "",
            AcquiredChannel("DAPI", "DAPI", is_blank=True),
        ),
        (
            {"Fluorochrome": "PE", "Exposure time": "123.4", "MICS cycle ID": "5",
             "MICS cycle type": "BleachCycle"},
            "CD4__RPA-T4",
            AcquiredChannel("CD4", "PE", 123.4, 5, is_blank=True),
        ),
    ],
)  # fmt: skip
def test_a_file_of_a_macsima_describes_its_channel(tmp_path, values, reagent, channel):
    macsima(tmp_path / "a.ome.tif", values, reagent)
    found = read(tmp_path / "a.ome.tif")
    assert found.kind == "MACSima OME-XML"
    assert found.channels == (channel,)


def test_the_first_of_several_annotations_of_a_key_counts(tmp_path):
    pairs = "".join(f'<M K="{key}">{value}</M>' for key, value in (("Cycle", 3), ("Cycle", 9)))
    more = f'<MapAnnotation><Value>{pairs}<M K="ScanType">S</M></Value></MapAnnotation>'
    annotations = f"<StructuredAnnotations>{more}</StructuredAnnotations>"
    write_ome(tmp_path / "a.ome.tif", [("CD3", 20)], annotations)
    assert read(tmp_path / "a.ome.tif").channels == (AcquiredChannel("CD3", "", 20, 3),)


def test_an_image_without_names_says_nothing(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((3, 40, 50), np.uint8), photometric="minisblack")
    assert read(path) is None
    named = {"Channel": {"Name": "HE"}}  # of three samples
    tifffile.imwrite(tmp_path / "b.ome.tif", np.zeros((40, 50, 3), np.uint8), metadata=named)
    assert read(tmp_path / "b.ome.tif") is None
    write_ome(path, [("", 20), ("", 30)])
    assert read(path) is None
    qptiff(path, [{"ExposureTime": "3"}] * 2)
    assert read(path) is None


@pytest.mark.parametrize(
    ("files", "names", "size"),
    [
        (["a.tif"], ["CD8"], (0.5, 0.5)),
        (["a.tif", "b.tif"], ["0"], (0.5, 0.5)),  # whose channel is in which file is not looked up
        (["b.tif"], ["0"], None),
    ],
)
def test_a_companion_file_describes_the_images_that_it_names(tmp_path, files, names, size):
    one = '<BinaryOnly MetadataFile="set.companion.ome" UUID="urn:uuid:1"/>'
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((64, 64), np.uint16), description=f"<OME>{one}</OME>")
    alone = read_header(path)
    assert (alone.pixel_size_um, len(alone.notes)) == (None, 1)
    parts = "".join(f'<TiffData><UUID FileName="{name}"/></TiffData>' for name in files)
    sizes = 'PhysicalSizeX="0.5" PhysicalSizeY="0.5"'
    pixels = f'<Pixels {sizes}><Channel Name="CD8"/>{parts}</Pixels>'
    (tmp_path / "set.companion.ome").write_text(f"<OME><Image>{pixels}</Image></OME>")
    found = read_header(path)
    assert [channel.name for channel in found.channels] == names
    assert found.pixel_size_um == size
    assert bool(found.notes) == (size is None)
