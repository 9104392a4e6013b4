"""The ways in which people call the workflow: dry runs, profiles, modules, sweeps, stores."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib

import numpy as np
import pytest
import tifffile
import yaml
from packaging.version import Version
from real_runs import PROJECT, TABLES, command, images_of, snakemake
from snakemake import __version__ as snakemake_version

import unglow
from unglow import transform
from unglow.core.digests import SUFFIX
from unglow.images.zarr import open_store
from unglow.phantom import Truth
from unglow.photometry.difference import open_difference
from unglow.photometry.difference_histogram import load_methods
from unglow.results import read_summary
from unglow.workflow.batch import Batch
from unglow.workflow.planned_jobs import corrected_files
from unglow.workflow.stage_table import STAGES, files_of, name_digests

VERSION = "src/unglow/__init__.py"
PAIR = "results/phantom/SYTO9"
# Prints what each rule writes, as Snakemake has read it.
PARSING = """
import json, sys
from pathlib import Path
from snakemake.api import SnakemakeApi
from snakemake.settings.types import ConfigSettings, OutputSettings, Quietness, ResourceSettings
snakefile, config = Path(sys.argv[1]), ConfigSettings(config=json.loads(sys.argv[2]))
sys.argv = ["snakemake", "--lint"]
with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
    workflow = api.workflow(ResourceSettings(), config_settings=config, snakefile=snakefile)
    rules = workflow._workflow.rules
    print(json.dumps({rule.name: [str(path) for path in rule.output] for rule in rules}))
