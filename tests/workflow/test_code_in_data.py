"""Nothing that lies in a directory of data is run as code: by Python, by Snakemake, or by pdb."""

from __future__ import annotations

import tarfile

import pytest
from real_runs import BIN, PROJECT, TABLES, command, debugged, small_phantom, snakemake

pytestmark = pytest.mark.workflow

# What every job imports early, or Snakemake, or a library of theirs; and the libraries themselves.
MODULES = (
    "abc", "argparse", "ast", "base64", "collections", "contextlib", "copyreg", "enum",
    "functools", "inspect", "io", "json", "logging", "os", "pickle", "random", "re", "shutil",
    "struct", "subprocess", "tempfile", "textwrap", "tokenize", "traceback", "typing",
    "warnings", "sitecustomize", "usercustomize", "numpy", "snakemake", "tifffile", "unglow",
    "yaml",
)  # fmt: skip
PLACES = (
    ".", ".snakemake", ".snakemake/scripts", "config", "profiles/default", "raw", "results",
    "rules", "scripts", "src", "workflow", "workflow/profiles/default", "workflow/scripts",
)  # fmt: skip
PDBRC = "import pathlib; pathlib.Path('ran').write_text('.pdbrc')\n"


def unpack_hostile(tmp_path):
    """Make a working directory as somebody else would send it."""
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    small_phantom(there)
    for place in PLACES:
        (there / place).mkdir(parents=True, exist_ok=True)
        for name in MODULES:
            code = f"open({str(here / 'ran')!r}, 'a').write(__file__ + chr(10))\n"
            (there / place / f"{name}.py").write_text(code)
        (there / place / ".pdbrc").write_text(PDBRC)
    with tarfile.open(tmp_path / "sent.tar", "w") as archive:
        archive.add(there, ".")
    with tarfile.open(tmp_path / "sent.tar") as archive:
        archive.extractall(here, filter="data")
    return here


def modules_run(work):
    ran = work / "ran"
    return sorted(set(ran.read_text().split())) if ran.exists() else []


def test_modules_in_a_directory_of_data_run_in_no_command_and_in_no_job(tmp_path):
    work = unpack_hostile(tmp_path)
    run = command(work, BIN / "unglow", "run", "--cores", "2")
    assert modules_run(work) == []
    assert run.code == 0, run.text
    for words in (["status"], ["verify"], ["survey"], ["report"]):
        assert command(work, BIN / "unglow", *words).code == 0
    debugger = debugged(work, "c\n", "scale", "phantom/SYTO9")
    assert debugger.returncode == 0, debugger.stdout
    assert modules_run(work) == []


def test_nor_in_jobs_of_a_batch_system_that_keeps_the_environment_to_itself(tmp_path):
    work = unpack_hostile(tmp_path)
    submit = tmp_path / "submit"
    submit.write_text('#!/bin/sh\nenv -i PATH="$PATH" HOME="$HOME" sh "$1" >&2 && echo 1\n')
    submit.chmod(0o755)
    words = ("--executor", "cluster-generic", "--jobs", "1", "--latency-wait", "20")
    run = command(
        work,
        *(BIN / "unglow", "run", *words, "--cluster-generic-submit-cmd", submit),
        *("--", TABLES[0]),
    )
    assert modules_run(work) == []
    assert run.code == 0, run.text


def test_a_workflow_that_uses_this_one_as_a_module_keeps_its_imports(tmp_path):
    small_phantom(tmp_path)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "sibling.py").write_text("WORD = 'own'\n")
    (tmp_path / "tools" / "write.py").write_text("import sibling\nprint(sibling.WORD)\n")
    (tmp_path / "Snakefile").write_text(
        f"module unglow:\n    snakefile: '{PROJECT}/Snakefile'\n"
        "use rule * from unglow as unglow_*\n"
        "rule own:\n    default_target: True\n    output: 'own.txt'\n"
        f"    shell: '{BIN}/python tools/write.py > {{output}}'\n"
    )
    run = snakemake(tmp_path, "-s", tmp_path / "Snakefile")
    assert run.code == 0, run.text
    assert (tmp_path / "own.txt").read_text() == "own\n"
