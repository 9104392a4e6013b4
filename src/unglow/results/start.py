"""Runs that a script or a notebook starts, and the subtraction of two arrays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError, UnglowError
from unglow.core.printable import warn
from unglow.core.workflow_files import COMMAND
from unglow.results.directory import open_results

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import ArrayLike, NDArray

    from unglow.photometry.gain.scale import Scale
    from unglow.results.directory import Results
    from unglow.transform import Transform

_LAST_LINES = 8
_DTYPES = ("uint8", "uint16", "float32")
_SAMPLE, _DYE = "sample", "dye"


def run(
    raw: Path | str | None = None,
    directory: Path | str = ".",
    *,
    only: Iterable[str] = (),
    settings: Mapping[str, Any] | None = None,
    cores: int | None = None,
    memory_mb: float | None = None,
    quiet: bool = False,
) -> Results:
    """Run the workflow in a directory, as ``unglow run`` does, and return the results.

    Finished results are not made again. Pairs that fail or are skipped are in the results, with
    their reasons.

    Parameters
    ----------
    raw
        The raw directory; what the configuration says (``raw`` without one) if None.
    directory
        The working directory, which is made if it is not there.
    only
        Pairs, as ``sample/dye``, with ``*`` and ``?`` as wildcards; all if empty.
    settings
        Settings that differ from the configuration, such as ``{"detect": {"fdr": 0.1}}``.
    cores
        Processor cores to use; all if None.
    memory_mb
        Memory that all jobs may take together, MB; what the profile says if None.
    quiet
        Print no progress.

    Raises
    ------
    UnglowError
        The run could not start, or ended without results; the message is its last lines.
    """
    place = Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    chosen = dict(settings or {}) | ({} if raw is None else {"raw": _find_raw(Path(raw), place)})
    named = [only] if isinstance(only, str) else only
    words = [part for one in named for part in ("--only", one)]
    words += [] if cores is None else ["--cores", str(cores)]
    words += [] if memory_mb is None else ["--resources", f"mem_mb={int(memory_mb)}"]
    words += ["--config", *(f"{k}={_write(v)}" for k, v in chosen.items())] if chosen else []
    results = place / str(chosen["results"]) if "results" in chosen else None
    before = _find_reports(place, results)
    said, status = _start(words, place, quiet=quiet)
    # every run that began ends with a report, also where pairs have failed
    after = _find_reports(place, results)
    if status and after == before:
        raise UnglowError(*said or [f"unglow run ended with exit status {status}."])
    if results is None:  # the configuration may name them; the last report is of this run
        results = max(after, key=after.__getitem__).parent if after else place
    return open_results(results)


def _write(setting: Any) -> str:
    """Return a setting as the command line takes it; TypeError if it has none of its types."""

    def to_plain(value: Any) -> Any:
        return value.tolist() if isinstance(value, np.generic | np.ndarray) else os.fspath(value)

    return json.dumps(setting, default=to_plain)


def _find_raw(raw: Path, place: Path) -> str:
    """Return how a configuration in a working directory would name the raw directory."""
    try:
        return str(raw.absolute().relative_to(place.absolute()))
    except ValueError:
        return str(raw.absolute())


def _find_reports(place: Path, results: Path | None) -> dict[Path, int]:
    """Return reports and their times: of a results directory, or all near a working directory."""
    where = [results] if results is not None else [*place.glob("*"), *place.glob("*/*")]
    found = (path / "report.html" for path in where)
    return {path: path.stat().st_mtime_ns for path in found if path.is_file()}


def _start(words: list[str], directory: Path, *, quiet: bool) -> tuple[list[str], int]:
    """Run the command; return its last lines and its exit status. An interrupt ends it as well."""
    said: deque[str] = deque(maxlen=_LAST_LINES)
    with subprocess.Popen(  # noqa: S603 (its own command)
        [*COMMAND, "run", *words],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            for line in process.stdout or ():
                said.append(line.rstrip())
                if not quiet:
                    warn(line.rstrip())
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)  # once: it is in a session of its own
            raise
    return list(said), process.returncode


@dataclass(frozen=True, slots=True, eq=False)
class Subtracted:
    """Post without its autofluorescence, with the evidence; made by `subtract`.

    Attributes
    ----------
    difference
        [row, col], float32, grey levels of post; NaN where there is no data.
    aligned_pre
        Pre in the frame of post, [row, col]; NaN where there is no data.
    transform
        The map from (x, y) of post to pre, px, with its error.
    scale
        Gain and offset, with their intervals.
    candidates
        Rows of candidates.csv and ``counted``.
    state, reasons
        ``ok`` or ``suspect``, and why.
    """

    difference: NDArray[np.float32]
    aligned_pre: NDArray[Any]
    transform: Transform
    scale: Scale
    candidates: NDArray[np.void]
    state: str
    reasons: str


def subtract(
    pre: ArrayLike,
    post: ArrayLike,
    *,
    settings: Mapping[str, Any] | None = None,
    cores: int | None = None,
    memory_mb: float | None = None,
) -> Subtracted:
    """Register pre to post, subtract it, and list what is left.

    The arrays go through the same jobs as files do, in a temporary directory that takes about ten
    times their size.

    Parameters
    ----------
    pre, post
        Images before and after staining, [row, col] or [row, col, 3] (RGB), of uint8, uint16 or
        float32.
    settings, cores, memory_mb
        As of `run`.

    Raises
    ------
    InputError
        An array is not an image of these types.
    UnglowError
        The pair failed; the message is the reason.
    """
    import tifffile  # reading results does without

    for name, given in (("pre", pre), ("post", post)):
        if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
            raise InputError(f"{name} is a masked array: fill it, as with given.filled(np.nan).")
    images = {name: np.asarray(image) for name, image in (("pre", pre), ("post", post))}
    for name, image in images.items():
        is_plane = image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 3)
        if not is_plane or image.dtype.newbyteorder("=") not in _DTYPES or not image.size:
            raise InputError(
                f"{name} is an array of {image.dtype} with shape {image.shape}: give [row, col] or "
                f"[row, col, 3] as {', '.join(_DTYPES)}."
            )
    with tempfile.TemporaryDirectory(prefix="unglow-") as folder:
        raw = Path(folder) / "raw" / _SAMPLE
        raw.mkdir(parents=True)
        for name, image in images.items():
            kind = "minisblack" if image.ndim == 2 else "rgb"
            tifffile.imwrite(raw / f"{name}_{_DYE}.tif", image, photometric=kind, tile=(512, 512))
        results = run(None, folder, settings=settings, cores=cores, memory_mb=memory_mb, quiet=True)
        pair = results[_SAMPLE, _DYE]
        if pair.state not in ("ok", "suspect"):
            raise UnglowError(pair.reasons or f"the pair is {pair.state}.")
        return Subtracted(
            np.asarray(pair.difference()[:, :]),
            np.asarray(pair.aligned_pre[:, :]),
            pair.transform,
            pair.scale,
            pair.candidates(),
            pair.state,
            pair.reasons,
        )
