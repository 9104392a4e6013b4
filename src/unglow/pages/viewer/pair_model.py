"""A pair as JSON for a page: its parts, its tables and its field."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from unglow import __version__
from unglow.core.files import parse_whole
from unglow.core.levels import LEVELS
from unglow.core.reasons import DETAILS, can_landmarks_help
from unglow.images.detection_results import read_candidates
from unglow.pages.report.report import to_json
from unglow.pages.viewer.layers import registration_model
from unglow.pages.viewer.served_files import UNREADABLE, sentence_of
from unglow.registration.block_table import BLOCK_DTYPE, read_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.pages.viewer.layers import Pair
    from unglow.pages.viewer.slide_layers import AnyLayers
    from unglow.photometry.gain.scale import Scale
    from unglow.transform import Transform

    Column: TypeAlias = NDArray[np.float64] | Sequence[str]

_MOST_ARROWS = 2500
# Long lists of detection.json, which a page does not show.
_LONG = ("by_threshold", "completeness", "brightest_negatives")
# Rows of a table that are text at a time.
_ROWS = 1000
_ROW_KEYS = (*LEVELS, "status", "outdated")
_METHOD_KEYS = ("gain", "offset", "gain_ci95", "offset_ci95", "reason")
# States of a pair whose search for candidates has no result.
_WITHOUT_RESULT = ("failed", "skipped")
_HELP = "Mark the same three places in both images (tab Landmarks), save them, and run again."


def pair_list(pairs: Iterable[Pair]) -> list[dict[str, Any]]:
    """Return all pairs for a page, in their order."""
    return [
        {
            "id": pair.id,
            "title": pair.title,
            **{key: str(pair.row.get(key) or "") for key in _ROW_KEYS},
            "reasons": _reasons(pair),
            "candidates": _parse_count(pair.row.get("candidates")),
            "failed": pair.row.get("status") in _WITHOUT_RESULT,
        }
        for pair in pairs
    ]


def pair_model(
    pair: Pair, layers: AnyLayers, pairs: Iterable[Pair], run_version: str
) -> dict[str, Any]:
    """Return a pair for a page, as JSON types.

    Parameters
    ----------
    pair, layers
        The pair, or variant, and what it has to show.
    pairs
        All of the results directory.
    run_version
        Of the unglow that made the results; empty if that is not known.
    """
    transform, detection = layers.transform, layers.detection
    status = str(pair.row.get("status") or "")
    shown, problems = _select_shown(layers)
    post, pre = (_about_store(layers, name) for name in ("post", "pre"))
    return {
        "id": pair.id,
        "title": pair.title,
        "sample": pair.names[0],
        "dye": "" if pair.is_slide else pair.names[1],
        "live": True,
        "status": status,
        "outdated": str(pair.row.get("outdated") or ""),
        "reasons": [*_reasons(pair), *problems],
        DETAILS: pair.row.get(DETAILS, []),
        "help": _HELP if shown and transform and can_landmarks_help(transform.reasons) else "",
        "pixel_size_um": post[1],
        "shape": post[0] or (transform and list(transform.post_shape)),
        "pre_shape": pre[0] or (transform and list(transform.pre_shape)),
        "layers": shown,
        "matrix": None if transform is None else transform.to_dict()["matrix"],
        "registration": None if transform is None else registration_model(transform),
        "scale": None if layers.scale is None else _scale(layers.scale),
        "detection": detection and {k: v for k, v in detection.items() if k not in _LONG},
        "versions": {"unglow": run_version or __version__, "viewer": __version__},
        "variants": [p.id for p in pairs if p.names[:2] == pair.names[:2] and p.id != pair.id],
        **layers.about(),
    }


def _select_shown(layers: AnyLayers) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the layers, and a sentence for each that cannot be shown, which it also has itself."""
    shown, problems = [], []
    for layer in layers.all.values():
        about = {**layer.about(), "place": layers.place_of(layer)}
        try:
            layer.open()
        except UNREADABLE as error:
            about["problem"] = sentence_of(error)
            problems.append(sentence_of(error))
        shown.append(about)
    return shown, list(dict.fromkeys(problems))


