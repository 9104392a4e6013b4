"""A run of a part of the pairs: `only`, and what becomes of the others."""

from __future__ import annotations

import shutil

import pytest
from real_runs import TABLES, bytes_of, command, images_of, snakemake, summary_of

pytestmark = pytest.mark.workflow


def states_of(work):
    return {sample: row["status"] for sample, row in summary_of(work).items()}


def test_the_others_are_not_run_and_keep_their_results_and_rows(small_raw, tmp_path):
    for name in ("one", "two", "three"):
        for role, image in images_of(small_raw).items():
            target = tmp_path / "raw" / name / f"{name}_{role}_SYTO9.tif"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(image, target)
    (tmp_path / "raw" / "four").mkdir()
    (tmp_path / "raw" / "four" / "four_pre_SYTO9.tif").write_bytes(b"")
    run = snakemake(tmp_path, "--config", 'only=["one/*"]', "--", *TABLES)
    assert run.code == 0, run.text  # not the business of this run: four cannot be used
    assert states_of(tmp_path) == {"one": "ok"}
    before = bytes_of(tmp_path / "results")
    run = command(tmp_path, *("unglow", "run", "--cores", "2", "--only", "two"), *TABLES)
    assert run.code == 0, run.text
    assert states_of(tmp_path) == {"one": "ok", "two": "ok"}
    after = bytes_of(tmp_path / "results")
    assert before.items() <= after.items()
    assert {path.split("/")[0] for path in after} == {"one", "two"}

    # with another setting, equal bytes at another time, and where something was repaired
    (tmp_path / "raw" / "one" / "one_pre_SYTO9.tif").touch()
    setting = ("--config", "detect={fdr: 0.2}")
    run = command(
        tmp_path, *("unglow", "run", "--cores", "2", "--only", "two"), *setting, "--", *TABLES
    )
    assert run.code == 0, run.text
    outdated = {sample: row["outdated"] for sample, row in summary_of(tmp_path).items()}
    assert outdated == {"one": "detect.fdr: 0.05 -> 0.2", "two": ""}
    (tmp_path / "results" / "one" / "SYTO9" / "details/detection.json").write_text("{}")
    run = command(tmp_path, "unglow", "verify", "--repair")
    assert run.code == 1, run.text
    words = ("unglow", "run", "--cores", "2", "--only", "two", "--forcerun", "scale")
    run = command(tmp_path, *words, *setting, "--", *TABLES)
    assert run.code == 0, run.text
    assert states_of(tmp_path) == {"one": "incomplete", "two": "ok"}
