"""`unglow run` and `unglow run --where`: Snakemake with the workflow that is installed."""

from __future__ import annotations

import io
import os
import sys

import pytest
from raw_slides import pair

from unglow.cli import main
from unglow.core import workflow_files
from unglow.core.printable import WEB
from unglow.jobs.context import DEBUGGED
from unglow.jobs.launcher import ProfileLineFilter
from unglow.jobs.snakemake_command import LOGGER, STARTED, snakemake_words


class BecameError(Exception):
    """What the process would have become."""


@pytest.fixture
def became(monkeypatch):
    """Return the words of the Snakemake that a command becomes."""

    def execv(program, words):
        assert program == sys.executable
        raise BecameError(words)

    def of(*words, command="run"):
        monkeypatch.setattr(os, "execv", execv)
        monkeypatch.setenv(STARTED, "")
        with pytest.raises(BecameError) as caught:
            main([*command.split(), *words])
        return caught.value.args[0]

    return of


def test_every_option_goes_to_snakemake_as_it_is(project, became):
    words = ["-n", "--config", "memory_per_job=500", "--", "results/summary.tsv"]
    start = [sys.executable, "-Pm", "unglow.jobs.launcher", "-s", str(project / "Snakefile")]
    start += ["--workflow-profile", str(project / "profiles" / "default")]
    assert became(*words) == [*start, LOGGER, *words]
    assert became() == [*start, LOGGER]
    other = ["--logger", "rich"]
    assert became(*other) == [*start, *other]


@pytest.mark.parametrize("form", [["--workflow-profile", "{}"], ["--workflow-profile={}"]])
def test_profiles_of_unglow_are_known_by_name_and_others_left_alone(
    project, became, form, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)

    def profile(name):
        return became(*(word.format(name) for word in form))[-1].removeprefix("--workflow-profile=")

    assert profile("serial") == str(project / "profiles" / "serial")
    for name in ("mine", "serial"):
        (tmp_path / name).mkdir()
    assert profile("mine") == "mine"
    assert profile("serial") == "serial"


def test_pairs_become_a_key_of_the_configuration(became, capsys):
    words = became("--only", "A/*", "-n", "--config", "results=out", "--only=B/X")
    assert words[-4:] == ["-n", "--config", 'only=["A/*", "B/X"]', "results=out"]
    assert became("-n", "--", "--only")[-2:] == ["--", "--only"]
    assert main(["run", "--only"]) == 2
    assert "--only needs a name" in capsys.readouterr().err


def test_what_it_became_is_reported_as_the_command_that_was_typed(became):
    words = became("--cores", "2")
    argv = ["snakemake", *words[3:]]
    assert snakemake_words(argv) == ["unglow", "run", "--cores", "2"]
    assert snakemake_words(["/x/snakemake", "-s", "mine", "-n"])[0] == "snakemake"


def test_a_live_page_is_asked_for_by_the_environment_alone(became, monkeypatch):
    monkeypatch.setenv(WEB, "")  # so that what the command sets goes with the test
    assert "--web" not in became("--web", "-c", "1")
    assert os.environ[WEB] == "1"
    monkeypatch.delenv(WEB)
    assert became("-c", "1", "--", "--web")[-1] == "--web"
    assert WEB not in os.environ


def test_the_line_about_the_profile_is_not_printed():
    kept = io.StringIO()
    stream = ProfileLineFilter(kept)
    line = "Using workflow specific profile /x for setting default command line arguments."
    print("before", file=stream)
    print(line, file=stream)
    print("\nafter", file=stream)
    stream.flush()
    assert kept.getvalue() == "before\n\nafter\n"


def test_debug_is_a_run_of_one_job_that_has_to_be_named(became, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(DEBUGGED, "")
    pair(tmp_path, "A", "D")
    words = became("register", "A/D", command="run --debug")
    alone = ["--allowed-rules", "register", "--force", "--retries", "0"]
    assert words[words.index(LOGGER) + 1 :][: len(alone)] == alone
    assert 'only=["A/D"]' in words
    assert words[-2:] == ["--", "results/A/D/transform.json"]
    assert os.environ[DEBUGGED] == "1"
    for wrong, said in (
        (["register", "A/E"], "'A/E' is not one of the pairs: A/D."),
        (["register"], "run has no job register."),
        (["register", "A/D", "method=linear"], "A/D method=linear has no job register."),
    ):
        assert main(["run", "--debug", *wrong]) == 2
        assert said in capsys.readouterr().err
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text("scale: {write: all}\n")
    assert main(["run", "--debug", "difference_method", "A/D"]) == 2
    assert "A/D has 2 jobs difference_method: add words that choose one" in capsys.readouterr().err
    words = became("difference_method", "A/D", "method=moffat", command="run --debug")
    assert words[-1] == "results/A/D/difference_moffat.ome.zarr/zarr.json"


def test_where_prints_the_snakefile(project, capsys):
    assert main(["run", "--where"]) == 0
    assert capsys.readouterr().out == f"{project / 'Snakefile'}\n"


def test_a_copy_without_its_workflow_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("unglow.cli.run.snakefile", lambda: tmp_path / "Snakefile")
    assert main(["run"]) == 2
    message = f"lacks its workflow ({tmp_path / 'Snakefile'}): install it again."
    assert message in capsys.readouterr().err


def test_what_lies_in_the_package_comes_first(tmp_path, monkeypatch):
    module = tmp_path / "unglow" / "core" / "workflow_files.py"
    monkeypatch.setattr(workflow_files, "__file__", str(module))
    (tmp_path / "unglow" / "snakefile").mkdir(parents=True)
    assert workflow_files.snakefile() == tmp_path / "unglow" / "snakefile" / "Snakefile"


def test_a_profile_that_is_not_there_is_refused(became, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for words in (["--workflow-profile", "slrum"], ["--workflow-profile=slrum"]):
        assert main(["run", *words]) == 2
        assert "slurm" in capsys.readouterr().err
    (tmp_path / "profiles" / "slrum").mkdir(parents=True)
    assert became("--workflow-profile", "slrum")[-1] == "slrum"
    assert became("--workflow-profile", "none")[-1] == "none"


@pytest.mark.parametrize("form", [["--config", "{}"], ["-C", "{}"], ["--config={}"]])
def test_settings_of_groups_may_be_given_with_a_dot(became, form):
    words = became(*(word.format("detect.fdr=0.1") for word in form), "channel=G", "--cores", "1.5")
    assert words[-4:] == ["detect={fdr: 0.1}", "channel=G", "--cores", "1.5"]
    assert became("--configfile", "a.yaml=")[-2:] == ["--configfile", "a.yaml="]
