"""`unglow resume`: what it takes for proof that nothing writes any more, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from unglow.cli import main
from unglow.errors import InputError
from unglow.resume import locks, queues, writers
from unglow.resume.command import make_sure, words_of
from unglow.resume.traces import Process, last_run, open_attempts
from unglow.telemetry.lines import boot_id, host, started_ticks


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

    def run(self, *more, stamp="20261122T060000.000Z", pid=2**22, where=None, **told):
        head = {"kind": "run", "host": where or host(), "pid": pid, "started": 1, "wall": 1000.0,
                "boot": boot_id(), "command": ["snakemake", "-s", "S", "--cores", "2"],
                "directory": str(self.work), "results": "results", "beat_s": 2.0}  # fmt: skip
        return self.file(f"runs/{stamp}-{where or 'here'}-1.jsonl", head | told, *more)

    def attempt(
        self, *more, pid=2**22, started=1, where=None, stamp="20261122T060001.000Z", **told
    ):
        head = {"kind": "attempt", "host": where or host(), "pid": pid, "started": started,
                "boot": boot_id(), "wall": 1001.0, "turn": 1}  # fmt: skip
        return self.file(f"S/D/align/{stamp}-{where or 'here'}-2.jsonl", head | told, *more)

    def make_sure(self, lost=()):
        return make_sure(last_run(self.results), self.results, lost, self.said.append)


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.setattr(writers, "_SILENCE_S", 2.0)
    monkeypatch.setattr(writers, "_GROWING_LOOK_S", 0.1)
    monkeypatch.setattr(writers, "PATIENCE_S", 1.0)
    return Written(tmp_path)


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def test_without_a_run_there_is_nothing_to_go_on_with(tmp_path, capsys):
    (tmp_path / "results").mkdir()
    assert main(["resume", str(tmp_path)]) == 2
    assert "results has no record of a run: start one with `snakemake" in capsys.readouterr().err


def test_the_command_is_that_of_the_last_run_with_more_words(written):
    written.run(stamp="20261122T050000.000Z", wall=1.0, command=["snakemake", "old"])
    written.run()
    words = words_of(last_run(written.results), ["--cores", "1"])
    again = ["-s", "S", "--cores", "2", "--rerun-incomplete", "--cores", "1"]
    assert words == [sys.executable, "-Pm", "snakemake", *again]
    written.run(command=["python", "-m", "snakemake", "--cores", "3", "--rerun-incomplete"])
    assert words_of(last_run(written.results), [])[3:] == ["--cores", "3", "--rerun-incomplete"]
    written.run(command=["snakemake"])
    with pytest.raises(InputError, match="not started by the snakemake command"):
        words_of(last_run(written.results), [])


def test_a_dead_run_leaves_locks_that_are_removed_and_newer_ones_stay(written):
    written.run()
    place = written.work / ".snakemake" / "locks"
    place.mkdir(parents=True)
    (place / "0.output.lock").write_text("x")
    stale = written.make_sure()
    (place / "1.output.lock").write_text("of another Snakemake")
    locks.remove(stale)
    assert [p.name for p in place.iterdir()] == ["1.output.lock"]


def test_a_snakemake_that_lives_is_named(written, sleeper):
    written.run(pid=sleeper.pid, started=started_ticks(sleeper.pid))
    with pytest.raises(InputError, match=rf"process {sleeper.pid}\) has been running here since"):
        written.make_sure()


def test_a_process_is_told_from_others_by_machine_boot_number_and_start(sleeper):
    own = Process(host(), boot_id(), sleeper.pid, started_ticks(sleeper.pid))
    assert writers.lives(own)
    for other in (
        replace(own, host="node9"),
        replace(own, boot="11111111-2222-3333-4444-555555555555"),
        replace(own, boot=""),
        replace(own, pid=os.getpid()),
        replace(own, started=own.started + 1),
        replace(own, started=None),
    ):
        assert not writers.lives(other)
    sleeper.kill()
    end = time.monotonic() + 30
    while Path(f"/proc/{sleeper.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < end
    assert not writers.lives(own)  # a zombie writes nothing


def test_after_a_restart_of_the_machine_a_process_of_the_same_number_is_left_alone(
    written, sleeper
):
    same = {"pid": sleeper.pid, "started": started_ticks(sleeper.pid), "boot": "before"}
    written.run(**same)
    written.attempt(**same)
    assert written.make_sure() == []
    assert sleeper.poll() is None


def test_a_number_that_another_process_has_now_is_no_snakemake(written, sleeper):
    written.run(pid=sleeper.pid, started=started_ticks(sleeper.pid) - 1)
    written.attempt(pid=sleeper.pid, started=started_ticks(sleeper.pid) + 1)
    assert written.make_sure() == []
    assert sleeper.poll() is None


@pytest.mark.parametrize("words", [[], ["--mode", "remote"]])
def test_a_snakemake_without_a_record_is_seen_by_where_it_works(written, words):
    written.run()
    work = written.work
    (work / "snakemake").write_text("import time; time.sleep(60)")
    process = subprocess.Popen([sys.executable, "snakemake", *words], cwd=work)
    try:
        while b"snakemake" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
            time.sleep(0.02)  # until it has become python
        if words:  # part of a job of a cluster that no queue knows any more
            written.make_sure()
            assert process.wait(5) == -9
        else:
            with pytest.raises(InputError, match=rf"\(process {process.pid}\) is at work in"):
                written.make_sure()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("stubborn", [False, True])
def test_orphans_on_this_machine_are_ended(written, stubborn):
    code = "import signal, time; print(1, flush=True); time.sleep(60)"
    if stubborn:
        code = code.replace("print", "signal.signal(15, signal.SIG_IGN); print", 1)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    process.stdout.readline()
    written.run()
    ticks = started_ticks(process.pid)
    written.attempt({"kind": "process", "t": 0, "pid": process.pid, "started": ticks})
    threading.Thread(target=process.wait, daemon=True).start()
    written.make_sure()
    assert written.said == [f"ending jobs of the killed run: process {process.pid}"]
    assert process.wait(5) == (-9 if stubborn else -15)


def test_an_attempt_that_has_ended_or_was_followed_is_no_orphan(written, sleeper):
    own = {"pid": sleeper.pid, "started": started_ticks(sleeper.pid)}
    written.attempt({"kind": "end", "outcome": "ok"}, **own)
    assert open_attempts(written.results) == []
    path = written.attempt(**own)
    assert [trace.path for trace in open_attempts(written.results)] == [path]
    (path.parent / "turn-2").touch()
    assert open_attempts(written.results) == []


@pytest.mark.parametrize("who", ["run", "attempt"])
def test_what_grows_on_another_machine_is_named(written, who):
    written.run() if who == "attempt" else None
    path = getattr(written, who)(where="node9")
    over = threading.Event()

    def grow():
        while not over.wait(0.05):
            with path.open("a") as stream:
                stream.write('{"kind": "beat"}\n')

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        with pytest.raises(InputError, match=r"of the last run \(process \d+ on node9"):
            written.make_sure()
    finally:
        over.set()
        thread.join()
    assert "node9" in written.said[0]
    assert written.make_sure() == []  # and now it is silent
    assert written.make_sure(lost=["node9"]) == []


def test_a_run_elsewhere_that_gives_no_signs_of_life_is_left_to_the_user(written):
    path = written.run(where="node9")
    path.write_text(path.read_text().replace("beat_s", "older"))
    with pytest.raises(InputError, match="--lost node9"):
        written.make_sure()
    assert written.make_sure(lost=["node9"]) == []


def test_two_at_once_is_one_sentence(tmp_path):
    descriptor = locks.hold(tmp_path)
    with pytest.raises(InputError, match="another `unglow resume`"):
        locks.hold(tmp_path)
    os.close(descriptor)
    os.close(locks.hold(tmp_path))


# ------------------------------------------------------------------------ queues


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Schedulers made of a directory: a file for each job, whose content is its state."""
    place, queue = tmp_path / "bin", tmp_path / "queue"
    place.mkdir()
    queue.mkdir()
    monkeypatch.setenv("PATH", str(place))
    monkeypatch.setattr(queues, "_LOOK_S", 0.05)
    monkeypatch.setattr(queues, "PATIENCE_S", 30.0)

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
    noted = written.work / queues.SUBMITTED
    noted.parent.mkdir(parents=True)
    noted.write_text(text)
    return noted


