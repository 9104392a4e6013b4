"""The tables of evidence: what a result is worth, and tools that are not there."""

from __future__ import annotations

import numpy as np
import pytest
from evidence.registration import CASES, Outcome, all_tools, choose_tools, judge

TRUTH = np.column_stack([np.linspace(0, 900, 200), np.linspace(50, 700, 200)])
NEAR = TRUTH + np.array([0.3, 0.4])
WITH_MAP, WITHOUT = CASES[0], CASES[-1]


@pytest.mark.parametrize(
    ("case", "mapped", "said", "worth"),
    [
        (WITH_MAP, NEAR, "ok", ("0.500", "0.500", "ok")),
        (WITH_MAP, NEAR, "", ("0.500", "0.500", "says nothing")),
        (WITH_MAP, TRUTH + 40.0, "ok", ("56.569", "56.569", "**wrong without a word**")),
        (WITH_MAP, TRUTH + 40.0, "suspect", ("56.569", "56.569", "wrong, says suspect")),
        (WITH_MAP, None, "failed", ("-", "-", "refused (failed)")),
        (WITHOUT, None, "failed", ("-", "-", "refused, as it should be")),
        (WITHOUT, TRUTH, "ok", ("-", "-", "**wrong without a word**")),
        (WITHOUT, TRUTH, "suspect", ("-", "-", "says suspect")),
    ],
)
def test_a_result_is_worth_what_it_is_and_says(case, mapped, said, worth):
    assert judge(case, Outcome(mapped, said), TRUTH) == worth


def test_a_tool_that_is_not_there_is_a_row_that_says_so(tmp_path):
    found = {tool.name: tool.missing for tool in all_tools(tmp_path)}
    assert found["unglow"] == ""
    assert found["exo2micro 2.4"] == "no environment exo2micro"


def test_each_pair_is_registered_by_the_kind_of_map_that_it_needs(tmp_path):
    tools = all_tools(tmp_path)
    names = {case.name: [tool.name for tool in choose_tools(case, tools)] for case in CASES}
    affine = ["unglow", "greedy, affine", "elastix, rigid + affine", "exo2micro 2.4"]
    assert names["shift and rotation"] == names["another section"] == affine
    bent = ["unglow", "greedy, affine + deformable", "elastix, + B-spline 128 px", "exo2micro 2.4"]
    assert names["2 px smooth"] == names["6 px smooth"] == bent
    assert {name for all_of in names.values() for name in all_of} == {tool.name for tool in tools}
