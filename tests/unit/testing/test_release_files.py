"""Files that a public host and the Snakemake catalog read: pinned, with few rights, in step."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from subprocess import check_output

import pytest
import tifffile
import yaml
from packaging.version import Version

import unglow
from unglow.cli import main

WORKFLOWS = ("ci", "wheels", "release")


def workflow(project, name):
    return yaml.safe_load((project / ".github" / "workflows" / f"{name}.yml").read_text())


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_of_others_are_pinned_to_a_commit(project, name):
    text = (project / ".github" / "workflows" / f"{name}.yml").read_text()
    used = re.findall(r"uses: (\S+)(.*)", text)
    assert used
    for action, comment in used:
        assert action.startswith("./") or re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
        assert action.startswith("./") or re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action


@pytest.mark.parametrize("name", WORKFLOWS)
def test_jobs_may_only_read_but_for_those_that_publish(project, name):
    content = workflow(project, name)
    assert content["permissions"] == {"contents": "read"}
    more = {job: rights for job, of in content["jobs"].items() if (rights := of.get("permissions"))}
    wanted = {"publish": {"id-token": "write"}, "announce": {"contents": "write"}}
    assert more == (wanted if name == "release" else {})
    assert "secrets." not in str(content)


def test_every_promised_python_is_tested(project):
    classifiers = tomllib.loads((project / "pyproject.toml").read_text())["project"]["classifiers"]
    promised = {c.split()[-1] for c in classifiers if re.search(r"Python :: 3\.\d+$", c)}
    assert promised
    assert promised <= set(workflow(project, "ci")["jobs"]["unit"]["strategy"]["matrix"]["python"])


def test_the_oldest_versions_are_the_minimum_ones(project):
    content = tomllib.loads((project / "pyproject.toml").read_text())
    minimum = [re.match(r"([\w.-]+)>=([\w.]+)", d) for d in content["project"]["dependencies"]]
    pinned = dict(re.findall(r"(?m)^([\w.-]+)==(\S+)$", (project / "tests/oldest.txt").read_text()))
    for name, version in (found.groups() for found in minimum):
        least = Version(version).release
        assert Version(pinned[name]).release[: len(least)] == least, name


def test_the_pair_of_the_catalog_is_what_its_command_makes(project, tmp_path, monkeypatch):
    lines = (project / ".test" / "config" / "config.yaml").read_text().splitlines()
    words = shlex.split(" ".join(ln.lstrip("# ") for ln in lines if ln.startswith("#   ")))
    assert words[:2] == ["unglow", "phantom"]
    monkeypatch.chdir(tmp_path)
    assert main(words[1:]) == 0
    made = sorted(tmp_path.glob("raw/*/*"))
    assert [p.name for p in made] == [p.name for p in sorted(project.glob(".test/raw/*/*"))]
    for path in tmp_path.glob("raw/*/*.tif"):
        kept = project / ".test" / path.relative_to(tmp_path)
        assert (tifffile.imread(kept) == tifffile.imread(path)).all(), path.name


def test_every_public_name_is_in_the_reference(project):
    page = (project / "docs" / "python.md").read_text()
    for name in set(unglow.__all__) - {"__version__"}:
        assert re.search(rf"\.\. auto(function|class):: unglow\.{name}\n", page), name


def test_the_tab_key_offers_every_public_name_before_it_is_imported():
    words = [sys.executable, "-c", "import unglow; print(*dir(unglow))"]
    assert set(check_output(words, text=True).split()) >= {*unglow.__all__}


def test_no_advice_installs_a_package_of_this_name_from_a_registry(project):
    """Nothing is published: whoever had the name there would run on the machine of the reader."""
    places = ("src", "docs", "profiles", "config", "README.md", "CONTRIBUTING.md")
    kinds = {".py", ".js", ".md", ".toml", ".smk", ".yaml"}
    files = (f for p in places for f in [project / p, *(project / p).rglob("*")])
    found = [
        (file.name, line.strip())
        for file in files
        if file.suffix in kinds and file.is_file()
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.search(r"pip install(?![^`#]*[/.]unglow).*[\s'\"]unglow(\[|['\"`\s]|$)", line)
    ]
    assert found == []
