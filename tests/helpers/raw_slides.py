"""Slides of noise with a table of markers, and black pairs, in a raw directory."""

from __future__ import annotations

import numpy as np
import tifffile

NAMES = ("DAPI", "AF", "CD3", "DAPI_2", "CD8")
TABLE = (
    "cycle_number,marker_name,background,exposure,remove\n1,DAPI,,20,\n1,AF,,100,TRUE\n"
    "1,CD3,AF,100,\n2,DAPI_2,,20,\n2,CD8,AF,200,\n"
)


def ome(path, names, shape=(96, 128), exposures=(), dtype=np.uint16, seed=0):
    """Write channels of noise as an OME-TIFF, with exposure times in s where they are given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 999, (len(names), *shape)).astype(dtype)
    plane = {"Plane": {"ExposureTime": list(exposures), "ExposureTimeUnit": ["s"] * len(exposures)}}
    about = {"axes": "CYX", "Channel": {"Name": list(names)}, **(plane if exposures else {})}
    tifffile.imwrite(path, pixels, metadata=about, photometric="minisblack")


def slide(base, name="s1", table=TABLE, names=NAMES, **more):
    ome(base / f"raw/{name}/image.ome.tif", names, **more)
    if table:
        (base / f"raw/{name}/markers.csv").write_text(table)


def pair(base, name="p1", dye="DAPI", shape=(96, 128), **options):
    """Write two black images; return their folder."""
    folder = base / "raw" / name
    folder.mkdir(parents=True, exist_ok=True)
    for role in ("pre", "post"):
        tifffile.imwrite(folder / f"{role}_{dye}.tif", np.zeros(shape, np.uint8), **options)
    return folder
