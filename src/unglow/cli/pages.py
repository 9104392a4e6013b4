"""``unglow monitor``, ``report``, ``view`` and ``app``: runs and results, mostly in a browser.

Every user of a machine can read the arguments of all programs. A browser is therefore not given the
address, which holds the token, but a file that nobody else may read and that leads there.
"""

from __future__ import annotations

import argparse
import getpass
import html
import os
import shutil
import signal
import sys
import tempfile
import threading
import webbrowser
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from unglow.cli.directories import (
    add_results,
    all_results_of,
    find_recorded,
    place_of,
    read_results_directory,
)
from unglow.core.errors import InputError
from unglow.core.files import parse_whole, resolve_links
from unglow.core.machine import runtime_directory
from unglow.core.printable import say
from unglow.core.process import is_mounted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unglow.pages.report.live_answers import Part
    from unglow.pages.report.live_server import Server
    from unglow.pages.report.live_site import Site, Source
    from unglow.pages.viewer.site import Viewer


_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>unglow</title>
</head>
<body><a href="{url}" rel="noreferrer">Open the page of unglow</a></body>
</html>
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow monitor` to a parser."""
    parser.description = (
        "Follow runs: jobs, their memory, what went wrong and what helps. If nothing runs, show "
        "the last run. In a pipe or a log file, print a line for each event. The exit status is 1 "
        "if the last run failed or was killed."
    )
    parser.add_argument(
        "directories",
        nargs="*",
        type=Path,
        default=[Path()],
        metavar="DIR",
        help="working directories or results directories (default: the current one)",
    )
    parser.add_argument("--once", action="store_true", help="show the current state, and end")
    parser.add_argument("--web", action="store_true", help="show it in a browser on this machine")
    parser.add_argument(
        "--port",
        type=port,
        metavar="N",
        help="port for --web (default: 8798, or the next free one)",
    )
    parser.add_argument(
        "--until-input-ends",
        action="store_true",
        help="end --web when its standard input is closed",
    )


def run(arguments: argparse.Namespace) -> int:
    """Show the runs; return 1 if the last one of a directory failed or was killed."""
    places = all_results_of(arguments.directories)
    if arguments.web:
        from unglow.cli.run import StopButton  # so do these
        from unglow.pages.report.live_site import Site
        from unglow.pages.viewer.site import NAME, Viewer

        site = Site(places, {NAME: Viewer, "stop": StopButton})
        serve(site, arguments.port, until_input_ends=arguments.until_input_ends)
        return 0
    from unglow.monitor.terminal.screen import follow  # rich takes a moment

    return follow(places, sys.stdout, once=arguments.once)


def port(text: str) -> int:
    """Return the number of a port that was given as an option."""
    number = parse_whole(text)
    if number is None or not 1 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, 1 to 65535")
    return number


def add_arguments_report(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow report` to a parser."""
    parser.description = (
        "Write the report of a results directory in one HTML file that opens offline. It has the "
        "results of each pair, then time and memory of every job. Each run writes it at its end; "
        "this command also writes it during a run, or after one was killed."
    )
    add_results(parser)
    about = "file to write (default: RESULTS/report.html)"
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=about)


def run_report(arguments: argparse.Namespace) -> int:
    """Write the report and print where it is."""
    from unglow.pages.report.report import write_report  # imports numpy

    place = find_recorded(arguments.results)
    say(write_report(place, arguments.output))
    return 0


def add_arguments_view(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow view` to a parser."""
    parser.description = (
        "Look at any pixel of any stage in a browser. Stages are post, pre, aligned pre, the "
        "differences of all scale methods, the signal-to-noise ratio and the error of the map. "
        "Finished results are enough, and may be read-only; they are not changed."
    )
    parser.add_argument(
        "place",
        nargs="?",
        default=".",
        metavar="DIR|PAIR",
        help="working directory or results directory (default: the current one), or a pair: its "
        "directory, or SAMPLE/DYE",
    )
    add_page(parser)
    parser.add_argument(
        "--static",
        type=Path,
        metavar="OUT",
        help="write a folder for any web server or object store, in which nothing can be saved",
    )
    parser.add_argument(
        "--computed",
        action="store_true",
        help="with --static: also write the images that are otherwise computed on request (large)",
    )