"""
#: All that a sweep computes, but for figures of each variant.
pytestmark = pytest.mark.workflow


def test_a_dry_run_in_a_fresh_directory_prints_memory_disk_and_time(fresh):
    run = snakemake(fresh, "-n")
    assert run.code == 0, run.text
    assert "=<TBD>" not in run.text.replace("tmpdir=<TBD>", "")
    resources = re.findall(r"resources: (.+mem_mb.+)", run.text)
    assert len(resources) == sum(run.jobs().values())
    for line in resources:
        numbers = dict(re.findall(r"(\w+)=(\d+)", line))
        assert int(numbers["mem_mb"]) > 40
        assert {"disk_mb", "runtime"} <= set(numbers)


def test_names_that_mean_something_in_patterns_mean_themselves(small_raw, tmp_path):
    # as a pattern, "A+B" matches AAB and not itself, and "S.1" matches Sx1 as well
    (sample,) = small_raw.iterdir()
    for name in ("A+B", "S.1", "Sx1"):
        (tmp_path / "raw" / name).mkdir(parents=True)
        for image in sample.glob("*.tif"):
            (tmp_path / "raw" / name / image.name.replace(sample.name, "x")).symlink_to(image)
    run = snakemake(tmp_path, "-n")
    assert run.code == 0, run.text
    assert run.jobs()["register"] == 3
    for name in ("A+B", "S.1", "Sx1"):
        assert f"wildcards: sample={name}, dye=SYTO9" in run.text


def snakemake_with(directory, *words):
    return command(directory, "snakemake", "-s", PROJECT / "Snakefile", *words)


@pytest.mark.parametrize("name", ["default", "serial", "local"])
def test_profiles_work_and_stand_alone(fresh, name):
    run = snakemake_with(fresh, "--workflow-profile", PROJECT / "profiles" / name, "-n")
    assert run.code == 0, run.text
    assert "ingest" in run.jobs()


def test_no_profile_inherits_a_limit_from_another():
    """Each profile states every key that any of them states, so none can come from elsewhere."""
    stated = {}
    for path in (PROJECT / "profiles").glob("*/config.yaml"):
        lines = path.read_text().splitlines()
        keys = {line.split(":")[0] for line in lines if line and line[0] not in " #_"}
        stated[path.parent.name] = keys
        assert "config" not in keys, path
    assert set(stated) >= {"default", "serial", "local"}
    local = [keys for name, keys in stated.items() if name in ("default", "serial", "local")]
    assert all(keys == local[0] for keys in local)


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone of the project as it is, which git takes for github.com/acme/unglow, with a tag."""
    clone = tmp_path / "acme" / "unglow"
    subprocess.run(["git", "clone", "-q", str(PROJECT), str(clone)], check=True)
    for name in ("Snakefile", "rules", "scripts", "config", "report", "envs"):
        subprocess.run(["cp", "-r", str(PROJECT / name), str(clone)], check=True)
    git = ["git", "-C", str(clone), "-c", "user.name=A paper", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "As it is now"], check=True)
    subprocess.run([*git, "tag", "v-test"], check=True)
    bare = str(clone) + ".git"
    subprocess.run(["git", "clone", "-q", "--bare", str(clone), bare], check=True)
    (tmp_path / "gitconfig").write_text(f'[url "{tmp_path}/"]\n\tinsteadOf = https://github.com/\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return clone


CONFIGURATIONS = sorted((PROJECT / ".test" / "config").glob("*.yaml"))


@pytest.mark.parametrize("name", [path.stem for path in CONFIGURATIONS])
def test_the_pair_of_the_catalog_runs_with_each_configuration(tmp_path, name):
    shutil.copytree(PROJECT / ".test" / "raw", tmp_path / "raw")
    file = PROJECT / ".test" / "config" / f"{name}.yaml"
    run = snakemake_with(tmp_path, "--cores", "2", "--configfile", file)
    assert run.code == 0, run.text
    assert {r["dye"] for r in read_summary(tmp_path / "results/summary.tsv")} == {"SYTO9"}


def test_the_workflow_is_deployed_as_the_catalog_says(tmp_path, clone):
    pytest.importorskip("snakedeploy")
    deploy = ("snakedeploy", "deploy-workflow", "https://github.com/acme/unglow", ".")
    done = command(tmp_path, *deploy, "--tag", "v-test")
    assert done.code == 0, done.text
    if Version(snakemake_version) < Version("9.27"):  # which fetches without git, from the net
        file = tmp_path / "workflow" / "Snakefile"
        place = re.compile(r"github\(.*?\)", re.DOTALL)
        file.write_text(place.sub(f"'{clone}/Snakefile'", file.read_text(), count=1))
    shutil.copytree(PROJECT / ".test" / "raw", tmp_path / "raw")
    run = command(tmp_path, "snakemake", "--cores", "2")
    assert run.code == 0, run.text
    assert (tmp_path / "results/Rock/SYTO9/candidates.csv").is_file()


def test_the_workflow_is_a_module_of_another(tmp_path, small_raw, clone):
    """Imported at a tag, as from GitHub, or from the clone; a failed pair is not passed over."""
    work = tmp_path / "paper"
    shutil.copytree(small_raw, work / "images")
    (work / "images/bad").mkdir()
    for role in ("pre", "post"):
        noise = np.random.default_rng(len(role)).integers(0, 255, (300, 300), np.uint8)
        tifffile.imwrite(work / f"images/bad/{role}_DAPI.tif", noise)
    place = 'github("acme/unglow", path="Snakefile", tag="v-test")'
    if Version(snakemake_version) < Version("9.27"):  # which fetches without git, from the net
        place = f"'{clone}/Snakefile'"
    config = {
        "raw": "images",
        "results": "out",
        "scale": {"methods": ["percentile"], "default": "percentile"},
        "exports": {"fits": ["aligned_pre"]},
    }
    (work / "Snakefile").write_text(
        """
module unglow:
    snakefile: PLACE
    config: CONFIG

use rule * from unglow as unglow_*

rule paper:
    default_target: True
    input: rules.unglow_all.input
    output: "paper.txt"
    shell: "wc -l < out/summary.tsv > {output}"

onstart: unglow.onstart()
onsuccess: unglow.onsuccess()
onerror: unglow.onerror()
""".replace("PLACE", place).replace("CONFIG", str(config))
    )
    run = command(work, "snakemake", "--cores", "2")
    assert (run.code, "failed: bad DAPI" in run.text) == (1, True), run.text
    assert (work / "paper.txt").read_text().strip() == "3"
    assert (work / "out/phantom/SYTO9/exports/aligned_pre.fits").is_file()
    assert (work / "out/report.html").is_file()
    assert not (work / "results").exists()


def test_the_installed_workflow_with_a_rule_of_the_users(tmp_path, small_raw):
    """As docs/install.md writes it, to the end; a prefix changes names of rules alone."""
    page = (PROJECT / "docs" / "install.md").read_text()
    text = page.partition("or in a Snakefile\n")[2].partition("\nRules of yours")[0]
    count = (
        "rule count:\n    default_target: True\n"
        '    input: "results/phantom/SYTO9/candidates.csv"\n    output: "count.txt"\n'
        '    shell: "tail -n +2 {input} | wc -l > {output}"\n'
    )
    (tmp_path / "raw").symlink_to(small_raw)
    (tmp_path / "Snakefile").write_text(f"{textwrap.dedent(text)}\n{count}")
    run = command(tmp_path, "snakemake", "--cores", "2")
    assert run.code == 0, run.text
    chain = ("ingest", "register", "align", "scale", "difference", "detect", "count")
    assert run.jobs() == dict.fromkeys(chain, 1)
    results = tmp_path / "results"
    found = json.loads((results / "phantom/SYTO9/details/detection.json").read_text())
    assert int((tmp_path / "count.txt").read_text()) == found["candidates"] + found["not_counted"]
    (row,) = read_summary(results / "summary.tsv")
    assert row["sample"] == "phantom"
    assert (results / "report.html").is_file()

    star = "use rule * from unglow"
    prefixed = (tmp_path / "Snakefile").read_text().replace(f"{star}\n", f"{star} as unglow_*\n")
    (tmp_path / "Snakefile").write_text(prefixed)
    words = ("snakemake", "--cores", "2", "--forcerun", "unglow_detect")
    again = command(tmp_path, *words)
    assert again.code == 0, again.text
    assert again.jobs() == {"unglow_detect": 1, "count": 1}


def test_a_package_of_another_version_than_the_workflow_is_refused(tmp_path, fresh):
    place = tmp_path / "workflow"
    place.mkdir()
    for name in ("Snakefile", "rules", "config", "scripts", "report", "envs", "profiles"):
        here = PROJECT / name
        (shutil.copytree if here.is_dir() else shutil.copy)(here, place / name)
    common = place / "rules" / "common.smk"
    assert 'VERSION = "9.8.7"' not in common.read_text()
    common.write_text(re.sub(r'\nVERSION = ".*"', '\nVERSION = "9.8.7"', common.read_text()))
    run = snakemake(fresh, "-n", "--snakefile", str(place / "Snakefile"))
    assert run.code == 1
    assert "9.8.7" in run.text
    assert unglow.__version__ in run.text
    assert "Traceback" not in run.text


def test_a_module_with_a_prefix_of_paths_is_refused_in_one_sentence(tmp_path, small_raw):
    (tmp_path / "raw").symlink_to(small_raw)
    text = f"module unglow:\n    snakefile: '{PROJECT}/Snakefile'\n    prefix: 'sub'\n"
    (tmp_path / "Snakefile").write_text(f"{text}\nuse rule * from unglow as unglow_*\n")
    run = command(tmp_path, "snakemake", "--cores", "1", "-n")
    assert run.code == 1
    assert "unglow is used as a module with `prefix:`" in run.text
    assert "MissingInputException" not in run.text


def test_a_sweep_shares_what_it_can_and_compares(fresh):
    (fresh / "config").mkdir()
    (fresh / "config" / "config.yaml").write_text(
        "sweep:\n  scale.percentile: [40, 60]\n  register.model: [affine, homography]\n"
    )
    jobs = snakemake(fresh, "-n").jobs()
    drawn = f"{PAIR}/model-affine/percentile-60/figures/difference.png"
    run = snakemake(fresh, *TABLES, drawn)
    assert run.code == 0, run.text
    assert jobs["ingest"] == 1
    assert (jobs["register"], jobs["align"]) == (2, 2)
    assert (jobs["scale"], jobs["difference"], jobs["figures"]) == (4, 4, 4)
    (pair,) = (fresh / "results").glob("*/SYTO9")
    rows = read_summary(fresh / "results" / "summary.tsv")
    assert {row["registration"] for row in rows} == {"model-affine", "model-homography"}
    gains = {(row["registration"], row["gain"]) for row in rows}
    assert (len(rows), len(gains)) == (4, 2)
    for name in ("model-affine/percentile-40", "model-homography/percentile-60"):
        assert open_store(pair / name / "difference.ome.zarr").empty is None
        assert open_difference(pair / name, "percentile").attributes["gain"] > 1
    # linear does not follow from the percentile: each registration stores its difference once
    for outer in ("model-affine", "model-homography"):
        same = [pair / outer / f"percentile-{n}" / "difference.ome.zarr" for n in (40, 60)]
        shards = [sorted(store.glob("*/c/*/*")) for store in same]
        assert all(a.samefile(b) for a, b in zip(*shards, strict=True))
        assert shards[0]
        assert not (same[0] / "zarr.json").samefile(same[1] / "zarr.json")
    checked = command(fresh, "unglow", "verify")
    assert checked.code == 0
    assert checked.text.startswith("No problems found: ")


def test_channels_and_searches_are_swept_and_compared(fresh):
    (fresh / "config").mkdir()
    (fresh / "config" / "config.yaml").write_text(
        "sweep:\n  channel: [G, R+G]\n  detect.fdr: [0.01, 0.3]\nexports: {zarr: [snr]}\n"
    )
    jobs = snakemake(fresh, "-n").jobs()
    drawn = f"{PAIR}/channel-R+G/fdr-0.3/figures/difference.png"
    variants = [f"channel-{which}/fdr-{rate}" for which in ("G", "R+G") for rate in (0.01, 0.3)]
    stores = [f"{PAIR}/{variant}/snr.ome.zarr/zarr.json" for variant in variants]
    run = snakemake(fresh, *TABLES, *stores, drawn)
    assert run.code == 0, run.text
    wanted = {"ingest": 2, "register": 2, "scale": 2, "difference": 2, "detect": 4, "figures": 4}
    assert {rule: jobs[rule] for rule in wanted} == wanted
    (pair,) = (fresh / "results").glob("*/SYTO9")
    assert sorted(path.name for path in pair.iterdir()) == ["channel-G", "channel-R+G"]
    rows = read_summary(fresh / "results" / "summary.tsv")
    assert [(row["ingestion"], row["detection"], row["channels"]) for row in rows] == [
        ("channel-G", "fdr-0.01", "G"),
        ("channel-G", "fdr-0.3", "G"),
        ("channel-R+G", "fdr-0.01", "R+G"),
        ("channel-R+G", "fdr-0.3", "R+G"),
    ]
    few, many, *_ = (int(row["candidates"]) for row in rows)
    assert few < many
    compared = command(fresh, "unglow", "compare", str(pair))
    assert compared.code == 0, compared.text
    ratios = [
        sorted((pair / "channel-G" / n).glob("snr.ome.zarr/*/c/*/*"))
        for n in ("fdr-0.01", "fdr-0.3")
    ]
    assert all(a.samefile(b) for a, b in zip(*ratios, strict=True))
    assert ratios[0]
    place = pair / "channel-R+G" / "fdr-0.3"
    assert open_difference(place).path == place.parent / "difference.ome.zarr"
    checked = command(fresh, "unglow", "verify")
    assert checked.code == 0
    assert checked.text.startswith("No problems found: ")
    assert set(snakemake(fresh, "-n").jobs()) == {"figures", "figures_registration"}


def test_manual_gain_from_the_sample_sheet(small_raw, tmp_path):
    (tmp_path / "my files").mkdir()
    for role, image in images_of(small_raw).items():
        shutil.copy(image, tmp_path / "my files" / f"{role} é.tif")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "samples.tsv").write_text(
        "sample\tdye\tpre\tpost\tchannel\tmanual_scale\n"
        "S1\tDAPI\tmy files/pre é.tif\tmy files/post é.tif\tG\t1.25\n"
    )
    run = snakemake(tmp_path, "--until", "difference")
    assert run.code == 0, run.text
    pair = tmp_path / "results" / "S1" / "DAPI"
    assert [path.name for path in pair.glob("difference*")] == ["difference.ome.zarr"]
    found = open_difference(pair, "manual")
    assert (found.attributes["gain"], found.empty) == (1.25, None)
    counts = load_methods(pair / "details/difference.histogram.npz", "linear")
    assert counts["manual"].total == counts["linear"].total > 0
    assert open_store(pair / "post.ome.zarr").dtype == "uint8"


