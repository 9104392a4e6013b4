"""A batch: what a run consists of, known from headers alone; what its jobs are given and need."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import tifffile
from made_headers import header
from snakemake.rules import Wildcards

from unglow.core.errors import ConfigError, InputError
from unglow.core.levels import VARIANT
from unglow.core.measured import LIBRARIES_MB
from unglow.core.records import to_plain
from unglow.images.channels import plan_layouts
from unglow.images.tiff import read_header
from unglow.pages.app.workplace import Workplace, images_below
from unglow.results.summary import entries_from
from unglow.workflow import job_params, stage_memory
from unglow.workflow.batch import Batch
from unglow.workflow.header_cache import CACHE, channel_of
from unglow.workflow.job_resources import demand_of, mem_mb
from unglow.workflow.planned_jobs import main_method, manual_gain, scale_methods, written_methods

GREY = {"shape": (96, 80), "dtype": np.uint8}


def write(path, shape=(96, 80), dtype=np.uint8, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = "rgb" if shape[2:] == (3,) else "minisblack"
    tifffile.imwrite(path, np.zeros(shape, dtype), **({"photometric": colour} | options))
    return path


def add_pair(work, sample, dye="SYTO9", post=GREY, pre=GREY):
    for role, options in (("post", post), ("pre", pre)):
        if options is not None:
            write(work / "raw" / sample / f"{sample}_{role}_{dye}.tif", **options)


def entries_of(batch):
    return entries_from(job_params.summary_entries(batch, {}, "logs"))


def names(sample, dye="SYTO9", registration="", subtraction=""):
    levels = {"registration": registration, "subtraction": subtraction}
    return {"sample": sample, "dye": dye, **levels}


def sheet(work, *rows, name="config/samples.tsv"):
    path = work / name
    path.parent.mkdir(exist_ok=True)
    header = "sample\tdye\tpre\tpost\tchannel\tmanual_scale\tcontrol"
    path.write_text("\n".join([header, *rows]) + "\n")


def row(sample, dye="SYTO9", *, channel="", gain="", control=""):
    files = [f"raw/{sample}/{sample}_{role}_{dye}.tif" for role in ("pre", "post")]
    return "\t".join([sample, dye, *files, channel, gain, control])


@pytest.fixture
def work(tmp_path):
    """A working directory with two good pairs of different size."""
    add_pair(tmp_path, "A")
    add_pair(tmp_path, "B", post={"shape": (300, 200)}, pre={"shape": (310, 500)})
    return tmp_path


# ------------------------------------------------------------------------------- pairs and problems


def test_every_pair_with_its_headers_post_first(work):
    batch = Batch.load({}, work)
    assert sorted(batch.pairs) == [("A", "SYTO9"), ("B", "SYTO9")]
    assert batch.problems == ()
    assert batch.source == work / "raw"
    assert [h.shape for h in batch.headers["B", "SYTO9"]] == [(300, 200), (310, 500)]
    assert batch.pixels(names("B")) == 310 * 500  # the larger image
    assert batch.pair(names("A")).post == work / "raw" / "A" / "A_post_SYTO9.tif"


def test_controls_are_those_of_the_same_dye_and_variant(work):
    for sample, dye in (("Blank", "SYTO9"), ("Blank", "DAPI"), ("C", "DAPI"), ("Empty", "SYTO9")):
        add_pair(work, sample, dye)
    blanks = (row("Blank", control="yes"), row("Empty", control="true"))
    sheet(work, row("A"), row("B", control="no"), row("Blank", "DAPI"), row("C", "DAPI"), *blanks)
    batch = Batch.load({"sweep": {"scale.percentile": [40, 60]}}, work)
    a = names("A", subtraction="percentile-40")
    assert job_params.control_samples(batch, a) == ["Blank", "Empty"]
    assert job_params.control_search_counts(batch, a) == [
        f"<results>/{sample}/SYTO9/percentile-40/details/search.npz"
        for sample in ("Blank", "Empty")
    ]
    for sample, dye in (("Blank", "SYTO9"), ("C", "DAPI"), ("Blank", "DAPI")):
        assert job_params.control_samples(batch, names(sample, dye)) == []
        assert job_params.control_search_counts(batch, names(sample, dye)) == []
    controls = {(e.names["sample"], e.names["dye"]) for e in entries_of(batch) if e.control}
    assert controls == {("Blank", "SYTO9"), ("Empty", "SYTO9")}
    assert job_params.idle_controls(batch) == []


def test_gains_of_controls_are_read_where_they_are_the_default(work):
    for sample, dye in (("Blank", "SYTO9"), ("C", "DAPI")):
        add_pair(work, sample, dye)
    sheet(work, row("A"), row("C", "DAPI"), row("Blank", control="yes"))
    batch = Batch.load({"scale": {"default": "control"}}, work)
    ways = {name: main_method(batch, names(*name)) for name in batch.pairs}
    assert ways == {
        ("A", "SYTO9"): "control",
        ("C", "DAPI"): "linear",
        ("Blank", "SYTO9"): "linear",
    }
    scales = job_params.control_scales(batch, names("A"))
    assert [path.endswith("Blank/SYTO9/scale.json") for path in scales] == [True]
    assert job_params.control_scales(batch, names("Blank")) == []
    assert job_params.scale_settings(batch, names("A"))["default"] == "control"
    assert job_params.scale_settings(batch, names("Blank"))["default"] == "linear"
    assert "default" not in job_params.slide_scale_settings(batch, {})


def test_a_control_of_a_dye_that_no_other_pair_has_is_reported(work):
    add_pair(work, "C", "DAPI")
    sheet(work, row("A"), row("C", "DAPI", control="true"))
    batch = Batch.load({}, work)
    assert job_params.idle_controls(batch) == [
        "C DAPI is an unstained control, but there is no other pair of its dye."
    ]


def test_what_the_threshold_rests_on_concerns_only_pairs_with_controls(work):
    add_pair(work, "C", "DAPI")
    sheet(work, row("A"), row("B", control="1"), row("C", "DAPI"))
    batch = Batch.load({"detect": {"threshold_from": "control"}}, work)
    rests_on = [
        job_params.detect_settings(batch, names(*key))["threshold_from"]
        for key in (("A", "SYTO9"), ("B", "SYTO9"), ("C", "DAPI"))
    ]
    assert rests_on == ["control", "negative", "negative"]
    other = Batch.load({"detect": {"threshold_from": "negative"}}, work)
    for batches in (batch, other):
        assert list(job_params.detect_settings(batches, names("A"))) == sorted(
            to_plain(batch.settings.detect)
        )


BAD = {
    "Depth": ({"dtype": np.uint16}, GREY, "header", "export both with the same bit depth"),
    "Stack": (
        {"shape": (5, 96, 80), "metadata": {"axes": "ZYX"}, "ome": True},
        GREY,
        "header",
        "holds 5 planes along z",
    ),
    "Alone": (GREY, None, None, "pre"),
}


@pytest.mark.parametrize("sample", BAD)
def test_a_bad_pair_is_one_problem_with_its_files_and_the_others_remain(work, sample):
    post, pre, kind, message = BAD[sample]
    add_pair(work, sample, post=post, pre=pre)
    batch = Batch.load({}, work)
    assert sorted(batch.pairs) == [("A", "SYTO9"), ("B", "SYTO9")]
    (problem,) = batch.problems
    assert (problem.sample, problem.dye) == (sample, "SYTO9")
    assert message in problem.message
    assert "\n" not in problem.message
    assert f"{sample}_post_SYTO9.tif" in problem.message
    if kind is not None:
        assert problem.kind == kind
        assert {p.name for p in problem.paths} == {
            f"{sample}_{r}_SYTO9.tif" for r in ("pre", "post")
        }


def test_names_that_are_not_utf8_are_problems_that_can_be_printed(work):
    add_pair(work, "caf\udce9")
    add_pair(work, "C")
    for path in (work / "raw" / "C").iterdir():
        path.rename(path.with_name(f"\udce9_{path.name}"))
    batch = Batch.load({}, work)
    assert sorted(batch.pairs) == [("A", "SYTO9"), ("B", "SYTO9")]
    assert len(batch.problems) == 2
    for problem in batch.problems:
        assert "\\xe9" in problem.message
        f"{problem.sample} {problem.dye} {problem.message}".encode()  # as Snakemake's log does


def test_no_usable_pair_at_all_lists_every_sentence(tmp_path):
    add_pair(tmp_path, "Depth", post={"dtype": np.uint16})
    add_pair(tmp_path, "Float", post={"dtype": np.float32})
    add_pair(tmp_path, "Alone", pre=None)
    with pytest.raises(InputError) as caught:
        Batch.load({}, tmp_path)
    first, *details = str(caught.value).splitlines()
    assert first == f"no pair can be processed ({tmp_path / 'raw'})."
    assert len(details) == 3
    for sample in ("Depth", "Float", "Alone"):
        assert sum(f"{sample}_post_SYTO9.tif" in line for line in details) == 1


@pytest.mark.parametrize("results", ["raw", "raw/results", "raw/A", ".", "raw/.."])
def test_results_and_raw_images_share_no_directory(work, results):
    with pytest.raises(ConfigError, match="shares a directory with raw images"):
        Batch.load({"results": results}, work)
    (work / "link").symlink_to(work / results)
    with pytest.raises(ConfigError, match=r"shares a directory with raw images|leads nowhere"):
        Batch.load({"results": "link"}, work)


def test_results_hold_no_image_of_a_sheet(work):
    (work / "raw").rename(work / "images")
    sheet(work, row("A").replace("raw/", "images/"))
    with pytest.raises(ConfigError, match="shares a directory with raw images"):
        Batch.load({"results": "images"}, work)
    assert Batch.load({"results": "raw"}, work).pairs


def test_a_pixel_size_of_no_microscope_is_named(tmp_path):
    for sample, size in (("A", 0.325), ("B", 325), ("C", 325)):
        options = {"imagej": True, "resolution": (1 / size,) * 2, "metadata": {"unit": "um"}}
        add_pair(tmp_path, sample, post=GREY | options)
    (note,) = Batch.load({}, tmp_path).notes
    assert note.startswith(f"{tmp_path}/raw/B/B_post_SYTO9.tif and 1 more: a pixel of 325 um is")


def test_two_pairs_of_the_same_files_are_named(work):
    for role in ("pre", "post"):
        link = work / "raw" / "C" / f"C_{role}_SYTO9.tif"
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(work / "raw" / "A" / f"A_{role}_SYTO9.tif")
    (note,) = Batch.load({}, work).notes
    assert note.startswith("A SYTO9, C SYTO9 read the same two images, so they are not replicates")


def test_a_file_where_results_should_be_is_a_config_error_before_any_header(work):
    (work / "out").write_text("")
    for results in ("out", "out/deep/down"):
        with pytest.raises(ConfigError, match=f"{work / 'out'} is a file, so no results"):
            Batch.load({"results": results}, work)
    assert not (work / CACHE).exists()


@pytest.mark.parametrize("target", ["results", "nowhere"])
def test_a_link_that_leads_nowhere_in_the_place_of_results_is_a_config_error(work, target):
    (work / "results").symlink_to(target)
    with pytest.raises(ConfigError, match=r"results is a link that leads nowhere, so no results"):
        Batch.load({}, work)


@pytest.fixture
def as_other_user():
    """A directory that another user may look through, and the rights of that user."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    own = os.geteuid()

    @contextmanager
    def other():
        if own == 0:
            os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(own)

    yield place, other
    subprocess.run(["chmod", "-R", "u+rwx", place], check=True)
    shutil.rmtree(place)


