"""Configuration: defaults, command-line strings, and one sentence for what is wrong."""

from __future__ import annotations

import json
import os
import re

import pytest
import yaml

from unglow.core.errors import ConfigError
from unglow.photometry.gain.scale import METHODS
from unglow.reporting.figures.style import METHOD
from unglow.workflow import config
from unglow.workflow.schema import schema
from unglow.workflow.variants import with_overrides

CIRCLE = {"percentile": 50}
CIRCLE["methods"] = CIRCLE


def objects(rule, where="config"):
    """Yield every object of the schema with its dotted name."""
    if rule.get("type") == "object":
        yield where, rule
    for key, inner in rule.get("properties", {}).items():
        yield from objects(inner, f"{where}.{key}")


def leaves(rule, where=""):
    for key, inner in rule.get("properties", {}).items():
        yield f"{where}{key}", inner
        yield from leaves(inner, f"{where}{key}.")


def test_every_key_has_a_description_and_a_default_and_every_object_defaults_to_empty():
    rules = schema("config")
    assert rules["$schema"].endswith("2020-12/schema")
    for name, rule in leaves(rules):
        assert rule.get("description", "").strip(), name
        assert "default" in rule, name
    for name, rule in objects(rules):
        assert rule["default"] == {}, name
        assert "additionalProperties" in rule, name


def test_no_configuration_at_all_gives_every_default():
    settings = config.load({})
    assert settings["memory_per_job"] == 2000
    assert settings["scale"]["methods"] == ["linear", "moffat", "percentile"]
    assert settings["scale"]["default"] is None
    assert settings["register"]["block_px"] == 256


def test_loading_is_idempotent_and_leaves_the_input_alone():
    given = {"scale": {"percentile": "40"}}
    once = config.load(given)
    assert given == {"scale": {"percentile": "40"}}
    assert config.load(once) == once


@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        ({"memory_per_job": "600"}, ("memory_per_job",), 600),
        ({"allow_failed": "True"}, ("allow_failed",), True),
        ({"channel": 1}, ("channel",), "1"),
        ({"channel": "G"}, ("channel",), "G"),
        ({"series": "2"}, ("series",), 2),
        ({"samples": "null"}, ("samples",), None),
        ({"plane": {"z": "max"}}, ("plane", "z"), "max"),
        ({"plane": {"z": "3"}}, ("plane", "z"), 3),
        ({"scale": {"methods": "[moffat]"}}, ("scale", "methods"), ["moffat"]),
        ({"scale": {"manual": "1.25"}}, ("scale", "manual"), 1.25),
        ({"scale": None}, ("scale", "percentile"), 50),
        ({"register": {"mirror": "yes"}}, ("register", "mirror"), True),
    ],
)
def test_strings_from_the_command_line_get_the_type_of_their_key(given, key, value):
    settings = config.load(given)
    for part in key:
        settings = settings[part]
    assert settings == value
    assert type(settings) is type(value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"regster": {}}, "config key 'regster' is not known; did you mean 'register'?"),
        ({"register": {"modle": "affine"}}, "'register.modle' is not known; did you mean 'model'?"),
        ({"zzz": 1}, "the keys here are allow_failed, channel"),
        ({"memory_per_job": "abc"}, "'memory_per_job' is 'abc' but has to be a number"),
        ({"memory_per_job": 100}, "'memory_per_job' is 100 but has to be at least 300"),
        ({"scale": {"percentile": 150}}, "'scale.percentile' is 150 but has to be below 100"),
        ({"scale": {"manual": -1}}, "'scale.manual' is -1 but has to be above 0"),
        ({"scale": {"methods": []}}, "'scale.methods' is [] but needs at least one value"),
        ({"scale": {"methods": ["mofat"]}}, "has to be one of linear, moffat, percentile, manual"),
        (
            {"scale": {"methods": ["percentile"], "default": "moffat"}},
            "'scale.default' is 'moffat' but",
        ),
        ({"register": {"block_px": 100}}, "has to be one of 64, 128, 256, 512"),
        ({"register": "affine"}, "has to be a mapping of keys to values"),
        ({"plane": {"z": "sum"}}, "'plane.z' is 'sum' but has to be a number, max or mean"),
        ({"exports": {"tiff": ["differenz"]}}, "has to be one of difference, aligned_pre, post"),
        (
            {"exports": {"png": ["post"]}},
            "'exports.png' is not known; the keys here are fits, tiff",
        ),
        ({"sweep": {"scale.percentle": [1]}}, "did you mean 'scale.percentile'?"),
        ({"sweep": {"scale.percentile": [150]}}, "'sweep.scale.percentile' is 150 but"),
        ({"sweep": {"scale.percentile": ["40", 40]}}, "holds a value twice: [40, 40]"),
        ({"sweep": {"scale.percentile": 40}}, "'sweep.scale.percentile' is 40 but"),
        ({"results": "a\0b"}, "'results' holds a NUL character"),
        ({"samples": "a\0b"}, "'samples' holds a NUL character"),
        ({"raw": "x/" + 300 * "r"}, "'raw' is too long for a path (302 characters)"),
        ({"results": 2000 * "r/"}, "'results' is too long for a path"),
        ({"scale": CIRCLE}, "a value contains itself"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_before_anything_runs(given, told):
    with pytest.raises(ConfigError) as error:
        config.load(given)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["1e3", "1E+3", "10e2", "1.e3"])
