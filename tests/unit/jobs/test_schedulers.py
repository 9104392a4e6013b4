"""What is asked of each scheduler, and how the answers are read.

All are written by hand, as these schedulers are known to answer; the real Grid Engine is in
tests/cluster.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unglow.jobs import schedulers
from unglow.jobs.schedulers import JobRequest, NoAnswerError, slurm_queue
from unglow.workflow import snakemake_internals as internals

PROFILE = Path(__file__).resolve().parents[3] / "profiles" / "cluster-generic"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in ("UNGLOW_SCHEDULER", "UNGLOW_SGE_MEMORY", "UNGLOW_SGE_PE", "SGE_ROOT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A PATH with nothing on it but what is put there; each tool notes how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def add(name, text="", code=0):
        lines = ["#!/bin/sh", f'echo "$0 $*" >> {tmp_path}/calls', f"cat <<'END'\n{text}\nEND"]
        lines = [line.replace("cat", "/bin/cat") for line in lines]
        (folder / name).write_text("\n".join([*lines, f"exit {code}", ""]))
        (folder / name).chmod(0o755)

    return add


@pytest.fixture
def job():
    return JobRequest("unglow-align-Rock7-DAPI", 2, 300.5, 95, "/w/job.sh", "/w/logs")


def script(path, properties):
    path.write_text(f"#!/bin/sh\n# properties = {json.dumps(properties)}\ntrue\n")
    return str(path)


def test_the_request_is_read_from_the_job_script(tmp_path):
    properties = {"type": "single", "rule": "align", "wildcards": {"sample": "R 7", "dye": "a/b"}}
    properties |= {"threads": 2, "resources": {"mem_mb": 417, "runtime": 3, "tmpdir": "<TBD>"}}
    found = schedulers.request_of(script(tmp_path / "job.sh", properties), Path("/w"))
    assert found.name == "unglow-align-R_7-a_b"
    assert (found.threads, found.mem_mb, found.minutes) == (2, 417.0, 3)
    assert found.logs == "/w/.unglow/cluster"


def test_a_group_of_jobs_is_named_by_its_group(tmp_path):
    properties = {"type": "group", "groupid": "R7.DAPI", "threads": 1, "resources": {}}
    found = schedulers.request_of(script(tmp_path / "job.sh", properties), Path("/w"))
    assert (found.name, found.mem_mb, found.minutes) == ("unglow-R7.DAPI", 2000.0, 60)


def words(name, job):
    return shlex.join(schedulers.SCHEDULERS[name]().submission(job))


def test_slurm_is_asked_in_kib_and_minutes(job):
    # 300.5e6 / 1024 = 293457.03
    assert words("slurm", job) == (
        "sbatch --parsable --no-requeue --job-name=unglow-align-Rock7-DAPI --cpus-per-task=2 "
        "--mem=293458K --time=95 --nodes=1 --ntasks=1 "
        "--output=/w/logs/unglow-align-Rock7-DAPI.%j.log /w/job.sh"
    )


def test_grid_engine_is_asked_per_slot_and_for_address_space(job, monkeypatch):
    common = (
        "qsub -terse -cwd -V -r n -S /bin/sh -N unglow-align-Rock7-DAPI -j y "
        "-o '/w/logs/unglow-align-Rock7-DAPI.$JOB_ID.log' "
    )
    # half of 300.5 MB and of 1500 MB of address space
    asked = "-pe smp 2 -l h_rt=1:35:00,h_vmem=879151K /w/job.sh"
    assert words("sge", job) == common + asked
    monkeypatch.setenv("UNGLOW_SGE_MEMORY", "mem_free,h_rss")
    monkeypatch.setenv("UNGLOW_SGE_PE", "threads")
    asked = "-pe threads 2 -l h_rt=1:35:00,mem_free=146729K,h_rss=146729K /w/job.sh"
    assert words("sge", job) == common + asked


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [("slurm", "17;cluster\n", "17"), ("sge", "17\n", "17"), ("slurm", "", ""), ("sge", "\n", "")],
)
def test_the_id_of_a_job(name, text, number):
    assert schedulers.SCHEDULERS[name]().job_id(text) == number


QSTAT = """\
job-ID  prior   name       user         state submit/start at     queue                 slots
----------------------------------------------------------------------------------------------
     17 0.55500 unglow-ali root         {state}     11/22/2026 10:11:58 {queue}          2
