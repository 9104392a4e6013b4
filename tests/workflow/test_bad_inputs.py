"""Bad pairs: a sentence each, before any job; the good pairs next to them succeed."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import tifffile
from real_runs import TABLES, command, images_of, snakemake, summary_of

from unglow.core.windows import Window
from unglow.images.zarr import open_store
from unglow.photometry.difference import open_difference

pytestmark = pytest.mark.workflow


@pytest.fixture(scope="module")
def zoo(tmp_path_factory, small_raw):
    """Good pairs, and one pair for every way in which inputs go wrong."""
    work = tmp_path_factory.mktemp("zoo")
    pre, post = images_of(small_raw).values()
    colours = [tifffile.imread(path) for path in (post, pre)]
    grey_post, grey_pre = grey = [image[..., 1] for image in colours]
    rng = np.random.default_rng(7)

    def pair(sample, post_file=post, pre_file=pre, dye="SYTO9", **options):
        """Write a pair; an image is an array, a path to copy, or the bytes of the file."""
        directory = work / "raw" / sample
        directory.mkdir(parents=True)
        made = []
        for role, content in (("post", post_file), ("pre", pre_file)):
            target = directory / f"{sample}_{role}_{dye}.tif"
            if isinstance(content, np.ndarray):
                tifffile.imwrite(target, content, **({"photometric": "minisblack"} | options))
            elif isinstance(content, bytes):
                target.write_bytes(content)
            elif content is not None:
                shutil.copy(content, target)
            made.append(target)
        return made

    pair("Good")
    pair(UNICODE, *map(deepened, colours), dye="SYTO 9 grün", photometric="rgb")
    light = [np.uint8(250) - np.minimum(image, 240) for image in grey]
    pair("Bright", *light)
    pair("Mixed", light[0], grey_pre)
    pair("Packed", pre_file=None)
    (work / "raw" / "Packed" / "Packed_pre_SYTO9.tif.gz").write_bytes(b"PK")
    pair("Cypress1")
    tifffile.imwrite(work / "whole.tif", grey_post, compression="lzw", rowsperstrip=16)
    whole = (work / "whole.tif").read_bytes()
    pair("Same", grey_post, grey_post)
    pair("Copy", grey_post, whole)
    pair("Truncated", whole[:100_000], grey_pre)
    pair("MissingPre", pre_file=None)
    pair("Depth", grey_post.astype(np.uint16) * 200, grey_pre)
    (work / "raw" / "Gone").symlink_to(work / "nowhere")
    (_, pre_file) = pair("Dangling")
    pre_file.unlink()
    pre_file.symlink_to(work / "nowhere.tif")
    (post_file, _) = pair("Braces")
    post_file.rename(post_file.with_name("{1}_post_SYTO9.tif"))
    pair("Black", grey_post * 0, grey_pre)
    pair("Tiny", *(image[300:320, 300:320] for image in grey))
    pair("Unrelated", *rng.integers(0, 200, (2, 600, 600)).astype(np.uint8))
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


def deepened(image):
    """Grey levels on a 16-bit scale that no 8 bits hold."""
    return image.astype(np.uint16) * np.uint16(200) + (image % 7)


UNICODE = "Grüße Schnitt 2"
REFUSED = {  # before any job; what the reason names
    "Truncated": "Truncated_post_SYTO9.tif",
    "MissingPre": "MissingPre_post_SYTO9.tif",
    "Packed": "Packed_pre_SYTO9.tif.gz",
    "Depth": "Depth_post_SYTO9.tif",
    "Dangling": "Dangling_pre_SYTO9.tif",
    "Braces": "{1}_post_SYTO9.tif",
}
FAILED = {  # by a job that succeeds and says why
    "Same": "hold the same bytes",
    "Black": "post-stain image is empty",
    "Tiny": "20 x 20 px is too small",
    "Unrelated": "",
    "Rotten": "Rotten_pre_SYTO9.tif",
}


@pytest.mark.parametrize(("sample", "name"), REFUSED.items())
def test_what_cannot_be_read_is_named_before_any_job(zoo, sample, name):
    work, run = zoo
    row = summary_of(work)[sample]
    assert row["status"] == "skipped"
    assert name in row["reasons"]
    assert row["reasons"] in " ".join(run.text.split("Job stats")[0].split())
    assert not (work / "results" / sample).exists()


def test_a_folder_that_is_a_broken_link_is_not_passed_over_in_silence(zoo):
    assert "raw/Gone is a link to" in zoo[1].text.split("Job stats")[0]


@pytest.mark.parametrize("sample", FAILED)
def test_what_cannot_be_registered_ends_failed_with_marked_empty_outputs(zoo, sample):
    work, _ = zoo
    row = summary_of(work)[sample]
    assert row["status"] == "failed"
    assert row["reasons"]
    assert FAILED[sample] in row["reasons"]
    store = open_store(work / "results" / sample / "SYTO9" / "difference.ome.zarr")
    assert store.empty
    found = json.loads((work / "results" / sample / "SYTO9" / "details/detection.json").read_text())
    assert found["status"] == "failed"
    assert found["reason"] == store.empty
    table = (work / "results" / sample / "SYTO9" / "candidates.csv").read_text()
    assert table.count("\n") == 1
    assert (work / "results" / sample / "SYTO9" / "figures" / "registration.png").is_file()


@pytest.mark.parametrize("sample", ["Good", "Cypress1", UNICODE])
def test_the_good_pairs_end_well(zoo, sample):
    row = summary_of(zoo[0])[sample]
    assert (row["status"], row["reasons"]) == ("ok", "")


def test_sixteen_bits_of_colour_stay_and_names_may_be_unicode_with_spaces(zoo, small_raw):
    work, _ = zoo
    stored = open_store(work / "results" / UNICODE / "SYTO 9 grün" / "post.ome.zarr")
    image = tifffile.imread(images_of(small_raw)["post"])[..., 1]
    np.testing.assert_array_equal(stored.read(Window.from_shape(stored.shape)), deepened(image))
    row = summary_of(work)[UNICODE]
    assert float(row["gain"]) == pytest.approx(1.3, rel=0.02)
    assert row["channels"] == "G"


def test_one_image_in_two_files_is_the_identity_with_gain_one_and_no_difference(zoo):
    work, _ = zoo
    row, pair = summary_of(work)["Copy"], work / "results" / "Copy" / "SYTO9"
    assert row["status"] == "suspect"
    assert "one is probably a copy of the other" in row["reasons"]
    assert float(row["gain"]) == 1.0
    found = json.loads((pair / "transform.json").read_text())
    np.testing.assert_allclose(found["matrix"], np.eye(3), atol=0.01)
    assert json.loads((pair / "scale.json").read_text())["methods"]["moffat"]["gain"] == 1.0
    difference = open_difference(pair, "moffat").read(Window(2, 698, 2, 898))
    assert np.nanmax(np.abs(difference)) <= 1.0


def test_bright_field_pairs_get_no_candidates_and_no_advice_for_fluorescence(zoo):
    work, _ = zoo
    row, pair = summary_of(work)["Bright"], work / "results" / "Bright" / "SYTO9"
    assert (row["status"], row["candidates"], row["reasons"]) == ("ok", "", "")
    assert row["notes"].startswith("Bright-field pair: the difference is negative")
    images = json.loads((pair / "details/plan.json").read_text())["images"]
    assert [images[role]["bright_field"] for role in ("post", "pre")] == [True, True]
    assert (
        "in fluorescence alone"
        in json.loads((pair / "details/detection.json").read_text())["reason"]
    )
    mixed = summary_of(work)["Mixed"]
    assert mixed["status"] in ("suspect", "failed")
    assert "Only the post-stain image is bright-field" in mixed["reasons"]
    good = json.loads((work / "results" / "Good" / "SYTO9" / "details/plan.json").read_text())
    assert "bright_field" not in str(good)
    looked = command(work, "unglow", "survey")
    assert "Bright_pre_SYTO9.tif: bright-field (dark is signal" in " ".join(looked.text.split())
    assert "Mixed SYTO9: Only the post-stain image is bright-field" in " ".join(looked.text.split())


def test_the_run_ends_with_an_error_that_names_the_failed_pairs(zoo):
    _, run = zoo
    assert run.code == 1
    expected = dict.fromkeys(REFUSED, "skipped") | dict.fromkeys(FAILED, "failed")
    for sample, status in expected.items():
        # of a folder with such a name no file is looked at
        assert f"{status}: {sample} SYTO9: " in run.text, sample
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
        assert sample in run.text
    assert "Traceback" not in run.text


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


STORAGE_PLUGIN = """
from snakemake_interface_storage_plugins.storage_object import StorageObjectRead, StorageObjectWrite
from snakemake_interface_storage_plugins.storage_provider import StorageProviderBase


