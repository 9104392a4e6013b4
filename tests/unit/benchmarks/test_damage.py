"""The benchmark of damage: how it judges lists and places, on truths and tables made by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from damage import alarms, batches, calibration, faults, judging, places, pools

from unglow.core.windows import Window
from unglow.detection.source_photometry import NAMES
from unglow.phantom.pair import make_truth
from unglow.phantom.render import Renderer
from unglow.phantom.spec import PhantomSpec
from unglow.phantom.texture import Spots
from unglow.phantom.truth import PhantomMap, Truth

pytestmark = pytest.mark.slow

SPEC = PhantomSpec(shape=(400, 400), rgb=False, seed=1, shift_px=(20.0, 10.0))
SQUARE = [[100.0, 100.0], [200.0, 100.0], [200.0, 200.0], [100.0, 200.0]]


@pytest.fixture
def outcome():
    """Return a function that makes an outcome of what differs from an ordinary one."""
    about = {"name": "lost-60", "kind": "lost", "size": 60, "status": "ok", "reason": ""}
    counts = {"counted": 100, "true": 95, "false": 5, "outside": 100}
    counts |= {"found": 95, "found_undamaged": 95, "said": 0.05, "gain_error": 0.0004}
    places = {"place_share": 0.01, "covered": 1.0, "wrong_share": 0.0}
    ordinary = judging.Outcome(**about, **counts, **places)
    return lambda **more: replace(ordinary, **more)


def place(polygon=SQUARE, **more):
    return {"kind": "lost", "size_px": 50, "strength": 1.0, "rim_px": 10.0, "image": "post"} | {
        "polygon_xy": polygon,
        "area_px": 10_000.0,
        **more,
    }


def truth(microbes, *damage):
    xy = np.array(microbes, dtype=float).reshape(-1, 2)
    one = np.ones(len(xy))
    spots = Spots(*xy.T, 10 * one, one, one, 0 * one)
    return Truth(
        "s", "SYTO9", SPEC, PhantomMap.from_spec(SPEC), spots, spots.select(one < 0), {}, damage
    )


def table(path, *rows):
    """Write candidates.csv of rows x, y, snr, flags."""
    lines = [",".join(NAMES)]
    for n, (x, y, snr, flags) in enumerate(rows, 1):
        cells = {"id": str(n), "x": str(x), "y": str(y), "snr": str(snr), "flags": flags}
        lines.append(",".join(cells.get(name, "1") for name in NAMES))
    path.write_text("\n".join(lines) + "\n")
    return path


# --------------------------------------------------------------------------------------- chance


def test_an_interval_is_wider_where_false_ones_come_together():
    even = pools.interval_over_pairs([5] * 40, [100] * 40)
    uneven = pools.interval_over_pairs([0, 10] * 20, [100] * 40)
    assert even == (0.05, 0.05)
    # a mean of 40 draws of 0 or 10: standard deviation 5 / sqrt(40), in hundredths
    assert uneven == pytest.approx((0.05 - 0.0155, 0.05 + 0.0155), abs=0.003)
    assert all(map(math.isnan, pools.interval_over_pairs([0], [0])))


# -------------------------------------------------------------------------------------- judging


def test_each_microbe_is_found_once_by_the_brightest_candidate_nearby():
    microbes = np.array([[10.0, 10.0], [14.0, 10.0], [50.0, 50.0]])
    xy = np.array([[11.0, 10.0], [10.0, 10.0], [50.0, 53.1], [13.9, 10.0]])
    found = judging.match_microbes(xy, np.array([5.0, 9.0, 8.0, 7.0]), microbes)
    # the faint first one would be the first microbe, which a brighter one took
    assert found.tolist() == [-1, 0, -1, 1]
    assert judging.match_microbes(xy, np.ones(4), microbes[:0]).tolist() == [-1] * 4


def test_microbes_inside_of_damage_are_neither_true_nor_missed(tmp_path):
    # inside, 20 px and 22 px from the square (16 px and half of the rim are 21), far away twice
    microbes = [(150, 150), (220, 150), (222, 150), (300, 300), (330, 300)]
    made = truth(microbes, place())
    rows = [(150, 151, 9, ""), (222, 149, 8, ""), (300, 300, 7, ""), (120, 110, 6, "")]
    found = judging.judge_list(made, table(tmp_path / "c.csv", *rows))
    assert found.outside.tolist() == [False, False, True, True, True]
    assert found.microbes.tolist() == [True, False, True, True, False]
    assert (found.counted, found.false) == (4, 1)  # what is no microbe is false, also inside


def test_candidates_that_are_not_counted_and_missing_lists_find_nothing(tmp_path):
    made = truth([(300, 300)])
    path = table(tmp_path / "c.csv", (300, 300, 9, "outside"), (50, 50, 9, "outside"))
    for one in (path, tmp_path / "none.csv"):
        found = judging.judge_list(made, one)
        assert (found.counted, found.false, found.microbes.tolist()) == (0, 0, [False])


def test_microbes_that_pre_does_not_show_are_neither(tmp_path):
    made = truth([(300, 300), (399, 399)])  # pre is shifted, so that a corner is not in it
    found = judging.judge_list(made, table(tmp_path / "c.csv", (399, 399, 9, "")))
    assert found.outside.tolist() == [True, False]
    assert found.false == 0


def test_microbes_are_judged_where_post_shows_them():
    spec = replace(SPEC, shape=(500, 500), damage="moved:60:8", microbes_per_mpx=400.0)
    moved = make_truth(Renderer(spec), "s", "SYTO9")
    there = judging.shown_microbes(moved)
    away = np.hypot(*(there - moved.microbes.xy).T)
    clear = judging.is_clear(moved.microbes.xy, moved.damage, 8.0)
    assert (away[clear] == 0).all()
    assert away.max() == pytest.approx(8.0, abs=0.5)
    # what post shows in addition to tissue without microbes peaks where the function says
    window = Window.from_shape(spec.shape)
    bare = Renderer(replace(spec, microbes_per_mpx=0.0)).light("post", window)
    stain = Renderer(spec).light("post", window) - bare
    middle = away > 4
    assert middle.sum() >= 2
    bright = [stain[round(y), round(x)] for x, y in there[middle]]
    assert (np.array(bright) > 0.6 * moved.microbes.peak[middle]).all()


def test_a_moved_half_and_a_swap_are_known(tmp_path):
    polygon = [[-0.5, 199.5], [399.5, 199.5], [399.5, 399.5], [-0.5, 399.5]]
    damage = place(polygon, kind="half_moved", strength=40.0, rim_px=None)
    half = truth([(100, 100), (100, 300)], damage)
    assert judging.shown_microbes(half).tolist() == [[100, 100], [140, 300]]
    path = table(tmp_path / "c.csv", (140, 301, 9, ""), (100, 300, 9, ""))
    found = judging.judge_list(half, path)
    assert found.microbes.tolist() == [False, True]
    assert found.outside.all()
    assert found.false == 1
    swapped = truth([(100, 100)], place(None, kind="swap", rim_px=None))
    assert judging.shown_microbes(swapped).max() < -1e5


def test_areas_are_compared_on_the_section_alone():
    half = [[-0.5, -0.5], [199.5, -0.5], [199.5, 399.5], [-0.5, 399.5]]
    everything = [np.array([[-1.0, -1.0], [400.0, -1.0], [400.0, 400.0], [-1.0, 400.0]])]
    spoilt = truth([], place(half, rim_px=None))
    share, covered, wrong = judging.compare_areas(spoilt, [everything])
    assert 0.3 < share < 0.7
    assert covered == 1.0
    # all that is called spoilt more than 48 px right of the middle is wrong
    inner = truth([], place([[-1, -1], [247.5, -1], [247.5, 400], [-1, 400]], rim_px=None))
    expected = 1.0 - judging.compare_areas(inner, [])[0]
    assert wrong == pytest.approx(expected, abs=0.01)
    assert judging.compare_areas(spoilt, [])[1:] == (0.0, 0.0)
    assert math.isnan(judging.compare_areas(truth([]), [everything])[1])


def test_holes_of_polygons_are_not_called_spoilt(tmp_path):
    outer = [[100.5, 100.5], [200.5, 100.5], [200.5, 200.5], [100.5, 200.5], [100.5, 100.5]]
    hole = [[140.5, 140.5], [180.5, 140.5], [180.5, 180.5], [140.5, 180.5], [140.5, 140.5]]
    multi = {"type": "MultiPolygon", "coordinates": [[outer, hole]]}
    path = tmp_path / "artefacts.geojson"
    path.write_text(json.dumps({"features": [{"geometry": multi}]}))
    polygons = judging.read_polygons(path)
    assert polygons[0][0][0].tolist() == [100.0, 100.0]
    made = truth([], place())
    assert judging.compare_areas(made, polygons)[1] == pytest.approx(0.84, abs=0.03)
    assert judging.read_polygons(tmp_path / "none.geojson") == []


def test_a_pair_is_judged_by_the_microbes_of_its_undamaged_pair(tmp_path):
    microbes = [(150, 150), (300, 300), (330, 300), (60, 300)]
    row = {"status": "suspect", "reasons": "too much is spoilt"}
    tables = {
        "undamaged": [(150, 150, 9, ""), (300, 300, 9, ""), (330, 300, 9, "")],
        "lost-50": [(300, 300, 9, ""), (60, 300, 9, ""), (250, 60, 9, "")],
    }
    for name, rows in tables.items():
        folder = tmp_path / name
        folder.mkdir()
        damage = () if name == "undamaged" else (place(),)
        truth(microbes, *damage).save(batches.truth_path(folder))
        table(folder / "candidates.csv", *rows)
        (folder / "row.json").write_text(json.dumps(row))
        scale = {"default": "linear", "methods": {"linear": {"gain": 1.3013}}}
        (folder / "scale.json").write_text(json.dumps(scale))
        (folder / "detection.json").write_text(json.dumps({"fdr": 0.04}))
    case = batches.Case("lost-50", SPEC, "lost", 50)
    o = judging.judge_pair(case, tmp_path, tmp_path / "undamaged")
    assert (o.counted, o.true, o.false) == (3, 2, 1)
    assert (o.outside, o.found, o.found_undamaged) == (3, 2, 2)
    assert (o.status, o.reason, o.said, o.covered) == ("suspect", row["reasons"], 0.04, 0.0)
    assert o.gain_error == pytest.approx(0.001)


# ------------------------------------------------------------------------------------- promises


def test_pools_count_candidates_and_not_pairs(outcome):
    some = [
        outcome(true=90, false=10),
        outcome(true=9, false=1, found=10, found_undamaged=5, status="failed", gain_error=-0.002),
        outcome(true=0, false=0, counted=0, found=0, found_undamaged=0, said=math.nan),
    ]
    pool = pools.Pool.of(some)
    assert pool.false_share == 11 / 110
    assert pool.recall_ratio == 105 / 100
    assert pool.said == pytest.approx(0.05)
    assert pool.statuses == "2/0/1"
    assert pool.worst_gain == -0.002
    assert math.isnan(pools.Pool.of(some[2:]).recall_ratio)


def test_chance_is_no_reason_to_reject(outcome):
    rejected = places.rejected
    assert rejected([outcome(), outcome(found=90), outcome(true=91, false=9)], 0.05) == []
    few, false = outcome(found=80), outcome(true=80, false=20)
    assert [one.outcome for one in rejected([few, false], 0.05)] == [few, false]
    # where undamaged pairs are as bad, nothing is to be said against a damaged one
    assert rejected([false], 0.15) == []
    # an empty list has no false ones, and is rejected by its recall
    empty = outcome(true=0, false=0, found=0)
    assert [one.what for one in rejected([empty], 0.05)] == ["0 of 100 microbes, 95 undamaged"]


UNDAMAGED = {"kind": "undamaged", "size": 0, "place_share": 0.0, "covered": math.nan}


@pytest.mark.parametrize(
    ("damaged", "missed"),
    [
        ({}, []),
        ({"found": 90, "true": 90}, ["recall over undamaged, all pairs"]),
        (
            {"false": 8},
            ["share of false ones, all pairs", "share of false ones, all pairs: change"],
        ),
        ({"false": 3}, ["share of false ones, all pairs: change"]),
        ({"status": "suspect"}, ["damage below 5% of the section: share of ok pairs"]),
        ({"status": "suspect", "place_share": 0.06}, []),
        ({"gain_error": -0.0011}, ["gain error of the worst ok pair"]),
        ({"found": 60, "status": "suspect", "place_share": 0.06}, ["recall"]),
        ({"found": 60}, ["recall", "ok pairs that are rejected"]),
    ],
)
def test_a_promise_that_is_missed_is_named_and_ends_with_1(outcome, capsys, damaged, missed):
    outcomes = [outcome(**UNDAMAGED), outcome(**damaged)]
    assert places.report(outcomes) == bool(missed)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.endswith("MISSED")]
    for text in missed:
        assert any(line.startswith(text) for line in lines)
    assert bool(lines) == bool(missed)


def test_one_bad_kind_is_not_hidden_by_good_ones(outcome, capsys):
    good = [outcome(size=n) for n in range(20)]
    assert places.report([outcome(**UNDAMAGED), *good, outcome(kind="blur", found=85)]) == 1
    out = capsys.readouterr().out
    assert "recall over undamaged, all pairs                     0.995" in out
    assert "recall over undamaged, ok pairs of the worst row     0.895" in out


def test_alarms_count_area_and_pairs(outcome, capsys):
    drawn = [alarms.varied_case(seed, 256) for seed in range(2)]
    batch = batches.Batch("pairs", tuple(drawn))
    calm, alarmed = outcome(), outcome(wrong_share=0.006, status="suspect", reason="spoilt")
    report = alarms.report
    assert report(batch, [calm, calm], None) == 0
    assert report(batch, [calm, outcome(wrong_share=0.006)], None) == 1
    assert report(batch, [calm, outcome(status="suspect")], None) == 1
    # what is suspect without the finder as well is not its doing
    doubted = outcome(status="suspect")
    assert report(batch, [calm, doubted], [calm, doubted]) == 0
    assert report(batch, [calm, alarmed], [calm, calm]) == 1
    assert report(batch, [outcome(found=90), calm], [calm, calm]) == 1
    assert "recall that the finder costs" in capsys.readouterr().out


def test_undamaged_pairs_vary():
    specs = [alarms.varied_case(seed, 512).spec for seed in range(12)]
    densities = sorted(s.microbes_per_mpx for s in specs)
    assert (densities[0], densities[-1]) == (10.0, 1500.0)
    assert len(set(densities)) == 12
    for name in ("deform_px", "shading", "blur_pre_px", "dtype"):
        assert len({getattr(s, name) for s in specs}) >= 2
    assert not any(s.damage for s in specs)


@pytest.mark.parametrize(("false", "status"), [(3, 1), (5, 0), (7, 1)])
def test_calibration_is_missed_on_either_side(outcome, false, status):
    some = [outcome(true=100 - false, false=false, kind=k) for k in ("undamaged", "lost")]
    # what is suspect is not trusted, and does not count
    suspect = outcome(true=0, false=100, status="suspect")
    assert calibration.report([*some, suspect]) == status


def test_half_of_the_pairs_of_calibration_are_damaged():
    drawn = [calibration.drawn_case(seed, 2048) for seed in range(40)]
    damaged = [c for c in drawn if c.spec.damage]
    assert len(damaged) == 20
    assert len({c.kind for c in damaged}) >= 6
    assert all(c.spec.damage == f"{c.kind}:{c.size}" for c in damaged)


def test_a_wrong_list_that_is_ok_is_a_missed_promise(outcome):
    report = faults.report
    wrong = outcome(kind="dark_clip:20", true=50, false=50)
    assert report([outcome(kind="undamaged", true=90, false=10), outcome(kind="swap")]) == 0
    assert report([wrong]) == 1
    assert report([replace(wrong, status="suspect")]) == 0
    assert report([outcome(kind="dust:12", true=0, false=0, found=0)]) == 1
    assert report([outcome(kind="swap", true=0, false=0, found=0, found_undamaged=0)]) == 1
    few = {"kind": "gamma:0.7", "false": 0, "found_undamaged": 80}
    assert report([outcome(**few, true=20, found=20)]) == 1
    assert report([outcome(**few, true=21, found=21)]) == 0


# ------------------------------------------------------------------------------- making, running


def test_pairs_of_a_scene_share_pre_and_are_made_once(tmp_path):
    batch = places.scene_batch(3, 512, ["tile", "blur"], ["small", "large"])
    # a blur of 300 px does not fit on a section of 512 px
    assert "blur-300" not in [c.name for c in batch.cases]
    assert {"undamaged", "blur-100", "tile-64"} <= {c.name for c in batch.cases}
    chosen = [c for c in batch.cases if c.name in ("undamaged", "tile-64")]
    batches.make_batch(chosen, tmp_path, 1)
    pre, post = (batches.image_path(tmp_path / "tile-64", role) for role in ("pre", "post"))
    assert pre.resolve() == batches.image_path(tmp_path / "undamaged", "pre").resolve()
    stamp = post.stat().st_mtime_ns
    batches.make_batch(chosen, tmp_path, 1)
    assert post.stat().st_mtime_ns == stamp
    other = [chosen[0], replace(chosen[1], spec=replace(chosen[1].spec, damage_seed=99))]
    batches.make_batch(other, tmp_path, 1)
    assert post.stat().st_mtime_ns != stamp


def test_what_is_there_is_not_run_again(tmp_path, monkeypatch):
    both = tuple(batches.Case(n, SPEC) for n in ("a", "b"))
    ran = []

    def fake(*words, directory):
        names = sorted(p.name for p in (directory / "raw").iterdir())
        ran.append(names)
        for name in names:
            (directory / "results" / name / "SYTO9").mkdir(parents=True)
            (directory / "results" / name / "SYTO9" / "scale.json").write_text("{}")
        rows = "".join(f"{n}\tSYTO9\tok\t\n" for n in names)
        (directory / "results" / "summary.tsv").write_text(f"sample\tdye\tstatus\treasons\n{rows}")
        return 0, ""

    monkeypatch.setattr(batches, "run", fake)
    first = batches.run_batch(batches.Batch("x", both[:1]), tmp_path, 1)
    batches.run_batch(batches.Batch("x", both[:1]), tmp_path, 1)
    batches.run_batch(batches.Batch("x", both), tmp_path, 1)
    assert ran == [["a"], ["b"]]
    assert sorted(p.name for p in first.iterdir()) == ["found", "raw"]
    assert json.loads((first / "found" / "b" / "row.json").read_text())["status"] == "ok"
    assert (first / "found" / "b" / "scale.json").is_file()
