"""`unglow resume`: what it takes for proof that nothing writes any more, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from unglow.cli import main
from unglow.core.errors import InputError
from unglow.core.process import Process, boot_id, host, read_start_ticks
from unglow.jobs import resume, schedulers
from unglow.jobs.resume import cancel_queued, make_sure, refuse_if_at_work
from unglow.jobs.run_records import Trace, last_run, open_attempts, read_trace, was_killed


class Written:
    """A working directory with telemetry of a run and of attempts."""

    def __init__(self, work):
        self.work, self.results = work, work / "results"
        self.said = []

    def file(self, path, *lines):
        target = self.results / "telemetry" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return target

    def run(self, *more, stamp="20261122T060000.000Z", pid=2**22, where=None, **changes):
        head = {"kind": "run", "host": where or host(), "pid": pid, "started": 1, "wall": 1000.0,
                "boot": boot_id(), "command": ["snakemake", "-s", "S", "--cores", "2"],
                "directory": str(self.work), "results": "results"}  # fmt: skip
        return self.file(f"runs/{stamp}-{where or 'here'}-1.jsonl", head | changes, *more)

    def attempt(self, *more, pid=2**22, started=1, where=None, stage="align", number=1, **changes):
        head = {"kind": "attempt", "host": where or host(), "pid": pid, "started": started,
                "boot": boot_id(), "wall": 1001.0}  # fmt: skip
        return self.file(f"S/D/{stage}/{number}.jsonl", head | changes, *more)

    def make_sure(self, lost=()):
        return make_sure(last_run(self.results), self.work, self.results, lost, self.said.append)


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.setattr(resume, "PATIENCE_S", 1.0)
    return Written(tmp_path)


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def test_without_a_run_there_is_nothing_to_go_on_with(tmp_path, capsys):
    (tmp_path / "results").mkdir()
    assert main(["resume", str(tmp_path)]) == 2
    message = "start one with `unglow run`.\n"
    assert capsys.readouterr().err.endswith(f"results has no record of a run: {message}")


def test_locks_of_a_dead_run_are_found_and_nothing_else(written):
    written.run()
    place = written.work / ".snakemake" / "locks"
    place.mkdir(parents=True)
    for name in ("2.input.lock", "1.output.lock", "other"):
        (place / name).touch()
    assert written.make_sure() == [place / "1.output.lock", place / "2.input.lock"]


def test_a_snakemake_that_lives_is_named(written, sleeper):
    written.run(pid=sleeper.pid, started=read_start_ticks(sleeper.pid))
    message = (
        rf"^Snakemake \(process {sleeper.pid}\) has been running here since .*; follow it with "
        r"`unglow monitor .+/results`, or end it with Ctrl-C first\.$"
    )
    with pytest.raises(InputError, match=message):
        written.make_sure()


def test_after_a_restart_of_the_machine_a_process_of_the_same_number_is_left_alone(
    written, sleeper
):
    same = {"pid": sleeper.pid, "started": read_start_ticks(sleeper.pid), "boot": "before"}
    written.run(**same)
    written.attempt(**same)
    assert written.make_sure() == []
    assert sleeper.poll() is None


@pytest.mark.parametrize("words", [[], ["--mode", "remote"]])
def test_a_snakemake_without_a_record_is_seen_by_where_it_works(written, words):
    written.run()
    work = written.work
    (work / "snakemake").write_text("import time; time.sleep(600)")
    process = subprocess.Popen([sys.executable, "snakemake", *words], cwd=work)
    try:
        while b"snakemake" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
            time.sleep(0.02)  # until it has become python
        # with words it is part of a job of a cluster
        message = rf"\(process {process.pid}\) is {'still ' * bool(words)}at work"
        with pytest.raises(InputError, match=message):
            written.make_sure()
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_jobs_on_this_machine_are_waited_for_and_not_ended(written, sleeper):
    written.run()
    ticks = read_start_ticks(sleeper.pid)
    written.attempt({"kind": "process", "t": 0, "pid": sleeper.pid, "started": ticks})
    message = rf"^a job of the killed run \(process {sleeper.pid}\) is still at work after 1 s"
    with pytest.raises(InputError, match=message):
        written.make_sure()
    assert sleeper.poll() is None
    threading.Timer(0.3, sleeper.terminate).start()
    threading.Thread(target=sleeper.wait, daemon=True).start()
    assert written.make_sure() == []


def test_a_trace_is_its_first_line_its_processes_and_whether_it_ended(written):
    path = written.run(
        {"kind": "process", "pid": 5, "started": 50}, {"kind": "process", "pid": "6"},
        {"kind": "process", "pid": 7}, {"kind": "other", "pid": 8}, pid=4, started=40, wall=86400.5,
    )  # fmt: skip
    trace = read_trace(path)
    here = host(), boot_id()
    assert trace.processes == (
        Process(*here, 4, 40),
        Process(*here, 5, 50),
        Process(*here, 7, None),
    )
    assert (trace.path, trace.ended, trace.own, trace.host) == (path, False, True, host())
    assert trace.fields == json.loads(path.read_text().splitlines()[0])
    assert trace.since == time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(86400.5))
    path.write_text(path.read_text() + '{"kind": "end"}\n')
    assert read_trace(path).ended
    path.unlink()
    assert read_trace(path) is None


def test_lines_that_are_no_objects_are_passed_over(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('\n[1]\n{"half\n{"kind": "run", "pid": 1}\n\n{"kind": "process", "pid": 2}')
    trace = read_trace(path)
    assert [process.pid for process in trace.processes] == [1, 2]
    assert trace.fields == {"kind": "run", "pid": 1}
    path.write_text('{"a": ' * 9000 + '\n{"pid": 1}\n')  # deeper than can be read
    assert read_trace(path).fields == {"pid": 1}


def test_the_last_run_is_the_one_that_began_last(written):
    assert last_run(written.results) is None
    first = written.run(stamp="a", wall=0.5)
    written.run(stamp="b", wall=None)  # of an unknown time
    assert last_run(written.results).path == first
    written.run(stamp="b", wall=2.0)
    later = written.run(stamp="a", wall=3.0)
    assert last_run(written.results).path == later
    same = written.run(stamp="c", wall=3.0)
    assert last_run(written.results).path == same
    written.run(stamp="d", wall=None)
    written.file("runs/e.txt", {"kind": "run", "wall": 9.0})
    written.file("runs/f.jsonl")
    assert last_run(written.results).path == same


def test_attempts_are_open_unless_a_higher_number_was_taken(written, sleeper):
    own = {"pid": sleeper.pid, "started": read_start_ticks(sleeper.pid)}
    path = written.attempt(number=9, **own)

    def found():
        return [trace.path for trace in open_attempts(written.results)]

    for name in (
        "8.jsonl",
        "x.jsonl",
        "11.stacks",
        "10.jsonl.old",
        "20261122T060000.000Z-a-1.jsonl",
    ):
        (path.parent / name).touch()
        assert found() == [path]
    other = written.attempt(stage="detect")
    assert found() == [path, other]
    written.attempt({"kind": "end", "outcome": "ok"}, stage="detect", number=2)
    assert found() == [path]
    written.file("S/D/align/10.jsonl", {"kind": "lost", "outcome": "node_lost"})
    assert found() == []


def test_a_run_of_another_machine_is_refused_unless_that_is_lost(written):
    written.run(where="node9", pid=77)
    written.attempt(where="node8")  # it ends before it publishes
    message = r"^Snakemake \(process 77\) may still be at work on node9, .*`--lost node9`"
    with pytest.raises(InputError, match=message):
        written.make_sure()
    assert written.make_sure(lost=["node9"]) == []
    written.run({"kind": "end"}, where="node9")
    assert written.make_sure() == []


def quiet(written):
    """What `unglow` asks before it removes something of a results directory."""
    refuse_if_at_work(written.results, ())


def test_results_that_nothing_works_on_are_free(written):
    quiet(written)
    written.run({"kind": "end"}, where="node9")
    written.attempt()
    quiet(written)
    written.run(directory="/nowhere")
    quiet(written)


@pytest.mark.parametrize("who", ["run", "attempt"])
def test_results_that_somebody_works_on_are_not_free(written, sleeper, who):
    getattr(written, who)(pid=sleeper.pid, started=read_start_ticks(sleeper.pid))
    messages = {"run": rf"^Snakemake \(process {sleeper.pid}\) has been running here since",
            "attempt": rf"^a job \(process {sleeper.pid}\) is at work in {written.results}; "
                       r"wait for it first\.$"}  # fmt: skip
    with pytest.raises(InputError, match=messages[who]):
        quiet(written)
    assert sleeper.poll() is None


def test_a_snakemake_in_the_directory_of_the_last_run_keeps_its_results(written, monkeypatch):
    written.run()
    monkeypatch.setattr(
        resume, "_find_snakemakes", lambda place, in_jobs: [SimpleNamespace(pid=8 - in_jobs)]
    )
    with pytest.raises(InputError) as error:
        quiet(written)
    message = f"Snakemake (process 8) is at work in {written.work}; wait for it or end it."
    assert str(error.value) == message


def test_results_are_not_free_where_other_machines_have_not_ended(written):
    written.run(where="node9")
    written.attempt(where="node8")
    for lost, named in (((), "node9"), (["node9"], "node8")):
        with pytest.raises(InputError, match=f"may still be at work on {named}"):
            refuse_if_at_work(written.results, lost)
    refuse_if_at_work(written.results, ["node9", "node8"])


def test_a_run_that_ends_while_it_is_looked_at_was_not_killed(written, monkeypatch):
    path = written.run()
    assert was_killed(written.results)

    def lives(_trace):
        with path.open("a") as stream:
            stream.write(json.dumps({"kind": "end", "outcome": "ok"}) + "\n")
        return False

    monkeypatch.setattr(Trace, "lives", lives)
    assert not was_killed(written.results)


def test_the_lock_of_resume_is_for_all_and_goes_over_to_snakemake(tmp_path):
    before = os.umask(0)
    try:
        descriptor = resume.hold_lock(tmp_path)
    finally:
        os.umask(before)
    try:
        path = tmp_path / ".unglow" / "resume.lock"
        assert path.stat().st_mode & 0o777 == 0o666
        assert os.get_inheritable(descriptor)
        assert os.path.samestat(os.fstat(descriptor), path.stat())
    finally:
        os.close(descriptor)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        resume.hold_lock(tmp_path)


def test_two_at_once_is_one_sentence(tmp_path):
    descriptor = resume.hold_lock(tmp_path)
    with pytest.raises(InputError, match="another `unglow resume`"):
        resume.hold_lock(tmp_path)
    os.close(descriptor)
    os.close(resume.hold_lock(tmp_path))


# ------------------------------------------------------------------------ queues


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Schedulers made of a directory: a file for each job, whose content is its state."""
    place, queue = tmp_path / "bin", tmp_path / "queue"
    place.mkdir()
    queue.mkdir()
    monkeypatch.setenv("PATH", str(place))
    monkeypatch.setattr(resume, "_QUEUE_LOOK_S", 0.05)
    monkeypatch.setattr(resume, "QUEUE_PATIENCE_S", 30.0)

    def make(name, body):
        (place / name).write_text(
            f"#!/bin/bash\nPATH=/usr/bin:/bin\ncd {queue}\nfor last; do :; done\n{body}\n"
        )
        (place / name).chmod(0o755)

    return make, queue


