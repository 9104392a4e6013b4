"""A slide whose jobs are killed: no half image is taken for whole, and no byte is another one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from faulty_runs import bytes_of, command, left_behind, snakemake, started, unglow
from running_jobs import attempt_at, wait_for
from sharing import once

pytestmark = pytest.mark.workflow

SLIDE = Path("results/slide")
#: Everything but figures, in both forms.
ALL = ("--config", "multiplexed={output: both}", "--", str(SLIDE / "subtraction.json"))
STAGES = ("slide_register_2-1", "slide_scale", "slide_subtract")


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A working directory with a slide, and a run that was left alone; do not change it."""

    def make(work):
        size = ("--size", "768x768", "--channels", "5", "--cycles", "2")
        code, text = command(work, "unglow", "phantom", *size, "--sample", "slide")
        assert code == 0, text
        code, text = snakemake(work, *ALL)
        assert code == 0, text

    return once(tmp_path_factory, "slide-kills", make)[0]


@pytest.fixture
def work(tmp_path, reference):
    (tmp_path / "raw").symlink_to(reference / "raw")
    return tmp_path


def attempts(work, stage):
    return len([*(work / "results/telemetry/slide" / stage).glob("[0-9]*.jsonl")])


def test_every_job_of_a_slide_that_is_killed_is_tried_again(work, reference):
    with started(work, *ALL) as process:
        for stage in STAGES:
            attempt = wait_for(lambda stage=stage: attempt_at(work, stage))
            os.kill(attempt["job"], signal.SIGKILL)
        assert process.wait(1500) == 0, (work / "output.txt").read_text()
    assert [attempts(work, stage) for stage in STAGES] == [2, 2, 2]
    assert bytes_of(work, SLIDE) == bytes_of(reference, SLIDE)
    assert left_behind(work) == []


def test_images_that_were_half_written_when_all_was_killed_are_no_results(work, reference):
    def writing():
        names = {path.name.split(".")[-1] for path in (work / SLIDE).glob(".corrected.*")}
        return names == {"partial"} and len([*(work / SLIDE).glob(".corrected.*")]) == 2

    with started(work, *ALL) as process:
        wait_for(writing)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    whole = ("corrected.ome.tif", "corrected.ome.zarr/*")
    assert not [path for name in whole for path in (work / SLIDE).glob(name)]
    done = (work / SLIDE / "scale.json").stat().st_mtime_ns
    code, text = unglow(work, "resume")
    assert code == 0, text
    assert [attempts(work, stage) for stage in STAGES] == [1, 1, 2]
    assert (work / SLIDE / "scale.json").stat().st_mtime_ns == done
    assert bytes_of(work, SLIDE) == bytes_of(reference, SLIDE)
    assert left_behind(work) == []
