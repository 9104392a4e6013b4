"""Time `unglow view` in a real browser: the first picture, full resolution, moving about.

    python benchmarks/viewer.py --sizes 2048 8192 25000x30000
    python benchmarks/viewer.py --results RESULTS

Each pair is opened by a server and a browser that have just started, with the files of its stores
dropped from the page cache ("cold"), and again by the same server and a new page ("warm").
"""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep

from phantoms import Case, phantom, size_of
from running import BIN, PROJECT, WORK, command, say, snakemake_words, tools
from tables import table

from unglow.core.process import Stat, read, status_mb

sys.path.insert(0, str(PROJECT / "tests" / "browser"))
from devtools import Tab
from pages import CHROMIUM

LEGEND = """\
first      s, from the address to the first tile of the whole image, coarser than the screen or not.
picture    s, from the address to all tiles of the whole image.
1:1        s, from there to all tiles at full resolution in the middle.
computed   s, to all tiles of a difference that is not written, or else of that which is.
tiles/s    tiles of 512 px that come into view and are drawn, while 24 neighbouring views are shown.
server     MB, peak of its memory; CPU s until then."""
VIEWS = 24
SIZE = (1920, 1080)
SETTLED = """new Promise((done) => {
  const ended = () => done(performance.now() / 1000);
  const look = () => window.unglow && unglow.settled ? ended() : setTimeout(look, 4);
  setTimeout(look, 30);
})"""


@dataclass(frozen=True, slots=True)
class Viewed:
    """What a visit took; seconds, tiles a second, MB."""

    first_s: float
    picture_s: float
    full_s: float
    computed_s: float
    tiles_s: float
    peak_mb: float
    cpu_s: float

    def cells(self) -> list[str]:
        """Return it as cells of the table."""
        times = (self.first_s, self.picture_s, self.full_s, self.computed_s)
        return [
            *(f"{value:.2f}" for value in times),
            f"{self.tiles_s:.0f}",
            f"{self.peak_mb:.0f}",
            f"{self.cpu_s:.1f}",
        ]


class Server:
    """`unglow view` of a directory of results, until `close`."""

    def __init__(self, results: Path) -> None:
        words = [str(BIN / "unglow"), "view", str(results), "--no-browser"]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=tools())
        for line in self._process.stdout or ():
            address = re.search(r"http://\S+", line)
            if address:
                self.url = address[0]
                return
        sys.exit(f"{' '.join(words)} has ended without an address")

    def taken(self) -> tuple[float, float]:
        """Return the peak of its memory, MB, and its CPU time, s."""
        pid = self._process.pid
        stat = Stat.parse(read(pid, "stat"))
        return status_mb(pid)["VmHWM"], stat.cpu_s if stat is not None else math.nan

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(60)


def drop_caches(results: Path) -> None:
    """Ask the kernel to forget all files of the stores."""
    for path in results.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def visit(server: Server, tab: Tab) -> Viewed:
    """Open the first pair, go to full resolution, and move about."""
    tab.open("about:blank")
    sleep(2)  # a browser that has just started is still busy with itself
    tab.open(server.url)
    picture = float(tab.wait(SETTLED))
    first = float(tab.run("performance.getEntriesByName('first tile')[0].startTime / 1000"))
    full = after(
        tab, "unglow.go({x: unglow.pair.shape[1] / 2, y: unglow.pair.shape[0] / 2, zoom: 1})"
    )
    tiles_s = moved(tab)
    name = tab.run(
        "(unglow.pair.layers.findLast((l) => l.kind === 'difference' && l.computed)"
        " || unglow.pair.layers.findLast((l) => l.kind === 'difference')).name"
    )
    computed = after(tab, f"unglow.address.set({{a: '{name}'}})")
    return Viewed(first, picture, full, computed, tiles_s, *server.taken())


def after(tab: Tab, code: str) -> float:
    """Return the seconds from a change to all of its tiles."""
    return float(
        tab.run(f"{{const t = performance.now() / 1000; {code}; {SETTLED}.then((s) => s - t)}}")
    )


def moved(tab: Tab) -> float:
    """Show neighbouring views one after the other; return the tiles that came in a second."""
    tab.run(
        "window.drawn = new Set(); unglow.panes[0].viewer.addHandler('tile-drawing',"
        " ({tile}) => drawn.add(tile.cacheKey)); 0"
    )
    started = perf_counter()
    for view in range(VIEWS):
        far = 1 + view // 4
        right, down = ((far, 0), (0, far), (-far, 0), (0, -far))[view % 4]
        tab.run(
            "{const p = unglow.panes[0].place(), b = unglow.panes[0].bounds();"
            f"unglow.go({{x: p.x + {right} * b.width, y: p.y + {down} * b.height}})}}"
        )
        tab.run(SETTLED)
    return int(tab.run("drawn.size")) / (perf_counter() - started)


def results_of(size: str, work: Path) -> Path:
    """Return results of a phantom pair of a size, made if they are not there yet."""
    directory = work / f"viewer-{size}"
    if not (directory / "results" / "summary.tsv").is_file():
        directory.mkdir(parents=True, exist_ok=True)
        raw = directory / "raw"
        if not raw.exists():
            made = phantom(Case(*size_of(size), "tiles", "uint8"), work / "phantoms", 2)
            raw.symlink_to(made, target_is_directory=True)
        say(f"running the workflow on {size} px ...")
        command(*snakemake_words(2, {}), directory=directory)
    return directory / "results"


def measured(name: str, results: Path) -> list[list[str]]:
    """Return the rows of a pair, cold and warm."""
    drop_caches(results)
    with tempfile.TemporaryDirectory() as profile:
        server = Server(results)
        tab = Tab(CHROMIUM, profile, SIZE)
        try:
            return [[name, state, *visit(server, tab).cells()] for state in ("cold", "warm")]
        finally:
            tab.close()
            server.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", default=["2048", "8192"], metavar="SIZE")
    parser.add_argument("--results", nargs="+", type=Path, default=[], metavar="DIR")
    parser.add_argument("--work", type=Path, default=WORK)
    options = parser.parse_args()
    if CHROMIUM is None:
        sys.exit("chromium is not installed (Debian: apt-get install chromium)")
    places = [(str(path), path) for path in options.results]
    places = places or [(size, results_of(size, options.work)) for size in options.sizes]
    header = ["pair", "", "first", "picture", "1:1", "computed", "tiles/s", "server", "CPU"]
    print(table(header, [row for place in places for row in measured(*place)], left=2))
    print(LEGEND)


if __name__ == "__main__":
    main()
