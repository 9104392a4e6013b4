"""Jobs at once and their time, of small graphs by hand and of all schedules of random times."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from unglow.workflow.schedule import Capacity, Job, bound_at_once, cover_with_chains, simulate

CHAIN = ("ingest", "register", "align", "scale", "difference", "detect", "figures")
#: Memory of the jobs of a pair of 512 x 512 px, MB.
MB = {"ingest": 150, "register": 190, "align": 94, "scale": 117, "difference": 100, "detect": 141,
      "figures": 215, "summary": 67, "verdict": 67}  # fmt: skip
#: Jobs of a pair that each rule reads results of.
READS = {"register": ("ingest",), "align": ("ingest", "register"), "scale": ("ingest", "align"),
         "difference": ("ingest", "align", "scale"), "detect": ("ingest", "align", "difference"),
         "figures": CHAIN[:-1]}  # fmt: skip


def capacity(cores=None, limit_mb=None, streams=None):
    return Capacity(cores, limit_mb, 1e6, {}, streams)


def graph_of(pairs, threads=1):
    """The jobs of some small pairs, and those of the run."""
    jobs, places = [], {}
    for pair in range(pairs):
        for rule in CHAIN:
            places[pair, rule] = len(jobs)
            after = tuple(places[pair, one] for one in READS.get(rule, ()))
            jobs.append(Job(rule, str(pair), threads, MB[rule], after))
    detected = tuple(places[pair, rule] for pair in range(pairs) for rule in ("scale", "detect"))
    jobs.append(Job("summary", "", 1, MB["summary"], detected))
    jobs.append(Job("verdict", "", 1, MB["verdict"], (len(jobs) - 1,)))
    return jobs


@pytest.mark.parametrize(
    ("cores", "most", "mb"), [(1, 1, 215), (2, 2, 430), (8, 8, 1720), (64, 9, 1787)]
)
def test_eight_pairs_run_as_many_jobs_at_once_as_they_can(cores, most, mb):
    assert bound_at_once(graph_of(8), capacity(cores)) == (most, mb)


def test_chains_hold_every_job_once_behind_what_it_waits_for():
    jobs = graph_of(5)
    chains = cover_with_chains(jobs)
    assert len(chains) == 6
    places = {id(job): n for n, job in enumerate(jobs)}
    held = [places[id(job)] for chain in chains for job in chain]
    assert sorted(held) == list(range(len(jobs)))
    for chain in chains:
        for one, after in pairwise(chain):
            assert places[id(one)] in after.after


def run_at_random(jobs, limits, rng):
    """Yield what runs at once in one schedule of random times, started in a random order."""
    limit_cores, limit_mb, limit_streams = (np.inf if one is None else one for one in limits)
    seconds = rng.exponential(1.0, len(jobs))
    done, running, now = set(), {}, 0.0
    while len(done) < len(jobs):
        for n in rng.permutation(len(jobs)):
            job = jobs[n]
            if n in done or n in running or not done.issuperset(job.after):
                continue
            at_work = [jobs[one] for one in running]
            if (
                sum(one.threads for one in at_work) + job.threads <= limit_cores
                and sum(one.mem_mb for one in at_work) + job.mem_mb <= limit_mb
                and sum(one.disk_streams for one in at_work) + job.disk_streams <= limit_streams
            ):
                running[n] = now + seconds[n]
        yield len(running), sum(jobs[one].mem_mb for one in running)
        first = min(running, key=running.get)
        now = running.pop(first)
        done.add(first)


@pytest.mark.parametrize("seed", range(40))
def test_no_schedule_runs_more_than_the_bound(seed):
    rng = np.random.default_rng(seed)
    jobs = []
    for n in range(25):
        after = rng.choice(n, min(n, rng.integers(0, 4)), replace=False) if n else []
        threads, mb, streams = rng.integers(1, 4), rng.integers(1, 300), rng.integers(0, 2)
        jobs.append(
            Job(
                "r",
                str(n),
                int(threads),
                int(mb),
                tuple(map(int, after)),
                disk_streams=int(streams),
            )
        )
    limits = [(3, None, None), (8, None, None), (None, 700, None), (6, 900, 1)][seed % 4]
    most = bound_at_once(jobs, capacity(*limits))
    for _ in range(30):
        for count, mb in run_at_random(jobs, limits, rng):
            assert count <= most.jobs
            assert mb <= most.mb


@pytest.mark.parametrize("cores", [1, 2, 8, 64])
def test_the_bound_is_at_most_two_above_what_some_schedule_runs(cores):
    jobs = graph_of(8)
    rng = np.random.default_rng(1)
    seen = [max(run_at_random(jobs, (cores, None, None), rng)) for _ in range(60)]
    assert bound_at_once(jobs, capacity(cores)).jobs - max(count for count, _ in seen) <= 2


def chain(seconds, threads=1, **more):
    return [Job("r", "", threads, 100, (n - 1,) if n else (), **more) for n in range(len(seconds))]


def test_jobs_that_wait_for_each_other_take_their_sum():
    assert simulate(chain([1, 2, 3]), [1, 2, 3], capacity(8)) == 6
    assert simulate([], [], capacity(8)) == 0


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [((4,), 2), ((2,), 4), ((None,), 2), ((4, 250), 4), ((4, None, 1), 8), ((4, 50), 8)],
)
def test_cores_memory_and_streams_limit_what_runs_at_once(limits, seconds):
    jobs = [Job("ingest", str(n), 1, 100, disk_streams=1) for n in range(4)]
    assert simulate(jobs, [2.0] * 4, capacity(*limits)) == seconds


def test_a_job_that_does_not_fit_yet_lets_smaller_ones_go_first():
    jobs = [Job("a", "", 1, 1), Job("b", "", 2, 1), Job("c", "", 1, 1)]
    assert simulate(jobs, [3.0, 1.0, 2.0], capacity(2)) == 4.0
