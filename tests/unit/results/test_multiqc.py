"""What MultiQC reads: the values of the summary."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from unglow.results import multiqc

OK = {
    "sample": "S1",
    "dye": "SYTO9",
    "status": "ok",
    "reasons": "",
    "error_p95_px": "0.013",
    "method": "linear",
    "gain": "1.300",
    "gain_low95": "1.295",
    "gain_high95": "1.305",
    "candidates": "89",
    "candidates_fdr": "0.045",
}
SUSPECT = {
    "sample": "S2",
    "dye": "SYTO9",
    "registration": "model-affine",
    "status": "suspect",
    "reasons": "A <b> & more, at x, y.",
    "notes": "One, two.",
    "gain": "",
    "candidates": "0",
}
SKIPPED = {"sample": "../up", "dye": "", "status": "skipped", "reasons": "No pre image."}
SPOILT = ({**OK, "spoilt_share": "0.024"}, {**SUSPECT, "spoilt_share": "0"}, SKIPPED)


def written(results, *rows):
    """Write the file for some rows; return what it holds."""
    return json.loads(multiqc.write(rows, results).read_text())


def test_general_statistics_are_numbers_of_the_summary_with_shares_in_percent(tmp_path):
    general = written(tmp_path, OK, SUSPECT, SKIPPED)
    assert general["data"] == {
        "S1 SYTO9": {
            "status": "ok",
            "error_p95_px": 0.013,
            "gain": 1.3,
            "candidates": 89.0,
            "candidates_fdr": 4.5,
        },
        "S2 SYTO9 model-affine": {"status": "suspect", "candidates": 0.0},
        "../up": {"status": "skipped"},
    }
    columns = [key for column in general["pconfig"] for key in column]
    assert columns == ["status", "error_p95_px", "gain", "candidates", "candidates_fdr"]
    spoilt = written(tmp_path, *SPOILT)["data"].values()
    assert [values.get("spoilt_share") for values in spoilt] == [2.4, 0.0, None]


def test_names_that_come_again_have_rows_of_their_own(tmp_path):
    rows = [{**SKIPPED, "sample": name} for name in ("A", "A", "", "A")]
    assert [*written(tmp_path, *rows)["data"]] == ["A", "A (2)", "input", "A (3)"]


def test_the_file_is_custom_content_of_multiqc(tmp_path):
    """As the parser of its version 1.35 wants it: any of these would be an empty report."""
    content = written(tmp_path, *SPOILT)
    assert re.fullmatch(r".+_mqc\.(yaml|yml|json|txt|csv|tsv|log|out|png|jpg)", multiqc.NAME)
    assert content["plot_type"] == "generalstats"
    columns = {key: c for column in content["pconfig"] for key, c in column.items()}
    for column in columns.values():
        assert {"title", "description"} <= set(column)
        column.get("format", "{}").format(1.5)
    assert {key for values in content["data"].values() for key in values} == set(columns)


def test_multiqc_shows_it(tmp_path):
    program = shutil.which("multiqc")
    if program is None:
        pytest.skip("MultiQC is not installed: `pip install multiqc` in an environment of its own")
    written(tmp_path, *SPOILT)
    done = subprocess.run(
        [program, "--strict", "--no-version-check", "--fullnames", "-o", "out", multiqc.NAME],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out/multiqc_data/multiqc_data.json").read_text())
    text = json.dumps(found["report_general_stats_data"])
    for number in ('"error_p95_px": 0.013', '"candidates_fdr": 4.5'):
        assert number in text
