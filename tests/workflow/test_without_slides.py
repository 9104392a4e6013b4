"""A pair is run to its report by what is left of unglow without the wing of slides."""

from __future__ import annotations

import shutil

from real_runs import PROJECT, command, summary_of


def test_a_pair_is_run_without_slides(fresh, tmp_path_factory):
    place = tmp_path_factory.mktemp("unglow")
    for name in ("rules", "scripts", "report", "envs"):
        shutil.copytree(PROJECT / name, place / name)
    shutil.copytree(PROJECT / "src" / "unglow", place / "src" / "unglow")
    shutil.copy(PROJECT / "Snakefile", place)
    shutil.rmtree(place / "src" / "unglow" / "slides")
    (place / "rules" / "slides.smk").unlink()
    words = ("snakemake", "-s", place / "Snakefile", "--cores", "2")
    run = command(fresh, *words, path=place / "src")
    assert run.code == 0, run.text
    assert {row["status"] for row in summary_of(fresh).values()} <= {"ok", "suspect"}
    assert (fresh / "results" / "report.html").is_file()
