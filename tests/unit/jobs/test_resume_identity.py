"""`unglow resume`: whose word it takes, and about which directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unglow.cli import main
from unglow.core.errors import InputError
from unglow.core.process import boot_id, host
from unglow.core.workflow_files import snakefile
from unglow.jobs import resume
from unglow.jobs.resume import check, extend_command, find_snakefile
from unglow.jobs.run_records import Trace, find_directory, find_start_directory, last_run
from unglow.jobs.schedulers import SUBMITTED
from unglow.telemetry.jsonl import LineFile


@pytest.fixture
def work(tmp_path):
    """A working directory, its workflow next to it."""
    (tmp_path / "flow").mkdir()
    (tmp_path / "flow" / "Snakefile").touch()
    work = tmp_path / "a b"
    (work / "results").mkdir(parents=True)
    return work


def record(work, kind="run", **changes):
    """Write the record of a run, or of an attempt, as the workflow writes it."""
    flow = work.parent / "flow"
    head = {"kind": kind, "host": host(), "pid": 2**22, "started": 1, "boot": boot_id(),
            "wall": 1.0, "command": ["snakemake", "-s", "../flow/Snakefile", "-c", "2"],
            "directory": str(work), "started_in": str(work), "workflow": str(flow),
            "results": "results", "beat_s": 2.0}  # fmt: skip
    name = "runs/20261122T060000.000Z-x-1.jsonl" if kind == "run" else "S/D/align/1.jsonl"
    file = LineFile(work / "results/telemetry" / name, pytest.fail)
    file.write(head | changes)
    file.close()
    return file.path


def check_named(named, results=None):
    results = results or named / "results"
    return check(last_run(results), named, results)


def test_a_run_of_the_caller_that_was_here_is_gone_on_with(work):
    record(work)
    link = work.parent / "link"
    link.symlink_to(work)
    assert check_named(work) == work
    assert check_named(link) == work
    assert check_named(work / "results", work / "results") == work


def test_a_record_is_for_its_owner_alone_whatever_the_umask(work):
    before = os.umask(0)
    try:
        path = record(work)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644
    assert last_run(work / "results").own


@pytest.mark.parametrize("whose", ["group", "all", "somebody else"])
def test_a_record_that_others_may_write_is_not_executed(work, whose, monkeypatch, capsys):
    path = record(work)
    monkeypatch.setattr(os, "execv", lambda *words: pytest.fail(f"{words} was executed"))
    if whose == "somebody else":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    else:
        path.chmod(0o664 if whose == "group" else 0o646)
    assert main(["resume", str(work)]) == 2
    message = capsys.readouterr().err
    assert "so nothing of it is executed" in message
    assert f"`chmod go-w '{path}'`" in message


def test_a_link_to_a_file_of_the_caller_is_no_record(work):
    path = record(work)
    path.rename(work / "elsewhere")
    path.symlink_to(work / "elsewhere")
    assert last_run(work / "results") is None
    path.unlink()
    os.mkfifo(path)  # and is not waited for
    assert last_run(work / "results") is None


@pytest.mark.parametrize("changes", [{"directory": "/"}, {"results": "other"}, {"results": "/tmp"}])
def test_a_record_about_another_directory_is_refused(work, changes):
    record(work, **changes)
    with pytest.raises(InputError, match=r"^.*a b was copied or moved"):
        check_named(work)


def test_a_working_directory_whose_results_another_one_has_written_is_distinguished_from_it(work):
    record(work, results=str(work / "results"))
    other = work.parent / "other"
    other.mkdir()
    with pytest.raises(InputError, match=rf"not in .*other: `unglow resume '{work}'` continues"):
        check_named(other, work / "results")


def test_only_the_recorded_workflow_is_run(work):
    (work / "Snakefile").write_text("raise SystemExit('ran')")
    for words in (["snakemake", "-c", "2"], ["snakemake", "-sSnakefile"], ["bash", "-c", "2"]):
        record(work, command=words).rename(work / "results/telemetry/runs/z.jsonl")
        with pytest.raises(InputError, match=r"start it again (by hand|the way it was)"):
            check_named(work)


def test_the_command_is_given_again_with_more_words_before_its_files():
    assert extend_command(run_of("snakemake", "-c", 2)) == [
        "snakemake",
        "-c",
        "2",
        "--rerun-incomplete",
    ]
    module = run_of("python", "-m", "snakemake", "all", "--rerun-incomplete")
    assert extend_command(module, ["-n"]) == ["snakemake", "all", "--rerun-incomplete", "-n"]
    files = ["-c", "2", "--config", "a=1", "--", "x.json"]
    rerun = [*files[:4], "--rerun-incomplete", "-n", *files[4:]]
    assert extend_command(run_of("snakemake", *files), ["-n"]) == ["snakemake", *rerun]
    for head in ({"command": "snakemake -c 1"}, {"command": None}, {}, {"command": ["snakemake"]},
                 {"command": ["python", "-m", "pytest"]}):  # fmt: skip
        with pytest.raises(InputError, match="not started by the snakemake command"):
            extend_command(Trace(Path("/x"), head))


def run_of(*words, directory="/nowhere", **changes):
    return Trace(Path("/x"), {"command": list(words), "directory": directory} | changes)


@pytest.mark.parametrize("changes", [{}, {"directory": ""}, {"directory": None}, {"directory": 3}])
def test_a_record_that_names_no_directory_is_not_about_the_current_one(work, monkeypatch, changes):
    monkeypatch.chdir(work)
    run = Trace(Path("/x"), {"command": ["snakemake", "-c", "1"], **changes}, own=True)
    for asked in (
        lambda: check(run, work, work / "results"),
        lambda: find_directory(run),
        lambda: find_start_directory(run),
    ):
        with pytest.raises(InputError, match=r"^/x does not say where the last run worked"):
            asked()


def test_the_directory_of_a_run_has_to_be_there(work):
    elsewhere = work.parent / "results"
    record(work, results=str(elsewhere))
    (work / "results").rename(elsewhere)
    assert check_named(elsewhere, elsewhere) == work
    work.rmdir()
    with pytest.raises(InputError, match=f"the last run worked in {work}, which is not here"):
        check_named(elsewhere, elsewhere)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["-s", "a"], "a"),
        (["--snakefile", "a", "-c", "1"], "a"),
        (["--snakefile=a=b"], "a=b"),
        (["-sa-s"], "a-s"),
        (["-s", "a", "-sb"], "b"),
        (["--snakefile=a", "-s", "/x/b"], "/x/b"),
        (["-c", "1", "-s"], None),
        (["-S", "a"], None),
        (["-s", "https://x/Snakefile"], None),
        (["--snakefile=github://x"], None),
    ],
)
def test_the_snakefile_of_a_command(tmp_path, options, named):
    found = find_snakefile(run_of("snakemake", *options, directory=str(tmp_path)))
    assert found == (None if named is None else tmp_path / named)


@pytest.mark.parametrize(
    "name", ["Snakefile", "snakefile", "workflow/Snakefile", "workflow/snakefile"]
)
def test_without_a_name_it_is_where_snakemake_looks(tmp_path, name):
    run = run_of("snakemake", "-c", "1", directory=str(tmp_path))
    assert find_snakefile(run) is None
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    assert find_snakefile(run) == tmp_path / name


def test_a_workflow_that_is_not_known_is_not_compared(work):
    for words, workflow in (
        (["-s", "../flow/Snakefile"], None),
        (["-s", "https://x/Snakefile"], "/elsewhere"),
        (["-c", "1"], "/elsewhere"),
    ):
        record(work, command=["snakemake", *words], workflow=workflow)
        assert check_named(work) == work
        (run,) = (work / "results/telemetry/runs").iterdir()
        run.unlink()


def test_a_run_of_unglow_run_is_gone_on_with_by_the_same_workflow_alone(work):
    path = record(work, command=["unglow", "run", "-c", "2"], workflow=str(snakefile().parent))
    run = last_run(work / "results")
    assert check_named(work) == work
    assert extend_command(run, ["-k"]) == ["unglow", "run", "-c", "2", "--rerun-incomplete", "-k"]
    path.unlink()
    record(work, command=["unglow", "run"])
    with pytest.raises(InputError, match=rf"flow, but its command would start {snakefile()}"):
        check_named(work)


def test_resume_becomes_the_snakemake_of_the_last_run(work, monkeypatch):
    record(work)
    place = work / ".snakemake" / "locks"
    place.mkdir(parents=True)
    (place / "0.input.lock").touch()
    said, became, held = [], [], []

    def execv(program, words):
        became.append((program, words, Path.cwd(), list(place.iterdir())))
        raise InterruptedError

    monkeypatch.chdir(work.parent)
    monkeypatch.setattr(os, "execv", execv)
    monkeypatch.setattr(resume, "hold_lock", held.append)
    stumbling = "refuse_what_snakemake_stumbles_over"
    monkeypatch.setattr(resume, stumbling, lambda: held.append(0))
    with pytest.raises(InterruptedError):
        resume.resume(work / "results", work / "results", ["--cores", "1"], (), said.append)
    options = ["-s", "../flow/Snakefile", "-c", "2", "--rerun-incomplete", "--cores", "1"]
    words = [sys.executable, "-Pm", "snakemake", *options]
    assert became == [(sys.executable, words, work, [])]
    assert held == [0, work]
    assert said == [f"cd '{work}' && snakemake {' '.join(options)}"]


def test_a_queue_is_not_asked_to_cancel_what_others_have_noted(work, monkeypatch):
    noted = work / SUBMITTED
    noted.parent.mkdir(parents=True)
    noted.write_text(f"sge\t17\tx\t{work}\n")
    log = work / ".snakemake" / "log" / "x.snakemake.log"
    log.parent.mkdir(parents=True)
    log.write_text("SLURM run ID: abc-1\n")
    assert (resume.read_submitted(work), resume.find_slurm_runs(work)) == (
        {"sge": ["17"]},
        ["abc-1"],
    )
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(InputError, match="belongs to another user, so no job is cancelled"):
        resume.read_submitted(work)
    assert resume.find_slurm_runs(work) == []


def test_the_command_is_shown_before_it_is_run_and_starts_snakemake_and_nothing_else(work):
    (work / "snakemake.py").write_text("print('a file of the directory was run')")
    record(work, command=["snakemake", "-s", "../flow/Snakefile", "--version", "a'b; touch c"])
    done = subprocess.run(
        [Path(sys.executable).with_name("unglow"), "resume", str(work)],
        capture_output=True, text=True, check=False, cwd=work.parent,
    )  # fmt: skip
    first = done.stderr.splitlines()[0]
    options = "-s ../flow/Snakefile --version 'a'\"'\"'b; touch c' --rerun-incomplete"
    assert first == f"unglow resume: cd '{work}' && snakemake {options}"
    assert done.stdout.strip()[0].isdigit()
    assert (done.returncode, (work / "c").exists()) == (0, False)
