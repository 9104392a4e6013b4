"""What a run makes follows from the table of stages."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs
from raw_slides import pair

from unglow.core.errors import ConfigError
from unglow.core.measured import LIBRARIES_MB, SECONDS
from unglow.results.figure_table import FIGURES
from unglow.workflow import config, stage_memory
from unglow.workflow.batch import Batch
from unglow.workflow.job_resources import demand_of
from unglow.workflow.planned_jobs import final_outputs, jobs_of_pair
from unglow.workflow.stage_table import STAGES, Outputs, figures_of, files_of, measured_as


@pytest.fixture
def batch(tmp_path):
    pair(tmp_path, "A", "SYTO9", (96, 80))
    given = {
        "sweep": {"register.model": ["affine", "homography"], "scale.percentile": [40, 60]},
        "exports": {"tiff": ["post", "difference"], "fits": ["snr", "aligned_pre"]},
    }
    return Batch.load(given, tmp_path)


def test_every_level_has_the_jobs_of_its_variants(batch):
    jobs = list(jobs_of_pair(batch, "A", "SYTO9"))
    counts = {rule: sum(job.rule == rule for job in jobs) for rule in STAGES}
    assert counts == {
        "ingest": 1, "export_raw": 1,
        "register": 2, "align": 2, "export_aligned_pre": 2, "figures_registration": 2,
        "scale": 4, "difference": 4, "difference_method": 0, "export_difference": 12, "detect": 4,
        "snr": 4, "export_snr": 4, "figures": 4, "summary": 0, "verdict": 0,
        "slide_register": 0, "slide_scale": 0, "slide_part": 0, "slide_subtract": 0,
        "slide_figures": 0,
    }  # fmt: skip
    assert len({(job.rule, *job.wildcards.values()) for job in jobs}) == len(jobs)


def test_figures_of_a_registration_are_drawn_with_the_others_unless_variants_share_it(batch):
    drawn = {"figures/registration.png", "figures/gallery.png"}
    for swept, rules in (
        ((), {"figures"}),
        (("registration",), {"figures"}),
        (("detection",), {"figures", "figures_registration"}),
    ):
        files = {rule: {*files_of(rule, Outputs(swept))} for rule in FIGURES}
        assert {rule for rule in files if files[rule] & drawn} == rules
        assert set.union(*files.values()) >= drawn
    together = replace(batch, settings=structs.replace(batch.settings, sweep={}))
    jobs = [job.rule for job in jobs_of_pair(together, "A", "SYTO9")]
    assert jobs.count("figures") == 1
    assert "figures_registration" not in jobs


def test_six_figures_are_drawn_unless_all_are_asked_for(batch):
    drawn = {}
    for figures in ("main", "all"):
        settings = structs.replace(batch.settings, sweep={}, figures=figures)
        outputs = replace(batch, settings=settings).outputs
        drawn[figures] = {row.name for row in figures_of("figures", outputs)}
    six = {"registration", "map_error", "joint_histogram", "difference", "candidates", "gallery"}
    assert drawn["main"] == six
    extra = {"residuals", "ratio_histogram", "difference_histogram", "purity"}
    assert drawn["all"] == six | extra
    with pytest.raises(ConfigError, match="figures"):
        config.load({"figures": "excess_histogram"})


def test_a_run_makes_every_file_of_its_jobs_once(batch):
    files = final_outputs(batch)
    assert files == sorted(set(files))
    jobs = [file for job in jobs_of_pair(batch, "A", "SYTO9") for file in job.files]
    names = ("README.txt", "summary.tsv", "unglow_mqc.json", "verdict.txt")
    of_run = [f"<results>/{name}" for name in names]
    assert sorted([*jobs, *of_run]) == files
    assert "<results>/A/SYTO9/model-affine/exports/aligned_pre.fits" in files
    assert not any("{" in file for file in files)


def test_what_was_measured_is_what_is_asked_for(batch, monkeypatch):
    """A rule without a number would take a guess; a number without a rule is of no use."""
    names = {"sample": "A", "dye": "SYTO9", "role": "post", "method": "linear"}
    names |= {"registration": "model-affine", "subtraction": "percentile-40"}
    measured = {measured_as(rule) for rule in STAGES}
    assert LIBRARIES_MB.keys() == SECONDS.keys() == measured
    for rule in STAGES:
        assert STAGES[rule].time[:2] == SECONDS[measured_as(rule)]
    monkeypatch.setattr(stage_memory, "LIBRARIES_MB", dict.fromkeys(measured, 0.0))
    before = {rule: demand_of(batch, rule, names).peak_mb(0, 1) for rule in OF_PAIRS}
    for rule, mb in before.items():
        monkeypatch.setitem(stage_memory.LIBRARIES_MB, measured_as(rule), 500.0)
        assert demand_of(batch, rule, names).peak_mb(0, 1) == mb + 500
        monkeypatch.setitem(stage_memory.LIBRARIES_MB, measured_as(rule), 0.0)


OF_PAIRS = [rule for rule in STAGES if not rule.startswith("slide_")]
