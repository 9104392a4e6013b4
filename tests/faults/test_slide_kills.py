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
ALL = ("--config", "multiplexed={output: both}", "--", str(SLIDE / "details/subtraction.json"))
STAGES = ("slide_register_1-2", "slide_scale", "slide_subtract")


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


#: Of a package that is imported by each process: parts are as small as they can be.
SMALL_PARTS = """
import importlib.util
import sys


class _Finder:
    def find_spec(self, name, path=None, target=None):
        if name != "unglow.images.slide_plan":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def with_small_parts(module):
            execute(module)
            module.PART_MPX = 1e-3

        spec.loader.exec_module = with_small_parts
        return spec


sys.meta_path.insert(0, _Finder())
"""


def test_a_part_that_is_killed_costs_that_part_alone(tmp_path, monkeypatch):
    work, alone = tmp_path / "parts", tmp_path / "alone"
    for place in (work, alone):
        place.mkdir()
    size = ("--size", "4200x300", "--channels", "5", "--cycles", "2")
    code, text = command(work, "unglow", "phantom", *size, "--sample", "slide")
    assert code == 0, text
    (alone / "raw").symlink_to(work / "raw")
    code, text = snakemake(alone, *ALL)
    assert code == 0, text
    (tmp_path / "first").mkdir()
    (tmp_path / "first/sitecustomize.py").write_text(SMALL_PARTS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "first"))
    parts = [f"slide_part_{n}" for n in range(3)]
    with started(work, *ALL) as process:
        for stage in parts:
            wait_for(lambda stage=stage: attempt_at(work, stage))
            if stage == parts[-1]:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    done = [(work / SLIDE / f"parts/{n}/state.json").is_file() for n in range(3)]
    assert any(done)
    code, text = unglow(work, "resume")
    assert code == 0, text
    assert [attempts(work, stage) for stage in parts] == [1 if one else 2 for one in done]
    assert attempts(work, "slide_subtract") == 1
    assert not (work / SLIDE / "parts").exists()
    assert bytes_of(work, SLIDE) == bytes_of(alone, SLIDE)
    assert left_behind(work) == []
