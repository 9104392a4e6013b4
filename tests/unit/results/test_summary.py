"""The summary: from small result files, whole or not, to one row for each pair and variant."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_plan import plan_content

from unglow.core.levels import LEVELS, VARIANT
from unglow.photometry.difference_histogram import DifferenceHistogram
from unglow.photometry.gain.scale import MethodResult, Scale
from unglow.results import read_summary, verdict
from unglow.results.directory import open_results
from unglow.results.summary import COLUMNS, Entry, rows, table, write_summary
from unglow.review.decisions import change_review
from unglow.transform import Quantiles, Transform

OF_MARKERS = ("background_channel", "expected_gain", "residual_shift_px", "clipped")
REVIEWED = ("reviewed", "accepted", "rejected", "purity", "purity_low95", "purity_high95")
GOOD = MethodResult(1.25, 0.5, (1.2, 1.3), {"pixels": 5})
SHAPES = {"post_shape": (100, 100), "pre_shape": (100, 100)}


def transform(status="ok", *reasons):
    if status == "failed":
        return Transform("failed", **SHAPES, reasons=reasons)
    return Transform(
        status,
        **SHAPES,
        reasons=reasons,
        matrix=np.eye(3),
        model="affine",
        residual_px=Quantiles(0.125, 0.25),
        error_px=Quantiles(0.01, 0.02),
        inliers=35,
        blocks=40,
        overlap=0.875,
        scale=1.02,
        rotation_deg=-2.5,
        shift_px=(3.25, -4.5),
    )


def scale(*reasons, status="ok", **methods):
    return Scale("moffat", methods or {"moffat": GOOD}, status, reasons)


def histogram(*values):
    made = DifferenceHistogram.create(-100, 100, 0.5)
    made.add(np.array([values], np.float32))
    return made


def entry(sample="S1", dye="SYTO9", registration="", subtraction=""):
    return Entry(
        names=dict(zip(LEVELS, (sample, dye, "", registration, subtraction, ""), strict=True)),
        logs=f"logs/{sample}/{dye}",
    )


DETECTION = {
    "method": "moffat",
    "status": "ok",
    "candidates": 40,
    "fdr": 0.045,
    "density_per_mm2": 20.0,
    "density_ci95_per_mm2": [14.3, 27.2],
    "fdr_control": None,
    "fdr_control_ci95": None,
    "controls": None,
    "spoilt": {
        "share": 0.0238,
        "places": 3,
        "by_reason": {
            "debris": {"places": 2, "area_px": 2048, "share": 0.0028},
            "lost": {"places": 1, "area_px": 15360, "share": 0.021},
        },
        "largest": [{"reason": "lost", "x": 1.0, "y": 2.0, "area_px": 15360, "strength": 9.0}],
        "widths": {"level": 0.5},
        "below_share": 0.0,
    },
}


def finish(
    results, made, *, plan=None, found=None, scaled=None, values=(1.0, 2.0, 4.0), detection=None
):
    """Write the result files of a pair, as its stages do."""
    content = plan_content(("R", "G"), fingerprints=(f"post of {made.names['sample']}", "2"))
    plan_file, transform_file, scale_file, report = (results / file for file in made.files)
    for path in (*made.files, made.histogram):
        (results / path).parent.mkdir(parents=True, exist_ok=True)
    plan_file.write_text(json.dumps(content | (plan or {})))
    (found or transform()).save(transform_file)
    (scaled or scale()).save(scale_file)
    histogram(*values).save(results / made.histogram)
    report.write_text(json.dumps(DETECTION | (detection or {})))
    return made


def only_row(results, made):
    (row,) = rows([made], (), results)
    return row


def cells_of(found):
    """Rows as they are read from the table."""
    return list(csv.DictReader(table(found).splitlines(), delimiter="\t"))


# --------------------------------------------------------------------------------- what a row says


def test_a_good_pair_has_its_figures_and_no_reason(tmp_path):
    row = only_row(tmp_path, finish(tmp_path, entry()))
    figures = {k: row[k] for k in COLUMNS if k in row}
    assert figures == entry().names | {
        "status": "ok",
        "reasons": "",
        "notes": "",
        "channels": "R+G",
        "model": "affine",
        "rotation_deg": -2.5,
        "scale": 1.02,
        "shift_x_px": 3.25,
        "shift_y_px": -4.5,
        "residual_median_px": 0.125,
        "residual_p95_px": 0.25,
        "error_median_px": 0.01,
        "error_p95_px": 0.02,
        "inliers": 35,
        "blocks": 40,
        "overlap": 0.875,
        "method": "moffat",
        "gain": 1.25,
        "gain_low95": 1.2,
        "gain_high95": 1.3,
        "offset": 0.5,
        "difference_median": 2.0,
        "difference_mad": 1.0,
        "other_gains": "",
        "candidates": 40,
        "candidates_fdr": 0.045,
        "fdr_low95": None,
        "fdr_high95": None,
        "density_per_mm2": 20.0,
        "density_low95": 14.3,
        "density_high95": 27.2,
        "area_mm2": None,
        "fdr_control": None,
        "fdr_control_low95": None,
        "fdr_control_high95": None,
        "spot_width_px": None,
        "searched_width_px": None,
        "spoilt_share": 0.0238,
        "spoilt_reasons": "lost 0.021, debris 0.0028",
    }
    others = {"outdated", "control", "in_first", "of_first", *REVIEWED, *OF_MARKERS}
    assert set(row) - {"images", "details"} == set(COLUMNS) - others  # no path, no logs


def test_groups_of_the_sheet_come_last(tmp_path):
    entries = [("A", "wet", 40), ("B", "wet", 80), ("C", "dry", 30), ("D", "wet", 0)]
    made = []
    for sample, group, count in entries:
        one = replace(entry(sample), groups={"group": group, "date": "2026-11-23"})
        made.append(finish(tmp_path, one, detection={
            "candidates": count, "searched_px": 2_000_000, "area_mm2": 2.0,
        }))  # fmt: skip
    (tmp_path / made[-1].files[1]).unlink()
    target = tmp_path / "summary.tsv"
    write_summary(made, (), tmp_path, target)
    lines = read_summary(target)
    assert list(lines[0])[-2:] == ["group", "date"]
    assert [line["group"] for line in lines] == ["wet", "wet", "dry", "wet"]
    assert [line["area_mm2"] for line in lines] == ["2", "2", "2", ""]
    write_summary([replace(one, groups={}) for one in made], (), tmp_path, target)
    assert "group" not in read_summary(target)[0]


def test_the_same_images_under_two_names_are_named(tmp_path):
    def read(fingerprint):
        return {"images": plan_content(fingerprints=(fingerprint, fingerprint))["images"]}

    found = {"candidates": 40, "searched_px": 2_000_000, "area_mm2": 2.0}
    images = {"A": read("one"), "B": read("one"), "C": read("other")}
    made = [
        finish(
            tmp_path, replace(entry(sample), groups={"group": "wet"}), plan=plan, detection=found
        )
        for sample, plan in images.items()
    ]
    write_summary(made, (), tmp_path, tmp_path / "summary.tsv")
    lines = read_summary(tmp_path / "summary.tsv")
    assert [line["status"] for line in lines] == ["ok"] * 3
    assert [line["notes"] for line in lines] == [
        "B SYTO9 has the same two images: they are not replicates.",
        "A SYTO9 has the same two images: they are not replicates.",
        "",
    ]
    variants = [finish(tmp_path, entry("A", registration=name)) for name in ("x", "y")]
    assert [row["notes"] for row in rows(variants, (), tmp_path)] == ["", ""]


def test_other_methods_are_reported_next_to_the_default(tmp_path):
    scaled = scale(
        moffat=GOOD,
        percentile=MethodResult(1.3333333333, 0.0, None),
        manual=MethodResult.make_failed("no manual gain is given for this pair."),
    )
    row = only_row(tmp_path, finish(tmp_path, entry(), scaled=scaled))
    assert row["other_gains"] == "percentile 1.333, manual failed"


def test_a_gain_without_an_interval_leaves_the_cells_empty(tmp_path):
    scaled = scale(moffat=MethodResult(2.0, 0.0, None))
    made = finish(tmp_path, entry(), scaled=scaled, values=(np.nan,))
    (row,) = cells_of(rows([made], (), tmp_path))
    assert row["gain"] == "2"
    assert row["offset"] == "0"
    assert row["gain_low95"] == row["gain_high95"] == ""
    assert row["difference_median"] == row["difference_mad"] == ""


FOUND = {"candidates", "candidates_fdr", "density_per_mm2"}
NOISE = {"status": "failed", "reason": "the noise is not known."}


@pytest.mark.parametrize(
    ("changes", "columns"),
    [
        ({"method": "percentile"}, FOUND),  # candidates of another method
        ({"density_per_mm2": None, "density_ci95_per_mm2": None}, {"density_low95"}),
        ({"spoilt": None}, {"spoilt_share"}),  # a version that did not look for them
    ],
)
def test_what_was_not_found_leaves_its_cells_empty_and_the_pair_ok(tmp_path, changes, columns):
    made = finish(tmp_path, entry())
    content = {k: v for k, v in (DETECTION | changes).items() if (k, v) != ("spoilt", None)}
    (tmp_path / made.files[-1]).write_text(json.dumps(content))
    row = only_row(tmp_path, made)
    assert row["status"] == "ok"
    assert [row.get(column) for column in columns] == [None] * len(columns)


NOTHING_SPOILT = {"share": 0.0, "places": 0, "by_reason": {}, "largest": []}


@pytest.mark.parametrize(
    ("detection", "expected"),
    [
        ({"spoilt": NOTHING_SPOILT}, ("0", "")),
        ({"spoilt": NOTHING_SPOILT, "settings": {"spoilt": "auto"}}, ("0", "")),
        ({"spoilt": NOTHING_SPOILT, "settings": {"spoilt": "never"}}, ("", "")),
        ({}, ("0.024", "lost 0.021, debris 0.0028")),
    ],
)
def test_the_spoilt_share_is_empty_where_it_was_not_looked_for(tmp_path, detection, expected):
    (row,) = cells_of(rows([finish(tmp_path, entry(), detection=detection)], (), tmp_path))
    assert (row["spoilt_share"], row["spoilt_reasons"]) == expected


CONTROL = {
    "fdr_control": 0.04,
    "fdr_control_ci95": [0.02, 0.09],
    "controls": [{"reason": None}, {"reason": "No map."}],
}


def test_controls_are_marked_and_other_pairs_have_the_rate_they_give(tmp_path):
    blank = replace(entry("Blank"), control=True)
    pairs = [finish(tmp_path, blank), finish(tmp_path, entry("S1"), detection=CONTROL)]
    first, second = cells_of(rows(pairs, (), tmp_path))
    names = ("status", "control", "fdr_control", "fdr_control_low95", "fdr_control_high95")
    assert [first[name] for name in names] == ["ok", "true", "", "", ""]
    assert [second[name] for name in names] == ["ok", "", "0.040", "0.020", "0.090"]


def test_a_pair_none_of_whose_controls_could_be_searched_is_suspect(tmp_path):
    refused = {"controls": [{"reason": "No map."}, {"reason": "No noise."}]}
    row = only_row(tmp_path, finish(tmp_path, entry(), detection=refused))
    assert row["status"] == "suspect"
    assert row["reasons"].startswith("No unstained control could be searched")


def review(results, made, *decisions):
    """Decide on as many candidates as there are decisions, "" for none."""
    place = (results / made.files[-1]).parents[1]
    rows = [f"{n},{10 * n},5.0,9.0," for n in range(1, len(decisions) + 1)]
    (place / "candidates.csv").write_text("\n".join(["id,x,y,snr,flags", *rows]) + "\n")
    changes = [
        {"id": n, "x": 10 * n, "y": 5, "decision": decision}
        for n, decision in enumerate(decisions, 1)
        if decision
    ]
    change_review(place / "review.csv", changes, place / "candidates.csv")
    return place / "review.csv"


def test_reviewed_candidates_are_counted_with_their_purity(tmp_path):
    made = [finish(tmp_path, entry()), finish(tmp_path, entry("S2"))]
    review(tmp_path, made[0], "rejected", "", "unsure", "rejected")
    one, two = rows(made, (), tmp_path)
    assert (one["reviewed"], one["accepted"], one["rejected"], one["purity"]) == (3, 0, 2, 0.0)
    assert one["purity_high95"] == pytest.approx(0.8418861)
    assert not set(REVIEWED) & set(two)
    header, first, second = (line.split("\t") for line in table([one, two]).splitlines())
    assert header[-6:] == list(REVIEWED)
    assert first[-6:] == ["3", "0", "2", "0.0", "0.0", "0.8"]  # the interval is wide
    assert second[-6:] == [""] * 6


def test_a_damaged_review_is_a_note_and_fails_nothing(tmp_path):
    made = finish(tmp_path, entry())
    path = review(tmp_path, made, "accepted")
    path.write_text(path.read_text().replace("accepted", "perhaps"))
    row = only_row(tmp_path, made)
    assert row["status"] == "ok"
    assert f"{path}, line 2: 'perhaps' is none of accepted" in row["notes"]
    assert not set(REVIEWED) & set(row)


STATUSES = [
    ({}, "ok", ""),
    ({"found": transform("suspect", "Residuals are large.")}, "suspect", "Residuals are large."),
    ({"scaled": scale("post is saturated.")}, "suspect", "post is saturated."),
    ({"found": transform("suspect", "A.", "B."), "scaled": scale("C.")}, "suspect", "A. B. C."),
    ({"found": transform("failed", "No match.", "Too small.")}, "failed", "No match. Too small."),
    ({"scaled": Scale.make_failed("No pixel in common.")}, "failed", "No pixel in common."),
    (
        {"found": transform("suspect", "A."), "scaled": scale("C."), "detection": NOISE},
        "suspect",
        "A. C. Candidates were not looked for: the noise is not known.",
    ),
    (
        {"scaled": Scale.make_failed("No pixel in common."), "detection": NOISE},
        "failed",
        "No pixel in common.",
    ),
    # the first stage that failed speaks, whatever the later ones made of it
    (
        {
            "plan": {"status": "failed", "reason": "The file is damaged.", "choice": {}},
            "found": transform("failed", "No pixels."),
            "scaled": Scale.make_failed("No gain."),
        },
        "failed",
        "The file is damaged.",
    ),
    (
        {"found": transform("failed", "No match."), "scaled": Scale.make_failed("No gain.")},
        "failed",
        "No match.",
    ),
]


@pytest.mark.parametrize(("files", "status", "reasons"), STATUSES)
def test_status_and_reasons(tmp_path, files, status, reasons):
    row = only_row(tmp_path, finish(tmp_path, entry(), **files))
    assert (row["status"], row["reasons"]) == (status, reasons)
    pair = open_results(tmp_path)["S1", "SYTO9"]
    assert (pair.state, pair.reasons) == (status, reasons)
    if reasons == "No match.":  # no number that could pass for a result
        (cells,) = cells_of([row])
        columns = ("model", "rotation_deg", "shift_x_px", "residual_p95_px", "gain", "offset")
        assert [cells[column] for column in columns] == [""] * 6


@pytest.mark.parametrize("missing", range(5))
def test_a_missing_file_makes_the_pair_incomplete_and_names_file_and_logs(tmp_path, missing):
    made = finish(tmp_path, entry())
    path = (*made.files, made.histogram)[missing]
    (tmp_path / path).unlink()
    row = only_row(tmp_path, made)
    assert row["status"] == "incomplete"
    assert row["reasons"] == f"{path} has not been made; logs/S1/SYTO9 holds the logs of its jobs."
    assert "gain" not in row
    (tmp_path / path).mkdir()
    assert only_row(tmp_path, made)["status"] == "incomplete"
    assert only_row(Path("nowhere"), made)["reasons"].startswith(
        "S1/SYTO9/details/plan.json has not been"
    )


DAMAGES = {
    "plan": [b"", b"[]", b"{", b'{"status": "ok"}', b"\xff\xfe", b"null"],
    "transform": [b"", b"[]", b"{}", b"null", b"\xff"],
    "scale": [b"", b"[]", b'{"version": 1}', b"7", {"default": "linear"}],
    "detection": [b"", b"[]", b"{}", b'{"status": "failed"}', b'{"status": "ok"}'],
    "histogram": [b"", b"PK\x03\x04", b"nothing of the kind"],
}


@pytest.mark.parametrize(
    ("which", "content"), [(name, c) for name, contents in DAMAGES.items() for c in contents]
)
def test_a_damaged_file_fails_its_own_pair_by_name(tmp_path, which, content):
    good = finish(tmp_path, entry("Good"))
    bad = finish(tmp_path, entry("Bad"))
    path = dict(zip(DAMAGES, (*bad.files, bad.histogram), strict=True))[which]
    if isinstance(content, dict):  # a default that is not a method
        content = json.dumps(json.loads((tmp_path / path).read_text()) | content).encode()
    (tmp_path / path).write_bytes(content)
    first, second = rows([bad, good], (), tmp_path)
    assert second["status"] == "ok"
    assert first["status"] == "failed"
    assert first["reasons"].startswith("a result file cannot be read: ")
    assert str(tmp_path / path) in first["reasons"]


# --------------------------------------------------------------------------------- table, verdict


PROBLEMS = [
    {"sample": "S0", "dye": "DAPI", "message": "raw/S0 has no pre."},
    {"sample": None, "dye": None, "message": "a.tif lies directly in raw."},
]


def test_the_table_has_the_columns_of_the_contract_in_order(tmp_path):
    text = table(rows([finish(tmp_path, entry())], PROBLEMS, tmp_path))
    header, *lines = text.split("\n")
    optional = (*VARIANT, "notes", "outdated", "control", "in_first", "of_first")
    optional += (*REVIEWED, *OF_MARKERS, "spot_width_px", "searched_width_px")
    wanted = [c for c in COLUMNS if c not in optional and not c.startswith("fdr_control")]
    assert header.split("\t") == wanted
    assert lines[-1] == ""
    assert all(line.count("\t") == header.count("\t") for line in lines[:-1])
    assert lines[2].split("\t")[:4] == ["S1", "SYTO9", "ok", ""]


def test_variant_columns_appear_where_something_is_swept(tmp_path):
    made = finish(tmp_path, entry(subtraction="percentile-40"))
    header = table(rows([made], (), tmp_path)).split("\n")[0].split("\t")
    assert header[:4] == ["sample", "dye", "subtraction", "status"]


UGLY = "a\tb\nc\r\nd\x0be\x85f  \"g\", 'h'\u2028i caf\udce9"


def test_tabs_newlines_and_quotes_in_reasons_cannot_break_the_table(tmp_path):
    made = finish(tmp_path, entry(), found=transform("failed", UGLY.replace("\udce9", "")))
    problems = [{"sample": "S\t0", "dye": "D\n", "message": UGLY}]
    target = tmp_path / "summary.tsv"
    write_summary([made], problems, tmp_path, target)
    assert len(target.read_bytes().split(b"\n")) == 4  # header, two rows, end
    read = read_summary(target)
    assert [r["status"] for r in read] == ["skipped", "failed"]
    assert read[0]["sample"] == "S 0"
    assert read[0]["reasons"] == "a b c d e f \"g\", 'h' i caf\\udce9"
    assert read[1]["reasons"] == "a b c d e f \"g\", 'h' i caf"
    assert len(verdict(rows([made], problems, tmp_path)).splitlines()) == 3


def test_an_unchanged_summary_keeps_its_time_and_a_changed_one_is_written(tmp_path):
    made, target = finish(tmp_path, entry()), tmp_path / "summary.tsv"
    write_summary([made], (), tmp_path, target)
    before = target.stat()
    write_summary([made], (), tmp_path, target)
    after = target.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)
    scale("dim.").save(tmp_path / made.files[2])
    write_summary([made], (), tmp_path, target)
    assert target.stat().st_ino != before.st_ino
    assert read_summary(target)[0]["status"] == "suspect"


def test_the_verdict_counts_and_names_what_is_not_ok(tmp_path):
    made = [
        finish(tmp_path, entry("A")),
        finish(tmp_path, entry("B", registration="model-affine"), scaled=scale("dim.")),
        entry("C"),
    ]
    assert verdict(rows(made, PROBLEMS, tmp_path)).splitlines() == [
        "1 ok, 1 suspect, 2 skipped, 1 incomplete",
        "skipped: S0 DAPI: raw/S0 has no pre.",
        "skipped: a.tif lies directly in raw.",
        "suspect: B SYTO9 model-affine: dim.",
        f"incomplete: C SYTO9: {rows(made, (), tmp_path)[2]['reasons']}",
    ]
    assert verdict([]) == "no pairs\n"


def test_the_verdict_is_the_same_from_the_table(tmp_path):
    made = [finish(tmp_path, entry("A")), entry("C")]
    target = tmp_path / "summary.tsv"
    written = write_summary(made, PROBLEMS, tmp_path, target)
    assert verdict(read_summary(target)) == verdict(written)
