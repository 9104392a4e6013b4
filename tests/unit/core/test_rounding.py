"""Numbers in words: as many digits as the error leaves."""

from __future__ import annotations

import math

import pytest

from unglow.core import rounding


@pytest.mark.parametrize(
    ("value", "interval", "expected"),
    [
        (1.3004, (1.2953, 1.3057), "1.300 (1.295 to 1.306)"),
        (1.30366, (1.30334, 1.30397), "1.30366 (1.30334 to 1.30397)"),
        (12345.6, (11111.0, 13579.0), "12,300 (11,100 to 13,600)"),
        (0.0, (-0.004, 0.004), "0.000 (-0.004 to 0.004)"),
        (1.30371, None, "1.304"),
        (2.0, (2.0, 2.0), "2"),
        (None, None, "–"),
    ],
)
def test_an_estimate_and_its_interval_end_where_its_error_does(value, interval, expected):
    assert rounding.estimate(value, interval) == expected


@pytest.mark.parametrize(
    ("error", "decimals"),
    [(0.0034, 4), (0.0036, 3), (0.0094, 3), (0.0096, 3), (0.1, 2), (0.5, 1), (12, 0), (340, -1)],
)
def test_an_error_leaves_two_digits_of_it_or_one_that_is_large(error, decimals):
    assert rounding.decimals(error) == decimals


def test_a_value_with_its_error():
    assert rounding.format_measured(84.1304, 0.0059, "px") == "84.130 px"
    assert rounding.format_measured(84.1304, math.nan, "px") == "84.13 px"
    assert rounding.format_measured(math.nan, 0.1) == "–"
    assert rounding.plus_minus(12.3456, 0.152) == "12.35 ± 0.15"


def test_next_to_no_error_leaves_no_digits_of_the_arithmetic():
    assert rounding.format_measured(-300.00000000075516, 1e-13, "px") == "-300 px"
    assert rounding.format_measured(-7.5e-10, 1e-13) == "0"
    assert rounding.estimate(1.0, (1 - 1e-13, 1 + 1e-13)) == "1 (1 to 1)"
    assert rounding.plus_minus(-300.00000000075516, 1e-13) == "-300"
    assert rounding.format_measured(1.000012304, 1.2e-6) == "1.0000123"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.005892, "0.0059"), (0.0299, "0.030"), (0.0997, "0.10"), (1.04, "1.0"), (123.4, "123")],
)
def test_what_is_an_error_itself_has_two_digits(value, expected):
    assert rounding.uncertainty(value, "px") == f"{expected} px"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "–"),
        (math.nan, "–"),
        (0.0, "0"),
        (0.04123, "0.0412"),
        (0.09996, "0.1"),
        (9.996, "10"),
        (1234.56, "1235"),
        (-12345.6, "-12,346"),
        (3e-9, "3e-09"),
    ],
)
def test_other_numbers_have_three_digits_and_all_before_the_point(value, expected):
    assert rounding.number(value) == expected


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (0.0476, "4.8 %"),
        (0.5, "50 %"),
        (0.99604, "99.6 %"),
        (0.99999, "> 99.9 %"),
        (0.00002, "< 0.1 %"),
        (0.0, "0 %"),
        (1.0, "100 %"),
        (1.386, "139 %"),
        (math.nan, "–"),
    ],
)
def test_shares_have_two_digits_of_what_is_small(part, expected):
    assert rounding.percent(part) == expected


@pytest.mark.parametrize(
    ("before", "after", "unit", "expected"),
    [
        (0.1e6, 56.6e6, "bytes", "566 x"),
        (566.0, 1.0, "s", "1/566 x"),
        (100.0, 105.2, "s", "+5 %"),
        (100.0, 45.0, "MB", "-55 %"),
        (100.0, 100.1, "MB", "same"),
        (0.01, 5.66, "s", "+5.7 s"),
        (0.0, 0.01, "s", "same"),
        (0.0, 0.31, "share", "+31 points"),
    ],
)
def test_changes_are_reported_as_what_they_are(before, after, unit, expected):
    assert rounding.change(before, after, unit) == expected