@pytest.mark.parametrize("mode", [0o444, 0o000, 0o111])
@pytest.mark.parametrize("how", ["names", "sheet"])
def test_a_folder_that_may_not_be_entered_or_listed_is_a_problem_of_its_own(
    as_other_user, mode, how
):
    work, other = as_other_user
    for sample in ("A", "B"):
        add_pair(work, sample)
    folder = work / "raw" / "B"
    (folder / "inner").mkdir()
    if how == "sheet":
        (work / "config").mkdir()
        sheet(work, row("A"), row("B"))
    folder.chmod(mode)
    with other():
        batch = Batch.load({}, work)
        app = Workplace(work)
        assert len(app.find_pairs(app.settings()).pairs) in (1, 2)
        assert len(images_below(work / "raw", 2, 99)) in (2, 4)
    if how == "sheet" and mode == 0o111:  # it may be entered, and the sheet names what is there
        assert len(batch.pairs) == 2
        return
    assert [sample for sample, _ in batch.pairs] == ["A"]
    sentences = [problem.message for problem in batch.problems]
    assert sentences
    for sentence in sentences:
        assert "raw/B" in sentence
        assert re.search("[Pp]ermission|the right to read it", sentence)


@pytest.mark.parametrize("cell", ["~nouser/a.tif", "~/a.tif", "loop/a.tif", "loop"])
@pytest.mark.parametrize("column", ["pre", "landmarks"])
def test_a_path_that_leads_nowhere_is_a_problem_of_its_row(work, monkeypatch, cell, column):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", lambda _: {}["nobody knows this user"])
    (work / "loop").symlink_to("loop")
    images = {"pre": "raw/A/A_pre_SYTO9.tif", "post": "raw/A/A_post_SYTO9.tif", "landmarks": ""}
    rows = ["\t".join(["sample", "dye", *images]), "\t".join(["A", "SYTO9", *images.values()])]
    rows.append("\t".join(["B", "SYTO9", *(images | {column: cell}).values()]))
    path = work / "config" / "samples.tsv"
    path.parent.mkdir()
    path.write_text("\n".join(rows))
    batch = Batch.load({}, work)
    assert [sample for sample, _ in batch.pairs] == ["A"]
    (problem,) = batch.problems
    assert f"samples.tsv, line 3, column '{column}': " in problem.message


