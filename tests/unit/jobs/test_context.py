"""The context of a script: threads, log, telemetry, and one sentence instead of a traceback.

What a job does to its process (environment, handlers, exit status) is tested in processes of
their own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from unglow.jobs.context import Job

HEAD = """
import sys
from types import SimpleNamespace
from unglow.jobs.context import Job


class Log(list):
    telemetry = "telemetry/a/b/rule.jsonl"


snakemake = SimpleNamespace(
    rule="align", threads=2, log=Log(["logs/a/b/rule.log"]), input=[], output=[], params=[],
    wildcards={"sample": "S1", "dye": "SYTO9"}, resources=SimpleNamespace(mem_mb=512),
)
"""


def run(work, body, *, before="", env=None):
    """Run a script as Snakemake would, with ``body`` inside the job."""
    script = HEAD + textwrap.dedent(before)
    script += "with Job.from_script(snakemake) as job:\n" + textwrap.indent(
        textwrap.dedent(body), "    "
    )
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=work,
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )


def logged(work):
    return (work / "logs/a/b/rule.log").read_text(encoding="utf-8")


def records(work):
    lines = (work / "telemetry/a/b/rule.jsonl").read_text().splitlines()
    return [json.loads(line, parse_constant=pytest.fail) for line in lines]


# --------------------------------------------------------------------------------------- endings


def test_a_job_that_ends_well_says_so_in_log_and_record_and_nowhere_else(tmp_path):
    done = run(tmp_path, "job.count(pixels=3)\njob.count(pixels=4, blocks=1)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    text = logged(tmp_path)
    assert "INFO align (S1, SYTO9): 2 threads, 512 MB declared" in text
    assert "INFO ok after" in text
    (record,) = records(tmp_path)
    assert record["rule"] == "align"
    assert record["wildcards"] == {"sample": "S1", "dye": "SYTO9"}
    assert record["outcome"] == "ok"
    assert record["threads"] == 2
    assert record["declared_mb"] == 512
    assert record["pixels"] == 7
    assert record["blocks"] == 1
    assert 5 < record["peak_mb"] < 200
    assert 0 <= record["seconds"] < 60
    assert record["cpu_seconds"] > 0
    assert record["bytes_read"] > 0
    assert record["bytes_written"] >= 0
    assert "opencv_threads" not in record


def test_what_libraries_do_at_the_end_of_a_process_is_done_and_what_they_print_is_in_the_log(
    tmp_path,
):
    body = """
        import atexit, tempfile
        open("made", "w").write(tempfile.mkdtemp(dir="."))
        atexit.register(os.rmdir, open("made").read())
        sys.stdout.write("without a line's end")
        """
    done = run(tmp_path, body, before="import os\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not Path((tmp_path / "made").read_text()).exists()
    assert "without a line's end" in logged(tmp_path)


def test_a_job_that_took_more_than_declared_and_could_not_be_refused_it_says_so(tmp_path):
    """Pages of mapped files are resident, and no limit holds for them."""
    with (tmp_path / "large").open("wb") as stream:
        stream.truncate(300_000_000)
    body = """
        import mmap
        with open("large", "rb") as stream:
            pages = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
        job.limit_memory()
        sum(pages[::4096])
        """
    done = run(tmp_path, body, before="snakemake.resources.mem_mb = 120\n")
    assert done.returncode == 0, done.stderr
    (record,) = records(tmp_path)
    peak = record["peak_mb"]
    assert 300 < peak < 400
    match = re.fullmatch(
        r"align \(S1, SYTO9\): took (\d+) MB, more than the 120 MB that were declared for it; what "
        r"it made is whole\. Where memory is tight, declare it: --set-resources "
        r"align:mem_mb=(\d+) \(now 120\)\.\n",
        done.stderr,
    )
    assert match, done.stderr
    assert float(match[1]) == pytest.approx(peak, abs=0.6)
    assert peak <= float(match[2]) < peak + 10
    assert f"WARNING took {match[1]} MB" in logged(tmp_path)


def test_a_users_error_is_one_sentence_on_stderr_and_in_the_log_without_a_traceback(tmp_path):
    done = run(
        tmp_path,
        """
        from unglow.core.errors import InputError
        raise InputError("x.tif is cut short: copy it again.")
        """,
    )
    assert done.returncode == 1
    assert done.stderr == "align (S1, SYTO9): x.tif is cut short: copy it again.\n"
    assert done.stdout == ""
    text = logged(tmp_path)
    assert "ERROR x.tif is cut short: copy it again." in text
    assert "Traceback" not in text
    assert records(tmp_path)[0]["outcome"] == "bad_input"


def test_any_other_exception_is_one_sentence_and_its_traceback_is_in_the_log(tmp_path):
    done = run(tmp_path, "def deep():\n    return 1 / 0\ndeep()")
    assert done.returncode == 1
    assert done.stderr == (
        "align (S1, SYTO9): ended by an error that is not caused by the data (ZeroDivisionError: "
        "division by zero); please report it with logs/a/b/rule.log.\n"
    )
    text = logged(tmp_path)
    assert "Traceback (most recent call last)" in text
    assert "in deep" in text
    assert "ZeroDivisionError: division by zero" in text
    assert records(tmp_path)[0]["outcome"] == "error"


def test_an_error_in_bytes_that_are_no_utf8_reaches_the_log(tmp_path):
    done = run(
        tmp_path,
        r"""
        from unglow.core.errors import InputError
        raise InputError("Gr\u00f6\u00dfe caf\udce9.tif is empty.")
        """,
        env={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PATH": ""},
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "ERROR Größe caf\\udce9.tif is empty." in logged(tmp_path)


# -------------------------------------------------------------------------------- log and telemetry


def test_the_log_is_started_again_and_holds_what_the_package_says(tmp_path):
    run(tmp_path, "1 / 0")
    body = """
        import logging
        logging.getLogger("unglow.stages.ingest").warning("strip %d is odd", 7)
        logging.getLogger("unglow.stages.ingest").debug("not this")
    """
    done = run(tmp_path, body)
    assert "WARNING strip 7 is odd" in logged(tmp_path)
    assert "not this" not in logged(tmp_path)
    assert "ZeroDivisionError" not in logged(tmp_path)
    assert [r["outcome"] for r in records(tmp_path)] == ["ok"]
    assert done.stderr == ""


def test_a_log_that_cannot_be_written_costs_no_result_and_hides_no_error(tmp_path):
    (tmp_path / "logs").write_text("a file in the way")
    assert run(tmp_path, "open('result', 'w').write('x')").returncode == 0
    assert (tmp_path / "result").read_text() == "x"
    done = run(tmp_path, "from unglow.core.errors import InputError\nraise InputError('Fix it.')")
    assert done.returncode == 1
    assert "align (S1, SYTO9): Fix it." in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_lock_against_earlier_attempts_nothing_runs(tmp_path):
    (tmp_path / "telemetry").write_text("a file in the way")
    done = run(tmp_path, "open('result', 'w').write('x')")
    assert done.returncode == 1
    assert "could not be written (Not a directory)" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "result").exists()


def test_a_full_disk_under_the_log_hides_no_error(tmp_path):
    (tmp_path / "logs/a/b").mkdir(parents=True)
    (tmp_path / "logs/a/b/rule.log").symlink_to("/dev/full")
    done = run(tmp_path, "from unglow.core.errors import InputError\nraise InputError('Fix it.')")
    assert (done.returncode, done.stderr) == (1, "align (S1, SYTO9): Fix it.\n")


def test_the_peak_is_at_least_what_was_held_and_not_what_the_parent_held(tmp_path):
    held = bytearray(b"\1") * 300_000_000  # of this process, which forks the job
    done = run(tmp_path, "held = bytearray(b'\\1') * 200_000_000\ndel held")
    assert done.returncode == 0
    assert len(held) == 300_000_000
    assert 200 <= records(tmp_path)[0]["peak_mb"] < 290


def test_the_peak_of_a_child_and_bytes_read_and_written_count(tmp_path):
    body = """
        import subprocess
        subprocess.run([sys.executable, "-c", "b'\\1' * 150_000_000"], check=True)
        open('x', 'wb').write(bytes(3_000_000))
        open('x', 'rb').read()
    """
    assert run(tmp_path, body).returncode == 0
    record = records(tmp_path)[0]
    assert 150 <= record["peak_mb"] < 200
    assert 3_000_000 <= record["bytes_written"] < 4_000_000
    assert record["bytes_read"] >= 3_000_000


def test_a_process_that_outlives_a_job_is_recorded(tmp_path):
    body = """
        import subprocess, time
        code = "import time; x = bytearray(b'1') * 30_000_000; time.sleep(4)"
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        time.sleep(1)
    """
    run(tmp_path, body)
    (record,) = records(tmp_path)
    assert record["processes_left"] == 1
    assert 30 < record["processes_left_mb"] < 200
    assert record["files_before_mb"] >= 0
    assert record["available_before_mb"] > 0 < record["available_after_mb"]


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no /dev/shm")
def test_files_in_memory_that_a_job_leaves_are_recorded(tmp_path):
    left = Path("/dev/shm") / f"unglow-test-{os.getpid()}"
    try:
        run(tmp_path, f"open({str(left)!r}, 'wb').write(bytes(30_000_000))")
    finally:
        left.unlink()
    (record,) = records(tmp_path)
    assert record["files_after_mb"] - record["files_before_mb"] == pytest.approx(30, abs=1)


# ------------------------------------------------------------------------------------------ threads


def test_libraries_are_loaded_late_and_get_one_thread_whatever_the_environment_says(tmp_path):
    body = """
        said = [name for name in ("numpy", "cv2", "zarr", "scipy") if name in sys.modules]
        import cv2, numpy as np, os
        names = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENCV_FOR_THREADS_NUM",
                 "BLIS_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"]
        a = np.ones((600, 600)); a @ a
        threads = len(os.listdir("/proc/self/task"))
        said += [*(os.environ[name] for name in names), cv2.getNumThreads(), threads]
        print(*said, file=open("said", "w"))
    """
    env = {"OMP_NUM_THREADS": "7", "OPENCV_FOR_THREADS_NUM": "2", "OPENBLAS_NUM_THREADS": "4"}
    done = run(tmp_path, body, env=env | {"PATH": ""})
    assert (tmp_path / "said").read_text().split() == ["1"] * 8, done.stderr
    assert records(tmp_path)[0]["opencv_threads"] == 1


# ------------------------------------------------------------------------------------- description


class Log(list):
    """A log as Snakemake hands it over: files by place, and one of them by name."""

    telemetry = "a.jsonl"


def script(**changes):
    made = {
        "rule": "scale",
        "threads": 3,
        "log": Log(["a.log"]),
        "input": [],
        "output": [],
        "params": [],
        "wildcards": {},
        "resources": SimpleNamespace(mem_mb=99),
    }
    return SimpleNamespace(**(made | changes))


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Keep what `Job.from_script` pins from leaking into other tests."""
    from unglow.core import own_memory

    for name in own_memory._THREAD_VARIABLES:
        monkeypatch.setenv(name, "1")


