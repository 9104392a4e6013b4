"""What MultiQC reads: the values of the summary, and what the jobs of each pair took."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import pytest

from unglow.core import digests
from unglow.reporting import multiqc

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
MARKER = {"sample": "slide", "dye": "M01", "status": "ok", "background_channel": "AF"}
SPOILT = (
    {**OK, "spoilt_share": "0.024", "spoilt_reasons": "lost 0.021, debris 0.003"},
    {**SUSPECT, "spoilt_share": "0", "spoilt_reasons": ""},
    SKIPPED,
)


def written(results, *rows):
    """Write the files for some rows; return what each holds."""
    multiqc.write(rows, results)
    return {name: json.loads((results / name).read_text()) for name in multiqc.FILES}


def record(results, place, *lines):
    path = results / "telemetry" / f"{place}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )


def test_general_statistics_are_numbers_of_the_summary_with_shares_in_percent(tmp_path):
    general = written(tmp_path, OK, SUSPECT, SKIPPED)[multiqc.GENERAL]
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


def test_the_table_of_statuses_has_reasons_and_the_interval_and_nothing_acts_in_a_page(tmp_path):
    pairs = written(tmp_path, OK, SUSPECT)[multiqc.PAIRS]
    assert pairs["data"] == {
        "S1 SYTO9": {"status": "ok", "method": "linear", "gain": 1.3, "interval": "1.295 to 1.305"},
        "S2 SYTO9 model-affine": {
            "status": "suspect",
            "reasons": "A &lt;b&gt; &amp; more&#44; at x&#44; y.",
            "notes": "One&#44; two.",
        },
    }
    assert list(pairs["headers"]) == ["status", "reasons", "notes", "gain", "interval", "method"]


def test_spoilt_area_is_reported_by_reason_where_the_summary_has_it(tmp_path):
    files = written(tmp_path, *SPOILT)
    assert files[multiqc.SPOILT]["data"] == {
        "S1 SYTO9": {"lost": 2.1, "debris": 0.3},
        "S2 SYTO9 model-affine": {"lost": 0.0, "debris": 0.0},
    }
    assert files[multiqc.GENERAL]["data"]["S1 SYTO9"]["spoilt_share"] == 2.4
    assert files[multiqc.GENERAL]["data"]["S2 SYTO9 model-affine"]["spoilt_share"] == 0.0
    assert written(tmp_path, OK)[multiqc.SPOILT]["data"] == {}


def test_a_text_of_reasons_that_is_no_list_of_them_is_left_out(tmp_path):
    row = {**OK, "spoilt_share": "0.1", "spoilt_reasons": "lost, out of focus 0.1, 0.2, seam nan"}
    assert written(tmp_path, row)[multiqc.SPOILT]["data"] == {"S1 SYTO9": {"out of focus": 10.0}}


def test_names_that_come_again_have_rows_of_their_own(tmp_path):
    rows = [{**SKIPPED, "sample": name} for name in ("A", "A", "", "A")]
    assert [*written(tmp_path, *rows)[multiqc.GENERAL]["data"]] == ["A", "A (2)", "input", "A (3)"]


def test_time_is_that_of_all_jobs_of_a_pair_and_memory_that_of_the_largest(tmp_path):
    record(tmp_path, "S2/SYTO9/ingest", {"seconds": 9.0, "peak_mb": 900.0}, {"seconds": 2.5})
    record(tmp_path, "S2/SYTO9/ingest/1", {"kind": "attempt", "seconds": 100.0})
    record(tmp_path, "S2/SYTO9/model-affine/register", {"seconds": 4.0, "peak_mb": 150.5})
    record(tmp_path, "S2/SYTO9/model-affine/align", {"seconds": 1.0, "peak_mb": 120.0})
    record(tmp_path, "S2/SYTO9/model-affine/scale", '{"seconds": 7')
    record(tmp_path, "S2/SYTO9/model-similarity/register", {"seconds": 50.0, "peak_mb": 800.0})
    record(tmp_path, "slide/slide_scale", {"seconds": 3.0, "peak_mb": 80.0})
    record(tmp_path, "slide/registration/2-1/slide_register", {"seconds": 5.0, "peak_mb": 90.0})
    record(tmp_path, "../up/ingest", {"seconds": 1.0, "peak_mb": 1.0})
    assert written(tmp_path, OK, SUSPECT, MARKER, SKIPPED)[multiqc.JOBS]["data"] == {
        "S2 SYTO9 model-affine": {"peak_mb": 150.5, "seconds": 7.5},
        "slide M01": {"peak_mb": 90.0, "seconds": 8.0},
    }


def test_what_jobs_took_changes_one_file_and_its_own_list_of_digests_alone(tmp_path):
    record(tmp_path, "S1/SYTO9/ingest", {"seconds": 2.5, "peak_mb": 60.0})
    results = multiqc.write([OK], tmp_path)
    first = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in results}
    os.utime(tmp_path / multiqc.JOBS, (1, 1))
    record(tmp_path, "S1/SYTO9/ingest", {"seconds": 3.5, "peak_mb": 60.0})
    assert multiqc.write([OK], tmp_path) == results
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in results} == first
    assert (tmp_path / multiqc.JOBS).stat().st_mtime > 1
    own = digests.Listed.read(digests.list_of(tmp_path, "multiqc_jobs"))
    assert own.digests == {tmp_path / multiqc.JOBS: digests.hash_file(tmp_path / multiqc.JOBS)}
    assert tmp_path / multiqc.JOBS not in results
    assert multiqc.LIST_OF_JOBS in digests.OF_RUN


def test_files_are_custom_content_of_multiqc(tmp_path):
    """As the parser of its version 1.35 wants them: any of these would be an empty report."""
    files = written(tmp_path, *SPOILT)
    for name, content in files.items():
        assert re.fullmatch(r".+_mqc\.(yaml|yml|json|txt|csv|tsv|log|out|png|jpg)", name)
        assert isinstance(content["data"], dict)
        assert all(isinstance(values, dict) for values in content["data"].values())
        if content["plot_type"] == "generalstats":
            columns = {key: c for column in content["pconfig"] for key, c in column.items()}
        else:
            assert content["parent_id"] == "unglow"
            assert content["pconfig"]["id"] not in (content["id"], content["parent_id"])
            columns = content.get("headers", {})
        for column in columns.values():
            assert {"title", "description"} <= set(column)
            column.get("format", "{}").format(1.5)
        if content["plot_type"] != "bargraph":
            assert {key for values in content["data"].values() for key in values} <= set(columns)
    assert len({content["id"] for content in files.values()}) == len(files)
    kinds = [content["plot_type"] for content in files.values()]
    assert kinds == ["generalstats", "table", "bargraph", "generalstats"]


def test_multiqc_shows_them(tmp_path):
    program = shutil.which("multiqc")
    if program is None:
        pytest.skip("MultiQC is not installed: `pip install multiqc` in an environment of its own")
    record(tmp_path, "S1/SYTO9/ingest", {"seconds": 2.5, "peak_mb": 61.5})
    written(tmp_path, *SPOILT)
    done = subprocess.run(
        [program, "--strict", "--no-version-check", "--fullnames", "-o", "out", multiqc.FOLDER],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out/multiqc_data/multiqc_data.json").read_text())
    text = json.dumps(found["report_general_stats_data"])
    for number in ('"error_p95_px": 0.013', '"candidates_fdr": 4.5', '"peak_mb": 61.5'):
        assert number in text
    assert {"unglow_pairs_table", "unglow_spoilt_graph"} <= set(found["report_plot_data"])
    page = (tmp_path / "out/multiqc_report.html").read_text()
    assert "A &lt;b&gt; &amp; more&#44; at x&#44; y." in page