def test_slurm_jobs_of_the_run_are_cancelled_and_waited_for(written, commands):
    make, queue = commands
    written.run()
    slurm_log(written.work)
    (queue / "17").touch()
    (queue / "18").touch()
    make("squeue", '[ "$last" = abc-1 ] && ls')
    make("scancel", '(sleep 0.3; rm -f "$@") > /dev/null 2>&1 &')
    written.make_sure()
    assert written.said == ["cancelling 2 Slurm jobs of the killed run: 17, 18"]
    assert not list(queue.iterdir())


def test_slurm_that_does_not_answer_is_no_proof(written, commands):
    make, _ = commands
    written.run()
    slurm_log(written.work)
    make("squeue", 'echo "Unable to contact slurm controller" >&2; exit 1')
    with pytest.raises(InputError, match="Unable to contact slurm controller"):
        written.make_sure()


def test_a_job_that_stays_is_named(written, commands, monkeypatch):
    make, queue = commands
    monkeypatch.setattr(queues, "PATIENCE_S", 0.5)
    written.run()
    slurm_log(written.work)
    (queue / "17").touch()
    make("squeue", "ls")
    make("scancel", "")
    with pytest.raises(InputError, match="job 17 was cancelled but is still there"):
        written.make_sure()


def test_slurm_of_an_earlier_run_is_not_missed_by_a_local_one(written, commands):
    written.run(executor="local")
    slurm_log(written.work)
    assert written.make_sure() == []
    written.run(executor="slurm")
    with pytest.raises(InputError, match="command squeue is not here"):
        written.make_sure()