def test_a_missing_shard_is_an_error_and_not_a_black_square(small_work):
    (pair,) = (small_work / "results").glob("*/SYTO9")
    store = pair / "post.ome.zarr"
    next(
        p for p in sorted((store / "0").rglob("*")) if p.is_file() and p.name != "zarr.json"
    ).unlink()
    run = snakemake(small_work, "--forcerun", "register")
    assert run.code == 1
    assert "post.ome.zarr" in run.text
    assert "shard" in run.text


def test_sides_beyond_32767_px(tmp_path):
    """OpenCV's warps stop there; every stage works block by block instead."""
    run = command(
        tmp_path,
        *("unglow", "phantom", "--size", "400x32900", "--rotation-deg", "0.05"),
        *("--scale", "1.0005", "--shear", "0", "--shift-px", "15", "8"),
    )
    assert run.code == 0, run.text
    run = snakemake(tmp_path, "--config", "memory_per_job=400")
    assert run.code == 0, run.text
    pair = tmp_path / PAIR
    assert open_store(pair / "difference.ome.zarr").shape == (400, 32900)
    # a long narrow pair is registered and scaled right, too
    (truth,) = tmp_path.rglob("*truth.json")
    (row,) = read_summary(tmp_path / "results" / "summary.tsv")
    assert row["status"] == "ok"
    assert float(row["gain"]) == pytest.approx(1.3, rel=0.02)
    points = np.array([[5000.0, 200], [16000, 200], [28000, 200]])
    off = transform.load(pair / "transform.json").map(points) - Truth.load(truth).map(points)
    assert np.hypot(*off.T).max() < 0.5