def slurm_log(work):
    place = work / ".snakemake" / "log"
    place.mkdir(parents=True)
    (place / "2026-11-22T060000.000000.snakemake.log").write_text("host: x\nSLURM run ID: abc-1\n")


def note_submitted(written, text):
    """Note what was given to a queue; return the file."""
    noted = written.work / schedulers.SUBMITTED
    noted.parent.mkdir(parents=True, exist_ok=True)
    noted.write_text(text)
    return noted


def test_the_jobs_of_all_runs_are_asked_for_by_their_names(written, commands):
    make, queue = commands
    slurm_log(written.work)
    for number, text in ((3, "SLURM run ID: d-2\nSLURM run ID:  abc-1 \n"), (2, "x\n")):
        (written.work / ".snakemake/log" / f"{number}.snakemake.log").write_text(text)
    (written.work / ".snakemake/log" / "4.log").write_text("SLURM run ID: z\n")
    (written.work / ".snakemake/log" / "5.snakemake.log").write_bytes(b"\xff\nSLURM run ID: e\n")
    assert resume.find_slurm_runs(written.work) == ["abc-1", "d-2", "e"]
    rows = ("1|RUNNING|None|d-2", "2|PENDING|None|e", "3|RUNNING|None|z", "4|TIMEOUT|None|e")
    (queue / "rows").write_text("\n".join(rows))
    make("squeue", "cat rows")
    make("scancel", "rm rows; touch rows")
    cancel_queued(written.work, written.said.append)
    assert written.said == ["cancelling slurm jobs of the killed run: 1, 2"]
    make("squeue", "echo odd; echo worse >&2; exit 1")
    with pytest.raises(InputError) as error:
        cancel_queued(written.work, pytest.fail)
    assert str(error.value).startswith("squeue ")
    assert "(odd worse)" in str(error.value)
    assert ".unglow/submitted.tsv" in str(error.value)


