"""Telemetry as runs and jobs would have written it, with numbers that are known."""

from __future__ import annotations

import csv
import json
import time
from typing import TYPE_CHECKING

from unglow.telemetry.attempt_files import attempt_file, attempt_numbers
from unglow.telemetry.speedscope import SUFFIX, Frame, Profile, write_profile

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = [
    *("t", "rss", "pss", "cpu", "read", "written"),
    *("threads", "processes", "state", "peak", "available"),
]
WALL, CLOCK, BOOT = 1_790_000_000.0, 5_000.0, "boot-1"
STAGES = (
    *("plan", "ingest_post", "ingest_pre", "register", "align", "scale"),
    *("difference_linear", "difference_moffat", "difference_percentile", "detect"),
    *("figures_registration", "figures_scale", "figures_candidates"),
)


def stamp(wall):
    whole = time.strftime("%Y%m%dT%H%M%S", time.gmtime(wall))
    return f"{whole}.{round(wall % 1 * 1000):03d}Z"


def sample(t, rss, *, cpu=None, read=0, written=0, state="R", processes=1, peak=None, pss=None,
           available=20000):  # fmt: skip
    cpu, peak = t if cpu is None else cpu, rss if peak is None else peak
    return [t, rss, pss, cpu, read, written, 2, processes, state, peak, available]


def end(t, outcome="ok", **more):
    return {"kind": "end", "t": t, "outcome": outcome, "message": "", "signal": 0, "code": 0} | more


def step(t, name, key, inside=None):
    return {"kind": "step", "t": t, "name": name, "edge": "begin", "id": key, "in": inside}


def step_end(t, key):
    return {"kind": "step", "t": t, "edge": "end", "id": key}


class Made:
    """A results directory that telemetry is written into; times are s after `WALL`."""

    def __init__(self, results: Path, host="node7"):
        self.results = results
        self.host = host
        self._pid = 100
        self._runs = []

    def attempt(self, stage, start, *lines, sample="s1", dye="DAPI", number=1, **more):
        """Write the file of an attempt; return its path.

        ``run``: the path of the file of the run that it names, by default the last one that began
        before it and was written before it; None for no run.
        """
        self._pid += 1
        wildcards = {"sample": sample, "dye": dye} if sample else {}
        rule = next((r for r in ("ingest", "difference", "figures") if stage.startswith(r)), stage)
        first = {
            "kind": "attempt",
            "schema": 1,
            "rule": rule,
            "wildcards": wildcards,
            "attempt": number,
            "host": self.host,
            "pid": self._pid,
            "started": 7,
            "boot": BOOT,
            "wall": WALL + start,
            "clock": CLOCK + start,
            "declared_mb": 400,
            "threads": 1,
            "limit_s": None,
            "log": f"logs/{sample}/{dye}/{stage}.log",
            "unglow": "0.1.0",
            "python": "3.11.2",
            "machine_mb": 24000,
            "cgroup_mb": None,
            "cores": 2,
            "columns": COLUMNS,
        } | more
        before = [path for started, path in self._runs if started <= first["wall"]]
        run = more.get("run", before[-1] if before else None)
        first["run"] = None if run is None else run.stem
        place = self.results.joinpath("telemetry", *wildcards.values(), stage)
        path = attempt_file(place, max(attempt_numbers(place), default=0) + 1)
        return write(path, [first, *lines])

    def run(self, *lines, start=0.0, **more):
        """Write the file of a run; return its path."""
        first = {
            "kind": "run",
            "schema": 1,
            "host": self.host,
            "pid": 99,
            "started": 5,
            "boot": BOOT,
            "wall": WALL + start,
            "clock": CLOCK + start,
            "user": "me",
            "command": ["snakemake", "-s", "Snakefile", "--cores", "2"],
            "directory": str(self.results.parent),
            "workflow": "/opt/unglow",
            "results": "results",
            "unglow": "0.1.0",
            "snakemake": "9.17.0",
            "python": "3.11.2",
            "platform": "Linux",
            "packages": {"numpy": "2.2"},
            "cores": 2,
            "executor": "local",
            "resources": {"mem_mb": 14000},
            "machine_mb": 24000,
            "config": {"memory_per_job": 2000},
            "config_files": [],
            "pairs": [["s1", "DAPI"]],
        } | more
        name = f"{stamp(first['wall'])}-{first['host']}-{first['pid']}.jsonl"
        path = write(self.results / "telemetry" / "runs" / name, [first, *lines])
        self._runs.append((first["wall"], path))
        return path