@pytest.mark.parametrize(
    ("scheduler", "ask", "cancel", "state"),
    [
        ("sge", "qstat", "qdel", "job_number: 17"),
        ("pbs", "qstat", "qdel", "    job_state = R"),
        ("lsf", "bjobs", "bkill", "RUN"),
        ("slurm", "squeue", "scancel", "RUNNING"),
    ],
)
def test_what_other_schedulers_were_given_is_cancelled(written, commands, scheduler, ask, cancel,
                                                       state):  # fmt: skip
    make, queue = commands
    written.run()
    noted = written.work / queues.SUBMITTED
    noted.parent.mkdir(parents=True)
    rows = [(scheduler, "17", written.work), (scheduler, "18", written.work)]
    noted.write_text("".join(f"{s}\t{job}\tunglow-align\t{place}\n" for s, job, place in rows)
                     + f"{scheduler}\t19\tunglow-align\t/elsewhere\n")  # fmt: skip
    (queue / "17").write_text(state)
    (queue / "19").write_text(state)
    unknown = queues.SCHEDULERS[scheduler].unknown[0]
    make(ask, f'cat "$last" 2>/dev/null || {{ echo "{unknown} $last" >&2; exit 1; }}')
    make(cancel, 'rm "$last"')
    written.make_sure()
    assert written.said == [f"cancelling job 17 ({scheduler})"]
    assert [p.name for p in queue.iterdir()] == ["19"]


def test_a_job_that_pbs_remembers_as_finished_is_over(written, commands):
    make, _ = commands
    written.run()
    note_submitted(written, f"pbs\t17\tx\t{written.work}\n")
    make("qstat", 'echo "    job_state = F"')
    written.make_sure()
    assert written.said == []


def test_a_scheduler_that_does_not_answer_is_no_proof(written, commands):
    make, _ = commands
    written.run()
    noted = note_submitted(written, f"sge\t17\tx\t{written.work}\n")
    make("qstat", 'echo "error: unable to contact qmaster" >&2; exit 1')
    with pytest.raises(InputError, match=r"whether job 17 .* left \(error: unable to contact"):
        written.make_sure()
    assert noted.exists()


def test_without_the_command_of_the_scheduler_another_machine_is_asked_for(written, commands):
    written.run()
    note_submitted(written, f"lsf\t17\tx\t{written.work}\n")
    with pytest.raises(InputError, match="command bjobs is not here"):
        written.make_sure()
