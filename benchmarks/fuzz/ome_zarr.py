"""OME-Zarr images of other programs: their metadata and their chunks."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
from numcodecs import Blosc, GZip, Pickle, VLenBytes, Zlib, Zstd

from fuzz.files import GROWN, IN_ITS_PLACE, damage_file
from fuzz.images import read_image
from fuzz.mutations import BYTES, EDITS, UNTOUCHED, pick
from fuzz.tiff import picture
from fuzz.trial import FILLED, OTHER, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.images.tiff import TiffHeader

_CHUNK, _LOST, _OBJECTS, _BOMB, _SIZES = (
    "chunk: ", "chunk lost", "objects and codecs", "bomb", "chunk of another size",
)  # fmt: skip
DAMAGES = (
    *(f"metadata: {name}" for name in (*EDITS, "cut short", "bytes anywhere", IN_ITS_PLACE, GROWN)),
    *(f"{_CHUNK}{name}" for name in (*BYTES, IN_ITS_PLACE, GROWN)),
    _LOST, _OBJECTS, _BOMB, _SIZES,
)  # fmt: skip
DOCUMENTS = (".zarray", ".zattrs", ".zgroup", "zarr.json")
_BOMB_SIDE = 30_000
# Format, axes, data type, chunks, compressor by its name in the library of its format, and shards.
_SEEDS: tuple[tuple[int, str, str, tuple[int, ...], str, tuple[int, ...] | None], ...] = (
    (2, "yx", "uint16", (32, 48), "Blosc", None),
    (2, "cyx", "uint8", (1, 32, 48), "Zlib", None),
    (2, "tczyx", ">u2", (1, 1, 1, 64, 64), "", None),
    (2, "yx", "float32", (71, 93), "Blosc", None),
    (3, "yx", "uint16", (32, 48), "BloscCodec", None),
    (3, "czyx", "uint8", (1, 1, 32, 48), "ZstdCodec", None),
    (3, "yx", "uint16", (16, 16), "GzipCodec", (64, 48)),
    (3, "cyx", "float32", (2, 64, 64), "", None),
)


def lay_out(folder: Path) -> list[tuple[str, Path]]:
    """Write images of both formats, and their pixels; return names and folders."""
    found = []
    for number, (version, axes, dtype, chunks, codec, shards) in enumerate(_SEEDS):
        path = folder / f"{number}.ome.zarr"
        planes = picture(np.dtype(dtype).newbyteorder("=").name, 3 if "c" in axes else 1)
        stack = planes.astype(dtype)
        if "z" in axes:
            stack = np.stack([stack, stack[..., ::-1]], axis=1)
        stack = stack[None] if "t" in axes else stack if "c" in axes else stack[0]
        _write(path, stack, version, axes, chunks, codec, shards)
        np.save(_pixels(path), planes)
        found.append((f"v{version} {axes} {dtype} {codec or 'plain'}", path))
    return found


def _write(
    path: Path, stack: NDArray[Any], version: int, axes: str, chunks: tuple[int, ...], codec: str,
    shards: tuple[int, ...] | None,
) -> None:  # fmt: skip
    import numcodecs
    import zarr
    import zarr.codecs

    library: Any = numcodecs if version == 2 else zarr.codecs
    compressor = getattr(library, codec)() if codec else None
    group = zarr.open_group(str(path), mode="w", zarr_format=version)  # type: ignore[arg-type]
    options: dict[str, Any] = {"shards": shards} if version == 3 else {}
    if version == 2:
        options["chunk_key_encoding"] = {"name": "v2", "separator": "/"}
    array = group.create_array(
        "0", shape=stack.shape, dtype=stack.dtype, chunks=chunks, compressors=compressor, **options
    )
    array[...] = stack
    kinds = {"t": "time", "c": "channel"}
    scale = [{"type": "scale", "scale": [0.5] * len(axes)}]
    multiscale: dict[str, Any] = {
        "axes": [{"name": a, "type": kinds.get(a, "space"), "unit": "micrometer"} for a in axes],
        "datasets": [{"path": "0", "coordinateTransformations": scale}],
    }
    names = [{"label": name} for name in "RGB"] if "c" in axes else [{"label": "G"}]
    content: dict[str, Any] = {"multiscales": [multiscale], "omero": {"channels": names}}
    if version == 2:
        multiscale["version"] = "0.4"
        group.attrs.update(content)
    else:
        group.attrs["ome"] = {"version": "0.5", **content}


def _pixels(whole: Path) -> Path:
    return whole.with_name(f"{whole.name}.npy")


def damage(whole: Path, how: str, rng: np.random.Generator, room: Path) -> Path:
    """Write a damaged copy of an image into a folder, and return it."""
    path = room / "case.ome.zarr"
    shutil.copytree(whole, path)
    files = sorted(p for p in path.rglob("*") if p.is_file())
    documents = [p for p in files if p.name in DOCUMENTS and p.stat().st_size > 30]
    chunks = [p for p in files if p.name not in DOCUMENTS]
    part, _, name = how.partition(": ")
    if how == UNTOUCHED:
        return path
    if how in _WHOLE:
        _WHOLE[how](path, chunks, rng)
        return path
    chosen = documents if part == "metadata" else chunks
    damage_file(pick(rng, chosen), name, rng)
    return path


def _lose(_: Path, chunks: list[Path], rng: np.random.Generator) -> None:
    """Remove chunks, as a copy that broke off does."""
    for chunk in rng.permutation(np.array(chunks))[: int(rng.integers(1, 4))]:
        chunk.unlink()


def _put_objects(path: Path, _: list[Path], rng: np.random.Generator) -> None:
    """Hold Python objects, or use codecs that run what a chunk says."""
    shape = _array_of(path)[1]["shape"]
    shutil.rmtree(path / "0")
    ways: tuple[tuple[Any, dict[str, Any]], ...] = (
        (object, {"filters": [VLenBytes(), Pickle()]}),
        (object, {"filters": [Pickle()]}),
        ("S8", {}), ("U4", {}), ("bool", {}), ("complex64", {}), ("M8[s]", {}),
        ([("a", "u2"), ("b", "u1")], {}),
        ("uint16", {"filters": [Pickle()]}),
    )  # fmt: skip
    dtype, options = pick(rng, ways)
    meta = {
        "zarr_format": 2, "shape": shape, "chunks": shape, "order": "C", "fill_value": None,
        "compressor": None, "dtype": "|O" if dtype is object else _described(dtype),
        "filters": [f.get_config() for f in options.get("filters", ())] or None,
        "dimension_separator": "/",
    }  # fmt: skip
    for document in path.glob("zarr.json"):  # the group of an image of format 3
        ome = json.loads(document.read_text(encoding="utf-8"))["attributes"]["ome"]
        document.unlink()
        (path / ".zattrs").write_text(json.dumps(ome), encoding="utf-8")
        (path / ".zgroup").write_text('{"zarr_format": 2}', encoding="utf-8")
    (path / "0").mkdir()
    (path / "0" / ".zarray").write_text(json.dumps(meta), encoding="utf-8")
    chunk = path.joinpath("0", *["0"] * len(shape))
    chunk.parent.mkdir(parents=True)
    # what Python makes of it leaves a file that is looked for
    chunk.write_bytes(b"cposix\nmkdir\n(V" + str(path / _RAN).encode() + b"\ntR.")


_RAN = "code-ran"


def _described(dtype: Any) -> Any:
    made = np.dtype(dtype)
    return made.str if made.names is None else [list(field) for field in made.descr]


def _put_bomb(path: Path, chunks: list[Path], rng: np.random.Generator) -> None:
    """Let a chunk hold far more than it should, or be as large as it says."""
    described = json.dumps(_array_of(path)[1]).lower()
    big = np.zeros((_BOMB_SIDE, _BOMB_SIDE), np.uint8).tobytes()
    codecs = {"blosc": Blosc("zstd", 1), "gzip": GZip(1), "zlib": Zlib(1), "zstd": Zstd(1)}
    used = [codec for name, codec in codecs.items() if name in described]
    packed = (used or [Zlib(1)])[0].encode(big)
    pick(rng, chunks).write_bytes(packed)


def _resize(path: Path, _: list[Path], rng: np.random.Generator) -> None:
    """Say other chunks or another shape in the metadata than the files have."""
    document, content = _array_of(path)
    grid = content["chunk_grid"]["configuration"] if "chunk_grid" in content else content
    key = "chunk_shape" if "chunk_grid" in content else "chunks"
    sizes, key = pick(rng, ((grid, key), (content, "shape")))
    axis = -int(rng.integers(1, 3))
    factors = (0, -1, 0.5, 2, 3, 1000, 1e6, 1e9, 1 / 31)
    sizes[key][axis] = int(sizes[key][axis] * pick(rng, factors))
    document.write_text(json.dumps(content), encoding="utf-8")


def _array_of(path: Path) -> tuple[Path, dict[str, Any]]:
    """Return the document of the array of an image, and what it holds."""
    documents = (path / "0" / name for name in (".zarray", "zarr.json"))
    document = next(one for one in documents if one.exists())
    return document, json.loads(document.read_text(encoding="utf-8"))


_WHOLE: dict[str, Callable[[Path, list[Path], np.random.Generator], None]] = {
    _LOST: _lose, _OBJECTS: _put_objects, _BOMB: _put_bomb, _SIZES: _resize,
}  # fmt: skip


def read(path: Path, whole: Path, how: str, room: Path) -> Outcome:
    """Read a damaged image and judge what came of it."""
    os.chdir(room)
    try:
        outcome = read_image(path, room, _pixels(whole), _as_zarr)
    finally:
        if (path / _RAN).exists():
            os._exit(77)  # code of the image has run: a crash
    lost = how == _LOST or how.endswith(IN_ITS_PLACE)
    if outcome.verdict == OTHER and lost and not _files(whole) <= _files(path):
        return Outcome(FILLED, "a chunk is not there, and the format says that it is fill value")
    return outcome


def _files(image: Path) -> set[Path]:
    return {p.relative_to(image) for p in image.rglob("*") if p.is_file()}


def _as_zarr(path: Path, header: TiffHeader) -> NDArray[Any] | None:
    """(channels, rows, cols) of an image as the zarr library reads them."""
    import zarr

    group: Any = zarr.open_group(str(path), mode="r")
    attributes = dict(group.attrs)
    multiscale = attributes.get("ome", attributes)["multiscales"][0]
    axes = [axis["name"] for axis in multiscale["axes"]]
    array = np.asarray(group[multiscale["datasets"][0]["path"]])
    for axis in ("t", "z"):
        if axis in axes:
            array = array.take(0, axes.index(axis))
            axes.remove(axis)
    array = array if "c" in axes else array[None]
    return array.astype(header.dtype, copy=False)
