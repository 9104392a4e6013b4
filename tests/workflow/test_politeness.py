"""Politeness: a profile under which everything else goes first, seen in /proc and in telemetry."""

from __future__ import annotations

import itertools
import json
import subprocess

import psutil
import pytest
from real_runs import BIN, PROJECT, attempts_of, command, images_of

from unglow.core.machine import processors
from unglow.core.process import working_in

pytestmark = pytest.mark.workflow
POLITE = (
    "snakemake",
    "-s",
    PROJECT / "Snakefile",
    "--workflow-profile",
    PROJECT / "profiles/polite",
)


@pytest.fixture
def work(small_raw, tmp_path):
    """Three pairs, of which no stage but the first is run."""
    for sample in ("A", "B", "C"):
        (tmp_path / "raw" / sample).mkdir(parents=True)
        for role in ("pre", "post"):
            image = images_of(small_raw)[role]
            (tmp_path / "raw" / sample / f"{sample}_{role}_SYTO9.tif").symlink_to(image)
    return tmp_path


def spans(results):
    """Begin and end of each attempt, s, in their order."""
    found = []
    for path in attempts_of(results):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found.append((lines[0]["clock"], lines[0]["clock"] + lines[-1]["t"]))
    return found


def overlap(found):
    return any(begin < end for (_, end), (begin, _) in itertools.pairwise(sorted(found)))


def niceness(directory, process):
    """Nice values and classes of the disk, while a command runs, of processes that work there."""
    seen = set()
    while process.poll() is None:
        for one, words in working_in(directory):
            try:
                job = any("scripts" in word for word in words)
                seen.add((job, one.nice(), int(one.ionice().ioclass)))
            except psutil.NoSuchProcess:
                continue
    return seen


def test_with_the_profile_polite_all_others_go_first_and_one_ingest_runs_at_a_time(work):
    words = [str(word) for word in (BIN / POLITE[0], *POLITE[1:], "--until", "ingest")]
    process = subprocess.Popen(
        [*words, "--cores", "4"], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    seen = niceness(work, process)
    assert process.returncode == 0, process.stdout.read().decode()
    jobs = {(nice, disk) for job, nice, disk in seen if job}
    assert jobs == {(15, int(psutil.IOPRIO_CLASS_IDLE))}
    one_by_one = spans(work / "results")
    assert len(one_by_one) == 3
    assert not overlap(one_by_one)
    more = command(work, *words, "--cores", "4", "--forceall", "--resources", "disk_streams=2")
    assert more.code == 0, more.text
    assert overlap(spans(work / "results")[3:])


def test_one_core_is_left_free_and_less_memory_is_taken(work):
    run = command(work, *POLITE, "-n", "--until", "ingest")
    cores = max(1, processors() - 1)
    assert f" on {cores} core" in " ".join(run.text.split())
