"""Results found by what is there, joined by names, and judged by the worst of them."""

from __future__ import annotations

import json
import shutil

import pytest
from made_plan import plan_content
from made_results import made_pair, made_sweep, refused

from unglow.cli import main
from unglow.core import digests
from unglow.core.errors import InputError
from unglow.results.comparison.results import compare_results, compare_variants
from unglow.results.directory import open_results


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The results of a pair; do not change them."""
    pair = tmp_path_factory.mktemp("done") / "results" / "S1" / "D"
    made_pair(pair)
    names = ("transform.json", "scale.json", "candidates.csv")
    digests.write(pair / "details/digests" / "all.sha256", [pair / name for name in names])
    return pair


@pytest.fixture
def sides(tmp_path, done):
    """Two copies of results with two pairs each."""
    both = tmp_path / "a" / "results", tmp_path / "b" / "results"
    for side in both:
        for name in ("S1", "S2"):
            shutil.copytree(done, side / name / "D")
    return both


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def compared(a, b):
    return compare_results(open_results(a), open_results(b))


def test_runs_pairs_and_working_directories_are_found(sides, tmp_path):
    a, b = sides
    for one, other in ((a, b), (a.parent, b), (a / "S1" / "D", b / "S1" / "D")):
        found = compared(one, other)
        assert {pair.verdict for pair in found.pairs} == {"identical"}
    (pair,) = compared(a / "S1" / "D", b / "S2" / "D").pairs
    assert (pair.name, pair.verdict) == ("S1 D against S2 D", "identical")
    with pytest.raises(InputError, match="give two runs, or two pairs or variants"):
        compared(a, b / "S1" / "D")
    with pytest.raises(InputError, match="holds no results of pairs"):
        open_results(a / "S1")
    with pytest.raises(InputError, match="is not a directory"):
        open_results(tmp_path / "none")


def test_pairs_that_differ_come_first_the_worst_on_top(sides):
    a, b = sides
    for n in range(3, 6):
        for side in sides:
            shutil.copytree(side / "S1", side / f"S{n}")
    steps = {"S2": 0.5, "S3": 9.0, "S5": 0.01}
    for name, step in steps.items():
        matrix = json.loads((a / name / "D" / "transform.json").read_text())["matrix"]
        matrix[1][2] += step
        edit(b / name / "D" / "transform.json", matrix=matrix)
    found = compared(a, b)
    assert [pair.name for pair in found.pairs] == ["S3 D", "S2 D", "S5 D", "S1 D", "S4 D"]
    assert found.summary == "5 pairs: 2 different, 1 equal within errors, 2 identical."
    assert found.verdict.startswith("reproduced: 3 of 5 pairs; S3 D: map moved 9.0 px (its error")
    assert found.pairs[0].edited == ("transform.json of B: not as published (other digests)",)


def test_pairs_on_one_side_alone_are_reported_with_the_reason(sides):
    a, b = sides
    shutil.rmtree(b / "S2")
    shutil.copytree(a / "S1", b / "S10")
    (b / "summary.tsv").write_text("sample\tdye\tstatus\treasons\nS2\tD\tfailed\tNo pre image.\n")
    found = compared(a, b)
    assert found.alone == ["S2 D is in A alone; B skipped it: No pre image.",
                           "S10 D is in B alone"]  # fmt: skip
    assert not found.is_reproduced
    assert found.verdict == "reproduced: 1 of 2 pairs; S2 D: it is in A alone"
    assert compared(b, b).is_reproduced


def test_a_status_that_changes_is_a_difference(sides):
    a, b = sides
    edit(b / "S1" / "D" / "transform.json", status="suspect", reasons=["Few blocks."])
    shutil.rmtree(b / "S2" / "D")
    refused(b / "S2" / "D")
    lost, doubtful = compared(a, b).pairs
    assert "status suspect in place of ok" in doubtful.sentences
    assert doubtful.verdict == "different"
    assert "no map in B: No match was found" in lost.sentences
    edit(
        a / "S1" / "D" / "details/detection.json", status="failed", reason="The noise is not known."
    )
    assert "status" not in " ".join(compared(a, b).pairs[1].sentences)


def test_images_and_channels_come_first(sides):
    a, b = sides
    other = plan_content(fingerprints=("1", "3"), channels=((0,), (1,)))
    edit(b / "S1" / "D" / "details/plan.json", **other)
    pair = next(p for p in compared(a, b).pairs if p.name == "S1 D")
    assert pair.sentences == ["another pre image, other channels"]
    assert pair.verdict == "identical"


def test_results_of_which_little_is_left_are_compared_as_far_as_they_go(sides):
    a, b = sides
    pair = a / "S1" / "D"
    for path in (*pair.glob("*.zarr"), pair / "details/digests"):
        shutil.rmtree(path)
    for name in (
        "details/plan.json",
        "details/detection.json",
        "candidates.csv",
        "details/displacement.npz",
    ):
        (pair / name).unlink()
    (b / "S2" / "D" / "scale.json").write_text("[]")
    partly, damaged = sorted(compared(a, b).pairs, key=lambda p: p.name)
    assert partly.word == "identical as far as compared"
    (sentence,) = partly.sentences
    assert sentence == (
        "not compared: input: details/plan.json is not in A; candidates: candidates.csv is not in "
        "A; difference images: A has none"
    )
    assert "scale.json is damaged" in damaged.sentences[0]
    for name in ("transform.json", "scale.json"):
        (pair / name).unlink()
    (pair / "candidates.csv").write_text("")
    nothing = compared(a, b).pairs[0]
    assert (nothing.verdict, nothing.is_reproduced) == ("unknown", False)


def test_a_list_of_digests_stands_for_files_that_are_away(sides, done):
    a, b = sides
    (a / "S1" / "D" / "candidates.csv").unlink()
    findings = {f.what: f for f in compared(a, b).pairs[0].findings}
    assert findings["candidates"].verdict == "identical"
    with (b / "S1" / "D" / "candidates.csv").open("a") as stream:
        stream.write("\n")
    findings = {f.what: f for f in compared(a, b).pairs[0].findings}
    assert findings["candidates"].verdict == "unknown"
    assert "its digest is another one" in findings["candidates"].sentence


def test_variants_are_compared_with_the_first_by_the_order_of_numbers(done, tmp_path):
    pair = tmp_path / "results" / "S1" / "D"
    made_sweep(done, pair)
    (pair / "model-affine" / "percentile-50").rename(pair / "model-affine" / "percentile-100")
    place = open_results(tmp_path / "results")
    assert [names[2:] for names in place.entries][:2] == [
        ("model-affine", "percentile-40"), ("model-affine", "percentile-100")]  # fmt: skip
    found = compare_variants(place)
    assert len(found.pairs) == 3
    assert "S1 D: model-affine/percentile-40 against model-any/percentile-40" in {
        p.name for p in found.pairs
    }
    one, other = (pair / "model-any" / f"percentile-{n}" for n in (40, 50))
    (both,) = compared(one, other).pairs
    assert both.name == "S1 D: model-any/percentile-40 against model-any/percentile-50"
    assert compare_variants(open_results(done)) is None


def test_the_command_compares_with_and_without_telemetry(sides, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    a, b = sides
    assert main(["compare", str(a), str(b), str(a)]) == 0
    out = capsys.readouterr().out
    assert out.count("2 pairs: 2 identical.") == 2
    assert "A and B without a record of a run: settings and versions are not known." in out
    assert "By rule" not in out
    assert main(["compare", str(a)]) == 2
    assert "holds one run only and no variants" in capsys.readouterr().err
    assert main(["compare", str(a), str(b), "--against", str(a)]) == 2
    assert "one RUN only with --against" in capsys.readouterr().err
