"""Columns of the summary that both pairs and markers of slides have."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from unglow.core.rounding import Measured, ends, share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unglow.photometry.difference_histogram import DifferenceHistogram
    from unglow.photometry.gain.scale import Scale
    from unglow.transform import Transform


def registration_columns(transform: Transform) -> dict[str, Any]:
    """Return what the map of a pair is, and how well it fits."""
    return {
        "model": transform.model_name,
        "rotation_deg": Measured(transform.rotation_deg, math.degrees(transform.turn_error)),
        "scale": Measured(transform.scale, transform.turn_error),
        "shift_x_px": Measured(transform.shift_px[0], transform.error_px.median),
        "shift_y_px": Measured(transform.shift_px[1], transform.error_px.median),
        "residual_median_px": transform.residual_px.median,
        "residual_p95_px": transform.residual_px.p95,
        "error_median_px": transform.error_px.median,
        "error_p95_px": transform.error_px.p95,
        "inliers": transform.inliers,
        "blocks": transform.blocks,
        "overlap": transform.overlap,
    }


def scale_columns(
    scale: Scale, histogram: DifferenceHistogram | None, method: str
) -> dict[str, Any]:
    """Return gain and offset of a scale method, and what its difference has left."""
    chosen = scale.methods.get(method)
    if chosen is None or chosen.gain is None:
        return {"method": method}
    others = {
        m: (*ends(r.gain, r.gain_ci95), "failed")[0]
        for m, r in scale.methods.items()
        if m != method
    }
    return {
        "method": method,
        **interval_columns(("gain", "gain_low95", "gain_high95"), chosen.gain, chosen.gain_ci95),
        "offset": Measured.from_value(chosen.offset, half_width(chosen.offset_ci95)),
        "difference_median": histogram.median() if histogram else None,
        "difference_mad": histogram.mad() if histogram else None,
        "other_gains": ", ".join(f"{m} {gain}" for m, gain in others.items()),
    }


def spoilt_columns(detection: Mapping[str, Any]) -> dict[str, Any]:
    """Return what share of the section is spoilt and why, the largest part first.

    Nothing where spoilt places were not looked for, as in results of older versions. ``detection``
    is the content of detection.json.
    """
    spoilt = detection.get("spoilt")
    if spoilt is None or detection.get("settings", {}).get("spoilt") == "never":
        return {}
    parts = sorted(
        ((float(part["share"]), reason) for reason, part in spoilt["by_reason"].items()),
        key=lambda part: -part[0],
    )
    return {
        "spoilt_share": float(spoilt["share"]),
        "spoilt_reasons": ", ".join(f"{reason} {share(part)}" for part, reason in parts),
    }


def interval_columns(
    columns: Sequence[str], value: float | None, interval: Sequence[float] | None
) -> dict[str, float | None]:
    """Return a value and the ends of its 95 % interval, half of which is the error of all three."""
    numbers = (value, *(interval or (None, None)))
    error = half_width(interval)
    return {c: Measured.from_value(v, error) for c, v in zip(columns, numbers, strict=True)}


def half_width(interval: Sequence[float] | None) -> float | None:
    """Return half of the width of an interval; None without one."""
    return None if interval is None else abs(interval[1] - interval[0]) / 2
