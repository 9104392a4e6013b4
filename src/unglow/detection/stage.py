"""The stage: from stores to candidates.csv, candidates.geojson and detection.json."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.detection.completeness import completeness
from unglow.detection.inputs import scene_of
from unglow.detection.measure import MEASURED
from unglow.detection.search import search
from unglow.detection.section import Section
from unglow.detection.table import write_csv, write_geojson
from unglow.errors import InputError
from unglow.files import write_json
from unglow.tally import Tally
from unglow.telemetry import step

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unglow.detection.controls import Controls
    from unglow.detection.settings import DetectSettings
    from unglow.photometry import Scale
    from unglow.store import Store
    from unglow.transform import Transform

VERSION = 3


def detect(
    stores: Mapping[str, Store],
    scale: Scale,
    transform: Transform,
    settings: DetectSettings,
    targets: Mapping[str, Path],
    *,
    workers: int,
    controls: Controls | None = None,
    is_control: bool = False,
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
        Paths of ``table`` (CSV), ``geojson``, ``report`` (JSON) and ``tally`` (`unglow.tally`).
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
    said = {
        "version": VERSION,
        "method": scale.default,
        "settings": asdict(settings),
        "is_control": is_control,
    }
    try:
        scene = scene_of(stores, scale, transform, settings)
    except InputError as refusal:
        return _write_nothing(targets, said, str(refusal))
    with step("section"):
        section = Section.of(stores["aligned"])
    found = search(scene, section, controls=controls, workers=workers)
    report = found.report(stores["post"].pixel_size_um)
    listed, fdr = found.listed()
    report["completeness"] = None
    if found.threshold is not None:
        known = np.stack([listed["x"], listed["y"]], axis=1)
        missed = completeness(
            scene, section, known, found.threshold, stores["difference"].digest, workers=workers
        )
        report["completeness"] = None if missed is None else missed.to_json()
    rates = fdr, found.listed_by_controls()
    with step("write"):
        write_csv(targets["table"], listed, *rates)
        write_geojson(targets["geojson"], listed, properties(report), *rates)
        write_json(targets["report"], {**said, "status": "ok", "reason": None, **report})
        found.tally.save(targets["tally"])
    return len(listed)


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
    Tally.refused(reason).save(targets["tally"])
    return 0