@pytest.mark.parametrize("place", ["w{1}", "a/<temp>/b"])
@pytest.mark.parametrize("key", ["raw", "results"])
def test_a_directory_that_snakemake_would_fill_in_is_one_config_error(work, key, place):
    with pytest.raises(ConfigError, match="Snakemake would replace") as caught:
        Batch.load({key: place}, work)
    assert str(caught.value).startswith(f"config key '{key}' is '{place}'")


def test_parsing_again_opens_nothing_and_a_changed_file_is_seen(work):
    Batch.load({}, work)
    stored = json.loads((work / CACHE).read_text())
    assert len(stored["headers"]) == 4
    before = (work / CACHE).stat().st_mtime_ns
    Batch.load({}, work)
    assert (work / CACHE).stat().st_mtime_ns == before
    write(work / "raw" / "B" / "B_pre_SYTO9.tif", (64, 64))
    assert Batch.load({}, work).headers["B", "SYTO9"][1].shape == (64, 64)


def test_parsing_needs_neither_images_nor_the_libraries_of_the_jobs(work):
    heavy = {"cv2", "matplotlib", "scipy", "zarr"}
    code = (
        "import sys; from unglow.workflow import job_params, job_resources;"
        "from unglow.workflow.batch import Batch; b = Batch.load({});"
        "job_resources.mem_mb(b, 'align', {'sample': 'A', 'dye': 'SYTO9'}, 2);"
        "job_params.summary_entries(b, {}, 'logs');"
        f"print(sorted(m for m in sys.modules if m in {heavy!r}))"
    )
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, cwd=work, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ------------------------------------------------------------------------------------ sample sheet


