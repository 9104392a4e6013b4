"""Commands on results whose directories have names that would act on a terminal."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import suppress

import pytest
from real_runs import command

from unglow.cli import main

pytestmark = pytest.mark.workflow
RED = "e\x1b[2J\x1b[31m\u202e\x9b1mred"


@pytest.fixture(scope="module")
def hostile(small_finished, tmp_path_factory):
    """A copy of the finished run in which every name of others holds escape sequences."""
    work = tmp_path_factory.mktemp("terminal") / f"work{RED}"
    subprocess.run(["cp", "-a", str(small_finished), str(work)], check=True)
    raw, results = work / "raw", work / "results"
    shutil.copytree(raw / "phantom", raw / RED)
    (raw / f"{RED}.czi").touch()
    other = results / RED / RED
    shutil.copytree(results / "phantom" / "SYTO9", other)
    (other / "candidates.csv").write_text("id\n")
    (other / f"{RED}.json").write_text("{")
    (other / f".{RED}.partial").write_text("x")
    (other / "details/plan.json").write_text("[]")
    for path in results.glob("telemetry/**/*.jsonl"):  # names of rules, samples and machines
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in (line for line in lines if isinstance(line, dict)):
            for key in ("host", "message", "remedy", "name"):
                if isinstance(line.get(key), str):
                    line[key] += RED
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return work


@pytest.mark.parametrize(
    "words",
    [
        ["verify"],
        ["verify", "--repair"],
        ["view", "--static", f"static{RED}"],
        ["view", "--static", "."],
        ["view", f"no{RED}"],
        ["status"],
        ["report"],
        ["report", "-o", f"{RED}.html"],
        ["compare", "results", f"../work{RED}/results", "-o", f"{RED}.html", "--table", RED],
        ["monitor", "--once"],
        ["export", f"results/{RED}/{RED}/transform.json", "--itk", f"{RED}.mha"],
        ["export", f"results/{RED}/{RED}/post.ome.zarr", "--tiff", f"{RED}.ome.tif"],
        ["verify", "--clean", "-n"],
        ["verify", "--clean"],
        ["survey"],
        ["survey", "--json"],
        ["survey", RED],
        ["init"],
        ["doctor", "--results", RED],
        ["resume", RED],
        ["run", "--where", RED],
        [RED],
    ],
    ids=lambda words: words[0].replace(RED, "none"),
)
def test_no_name_acts_on_the_terminal(hostile, tmp_path, monkeypatch, capfd, words):
    work = tmp_path / RED
    subprocess.run(["cp", "-a", str(hostile), str(work)], check=True)
    monkeypatch.chdir(work)
    with suppress(SystemExit):  # words that are not options
        main(words)
    out, err = capfd.readouterr()
    assert out + err
    assert not {"\x1b", "\x9b", "\u202e"} & set(out + err), out + err
    if "--json" in words:
        assert json.loads(out)["problems"]


def test_no_name_in_a_dry_run_acts_on_the_terminal(hostile, tmp_path):
    work = tmp_path / RED
    subprocess.run(["cp", "-a", str(hostile), str(work)], check=True)
    made = command(work, "unglow", "preflight", "--cores", "1", "--forceall")
    assert "jobs:" in made.text
    assert not {"\x1b", "\x9b", "\u202e"} & set(made.text), made.text