class StorageProvider(StorageProviderBase):
    pass


class StorageObject(StorageObjectRead, StorageObjectWrite):
    pass


StorageProvider.__abstractmethods__ = StorageObject.__abstractmethods__ = frozenset()
"""


@pytest.mark.parametrize("words", [(), ("-n",), ("--shared-fs-usage", "persistence", "sources")])
def test_storage_providers_are_refused_in_one_sentence(small_raw, tmp_path, words):
    place = tmp_path / "plugins" / "snakemake_storage_plugin_anything"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(STORAGE_PLUGIN)
    work = tmp_path / "work"
    shutil.copytree(small_raw, work / "raw")
    options = ("--default-storage-provider", "anything", "--default-storage-prefix", tmp_path)
    run = snakemake(work, *options, *words, path=place.parent)
    assert run.code == 1
    assert "the storage provider 'anything' would lose all pixels" in run.text
    assert not [word for word in ("Traceback", "Job stats", "rule ") if word in run.text]
    assert not (work / "results").exists()


def test_results_may_lie_in_a_directory_of_any_other_letters(small_raw, tmp_path):
    shutil.copytree(small_raw, tmp_path / "raw")
    run = snakemake(tmp_path, "-n", "--config", "results=re s*[a](b)$^%s")
    assert run.code == 0, run.text
    assert "re s*[a](b)$^%s/summary.tsv" in run.text
