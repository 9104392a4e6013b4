"""The stage: from stores to candidates.csv, candidates.geojson and detection.json."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError
from unglow.core.files import write_json
from unglow.core.own_memory import release_freed
from unglow.core.progress import step
from unglow.core.reasons import from_json, split_notes, to_json
from unglow.core.records import to_plain
from unglow.detection.completeness import measure_completeness
from unglow.detection.search import search
from unglow.detection.section_mask import Section
from unglow.detection.source_photometry import LISTED, UNCLEAR, UNCOUNTED, write_csv, write_geojson
from unglow.detection.spot_width import measure_width
from unglow.detection.warnings import (
    check_width,
    search_warnings,
    warn_of_dirt,
    warn_of_lines,
)
from unglow.images.detection_results import SearchCounts
from unglow.images.zarr.reader import ChunkCache
from unglow.spoilt.outlines import report as spoilt_report
from unglow.spoilt.outlines import write_places
from unglow.spoilt.places import Places
from unglow.spoilt.seams import describe_seams

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.detection.rates import Controls
    from unglow.detection.settings import DetectSettings
    from unglow.detection.snr import Scene
    from unglow.photometry.difference import Image
    from unglow.review.polygons import Region
    from unglow.stages.snr import DetectInputs

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
) -> int:
    """Search a pair and write the candidates; a refused pair gets marked files without any.

    Parameters
    ----------
    inputs, settings
        The pair, and what to look for.
    targets
        Paths of ``table`` (CSV), ``geojson``, ``artefacts`` (GeoJSON of spoilt places), ``report``
        (JSON) and ``search_counts`` (`unglow.images.detection_results`).
    version
        Of the algorithm, as the rule has it.
    workers
        Tiles in flight.
    controls
        What was found in unstained controls of the pair's dye, if there are some.
    is_control
        Whether the pair is such a control itself.

    Returns
    -------
    The number of rows of the table.
    """
    report: dict[str, Any] = {
        "version": version,
        "method": inputs.scale.default,
        "settings": to_plain(settings),
        "is_control": is_control,
    }
    try:
        scene = inputs.scene(settings)
    except InputError as refusal:
        reason = str(refusal)
        report |= {"status": "failed", "reason": reason}
        properties = {"candidates": None, "reason": reason}
        write_places(targets["artefacts"], Places.empty(), inputs.post.shape)
        _write(targets, np.zeros(0, LISTED), properties, report, SearchCounts.make_refused(reason))
        return 0
    section = _find_section(inputs.aligned, scene.excluded)
    places, unclear = inputs.places(section, settings)
    scene = inputs.mask_places(scene, section, places, unclear)
    result = search(scene, section, controls=controls, regions=inputs.regions, workers=workers)
    listed = result.list_candidates()
    report |= {"status": "ok", "reason": None, **result.report(inputs.post.pixel_size_um)}
    report["spoilt"] = spoilt_report(places, inputs.post.shape)
    counted = listed[(listed["flags"] & UNCOUNTED) == 0]
    clear = counted[(counted["flags"] & UNCLEAR) == 0]  # dirt is as wide as it likes
    counted = clear if len(clear) else counted
    places_xy = np.stack([counted["x"], counted["y"]], axis=1)
    # tiles have gone, and left room for chunks that places and the windows of trials share
    tried = _keep_chunks(scene, inputs)
    width_px = measure_width(tried.difference, places_xy, counted["snr"])
    report["spot_width_px"] = width_px
    steps, levels = inputs.grey_steps, inputs.dark_levels(section)
    reasons = [
        *search_warnings(result, places, scene, steps, levels),
        *warn_of_dirt(places, unclear, listed),
        *warn_of_lines(listed, settings.fwhm_px),
        *describe_seams(places.seams.lines, "post"),
        *from_json(inputs.aligned.attributes.get("seams", ())),
        *inputs.explain_masked(section, result.numbers["lacking"]),
        *check_width(width_px, settings.fwhm_px),
    ]
    report["reasons"], report["notes"] = map(to_json, split_notes(reasons))
    report["completeness"] = None
    if result.threshold is not None:
        positions = np.stack([listed["x"], listed["y"]], axis=1)
        found = measure_completeness(
            tried, section, positions, result.threshold, inputs.difference.digest, workers=workers
        )
        report["completeness"] = None if found is None else found.to_json()
    with step("write"):
        write_places(targets["artefacts"], places, inputs.post.shape)
        _write(targets, listed, geojson_properties(report), report, result.search_counts)
    return len(listed)


@step("section")
def _find_section(aligned: Image, excluded: tuple[Region, ...]) -> Section:
    """Find the section; what that took is free for the tiles then."""
    section = Section.from_pixels(aligned)
    release_freed()
    return replace(section, excluded=excluded)


def _keep_chunks(scene: Scene, inputs: DetectInputs) -> Scene:
    """Return a scene whose images keep the chunks that were read last, `_KEPT` of each."""
    post, pre, difference = (
        ChunkCache(image, _KEPT) for image in (inputs.post, inputs.aligned, inputs.difference)
    )
    return replace(scene, post=post, pre=pre, difference=difference)


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
