"""Time the report of many pairs in a real browser: its size, the first picture, sorting, scrolling.

    python benchmarks/batch_page.py --pairs 40 500
    python benchmarks/batch_page.py --pairs 500 --results RESULTS --keep DIR

The pairs are a fake: copies of a few real ones (of RESULTS, or of two phantoms) under other names,
with numbers drawn at random, of which some failed, are in doubt, or are unlike the others. Their
telemetry is copied too. What is made of them is what a run would make.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

from running import BIN, PROJECT, WORK, command, say, snakemake_words
from tables import number, table

from unglow.core.levels import LEVELS
from unglow.core.poisson import poisson_density
from unglow.reporting.html.report import write_report
from unglow.reporting.summary import Entry, write_summary
from unglow.results import read_summary
from unglow.telemetry.attempt_files import attempt_file

sys.path.insert(0, str(PROJECT / "tests" / "browser"))
from devtools import Tab
from pages import CHROMIUM

if TYPE_CHECKING:
    from collections.abc import Iterator

LEGEND = """\
write      CPU-s to write the report; `again`: without changes, from kept pictures.
MB         of the page with its pictures.
ready      ms from the address until the page is drawn.
sort       ms from a click on a header until the sorted rows are painted, median of 10.
open       ms from a click on a row until its card and pictures are painted, median of 5.
frame      ms between frames while all rows scroll by: median, and the longest."""
SIZE = (1280, 900)
PAINTED = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
CLICK = """(async () => {{
  const times = [];
  for (const target of [...document.querySelectorAll({targets!r})].slice(0, {count})) {{
    const started = performance.now();
    target.click();
    await {painted};
    times.push(performance.now() - started);
  }}
  return times.sort((a, b) => a - b)[times.length >> 1];
}})()"""
SCROLL = """(async () => {
  const box = document.querySelector('.batch'), frames = [];
  box.scrollTop = 0;
  let before = performance.now();
  while (box.scrollTop + box.clientHeight < box.scrollHeight - 1) {
    box.scrollTop += 120;
    await new Promise(requestAnimationFrame);
    frames.push(performance.now() - before);
    before = performance.now();
  }
  frames.sort((a, b) => a - b);
  return [frames[frames.length >> 1], frames[frames.length - 1]];
})()"""


def real_results(work: Path) -> Path:
    """Return results of two small phantoms, made if they are not there yet."""
    directory = work / "batch-page"
    if not (directory / "results" / "summary.tsv").is_file():
        directory.mkdir(parents=True, exist_ok=True)
        say("running the workflow on two pairs of 512 px ...")
        command(BIN / "unglow", "phantom", "--pairs", 2, "--size", "512x512", directory=directory)
        command(*snakemake_words(2, {}), directory=directory)
    return directory / "results"


class Fake:
    """Results of so many pairs, made of a few real ones.

    Parameters
    ----------
    source
        The real results.
    results
        Where the fake goes.
    """

    def __init__(self, source: Path, results: Path) -> None:
        self.source, self.results = source, results
        rows = read_summary(source / "summary.tsv")
        good = [r for r in rows if r["status"] == "ok" and r["density_per_mm2"]][:2] * 2
        self.templates = [(r["sample"], r["dye"]) for r in good]
        self.failed = [(r["sample"], r["dye"]) for r in rows if r["status"] == "failed"][:1]
        self.draw = random.Random(17)  # noqa: S311 - numbers of a fake
        self.runs = sorted((source / "telemetry" / "runs").glob("*.jsonl"))

    def make(self, count: int) -> None:
        """Write pairs, their telemetry, a run that has ended, and the summary."""
        entries = [self._pair(n) for n in range(count)]
        head, *_ = self.runs[-1].read_text().splitlines()
        run = json.loads(head)
        pairs = [[e.names["sample"], e.names["dye"]] for e in entries]
        last = {"kind": "end", "t": 40.0 * count + 3600, "wall": run["wall"] + 40.0 * count + 3600}
        lines = [run | {"pairs": pairs}, last | {"outcome": "failed"}]
        path = self.results / "telemetry" / "runs" / self.runs[-1].name
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        write_summary(entries, (), self.results, self.results / "summary.tsv")

    def _pair(self, n: int) -> Entry:
        fails = bool(self.failed) and n % 50 == 7
        template = self.failed[0] if fails else self.templates[n % 2]
        sample, dye = f"Rock{n // 2:03d}", ("SYTO9", "DAPI")[n % 2]
        group = ("dry", "wet", "flooded")[n // 2 % 3]
        place = self.results / sample / dye
        shutil.copytree(self.source.joinpath(*template), place, copy_function=_linked)
        for name in () if fails else ("transform", "scale", "detection"):
            path = place / f"{name}.json"
            content = json.loads(path.read_text())
            getattr(self, f"_{name}")(content, n, group)
            path.unlink()  # a link to the real one
            path.write_text(json.dumps(content))
        self._telemetry(template, sample, dye, n)
        date = f"2026-11-{1 + n % 28:02d}"
        return Entry(
            names=dict.fromkeys(LEVELS, "") | {"sample": sample, "dye": dye},
            histograms={"linear": f"{sample}/{dye}/difference/linear.histogram.npz"},
            logs=f"logs/{sample}/{dye}",
            groups={"group": group, "replicate": str(1 + n % 4), "date": date},
        )

    def _transform(self, content: dict[str, Any], n: int, _group: str) -> None:
        factor = self.draw.lognormvariate(0, 0.25) * (8 if n % 53 == 11 else 1)
        for key in ("residual_px", "error_px"):
            content[key] = {name: value * factor for name, value in content[key].items()}
        if n % 25 == 3:
            reason = "The estimated error of the map, 0.8 px, is large for 61 of 63 blocks."
            content |= {"status": "suspect", "reasons": [reason]}

    def _scale(self, content: dict[str, Any], n: int, _group: str) -> None:
        factor = (1 + 0.002 * (n % 28)) * self.draw.gauss(1, 0.006) * (1.6 if n % 61 == 20 else 1)
        for method in content["methods"].values():
            if method.get("gain"):
                method["gain"] *= factor
                method["gain_ci95"] = [end * factor for end in method["gain_ci95"]]

    def _detection(self, content: dict[str, Any], n: int, group: str) -> None:
        typical = {"dry": 60, "wet": 140, "flooded": 90}[group] * (1 + n % 2)
        mean = typical * self.draw.lognormvariate(0, 0.35) * (12 if n % 71 == 31 else 1)
        count = max(0, round(self.draw.gauss(mean, mean**0.5)))
        density, ends = poisson_density(count, content["area_mm2"])
        content |= {"candidates": count, "density_per_mm2": density, "density_ci95_per_mm2": ends}
        content["fdr"] = min(0.05, abs(self.draw.gauss(0.04, 0.008)))

    def _attempts(self, template: tuple[str, str]) -> Iterator[Path]:
        return self.source.joinpath("telemetry", *template).glob("*/*.jsonl")

    def _telemetry(self, template: tuple[str, str], sample: str, dye: str, n: int) -> None:
        slower = self.draw.lognormvariate(0, 0.1) * (5 if n % 67 == 40 else 1)
        newest = {p.parent.name: p for p in sorted(self._attempts(template))}
        for stage, attempt in newest.items():
            head, *lines = attempt.read_text().splitlines()
            first = json.loads(head)
            later = 40.0 * n
            first |= {"wildcards": first["wildcards"] | {"sample": sample, "dye": dye}}
            first |= {"wall": first["wall"] + later, "clock": first["clock"] + later}
            path = attempt_file(self.results / "telemetry" / sample / dye / stage, 1)
            path.parent.mkdir(parents=True)
            rest = [_slower(json.loads(line), slower) for line in lines]
            path.write_text("".join(json.dumps(line) + "\n" for line in (first, *rest)))


def _linked(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def _slower(line: Any, factor: float) -> Any:
    if isinstance(line, list):
        return [line[0] * factor, *line[1:]]
    return line | {"t": line["t"] * factor} if "t" in line else line


def measured(source: Path, count: int, results: Path) -> list[str]:
    """Make so many pairs and their report, look at it; return the row of the table."""
    say(f"making {count} pairs ...")
    Fake(source, results).make(count)
    seconds = []
    for _ in range(2):
        start = process_time()
        report = write_report(results)
        seconds.append(process_time() - start)
    megabytes = report.stat().st_size / 1e6
    with tempfile.TemporaryDirectory() as profile:
        tab = Tab(CHROMIUM, profile, SIZE)
        try:
            return [str(count), *map(number, (*seconds, megabytes, *looked(tab, report)))]
        finally:
            tab.close()


def looked(tab: Tab, report: Path) -> Iterator[float]:
    """Yield ms: drawn, sorted, opened, and from frame to frame (median, longest)."""
    tab.open(report.absolute().as_uri())
    yield float(tab.wait("document.documentElement?.dataset.ready"))
    heads = CLICK.format(targets=".batch .heads button", count=10, painted=PAINTED)
    rows = CLICK.format(targets=".batch .line", count=5, painted=PAINTED)
    yield tab.run(heads)
    yield tab.run(rows)
    yield from tab.run(SCROLL)
    if tab.complaints:
        sys.exit(f"the page complains: {tab.complaints[0]}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--pairs", nargs="+", type=int, default=[40, 500], metavar="N")
    parser.add_argument("--results", type=Path, metavar="DIR")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where fakes are kept")
    parser.add_argument("--work", type=Path, default=WORK)
    options = parser.parse_args()
    if CHROMIUM is None:
        sys.exit("chromium is not installed (Debian: apt-get install chromium)")
    source = options.results or real_results(options.work)
    with tempfile.TemporaryDirectory() as temporary:
        place = options.keep or Path(temporary)
        rows = [measured(source, n, place / f"pairs-{n}" / "results") for n in options.pairs]
    times = ["write", "again", "MB", "ready", "sort", "open", "frame", "longest"]
    print(table(["pairs", *times], rows))
    print(LEGEND)


if __name__ == "__main__":
    main()
