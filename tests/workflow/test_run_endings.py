"""How a run ends that is refused or has nothing for some pairs: its sentence alone, and last."""

from __future__ import annotations

import re
import shutil
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution

import pytest
from real_runs import PROJECT, TABLES, command, snakemake

from unglow.cli import main

pytestmark = pytest.mark.workflow

# What Snakemake prints around the text of an exception.
FRAMES = ("WorkflowError", "Traceback", "in file", "At least one job", "Error in rule")


def last_line(run):
    return run.text.rstrip().splitlines()[-1]


def assert_ends_with(run, sentence):
    """Assert that a run was refused, and printed a sentence last and nothing around it."""
    assert run.code == 1
    assert sentence in last_line(run)
    assert not [frame for frame in FRAMES if frame in run.text]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--config", "regster={a: 1}"), "'regster' is not known; did you mean 'register'?"),
        (("--cores", "0"), "--cores is 0, but has to be at least 1."),
        (("--sdm", "apptainer"), "no image is named for jobs to run in"),
    ],
)
def test_a_refused_run_prints_its_sentence_alone(fresh, words, message):
    assert_ends_with(snakemake(fresh, "-n", *words), message)
    assert not (fresh / "results").exists()


def test_files_that_cannot_be_written_are_named_last(fresh):
    (fresh / "results").mkdir()
    (fresh / "results" / "benchmarks").write_text("")
    sentence = "results/benchmarks is a file, but has to be a directory"
    assert_ends_with(snakemake(fresh), sentence)


def test_a_run_without_images_is_refused_in_a_sentence(tmp_path):
    assert_ends_with(snakemake(tmp_path, "-n"), "The folder raw does not exist")


def test_a_run_with_skipped_inputs_says_so_and_nothing_failed(small_work):
    """The exit status is 1 until they are repaired or allowed, also if nothing is left to do."""
    skipped = small_work / "raw" / "Bad"
    skipped.mkdir()
    (pair,) = (path for path in (small_work / "raw").iterdir() if path != skipped)
    shutil.copy(next(pair.glob("*_post_*")), skipped / "Bad_post_SYTO9.tif")
    verdict = small_work / "results" / "verdict.txt"
    for _ in range(2):
        run = snakemake(small_work, *TABLES)
        assert_ends_with(run, "All usable pairs are done; 1 input was skipped.")
        assert "skipped: Sample Bad, dye SYTO9 has a post-stain image" in run.text
        assert not verdict.exists()
        assert main(["verify", str(small_work / "results")]) == 0
    quiet = snakemake(small_work, *TABLES, "--quiet", "all")
    assert last_line(quiet) == last_line(run)
    # without the hooks, the job of the verdict has to fail
    assert "All other results are complete" in snakemake(small_work, *TABLES, "--no-hooks").text
    assert not verdict.exists()
    # and the verdict of pairs that nobody asked for is not given
    assert snakemake(small_work, "results/summary.tsv").code == 0
    allowed = snakemake(small_work, *TABLES, "--config", "allow_failed=true")
    assert allowed.code == 0
    assert verdict.read_text().startswith("1 ok")


def requirements_of(name):
    """Return the installed distributions that one needs, itself included, by name."""
    found, wanted = {}, [name]
    while wanted:
        name = wanted.pop()
        with suppress(PackageNotFoundError):
            if name not in found:
                found[name] = distribution(name)
                needed = (r for r in found[name].requires or () if "extra ==" not in r)
                wanted += [re.match(r"[\w.-]+", r)[0] for r in needed]
    return found


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return a Snakemake that finds what it needs itself and nothing else."""
    site = tmp_path_factory.mktemp("site")
    for one in requirements_of("snakemake").values():
        for top in {path.parts[0] for path in one.files} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(one.locate_file(top))

    def of(work, *words):
        start = (sys.executable, "-S", "-m", "snakemake", "-s", PROJECT / "Snakefile")
        return command(work, *start, *words, path=site)

    return of


def test_rules_are_checked_and_listed_with_snakemake_alone(alone, tmp_path):
    linted = alone(tmp_path, "--lint")
    assert linted.code == 0, linted.text
    assert "Congratulations" in linted.text
    listed = snakemake(tmp_path, "--list-rules").text
    assert "slide_subtract" in listed
    assert alone(tmp_path, "--list-rules").text == listed


@pytest.mark.parametrize("words", [("-n",), ("--cores", "2"), ("--unlock",)])
def test_a_run_without_the_package_says_what_to_install(alone, words, fresh):
    run = alone(fresh, *words)
    assert_ends_with(run, "The Python package unglow is not installed for ")
    assert "pip install ." in last_line(run)
