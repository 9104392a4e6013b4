"""Defects of cameras, stages and files: at most 8 % of a list is false, or a reason says why."""

from __future__ import annotations

import numpy as np
import pytest
import tifffile

from unglow.core.archive import pack
from unglow.core.reasons import from_json
from unglow.core.windows import Window
from unglow.detection.settings import DetectSettings
from unglow.io.detection_results import read_candidates
from unglow.phantom.pair import make_truth
from unglow.phantom.render import Renderer
from unglow.phantom.spec import PhantomSpec
