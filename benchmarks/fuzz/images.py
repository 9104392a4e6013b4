"""An image, read as the workflow reads it: headers, plan and ingest inside the memory limit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from fuzz.trial import (
    MAYBE,
    OTHER,
    OVER,
    PARSING_MB,
    REFUSED,
    SAME,
    WRONG,
    Outcome,
    forget_peak,
    judge_refusal,
    peak_mb,
)
from unglow.core.records import to_plain, to_record
from unglow.core.windows import Window
from unglow.images.channels import plan_layouts
from unglow.images.pair_plan import Plan
from unglow.images.tiff import TiffHeader
from unglow.images.zarr import open_store
from unglow.jobs.memory_limit import lift_limit, set_limit
from unglow.stages.ingest import SignalStore
from unglow.stages.ingest import signal as signal_of
from unglow.stages.plan import make_plan
from unglow.workflow import stage_memory
from unglow.workflow.header_cache import HeaderCache, headers_of
from unglow.workflow.samples.pair import Pair
from unglow.workflow.settings import PlaneSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    Reader = Callable[[Path, TiffHeader], NDArray[Any] | None]

# A job that declares more than this is refused before it starts, on a machine of 8 GB, MB.
MOST_MB = 8000.0
_BUDGET_MB, _THREADS = 2000, 1
_SETTINGS = Settings(plane=PlaneSettings(z=0, t=0))


def read_image(path: Path, room: Path, pixels: Path | None, other: Reader) -> Outcome:
    """Read an image and compare its store with what it was, and else with what ``other`` reads.

    Parameters
    ----------
    path
        The image.
    room
        A folder to work in.
    pixels
        File with (channels, rows, cols) before the damage, if they are known.
    other
        Returns them as another library reads them; None where unglow means to differ.
    """
    before = peak_mb()
    pair = Pair("s", "d", path, path)
    cache = HeaderCache(room / "headers.json")
    _, header = headers_of(pair, _SETTINGS, cache)
    header = to_record(json.loads(json.dumps(to_plain(header))), TiffHeader)
    parsing = peak_mb() - before
    if parsing > PARSING_MB:
        return Outcome(OVER, f"its headers took {parsing:.0f} MB")
    layout = plan_layouts(header, header, "auto")["post"]
    planning = stage_memory.plan((header, header)).peak_mb(_BUDGET_MB, _THREADS)
    ingesting = stage_memory.ingest(header, layout).peak_mb(_BUDGET_MB, _THREADS)
    if max(planning, ingesting) > MOST_MB:
        return Outcome(REFUSED, f"preflight: it needs {max(planning, ingesting):.0f} MB")
    forget_peak()
    set_limit(planning, _THREADS)
    plan = make_plan(header, header, channel="auto", dye="d")
    lift_limit()
    over = _over("plan", planning)
    if over is not None:
        return over
    plan.save(room / "details/plan.json")
    plan = Plan.load(room / "details/plan.json", {"post": path})
    target = room / "post.ome.zarr"
    forget_peak()
    set_limit(ingesting, _THREADS)
    SignalStore(plan, "post", target).make(workers=1)
    lift_limit()
    over = _over("ingest", ingesting)
    return over if over is not None else _compare(path, target, plan, pixels, other)


def _over(job: str, declared_mb: float) -> Outcome | None:
    peak = peak_mb()
    if peak <= declared_mb:
        return None
    return Outcome(OVER, f"{job} took {peak:.1f} MB, {declared_mb:.0f} MB declared")


def _compare(path: Path, target: Path, plan: Plan, pixels: Path | None, reader: Reader) -> Outcome:
    store = open_store(target)
    if store.empty is not None:
        return judge_refusal(path.name, store.empty)
    channels, dtype = list(plan.channels["post"]), np.dtype(plan.layouts["post"].dtype)
    got = store.read(Window.from_shape(store.shape))
    if pixels is not None and _holds(got, np.load(pixels), channels, dtype):
        return Outcome(SAME)
    try:
        other = reader(path, plan.headers["post"])
    except Exception as error:  # noqa: BLE001 - another library may raise anything
        return Outcome(MAYBE, f"the other library: {error}")
    if other is None:
        return Outcome(MAYBE, "it is not plain")
    if _holds(got, other, channels, dtype):
        return Outcome(OTHER)
    return Outcome(WRONG, f"{store.shape} of {dtype}, and not {other.shape} {other.dtype}")


def _holds(
    got: NDArray[Any], pixels: NDArray[Any], channels: list[int], dtype: np.dtype[Any]
) -> bool:
    """Say whether a store holds the signal of these channels of an image."""
    if pixels.shape[1:] != got.shape or max(channels) >= len(pixels):
        return False
    return bool(
        np.array_equal(got, signal_of(pixels[channels], dtype), equal_nan=dtype.kind == "f")
    )