def test_a_job_is_described_by_its_script():
    job = Job.from_script(script(wildcards={"sample": "S", "dye": "D", "method": "moffat"}))
    assert job.title == "scale (S, D, moffat)"
    assert job.pair_title == "S D"
    assert (job.threads, job.mem_mb) == (3, 99)
    assert str(job.log_path) == "a.log"
    assert str(job.record_path) == "a.jsonl"
    of_run = Job.from_script(script(rule="summary", resources=SimpleNamespace()))
    assert (of_run.title, of_run.pair_title) == ("summary (run)", "")
    assert of_run.mem_mb == 2000
    names = {"subtraction": "p-40", "registration": "m", "sample": "S", "dye": "D"}
    assert Job.from_script(script(wildcards=names)).pair_title == "S D m p-40"


@pytest.mark.parametrize("read", ["Path('r/S/D/x').read_text()", "np.load('r/S/D/x')"])
def test_results_that_have_vanished_are_no_fault_to_report(tmp_path, read):
    body = f"from pathlib import Path\nimport numpy as np\n{read}"
    done = run(tmp_path, body)
    assert done.returncode == 1
    assert done.stderr == (
        "align (S1, SYTO9): r/S/D/x is gone: see that nothing moves or removes raw images or "
        "results while a run is at work, then run again.\n"
    )
    assert "Traceback" in logged(tmp_path)


