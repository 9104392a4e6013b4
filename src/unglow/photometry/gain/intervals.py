"""What confidence intervals rest on."""

from __future__ import annotations

STUDENT = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]
STUDENT += [2.201, 2.179, 2.160, 2.145, 2.131]
"""Two-sided 95 % points of Student's t for 1 to 15 degrees of freedom."""
