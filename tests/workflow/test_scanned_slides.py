"""Scans of one slide by several scanners: formats of real scanners within what was declared."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from real_runs import snakemake

pytestmark = pytest.mark.workflow

FOLDER = "scanners_one_slide"


def test_ingesting_scans_in_turn_takes_what_was_declared(tmp_path, shared_data):
    pairs = {"nn": ("N2_BB_563479_1.ndpi", "N1_BB_563479_1.ndpi"),
             "az": ("Z_BB_563479_1.tif", "A_BB_563479_1.svs")}  # fmt: skip
    for sample, names in pairs.items():
        (tmp_path / "raw" / sample).mkdir(parents=True)
        for role, name in zip(("post", "pre"), names, strict=True):
            target = tmp_path / f"raw/{sample}/{sample}_{role}_scan{Path(name).suffix}"
            shutil.copyfile(shared_data / FOLDER / name, target)
    done = snakemake(tmp_path, "--cores", "1", "--until", "ingest")
    assert done.code == 0, done.text
    for sample in pairs:
        record = tmp_path / f"results/telemetry/{sample}/scan/ingest/1.jsonl"
        lines = [json.loads(line) for line in record.read_text().splitlines()]
        assert lines[-1]["in_flight"] == 1
        assert lines[-1]["peak_mb"] <= lines[0]["declared_mb"], sample