def _about_store(layers: AnyLayers, name: str) -> tuple[list[int] | None, list[float] | None]:
    """Return shape (rows, columns) and pixel size (x, y) of an image; None for what is unknown."""
    try:
        store = layers.store(name)
    except UNREADABLE:
        return None, None
    size = store.pixel_size_um
    return list(store.shape), None if size is None else list(size)


def _reasons(pair: Pair) -> list[str]:
    reasons = str(pair.row.get("reasons") or "")
    return [reasons] if reasons else []


def _parse_count(text: object) -> int | None:
    return parse_whole(str(text))


def _scale(scale: Scale) -> dict[str, Any]:
    methods = {
        name: {key: getattr(result, key) for key in _METHOD_KEYS}
        for name, result in scale.methods.items()
    }
    about = {key: getattr(scale, key) for key in ("default", "reasons", "notes")}
    return {**about, "methods": methods}


def candidates_json(path: Path, detection: Mapping[str, Any] | None) -> bytes:
    """Return candidates.csv as JSON: numbers, null for empty cells; ``flags`` are text.

    ``negatives`` are those that ``detection`` (detection.json) lists. InputError if the table is
    damaged; no rows if there is none.
    """
    negatives = to_json((detection or {}).get("brightest_negatives", []))
    if not path.is_file():
        return f'{{"columns": [], "rows": [], "negatives": {negatives}}}'.encode()
    found = read_candidates(path)
    names = [*found.numbers, "flags"]
    columns: list[Column] = [*found.numbers.values(), found.flags]
    return _table(names, columns, len(found), f',"negatives":{negatives}')


def blocks_json(path: Path) -> bytes:
    """Return blocks.csv as JSON, ``used`` and ``held_out`` as 0 or 1; no rows if there is none."""
    if not path.is_file():
        return b'{"columns": [], "rows": []}'
    blocks = read_blocks(path)
    names = BLOCK_DTYPE.names or ()
    return _table(names, [blocks[name].astype(float) for name in names], len(blocks))


def arrows(transform: Transform | None) -> dict[str, Any]:
    """Return the displacement field of a map at points of a regular grid over post.

    Returns
    -------
    ``spacing_px`` of the grid and ``points``: x and y in post, and what the field adds there to
    where the matrix leads (x and y), px of pre; none if there is no field.
    """
    field = None if transform is None else transform.displacement
    if transform is None or field is None:
        return {"spacing_px": 0, "points": []}
    rows, cols = transform.post_shape
    spacing = max(1, math.ceil(math.sqrt(rows * cols / _MOST_ARROWS)))
    y, x = (np.arange((spacing - 1) / 2, max(n, spacing), spacing) for n in (rows, cols))
    at = np.stack([a.ravel() for a in np.meshgrid(x, y)], axis=1)
    numbers = np.column_stack([at, field.evaluate(at)]).round(4)
    return {"spacing_px": spacing, "points": numbers.tolist()}


def _table(names: Sequence[str], columns: Sequence[Column], count: int, more: str = "") -> bytes:
    """Return a table as JSON, made some rows at a time: as objects they take ten times it."""
    pieces = bytearray(f'{{"columns":{to_json(list(names))},"rows":['.encode())
    for part in _rows(columns, count):
        pieces += (b"," if pieces[-1:] == b"]" else b"") + to_json(part)[1:-1].encode()
    pieces += f"]{more}}}".encode()
    return bytes(pieces)


def _rows(columns: Sequence[Column], count: int) -> Iterator[list[list[Any]]]:
    for begin in range(0, count, _ROWS):
        parts = [column[begin : begin + _ROWS] for column in columns]
        lists = [_plain(p) if isinstance(p, np.ndarray) else list(p) for p in parts]
        yield [list(row) for row in zip(*lists, strict=True)]


def _plain(values: NDArray[np.float64]) -> Sequence[float | int | None]:
    """Return numbers as JSON has them: integers without a point, None for NaN."""
    return [int(v) if v.is_integer() else v if v == v else None for v in values.tolist()]  # noqa: PLR0124