def test_a_part_of_the_installation_that_is_missing_is(tmp_path):
    done = run(tmp_path, "open(sys.prefix + '/lib/x')")
    assert "please report it with logs/a/b/rule.log" in done.stderr


# --------------------------------------------------------------------------------------- digests

PUBLISHING = """
from pathlib import Path


class Output(list):
    def items(self):
        return {"table": self[0], "digests": self[-1]}.items()


names = "t.csv", "x.ome.zarr/zarr.json", "details/digests/t.sha256"
snakemake.output = Output([f"r/S/D/{name}" for name in names])
"""
WRITING = """
from unglow.core.files import write_text

assert list(job.targets) == ["table"]
for path in snakemake.output[:-1]:
    write_text(Path(path), "abc")
"""


def test_a_job_lists_the_digests_of_what_it_has_published(tmp_path):
    done = run(tmp_path, WRITING, before=PUBLISHING)
    assert (done.returncode, done.stderr) == (0, "")
    abc = hashlib.sha256(b"abc").hexdigest()
    digests = (tmp_path / "r/S/D/details/digests/t.sha256").read_text()
    made = '# made with {"params": {}, "inputs": {}}\n'
    assert digests == f"# SHA-256 of 2 files\n{made}{abc}  t.csv\n{abc}  x.ome.zarr/zarr.json\n"


@pytest.mark.parametrize(
    "end",
    [
        "raise ValueError",
        "import os; os.kill(os.getpid(), 9)",
        # a later attempt has started
        "Path('telemetry/a/b/rule/9.jsonl').touch()",
        # what was published is gone, or the list cannot be written
        "Path(snakemake.output[0]).unlink()",
        "Path('r/S/D/details').touch()",
    ],
)
def test_a_job_that_did_not_publish_all_lists_no_digests_and_fails(tmp_path, end):
    done = run(tmp_path, WRITING + end, before=PUBLISHING)
    assert done.returncode == 1
    assert done.stderr.startswith("align (S1, SYTO9): ")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "r/S/D/details/digests/t.sha256").exists()