def test_the_conda_environment_is_in_step_with_the_package():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    wanted = dict(
        re.fullmatch(r"([\w.-]+)>=([\w.,<]+)(?:;.*)?", d).groups() for d in project["dependencies"]
    )
    environment = yaml.safe_load((PROJECT / "envs" / "unglow.yaml").read_text())
    flat = [d for d in environment["dependencies"] if isinstance(d, str)]
    flat += next(d["pip"] for d in environment["dependencies"] if isinstance(d, dict))
    names = {"matplotlib-base": "matplotlib", "snakemake-minimal": "snakemake"}
    stated = dict(re.fullmatch(r"([\w.-]+) [>=]=(.+)", d).groups() for d in flat if " " in d)
    stated = {names.get(k, k): v for k, v in stated.items()}
    version = re.search(r'__version__ = "(.+)"', (PROJECT / VERSION).read_text())
    assert stated.pop("unglow") == version.group(1)
    assert stated.pop("python") == project["requires-python"].removeprefix(">=")
    assert stated == wanted


def test_package_and_workflow_carry_one_version():
    package = re.search(r'__version__ = "(.+)"', (PROJECT / VERSION).read_text())
    common = (PROJECT / "rules" / "common.smk").read_text()
    workflow = re.search(r'^VERSION = "(.+)"', common, re.MULTILINE)
    citation = yaml.safe_load((PROJECT / "CITATION.cff").read_text())
    assert package.group(1) == workflow.group(1) == citation["version"]


