"""``unglow doctor --tune`` on real pairs: real runs, and a profile that Snakemake takes."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from unglow import open_run
from unglow.cli import main


@pytest.fixture
def batch(tmp_path, monkeypatch):
    """Two small pairs."""
    monkeypatch.chdir(tmp_path)
    assert main(["phantom", "--size", "384x384", "--pairs", "2"]) == 0
    (tmp_path / "config").mkdir()
    settings = {"memory_per_job": 400, "scale": {"methods": ["linear"]}, "only": ["*/SYTO9"]}
    (tmp_path / "config" / "config.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path


def test_a_pair_is_run_apart_from_all_results_and_a_profile_is_written(batch, capsys, project):
    before = {path.name for path in batch.iterdir()}
    words = ["doctor", "--tune", "--force", "--cores", "1", "--repeat", "2", "--keep", "kept"]
    assert main([*words, "--pair", "phantom_02/SYTO9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "phantom_02 SYTO9; cores: 1"
    assert lines[-1] == "Take it with --workflow-profile profiles/tuned"
    row = lines[-4].split()
    assert (row[0], row[2], row[4]) == ("1", "±", "1.00")
    assert float(row[1]) > 0
    assert float(row[3]) >= 0
    assert 50 < float(row[8]) < 400
    assert {path.name for path in batch.iterdir()} - before == {"profiles", ".unglow", "kept"}
    assert {path.name for path in (batch / "kept").iterdir()} == {"1-core-1", "1-core-2"}
    assert open_run("kept/1-core-2").outcome == "ok"
    words = [sys.executable, "-m", "snakemake", "-s", project / "Snakefile", "-n"]
    words += ["--workflow-profile", "profiles/tuned"]
    dry = subprocess.run(words, capture_output=True, text=True, check=False)
    assert dry.returncode == 0, dry.stderr


def test_a_run_that_fails_says_where_its_logs_are(batch, capsys):
    (batch / "raw" / "phantom_02" / "phantom_02_post_SYTO9.tif").write_bytes(b"no image")
    assert main(["doctor", "--tune", "--force", "--cores", "1", "--pair", "phantom_02/SYTO9"]) == 2
    assert "is not one of the pairs: phantom_01/SYTO9" in capsys.readouterr().err
    assert main(["doctor", "--tune", "--force", "--cores", "0"]) == 2
    assert "--cores has 0 but needs whole numbers above 0." in capsys.readouterr().err


def test_nothing_is_advised_or_written_on_a_busy_machine(batch, capsys, monkeypatch):
    monkeypatch.setattr("unglow.cli.tune.busy_processors", lambda: 1000.0)
    assert main(["doctor", "--tune", "--cores", "1"]) == 2
    output = capsys.readouterr()
    assert output.out.count("tune") == 0
    assert "busy with other work (load 1000.0)" in output.err
    assert "run again on an idle machine, or add --force." in output.err
    assert not (batch / "profiles").exists()
