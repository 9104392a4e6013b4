"""The report of a results directory: one HTML file that opens anywhere, and is always there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.core import digests
from unglow.core.errors import UnglowError, describe
from unglow.core.files import write_text
from unglow.core.workflow_files import is_foreign
from unglow.reporting.html.page import page
from unglow.reporting.html.page_model import build
from unglow.reporting.runs import Runs
from unglow.telemetry.reading.plan import Machine

if TYPE_CHECKING:
    from pathlib import Path

    from unglow.reporting.html.page_model import Model

NAME = "report.html"


def read_model(results: Path, *, live: bool = False, ending: str | None = None) -> Model:
    """Return the model of a results directory as it is now, without pictures.

    Parameters
    ----------
    results
        The results directory.
    live
        Whether more is to come.
    ending
        How the run of this process ends, if it is one.
    """
    return build(Runs.read(results, Machine(ending=ending)), live=live)


def write_report(
    results: Path,
    target: Path | None = None,
    *,
    ending: str | None = None,
) -> Path:
    """Write the report of a results directory and return where it is.

    Parameters
    ----------
    results
        The results directory of one or more runs, whether or not they ended.
    target
        The file to write; ``report.html`` in the results directory if None.
    ending
        How the run of this process ends, if it is one.

    Raises
    ------
    UnglowError
        The report cannot be made or written.
    """
    place = target or results / NAME
    try:
        return _write(results, place, ending)
    except UnglowError:
        raise
    except Exception as error:
        raise UnglowError(
            f"{place} could not be written ({describe(error)}): please report this fault, with "
            "the output of `unglow doctor`."
        ) from error


def _write(results: Path, place: Path, ending: str | None) -> Path:
    model = read_model(results, ending=ending)
    rows = [*model["pairs"], *({"sample": slide} for slide in model.get("slides", ()))]
    shown = []
    if rows:
        from unglow.reporting.html.thumbnails import packed_pictures  # noqa: PLC0415 (OpenCV)

        cache = results / "telemetry" / "report_pictures.json"
        shown = packed_pictures(results, rows, place.parent, cache=cache)
    directory = results.absolute().parents[1 if is_foreign(results) else 0]
    write_text(place, page(model, shown, title=f"unglow report: {directory.name}"))
    own = results / NAME
    if own.is_file() and own.samefile(place):  # which may have another name
        digests.write(digests.list_of(results, "report"), [own])
    return place
