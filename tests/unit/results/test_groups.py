"""Columns of the sample sheet that make groups."""

from unglow.results.groups import is_group, is_in_summary


def test_columns_that_make_groups_are_reported_by_their_names():
    assert [is_group(c) for c in ("group", "group_x", "treatment", "replicate")] == [True] * 4
    assert [is_group(c) for c in ("date", "order", "groups", "gain")] == [False] * 4
    columns = "date", "order", "group_x", "gain"
    assert [is_in_summary(c) for c in columns] == [True, True, True, False]
