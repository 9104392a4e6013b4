"""A copy of a loaded Snakemake is the command: it prints, computes and ends as that does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import loaded_snakemake
import pytest

pytestmark = pytest.mark.slow

SNAKEMAKE = str(Path(sys.executable).with_name("snakemake"))
SEEN = """
import atexit, os, signal, sys
atexit.register(print, "the end")
print(os.getcwd(), sys.argv, sys.executable, os.environ["SAID"], os.environ.get("LEFT"))
print(sorted(os.listdir("/proc/self/fd"))[:3], signal.getsignal(signal.SIGINT), sys.stdin.read())
rule all:
    output: "made"
    shell: "echo $SAID > made; exit $STATUS"
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    (tmp_path / "Snakefile").write_text(SEEN)
    monkeypatch.setenv("LEFT", "not for it")
    loaded_snakemake._server()  # has what was set before it
    return tmp_path


def settings(**more):
    kept = {name: value for name, value in os.environ.items() if name != "LEFT"}
    return kept | {"SAID": "a word"} | more


@pytest.mark.parametrize(("status", "code"), [("0", 0), ("3", 1)])
def test_it_is_as_if_the_command_were_typed(work, status, code):
    words = [SNAKEMAKE, "--cores", "1", "--quiet", "all"]
    environment = settings(STATUS=status)
    real = subprocess.run(
        words,
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    made = (work / "made").exists()
    (work / "made").unlink(missing_ok=True)
    assert loaded_snakemake.run(work, words, environment, 600) == (real.returncode, real.stdout)
    assert real.returncode == code
    assert (work / "made").exists() == made == (code == 0)
    assert f"{work} {words} {sys.executable} a word None\n" in real.stdout
    assert real.stdout.endswith("the end\n")


def test_a_wrong_word_and_a_file_that_is_not_there_are_reported(work):
    code, text = loaded_snakemake.run(work, [SNAKEMAKE, "--no-such"], settings(), 600)
    assert (code, "unrecognized arguments: --no-such" in text) == (2, True)
    code, text = loaded_snakemake.run(work / "no", [SNAKEMAKE], settings(), 600)
    assert (code, "No such file or directory" in text) == (1, True)


def test_after_its_time_it_is_ended(work):
    (work / "Snakefile").write_text("import time; time.sleep(1200)")
    code, _ = loaded_snakemake.run(work, [SNAKEMAKE, "-n"], settings(), 1)
    assert code == -signal.SIGALRM
