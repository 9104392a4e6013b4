"""`unglow verify`: damage and what does not belong together, one sentence each."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from unglow.cli import main
from unglow.field import save as save_field
from unglow.files import write_json
from unglow.leftovers import leftovers, size_mb
from unglow.store import StoreWriter, plan_layout
from unglow.verification import check_file, check_store, contents, pair_directories


def make_store(path, value, **attributes):
    layout = plan_layout((40, 50), "uint8")
    writer = StoreWriter(path, layout, name="x", pixel_size_um=None, attributes=attributes,
                         fill_value=0)  # fmt: skip
    with writer:
        for window in writer.windows():
            writer.write(window, np.full(window.shape, value, np.uint8))
        return writer.publish()


@pytest.fixture
def pair(tmp_path):
    """A pair as the stages would leave it, with one variant of the registration."""
    pair = tmp_path / "results" / "S" / "D"
    variant = pair / "registration-a"
    prints = {role: {"fingerprint": f"print of {role}"} for role in ("post", "pre")}
    write_json(pair / "plan.json", {"images": prints})
    digests = {
        role: make_store(pair / f"{role}.ome.zarr", n, role=role, fingerprint=f"print of {role}")
        for n, role in enumerate(("post", "pre"), start=1)
    }
    matrix = [[1.0, 0.0, 2.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    write_json(variant / "transform.json", {"status": "ok", "matrix": matrix})
    save_field(variant / "displacement.npz", None)
    aligned = make_store(variant / "aligned_pre.ome.zarr", 3, role="aligned_pre", inputs=digests,
                         matrix=matrix)  # fmt: skip
    write_json(variant / "scale.json", {"methods": {"linear": {"gain": 1.5, "offset": 0.25}}})
    inputs = {"post": digests["post"], "aligned_pre": aligned}
    make_store(variant / "difference" / "linear.ome.zarr", 4, role="difference", method="linear",
               inputs=inputs, gain=1.5, offset=0.25)  # fmt: skip
    (pair / "figures").mkdir()
    (pair / "figures" / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n...IEND\xaeB`\x82")
    return pair


def messages(pair):
    stores, files = contents(pair)
    found = [problem for store in stores for problem in check_store(store, pair)]
    found += [problem for path in files if (problem := check_file(path))]
    return [(str(p.remove[0].relative_to(pair)), p.message.replace(f"{pair}/", "")) for p in found]


def test_whole_results_have_no_problem(pair, capsys):
    assert pair_directories(pair.parents[1]) == [pair]
    assert len(contents(pair)[0]) == 4
    assert messages(pair) == []
    assert main(["verify", str(pair.parents[1])]) == 0
    assert capsys.readouterr().out == "Everything is as it was published.\n"


def test_a_remade_input_makes_what_hangs_on_it_stale(pair):
    make_store(pair / "pre.ome.zarr", 9, role="pre", fingerprint="print of pre")
    ((remove, message),) = messages(pair)
    assert remove == "registration-a/aligned_pre.ome.zarr/zarr.json"
    assert message.startswith("registration-a/aligned_pre.ome.zarr was made from another "
                              "pre.ome.zarr than the one that is there now")  # fmt: skip


@pytest.mark.parametrize(
    ("file", "change", "stale"),
    [
        ("plan.json", {"images": {}}, ["post.ome.zarr", "pre.ome.zarr"]),
        ("registration-a/transform.json", {"status": "failed"},
         ["registration-a/aligned_pre.ome.zarr"]),
        ("registration-a/scale.json", {"methods": {"linear": {"gain": 1.6, "offset": 0.25}}},
         ["registration-a/difference/linear.ome.zarr"]),
    ],
)  # fmt: skip
def test_numbers_that_are_others_now_make_a_store_stale(pair, file, change, stale):
    write_json(pair / file, change)
    assert [remove for remove, _ in messages(pair)] == [f"{name}/zarr.json" for name in stale]


def test_damage_of_every_kind_of_file_is_found_and_repaired(pair, capsys):
    (pair / "registration-a" / "displacement.npz").write_bytes(b"PK\x03\x04 cut")
    (pair / "figures" / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n cut")
    (pair / "registration-a" / "scale.json").write_text('{"methods"')
    (pair / "candidates.csv").write_text("")
    shard = pair / "post.ome.zarr" / "0" / "c" / "0" / "0"
    os.truncate(shard, shard.stat().st_size - 3)
    (pair / "pre.ome.zarr" / "zarr.json").write_text("{}")
    gone = {"registration-a/displacement.npz", "figures/x.png", "registration-a/scale.json",
            "candidates.csv", "post.ome.zarr/zarr.json", "pre.ome.zarr/zarr.json"}  # fmt: skip
    assert {remove for remove, _ in messages(pair)} == gone
    assert main(["verify", "--repair", str(pair.parents[1])]) == 1
    assert "Run the workflow again" in capsys.readouterr().out
    assert not any((pair / name).exists() for name in gone)
    assert messages(pair) == []


def test_what_snakemake_would_not_miss_goes_with_what_it_asks_for(pair):
    for name in ("figures/a.png", "figures/b.png"):
        (pair / name).write_bytes((pair / "figures" / "x.png").read_bytes())
    (pair / "figures" / "x.png").write_bytes(b"")
    problem = check_file(pair / "figures" / "x.png")
    assert [path.name for path in problem.remove] == ["a.png", "b.png", "x.png"]
    assert "is not a whole picture; delete all figures there and rerun" in problem.message
    (pair / "gain_map.npz").write_bytes(b"")
    problem = check_file(pair / "gain_map.npz")
    assert [path.name for path in problem.remove] == ["gain_map.npz", "scale.json"]


def test_a_store_that_is_missing_is_no_damage(pair):
    (pair / "post.ome.zarr" / "zarr.json").unlink()
    assert messages(pair) == []


def test_leftovers_are_found_wherever_they_are_and_counted(pair):
    results = pair.parents[1]
    inside = pair / "post.ome.zarr" / ".hidden.partial"
    inside.write_text("not ours to judge")
    (pair / "figures" / ".x.png.ab.partial").write_bytes(b"x" * 1000)
    (results / ".report.html.cd.partial").write_bytes(b"")
    (pair / ".post.ome.zarr.ef.old" / "0").mkdir(parents=True)
    for key, place in (("aa", pair), ("bb", pair / "figures")):
        (place / f".post.ome.zarr.{key}.bands").mkdir()
    (pair / ".post.ome.zarr.1-of-2.band.npz").write_bytes(b"")  # that band has been finished
    names = [path.name for path in leftovers(results)]
    assert sorted(names) == [
        ".post.ome.zarr.bb.bands",
        ".post.ome.zarr.ef.old",
        ".report.html.cd.partial",
        ".x.png.ab.partial",
    ]
    assert size_mb(pair / "figures") == pytest.approx(0.001, abs=1e-4)


def test_clean_waits_for_jobs_that_live(pair, capsys):
    from unglow.telemetry.lines import identity

    results = pair.parents[1]
    (pair / ".post.ome.zarr.ef.old").mkdir()
    place = results / "telemetry" / "S" / "D" / "plan"
    place.mkdir(parents=True)
    head = {"kind": "attempt", "wall": 1.0, **identity()}
    (place / "20261122T060000.000Z-x-1.jsonl").write_text(json.dumps(head) + "\n")
    assert main(["clean", str(results)]) == 2
    assert f"a job (process {os.getpid()}) is at work" in capsys.readouterr().err
    (place / "turn-2").touch()
    head["turn"] = 1
    (place / "20261122T060000.000Z-x-1.jsonl").write_text(json.dumps(head) + "\n")
    assert main(["clean", str(results)]) == 0
    assert not (pair / ".post.ome.zarr.ef.old").exists()
