"""Kill runs at random moments, go on, and compare every result byte with a run that was left alone.

Each round is one run from nothing to the end. Whenever a job begins, a process may be drawn (the
job, its watchdog, its shell, Snakemake, or all of them), a signal, and a moment of its life. After
Snakemake has ended, one command goes on: `unglow resume` if it was killed, else the same again. A
run that fails although nothing was killed in it counts as a manual repair.

    python benchmarks/kills.py --count 200 --cores 2
    python benchmarks/kills.py --cores 1                      # one job at a time
    python benchmarks/kills.py --slide                        # a slide instead of a pair
    python benchmarks/kills.py -- --workflow-profile $PWD/profiles/slurm --jobs 4
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from running import BIN, PROJECT, WORK, command, say
from tables import table

from unglow.jobs.run_records import last_run, read_trace
from unglow.telemetry.attempt_files import attempt_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TARGETS = ("job", "watchdog", "shell", "snakemake", "group")
SIGNALS = ("KILL", "TERM", "INT")
#: Which share of the attempts are killed.
SHARE = 0.85
METHOD = ("--config", "scale={methods: [linear]}", "multiplexed={output: both}")
PAIR = ("--rotation-deg", "1", "--shift-px", "12", "-9", "--scale", "1.005")
SLIDE = ("--channels", "6", "--cycles", "2")
PER_ROUND = 25
"""Kills in one run, at most."""
_LOOK_S = 0.03
_PATIENCE_S = 900.0
_NO_RESULTS = ("telemetry", "benchmarks", "details")


@dataclass(frozen=True)
class Kill:
    """What was sent to whom, while which rule was at work."""

    rule: str
    target: str
    signal: str


@dataclass
class Tally:
    """Kills, and what followed from them."""

    kills: Counter[Kill] = field(default_factory=Counter)
    differences: Counter[Kill] = field(default_factory=Counter)
    repairs: Counter[Kill] = field(default_factory=Counter)
    litter: Counter[Kill] = field(default_factory=Counter)
    rounds: int = 0


def digests(results: Path) -> dict[str, str]:
    """Return the digest of every result file of every pair or slide."""
    return {
        str(path.relative_to(results)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(results.glob("*/**/*"))
        if path.is_file()
        and path.relative_to(results).parts[0] not in _NO_RESULTS
        and path.name != ".snakemake_timestamp"
        and path.suffix != ".sha256"  # which has the times of raw images
    }


def lives_of(results: Path) -> dict[str, float]:
    """Return how long the shortest job of each rule that ended well has lived, s."""
    found: dict[str, float] = {}
    for path in attempt_files(results / "telemetry"):
        trace = read_trace(path)
        if trace is not None and trace.ended:
            end = json.loads(path.read_text().splitlines()[-1])
            if end["outcome"] == "ok":
                rule = trace.fields["rule"]
                found[rule] = min(end["t"], found.get(rule, end["t"]))
    return found


@dataclass
class Round:
    """One run from nothing to the end, with kills.

    Attributes
    ----------
    place
        Working directory.
    words
        Options of the snakemake command.
    lives
        How long jobs of each rule live, s.
    """

    place: Path
    words: Sequence[str]
    lives: dict[str, float]
    dice: random.Random
    most: int
    done: list[Kill] = field(default_factory=list)
    repairs: list[Kill] = field(default_factory=list)
    _seen: set[Path] = field(default_factory=set)

    def run(self) -> None:
        """Start, kill, and go on, until Snakemake ends well."""
        again = False
        for _ in range(self.most + 5):
            before = len(self.done)
            process = self._start(resume=again)
            killed = self._accompany(process)
            if process.returncode == 0:
                return
            if len(self.done) == before:
                say(f"{self.place}: failed without a kill, see {self.place / 'output.txt'}")
                self.repairs += self.done[-1:]
                shutil.copy(self.place / "output.txt", self.place / "repair.txt")
                shutil.rmtree(self.place / "results", ignore_errors=True)
                shutil.rmtree(self.place / ".snakemake", ignore_errors=True)
            again = killed and last_run(self.place / "results") is not None
        sys.exit(f"{self.place}: the run does not come to its end")

    def _start(self, *, resume: bool) -> subprocess.Popen[bytes]:
        words = [BIN / "unglow", "resume"] if resume else [BIN / "snakemake", *self.words]
        with (self.place / "output.txt").open("ab") as output:
            return subprocess.Popen(
                [str(word) for word in words],
                cwd=self.place,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _accompany(self, process: subprocess.Popen[bytes]) -> bool:
        """Kill while a run goes on; return whether Snakemake itself was killed."""
        due: list[tuple[float, Kill, dict[str, Any]]] = []
        killed, end = False, time.monotonic() + _PATIENCE_S
        while process.poll() is None:
            if time.monotonic() > end:
                os.killpg(process.pid, signal.SIGKILL)
                sys.exit(f"{self.place}: nothing ends any more")
            for attempt in self._new():
                if len(self.done) + len(due) < self.most and self.dice.random() < SHARE:
                    due.append(self._drawn(attempt))
            now = time.monotonic()
            for _, kill, attempt in (one for one in due if one[0] <= now):
                if self._send(process, kill, attempt):
                    self.done.append(kill)
                    killed |= kill.signal == "KILL" and kill.target in ("snakemake", "group")
            due = [one for one in due if one[0] > now]
            time.sleep(_LOOK_S)
        return killed

    def _new(self) -> Iterator[dict[str, Any]]:
        """Yield the first lines, together, of attempts that have started."""
        for path in attempt_files(self.place / "results" / "telemetry"):
            if path in self._seen:
                continue
            trace = read_trace(path)
            if trace is not None and len(trace.processes) == 2:
                self._seen.add(path)
                yield {**trace.fields, "job": trace.processes[1].pid}

    def _drawn(self, attempt: dict[str, Any]) -> tuple[float, Kill, dict[str, Any]]:
        kill = Kill(attempt["rule"], self.dice.choice(TARGETS), self.dice.choice(SIGNALS))
        life = 1.05 * self.lives.get(attempt["rule"], 1.0)
        return time.monotonic() + self.dice.uniform(0, life), kill, attempt

    def _send(self, process: subprocess.Popen[bytes], kill: Kill, attempt: dict[str, Any]) -> bool:
        watchdog = int(attempt["pid"])
        try:
            pids = {
                "job": attempt["job"],
                "watchdog": watchdog,
                "shell": psutil.Process(watchdog).ppid() if kill.target == "shell" else 0,
                "snakemake": process.pid,
                "group": -process.pid,
            }
            pid = pids[kill.target]
            if kill.target == "shell" and pid == process.pid:
                return False
            os.kill(pid, signal.Signals[f"SIG{kill.signal}"])
        except (ProcessLookupError, psutil.NoSuchProcess):  # the job was faster
            return False
        return True


def campaign(arguments: argparse.Namespace, words: Sequence[str]) -> Tally:
    """Run rounds until there were enough kills."""
    base = arguments.work
    shutil.rmtree(base, ignore_errors=True)
    reference = base / "reference"
    reference.mkdir(parents=True)
    phantom = ("--size", arguments.size, *(SLIDE if arguments.slide else PAIR))
    command("unglow", "phantom", *phantom, directory=reference)
    say("reference run")
    command("snakemake", *words, directory=reference)
    expected, lives = digests(reference / "results"), lives_of(reference / "results")
    tally, dice = Tally(), random.Random(arguments.seed)  # noqa: S311 (no secrets)
    while tally.kills.total() < arguments.count:
        place = base / f"round-{tally.rounds}"
        place.mkdir()
        (place / "raw").symlink_to(reference / "raw")
        most = min(PER_ROUND, arguments.count - tally.kills.total())
        one = Round(place, words, lives, dice, most)
        one.run()
        tally.rounds += 1
        tally.kills.update(one.done)
        tally.repairs.update(one.repairs)
        # the machine may have been busy
        for rule, seconds in lives_of(place / "results").items():
            lives[rule] = min(seconds, lives[rule])
        found = digests(place / "results")
        wrong = sorted(k for k in found | expected if found.get(k) != expected.get(k))
        hidden = [p for p in (place / "results").glob("*/**/.*") if "timestamp" not in p.name]
        if wrong or hidden or one.repairs:
            say(f"{place}: different {wrong}, left behind {hidden}")
            tally.differences.update(one.done[-1:] if wrong else ())
            tally.litter.update(one.done[-1:] if hidden else ())
        else:
            shutil.rmtree(place)
        say(f"round {tally.rounds}: {len(one.done)} kills, {tally.kills.total()} in all")
    return tally


def report(tally: Tally) -> str:
    """Return the tables: by rule, and by target and signal."""
    header = ("", "kills", "differences", "left behind", "manual repairs")
    counters = (tally.kills, tally.differences, tally.litter, tally.repairs)

    def row(name: str, keys: Sequence[Kill]) -> tuple[str, ...]:
        return (name, *(str(sum(counter[key] for key in keys)) for counter in counters))

    kills = list(tally.kills)
    rules = sorted({kill.rule for kill in kills})
    ways = sorted({(kill.target, kill.signal) for kill in kills})
    rows = [row(rule, [k for k in kills if k.rule == rule]) for rule in rules]
    rows += [row(f"{t} SIG{s}", [k for k in kills if (k.target, k.signal) == (t, s)])
             for t, s in ways]  # fmt: skip
    rows.append(row(f"all, in {tally.rounds} runs", kills))
    return table(header, rows)


def main() -> None:
    """Run the campaign and print its tables."""
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--slide", action="store_true", help="of a slide, not of a pair")
    parser.add_argument("--size", default="700x900", help="of the images, px")
    parser.add_argument("--work", type=Path, default=WORK / "kills", help="is emptied")
    arguments = parser.parse_args(words[:cut])
    arguments.work = arguments.work.absolute()
    more = words[cut + 1 :] or ["--cores", str(arguments.cores)]
    tally = campaign(arguments, ["-s", str(PROJECT / "Snakefile"), *more, *METHOD])
    print(report(tally))


if __name__ == "__main__":
    main()
