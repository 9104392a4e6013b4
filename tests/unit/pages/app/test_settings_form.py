"""Changes of single keys in a configuration file: what else is in it stays as it is."""

from __future__ import annotations

import pytest
import yaml

from unglow.core.errors import ConfigError
from unglow.pages.app.settings_form import change_keys

FILE = """\
# mine
raw: photos  # where they are

detect:
  # few
  fdr: 0.1   # strict
  fwhm_px: 4
scale: {methods: [linear, moffat], percentile: 40}
multiplexed:
exports:
  tiff:
  - difference
  - post
container: x.sif
"""


@pytest.mark.parametrize(
    ("put", "reset", "old", "new"),
    [
        ({"detect.fdr": 0.2}, (), "fdr: 0.1   # strict", "fdr: 0.2   # strict"),
        ({"detect.min_snr": 5}, (), "  # few\n  fdr", "  # few\n  min_snr: 5\n  fdr"),
        ({}, ("detect.fdr",), "  fdr: 0.1   # strict\n", ""),
        ({"raw": "a: b"}, (), "raw: photos ", "raw: 'a: b' "),
        ({"light": "fluorescence"}, (), "x.sif\n", "x.sif\nlight: fluorescence\n"),
        ({"scale.percentile": 50}, (), "percentile: 40", "percentile: 50"),
        ({"scale.methods": ["moffat"]}, (), "[linear, moffat]", "[moffat]"),
        ({"scale.manual": 2}, (), "{methods", "{manual: 2, methods"),
        ({"register.model": "affine"}, (), "x.sif\n", "x.sif\nregister:\n  model: affine\n"),
        ({"exports.tiff": ["pre"]}, (), "\n  - difference\n  - post\n", " [pre]\n"),
        ({}, ("exports.tiff",), "  tiff:\n  - difference\n  - post\n", ""),
        ({"multiplexed.dtype": "float32"}, (), "multiplexed:\n", ""),
    ],
)
def test_only_the_lines_of_a_key_change(put, reset, old, new):
    assert FILE.count(old) == 1
    text = change_keys(FILE, put, reset)
    expected = FILE.replace(old, new)
    if "multiplexed.dtype" in put:  # an empty section goes to the end
        expected += "multiplexed:\n  dtype: float32\n"
    assert " ".join(text.split()) == " ".join(expected.split())
    assert "# mine\n" in text


@pytest.mark.parametrize("before", ["", "# nothing yet", "{}\n", "raw: x"])
def test_a_file_without_the_section_gets_it(before):
    if before == "{}\n":
        with pytest.raises(ConfigError, match="editor"):
            change_keys(before, {"detect.fdr": 0.1})
        return
    made = yaml.safe_load(change_keys(before, {"detect.fdr": 0.1, "detect.fwhm_px": 4}))
    assert made.pop("detect") == {"fdr": 0.1, "fwhm_px": 4}
    assert made == (yaml.safe_load(before) or {})


def test_a_file_with_anchors_is_refused_where_they_would_change_too():
    text = "detect: &a\n  fdr: 0.1\nscale: *a\n"
    with pytest.raises(ConfigError, match="editor"):
        change_keys(text, {"scale.fdr": 0.2})


def test_a_key_of_a_flow_section_is_not_removed_by_line():
    with pytest.raises(ConfigError, match="editor"):
        change_keys(FILE, {}, ["scale.percentile"])


def test_removing_what_is_not_there_changes_nothing():
    assert change_keys(FILE, {}, ["register.model", "light"]) == FILE
