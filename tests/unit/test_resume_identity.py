"""`unglow resume`: whose word it takes, and about which directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unglow.cli import main
from unglow.errors import InputError
from unglow.resume import identity, queues, writers
from unglow.resume.traces import last_run, open_attempts
from unglow.telemetry.lines import LineFile, boot_id, host, started_ticks


@pytest.fixture
def work(tmp_path):
    """A working directory, its workflow beside it."""
    (tmp_path / "flow").mkdir()
    (tmp_path / "flow" / "Snakefile").touch()
    work = tmp_path / "a b"
    (work / "results").mkdir(parents=True)
    return work


def record(work, kind="run", **told):
    """Write the record of a run, or of an attempt, as the workflow writes it."""
    flow = work.parent / "flow"
    head = {"kind": kind, "host": host(), "pid": 2**22, "started": 1, "boot": boot_id(),
            "wall": 1.0, "turn": 1, "command": ["snakemake", "-s", "../flow/Snakefile", "-c", "2"],
            "directory": str(work), "started_in": str(work), "workflow": str(flow),
            "results": "results", "beat_s": 2.0}  # fmt: skip
    place = "runs" if kind == "run" else "S/D/align"
    file = LineFile(
        work / "results/telemetry" / place / "20261122T060000.000Z-x-1.jsonl", pytest.fail
    )
    file.write(head | told)
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
    told = capsys.readouterr().err
    assert "may be written by others, so nothing of it is executed" in told
    assert f"`chmod go-w '{work}/results/telemetry/runs/" in told


def test_a_record_of_somebody_else_is_not_executed(work, monkeypatch, capsys):
    record(work)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert main(["resume", str(work)]) == 2
    assert f"belongs to another user (uid {os.getuid()})" in capsys.readouterr().err


def test_a_link_to_a_file_of_the_caller_is_no_record(work):
    path = record(work)
    path.rename(work / "elsewhere")
    path.symlink_to(work / "elsewhere")
    assert last_run(work / "results") is None
    path.unlink()
    os.mkfifo(path)  # and is not waited for
    assert last_run(work / "results") is None


@pytest.mark.parametrize("told", [{"directory": "/"}, {"results": "other"}, {"results": "/tmp"}])
def test_a_record_about_another_directory_is_refused(work, told):
    record(work, **told)
    with pytest.raises(InputError, match=r"^.*a b was copied or moved: the last run that it tells"):
        check(work)


def test_a_working_directory_whose_results_another_one_has_written_is_told_from_it(work):
    record(work, results=str(work / "results"))
    other = work.parent / "other"
    other.mkdir()
    with pytest.raises(InputError, match=rf"not in .*other: `unglow resume '{work}'` goes on"):
        check(other, work / "results")


AGAIN = "snakemake -s {flow} -c 2 --rerun-incomplete"
CONFIGURED = "cd '{old}' && " + AGAIN + " --config 'results={new}/results'"
ODD = "cd '{new}' && snakemake --snakefile={flow} 'x;y' --rerun-incomplete"


@pytest.mark.parametrize(
    ("told", "locked", "command"),
    [
        ({}, False, "cd '{new}' && " + AGAIN),
        ({}, True, "cd '{new}' && " + AGAIN + " --unlock && " + AGAIN),
        ({"command": ["snakemake", "--snakefile=../flow/Snakefile", "x;y"]}, False, ODD),
        ({"results": "{old}/results"}, False, CONFIGURED),
    ],
)
def test_for_a_copy_the_command_to_give_there_is_told(work, told, locked, command):
    new, flow = work.parent / "new one", work.parent / "flow" / "Snakefile"
    names = {"new": new, "old": work, "flow": flow}
    told = {k: v.format(**names) if isinstance(v, str) else v for k, v in told.items()}
    record(work, **told)
    if locked:
        (work / ".snakemake" / "locks").mkdir(parents=True)
        (work / ".snakemake" / "locks" / "0.input.lock").touch()
    subprocess.run(["cp", "-a", str(work), str(new)], check=True)
    with pytest.raises(InputError) as refusal:
        check(new)
    assert str(refusal.value).splitlines()[1].strip() == command.format(**names)


def test_only_the_recorded_workflow_is_run(work):
    (work / "Snakefile").write_text("raise SystemExit('ran')")
    for command in (["snakemake", "-c", "2"], ["snakemake", "-sSnakefile"], ["bash", "-c", "2"]):
        record(work, command=command).rename(work / "results/telemetry/runs/z.jsonl")
        with pytest.raises(InputError, match=r"start it again (by hand|the way it was)"):
            check(work)


def test_a_process_that_only_a_shared_file_names_is_not_ended(work):
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        path = record(work, "attempt", pid=process.pid, started=started_ticks(process.pid))
        path.chmod(0o666)
        with pytest.raises(InputError, match=f"process {process.pid} is at work according to"):
            writers.end_orphans(open_attempts(work / "results"), pytest.fail)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_queue_is_not_told_to_cancel_what_others_have_noted(work, monkeypatch):
    noted = work / queues.SUBMITTED
    noted.parent.mkdir(parents=True)
    noted.write_text(f"sge\t17\tx\t{work}\n")
    log = work / ".snakemake" / "log" / "x.snakemake.log"
    log.parent.mkdir()
    log.write_text("SLURM run ID: abc-1\n")
    assert (queues.submitted(work), queues.run_ids(work)) == ([("sge", "17")], ["abc-1"])
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(InputError, match="belongs to another user, so no job is cancelled"):
        queues.submitted(work)
    assert queues.run_ids(work) == []


def test_the_command_is_told_before_it_is_run_and_starts_snakemake_and_nothing_else(work):
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
