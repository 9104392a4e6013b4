"""Candidates: what is left of post that neither noise nor an error of the map explains."""

from __future__ import annotations

from unglow.detection.controls import Controls
from unglow.detection.image import write_snr
from unglow.detection.inputs import open_inputs
from unglow.detection.settings import DetectSettings
from unglow.detection.stage import detect, detect_band, key_of

__all__ = [
    "Controls",
    "DetectSettings",
    "detect",
    "detect_band",
    "key_of",
    "open_inputs",
    "write_snr",
]
