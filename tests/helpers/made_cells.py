"""What is counted of a pair of images, for fits that are tested on it."""

from __future__ import annotations

import numpy as np

from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.gain.estimate import Evidence
from unglow.photometry.joint_histogram import JointStatistics
from unglow.transform import Transform


def count_pair(post, pre, *, post_range=None, pre_range=None, integer=True):
    """Joint statistics of two images, in ranges that are their own if none are given."""
    ranges = {"post_range": post_range, "pre_range": pre_range}
    for name, image in (("post_range", post), ("pre_range", pre)):
        if ranges[name] is None:
            ranges[name] = float(np.nanmin(image)), float(np.nanmax(image))
    made = JointStatistics.create(**ranges, grey_level=1, integer=integer)
    made.add(post, pre)
    return made


def bin_pair(post, pre, tops=None):
    """Cells of two images, whose greatest values are ``tops``, their own if none are given."""
    tops = tops or (float(np.nanmax(post)), float(np.nanmax(pre)))
    made = CellMoments.create(post.shape, tops)
    made.add(post, pre)
    return made


def make_evidence(post, pre, transform=None):
    """Evidence of two images that lie on each other unless there is a map."""
    post, pre = post.astype(np.float32), pre.astype(np.float32)
    here = transform or Transform("ok", post.shape, post.shape, matrix=np.eye(3))
    return Evidence(count_pair(post, pre), bin_pair(post, pre), here)
