"""``unglow view``: look at the pixels of results in a browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from unglow.cli.directories import TELEMETRY, results_of
from unglow.cli.monitor import port
from unglow.core.errors import InputError
from unglow.core.levels import LEVELS, PAIR, nearest
from unglow.core.printable import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

_PLAN = "plan.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow view` to a parser."""
    parser.description = (
        "Look at any pixel of any stage in a browser: post, pre, aligned pre, the differences of "
        "all scale methods, the signal-to-noise ratio and the error of the map. Finished results "
        "are enough, and they may be read-only; nothing of them is changed."
    )
    parser.add_argument(
        "place",
        nargs="?",
        default=".",
        metavar="DIR|PAIR",
        help="working directory or results directory (here), or the results of a pair: their "
        "directory, or SAMPLE/DYE",
    )
    add_page(parser)
    parser.add_argument(
        "--static",
        type=Path,
        metavar="OUT",
        help="write a folder that any web server or object store can serve, to look at only",
    )
    parser.add_argument(
        "--computed",
        action="store_true",
        help="with --static: also write images that are computed while one looks (large)",
    )


def add_page(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that show a page."""
    parser.add_argument(
        "--port", type=port, metavar="N", help="port (8798, or the next that is free)"
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address and open no browser"
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve results until Ctrl-C, or write a folder to be served."""
    if arguments.static is not None:
        return _write_static(arguments)
    from unglow.reporting.html.live_site import Site  # noqa: PLC0415
    from unglow.reporting.html.serving import serve  # noqa: PLC0415 (imports numpy)
    from unglow.viewer.site import NAME, Viewer  # noqa: PLC0415

    results, pair = place_of(arguments.place)
    site = Site([results], {NAME: Viewer})
    Viewer(site.sources[0]).check_images()
    page = f"0/{NAME}/" + ("" if pair is None else _hash(results, pair))
    open_browser = browser_opener(is_wanted=not arguments.no_browser)
    serve(site, arguments.port, say, page=page, open_browser=open_browser)
    return 0


def _write_static(arguments: argparse.Namespace) -> int:
    from unglow.export.images import refuse_existing  # noqa: PLC0415
    from unglow.viewer.static_site import write_site  # noqa: PLC0415 (imports numpy)

    results, _ = place_of(arguments.place)
    refuse_existing(arguments.static)
    pairs, size = write_site(results, arguments.static, computed=arguments.computed, say=say)
    count = f"{pairs} pair{'' if pairs == 1 else 's'}"
    say(f"{arguments.static}: {count}, {size / 1e6:.0f} MB; serve it with any web server")
    return 0


def place_of(text: str) -> tuple[Path, Path | None]:
    """Return the results directory that is meant, and the directory of a pair if one is.

    Raises
    ------
    InputError
        There is no such directory, or nothing of unglow's in it.
    """
    place = Path(text)
    if not place.is_dir():
        return _find_pair(text)
    here = place.absolute()
    if (here / "slide.json").is_file():
        return here.parent, here
    above = here.parents[len(PAIR) - 1 : len(LEVELS)]
    results = next((one for one in above if (one / TELEMETRY).is_dir()), None)
    if results is None and (plan := nearest(place, _PLAN)) is not None:
        results = plan.parents[len(PAIR)]
    if results is not None:
        return results, here
    if any(place.glob(f"*/*/{_PLAN}")):
        return place, None
    return results_of(place), None


def _find_pair(text: str) -> tuple[Path, Path]:
    """Return the results directory here, and the directory of a pair that is named below it."""
    results = results_of(Path())
    pair = results / text
    if ".." in Path(text).parts or not pair.is_dir():
        raise InputError(
            f"{text} is neither a directory nor a pair of {results}; name a working directory, a "
            "results directory, or a pair as SAMPLE/DYE."
        )
    return results, pair


def _hash(results: Path, directory: Path) -> str:
    """Return the part of the address that opens a pair."""
    from unglow.reporting.html.live_site import Source  # noqa: PLC0415 (imports numpy)
    from unglow.viewer.site import Viewer  # noqa: PLC0415

    pairs = Viewer(Source(results, "")).pairs()
    wanted = directory.resolve()
    found = next((p for p in pairs.values() if p.directory.resolve() == wanted), None)
    if found is None:  # the directory of a pair that has variants
        found = next((p for p in pairs.values() if wanted in p.directory.resolve().parents), None)
    return "" if found is None else f"#pair={quote(found.id, safe='~')}"


def browser_opener(*, is_wanted: bool) -> Callable[[str], object] | None:
    """Return what opens an address in a browser; None if none is wanted or can be seen."""
    return webbrowser.open if is_wanted and _has_display() else None


def _has_display() -> bool:
    """Whether a browser has somewhere to show a page."""
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return sys.platform != "linux" or bool(display)