def test_a_number_may_be_written_with_an_exponent(text):
    assert config.load({"memory_per_job": text})["memory_per_job"] == 1000
    assert config.load({"timeout_per_job": text})["timeout_per_job"] == 1000


def test_a_channel_may_be_called_like_a_number_with_an_exponent():
    assert config.load({"channel": "1e3"})["channel"] == "1e3"


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "null\n"])
def test_an_empty_file_means_the_defaults(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert config.read_stored(path) == {}
    assert config.read_config(path) == config.load({})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1, 2]", "has to hold keys and values"),
        ("a: [1", "this is not YAML"),
        ("scale: &x\n  methods: *x\n", "a value contains itself"),
        ("a: &x [*x]", "a value contains itself"),
        (f"a: {3000 * '['}", "nested too deep"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence_that_names_it(tmp_path, text, told):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(told)) as error:
        config.read_stored(path)
    assert str(error.value).startswith(str(path))


def test_the_shipped_configuration_holds_the_defaults_and_says_so(project):
    text = (project / "config" / "config.yaml").read_text()
    shipped = yaml.safe_load(text) or {}
    assert config.load(shipped) == config.load({})
    for name, _ in leaves(schema("config")):
        if name != "pathvars":  # of use to modules only
            assert f"{name.rsplit('.', 1)[-1]}:" in text, name


def test_overrides_leave_the_original_alone():
    settings = config.load({})
    changed = with_overrides(settings, {"scale.percentile": 40})
    assert changed["scale"]["percentile"] == 40
    assert settings["scale"]["percentile"] == 50


def test_the_readme_of_the_configuration_tells_every_key_with_its_default(project):
    text = (project / "config" / "README.md").read_text()
    for name, rule in leaves(schema("config")):
        about = " ".join(rule["description"].split())
        default = "" if rule.get("properties") else f" `{json.dumps(rule['default'])}`"
        key = f"**`{name}`**" if rule.get("properties") else f"`{name}`"
        assert f"| {key} |{default} | {about} |" in text, name


def test_the_schema_knows_the_methods_that_there_are():
    scale = schema("config")["properties"]["scale"]["properties"]
    known = [scale["methods"]["items"], scale["default"], scale["write"]["items"]]
    for rule in known:
        assert [name for name in rule["enum"] if name is not None] == [*METHODS]
    assert set(METHOD) == {*METHODS}  # each has its colour


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raw: &a\n  b: *a\n", "."),
        ("[" * 3000, "."),
        ("raw: 2026-13-45\n", "this is not YAML"),
        ("# " + "x" * 1_100_000, "has more than 1 MB"),
        (b"raw: \xff\n", "this is not YAML"),
    ],
)
def test_a_file_that_is_no_configuration_is_named(tmp_path, text, message):
    path = tmp_path / "config.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=message) as told:
        config.read_config(path)
    assert "config.yaml" in str(told.value) or "config key" in str(told.value)


@pytest.mark.parametrize("put", [os.mkfifo, lambda p: p.symlink_to("nowhere")])
def test_a_configuration_that_cannot_be_read_is_not_taken_as_none(tmp_path, put):
    path = tmp_path / "config.yaml"
    assert config.read_config(path) == config.read_config(tmp_path / "no.yaml")
    put(path)
    with pytest.raises(ConfigError, match=r"config\.yaml cannot be read \("):
        config.read_config(path)
