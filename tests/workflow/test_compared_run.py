"""What came out of a real run against copies of it: the very things that were changed."""

from __future__ import annotations

import csv
import platform
import re

import pytest
from made_results import altered
from real_runs import TABLES, snakemake

from unglow.cli import main
from unglow.images.detection_results import NOT_COUNTED

pytestmark = pytest.mark.workflow

#: Without what they use here, libraries compute as on a processor of 2008.
OLD_PROCESSOR = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR FMA3 AVX2 AVX512F AVX512_SKX",
    "OPENCV_CPU_DISABLE": "SSE4.1,SSE4.2,AVX,FP16,AVX2,FMA3,AVX512-SKX",
    "OPENBLAS_CORETYPE": "Nehalem",
}


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """Run `unglow compare`: its exit status and the lines that it prints."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        capsys.readouterr()
        code = main(["compare", *map(str, words)])
        return code, capsys.readouterr().out.splitlines()

    return run


def test_a_copy_is_identical(small_finished, small_work, said):
    code, lines = said(small_work, "--against", small_finished)
    assert code == 0
    assert lines[2:4] == ["1 pair: 1 identical.", "identical: phantom SYTO9"]
    assert lines[-1] == "reproduced: 1 of 1 pairs (1 identical)"


def test_just_what_was_changed_is_said(small_finished, small_work, said, tmp_path):
    rows = altered(small_work / "results" / "phantom" / "SYTO9")
    code, lines = said(small_finished / "results", small_work / "results", "--table", "t.tsv")
    assert code == 0
    assert lines[2:4] == ["1 pair: 1 different.", "different: phantom SYTO9"]
    about = lines[4 : lines.index("")]
    matched = sum(not {*row.split(",")[13].split("+")} & {*NOT_COUNTED} for row in rows[10:])
    expected = (
        r"    map moved 0\.20 px \(its error is 0\.\d+\), most 0\.20 px at x \d+, y \d+",
        r"    gain of linear \+1\.0 % \(\d+(\.\d)? times its interval\)",
        rf"    candidates: 10 lost \((\d clear|all clear)\), {matched} matched",
        r"    transform\.json, scale\.json, candidates\.csv of B: not as published .other digests.",
    )
    assert len(about) == len(expected)
    assert all(re.fullmatch(*both) for both in zip(expected, about, strict=True)), about
    with (tmp_path / "t.tsv").open(newline="") as stream:
        (row,) = csv.DictReader(stream, delimiter="\t")
    differing = {name for name, value in row.items() if value == "different"}
    assert differing == {"verdict", "map", "gain", "candidates"}
    same = {"input", "status", "pixels"}
    assert {row[name] for name in same} == {"identical"}
    assert float(row["map_p95_px"]) == pytest.approx(0.2)
    assert float(row["linear_gain_ratio"]) == pytest.approx(1.01)
    assert row["lost_at"].split() == [
        "{:.2f},{:.2f}".format(*map(float, cells[1:3]))
        for cells in sorted((r.split(",") for r in rows[:10]), key=lambda r: -float(r[8]))
    ]
    assert (row["flux_ratio"], row["off"], row["new"]) == ("1", "0", "0")
    code, lines = said(small_work, "--against", small_finished)
    assert code == 1
    assert re.match(r"reproduced: 0 of 1 pairs; phantom SYTO9: map moved 0\.20 px", lines[-1])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="its processor has no such versions")
def test_another_processor_changes_last_digits_alone(small_finished, tmp_path, monkeypatch, said):
    (tmp_path / "raw").symlink_to(small_finished / "raw")
    with monkeypatch.context() as there:
        for name, value in OLD_PROCESSOR.items():
            there.setenv(name, value)
        run = snakemake(tmp_path, *TABLES)
    assert run.code == 0, run.text
    code, lines = said(small_finished / "results", "results", "--table", "t.tsv")
    assert code == 0
    assert re.match("Last digits may differ, .* Nehalem", lines[2])
    with (tmp_path / "t.tsv").open(newline="") as stream:
        (row,) = csv.DictReader(stream, delimiter="\t")
    assert (row["input"], row["status"]) == ("identical", "identical")
    if row["candidates"] != "identical":  # else there is nothing to count
        assert (row["off"], row["lost"], row["new"]) == ("0", "0", "0")
    assert float(row["map_p95_px"]) < 1e-4
    assert float(row["linear_gain_ratio"]) == pytest.approx(1, abs=1e-6)
