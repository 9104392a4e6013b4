"""Pairs that are unlike the others of their dye, and those that are not."""

import numpy as np

from unglow.results.pair_rows import FEWEST, outliers


def batch(n=20, **columns):
    random = np.random.default_rng(2)
    return [
        {"dye": "D", "status": "ok", "gain": f"{1.3 + 0.003 * random.normal():.4f}"}
        | {name: str(values[k]) for name, values in columns.items()}
        for k in range(n)
    ]


def keys(found):
    return [[key for key, _ in one] for one in found]


def test_only_the_pair_that_stands_apart_is_named_with_its_number():
    rows = batch(residual_median_px=[0.02] * 19 + [0.4])
    rows[3]["gain"] = "1.6"
    found = outliers(rows)
    assert keys(found)[19] == ["residual_median_px"]
    assert keys(found)[3] == ["gain"]
    assert found[3][0][1] > 3.5
    assert sum(map(len, found)) == 2
    rows[3]["gain"] = "1.0"  # too low is as unusual; a residual that is low is not
    rows[19]["residual_median_px"] = "0.0001"
    assert keys(outliers(rows)) == [[]] * 3 + [["gain"]] + [[]] * 16


def test_pairs_are_compared_with_those_of_their_dye_that_have_results():
    rows = batch(24)
    for row in rows[:12]:
        row |= {"dye": "E", "gain": "0.7"}
    assert keys(outliers(rows)) == [[]] * 24
    rows[2] |= {"gain": "2", "status": "failed"}
    assert keys(outliers(rows)) == [[]] * 24
    rows[2]["status"] = "suspect"
    assert keys(outliers(rows))[2] == ["gain"]


def test_few_pairs_and_numbers_within_their_errors_are_no_outliers():
    assert outliers(batch(FEWEST - 1, peak_mb=[1, 1, 1, 1, 900])) == [[]] * (FEWEST - 1)
    low_high = {"density_high95": [28.0] * 19 + [3.7], "candidates": [20] * 19 + [0]}
    none = batch(density_per_mm2=[20.0] * 19 + [0.0], **low_high)
    assert keys(outliers(none))[19] == ["density_per_mm2"]
    low_high["density_high95"][19] = 30.0  # a small image: nothing found is no surprise
    assert outliers(batch(density_per_mm2=[20.0] * 19 + [0.0], **low_high)) == [[]] * 20
