"""Configuration: defaults, command-line strings, and one sentence for what is wrong."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from jsonschema import Draft202012Validator

from unglow.core.errors import ConfigError
from unglow.core.records import to_plain
from unglow.core.settings import from_json
from unglow.workflow import config
from unglow.workflow.config import override
from unglow.workflow.settings import Settings

CIRCLE = {"percentile": 50}
CIRCLE["methods"] = CIRCLE


def leaves(rule, where=""):
    for key, inner in rule.get("properties", {}).items():
        yield f"{where}{key}", inner
        yield from leaves(inner, f"{where}{key}.")


def test_no_configuration_at_all_gives_every_default():
    settings = config.load({})
    assert settings.memory_per_job == 2000
    assert settings.scale.methods == ("linear", "moffat", "percentile")
    assert settings.scale.default is None
    assert settings.register.block_px == 256


def test_loading_is_idempotent_and_leaves_the_input_alone():
    given = {"scale": {"percentile": "40"}}
    once = config.load(given)
    assert given == {"scale": {"percentile": "40"}}
    assert config.load(to_plain(once)) == once


@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        ({"memory_per_job": "600"}, ("memory_per_job",), 600),
        ({"memory_per_job": "1e3"}, ("memory_per_job",), 1000),
        ({"timeout_per_job": "1E+3"}, ("timeout_per_job",), 1000),
        ({"allow_failed": "True"}, ("allow_failed",), True),
        ({"channel": 1}, ("channel",), "1"),
        ({"channel": "1e3"}, ("channel",), "1e3"),
        ({"series": "2"}, ("series",), 2),
        ({"samples": "null"}, ("samples",), None),
        ({"plane": {"z": "max"}}, ("plane", "z"), "max"),
        ({"scale": {"methods": "[moffat]"}}, ("scale", "methods"), ("moffat",)),
        ({"scale": {"manual": "1.25"}}, ("scale", "manual"), 1.25),
        ({"scale": None}, ("scale", "percentile"), 50),
        ({"register": {"mirror": "yes"}}, ("register", "mirror"), True),
    ],
)
def test_strings_from_the_command_line_get_the_type_of_their_key(given, key, value):
    settings = config.load(given)
    for part in key:
        settings = getattr(settings, part)
    assert settings == value
    assert type(settings) is type(value)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"regster": {}}, "did you mean 'register'?"),
        ({"register": {"modle": "affine"}}, "'register.modle'"),
        ({"memory_per_job": "abc"}, "'memory_per_job'"),
        ({"memory_per_job": 100}, "'memory_per_job'"),
        ({"scale": {"percentile": 150}}, "'scale.percentile'"),
        ({"scale": {"manual": math.nan}}, "'scale.manual'"),
        ({"register": {"suspect_px": 10**400}}, "'register.suspect_px'"),
        ({"detect": {"fdr": "1e400"}}, "'detect.fdr'"),
        ({"series": math.nan}, "'series'"),
        ({"scale": {"methods": []}}, "'scale.methods'"),
        ({"scale": {"methods": ["mofat"]}}, "'scale.methods.0'"),
        ({"scale": {"methods": ["linear"], "default": "moffat"}}, "'scale.default'"),
        ({"register": "affine"}, "'register'"),
        ({"plane": {"z": "sum"}}, "'plane.z'"),
        ({"detect.fwhm_px": 9}, "has a dot; write it as `detect: {fwhm_px: VALUE}`"),
        ({"sweep": {"scale.percentle": [1]}}, "'scale.percentile'"),
        ({"sweep": {"scale.percentile": [150]}}, "'sweep.scale.percentile'"),
        ({"sweep": {"scale.percentile": ["40", 40]}}, "'sweep.scale.percentile'"),
        ({"sweep": {"scale.percentile": 40}}, "'sweep.scale.percentile'"),
        ({"results": "a\0b"}, "'results'"),
        ({"raw": "a\ud800"}, "'raw'"),
        ({"raw": "x/" + 300 * "r"}, "'raw'"),
        ({"scale": CIRCLE}, ""),
    ],
)
def test_what_is_wrong_is_one_line_that_names_its_key(given, named):
    with pytest.raises(ConfigError) as error:
        config.load(given)
    assert named in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "null\n"])
def test_an_empty_file_means_the_defaults(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert config.read_stored(path) == {}
    assert config.read_config(path) == config.load({})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "has to hold keys and values"),
        ("a: [1", "this is not YAML"),
        ("raw: 2026-13-45\n", "this is not YAML"),
        (b"raw: \xff\n", "this is not YAML"),
        ("# " + "x" * 1_100_000, "has more than 1 MB"),
        ("raw: &a\n  b: *a\n", "a value contains itself"),
        (3000 * "[", "nested too deep"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence_that_names_it(tmp_path, text, message):
    path = tmp_path / "config.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        config.read_config(path)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize("percentile", [40, 40.0, "40", "4e1"])
def test_neither_the_order_of_keys_nor_the_way_a_number_is_written_reruns_jobs(percentile):
    given = {"scale": {"percentile": percentile, "methods": ["percentile"]}}
    there = to_plain(config.load({"scale": {"methods": ["percentile"], "percentile": 40}}))
    assert json.dumps(to_plain(config.load(given))) == json.dumps(there)


def test_overrides_leave_the_original_alone():
    settings = config.load({})
    changed = override(settings, {"scale.percentile": 40})
    assert changed.scale.percentile == 40
    assert settings.scale.percentile == 50


@pytest.mark.parametrize("name", ["config.yaml", "README.md", "schemas/config.schema.yaml"])
def test_a_file_that_does_not_follow_from_the_settings_is_named_and_written_again(
    tmp_path, project, name
):
    shutil.copytree(project / "config", tmp_path / "config")
    file, shipped = tmp_path / "config" / name, (project / "config" / name).read_text()
    write = [sys.executable, tmp_path / "config" / "write.py"]
    assert subprocess.run([*write, "--check"], check=False).returncode == 0
    file.write_text(shipped.replace("Scale methods", "Methods"))
    stale = subprocess.run([*write, "--check"], capture_output=True, text=True, check=False)
    assert (stale.returncode, stale.stdout.count(str(file))) == (1, 1)
    subprocess.run(write, check=True)
    assert file.read_text() == shipped


VALUES = [None, True, False, -1, 0, 0.5, 1, 3, 64, 100, 300, 10**9, "", "all", "max", "auto", "x",
          [], ["x"], ["snr"], ["linear"], ["linear", "linear"], [1], {}, {"x": 1}]  # fmt: skip


def test_values_are_accepted_exactly_where_the_schema_accepts_them(project):
    rules = yaml.safe_load((project / "config" / "schemas" / "config.schema.yaml").read_text())
    Draft202012Validator.check_schema(rules)
    seen = set()
    for (name, rule), value in itertools.product(leaves(rules), VALUES):
        wanted = Draft202012Validator(rule).is_valid(value)
        # of mappings, unknown keys are found before
        if isinstance(value, dict) and rule.get("additionalProperties") is False:
            continue
        section, _, key = name.rpartition(".")
        given = {section: {key: value}} if section else {name: value}
        if wanted:
            from_json(Settings, given)
        else:
            with pytest.raises(ConfigError, match=re.escape(f"'{name}")):
                from_json(Settings, given)
        seen.add(wanted)
    assert seen == {True, False}


@pytest.mark.parametrize("put", [os.mkfifo, lambda p: p.symlink_to("nowhere")])
def test_a_configuration_that_cannot_be_read_is_not_taken_as_none(tmp_path, put):
    path = tmp_path / "config.yaml"
    assert config.read_config(path) == config.read_config(tmp_path / "no.yaml")
    put(path)
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        config.read_config(path)


def nest_aliases(first, wrap, levels=6):
    lines = [f"a0: &a0 {first}"]
    lines += [
        f"a{k}: &a{k} " + wrap.format(", ".join([f"*a{k - 1}"] * 9)) for k in range(1, levels + 1)
    ]
    return "\n".join([*lines, f"raw: *a{levels}", ""])


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        nest_aliases("[x, x, x]", "[{}]"),
        nest_aliases("{x: 1, y: 2}", "{{<<: [{}]}}"),
        nest_aliases("{x: 1}", "{{? [{}] : 1}}"),
        f"a: &a {'x' * 300_000}\nraw: [{', '.join(['*a'] * 2000)}]\n",
        f"raw: {json.dumps('{' + nest_aliases('[x]', '[{}]').replace(chr(10), ', ') + '}')}",
    ],
)
def test_aliases_that_stand_for_much_more_than_is_written_are_refused(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"aliases \(\*\) stand for too many values; write them"):
        config.read_config(path)


@pytest.mark.parametrize("text", ["raw: a\nraw: b\n", "detect:\n  fdr: 0.1\n  fdr: 0.2\n"])
def test_a_key_that_is_there_twice_is_named_with_its_lines(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"config.yaml: key `(raw|fdr)` .* lines \d and \d"):
        config.read_config(tmp_path / "config.yaml")


def test_aliases_that_save_some_writing_are_read(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("detect: &own {fdr: 0.1}\nsweep: {detect.fdr: [0.1, 0.2]}\nregister: {}\n")
    assert config.read_config(path).detect.fdr == 0.1
    same = "defaults: &d {fdr: 0.1}\ndetect: {<<: *d}\n"
    assert config.parse_yaml(same)["detect"] == {"fdr": 0.1}
    circle = config.parse_yaml("a: &a [*a]")
    assert circle["a"][0] is circle["a"]
    assert config.parse_yaml("") is None


def test_a_long_value_is_shown_in_part(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(f"raw: {[0] * 5000}\n")
    with pytest.raises(ConfigError, match=r"config key 'raw' is \[0, 0") as error:
        config.read_config(path)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    "line",
    [
        "raw: !!timestamp x",
        '"a\\nb": 1',
        f"{'x' * 900}: 1",
        f"series: {'9' * 900}",
        "profile: !!set {a, b}",
    ],
)
def test_odd_keys_and_values_are_one_short_sentence(tmp_path, line):
    path = tmp_path / "config.yaml"
    path.write_text(f"{line}\n")
    with pytest.raises(ConfigError) as error:
        config.read_config(path)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 800
