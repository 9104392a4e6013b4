"""The stage: from stores to candidates.csv, candidates.geojson and detection.json."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.digests import of_file
from unglow.core.errors import InputError
from unglow.core.files import write_json
from unglow.core.own_memory import release_freed
from unglow.core.progress import step
from unglow.detection.candidate_table import LISTED, write_csv, write_geojson
from unglow.detection.completeness import completeness
from unglow.detection.search import SearchResult, search
from unglow.detection.section_mask import Section
from unglow.detection.sizes import DETECT_TILE
from unglow.io.search_counts import SearchCounts
from unglow.io.zarr import state_key
from unglow.io.zarr.band_results import BandResult
from unglow.io.zarr.band_writer import leftovers
from unglow.io.zarr.chunk_cache import ChunkCache

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from unglow.detection.false_discovery import Controls
    from unglow.detection.settings import DetectSettings
    from unglow.detection.snr import Scene
    from unglow.io.zarr.band_results import BandResults
    from unglow.io.zarr.bands import Band
    from unglow.photometry.difference import Image
    from unglow.review.polygons import Region
    from unglow.workflow.stages.detect_inputs import DetectInputs

# Two rows of chunks of all but the widest of images whose windows share chunks; some 40 MB.
_KEPT = 16


def detect(
    inputs: DetectInputs,
    settings: DetectSettings,
    targets: Mapping[str, Path],
    *,
    version: int,
    workers: int,
    controls: Controls | None = None,
    is_control: bool = False,
    band_results: BandResults | None = None,
) -> int:
    """Search a pair and write the candidates; a refused pair gets marked files without any.

    Parameters
    ----------
    inputs, settings
        The pair, and what to look for.
    targets
        Paths of ``table`` (CSV), ``geojson``, ``report`` (JSON) and ``search_counts``
        (`unglow.io.search_counts`).
    version
        Of the algorithm, as the rule has it.
    workers
        Tiles in flight.
    controls
        What was found in unstained controls of the pair's dye, if there are some.
    is_control
        Whether the pair is such a control itself.
    band_results
        What `detect_band` has left for all bands; nothing is searched here then.

    Returns
    -------
    The number of rows of the table.
    """
    report: dict[str, Any] = {
        "version": version,
        "method": inputs.scale.default,
        "settings": asdict(settings),
        "is_control": is_control,
    }
    try:
        scene = inputs.scene(settings)
    except InputError as refusal:
        _remove_leftovers(targets, band_results)
        reason = str(refusal)
        report |= {"status": "failed", "reason": reason}
        properties = {"candidates": None, "reason": reason}
        _write(targets, np.zeros(0, LISTED), properties, report, SearchCounts.refused(reason))
        return 0
    section = _outline(inputs.aligned, scene.excluded)
    if band_results is None:
        result = search(scene, section, controls=controls, regions=inputs.regions, workers=workers)
    else:
        empty = SearchResult.empty(settings, scene.post.shape, controls, inputs.regions)
        result = _joined(band_results, empty)
    listed = result.listed()
    report |= {"status": "ok", "reason": None, **result.report(inputs.post.pixel_size_um)}
    report["completeness"] = None
    if result.threshold is not None:
        # tiles have gone, and left room for chunks that the windows of trials share
        tried = scene if band_results is not None else _cached(scene, inputs)
        positions = np.stack([listed["x"], listed["y"]], axis=1)
        found = completeness(
            tried, section, positions, result.threshold, inputs.difference.digest, workers=workers
        )
        report["completeness"] = None if found is None else found.to_json()
    with step("write"):
        _write(targets, listed, geojson_properties(report), report, result.search_counts)
    _remove_leftovers(targets, band_results)
    return len(listed)


def detect_band(
    inputs: DetectInputs, settings: DetectSettings, band: Band, key: str, *, workers: int
) -> BandResult:
    """Search one band of a pair; parameters as for `detect`, ``key`` by `key_of`."""
    try:
        scene = inputs.scene(settings)
    except InputError as refusal:
        return BandResult(band, key, reason=str(refusal))
    section = _outline(inputs.aligned, scene.excluded)
    found = search(scene, section, regions=inputs.regions, workers=workers, band=band)
    return BandResult(band, key, arrays=found.part)


def key_of(files: Mapping[str, Any], settings: DetectSettings, version: int) -> str:
    """Return what the search of a band follows from; ``files`` as for `DetectInputs.open`.

    They have ``regions`` too: a file, or none.
    """
    names = (
        *("post", "pre", "aligned", "transform", "displacement", "scale", "gain_map"),
        "difference",
    )
    paths = [*(files[name] for name in names), *files["regions"]]
    digests = [of_file(Path(path)) for path in paths]
    # bands of rows of other tiles do not fit together
    return state_key("detect", version, DETECT_TILE, asdict(settings), digests)


@step("section")
def _outline(aligned: Image, excluded: tuple[Region, ...]) -> Section:
    """Find the section; what that took is free for the tiles then."""
    section = Section.of(aligned)
    release_freed()
    return replace(section, excluded=excluded)


def _remove_leftovers(targets: Mapping[str, Path], band_results: BandResults | None) -> None:
    """Remove what an interrupted run with other bands has left."""
    bands = 0 if band_results is None else len(band_results.paths)
    for path in leftovers(targets["table"], bands):
        path.unlink(missing_ok=True)


def _cached(scene: Scene, inputs: DetectInputs) -> Scene:
    """Return a scene whose images keep the chunks that were read last, `_KEPT` of each."""
    post, pre, difference = (
        ChunkCache(image, _KEPT) for image in (inputs.post, inputs.aligned, inputs.difference)
    )
    return replace(scene, post=post, pre=pre, difference=difference)


@step("join")
def _joined(band_results: BandResults, result: SearchResult) -> SearchResult:
    """Put together what bands have found, from an empty result on."""
    for band_result in band_results:
        result.add(band_result.arrays)
        result.settle()
    result.finish()
    return result


def geojson_properties(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of the GeoJSON as a whole, of a report."""
    names = (
        *("candidates", "not_counted", "fdr", "fdr_control", "fdr_control_ci95"),
        *("threshold_snr", "density_per_mm2"),
    )
    return {name: report[name] for name in names}


def _write(
    targets: Mapping[str, Path],
    listed: NDArray[np.void],
    properties: Mapping[str, Any],
    report: Mapping[str, Any],
    search_counts: SearchCounts,
) -> None:
    write_csv(targets["table"], listed)
    write_geojson(targets["geojson"], listed, properties)
    write_json(targets["report"], report)
    search_counts.save(targets["search_counts"])
