"""A deformed section through the whole workflow: the field is found, stored, used and reported."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from real_runs import command, snakemake

from unglow import transform
from unglow.core.windows import Window
from unglow.images.zarr import open_store
from unglow.phantom import Truth

pytestmark = pytest.mark.workflow


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A working directory in which a section bent by 5 px has been run to the end."""
    directory = tmp_path_factory.mktemp("deformed")
    words = ("--size", "1500x1400", "--deform-px", "5", "--deform-wavelength-px", "1000")
    made = command(directory, "unglow", "phantom", *words)
    assert made.code == 0, made.text
    run = snakemake(directory)
    assert run.code == 0, run.text
    return directory


@pytest.fixture
def pair(work):
    (directory,) = (work / "results").glob("*/SYTO9")
    return directory


def test_the_field_follows_the_section(work, pair):
    found = transform.load(pair / "transform.json")
    assert found.status == "ok", found.reasons
    assert found.displacement is not None
    (path,) = (work / "raw").glob("*/*truth.json")
    post = open_store(pair / "post.ome.zarr")
    image = post.read(Window.from_shape(post.shape))
    rows, cols = np.nonzero(image > 10)
    points = np.column_stack([cols, rows])[::997].astype(float)
    error = np.hypot(*(found.map(points) - Truth.load(path).map(points)).T)
    assert np.median(error) < 0.05
    assert np.quantile(error, 0.95) < 0.3
    assert 0.5 <= found.error_px.median / np.median(error) <= 2.0


def test_the_summary_names_the_field_and_aligned_pre_holds_it(work, pair):
    with (work / "results" / "summary.tsv").open() as stream:
        (row,) = csv.DictReader(stream, delimiter="\t")
    assert row["status"] == "ok"
    assert row["model"].endswith(" + field")
    known = json.loads((pair / "transform.json").read_text())["displacement"]
    assert known["sha256"] in (pair / "aligned_pre.ome.zarr" / "zarr.json").read_text()
