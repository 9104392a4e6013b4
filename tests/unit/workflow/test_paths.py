"""Variants and the paths that they get."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unglow.workflow import config
from unglow.workflow.batch import Batch
from unglow.workflow.config import override, variants
from unglow.workflow.paths import Outputs


def test_without_a_sweep_there_is_one_nameless_variant_and_no_extra_level():
    batch = Batch.without_images({})
    assert [*batch.variants["subtraction"]] == [""]
    out = batch.outputs
    assert out.registered("transform.json") == "<results>/{sample}/{dye}/transform.json"
    assert out.subtracted("scale.json") == "<results>/{sample}/{dye}/scale.json"


def test_each_kind_of_parameter_adds_a_level_of_its_own():
    batch = Batch.without_images(
        {"sweep": {"register.model": ["affine", "homography"], "scale.percentile": [40, 50.5]}}
    )
    out = batch.outputs
    assert out.pair("plan.json") == "<results>/{sample}/{dye}/plan.json"
    assert out.registered("x") == "<results>/{sample}/{dye}/{registration}/x"
    assert out.subtracted("x") == "<results>/{sample}/{dye}/{registration}/{subtraction}/x"
    assert [*batch.variants["registration"]] == ["model-affine", "model-homography"]
    assert [*batch.variants["subtraction"]] == ["percentile-40", "percentile-50.5"]


def test_two_parameters_of_one_kind_are_combined():
    settings = config.load({"sweep": {"register.blocks": [100, 200], "register.coarse_px": [512]}})
    made = variants(settings, "registration")
    assert [v.name for v in made] == ["blocks-100_coarse_px-512", "blocks-200_coarse_px-512"]
    chosen = override(settings, made[1].overrides)
    assert (chosen.register.blocks, chosen.register.coarse_px) == (200, 512)


@pytest.mark.parametrize("values", [[["moffat"], ["moffat", "percentile"]], [[" a/../b ", "x"]]])
def test_names_are_safe_and_distinct(values):
    settings = replace(config.load({}), sweep={"scale.methods": values})
    names = [v.name for v in variants(settings, "subtraction")]
    assert len(set(names)) == len(names)
    assert not any("/" in name or " " in name for name in names)


@pytest.mark.parametrize(
    ("kind", "like", "path"),
    [
        ("logs", "pair", "<logs>/{sample}/{dye}/plan.log"),
        ("benchmarks", "run", "<benchmarks>/plan.tsv"),
        ("telemetry", "registered", "<telemetry>/{sample}/{dye}/plan.jsonl"),
    ],
)
def test_records_carry_the_wildcards_of_their_outputs(kind, like, path):
    assert Outputs().record(kind, "plan", like) == path