def test_a_local_run_asks_slurm_where_there_is_one(written, commands):
    make, queue = commands
    slurm_log(written.work)
    cancel_queued(written.work, written.said.append, local=True)
    with pytest.raises(InputError, match="command squeue is not here"):
        cancel_queued(written.work, written.said.append)
    (queue / "17").write_text("17|RUNNING|None|abc-1")
    make("squeue", "cat * 2>/dev/null; true")
    make("scancel", 'rm "$@"; touch none')
    cancel_queued(written.work, written.said.append, local=True)
    assert written.said == ["cancelling slurm jobs of the killed run: 17"]


def test_the_list_of_submitted_jobs_is_read_line_by_line(written):
    assert resume.read_submitted(written.work) == {}
    lines = f"sge\t1\tx\t{written.work}\n\nsge\t\tx\t{written.work}\nslurm\t2\tx\t/elsewhere\n"
    lines += f"what\t3\tx\t/elsewhere\nslurm\t4\tx\t{written.work}/.\tmore\nslurm\t5\n"
    noted = note_submitted(written, lines)
    assert resume.read_submitted(written.work) == {"sge": ["1"], "slurm": ["4"]}
    noted.write_text(f"what\t3\tx\t{written.work}\n")
    with pytest.raises(InputError, match=r"submitted\.tsv"):
        resume.read_submitted(written.work)


