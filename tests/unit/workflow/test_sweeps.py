"""Sweeps: variants and their paths, what they share, and what cannot be swept together."""

from __future__ import annotations

import pytest
from msgspec import structs
from raw_slides import pair

from unglow.core.errors import ConfigError
from unglow.core.levels import VARIANT
from unglow.results.summary import Entry
from unglow.workflow import config, job_params
from unglow.workflow.batch import Batch
from unglow.workflow.config import variants
from unglow.workflow.job_resources import disk_mb
from unglow.workflow.planned_jobs import jobs_of_pair, method_of, same_difference_as
from unglow.workflow.stage_table import PLACES, SMALL_MB

PAIR = {"sample": "A", "dye": "D"}


@pytest.fixture
def work(tmp_path):
    pair(tmp_path, "A", "D", (96, 80, 3), photometric="rgb")
    return tmp_path


def load(work, **sweep):
    return Batch.load({"sweep": {name.replace("__", "."): v for name, v in sweep.items()}}, work)


def jobs(batch, rule):
    return [job for job in jobs_of_pair(batch, "A", "D") if job.rule == rule]


@pytest.mark.parametrize(
    ("key", "values", "level", "name", "shared"),
    [
        ("channel", ["G", "R+G"], "ingestion", "channel-R+G", ()),
        ("register.blocks", [100, 200], "registration", "blocks-200", PLACES[:2]),
        ("scale.percentile", [40, 60], "subtraction", "percentile-60", PLACES[:3]),
        ("detect.fdr", [0.01, 0.1], "detection", "fdr-0.1", PLACES[:4]),
    ],
)
def test_each_part_of_the_configuration_has_a_level(key, values, level, name, shared):
    batch = Batch.without_images({"sweep": {key: values}})
    assert [*batch.variants[level]][1] == name
    out = batch.outputs
    assert out.swept == (level,)
    for place in PLACES:
        own = "" if place in (*shared, "pair") else f"{{{level}}}/"
        assert out.file(place, "x") == f"<results>/{{sample}}/{{dye}}/{own}x"


def test_all_levels_lie_in_one_another(work):
    batch = load(
        work, channel=["R", "G"], register__field=["auto", "never"], scale__percentile=[40, 60],
        detect__fdr=[0.01, 0.1],
    )  # fmt: skip
    counts = {rule: len(jobs(batch, rule)) for rule in ("ingest", "align", "scale", "detect")}
    assert counts == {"ingest": 2, "align": 4, "scale": 8, "detect": 16}
    assert jobs(batch, "detect")[-1].files[0] == (
        "<results>/A/D/channel-G/field-never/percentile-60/fdr-0.1/candidates.csv"
    )
    entry = job_params.summary_entries(batch, PAIR, "logs")[-1]
    assert [entry["names"][level] for level in VARIANT] == [
        "channel-G", "field-never", "percentile-60", "fdr-0.1",
    ]  # fmt: skip
    plan, _, scale, _ = Entry(**entry).files
    assert plan == "A/D/channel-G/details/plan.json"
    assert scale == "A/D/channel-G/field-never/percentile-60/scale.json"


def test_what_is_swept_reaches_the_jobs_of_the_variant_alone(work):
    batch = load(work, channel=["auto", "G"], detect__fwhm_px=[3, 5])
    for names, channel, dtype in (("channel-auto", "auto", "uint16"), ("channel-G", "G", "uint8")):
        wildcards = {**PAIR, "ingestion": names}
        assert job_params.channel_setting(batch, wildcards) == channel
        assert batch.layout(wildcards, "post").dtype == dtype
    wildcards = {**PAIR, "detection": "fwhm_px-5"}
    assert job_params.detect_settings(batch, wildcards)["fwhm_px"] == 5
    assert job_params.snr_settings(batch, wildcards)["fwhm_px"] == 5
    assert batch.settings.detect.fwhm_px == 3


