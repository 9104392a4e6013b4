"""Stores that are damaged or made to harm: an answer with a sentence, and no memory to speak of."""

from __future__ import annotations

import json
import os
import resource
import shutil

import google_crc32c
import numpy as np
import pytest
from made_results import made_pair
from seeing import Seen

PAIR = "pair/S1~DAPI/"
PIXELS = PAIR + "layers/{}.zarr/0/c/0/0"
DOCUMENT = "post.ome.zarr/zarr.json"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    made = tmp_path_factory.mktemp("whole") / "results" / "S1" / "DAPI"
    made_pair(made)
    return made


@pytest.fixture
def pair(whole, tmp_path):
    results = tmp_path / "results"
    shutil.copytree(whole.parents[1], results)
    return results / "S1" / "DAPI"


@pytest.fixture
def shown(pair):
    with Seen(pair.parents[1]) as shown:
        yield shown


def read_error(shown, path, status=500):
    answer, body = shown.ask(path)
    assert answer.status == status, body[:200]
    assert answer.getheader("Content-Type") == "application/json; charset=utf-8"
    return json.loads(body)["error"]


def changed(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("name", ["post", "difference-moffat", "snr"])
@pytest.mark.parametrize("known", [False, True])
def test_a_shard_that_is_missing_or_empty_is_no_empty_image(pair, shown, name, known):
    shard = pair / "post.ome.zarr/0/c/0/0"
    if known:  # the store has been opened before
        assert shown.ask(PAIR + "pair.json")[0].status == 200
    content = shard.read_bytes()
    shard.write_bytes(b"")
    assert "shard 0/c/0/0 is empty; delete" in read_error(shown, PIXELS.format(name))
    shard.unlink()
    assert "shard 0/c/0/0 is missing; delete" in read_error(shown, PIXELS.format(name))
    shard.write_bytes(content)
    assert shown.ask(PIXELS.format(name))[0].status == 200


def test_a_layer_that_cannot_be_opened_says_why_and_others_are_shown(pair, shown):
    (pair / "post.ome.zarr/0/c/0/0").unlink()
    model = shown.json(PAIR + "pair.json")
    problems = {layer["name"]: layer.get("problem", "") for layer in model["layers"]}
    assert "shard 0/c/0/0 is missing" in problems["post"]
    assert problems["pre"] == problems["aligned_pre"] == ""
    assert model["shape"] == [700, 1100]  # as the transform says
    assert any("shard 0/c/0/0 is missing" in reason for reason in model["reasons"])


def huge_chunks(document):
    layout = document["attributes"]["unglow"]["layout"]
    layout["chunks"] = layout["shards"] = [1 << 30, 1 << 30]


def huge_image(document):
    document["attributes"]["unglow"]["layout"]["shape"] = [1 << 40, 1 << 40]


def negative(document):
    document["attributes"]["unglow"]["layout"]["shape"] = [-5, 10]


def many_levels(document):
    document["attributes"]["unglow"]["layout"]["levels"] = 1 << 30


def no_layout(document):
    del document["attributes"]["unglow"]["layout"]


def other_kind(document):
    document["attributes"]["unglow"]["layout"]["dtype"] = "object"


def nothing(document):
    document.clear()


@pytest.mark.parametrize(
    "change", [huge_chunks, huge_image, negative, many_levels, no_layout, other_kind, nothing]
)
def test_a_document_with_wrong_sizes_is_reported_and_takes_no_memory(pair, shown, change):
    shown.ask(PAIR + "pair.json")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    changed(pair / DOCUMENT, change)
    for key in ("zarr.json", "0/zarr.json", "0/c/0/0"):
        assert read_error(shown, PAIR + "layers/post.zarr/" + key)
    assert read_error(shown, PIXELS.format("difference-moffat"))
    assert read_error(shown, PAIR + "crop.ome.tif?layer=post&x=0&y=0&width=9&height=9")
    assert shown.ask(PAIR + "pair.json")[0].status == 200
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", 100_000 * "[", '{"a": ' + 5000 * "9" + "}"]
)
def test_a_document_that_is_not_one_is_reported(pair, shown, text):
    (pair / DOCUMENT).write_text(text)
    assert read_error(shown, PAIR + "layers/post.zarr/zarr.json")
    assert shown.ask(PAIR + "pair.json")[0].status == 200


def test_a_level_that_says_other_than_the_root_is_reported(pair, shown):
    path = pair / "post.ome.zarr/0/zarr.json"
    changed(path, lambda document: document.update(shape=[10**9, 10**9]))
    assert "does not fit the layout" in read_error(shown, PAIR + "layers/post.zarr/0/zarr.json")


def test_a_chunk_that_would_unpack_to_gigabytes_is_refused(pair, shown):
    """Its checksum is right and so is the index: only Blosc's header shows it."""
    store = pair / "aligned_pre.ome.zarr"
    shard = store / "0/c/0/0"
    content = bytearray(shard.read_bytes())
    index = np.frombuffer(content[-(8 * 16 + 4) : -4], "<u8").reshape(-1, 2)
    offset, length = (int(v) for v in index[0])
    content[offset + 4 : offset + 8] = (0x7FFFFFFF).to_bytes(4, "little")
    end = offset + length - 4
    checksum = google_crc32c.value(bytes(content[offset:end]))
    content[end : end + 4] = checksum.to_bytes(4, "little")
    shard.write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "a chunk of 2147483647 bytes" in read_error(shown, PIXELS.format("difference-moffat"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.parametrize("place", [(1 << 63, 100), (0, 1 << 62), (1 << 40, 1 << 40), (10**7, 5)])
def test_an_index_that_leads_out_of_its_shard_is_refused(pair, shown, place):
    shard = pair / "aligned_pre.ome.zarr/0/c/0/0"
    content = bytearray(shard.read_bytes())
    begin = len(content) - (8 * 16 + 4)
    content[begin : begin + 16] = np.array(place, "<u8").tobytes()
    checksum = google_crc32c.value(bytes(content[begin:-4]))
    content[-4:] = checksum.to_bytes(4, "little")
    shard.write_bytes(content)
    assert "is cut short" in read_error(shown, PIXELS.format("difference-moffat"))


def test_a_pipe_in_the_place_of_a_shard_is_not_waited_for(pair, shown):
    shard = pair / "post.ome.zarr/0/c/0/0"
    shown.ask(PIXELS.format("post"))
    shard.unlink()
    os.mkfifo(shard)
    assert "cannot be read" in read_error(shown, PIXELS.format("post"))


@pytest.mark.parametrize(
    "name",
    [
        "scale.json",
        "transform.json",
        "details/detection.json",
        "candidates.csv",
        "details/blocks.csv",
    ],
)
@pytest.mark.parametrize("text", ["", "{}", "[]", '{"status": "ok"}', "a,b\n1,2\n", "\xff"])
def test_a_damaged_result_takes_away_what_follows_from_it_alone(pair, shown, name, text):
    (pair / name).write_bytes(text.encode("latin-1"))
    model = shown.json(PAIR + "pair.json")
    if (name, text) == ("details/detection.json", '{"status": "ok"}'):
        assert "details/detection.json is damaged" in model["layers"][5]["problem"]
    assert [layer["name"] for layer in model["layers"]][:3] == ["post", "pre", "aligned_pre"]
    tables = {"candidates.csv": "candidates.json", "details/blocks.csv": "blocks.json"}
    for table in tables.values():
        answer, body = shown.ask(PAIR + table)
        assert answer.status == (500 if tables.get(name) == table else 200)
        assert answer.status == 200 or name in json.loads(body)["error"]
