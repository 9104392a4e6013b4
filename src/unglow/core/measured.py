"""Numbers that change with libraries and machines: `benchmarks/libraries.py measure` writes them.

Rules that do the same share a key (`unglow.workflow.stage_table.measured_as`).
"""

from __future__ import annotations

# Measured 2026-11-28 on AMD EPYC, 2 processors, Linux-6.18.44-fc-v595-x86_64-with-glibc2.36, Python
# 3.11.7, with a load of 14.0.
# Newest versions: imagecodecs 2026.3.6, matplotlib 3.11.2, numpy 2.4.6, opencv-python-headless
# 5.0.0.93, psutil 7.2.2, sep 1.4.1, snakemake 9.27.1, tensorstore 0.1.86, tifffile 2026.3.3, zarr
# 3.1.6.
# Oldest versions: imagecodecs 2025.8.2, matplotlib 3.10.0, numpy 2.2.0, opencv-python-headless
# 4.11.0.86, psutil 7.1.0, sep 1.4.0, snakemake 9.17.0, tensorstore 0.1.86, tifffile 2025.10.4, zarr
# 3.1.3.
# And 1 MB each for msgspec 0.22.0, which took 0.6 of it.
LIBRARIES_MB: dict[str, float] = {
    "ingest": 60.0,
    "export": 61.0,
    "register": 100.0,
    "align": 55.0,
    "figures": 91.0,
    "scale": 63.0,
    "difference": 57.0,
    "detect": 112.0,
    "snr": 102.0,
    "slide_register": 108.0,
    "slide_scale": 114.0,
    "slide_subtract": 63.0,
    "slide_figures": 91.0,
    "summary": 56.0,
}
"""Memory of a job that has imported what it needs, MB: private, and pages of libraries."""

# Measured 2026-11-27 on AMD EPYC, 2 processors, Linux-6.18.44-fc-v657-x86_64-with-glibc2.36, Python
# 3.11.7, with a load of 1.8.
# Newest versions: imagecodecs 2026.3.6, matplotlib 3.11.2, numcodecs 0.16.6, numpy 2.4.6,
# opencv-python-headless 5.0.0.93, psutil 7.2.2, sep 1.4.1, snakemake 9.27.1, tifffile 2026.3.3,
# zarr 3.1.6.
SECONDS: dict[str, tuple[float, float]] = {
    "ingest": (0.49, 0.008),
    "export": (0.11, 0.017),
    "register": (1.3, 0.013),
    "align": (0.33, 0.029),
    "figures": (0.97, 0.0),
    "scale": (0.72, 0.0086),
    "difference": (0.12, 0.027),
    "detect": (0.69, 0.055),
    "snr": (0.1, 0.096),
    "slide_register": (2.3, 0.11),
    "slide_scale": (1.2, 0.084),
    "slide_subtract": (0.44, 0.04),
    "slide_figures": (0.97, 0.0),
    "summary": (0.1, 0.0),
}
"""Time that a job takes on one processor, s: however small images are, and for each million px."""