def summary(results, *rows):
    """Write the summary of a results directory."""
    results.mkdir(parents=True, exist_ok=True)
    with (results / "summary.tsv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)


def job(t, jobid, rule, sample="s1", dye="DAPI", **more):
    wildcards = {"sample": sample, "dye": dye} if sample else {}
    return {
        "kind": "job",
        "t": t,
        "jobid": jobid,
        "rule": rule,
        "wildcards": wildcards,
        "reason": "missing output",
        "threads": 1,
        "resources": {"mem_mb": 400},
        "local": True,
        "input": ["raw/a.tif"],
        "output": ["results/a.json"],
        "log": [f"logs/{rule}.log"],
        "state": "queued",
    } | more


def state(t, jobid, name):
    return {"kind": "state", "t": t, "jobid": jobid, "state": name}


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def profile(attempt, seconds):
    """Write the profile of an attempt next to its file: seconds of stacks of (name, file, line)."""
    taken, t = Profile(), 0.0
    for stack, s in seconds.items():  # one after the other
        t += s
        taken.add(tuple(Frame(*frame) for frame in stack), t, s)
    write_profile(attempt.with_suffix(SUFFIX), "unglow", taken)


def many(results, jobs=1000, samples=60, cores=8):
    """Write a run of many jobs on several cores, some of which fail at first or stall."""
    made = Made(results)
    made.run()  # written again below
    free = [2.0] * cores
    lines = []
    for n in range(jobs):
        stage = STAGES[n % len(STAGES)]
        rule = next((r for r in ("ingest", "difference", "figures") if stage.startswith(r)), stage)
        name = f"s{n // len(STAGES):03d}"
        core = min(range(cores), key=free.__getitem__)
        begin, seconds = free[core] + 1.0, 2.0 + (n * 7) % 11
        lines.append(job(free[core], n, rule, sample=name))
        lines.append(state(free[core], n, "started"))
        fails = n % 97 == 5
        peak = 120 + (n * 37) % 250
        rows = [
            sample(
                round(seconds * k / samples, 2),
                round(40 + (peak - 40) * min(1.0, 2 * k / samples), 1),
                cpu=round(0.8 * seconds * k / samples, 3),
                read=k * 100_000,
                written=k * 50_000,
            )
            for k in range(1, samples)
        ]
        for number in (1, 2) if fails else (1,):
            bad = fails and number == 1
            outcome = ("memory", "killed", "timeout")[n % 3] if bad else "ok"
            more = {"message": "needs more memory", "remedy": "snakemake --x"} if bad else {}
            last = end(
                seconds,
                outcome,
                peak_mb=peak + 3,
                cpu_s=0.8 * seconds,
                read=6_000_000,
                written=3_000_000,
                **more,
            )
            made.attempt(stage, begin, *rows, last, sample=name, number=number)
            begin += seconds + 0.5
        free[core] = begin
        lines.append(state(begin, n, "finished"))
    lines.sort(key=lambda line: line["t"])
    total = {"kind": "total", "t": 1.0, "jobs": {}}
    finish = {"kind": "end", "t": max(free) + 1, "wall": WALL + max(free) + 1, "outcome": "ok"}
    made.run(total, *lines, finish, cores=cores, pairs=[])
    return made
