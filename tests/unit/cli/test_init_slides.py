"""`unglow init` on folders of slides: tables of markers from metadata, backgrounds by a rule."""

from __future__ import annotations

import numpy as np
import pytest
import tifffile
from metadata_slides import comet, macsima, qptiff, write_ome
from raw_slides import TABLE, pair, slide

from unglow.cli import main
from unglow.workflow.batch import Batch

CHANNELS = [
    *(("DAPI", "DAPI", 0, 20), ("TRITC", "TRITC", 0, 400)),
    *(("DAPI", "DAPI", 1, 20), ("CD3", "TRITC", 1, 200)),
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_slide_gets_a_table_and_a_background_on_request(here, capsys):
    comet(here / "raw/s1/a.ome.tif", CHANNELS)
    table = here / "raw/s1/markers.csv"
    assert main(["init", "raw"]) == 1
    assert table.read_text() == (
        "channel_number,cycle_number,marker_name,Filter,background,exposure,remove\n"
        "1,1,DAPI,DAPI,,20,\n2,1,TRITC,TRITC,,400,\n3,2,DAPI_1,DAPI,,20,\n4,2,CD3,TRITC,,200,\n"
    )
    out = capsys.readouterr().out
    for shown in ("COMET OME-XML", "nearest-earlier", "same-cycle", "first-and-last"):
        assert shown in out
    assert "`unglow init raw --background RULE`" in out
    config = here / "config/config.yaml"
    config.write_text("raw: raw\n# mine\n")
    assert main(["init", "raw", "--background", "nearest-earlier"]) == 0
    assert "# mine" in config.read_text()
    assert "Taken for blanks: TRITC." in capsys.readouterr().out
    known = Batch.load({}, here).slides["s1"].slide
    assert known.subtracted == {"CD3": "TRITC"}
    assert [one.exposure for one in known.channels] == [20, 400, 20, 200]
    assert (here / "raw/s1/markers.csv.before").read_text().endswith("4,2,CD3,TRITC,,200,\n")
    filled = table.read_text()
    assert main(["init", "raw", "--background", "first-and-last"]) == 0  # it names one already
    assert table.read_text() == filled
    assert "first-and-last" not in capsys.readouterr().out


def test_a_rule_that_finds_nothing_changes_nothing(here, capsys):
    comet(here / "raw/s1/a.ome.tif", CHANNELS)
    main(["init", "raw"])
    before = (here / "raw/s1/markers.csv").stat()
    assert main(["init", "raw", "--background", "same-cycle"]) == 1
    assert "No background found for: CD3." in capsys.readouterr().out
    assert (here / "raw/s1/markers.csv").stat().st_mtime_ns == before.st_mtime_ns
    assert not (here / "raw/s1/markers.csv.before").exists()


def test_files_of_a_macsima_are_channels_of_their_cycles(here):
    for n, (marker, kind, cycle) in enumerate(
        [("DAPI", "S", 0), ("CD3", "B", 0), ("CD3", "S", 0), ("CD4", "B", 1), ("CD4", "S", 1)]
    ):
        values = {"Biomarker": marker, "Fluorochrome": "APC", "Cycle": cycle, "ScanType": kind}
        macsima(here / f"raw/s1/C{n}.ome.tif", {**values, "ExposureTime": 40 + n})
    assert main(["init", "raw", "--background", "same-cycle"]) == 0
    assert not (here / "raw/s1/markers.csv.before").exists()  # there was none
    known = Batch.load({}, here).slides["s1"].slide
    assert known.subtracted == {"CD3": "CD3_background", "CD4": "CD4_background"}
    assert [(one.image, one.cycle) for one in known.channels] == [
        *((0, 1), (1, 1), (2, 1), (3, 2), (4, 2))
    ]


def test_a_qptiff_without_exposure_times_leaves_them_empty(here, capsys):
    pages = [{"Biomarker": name, "Name": "Cy5"} for name in ("Blank", "CD3")]
    qptiff(here / "raw/s1/a.qptiff", [*pages, {"Name": "CD8", "IsUnmixedComponent": "True"}])
    assert main(["init", "raw", "--background", "nearest-earlier"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Not in the metadata, so empty: exposure; cycle_number; Filter of CD8." in out
    assert "from CD8 already" in out
    known = Batch.load({}, here).slides["s1"].slide
    assert known.subtracted == {"CD3": "Blank"}
    assert known.channel("CD3").exposure is None


def test_only_slides_without_a_table_get_one(here, capsys):
    slide(here, "s1")  # has a table
    pair(here)
    # two images of one channel are a pair whose names lack pre and post
    for name in ("a_DAPI", "b_DAPI"):
        write_ome(here / f"raw/p2/{name}.ome.tif", [("DAPI", None)])
    macsima(here / "raw/p4/a_APC.ome.tif", {"Biomarker": "CD3", "ScanType": "S"})
    # the samples of a colour image are not channels of a slide
    colour = np.zeros((96, 128, 3), np.uint8)
    (here / "raw/p3").mkdir()
    tifffile.imwrite(here / "raw/p3/a_HE.ome.tif", colour, metadata={"Channel": {"Name": "HE"}})
    assert main(["init", "raw"]) == 1
    assert (here / "raw/s1/markers.csv").read_text() == TABLE
    assert sorted(path.parent.name for path in here.glob("raw/*/markers.csv")) == ["s1"]
    assert "names no background" not in capsys.readouterr().out
