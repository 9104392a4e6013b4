"""``unglow app``: choose, name, set, run and look, on one page in a browser."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.cli.directories import configured_results
from unglow.cli.view import add_page, browser_opener
from unglow.core.errors import InputError
from unglow.core.printable import say
from unglow.core.process import is_mounted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from unglow.reporting.html.live_answers import Part
    from unglow.reporting.html.live_site import Source


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow app` to a parser."""
    parser.description = (
        "Work in a browser: choose the folder of the images, name them, change settings, run, and "
        "look at the results. It writes in this directory alone, and answers only the user who "
        "started it, on this machine. A run outlives the page, the server and the terminal."
    )
    parser.add_argument(
        "folders",
        nargs="*",
        type=Path,
        metavar="FOLDER",
        help="folders with images outside of this directory, to read",
    )
    add_page(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    from unglow.app.site import NAME, App  # noqa: PLC0415
    from unglow.app.workplace import Workplace  # noqa: PLC0415
    from unglow.cli.stop import StopButton  # noqa: PLC0415 (so do these)
    from unglow.reporting.html.live_site import Site  # noqa: PLC0415
    from unglow.reporting.html.serving import serve  # noqa: PLC0415 (imports numpy)
    from unglow.viewer import site as viewer  # noqa: PLC0415

    missing = [folder for folder in arguments.folders if not folder.is_dir()]
    if missing:
        raise InputError(f"{missing[0]} is not a directory; name a folder with images.")
    if not is_mounted():
        raise InputError(
            "This system does not report who opens a connection (no /proc), so a page that starts "
            "runs is not safe here: use `unglow run` and `unglow view`."
        )
    here = Path.cwd()
    parts: dict[str, Callable[[Source], Part]] = {
        NAME: partial(App, workplace=Workplace(here, arguments.folders)),
        viewer.NAME: viewer.Viewer,
        "stop": StopButton,
    }
    site = Site([configured_results(here)], parts)
    serve(
        site,
        arguments.port,
        say,
        page=f"0/{NAME}/",
        open_browser=browser_opener(is_wanted=not arguments.no_browser),
        same_user=True,
    )
    return 0
