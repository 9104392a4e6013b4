"""One file, read as the workflow reads it: headers, then plan and ingest inside the memory limit.

Everything happens in a child of a process that has the libraries loaded already, so that a crash
is that of one file, and its memory is its own.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import logging
import os
import resource
import select
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tifffile

from unglow.core.errors import InputError
from unglow.core.windows import Window
from unglow.io.tiff import TiffHeader
from unglow.io.zarr import open_store
from unglow.jobs.memory_limit import is_memory_failure, lift_limit, process_mb, set_limit
from unglow.workflow import memory_model
from unglow.workflow.header_cache import HeaderCache, headers_of, layouts
from unglow.workflow.samples import Pair
from unglow.workflow.stages.ingest import SignalStore
from unglow.workflow.stages.ingest import signal as signal_of
from unglow.workflow.stages.plan import Plan, make_plan

if TYPE_CHECKING:
    from numpy.typing import NDArray

CRASH, HANG, OVER, ESCAPED = "crash", "hang", "too much memory", "no sentence"
WRONG = "wrong pixels"
REFUSED, SAME, OTHER, MAYBE = "refused", "same pixels", "other pixels", "other, not compared"
BAD = (CRASH, HANG, OVER, ESCAPED, WRONG)
VERDICTS = (*BAD, REFUSED, SAME, OTHER, MAYBE)
HANG_S = 10
# A job that declares more than this is refused before it starts, on a machine of 8 GB, MB.
MOST_MB = 8000.0
# Reading headers while the workflow is parsed is declared nowhere, MB.
PARSING_MB = 100.0
_BUDGET_MB, _THREADS = 2000, 1
_SETTINGS = {"series": None, "plane": {"z": 0, "t": 0}, "channel": "auto"}
# Largest image, px, that is compared with what tifffile reads.
_COMPARED_PX = 50_000_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict of `VERDICTS`, with what was said."""

    verdict: str
    text: str = ""


