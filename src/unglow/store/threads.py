"""Keeping the threads of the libraries below the store to what the caller asked for."""

from __future__ import annotations

import os
import sys

from numcodecs import blosc  # type: ignore[import-untyped]


def configure_threads(n: int) -> None:
    """Limit Blosc to the calling thread, and Zarr to ``n`` threads where something else uses it.

    The store itself needs no Zarr: its parallelism is that of the threads which call it. Call this
    once, before any thread is started.

    Parameters
    ----------
    n
        Threads that a job may use, at least 1.

    Raises
    ------
    ValueError
        If ``n`` is less than 1.
    """
    if n < 1:
        raise ValueError(f"a job needs at least one thread, not {n}")
    blosc.use_threads = False
    blosc.set_nthreads(1)
    # Zarr reads these when it is imported (a reader of TIFF or SpatialData may do so later).
    os.environ["ZARR_THREADING__MAX_WORKERS"] = str(n)
    os.environ["ZARR_ASYNC__CONCURRENCY"] = str(n)
    if "zarr" in sys.modules:
        import zarr  # noqa: PLC0415 (0.1 s and 12 MB that most jobs do not need)

        zarr.config.set({"threading.max_workers": n, "async.concurrency": n})