def test_the_default_sheet_goes_before_the_raw_directory_and_a_named_one_before_both(work):
    sheet(work, row("A"))
    assert list(Batch.load({}, work).pairs) == [("A", "SYTO9")]
    sheet(work, row("B"), name="other.tsv")
    batch = Batch.load({"samples": "other.tsv"}, work)
    assert list(batch.pairs) == [("B", "SYTO9")]
    assert batch.source == work / "other.tsv"


def test_channel_and_manual_scale_of_the_sheet_win_over_the_configuration(work):
    sheet(work, row("A", channel="R", gain="1.25"), row("B"))
    batch = Batch.load({"channel": "G+B", "scale": {"manual": 3.5}}, work)
    a, b = (batch.pairs[s, "SYTO9"] for s in "AB")
    assert (channel_of(a, batch.settings), channel_of(b, batch.settings)) == ("R", "G+B")
    assert manual_gain(a, batch.settings) == 1.25
    assert manual_gain(b, batch.settings) == 3.5


def test_methods_are_those_of_the_configuration_and_manual_where_a_gain_is_given(work):
    sheet(work, row("A", gain="1.25"), row("B"))
    batch = Batch.load({}, work)
    assert scale_methods(batch, names("A")) == ("linear", "moffat", "percentile", "manual")
    assert scale_methods(batch, names("B")) == ("linear", "moffat", "percentile")
    everywhere = Batch.load({"scale": {"manual": 2, "methods": ["manual", "moffat"]}}, work)
    assert scale_methods(everywhere, names("A")) == ("manual", "moffat")
    assert scale_methods(everywhere, names("B")) == ("manual", "moffat")