@pytest.mark.parametrize(
    "config",
    [
        {"figures": "all", "multiplexed": {"output": "both"}},
        {"sweep": {"register.model": ["affine", "homography"], "detect.fdr": [0.1, 0.2]}},
        {"sweep": {"channel": ["R", "G"], "scale.percentile": [40, 50]}},
    ],
    ids=["none", "registration", "ingestion"],
)
def test_the_list_of_published_files_is_what_rules_write(tmp_path, config):
    words = [sys.executable, "-c", PARSING, PROJECT / "Snakefile", json.dumps(config)]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    batch = Batch.without_images(config)
    written = {}
    for rule, files in json.loads(ended.stdout).items():
        written[rule] = {re.sub(r"\{(\w+),[^}]*\}", r"{\1}", file) for file in files}
    assert written.pop("all") == set()
    assert written.keys() == {rule for rule in STAGES if files_of(rule, batch.outputs)}
    more = {"slide_subtract": [*corrected_files(batch).values()], "slide_figures": ["figures"]}
    for rule, files in written.items():
        names = (*files_of(rule, batch.outputs), *more.get(rule, ()))
        listed = {batch.outputs.file(STAGES[rule].level, name) for name in names}
        digests = {file for file in files if file.endswith(SUFFIX)}
        assert files - digests == {
            file.replace("<results>", "results") for file in listed if not file.endswith(SUFFIX)
        }
        digest = name_digests(rule, batch.outputs).replace("<results>", "results")
        assert digests == ({digest} if rule not in ("summary", "slide_part") else set())
