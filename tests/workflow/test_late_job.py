"""A job of a killed run that leaves its queue after another run has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest
from real_runs import BIN, PROJECT, TABLES, bytes_of, command, snakemake

pytestmark = pytest.mark.workflow
NO_QUEUE = "no executor for Grid Engine here: pip install 'unglow[cluster]'"
#: A queue in which every job waits for ever.
SUBMIT = '#!/bin/sh\ncp "$1" "$PWD/queued/$$.sh"\necho $$\n'


def test_it_publishes_nothing(small_work):
    pytest.importorskip("snakemake_executor_plugin_cluster_generic", reason=NO_QUEUE)
    queue = small_work / "submit.sh"
    queue.write_text(SUBMIT)
    queue.chmod(0o755)
    (small_work / "queued").mkdir()
    run = subprocess.Popen(
        [
            *(BIN / "snakemake", "-s", PROJECT / "Snakefile", "--executor", "cluster-generic"),
            *("--cluster-generic-submit-cmd", str(queue), "--jobs", "5"),
            *("--config", "detect={fdr: 0.1}", "--", *TABLES),
        ],
        cwd=small_work,
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"},
        start_new_session=True,
    )
    end = time.monotonic() + 120
    while not (jobs := list((small_work / "queued").glob("*.sh"))) and time.monotonic() < end:
        time.sleep(0.1)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert snakemake(small_work, "--unlock").code == 0
    newer = snakemake(small_work, "--config", "detect={fdr: 0.2}", "--", *TABLES)
    assert newer.code == 0, newer.text
    before = bytes_of(small_work / "results")
    late = command(small_work, "sh", jobs[0])
    assert late.code != 0
    assert "This job belongs to an older run" in late.text
    assert bytes_of(small_work / "results") == before
