"""One HTML file that needs nothing else: markup, style, scripts, model and pictures.

Its content security policy forbids every request, and every script but its own. Names and messages
are data in it, never markup. The report of a results directory is such a file.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import math
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from unglow.core import digests
from unglow.core.errors import UnglowError, describe
from unglow.core.files import write_text
from unglow.pages.report.page_model import build
from unglow.results.runs import Runs
from unglow.telemetry.reading.plan import Machine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from unglow.pages.report.page_model import Model
    from unglow.pages.report.thumbnails import Picture


CHARTS, LICENCE = "uplot/uPlot.iife.min.js", "uplot/LICENSE"
SCRIPTS = (
    *("elements.js", "parts.js", "words.js", "colours.js"),
    *("stream.js", "charts.js", "attempt.js", "rules.js", "flames.js", "resources.js"),
    *("head.js", "pairs.js", "batch.js", "viewer.js", "live.js", "page.js"),
)
STYLES = ("uplot/uPlot.min.css", "theme.css", "base.css", "page.css")
SHARED = ("elements.js", "theme.css", "base.css")
"""Files that viewer and app serve too; exports of a module are globals of the page's scripts."""
# A shorter model is easier to look into than to make smaller.
_PLAIN = 1 << 14
_LEVEL = 6


@cache
def asset(name: str) -> str:
    """Return the text of a file that belongs to the page."""
    place = resources.files("unglow.pages.report").joinpath("assets")
    return place.joinpath(*name.split("/")).read_text(encoding="utf-8")


@cache
def script() -> str:
    """Return all scripts as one; the page's own share a scope that nothing else sees."""
    own = "\n".join(asset(name).replace("\nexport ", "\n") for name in SCRIPTS)
    licence = f"/* uPlot\n{asset(LICENCE)}*/"
    return f'{licence}\n{asset(CHARTS)}\n(() => {{\n"use strict";\n{own}}})();\n'


@cache
def style() -> str:
    """Return all styles as one."""
    return "\n".join(asset(name) for name in STYLES)


def policy(*, live: bool = False) -> str:
    """Return the content security policy; a live page may ask its own server for updates."""
    code, look = _digest(script()), _digest(style())
    connect = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; img-src data:; connect-src {connect}; script-src '{code}'; "
        f"style-src '{look}'; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page(
    model: Mapping[str, Any],
    pictures: Sequence[Sequence[Picture]] = (),
    *,
    title: str = "unglow report",
) -> str:
    """Return a page that shows a model.

    Parameters
    ----------
    model
        Of `unglow.pages.report.page_model`; a live one makes the page ask for more.
    pictures
        Those of each of the model's pairs.
    title
        Of the browser's window.
    """
    live = bool(model.get("live"))
    parts = {
        "title": html.escape(title),
        "policy": html.escape(policy(live=live)),
        "style": style(),
        "model": embedded(model, "model"),
        "pictures": embedded([[asdict(p) for p in g] for g in pictures], "pictures", plain=True),
        "script": script(),
    }
    text = asset("page.html")
    head, *rest = text.split("{{")
    pieces = [head]
    for piece in rest:
        name, _, after = piece.partition("}}")
        pieces += [parts[name], after]
    return "".join(pieces)


def to_json(content: object) -> str:
    """Return JSON in which numbers that it does not have are null, UTF-8 whatever names hold."""
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return to_json(_finite(content))
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {str(key): _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    infinite = isinstance(content, float) and not math.isfinite(content)
    return None if infinite else content


def embedded(content: object, key: str, *, plain: bool = False) -> str:
    """Return JSON as an element that is not a script: as it is, or gzipped in base64 if it is long.

    With ``plain`` it is never gzipped: pictures are as small as they get.
    """
    text = to_json(content)
    if plain or len(text) <= _PLAIN:
        safe = text.replace("<", "\\u003c")
        return f'<script type="application/json" id="{key}">{safe}</script>'
    packed = base64.b64encode(gzip.compress(text.encode(), _LEVEL, mtime=0)).decode("ascii")
    return f'<script type="application/gzip" id="{key}">{packed}</script>'


NAME = "report.html"


def read_model(results: Path, *, ending: str | None = None) -> Model:
    """Return the model of a results directory as it is now, without pictures.

    Parameters
    ----------
    results
        The results directory.
    ending
        How the run of this process ends, if it is one.
    """
    return build(Runs.read(results, Machine(ending=ending)))


def write_report(results: Path, target: Path | None = None, *, ending: str | None = None) -> Path:
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
        from unglow.pages.report.thumbnails import pack_pictures  # OpenCV

        cache = results / "telemetry" / "report_pictures.json"
        shown = pack_pictures(results, rows, place.parent, cache=cache)
    directory = results.absolute().parent
    write_text(place, page(model, shown, title=f"unglow report: {directory.name}"))
    own = results / NAME
    if own.is_file() and own.samefile(place):  # which may have another name
        digests.write(digests.list_of(results, "report"), [own])
    return place