@pytest.mark.parametrize(
    ("scale", "key"),
    [
        ({"methods": ["moffat", "manual"]}, "scale.methods"),
        ({"default": "manual"}, "scale.default"),
    ],
)
def test_manual_without_a_gain_names_the_pair_that_lacks_it(work, scale, key):
    sheet(work, row("A", gain="1.25"), row("B"))
    with pytest.raises(ConfigError) as caught:
        Batch.load({"scale": scale}, work)
    assert str(caught.value) == (
        f"config key '{key}' holds manual but no gain is given: set 'scale.manual', or "
        "manual_scale for B SYTO9 in the sample sheet."
    )
    assert Batch.load({"scale": scale | {"manual": 2.0}}, work).pairs
    sheet(work, row("A", gain="1.25"), row("B", gain="1"))
    assert "manual" in scale_methods(Batch.load({"scale": scale}, work), names("B"))


@pytest.mark.parametrize(
    "sweep",
    [
        {"scale.default": ["moffat", "manual"]},
        {"scale.methods": [["moffat"], ["moffat", "manual"]]},
    ],
)
def test_manual_without_a_gain_in_one_variant_is_found_as_well(work, sweep):
    with pytest.raises(ConfigError, match="holds manual but no gain is given"):
        Batch.load({"sweep": sweep}, work)


def test_swept_values_that_do_not_fit_each_other_are_refused_together(work):
    sweep = {
        "scale.methods": [["moffat"], ["moffat", "percentile"]],
        "scale.default": ["moffat", "percentile"],
    }
    with pytest.raises(ConfigError) as caught:
        Batch.load({"sweep": sweep}, work)
    assert "combines scale.default 'percentile' with scale.methods moffat" in str(caught.value)
    sweep["scale.methods"].pop(0)
    assert Batch.load({"sweep": sweep}, work).pairs


# ------------------------------------------------------------------------------- variants, entries


