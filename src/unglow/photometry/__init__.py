"""Photometry: how much brighter post is than pre, from statistics streamed over aligned pixels."""

from __future__ import annotations

from unglow.photometry.bins import BinSamples
from unglow.photometry.histogram import DifferenceHistogram
from unglow.photometry.scale import Evidence, MethodResult, Scale, ScaleSettings, estimate
from unglow.photometry.statistics import JointStatistics

__all__ = [
    "BinSamples",
    "DifferenceHistogram",
    "Evidence",
    "JointStatistics",
    "MethodResult",
    "Scale",
    "ScaleSettings",
    "estimate",
]
