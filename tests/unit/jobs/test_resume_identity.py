"""`unglow resume`: whose word it takes, and about which directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unglow.cli import main
from unglow.core.errors import InputError
from unglow.core.process import boot_id, host, started_ticks
from unglow.core.workflow_files import snakefile
from unglow.jobs.resume import identity, queued_jobs
from unglow.jobs.resume import resume as command
from unglow.jobs.resume.identity import Trace, last_run, open_attempts
from unglow.jobs.resume.resume import resume, words_of
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


def check(named, results=None):
    results = results or named / "results"
    return identity.check(last_run(results), named, results)


def test_a_run_of_the_caller_that_was_here_is_gone_on_with(work):
    record(work)
    link = work.parent / "link"
    link.symlink_to(work)
    assert check(work) == work
    assert check(link) == work
    assert check(work / "results", work / "results") == work


def test_a_record_is_for_its_owner_alone_whatever_the_umask(work):
    before = os.umask(0)
    try:
        path = record(work)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644
    assert last_run(work / "results").own


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_record_that_others_may_write_is_not_executed(work, mode, capsys):
    record(work).chmod(mode)
    assert main(["resume", str(work)]) == 2
    message = capsys.readouterr().err
    assert "may be written by others, so nothing of it is executed" in message
    assert f"`chmod go-w '{work}/results/telemetry/runs/" in message


def test_a_record_of_somebody_else_is_not_executed(work, monkeypatch, capsys):
    record(work)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert main(["resume", str(work)]) == 2
    message = capsys.readouterr().err
    assert f"belongs to another user (uid {os.getuid()}), so nothing of it is executed" in message
    assert message.endswith("let them resume it, or start the run again yourself.\n")


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
        check(work)


def test_a_working_directory_whose_results_another_one_has_written_is_distinguished_from_it(work):
    record(work, results=str(work / "results"))
    other = work.parent / "other"
    other.mkdir()
    with pytest.raises(InputError, match=rf"not in .*other: `unglow resume '{work}'` goes on"):
        check(other, work / "results")


AGAIN = "snakemake -s {flow} -c 2 --rerun-incomplete"
CONFIGURED = "cd '{old}' && " + AGAIN + " --config 'results={new}/results'"
ODD = "cd '{new}' && snakemake --snakefile={flow} 'x;y' --rerun-incomplete"


@pytest.mark.parametrize(
    ("changes", "locked", "command"),
    [
        ({}, False, "cd '{new}' && " + AGAIN),
        ({}, True, "cd '{new}' && " + AGAIN + " --unlock && " + AGAIN),
        ({"command": ["snakemake", "--snakefile=../flow/Snakefile", "x;y"]}, False, ODD),
        ({"results": "{old}/results"}, False, CONFIGURED),
    ],
)
def test_for_a_copy_the_command_to_give_there_is_reported(work, changes, locked, command):
    new, flow = work.parent / "new one", work.parent / "flow" / "Snakefile"
    names = {"new": new, "old": work, "flow": flow}
    changes = {k: v.format(**names) if isinstance(v, str) else v for k, v in changes.items()}
    record(work, **changes)
    if locked:
        (work / ".snakemake" / "locks").mkdir(parents=True)
        (work / ".snakemake" / "locks" / "0.input.lock").touch()
    subprocess.run(["cp", "-a", str(work), str(new)], check=True)
    with pytest.raises(InputError) as refusal:
        check(new)
    assert str(refusal.value).splitlines()[1].strip() == command.format(**names)


def test_only_the_recorded_workflow_is_run(work):
    (work / "Snakefile").write_text("raise SystemExit('ran')")
    for words in (["snakemake", "-c", "2"], ["snakemake", "-sSnakefile"], ["bash", "-c", "2"]):
        record(work, command=words).rename(work / "results/telemetry/runs/z.jsonl")
        with pytest.raises(InputError, match=r"start it again (by hand|the way it was)"):
            check(work)


def run_of(*words, directory="/nowhere", **changes):
    return Trace(Path("/x"), {"command": list(words), "directory": directory} | changes)


def test_the_options_of_a_run_are_those_behind_its_command():
    def options(*words):
        return identity.options_of(run_of(*words))

    assert options("snakemake", "-c", 2) == ["-c", "2", "--rerun-incomplete"]
    assert options("python", "-m", "snakemake", "all") == ["all", "--rerun-incomplete"]
    files = ["-c", "2", "--config", "a=1", "--", "x.json"]
    assert options("snakemake", *files) == [*files[:4], "--rerun-incomplete", *files[4:]]
    again = ["--rerun-incomplete", "-c", "1"]
    assert options("snakemake", *again) == again
    refused = (
        "the last run was not started by the snakemake command, so it is not known how to go on: "
        "start it again the way it was."
    )
    for head in ({"command": "snakemake -c 1"}, {"command": None}, {}, {"command": ["snakemake"]},
                 {"command": ["python", "-m", "pytest"]}):  # fmt: skip
        with pytest.raises(InputError) as error:
            identity.options_of(Trace(Path("/x"), head))
        assert str(error.value) == refused


def test_a_command_was_given_in_the_directory_of_the_run_if_no_other_is_recorded():
    assert identity.find_start_directory(run_of(started_in="/from")) == Path("/from")
    assert identity.find_start_directory(run_of(started_in="")) == Path("/nowhere")
    assert identity.find_start_directory(run_of()) == Path("/nowhere")


@pytest.mark.parametrize("changes", [{}, {"directory": ""}, {"directory": None}, {"directory": 3}])
def test_a_record_that_names_no_directory_is_not_about_the_current_one(work, monkeypatch, changes):
    monkeypatch.chdir(work)
    run = Trace(Path("/x"), {"command": ["snakemake", "-c", "1"], **changes}, own=True)
    refused = "/x does not say where the last run worked: start it again the way it was."
    for asked in (
        lambda: identity.check(run, work, work / "results"),
        lambda: identity.directory_of(run),
        lambda: identity.find_start_directory(run),
    ):
        with pytest.raises(InputError) as error:
            asked()
        assert str(error.value) == refused


def test_the_directory_of_a_run_has_to_be_there(work):
    link = work.parent / "link"
    link.symlink_to(work)
    assert identity.directory_of(run_of(directory=str(link))) == work
    with pytest.raises(InputError) as error:
        identity.directory_of(run_of())
    assert str(error.value) == (
        "the last run worked in /nowhere, which is not here: start it again by hand where its "
        "files are now."
    )


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
    found = identity._snakefile(options, tmp_path)
    assert found == (None if named is None else tmp_path / named)


@pytest.mark.parametrize(
    "name", ["Snakefile", "snakefile", "workflow/Snakefile", "workflow/snakefile"]
)
def test_without_a_name_it_is_where_snakemake_looks(tmp_path, name):
    assert identity._snakefile(["-c", "1"], tmp_path) is None
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    assert identity._snakefile(["-c", "1"], tmp_path) == tmp_path / name
    assert identity._snakefile(["-s"], tmp_path) == tmp_path / name


def test_a_workflow_that_is_not_known_is_not_compared(work):
    here = work.parent / "flow"

    def compare(options, **changes):
        identity._check_workflow(run_of(started_in=str(work), **changes), options)

    compare(["-s", "../flow/Snakefile"], workflow=str(here))
    compare(["-s", "../flow/Snakefile"])
    compare(["-s", "https://x/Snakefile"], workflow=str(here))
    compare([], workflow=str(here))
    with pytest.raises(InputError) as error:
        compare(["-s", "Snakefile"], workflow=str(here))
    assert str(error.value) == (
        f"the last run was of the workflow in {here}, but its command would start "
        f"{work / 'Snakefile'}: start it again by hand with the workflow that you mean."
    )


def test_a_record_without_the_name_of_its_results_is_about_those_that_were_named(work):
    path = record(work)
    path.write_text(path.read_text().replace('"results":', '"older":'))
    assert check(work) == work
    path.write_text(path.read_text().replace('"directory":', '"oldest":'))
    with pytest.raises(InputError, match="does not say where the last run worked"):
        check(work)


def test_the_command_for_a_copy_of_a_record_without_the_name_of_its_results(work):
    path, new = record(work), work.parent / "new one"
    path.write_text(path.read_text().replace('"results":', '"older":'))
    subprocess.run(["cp", "-a", str(work), str(new)], check=True)
    with pytest.raises(InputError) as refusal:
        check(new)
    again = AGAIN.format(flow=work.parent / "flow" / "Snakefile")
    assert str(refusal.value).splitlines()[1].strip() == f"cd '{new}' && {again}"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["snakemake", "-s", "https://x/S"], "cd '{new}' && snakemake -s https://x/S {rerun}"),
        (["snakemake", "-d", "x"], "cd '{old}' && snakemake -d x {rerun} {config}"),
        (["snakemake", "--directory=x"], "cd '{old}' && snakemake --directory=x {rerun} {config}"),
        (["snakemake", "-D", "x"], "cd '{new}' && snakemake -D x {rerun}"),
        (["unglow", "run"], "cd '{new}' && unglow run {rerun}"),
    ],
)
def test_the_command_for_a_copy_keeps_addresses_and_names_results(work, command, expected):
    new = work.parent / "new one"
    record(work, command=command)
    subprocess.run(["cp", "-a", str(work), str(new)], check=True)
    names = {"new": new, "old": work, "rerun": "--rerun-incomplete",
             "config": f"--config 'results={new}/results'"}  # fmt: skip
    with pytest.raises(InputError) as refusal:
        check(new)
    assert str(refusal.value).splitlines()[1].strip() == expected.format(**names)


def test_the_command_for_results_of_another_name_or_depth(work):
    new = work.parent / "new one"
    record(work, results="deep/results")
    (new / "deep").mkdir(parents=True)
    (work / "results").rename(new / "deep" / "results")
    flow = work.parent / "flow" / "Snakefile"
    again = f"snakemake -s {flow} -c 2 --rerun-incomplete"
    with pytest.raises(InputError) as refusal:
        check(new, new / "deep" / "results")
    assert str(refusal.value).splitlines()[1].strip() == f"cd '{new}' && {again}"
    (new / "deep" / "results").rename(new / "deep" / "other")
    with pytest.raises(InputError) as refusal:
        check(new, new / "deep" / "other")
    config = f"--config 'results={new}/deep/other'"
    assert str(refusal.value).splitlines()[1].strip() == f"cd '{work}' && {again} {config}"


def test_a_run_of_unglow_run_is_gone_on_with_by_the_same_workflow_alone(work):
    path = record(work, command=["unglow", "run", "-c", "2"], workflow=str(snakefile().parent))
    run = last_run(work / "results")
    assert check(work) == work
    words = [sys.executable, "-Pm", "unglow", "run", "-c", "2", "--rerun-incomplete", "-k"]
    assert words_of(run, ["-k"]) == words
    path.unlink()
    record(work, command=["unglow", "run"])
    with pytest.raises(InputError, match=rf"flow, but its command would start {snakefile()}"):
        check(work)


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
    monkeypatch.setattr(identity, "hold_lock", held.append)
    stumbling = "unglow.jobs.resume.resume.refuse_what_snakemake_stumbles_over"
    monkeypatch.setattr(stumbling, lambda: held.append(0))
    with pytest.raises(InterruptedError):
        resume(work / "results", work / "results", ["--cores", "1"], (), said.append)
    options = ["-s", "../flow/Snakefile", "-c", "2", "--rerun-incomplete", "--cores", "1"]
    words = [sys.executable, "-Pm", "snakemake", *options]
    assert became == [(sys.executable, words, work, [])]
    assert held == [0, work]
    assert said == [f"cd '{work}' && snakemake {' '.join(options)}"]


def test_resume_looks_at_other_machines_but_those_that_are_lost(work, monkeypatch):
    record(work, host="node9")
    monkeypatch.setattr(command, "_SILENCE_S", 0.0)
    monkeypatch.setattr(identity, "hold_lock", lambda directory: None)
    monkeypatch.setattr(os, "execv", lambda program, words: None)
    monkeypatch.chdir(work)
    said = []
    resume(work, work / "results", [], (), said.append)
    assert said[1:] == ["listening for 0 s whether anything still runs on node9"]
    resume(work, work / "results", [], ["node9"], said.append)
    assert len(said) == 3


def test_a_process_that_only_a_shared_file_names_is_not_ended(work):
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        path = record(work, "attempt", pid=process.pid, started=started_ticks(process.pid))
        path.chmod(0o666)
        with pytest.raises(InputError, match=f"process {process.pid} is at work according to"):
            command.end_orphans(open_attempts(work / "results"), pytest.fail)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_queue_is_not_asked_to_cancel_what_others_have_noted(work, monkeypatch):
    noted = work / queued_jobs.SUBMITTED
    noted.parent.mkdir(parents=True)
    noted.write_text(f"sge\t17\tx\t{work}\n")
    log = work / ".snakemake" / "log" / "x.snakemake.log"
    log.parent.mkdir()
    log.write_text("SLURM run ID: abc-1\n")
    assert (queued_jobs.list_submitted(work), queued_jobs.run_ids(work)) == (
        {"sge": ["17"]},
        ["abc-1"],
    )
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(InputError, match="belongs to another user, so no job is cancelled"):
        queued_jobs.list_submitted(work)
    assert queued_jobs.run_ids(work) == []


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