def test_without_a_sweep_each_pair_is_one_entry(work):
    first, second = entries_of(Batch.load({}, work))
    assert first.names["sample"] == "A"
    assert {first.names[level] for level in VARIANT} == {""}
    names = ("details/plan", "transform", "scale", "details/detection")
    assert first.files == tuple(f"A/SYTO9/{name}.json" for name in names)
    assert first.histogram == "A/SYTO9/details/difference.histogram.npz"
    assert first.logs == "logs/A/SYTO9"
    assert (second.names["sample"], second.logs) == ("B", "logs/B/SYTO9")


# ----------------------------------------------------------------------------- layouts and demands


@pytest.mark.parametrize(
    ("channel", "dtypes"),
    [("auto", ("uint16", "uint8")), ("G", ("uint8", "uint8")), ("R+G", ("uint16", "uint8"))],
)
def test_the_stored_dtype_follows_from_header_and_channel(tmp_path, channel, dtypes):
    post = read_header(write(tmp_path / "post.tif", (96, 80, 3)))
    pre = read_header(write(tmp_path / "pre.tif", (90, 70)))
    made = plan_layouts(post, pre, channel)
    assert (made["post"].dtype, made["pre"].dtype) == dtypes
    assert (made["post"].shape, made["pre"].shape) == ((96, 80), (90, 70))
    assert (made["derived"].dtype, made["derived"].shape) == ("float32", (96, 80))


def test_alpha_makes_no_sum(tmp_path):
    options = {"extrasamples": ["unassalpha"], "photometric": "minisblack"}
    header = read_header(write(tmp_path / "a.tif", (64, 64, 2), **options))
    assert [c.alpha for c in header.channels] == [False, True]
    assert plan_layouts(header, header, "auto")["post"].dtype == "uint8"


def test_strips_get_bands_under_100_mb_and_tiles_get_squares(tmp_path):
    wide = (2048, 60000)
    strips = header(tmp_path / "strips.tif", wide, rowsperstrip=64)
    tiles = header(tmp_path / "tiles.tif", wide, tile=(256, 256))
    made = plan_layouts(strips, tiles, "auto")
    assert made["pre"].shards == (2048, 2048)
    assert made["post"].shards == (512, 2048)
    assert made["post"].shards[0] * 60000 * 2 < 100e6
    assert made["derived"].shards == (2048, 2048)


def test_tiles_as_wide_as_the_image_are_read_as_bands_and_laid_out_so(tmp_path):
    wide = header(tmp_path / "wide.tif", (2048, 60000), tile=(16, 60000))
    assert (wide.layout, wide.preferred) == ("tiles", "rows")
    layout = plan_layouts(wide, wide, "auto")["post"]
    assert layout.shards == (512, 2048)
    # the band of full width that ingest holds is in the demand
    assert stage_memory.ingest(wide, layout).fixed >= 512 * 60000 * 2 / 1e6


def test_budget_threads_and_methods_change_no_layout(work):
    one = Batch.load({}, work)
    other = Batch.load(
        {
            "memory_per_job": 300,
            "scale": {"methods": ["percentile"], "default": "percentile"},
            "register": {"blocks": 25},
            "results": "elsewhere",
        },
        work,
    )
    for sample in "AB":
        for role in ("post", "pre", "derived"):
            assert one.layout(names(sample), role) == other.layout(names(sample), role)


OF_SLIDES = {stage for stage in LIBRARIES_MB if stage.startswith("slide_")}


@pytest.mark.parametrize("stage", sorted(LIBRARIES_MB.keys() - {"ingest"} - OF_SLIDES))
def test_every_stage_has_a_demand(work, stage):
    batch = Batch.load({}, work)
    demand = demand_of(batch, stage, names("B"))
    assert demand.base == LIBRARIES_MB[stage]
    assert mem_mb(batch, stage, names("B"), 2) == demand.peak_mb(2000, 2)
    assert mem_mb(batch, stage, names("B"), 2) > demand.base


