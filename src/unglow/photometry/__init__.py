"""Photometry: how much brighter post is than pre, from statistics streamed over aligned pixels."""

from __future__ import annotations

from unglow.photometry.background import BackgroundMedians
from unglow.photometry.bins import BinSamples
from unglow.photometry.blur import Blur
from unglow.photometry.gain_map import GainMap
from unglow.photometry.histogram import DifferenceHistogram
from unglow.photometry.matching import Images, estimate_matched
from unglow.photometry.methods import Evidence, estimate
from unglow.photometry.scale import MethodResult, Scale, ScaleSettings
from unglow.photometry.statistics import JointStatistics

__all__ = [
    "BackgroundMedians",
    "BinSamples",
    "Blur",
    "DifferenceHistogram",
    "Evidence",
    "GainMap",
    "Images",
    "JointStatistics",
    "MethodResult",
    "Scale",
    "ScaleSettings",
    "estimate",
    "estimate_matched",
]
