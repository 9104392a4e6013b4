"""Numbers that change with libraries and machines: `benchmarks/libraries.py measure` writes them.

Rules that do the same share a key (`unglow.workflow.stage_table.measured_as`).
"""

from __future__ import annotations

# Measured 2026-11-26 on AMD EPYC, 2 processors, Linux-6.18.44-fc-v657-x86_64-with-glibc2.36, Python
# 3.11.7, with a load of 20.6.
# Newest versions: imagecodecs 2026.3.6, matplotlib 3.11.2, numcodecs 0.16.6, numpy 2.4.6,
# opencv-python-headless 5.0.0.93, psutil 7.2.2, sep 1.4.1, snakemake 9.27.1, tifffile 2026.3.3,
# zarr 3.1.6.
# Oldest versions: imagecodecs 2025.8.2, matplotlib 3.10.0, numcodecs 0.16.6, numpy 2.2.0,
# opencv-python-headless 4.11.0.86, psutil 6.1.0, sep 1.4.0, snakemake 9.17.0, tifffile 2025.10.4,
# zarr 3.1.3.
LIBRARIES_MB: dict[str, float] = {
    "ingest": 64.0,
    "export": 63.0,
    "register": 102.0,
    "align": 58.0,
    "scale": 65.0,
    "difference": 59.0,
    "detect": 105.0,
    "snr": 100.0,
    "figures": 93.0,
    "comparison": 93.0,
    "slide_register": 105.0,
    "slide_scale": 109.0,
    "slide_subtract": 61.0,
    "slide_figures": 90.0,
    "summary": 55.0,
}
"""Memory of a job that has imported what it needs, MB: private, and pages of libraries."""

# Measured by hand on two idle cores, in November 2026.
SECONDS: dict[str, tuple[float, float]] = {
    "ingest": (0.3, 0.014),
    "export": (0.3, 0.03),
    "register": (2.0, 0.012),
    "align": (0.4, 0.065),
    "scale": (1.6, 0.01),
    "difference": (0.3, 0.05),
    "detect": (0.7, 0.1),
    "snr": (0.4, 0.15),
    "figures": (1.8, 0.0),
    "comparison": (1.3, 0.0),
    "slide_register": (4.0, 0.08),
    "slide_scale": (2.0, 0.03),
    "slide_subtract": (2.0, 0.06),
    "slide_figures": (2.4, 0.0),
    "summary": (0.15, 0.0),
}
"""Time that a job takes on one processor, s: however small images are, and for each million px."""