def add_page(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that show a page."""
    parser.add_argument(
        "--port", type=port, metavar="N", help="port (default: 8798, or the next free one)"
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def run_view(arguments: argparse.Namespace) -> int:
    """Serve results until Ctrl-C, or write a folder to be served."""
    if arguments.static is not None:
        return _write_static(arguments)
    from unglow.pages.report.live_site import Site
    from unglow.pages.viewer.site import NAME, Viewer

    results, pair = place_of(arguments.place)
    site = Site([results], {NAME: Viewer})
    viewer = Viewer(site.sources[0])
    viewer.check_images()
    page = f"0/{NAME}/" + ("" if pair is None else _hash(viewer, pair))
    open_browser = browser_opener(is_wanted=not arguments.no_browser)
    serve(site, arguments.port, page=page, open_browser=open_browser)
    return 0


def _write_static(arguments: argparse.Namespace) -> int:
    from unglow.export.images import refuse_existing
    from unglow.pages.viewer.static_site import write_site  # imports numpy

    results, _ = place_of(arguments.place)
    refuse_existing(arguments.static)
    pairs, size = write_site(results, arguments.static, computed=arguments.computed, say=say)
    count = f"{pairs} pair{'' if pairs == 1 else 's'}"
    say(f"{arguments.static}: {count}, {size / 1e6:.0f} MB; serve it with any web server")
    return 0


def _hash(viewer: Viewer, directory: Path) -> str:
    """Return the part of the address that opens a pair."""
    pairs = viewer.pairs()
    wanted = resolve_links(directory)
    places = {resolve_links(pair.directory): pair for pair in pairs.values()}
    found = places.get(wanted)
    if found is None:  # the directory of a pair that has variants
        found = next(
            (p for p in pairs.values() if wanted in resolve_links(p.directory).parents), None
        )
    return "" if found is None else f"#pair={quote(found.id, safe='~')}"


def browser_opener(*, is_wanted: bool) -> Callable[[str], object] | None:
    """Return what opens an address in a browser; None if none is wanted or can be seen."""
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    can_be_seen = sys.platform != "linux" or bool(display)
    return webbrowser.open if is_wanted and can_be_seen else None


def add_arguments_app(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow app` to a parser."""
    parser.description = (
        "Work in a browser: choose the folder of the images, name them, change settings, run, and "
        "look at the results. It writes only in this directory, and answers only the user who "
        "started it, on this machine. Runs continue when page, server or terminal are closed."
    )
    parser.add_argument(
        "folders",
        nargs="*",
        type=Path,
        metavar="FOLDER",
        help="folders with images outside this directory (only read)",
    )
    add_page(parser)


def run_app(arguments: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    from unglow.cli.run import StopButton  # so do these
    from unglow.pages.app.site import NAME, App
    from unglow.pages.app.workplace import Workplace
    from unglow.pages.report.live_site import Site
    from unglow.pages.viewer import site as viewer

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
    site = Site([read_results_directory(here)], parts)
    serve(
        site,
        arguments.port,
        page=f"0/{NAME}/",
        open_browser=browser_opener(is_wanted=not arguments.no_browser),
        same_user=True,
    )
    return 0


def serve(
    site: Site,
    port: int | None,
    *,
    page: str = "",
    open_browser: Callable[[str], object] | None = None,
    until_input_ends: bool = False,
    same_user: bool = False,
) -> None:
    """Serve until Ctrl-C; the address is printed first.

    Parameters
    ----------
    site, port, same_user
        As for `Server`.
    page
        What of the site to open: the end of its address.
    open_browser
        Opens an address in a browser; None for none. It is given a `redirect_file`, since others
        can read the arguments of programs.
    until_input_ends
        Whether to stop as soon as standard input ends as well.
    """
    from unglow.pages.report.live_server import Server  # imports numpy

    with ExitStack() as stack:
        server = stack.enter_context(Server(site, port, same_user=same_user))
        say(f"Open {server.url}{page}")
        say(f"From another machine, first: {tunnel(server.port)}")
        say("Press Ctrl-C to stop this server; runs continue.")
        if open_browser is not None:
            _exit_on_signals()
            file = stack.enter_context(redirect_file(server.url + page))
            threading.Thread(target=open_browser, args=(file.as_uri(),), daemon=True).start()
        if until_input_ends:
            threading.Thread(target=_stop_with_input, args=(server,), daemon=True).start()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("")


def _stop_with_input(server: Server) -> None:
    sys.stdin.buffer.read()
    server.shutdown()


def _exit_on_signals() -> None:
    """Exit on signals that end a process without removing its files; ignored ones stay ignored."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda received, _: sys.exit(128 + received))


def tunnel(port: int) -> str:
    """Return the command that makes the address work on another machine."""
    from unglow.pages.report.live_server import ADDRESS  # imports numpy

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name
        user = str(os.getuid())
    return f"ssh -N -L {port}:{ADDRESS}:{port} {user}@{os.uname().nodename}"


@contextmanager
def redirect_file(url: str) -> Iterator[Path]:
    """Make a file of mode 0600 in a directory of mode 0700 that leads to ``url``; remove both."""
    directory = Path(tempfile.mkdtemp(prefix="unglow-", dir=runtime_directory()))
    try:
        path = directory / "open.html"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as stream:  # noqa: PTH123 (a descriptor)
            stream.write(_PAGE.format(url=html.escape(url)))
        yield path
    finally:
        shutil.rmtree(directory, ignore_errors=True)
