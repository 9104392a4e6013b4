"""The report of a results directory: one HTML file that opens anywhere, and is always there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from unglow.core import digests
from unglow.core.errors import UnglowError, describe
from unglow.core.files import write_text
from unglow.core.workflow_files import is_foreign
from unglow.reporting.html.page import page
from unglow.reporting.html.page_model import build
from unglow.reporting.html.pair_rows import rows_of
from unglow.telemetry.reading.follower import Follower
from unglow.telemetry.reading.history import History
from unglow.telemetry.reading.outcomes import Machine

if TYPE_CHECKING:
    from pathlib import Path

    from unglow.reporting.html.page_model import Model

NAME = "report.html"
PACKED_PAIRS = 12
"""Up to so many pairs, pictures are packed into the page unless somebody asks otherwise."""
Pictures = Literal["auto", "packed", "beside"]


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
    following = Follower(results)
    following.poll()
    history = History.of(following, Machine(ending=ending))
    return build(results, history, rows_of(results, history), live=live)


def write_report(
    results: Path,
    target: Path | None = None,
    *,
    ending: str | None = None,
    pictures: Pictures = "auto",
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
    pictures
        Whether pictures are packed into the page or lie beside it, in a directory of its name with
        ``_files``; ``auto`` packs those of at most `PACKED_PAIRS` pairs.

    Raises
    ------
    UnglowError
        The report cannot be made or written.
    """
    place = target or results / NAME
    try:
        return _write(results, place, ending, pictures)
    except UnglowError:
        raise
    except Exception as error:
        raise UnglowError(
            f"{place} could not be written ({describe(error)}): please report this fault, with "
            "the output of `unglow doctor`."
        ) from error


def _write(results: Path, place: Path, ending: str | None, pictures: Pictures) -> Path:
    model = read_model(results, ending=ending)
    pairs = model["pairs"]
    beside = pictures == "beside" or (pictures == "auto" and len(pairs) > PACKED_PAIRS)
    pairs = [*pairs, *({"sample": slide} for slide in model.get("slides", ()))]
    shown = []
    if pairs:
        from unglow.reporting.html import thumbnails  # noqa: PLC0415 (OpenCV)

        if beside:
            shown = thumbnails.pictures_beside(results, pairs, place)
        else:
            shown = thumbnails.packed_pictures(results, pairs, place.parent)
    directory = results.absolute().parents[1 if is_foreign(results) else 0]
    title = f"unglow report: {directory.name}"
    write_text(place, page(model, shown, title=title, beside=beside))
    own = results / NAME
    if own.is_file() and own.samefile(place):  # which may have another name
        drawn = own.with_name("report_files").rglob("*.jpg") if beside else ()
        digests.write(digests.list_of(results, "report"), [own, *drawn])
    return place
