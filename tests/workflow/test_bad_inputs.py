"""Bad pairs: a sentence each, before any job; the good pair next to them succeeds."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import tifffile
from real_runs import TABLES, command, images_of, refusal, snakemake, summary_of

from unglow.io.zarr import open_store

pytestmark = pytest.mark.workflow


@pytest.fixture(scope="module")
def zoo(tmp_path_factory, small_raw):
    """One good pair, and one pair for every way in which inputs go wrong."""
    work = tmp_path_factory.mktemp("zoo")
    pre, post = images_of(small_raw).values()
    rng = np.random.default_rng(7)

    def pair(sample, post_file=post, pre_file=pre):
        directory = work / "raw" / sample
        directory.mkdir(parents=True)
        made = []
        for role, content in (("post", post_file), ("pre", pre_file)):
            target = directory / f"{sample}_{role}_SYTO9.tif"
            if isinstance(content, np.ndarray):
                tifffile.imwrite(target, content, photometric="minisblack")
            elif isinstance(content, bytes):
                target.write_bytes(content)
            elif content is not None:
                shutil.copy(content, target)
            made.append(target)
        return made

    image = tifffile.imread(post)
    blank = np.zeros((512, 512), np.uint8)
    noise = rng.integers(0, 200, (600, 600)).astype(np.uint8)
    pair("Good")
    light = [np.uint8(250) - np.minimum(tifffile.imread(path)[..., 1], 240) for path in (post, pre)]
    pair("Bright", *light)
    pair("Mixed", light[0], tifffile.imread(pre)[..., 1])
    pair("Czi", pre_file=None)
    (work / "raw" / "Czi" / "Czi_pre_SYTO9.czi").write_bytes(b"ZISRAWFILE")
    pair("Cypress1")
    pair("Truncated", post_file=post.read_bytes()[: post.stat().st_size // 2])
    pair("Zero", pre_file=b"")
    pair("Random", pre_file=rng.bytes(5000))
    pair("Jpeg", pre_file=b"\xff\xd8\xff\xe0" + rng.bytes(500))
    pair("MissingPre", pre_file=None)
    pair("Stack", post_file=np.stack([image[..., 1]] * 5), pre_file=image[..., 1])
    pair("TwoPre")
    shutil.copy(pre, work / "raw" / "TwoPre" / "again_pre_SYTO9.tif")
    pair("Depth", post_file=image[..., 1].astype(np.uint16) * 200, pre_file=image[..., 1])
    pair("Dangling")
    (work / "raw" / "Dangling" / "Dangling_pre_SYTO9.tif").unlink()
    (work / "raw" / "Dangling" / "Dangling_pre_SYTO9.tif").symlink_to(work / "nowhere.tif")
    (post_file, _) = pair("Braces")
    post_file.rename(post_file.with_name("{1}_post_SYTO9.tif"))
    pair("A" * 21)
    pair("Black", post_file=blank, pre_file=blank)
    pair("Unrelated", post_file=noise, pre_file=rng.integers(0, 200, (600, 600)).astype(np.uint8))
    (_, pre_file) = pair("Rotten")
    with tifffile.TiffFile(pre_file) as tif:
        middle = tif.pages[0].dataoffsets[3]
    with pre_file.open("r+b") as stream:
        stream.seek(middle)
        stream.write(b"\0" * 2000)
    # figures of those alone that a job has found bad
    drawn = [f"results/{sample}/SYTO9/figures/registration.png" for sample in FAILED]
    drawn += [f"results/{sample}/SYTO9/figures/difference.png" for sample in FAILED]
    return work, snakemake(work, *TABLES, *drawn)


REFUSED = {  # before any job
    "Truncated": "cut short",
    "Zero": "empty",
    "Random": "not a TIFF",
    "Jpeg": "JPEG",
    "MissingPre": "pre",
    "Czi": "bfconvert -noflat -bigtiff Czi_pre_SYTO9.czi Czi_pre_SYTO9.ome.tif",
    "Stack": "plane",
    "TwoPre": "again_pre_SYTO9.tif",
    "Depth": "bit depth",
    "Dangling": "Dangling_pre_SYTO9.tif",
    "Braces": "holds {1}, which Snakemake would replace",
    "A" * 21: "ends in 20 times the same",
}
FAILED = ("Black", "Unrelated", "Rotten")  # by a job that succeeds and says why


@pytest.mark.parametrize(("sample", "word"), REFUSED.items())
def test_what_cannot_be_read_is_named_before_any_job(zoo, sample, word):
    work, run = zoo
    row = summary_of(work)[sample]
    assert row["status"] == "skipped"
    assert word.lower() in row["reasons"].lower()
    before = run.text.split("Job stats")[0]
    assert row["reasons"] in " ".join(before.split())
    assert not (work / "results" / sample).exists()


@pytest.mark.parametrize("sample", FAILED)
def test_what_cannot_be_registered_ends_failed_with_marked_empty_outputs(zoo, sample):
    work, _ = zoo
    row = summary_of(work)[sample]
    assert row["status"] == "failed"
    assert row["reasons"]
    store = open_store(work / "results" / sample / "SYTO9" / "difference" / "linear.ome.zarr")
    assert store.empty
    found = json.loads((work / "results" / sample / "SYTO9" / "detection.json").read_text())
    assert found["status"] == "failed"
    assert found["reason"] == store.empty
    table = (work / "results" / sample / "SYTO9" / "candidates.csv").read_text()
    assert table.count("\n") == 1
    assert (work / "results" / sample / "SYTO9" / "figures" / "registration.png").is_file()


@pytest.mark.parametrize("sample", ["Good", "Cypress1"])
def test_the_good_pairs_end_well(zoo, sample):
    work, _ = zoo
    assert summary_of(work)[sample]["status"] == "ok"


def test_bright_field_pairs_get_no_candidates_and_no_advice_for_fluorescence(zoo):
    work, _ = zoo
    row, pair = summary_of(work)["Bright"], work / "results" / "Bright" / "SYTO9"
    assert (row["status"], row["candidates"], row["reasons"]) == ("ok", "", "")
    assert row["notes"].startswith("Both images are bright-field (dark is signal")
    images = json.loads((pair / "plan.json").read_text())["images"]
    assert [images[role]["bright_field"] for role in ("post", "pre")] == [True, True]
    assert "in fluorescence alone" in json.loads((pair / "detection.json").read_text())["reason"]
    mixed = summary_of(work)["Mixed"]
    assert mixed["status"] in ("suspect", "failed")
    assert "The post-stain image is bright-field" in mixed["reasons"]
    assert "the pre-stain image is not" in mixed["reasons"]
    good = json.loads((work / "results" / "Good" / "SYTO9" / "plan.json").read_text())
    assert "bright_field" not in str(good)
    looked = command(work, "unglow", "survey")
    assert "Bright_pre_SYTO9.tif: bright-field (dark is signal" in " ".join(looked.text.split())
    assert "Mixed SYTO9: The post-stain image is bright-field" in " ".join(looked.text.split())


def test_the_run_ends_with_an_error_that_names_the_failed_pairs(zoo):
    _, run = zoo
    assert run.code == 1
    expected = dict.fromkeys(REFUSED, "skipped") | dict.fromkeys(FAILED, "failed")
    for sample, status in expected.items():
        # of a folder with such a name no file is looked at
        pair = sample if sample == "A" * 21 else f"{sample} SYTO9"
        assert f"{status}: {pair}: " in run.text, sample
    last = run.text.rstrip().splitlines()[-1]
    assert last.startswith("All other results are complete. Fix what is named above")
    assert not [words for words in ("Traceback", "WorkflowError", "Error in") if words in run.text]


def test_allow_failed_ends_with_success_and_reruns_only_the_verdict(zoo):
    work, _ = zoo
    run = snakemake(work, *TABLES, "--config", "allow_failed=true")
    assert run.code == 0, run.text
    assert set(run.jobs()) == {"verdict"}


def test_survey_reports_the_same_problems(zoo):
    work, _ = zoo
    run = command(work, "unglow", "survey", "raw")
    assert run.code == 1
    for sample in REFUSED:
        if sample not in ("Stack", "Depth"):
            assert sample in run.text
    assert "Traceback" not in run.text


def test_a_wrong_setting_is_one_sentence_and_nothing_runs(fresh):
    run = snakemake(fresh, "--config", "regster={a: 1}")
    assert run.code == 1
    assert "config key 'regster' is not known; did you mean 'register'?" in run.text
    assert "Traceback" not in run.text
    assert not (fresh / "results").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("memory_per_job=abc", "config key 'memory_per_job' is 'abc' but has to be a number"),
        ("memory_per_job=.inf", "'memory_per_job' is inf but has to be a finite number"),
        ("scale={manual: .nan}", "'scale.manual' is nan but has to be a finite number"),
        ("scale={manual: -1}", "'scale.manual' is -1 but has to be above 0"),
        ("register={block_px: -5}", "'register.block_px' is -5 but has to be one of"),
        ("scale={percentile: 150}", "config key 'scale.percentile' is 150"),
        ("samples=none.tsv", "none.tsv"),
        ("raw=nowhere", "nowhere"),
        ("sweep={scale.percentile: [40, .nan]}", "'sweep.scale.percentile' is nan"),
        ("scale={methods: [manual], default: manual}", "no gain is given"),
    ],
)
def test_any_wrong_setting_is_refused_by_what_the_snakefile_asks(fresh, words, message):
    assert message in refusal(fresh, words)


def test_corrupt_pixels_fail_the_pair_with_the_place_and_nothing_else(zoo):
    work, _ = zoo
    summary = summary_of(work)
    assert summary["Good"]["status"] == "ok"
    assert summary["Rotten"]["status"] == "failed"
    assert "Rotten_pre_SYTO9.tif" in summary["Rotten"]["reasons"]


def test_a_directory_that_snakemake_cannot_work_in_is_one_sentence(small_raw, tmp_path):
    work = tmp_path / "w{1}"
    shutil.copytree(small_raw, work / "raw")
    run = snakemake(work, "-n")
    assert run.code == 1
    assert f"the working directory is {work}, whose braces Snakemake would fill in" in run.text
    assert "Traceback" not in run.text
    odd_place = tmp_path / "{3F25-11D3}"
    shutil.copytree(small_raw, odd_place / "raw")
    assert snakemake(odd_place, "-n").code == 0


def test_results_may_lie_in_a_directory_of_any_other_letters(small_raw, tmp_path):
    shutil.copytree(small_raw, tmp_path / "raw")
    run = snakemake(tmp_path, "-n", "--config", "results=re s*[a](b)$^%s")
    assert run.code == 0, run.text
    assert "re s*[a](b)$^%s/summary.tsv" in run.text