def test_only_what_is_still_there_is_cancelled_and_then_the_list_is_deleted(written, commands):
    make, queue = commands
    rows = ("slurm\t1", "sge\t2", "sge\t5")
    noted = note_submitted(written, "".join(f"{row}\tx\t{written.work}\n" for row in rows))
    (queue / "1").write_text("1|RUNNING|None|x")
    (queue / "5").write_text("5 0.5 x me r")
    make("squeue", "cat 1")
    make("qstat", "cat 5 2>/dev/null || true")
    make("scancel", 'echo scancel "$@" >> ../called; echo > "$last"')
    make("qdel", 'echo qdel "$@" >> ../called; rm "$last"')
    cancel_queued(written.work, written.said.append)
    assert (queue / "../called").read_text() == "scancel 1\nqdel 5\n"
    assert written.said == [
        "cancelling slurm jobs of the killed run: 1",
        "cancelling sge jobs of the killed run: 5",
    ]
    assert not noted.exists()
    cancel_queued(written.work, pytest.fail)


def test_a_job_that_is_still_there_is_waited_for_and_then_named(written, commands, monkeypatch):
    make, _ = commands
    monkeypatch.setattr(resume, "QUEUE_PATIENCE_S", 0.2)
    note_submitted(written, f"sge\t17\tx\t{written.work}\n")
    make("qstat", "echo 17 0.5 x me r")
    make("qdel", "true")
    with pytest.raises(InputError, match=r"^job 17 was cancelled but is still there after 0"):
        cancel_queued(written.work, written.said.append)


def test_a_command_that_takes_too_long_has_not_answered(commands):
    make, _ = commands
    make("squeue", 'echo out; echo err >&2; exit "$last"')
    assert schedulers.run("squeue", "0") == (0, "out\n")
    assert schedulers.run("squeue", "3") == (3, "out\nerr\n")
    make("qstat", "exec sleep 60")
    status, text = schedulers.run("qstat", patience_s=0.1)
    assert status == -1
    assert "timed out after 0.1 seconds" in text
    status, text = schedulers.run("qdel")
    assert status == -1
    assert "No such file or directory: 'qdel'" in text


@pytest.mark.parametrize(
    ("scheduler", "ask", "cancel", "answer", "unknown"),
    [
        ("sge", "qstat", "qdel", "17 0.5 x me r\n19 0.5 x me r", "error: job 17 does not exist"),
        ("slurm", "squeue", "scancel", "17|RUNNING|None|x\n19|RUNNING|None|x", "Invalid job id"),
    ],
)
def test_what_was_submitted_from_here_is_cancelled(written, commands, scheduler, ask, cancel,
                                                   answer, unknown):  # fmt: skip
    make, queue = commands
    written.run()
    noted = "".join(f"{scheduler}\t{job}\tunglow-align\t{written.work}\n" for job in ("17", "18"))
    note_submitted(written, noted + f"{scheduler}\t19\tunglow-align\t/elsewhere\n")
    (queue / "17").write_text(answer)
    of_all = '[ "$last" = "*" ] || [ "$1" = --noheader ]'
    make(
        ask,
        f"""if {of_all}; then cat 17 2>/dev/null || true
        else cat "$last" 2>/dev/null || {{ echo "{unknown} $last" >&2; exit 1; }}; fi""",
    )
    make(cancel, 'rm "$last"')
    written.make_sure()
    assert written.said == [f"cancelling {scheduler} jobs of the killed run: 17"]
    assert not list(queue.iterdir())


@pytest.mark.parametrize("ask", ["squeue", "qstat"])
def test_a_scheduler_that_does_not_answer_or_is_not_here_is_no_proof(written, commands, ask):
    make, _ = commands
    written.run()
    if ask == "squeue":
        slurm_log(written.work)
    noted = note_submitted(written, f"sge\t17\tx\t{written.work}\n" * (ask == "qstat"))
    with pytest.raises(InputError, match=f"command {ask} is not here"):
        written.make_sure()
    make(ask, 'echo "unable to contact  it" >&2; exit 1')
    with pytest.raises(InputError, match=r"killed run are left \(unable to contact it\)"):
        written.make_sure()
    assert noted.exists()
