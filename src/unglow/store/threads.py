"""Keeping the threads of the libraries below the store to what the caller asked for."""

from __future__ import annotations


def configure_threads(n: int) -> None:
    """Give Zarr ``n`` threads and keep Blosc to the thread that calls it.

    All threads of a process share Zarr's event loop and the ``n`` threads that compress and read
    for it. Call this before the first store is used: Zarr starts its threads only once. Otherwise
    it has one, or as many as the environment's ``ZARR_THREADING__MAX_WORKERS``.

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
    import zarr  # noqa: PLC0415 (0.2 s that a parse of the workflow need not spend)
    from numcodecs import blosc  # noqa: PLC0415 (likewise)

    # Blosc's own threads are shared by the whole process: callers would wait for each other.
    blosc.use_threads = False
    blosc.set_nthreads(1)
    zarr.config.set({"threading.max_workers": n, "async.concurrency": n})
