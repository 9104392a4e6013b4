"""What jobs have published, after they are done: digests of all of it, and what is made again."""

from __future__ import annotations

import os
import re

import pytest
from real_runs import bytes_of, command, snakemake

pytestmark = pytest.mark.workflow
WHOLE = re.compile(r"No problems found: (\d+) files are as they were written\.\nNot checked: .+\n")


@pytest.fixture
def pair(small_work):
    return small_work / "results" / "phantom" / "SYTO9"


def verify(work, *words):
    run = command(work, "unglow", "verify", *words)
    return run.code, run.text


def published(pair):
    """All files of a pair that are no list of digests, and the root alone of each store."""
    files = [path for path in pair.rglob("*") if path.is_file() and path.suffix != ".sha256"]
    stores = set(pair.rglob("*.ome.zarr"))
    inside = {path for path in files if stores & set(path.parents)}
    return sorted({*files} - inside | {store / "zarr.json" for store in stores})


def test_every_file_of_a_run_has_a_digest_that_sha256sum_confirms(small_work, pair):
    code, text = verify(small_work)
    assert code == 0
    # and those of the run, one of them for MultiQC
    assert WHOLE.fullmatch(text)[1] == str(len(published(pair)) + 5)
    lists = sorted(pair.glob("details/digests/*.sha256"))
    names = [n for path in lists for n in re.findall(r"(?m)^\w{64}  (.+)$", path.read_text())]
    assert sorted(names) == [str(path.relative_to(pair)) for path in published(pair)]
    done = command(pair, "sha256sum", "--check", "--strict", "--quiet", *lists)
    assert (done.code, done.text) == (0, "")


def test_any_file_that_is_missing_is_reported_and_wanted_by_the_next_run(small_work, pair):
    gone = published(pair)
    for path in gone:
        path.unlink()
    code, text = verify(small_work)
    assert code == 1
    wanted = snakemake(small_work, "-n").text
    names = [str(path.relative_to(small_work)) for path in gone]
    assert [name for name in names if f"{name} is missing; rerun" not in text] == []
    missing = {n for line in re.findall(r"Missing output files: ([^;\n]+)", wanted)
               for n in line.split(", ")}  # fmt: skip
    assert sorted(missing & set(names)) == names


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_what_is_damaged_is_reported_removed_and_made_again(small_work, small_finished, pair):
    lines = (pair / "details/blocks.csv").read_text().splitlines(keepends=True)
    (pair / "details/blocks.csv").write_text("".join(lines[:-3]))
    text = (pair / "candidates.csv").read_text()
    digit = re.search(r"\.(\d)", text).start(1)
    (pair / "candidates.csv").write_text(
        f"{text[:digit]}{(int(text[digit]) + 1) % 10}{text[digit + 1 :]}"
    )
    change(pair / "scale.json", '"methods"', '"Methods"')
    (pair / "details/gain_map.npz").unlink()
    (pair / "figures" / "gallery.png").unlink()
    names = (
        "details/blocks.csv",
        "candidates.csv",
        "scale.json",
        "details/gain_map.npz",
        "figures/gallery.png",
    )
    code, text = verify(small_work)
    assert code == 1
    assert text.splitlines()[-1].startswith("5 problems.")
    for name in names:
        assert f"results/phantom/SYTO9/{name} " in text
    code, text = verify(small_work, "--repair")
    assert code == 1
    assert "removed results/phantom/SYTO9/transform.json" in text
    run = snakemake(small_work)
    assert run.code == 0, run.text
    assert "ingest" not in run.jobs()
    assert bytes_of(small_work / "results") == bytes_of(small_finished / "results")
    code, text = verify(small_work)
    assert (code, bool(WHOLE.fullmatch(text))) == (0, True), text


def test_a_raw_image_that_was_changed_with_size_and_time_kept_is_reported(small_work):
    (post,) = (small_work / "raw").rglob("*_post_*.tif")
    times, content = post.stat(), bytearray(post.read_bytes())
    content[len(content) // 2] ^= 1
    post.write_bytes(content)
    os.utime(post, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert snakemake(small_work, "-n").jobs() == {}
    code, text = verify(small_work, "--repair")
    assert code == 1
    name = post.relative_to(small_work)
    assert f"{name} is not the image that results/phantom/SYTO9 was made from" in text
    assert "removed results/phantom/SYTO9/details/plan.json" in text
    assert snakemake(small_work, "-n").jobs()["ingest"] == 1
