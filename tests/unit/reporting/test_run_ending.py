"""The last words of a run."""

from __future__ import annotations

import pytest

from unglow.reporting.terminal.formatting import closing_sentence, has_failures


@pytest.mark.parametrize(
    ("outcome", "failed", "skipped", "words"),
    [
        ("ok", False, 1, "All usable pairs are done; 1 input was skipped. Fix it and run again"),
        ("ok", False, 7, "All usable pairs are done; 7 inputs were skipped. Fix them and run"),
        ("ok", True, 7, "All other results are complete. Fix what is named above and run again"),
        (None, True, 0, "set allow_failed: true to end with exit status 0."),
        ("failed", False, 3, "A job failed; its error is above and in the report."),
        (
            "interrupted",
            True,
            3,
            "Interrupted. Finished files are kept: the same command continues.",
        ),
    ],
)
def test_the_closing_sentence_says_what_to_do(outcome, failed, skipped, words):
    sentence = closing_sentence(outcome, any_failed=failed, skipped=skipped)
    assert words in sentence
    assert len(sentence.split()) <= 30
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("status", "expected"),
    [("ok", False), ("suspect", False), ("incomplete", False), ("failed", True), ("skipped", True)],
)
def test_a_failed_or_skipped_pair_is_a_failure(status, expected):
    assert has_failures([{"status": "ok"}, {"status": status}]) is expected