def preload(path: Path, target: Path) -> None:
    """Load what is imported only when a file is read, so that no child has to.

    Parameters
    ----------
    path, target
        A whole file, read in a child that tells what it has imported meanwhile.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            before = set(sys.modules)
            _read(path, target, None)
            os.write(writing, "\n".join(set(sys.modules) - before).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        names = told.read().split("\n")
    os.waitpid(pid, 0)
    shutil.rmtree(target.parent, ignore_errors=True)
    for name in names:
        if name:
            importlib.import_module(name)


def attempt(path: Path, target: Path, pixels: Path | None) -> Outcome:
    """Read a file in a child process.

    Parameters
    ----------
    path
        The file.
    target
        Where its store is written; removed again.
    pixels
        File with (channels, rows, cols) before the damage, if they are known.

    Returns
    -------
    What came of it.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        code = 1
        try:
            outcome = _in_child(path, target, pixels)
            os.write(writing, json.dumps([outcome.verdict, outcome.text[:1000]]).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    try:
        return _await(pid, reading)
    finally:
        os.close(reading)
        shutil.rmtree(target.parent, ignore_errors=True)


def _await(pid: int, reading: int) -> Outcome:
    """Return what a child says, or how it ended if it says nothing."""
    # Processor time is limited by the kernel; this is for one that waits for ever.
    ready, _, _ = select.select([reading], [], [], 6 * HANG_S)
    if not ready:
        os.kill(pid, signal.SIGKILL)
    said = os.read(reading, 1 << 16) if ready else b""
    _, status = os.waitpid(pid, 0)
    if said:
        return Outcome(*json.loads(said))
    ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if not ready or ended == signal.SIGXCPU:
        return Outcome(HANG, f"more than {HANG_S} s")
    return Outcome(CRASH, f"signal {ended}" if ended else "it ended without a word")


def _in_child(path: Path, target: Path, pixels: Path | None) -> Outcome:
    """In the child: parse, plan, ingest, look at what was written."""
    logging.disable()
    resource.setrlimit(resource.RLIMIT_CPU, (HANG_S, HANG_S + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        return _read(path, target, pixels)
    except InputError as error:
        return _refusal(path, str(error))
    except BaseException as error:  # noqa: BLE001 - that is what is looked for
        lift_limit()
        if is_memory_failure(error):
            return Outcome(OVER, f"beyond the limit: {error}")
        return Outcome(ESCAPED, f"{type(error).__name__}: {error}")


def _refusal(path: Path, sentence: str) -> Outcome:
    """Judge a refusal: one line that names the file and says what to do."""
    right = path.name in sentence and "\n" not in sentence and sentence.endswith(".")
    return Outcome(REFUSED if right else ESCAPED, sentence)


def _read(path: Path, target: Path, pixels: Path | None) -> Outcome:
    before = process_mb()["VmHWM"]
    pair = Pair("s", "d", path, path)
    cache = HeaderCache(target.parent / "headers.json")
    _, header = headers_of(pair, _SETTINGS, cache)
    header = TiffHeader.from_dict(json.loads(json.dumps(header.to_dict())))
    parsing = process_mb()["VmHWM"] - before
    if parsing > PARSING_MB:
        return Outcome(OVER, f"its headers took {parsing:.0f} MB")
    layout = layouts(header, header, "auto")["post"]
    planning = memory_model.plan((header, header)).peak_mb(_BUDGET_MB, _THREADS)
    ingesting = memory_model.ingest(header, layout).peak_mb(_BUDGET_MB, _THREADS)
    if max(planning, ingesting) > MOST_MB:
        return Outcome(REFUSED, f"preflight: it needs {max(planning, ingesting):.0f} MB")
    _forget_peak()
    set_limit(planning, _THREADS)
    plan = make_plan(header, header, channel="auto", dye="d")
    lift_limit()
    over = _over("plan", planning)
    if over is not None:
        return over
    plan.save(target.parent / "plan.json")
    plan = Plan.load(target.parent / "plan.json", {"post": path})
    _forget_peak()
    set_limit(ingesting, _THREADS)
    SignalStore(plan, "post", target).make(workers=1)
    lift_limit()
    over = _over("ingest", ingesting)
    return over if over is not None else _compare(path, target, plan, pixels)


def _forget_peak() -> None:
    """Start to measure the largest resident set anew, as in a process of its own."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _over(job: str, declared_mb: float) -> Outcome | None:
    peak = process_mb()["VmHWM"]
    if peak <= declared_mb:
        return None
    return Outcome(OVER, f"{job} took {peak:.1f} MB, {declared_mb:.0f} MB declared")


def _compare(path: Path, target: Path, plan: Plan, pixels: Path | None) -> Outcome:
    """Compare the store with the undamaged image, and else with what tifffile reads."""
    store = open_store(target)
    if store.empty is not None:
        return _refusal(path, store.empty)
    channels, dtype = list(plan.channels["post"]), np.dtype(plan.layouts["post"].dtype)
    got = store.read(Window.of(store.shape))
    if pixels is not None and _holds(got, np.load(pixels), channels, dtype):
        return Outcome(SAME)
    try:
        other = _as_tifffile(path, plan.headers["post"])
    except Exception as error:  # noqa: BLE001 - tifffile may raise anything
        return Outcome(MAYBE, f"tifffile: {error}")
    if other is None:
        return Outcome(MAYBE, "it is not plain")
    if _holds(got, other, channels, dtype):
        return Outcome(OTHER)
    return Outcome(WRONG, f"{store.shape} of {dtype}, tifffile reads {other.shape} {other.dtype}")


def _holds(
    got: NDArray[Any], pixels: NDArray[Any], channels: list[int], dtype: np.dtype[Any]
) -> bool:
    """Say whether a store holds the signal of these channels of an image."""
    if pixels.shape[1:] != got.shape or max(channels) >= len(pixels):
        return False
    return bool(
        np.array_equal(got, signal_of(pixels[channels], dtype), equal_nan=dtype.kind == "f")
    )


def _as_tifffile(path: Path, header: TiffHeader) -> NDArray[Any] | None:
    """(channels, rows, cols) as tifffile reads them; None where unglow means to differ."""
    if header.shape[0] * header.shape[1] * len(header.channels) > _COMPARED_PX:
        return None
    with tifffile.TiffFile(path) as tif:
        series = tif.series[int(header.plane["series"] or 0)]
        page: Any = series.keyframe
        # It puts the tiles behind one that is not stored in wrong places, and undoes a predictor
        # without a codec across samples.
        plain = page.photometric not in (0, 3) and 0 not in page.databytecounts
        plain &= page.predictor == 1 or page.compression != 1
        if len(series) > 1 or header.axes or not plain:
            return None
        array = np.asarray(page.asarray())
    if page.samplesperpixel == 1 or page.planarconfig == 2:
        array = array.reshape(-1, *header.shape)
    else:
        array = np.moveaxis(array.reshape(*header.shape, page.samplesperpixel), -1, 0)
    return array.astype(header.dtype, copy=False)
