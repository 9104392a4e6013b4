"""The archive for a bug report: all that tells what happened, and no pixel."""

from __future__ import annotations

import json
import os
import zipfile

import pytest

from unglow import __version__
from unglow.cli import main
from unglow.reporting.bug_report import parts, write_bundle

TAKEN = {
    "config/config.yaml": "config/config.yaml",
    "config/samples.tsv": "config/samples.tsv",
    "config/S1/post.landmarks.csv": "config/S1/post.landmarks.csv",
    "logs/S1/DAPI/register.log": "logs/S1/DAPI/register.log",
    ".snakemake/log/2026.snakemake.log": "snakemake/2026.snakemake.log",
    ".snakemake/unglow/headers.json": "headers/headers.json",
    "results/summary.tsv": "results/summary.tsv",
    "results/verdict.txt": "results/verdict.txt",
    "results/telemetry/runs/1.jsonl": "telemetry/runs/1.jsonl",
    "results/telemetry/S1/DAPI/register/1.jsonl": "telemetry/S1/DAPI/register/1.jsonl",
    "results/benchmarks/S1/DAPI/register.tsv": "benchmarks/S1/DAPI/register.tsv",
    "results/S1/DAPI/transform.json": "results/S1/DAPI/transform.json",
    "results/S1/DAPI/blocks.csv": "results/S1/DAPI/blocks.csv",
    "results/S1/DAPI/digests/register.sha256": "results/S1/DAPI/digests/register.sha256",
}
LEFT = (
    "raw/S1/post_DAPI.tif",
    "results/report.html",
    "results/S1/DAPI/post.ome.zarr/zarr.json",
    "results/S1/DAPI/post.ome.zarr/0/c/0/0",
    "results/S1/DAPI/displacement.npz",
    "results/S1/DAPI/figures/registration.png",
    "results/S1/DAPI/candidates.csv",
    "results/S1/DAPI/exports/post.ome.tif",
    ".snakemake/metadata/abc",
)


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """A working directory after a run."""
    for name in (*TAKEN, *LEFT):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}" if name.endswith(".yaml") else f"this is {name}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_text_of_every_kind_is_taken_once_and_pixels_never(ran):
    found = {f"{part}/{name}": path for part, name, path in parts(ran, ran / "results")}
    assert {path.relative_to(ran).as_posix(): name for name, path in found.items()} == TAKEN


def test_the_command_writes_an_archive_with_versions(ran, capsys):
    assert main(["bundle"]) == 0
    with zipfile.ZipFile("unglow-bundle.zip") as archive:
        assert archive.testzip() is None
        names = {n.removeprefix("unglow-bundle/") for n in archive.namelist()}
        assert names == {*TAKEN.values(), "README.txt", "environment.json"}
        log = archive.read("unglow-bundle/logs/S1/DAPI/register.log").decode()
        environment = json.loads(archive.read("unglow-bundle/environment.json"))
    assert log == "this is logs/S1/DAPI/register.log"
    assert environment["unglow"] == __version__
    assert environment["installed"]["numpy"] == environment["packages"]["numpy"]
    told = capsys.readouterr().out
    assert "     2  telemetry\n" in told
    assert "Look through it before you give it to others." in told


def test_a_faulty_configuration_and_missing_results_are_no_obstacle(tmp_path, capsys):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text("no: such: yaml")
    target = tmp_path / "b.zip"
    assert main(["bundle", str(tmp_path), "-o", str(target)]) == 0
    with zipfile.ZipFile(target) as archive:
        assert archive.read("b/config/config.yaml") == b"no: such: yaml"
    assert f"{tmp_path / 'results'} does not exist" in capsys.readouterr().out


def test_the_same_files_make_the_same_archive(ran, tmp_path):
    for name in ("one", "two"):
        write_bundle(tmp_path / name / "b.zip", ran, ran / "results", {"cores": 2})
    one, two = ((tmp_path / name / "b.zip").read_bytes() for name in ("one", "two"))
    assert one == two


def test_names_that_are_no_text_are_written_out(ran):
    (ran / "logs" / os.fsdecode(b"S\xe9.log")).write_text("x")
    write_bundle(ran / "b.zip", ran, ran / "results", {})
    with zipfile.ZipFile(ran / "b.zip") as archive:
        assert "b/logs/S\\xe9.log" in archive.namelist()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere"], "nowhere is no directory; give the working directory of a run."),
        ([".", "-o", "b.tar"], "b.tar has to end in .zip."),
    ],
)
def test_mistakes_are_told(ran, capsys, words, sentence):
    assert main(["bundle", *words]) == 2
    assert sentence in capsys.readouterr().err