@pytest.mark.parametrize(
    ("scale", "sweep", "same"),
    [
        # the main method does not follow from the percentile
        ({}, {"scale.percentile": [40, 60]}, {"percentile-60": {"linear": "percentile-40"}}),
        ({"default": "percentile"}, {"scale.percentile": [40, 60]}, {}),
        ({}, {"scale.manual": [1.1, 1.2]}, {"manual-1.2": {"linear": "manual-1.1"}}),
        ({}, {"scale.gain_map": ["auto", "never"]}, {}),
        ({}, {"scale.match_blur": ["auto", "never"]}, {}),
        # a moffat of its own, whose focus follows from what linear finds
        (
            {"write": "all"},
            {"scale.gain_map": ["auto", "never"], "scale.percentile": [40, 60]},
            {
                "gain_map-auto_percentile-60": dict.fromkeys(
                    ("linear", "moffat"), "gain_map-auto_percentile-40"
                ),
                "gain_map-never_percentile-60": dict.fromkeys(
                    ("linear", "moffat"), "gain_map-never_percentile-40"
                ),
            },
        ),
        (
            {"write": "all", "match_blur": "never"},
            {"scale.gain_map": ["auto", "never"]},
            {"gain_map-never": dict.fromkeys(("moffat", "percentile"), "gain_map-auto")},
        ),
    ],
)
def test_a_difference_that_has_to_be_the_same_is_known(work, scale, sweep, same):
    batch = Batch.load({"scale": scale, "sweep": sweep}, work)
    found = {}
    for job in jobs(batch, "difference") + jobs(batch, "difference_method"):
        first = same_difference_as(batch, job.wildcards)
        if first is not None:
            method = method_of(batch, job.wildcards)
            found.setdefault(job.wildcards["subtraction"], {})[method] = first
        (stored, *_) = job.files
        other = job_params.same_difference(batch, job.wildcards)
        assert other == (
            [] if first is None else [stored.replace(job.wildcards["subtraction"], first)]
        )
        assert (disk_mb(batch, job.rule, job.wildcards) == SMALL_MB) == (first is not None)
    assert found == same


def test_a_ratio_that_has_to_be_the_same_is_known(work):
    sweep = {"detect.fwhm_px": [3, 4], "detect.fdr": [0.01, 0.1]}
    batch = Batch.load({"exports": {"fits": ["snr"]}, "sweep": sweep}, work)
    assert [job_params.same_snr(batch, job.wildcards) for job in jobs(batch, "snr")] == [
        [],
        ["<results>/A/D/fwhm_px-3_fdr-0.01/snr.ome.zarr/zarr.json"],
        [],
        ["<results>/A/D/fwhm_px-4_fdr-0.01/snr.ome.zarr/zarr.json"],
    ]
    sizes = [disk_mb(batch, "snr", job.wildcards) for job in jobs(batch, "snr")]
    assert sizes[1] == sizes[3] == SMALL_MB < sizes[0] == sizes[2]


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({"detect.fdrr": [1]}, "'sweep.detect.fdrr' cannot be swept; did you mean 'detect.fdr'"),
        ({"detection.fdr": [0.1]}, "did you mean 'detect.fdr'?"),
        ({"series": [0, 1]}, "'sweep.series' cannot be swept"),
        ({"channel": ["A B", "AB"]}, "whose directories would both be 'channel-AB'"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_in_a_sentence(sweep, message):
    with pytest.raises(ConfigError) as error:
        config.load({"sweep": sweep})
    assert message in str(error.value)


def test_a_pair_with_a_value_of_its_own_cannot_be_swept(work):
    sheet = work / "config" / "samples.tsv"
    sheet.parent.mkdir()
    raw = "raw/A/{}_D.tif"
    row = f"A\tD\t{raw.format('pre')}\t{raw.format('post')}\tR\n"
    sheet.write_text("sample\tdye\tpre\tpost\tchannel\n" + row)
    with pytest.raises(ConfigError, match=r"'sweep\.channel'"):
        load(work, channel=["G", "B"])


def test_a_key_that_no_method_follows_from_is_reported(work):
    settings = {"scale": {"methods": ["linear"]}, "sweep": {"scale.percentile": [40, 60]}}
    (note,) = Batch.load(settings, work).notes
    assert "'sweep.scale.percentile' changes nothing" in note
    assert not load(work, scale__percentile=[40, 60]).notes


@pytest.mark.parametrize("values", [[["moffat"], ["moffat", "percentile"]], [[" a/../b ", "x"]]])
def test_names_are_safe_and_distinct(values):
    settings = structs.replace(config.load({}), sweep={"scale.methods": values})
    names = [v.name for v in variants(settings, "subtraction")]
    assert len(set(names)) == len(names)
    assert not any("/" in name or " " in name for name in names)