@pytest.mark.parametrize(
    ("scale", "written"),
    [
        ({}, ("linear",)),
        ({"default": "moffat"}, ("moffat",)),
        ({"write": ["percentile", "linear"]}, ("linear", "percentile")),
        ({"write": "all"}, ("linear", "moffat", "percentile")),
        ({"methods": ["moffat"], "manual": 1.2, "default": "manual"}, ("manual",)),
    ],
)
def test_differences_of_the_main_method_and_of_those_that_are_asked_for_are_written(
    work, scale, written
):
    batch = Batch.load({"scale": scale}, work)
    assert written_methods(batch, names("A")) == written


def test_an_unknown_method_cannot_be_written(work):
    with pytest.raises(ConfigError, match=r"'scale\.write'"):
        Batch.load({"scale": {"methods": ["linear"], "write": ["percentile"]}}, work)
    with pytest.raises(ConfigError, match=r"'scale\.write'"):
        Batch.load({"scale": {"write": "some"}}, work)


def test_ingest_needs_what_both_images_need(tmp_path):
    big = {"shape": (1500, 1500), "dtype": np.uint16}
    add_pair(tmp_path, "A", post=big, pre={"shape": (900, 900), "dtype": np.uint16})
    batch = Batch.load({}, tmp_path)
    alone = stage_memory.ingest(
        batch.headers["A", "SYTO9"][0], batch.layout({"sample": "A", "dye": "SYTO9"}, "post")
    )
    both = demand_of(batch, "ingest", names("A"))
    assert both.images[0] == alone
    left_mb = 8  # by the first of two in turn
    assert alone.peak_mb(0, 1) + left_mb == both.peak_mb(0, 2) < both.peak_mb(2000, 2)


@pytest.mark.parametrize("stage", sorted(LIBRARIES_MB.keys() - {"export"} - OF_SLIDES))
def test_what_snakemake_hands_over_is_read_as_names_are(work, stage):
    """Its wildcards are a list of values: ``in`` asks for one of them."""
    batch = Batch.load({}, work)
    known = names("B")
    assert demand_of(batch, stage, Wildcards(fromdict=known)) == demand_of(batch, stage, known)


# ----------------------------------------------------------------------------- a part of the pairs


def test_only_the_pairs_that_are_named_are_run_and_their_problems_reported(tmp_path):
    for sample, dye in (("Rock7", "A"), ("Rock7", "B"), ("Rock8", "A")):
        add_pair(tmp_path, sample, dye)
    add_pair(tmp_path, "Rock9", "A", pre=None)
    batch = Batch.load({"only": ["Rock7/*"]}, tmp_path)
    assert batch.keys == [("Rock7", "A"), ("Rock7", "B")]
    assert batch.others == [("Rock8", "A")]
    assert batch.problems == ()
    assert {entry.names["sample"] for entry in entries_of(batch)} == {"Rock7"}
    assert Batch.load({"only": ["Rock?/A"]}, tmp_path).keys == [("Rock7", "A"), ("Rock8", "A")]
    assert len(Batch.load({"only": ["Rock8", "Rock9"]}, tmp_path).problems) == 1


def test_a_map_may_come_from_a_pair_that_is_not_named(tmp_path):
    add_pair(tmp_path, "S", "DAPI")
    add_pair(tmp_path, "S", "FITC")
    batch = Batch.load({"only": ["S/FITC"], "register": {"from": "DAPI"}}, tmp_path)
    assert batch.keys == [("S", "FITC")]
    assert batch.maps_from == {("S", "FITC"): "DAPI"}


def test_a_name_that_matches_nothing_is_reported_with_the_nearest(tmp_path):
    add_pair(tmp_path, "Rock7")
    with pytest.raises(InputError, match=r"'Rok7/\*' matches no pair.*Rock7/SYTO9"):
        Batch.load({"only": ["Rok7/*"]}, tmp_path)
