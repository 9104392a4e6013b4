"""The viewer as a folder of files: nothing in it shows where things are on this machine."""

from __future__ import annotations

import json
import re
import shutil

import pytest
import tifffile
from made_scenes import render
from seeing import Seen

from unglow.pages.viewer.static_site import write_site

PLACE = re.compile(rb"(?<![\w.:/])/[\w.-]+/[\w.-]+")


@pytest.fixture
def work(finished, tmp_path):
    """A working directory with a sample sheet, regions, a review, and reasons that name files."""
    work = tmp_path / "kept-to-oneself" / "study-41"
    shutil.copytree(finished, work / "results")
    sheet = work / "config" / "samples.tsv"
    sheet.parent.mkdir()
    rows = ["sample\tdye\tpre\tpost"]
    for sample in ("S1", "S2"):
        images = [work / "raw" / f"{sample}_{role}.tif" for role in ("pre", "post")]
        images[0].parent.mkdir(exist_ok=True)
        for image in images:
            tifffile.imwrite(image, render([[1, 0, 0], [0, 1, 0], [0, 0, 1]], (8, 8)))
        rows.append(f"{sample}\tDAPI\t{images[0]}\t{images[1]}")
    sheet.write_text("\n".join(rows) + "\n")
    reason = (
        f"{work}/raw/S2_pre.tif has no texture (see {work / 'results'}/S2/DAPI/details/plan.json)."
    )
    (work / "results" / "summary.tsv").write_text(
        "sample\tdye\tstatus\treasons\n"
        f"S1\tDAPI\tsuspect\t/data/some where/S1_post.tif is dark: check it.\n"
        f"S2\tDAPI\tfailed\t{reason}\n"
    )
    square = [[[0, 0], [50, 0], [50, 40], [0, 40], [0, 0]]]
    feature = {
        "type": "Feature",
        "geometry": {"type": "Polygon", "coordinates": square},
        "properties": {"classification": {"name": "exclude"}, "name": "bubble"},
    }
    with Seen(work / "results") as shown:
        assert shown.send("pair/S1~DAPI/regions", {"put": [feature]})[0] == 200
        change = {"id": 1, "x": 1, "y": 1, "decision": "accepted"}
        assert shown.send("pair/S1~DAPI/review", {"changes": [change]})[0] == 200
        assert str(work) in json.dumps(shown.json("pair/S2~DAPI/landmarks.json"))
    return work


@pytest.mark.parametrize("computed", [False, True])
def test_no_file_of_the_folder_holds_an_absolute_path(work, tmp_path, computed):
    folder = tmp_path / "folder"
    write_site(work / "results", folder, computed=computed, say=lambda _: None)
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert len(written) > 50
    own = (b"study-41", b"kept-to-oneself", str(tmp_path).encode())
    for path in written:
        content = path.read_bytes()
        assert not any(name in content for name in own), path
        if path.suffix in (".json", ".geojson"):
            assert not PLACE.findall(content), path
    pair = json.loads((folder / "pair" / "S2~DAPI" / "pair.json").read_text())
    assert pair["reasons"] == ["S2_pre.tif has no texture (see plan.json)."]
    assert pair["layers"][0]["url"] == "layers/post.zarr"
    regions = json.loads((folder / "pair" / "S1~DAPI" / "regions.geojson").read_text())
    assert regions["features"][0]["properties"]["name"] == "bubble"
    for pair in ("S1~DAPI", "S2~DAPI"):
        spoilt = json.loads((folder / "pair" / pair / "artefacts.geojson").read_text())
        assert spoilt == {"type": "FeatureCollection", "features": []}
