"""A batch on a real Slurm that things happen to, against the same batch in one process.

Starts a Slurm of three nodes on this machine (as tests/cluster does), runs twelve pairs on it, has
jobs lack memory on every node and kills a node in the middle; all has to end with the same bytes as
a serial run. Exits with 1 if it does not. Needs root and Debian's packages of Slurm.

    python benchmarks/cluster.py
    python benchmarks/cluster.py -- COMMAND WORDS ...       # a cluster for another command
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "cluster"))

from a_slurm import PROJECT, Slurm, bytes_of, missing
from running import say
from tables import number, table

from unglow.telemetry.reading.history import History
from unglow.telemetry.reading.incidents import incidents

if TYPE_CHECKING:
    from collections.abc import Sequence

SHAPE = ("--rotation-deg", "1", "--shift-px", "12", "-9")
#: Every other pair: the first attempt at aligning has less than its libraries take, or at ingesting
#: less than Snakemake itself takes on a node.
FENCED, STARVED = ("Rock02", "Rock05", "Rock08", "Rock11"), ("Rock03", "Rock06", "Rock09")


def expression(names: Sequence[str], first_mb: int, then_mb: int) -> str:
    """Return memory for a rule that some samples have less of at the first attempt."""
    return f"{first_mb} if attempt == 1 and wildcards.sample in {tuple(names)!r} else {then_mb}"


def make_pairs(place: Path, count: int, size: str) -> None:
    """Make raw/ with so many pairs."""
    for n in range(1, count + 1):
        words = ("unglow", "phantom", "--sample", f"Rock{n:02}", "--seed", str(n), "--size", size)
        subprocess.run([*words, *SHAPE], cwd=place, check=True, stdout=subprocess.DEVNULL)


def batch(slurm: Slurm, work: Path, jobs: int) -> tuple[int, float, str]:
    """Run the batch on the cluster; exit status, s, and the node that was killed."""
    started, killed = perf_counter(), ""
    words = slurm.snakemake(
        *("--jobs", jobs, "--groups", "ingest=ingesting", "--set-resources"),
        "ingest:mem_mb=" + expression(STARVED, 120, 500),
        "align:mem_mb=" + expression(FENCED, 320, 700),
    )
    with slurm.started(work, *words) as run:
        done = work / "results" / "telemetry"
        slurm.wait_for(lambda: len(list(done.glob("*/*/register"))) >= 3 or run.poll(), 1800)
        running = [
            (node, name) for node, name in slurm.running().values() if "ingesting" not in name
        ]
        if running:
            killed = running[0][0]
            slurm.kill_node(killed)
            say(f"killed {killed} with {running[0][1]}")
            # it comes back after a while, as nodes do
            slurm.wait_for(lambda: down(slurm, killed) or run.poll() is not None, 300)
            slurm.up()
        status = run.wait()
    return status, perf_counter() - started, killed


def down(slurm: Slurm, node: str) -> bool:
    """Whether Slurm has found out that a node is lost."""
    return any("down" in row[0].lower() for row in slurm.ask("sinfo", "-h", "-n", node, "-o", "%T"))


def ended_on(slurm: Slurm) -> dict[str, Counter[str]]:
    """Return for each node how many of its jobs ended in which state."""
    found: dict[str, Counter[str]] = {node: Counter() for node in slurm.nodes}
    for row in slurm.ask("sacct", "-X", "-n", "-P", "-o", "NodeList,State"):
        node, _, state = " ".join(row).partition("|")
        if node in found:
            found[node][state.split()[0]] += 1
    return found


def main() -> int:
    """Run the batch, or another command, on a cluster."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--size", default="700x900")
    parser.add_argument("--jobs", type=int, default=6, help="in the queue at a time")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--memory", type=int, default=2500, help="of a node, MB")
    parser.add_argument("command", nargs="*", help="another command to run on the cluster")
    asked = parser.parse_args()
    reason = missing()
    if reason is not None:
        sys.exit(reason)
    with tempfile.TemporaryDirectory(prefix="unglow-batch-") as name:
        place = Path(name)
        place.chmod(0o755)  # munge wants all to reach its socket
        slurm = Slurm(place / "state", 18200, nodes=asked.nodes, memory_mb=asked.memory)
        try:
            slurm.up()
            os.environ.update(slurm.environment)
            if asked.command:
                return subprocess.run(asked.command, check=False).returncode
            return judge(slurm, place, asked)
        finally:
            slurm.down()


def judge(slurm: Slurm, place: Path, asked: argparse.Namespace) -> int:
    """Run the batch serially and on the cluster, and print what came of it."""
    serial, work = place / "serial", place / "work"
    for one in (serial, work):
        one.mkdir()
    make_pairs(serial, asked.pairs, asked.size)
    (work / "raw").symlink_to(serial / "raw")
    profile = PROJECT / "profiles" / "serial"
    words = ("snakemake", "-s", PROJECT / "Snakefile", "--workflow-profile", profile)
    started = perf_counter()
    status, text = slurm.command(serial, *words, timeout=7200)
    alone = perf_counter() - started
    if status != 0:
        sys.exit(text[-3000:])
    say(f"serial: {alone:.0f} s")
    status, seconds, killed = batch(slurm, work, asked.jobs)
    if status != 0:
        print((work / "output.txt").read_text()[-3000:])
    history = History.read(work / "results")
    found = incidents(history, work / "results")
    rows = [[i.cause, i.title, "yes" if i.mended else "NO", i.message[:90]] for i in found]
    print(table(("cause", "what", "mended", "said"), sorted(rows), left=4))
    expected, made = bytes_of(serial / "results"), bytes_of(work / "results")
    differ = sorted(k for k in expected.keys() | made.keys() if expected.get(k) != made.get(k))
    attempts = [a for h in history.runs for a in h.attempts]
    cpu = sum(a.attempt.cpu_s or 0.0 for a in attempts)
    states = ended_on(slurm)
    print(f"\npairs {asked.pairs}, files {len(expected)}, differing {len(differ)} {differ[:3]}")
    print(f"attempts at jobs of unglow: {len(attempts)}; jobs of Slurm, by node:")
    kinds = sorted({state for ends in states.values() for state in ends})
    print(table(("node", *kinds), [[n, *(str(e[k]) for k in kinds)] for n, e in states.items()]))
    print(f"node killed: {killed}; exit status {status}")
    print(f"s: serial {number(alone)}, Slurm {number(seconds)}; CPU of jobs {number(cpu)}")
    causes = {i.cause for i in found}
    whole = {"memory", "oom_killed", "node_lost"} <= causes and all(i.mended for i in found)
    whole &= all(ends["FAILED"] + ends["OUT_OF_MEMORY"] for ends in states.values())
    return 0 if status == 0 and not differ and whole else 1


if __name__ == "__main__":
    sys.exit(main())
