"""The stage: from stores to candidates.csv, candidates.geojson and detection.json."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.allocator import release_freed
from unglow.core.errors import InputError
from unglow.core.files import write_json
from unglow.core.progress import step
from unglow.detection.candidate_table import write_csv, write_geojson
from unglow.detection.completeness import completeness
from unglow.detection.search import nothing_yet, search
from unglow.detection.section_mask import Section
from unglow.detection.sizes import DETECT_TILE
from unglow.detection.source_photometry import MEASURED
from unglow.io.search_counts import SearchCounts
from unglow.io.zarr import state_key
from unglow.io.zarr.band_results import BandResult
from unglow.io.zarr.band_writer import leftovers
from unglow.io.zarr.chunk_cache import ChunkCache
from unglow.workflow.stages.detect_inputs import scene_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unglow.detection.false_discovery import Controls
    from unglow.detection.search import Candidates
    from unglow.detection.settings import DetectSettings
    from unglow.detection.snr import Scene
    from unglow.io.zarr.band_results import BandResults
    from unglow.io.zarr.bands import Band
    from unglow.photometry.difference import Image
    from unglow.photometry.gain.scale import Scale
    from unglow.transform import Transform

VERSION = 3
# Two rows of chunks of all but the widest of images whose windows share chunks; some 40 MB.
_KEPT = 16


def detect(
    stores: Mapping[str, Image],
    scale: Scale,
    transform: Transform,
    settings: DetectSettings,
    targets: Mapping[str, Path],
    *,
    workers: int,
    controls: Controls | None = None,
    is_control: bool = False,
    pieces: BandResults | None = None,
) -> int:
    """Search a pair and write what was found; a refused pair gets marked files without candidates.

    Parameters
    ----------
    stores
        ``post``, ``pre``, ``aligned`` (pre) and the ``difference`` of the default method.
    scale, transform
        What made the difference, and the map with its error.
    settings
        What to look for.
    targets
        Paths of ``table`` (CSV), ``geojson``, ``report`` (JSON) and ``tally``
        (`unglow.io.search_counts`).
    workers
        Tiles in flight.
    controls
        What was found in unstained controls of the pair's dye, if there are some.
    is_control
        Whether the pair is such a control itself.
    pieces
        What `detect_band` has left for all bands; nothing is searched here then.

    Returns
    -------
    The number of rows of the table.
    """
    said = {
        "version": VERSION,
        "method": scale.default,
        "settings": asdict(settings),
        "is_control": is_control,
    }
    try:
        scene = scene_of(stores, scale, transform, settings)
    except InputError as refusal:
        _tidy(targets, pieces)
        return _write_nothing(targets, said, str(refusal))
    section = _outline(stores["aligned"])
    if pieces is None:
        found = search(scene, section, controls=controls, workers=workers)
    else:
        found = _joined(pieces, settings, scene.post.shape, controls)
    report = found.report(stores["post"].pixel_size_um)
    listed, fdr = found.listed()
    report["completeness"] = None
    if found.threshold is not None:
        # tiles have gone, and left room for chunks that the windows of trials share
        tried = scene if pieces is not None else _cached(scene, stores)
        known = np.stack([listed["x"], listed["y"]], axis=1)
        missed = completeness(
            tried, section, known, found.threshold, stores["difference"].digest, workers=workers
        )
        report["completeness"] = None if missed is None else missed.to_json()
    rates = fdr, found.listed_by_controls()
    with step("write"):
        write_csv(targets["table"], listed, *rates)
        write_geojson(targets["geojson"], listed, properties(report), *rates)
        write_json(targets["report"], {**said, "status": "ok", "reason": None, **report})
        found.tally.save(targets["tally"])
    _tidy(targets, pieces)
    return len(listed)


def detect_band(
    stores: Mapping[str, Image],
    scale: Scale,
    transform: Transform,
    settings: DetectSettings,
    band: Band,
    key: str,
    *,
    workers: int,
) -> BandResult:
    """Search one band of a pair; parameters as for `detect`, ``key`` by `key_of`."""
    try:
        scene = scene_of(stores, scale, transform, settings)
    except InputError as refusal:
        return BandResult(band, key, reason=str(refusal))
    section = _outline(stores["aligned"])
    found = search(scene, section, workers=workers, band=band)
    return BandResult(band, key, arrays=found.counts)


def key_of(files: Mapping[str, Any], settings: DetectSettings) -> str:
    """Return what the search of a band follows from; ``files`` as for `open_inputs`."""
    names = (
        *("post", "pre", "aligned", "transform", "displacement", "scale", "gain_map"),
        "difference",
    )
    digests = [hashlib.sha256(Path(files[name]).read_bytes()).hexdigest() for name in names]
    # bands of rows of other tiles do not fit together
    return state_key("detect", VERSION, DETECT_TILE, asdict(settings), digests)


@step("section")
def _outline(aligned: Image) -> Section:
    """Find the section; what that took is free for the tiles then."""
    section = Section.of(aligned)
    release_freed()
    return section


def _tidy(targets: Mapping[str, Path], pieces: BandResults | None) -> None:
    """Remove what an interrupted run with other bands has left."""
    for path in leftovers(targets["table"], 0 if pieces is None else len(pieces.paths)):
        path.unlink(missing_ok=True)


def _cached(scene: Scene, stores: Mapping[str, Image]) -> Scene:
    """Return a scene whose images keep the chunks that were read last, `_KEPT` of each."""
    post, pre, left = (
        ChunkCache(stores[name], _KEPT) for name in ("post", "aligned", "difference")
    )
    return replace(scene, post=post, pre=pre, difference=left)


@step("join")
def _joined(
    pieces: BandResults, settings: DetectSettings, shape: tuple[int, int], controls: Controls | None
) -> Candidates:
    """Put together what bands have found."""
    found = nothing_yet(settings, shape, controls)
    for piece in pieces:
        found.merge_counts(piece.arrays)
    found.finish()
    return found


def properties(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the GeoJSON as a whole says, of a report."""
    names = (
        *("candidates", "not_counted", "fdr", "fdr_control", "fdr_control_ci95"),
        *("threshold_snr", "density_per_mm2"),
    )
    return {name: report[name] for name in names}


def _write_nothing(targets: Mapping[str, Path], said: Mapping[str, Any], reason: str) -> int:
    """Write files that say why there are no candidates."""
    nothing, none = np.zeros(0, MEASURED), np.zeros(0)
    write_csv(targets["table"], nothing, none)
    write_geojson(targets["geojson"], nothing, {"candidates": None, "reason": reason}, none)
    write_json(targets["report"], {**said, "status": "failed", "reason": reason})
    SearchCounts.refused(reason).save(targets["tally"])
    return 0