"""
QUEUE = """\
queuename                      qtype resv/used/tot. load_avg arch          states
---------------------------------------------------------------------------------
main.q@vm                      BIP   0/2/2          5.93     lx-amd64      {state}
"""
ACCOUNT = """\
==============================================================
qname        main.q
jobname      unglow-align-Rock7-DAPI
failed       {failed}
exit_status  {code}
maxvmem      283.777MB
"""


@pytest.mark.parametrize(
    ("state", "queue", "word"),
    [("r", "", "running"), ("qw", "", "running"), ("Eqw", "", "failed"), ("r", "au", "failed"),
     ("hqw", "u", "running"), ("dr", "", "running")],
)  # fmt: skip
def test_states_of_grid_engine(tools, state, queue, word):
    where = "" if "q" in state else "main.q@vm"
    row = QSTAT.format(state=state, queue=where)
    # one tool answers to both questions
    tools("qstat", row + (QUEUE.format(state=queue) if where else ""))
    assert schedulers.GridEngine().state("17") == word


@pytest.mark.parametrize(
    ("failed", "code", "word"),
    [("0", "0", "success"), ("0", "1", "failed"), ("0", "137                  (Killed)", "failed"),
     ("100 : assumedly after job", "137", "failed"), ("19  : before writing exit_status", "0",
                                                      "failed")],
)  # fmt: skip
def test_ends_of_grid_engine(tools, failed, code, word):
    tools("qstat", "")
    tools("qacct", ACCOUNT.format(failed=failed, code=code))
    assert schedulers.GridEngine().state("17") == word


def test_a_job_without_a_record_yet_is_running(tools):
    tools("qstat", "")
    tools("qacct", "error: job id 17 not found", 1)
    assert schedulers.GridEngine().state("17") == "running"


@pytest.mark.parametrize("name", ["slurm", "sge"])
def test_a_scheduler_that_does_not_answer_leaves_jobs_running(tools, name):
    assert schedulers.SCHEDULERS[name]().state("17") == "running"
    for tool in ("squeue", "sacct", "qstat", "qacct"):
        tools(tool, "cannot connect to server", 1)
    assert schedulers.SCHEDULERS[name]().state("17") == "running"


@pytest.mark.parametrize(
    ("state", "word"),
    [("COMPLETED", "success"), ("RUNNING", "running"), ("COMPLETING", "running"),
     ("OUT_OF_MEMORY", "failed"), ("TIMEOUT", "failed"), ("NODE_FAIL", "failed"),
     ("CANCELLED by 0", "failed"), ("PENDING", "running")],
)  # fmt: skip
def test_states_of_slurm(tools, state, word):
    tools("squeue", "")
    tools("sacct", f"17|{state}")
    assert schedulers.Slurm().state("17") == word
    tools("squeue", f"17|{state.split()[0]}|None|x")
    assert schedulers.Slurm().state("17") == word


def test_slurm_knows_jobs_by_id_and_by_name(tools):
    rows = ("17|RUNNING|None|x", "18|PENDING|None|run", "19|COMPLETED|None|run", "2|RUNNING|None|y")
    tools("squeue", "\n".join(rows))
    assert schedulers.Slurm().list_queued(["17", "21"], ["run"]) == ["17", "18"]


def test_the_scheduler_is_the_one_that_is_here(tools, monkeypatch):
    tools("qsub")  # of PBS too: Grid Engine has a variable as well
    with pytest.raises(SystemExit, match="neither Slurm nor Grid Engine is here: set UNGLOW_SCHED"):
        schedulers.choose_scheduler()
    tools("sbatch")
    assert schedulers.choose_scheduler().name == "slurm"
    monkeypatch.setenv("SGE_ROOT", "/opt/sge")
    assert schedulers.choose_scheduler().name == "sge"
    monkeypatch.setenv("UNGLOW_SCHEDULER", "Slurm")
    assert schedulers.choose_scheduler().name == "slurm"
    monkeypatch.setenv("UNGLOW_SCHEDULER", "condor")
    with pytest.raises(SystemExit, match="is 'condor': set UNGLOW_SCHEDULER to one of slurm, sge"):
        schedulers.choose_scheduler()


def run(name, *arguments, directory):
    # -S: without installed packages, as where another python3 is on PATH
    command = [sys.executable, "-S", str(PROFILE / f"{name}.py"), *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def test_nothing_is_noted_where_a_link_leads(tools, tmp_path):
    tools("sbatch", "17")
    job = script(tmp_path / "job.sh", {"rule": "summary", "threads": 1, "resources": {}})
    note = tmp_path / ".unglow" / "submitted.tsv"
    note.parent.mkdir(parents=True)
    (tmp_path / "victim").write_text("kept")
    note.symlink_to(tmp_path / "victim")
    done = run("submit", job, directory=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{note} is a link to another file: remove it.\n"
    assert (tmp_path / "victim").read_text() == "kept"


def test_what_is_submitted_is_noted(tools, tmp_path):
    tools("sbatch", "17")
    job = script(tmp_path / "job.sh", {"rule": "summary", "threads": 1, "resources": {}})
    done = run("submit", job, directory=tmp_path)
    assert (done.returncode, done.stdout) == (0, "17\n")
    noted = (tmp_path / ".unglow" / "submitted.tsv").read_text()
    assert noted == f"slurm\t17\tunglow-summary\t{tmp_path}\n"
    assert (tmp_path / ".unglow" / "cluster").is_dir()


def test_a_refused_job_is_an_error_with_the_words_of_the_scheduler(tools, tmp_path):
    tools("sbatch", "error: invalid partition", 1)
    job = script(tmp_path / "job.sh", {"rule": "summary", "threads": 1, "resources": {}})
    done = run("submit", job, directory=tmp_path)
    assert done.returncode == 1
    assert "slurm did not take unglow-summary: error: invalid partition" in done.stderr
    assert not (tmp_path / ".unglow" / "submitted.tsv").exists()


def test_status_and_cancel(tools, tmp_path):
    tools("squeue", "17|COMPLETED|None|x")
    tools("sbatch")
    tools("scancel")
    assert run("status", "17", directory=tmp_path).stdout == "success\n"
    assert run("cancel", "17", "18", directory=tmp_path).returncode == 0
    end = time.monotonic() + 300  # nobody waits for it
    while "scancel 17 18\n" not in (tmp_path / "calls").read_text():
        assert time.monotonic() < end
        time.sleep(0.02)


LOOKED_UP = {"3": "COMPLETED", "4": "CANCELLED", "5": "UNKNOWN", "6": "UNKNOWN"}


@pytest.mark.parametrize(
    ("queue", "accounts", "ended", "seen"),
    [
        # of those that wait or run; the executor knows of failed and completed ones
        ("3 RUNNING,4 PENDING,5 COMPLETING,6 FAILED,7 COMPLETED", None, {}, "34567"),
        ("3 RUNNING,4 PREEMPTED", None, {"4": "PREEMPTED"}, "34"),
        ("", "3|COMPLETED\n4|CANCELLED by 0\n5|RUNNING", LOOKED_UP, "3456"),
        ("3 RUNNING", None, {"4": "UNKNOWN"}, "34"),  # without accounts
        ("", None, {}, ["3_1", "local"]),  # they are not of Slurm
        ("3 RUNNING", "5|COMPLETED", {"5": "COMPLETED"}, "3"),  # 4 may be in another queue
    ],
)
def test_jobs_have_ended_by_the_queue_or_else_by_the_accounts(tools, queue, accounts, ended, seen):
    rows = [row.split() for row in queue.split(",") if row]
    tools("squeue", "\n".join(f"{job}|{state}|None|x" for job, state in rows))
    tools("sacct", accounts or "", 0 if accounts else 1)
    asked = ["3", "4", "5"] if seen == "3" else list(seen)
    assert internals.find_ended(asked, slurm_queue(), seen=list(seen)) == ended


def test_nothing_is_said_of_jobs_while_slurm_does_not_answer(tools):
    tools("squeue", "slurm_load_jobs error", 1)
    with pytest.raises(NoAnswerError, match="slurm_load_jobs error"):
        slurm_queue()


def test_a_job_that_will_not_start_is_reported_with_a_remedy(tools):
    tools("squeue", "3|PENDING|Resources|x\n4|PENDING|PartitionTimeLimit|x\n5|RUNNING|None|x")
    (sentence,) = internals.explain_hopeless(["3", "4", "5"], slurm_queue()).values()
    assert sentence.startswith("Job 4 will not start: Slurm says PartitionTimeLimit. It asks for")
    assert "timeout_per_job" in sentence


def test_a_state_counts_once_it_is_reported_twice_and_advice_is_given_once(tools):
    watch = internals.SlurmWatch()
    tools("squeue", "3|RUNNING|None|x\n4|PENDING|PartitionTimeLimit|x")
    assert [len(found) for found in watch.poll(["3", "4"])] == [0, 1]
    tools("squeue", "3|PREEMPTED|None|x\n4|PENDING|PartitionTimeLimit|x")
    assert watch.poll(["3", "4"]) == ({}, [])
    tools("squeue", "", 1)
    assert watch.poll(["3", "4"]) == ({}, [])
    tools("squeue", "4|PENDING|None|x")
    tools("sacct", "", 1)
    assert watch.poll(["3", "4"]) == ({}, [])  # reported, but something else
    assert watch.poll(["3", "4"]) == ({"3": "UNKNOWN"}, [])
