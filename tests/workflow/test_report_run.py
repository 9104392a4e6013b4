"""Runs end with a report, failed ones too, and never fail because of it."""

from __future__ import annotations

import base64
import gzip
import json
import re

import pytest
from real_runs import snakemake

pytestmark = pytest.mark.workflow


def model_of(work):
    """The model that a report holds."""
    report = (work / "results" / "report.html").read_text()
    packed = re.search('<script type="application/gzip" id="model">(.*?)</script>', report)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def test_a_run_ends_with_a_report_of_every_job(small_finished):
    report = (small_finished / "results" / "report.html").read_text()
    assert "unglow report" in report
    pictures = re.search(r'id="pictures">(.*?)</script>', report)[1]
    (pair,) = json.loads(pictures)
    assert {"post", "aligned pre", "difference", "registration"} <= {p["name"] for p in pair}
    model = model_of(small_finished)
    (run,) = model["runs"]
    assert (run["outcome"], run["done"]) == ("ok", run["of"])
    assert len(model["attempts"]) == run["of"]
    assert model["incidents"] == []
    assert [p["status"] for p in model["pairs"]] == ["ok"]
    for a in model["attempts"]:
        assert a["outcome"] == "ok"
        assert a["peak_mb"] <= a["declared_mb"]
        assert 0 <= a["start"] <= a["end"] <= run["seconds"]


def test_a_report_that_cannot_be_written_makes_the_exit_status_say_so(small_work):
    report = small_work / "results" / "report.html"
    report.unlink()
    report.mkdir()
    (small_work / "results" / "verdict.txt").unlink()
    run = snakemake(small_work)
    assert run.code == 1, run.text
    assert "Traceback" not in run.text
    assert len(re.findall("report.html could not be written", run.text)) == 1
    assert "The results are not affected; `unglow report results` writes the report." in run.text
    assert (small_work / "results" / "verdict.txt").is_file()


def test_results_that_nobody_can_read_cost_a_sentence_and_no_report(small_work):
    pair = small_work / "results" / "phantom" / "SYTO9"
    (pair / "figures" / "gallery.png").write_text("cut")
    (small_work / "results" / "verdict.txt").unlink()
    run = snakemake(small_work, "--rerun-triggers", "mtime")
    assert run.code == 0, run.text
    assert "report.html: open it in a browser" in run.text
    pictures = (small_work / "results" / "report.html").read_text()
    assert "No gallery: " in pictures


def test_a_failed_run_has_its_incident_in_the_report(small_work):
    (small_work / "results" / "phantom" / "SYTO9" / "details/detection.json").unlink()
    run = snakemake(small_work, "--set-resources", "detect:mem_mb=45", "--config", "force_run=True")
    assert run.code != 0
    assert "report.html: open it in a browser" in run.text
    model = model_of(small_work)
    assert model["runs"][-1]["outcome"] == "failed"
    causes = [(i["kind"], i["cause"]) for i in model["incidents"]]
    assert ("attempt", "memory") in causes
    assert ("pair", "incomplete") in causes
    memory = next(i for i in model["incidents"] if i["cause"] == "memory")
    assert memory["title"] == "detect phantom SYTO9"
    assert memory["numbers"]["declared_mb"] == 45
