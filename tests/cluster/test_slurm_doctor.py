"""What `unglow doctor` says of a real Slurm."""

from __future__ import annotations

import json
import subprocess

import pytest

pytestmark = pytest.mark.workflow


def test_the_settings_of_a_real_slurm_are_told(slurm, tmp_path):
    done = subprocess.run(
        ["unglow", "doctor", "--json", "--patience", "120"],
        cwd=tmp_path, env=slurm.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = {one["name"]: one for one in json.loads(done.stdout)}
    assert found["Slurm"]["level"] == "ok"
    assert found["Slurm"]["found"].endswith(", cluster smk")
    assert (
        "SelectTypeParameters=CR_CPU_MEMORY, kept by control groups"
        in found["Slurm's memory"]["found"]
    )
    partitions = found["Slurm's partitions"]["found"]
    assert partitions.startswith("main, urgent; default main, at most 01:00:00, DefMemPerCPU=200")
    assert found["Slurm's accounts"]["found"] == "accounts test, root, asked for"
    levels = {one["level"] for name, one in found.items() if name.startswith("Slurm")}
    assert levels == {"ok"}
