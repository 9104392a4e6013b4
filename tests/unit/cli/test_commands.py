"""The command line: init and survey on real small TIFFs and slides, and how errors end."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import tifffile
import yaml
import zarr
from metadata_slides import comet, macsima, qptiff, write_ome
from raw_slides import TABLE, ome, pair, slide

from unglow import __version__
from unglow.cli import COMMANDS, MODES, inventory, main
from unglow.cli.export import image_names
from unglow.cli.init import config_text
from unglow.core.errors import InputError
from unglow.slides.rules import SLIDES
from unglow.workflow import config as configuration
from unglow.workflow.batch import Batch
from unglow.workflow.samples.sheet import read_sheet


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with one good pair in raw/S1."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "raw" / "S1"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    image = np.zeros((300, 200, 3), np.uint8)
    image[50:250, 30:170, 1] = rng.integers(40, 200, (200, 140))
    image[0, :20, 1] = 255
    resolution = (20000, 20000)  # px per cm: 0.5 micrometres
    for role in ("pre", "post"):
        tifffile.imwrite(
            folder / f"{role}_DAPI.tif", image, photometric="rgb", compression="zlib",
            tile=(64, 64), resolution=resolution, resolutionunit="CENTIMETER", description=role,
        )  # fmt: skip
    return tmp_path


def test_survey(here, capsys):
    assert main(["survey"]) == 0
    out = capsys.readouterr().out
    assert "raw: 1 sample folder" in out
    for shown in ("300 x 200", "uint8", "tiles 64 x 64", "deflate", "0.5", "G *", "0.033 %"):
        assert shown in out
    assert "S1 DAPI: G carries 100 % of the signal." in out
    assert out.endswith("1 pair can be processed; no problems.\n")
    assert max(map(len, out.splitlines())) <= 100


def test_status_as_json(here, capsys):
    assert main(["status", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["run"]) == (1, None)
    (pair,) = found["pairs"]
    assert (pair["sample"], pair["dye"]) == ("S1", "DAPI")
    assert (pair["status"], pair["done"]) == ("waiting", 0)


ODD = (None, True, 5, 1e300, "x", "a\0b", [], [1], [["a"]], {}, {"a": 1})
HEAD = ("host", "pid", "started", "boot", "wall", "command", "config", "directory", "results")
COMMANDS_OF_RECORDS = (["status"], ["status", "--json"], ["monitor", "--once"], ["verify"])


@pytest.mark.parametrize("field", HEAD)
def test_a_record_of_other_types_ends_no_command(here, field):
    runs = here / "results" / "telemetry" / "runs"
    runs.mkdir(parents=True)
    head = {"kind": "run", "schema": 1, "host": "a", "pid": 1, "wall": 1.8e9}
    head |= {"directory": str(here), "results": "results", "config": {"raw": "raw"}}
    (runs / "a.jsonl").write_text(json.dumps(head) + "\n")
    for odd in ODD:
        (runs / "b.jsonl").write_text(json.dumps(head | {field: odd}) + "\n")
        for words in COMMANDS_OF_RECORDS:
            assert main(words) in (0, 1, 2), (words, odd)


@pytest.mark.parametrize("words", ["status", "survey", "run --where", "--help", "run -n"])
@pytest.mark.parametrize("how", ["| true", ">&-", "<&- >&- 2>&-"])
def test_nobody_reads_the_output(here, words, how):
    command = f"{sys.executable} -Pm unglow {words} {how}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if how != "| true":
        assert done.returncode == 0 or words == "survey"


def test_survey_as_json(here, capsys):
    assert main(["survey", "raw", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    post, pre = report["files"]
    assert (post["role"], pre["role"]) == ("post", "pre")
    assert post["shape"] == [300, 200]
    assert post["file_bytes"] == (here / "raw/S1/post_DAPI.tif").stat().st_size
    assert post["pixel_size_um"] == pytest.approx([0.5, 0.5])
    assert post["stored_dtype"] == "uint16"
    green = post["channels"][1]
    image = tifffile.imread(here / "raw/S1/post_DAPI.tif")
    assert (green["min"], green["max"]) == (0.0, 255.0)
    assert green["mean"] == pytest.approx(image[..., 1].mean())
    assert green["saturated"] == pytest.approx(20 / 60000)
    assert [c["chosen"] for c in post["channels"]] == [False, True, False]
    (pair,) = report["pairs"]
    assert pair["chosen"]["indices"] == {"post": [1], "pre": [1]}
    assert report["problems"] == []


def test_survey_of_bad_files_goes_on_and_ends_with_1(here, capsys):
    folder = here / "raw" / "S2"
    folder.mkdir()
    good = (here / "raw/S1/pre_DAPI.tif").read_bytes()
    for name, data in {
        "pre_A.tif": good, "post_A.tif": b"",
        "pre_B.tif": good, "post_B.tif": good[: len(good) // 2],
        "pre_C.tif": good, "post_C.tif": b"not a TIFF at all",
        "pre_D.tif": good,
    }.items():  # fmt: skip
        (folder / name).write_bytes(data)
    tifffile.imwrite(folder / "pre_E.tif", np.zeros((90, 80), np.uint16))
    (folder / "post_E.tif").write_bytes(good)
    assert main(["survey"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "S1 DAPI: G carries" in out
    assert "Skipped (5)" in out
    for name in ("post_A.tif", "post_B.tif", "post_C.tif", "post_D.tif", "pre_E.tif"):
        assert name in out
    assert "1 pair can be processed; 5 skipped." in out


def test_survey_looks_at_an_image_once_whatever_names_it(here, monkeypatch, capsys):
    looked = []
    real = inventory.survey_blocks
    monkeypatch.setattr(inventory, "survey_blocks", lambda *a: looked.append(a[0].path) or real(*a))
    pre, post = (next((here / "raw" / "S1").glob(f"*{role}*.tif")) for role in ("pre", "post"))
    rows = [f"s{i}\tX\t{pre}\t{post}" for i in range(20)]
    sheet = here / "many.tsv"
    sheet.write_text("\n".join(["sample\tdye\tpre\tpost", *rows]))
    assert main(["survey", "--sheet", str(sheet)]) == 0
    assert len(looked) <= 4  # figures of each, and whether it is bright-field
    assert "20 pairs can be processed" in capsys.readouterr().out


def test_survey_decodes_nothing_that_is_above_the_memory_of_a_job(here, monkeypatch, capsys):
    monkeypatch.setattr(inventory, "survey_blocks", lambda *_: pytest.fail("was decoded"))
    for path in (here / "raw").rglob("*.tif"):
        path.unlink()
        store = path.with_suffix(".zarr")
        group = zarr.open_group(str(store), mode="w", zarr_format=2)
        group.create_array("0", data=np.zeros((200, 300), np.uint16), chunks=(100, 100))
        group.attrs["multiscales"] = [{"axes": ["y", "x"], "datasets": [{"path": "0"}]}]
        document = json.loads((store / "0" / ".zarray").read_text())
        (store / "0" / ".zarray").write_text(json.dumps(document | {"chunks": [20_000, 20_000]}))
    (here / "config").mkdir(exist_ok=True)
    (here / "config" / "config.yaml").write_text("memory_per_job: 300\n")
    assert main(["survey"]) == 1
    assert "or raise memory_per_job (now 300 MB)" in " ".join(capsys.readouterr().out.split())


def test_survey_without_raw_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["survey"]) == 1
    assert "`unglow phantom`" in capsys.readouterr().out


def test_survey_looks_where_the_workflow_would(here, capsys):
    (here / "raw").rename(here / "images")
    (here / "config").mkdir()
    (here / "config" / "config.yaml").write_text("raw: images\nchannel: R\n")
    assert main(["survey"]) == 0
    assert "R is set by `channel`." in capsys.readouterr().out
    assert main(["survey", "--channel", "B"]) == 0
    assert "B is set by `channel`." in capsys.readouterr().out
    sheet = here / "config" / "samples.tsv"
    sheet.write_text(
        "sample\tdye\tpre\tpost\tchannel\n"
        "T\tX\timages/S1/pre_DAPI.tif\timages/S1/post_DAPI.tif\tG\n"
    )
    assert main(["survey"]) == 0
    assert "T X: G is set by `channel`." in capsys.readouterr().out
    (here / "config" / "config.yaml").write_text("raw: [\n")
    assert main(["survey"]) == 2
    assert "config/config.yaml, line 2: this is not YAML" in capsys.readouterr().err


def test_init_writes_config_and_sheet_that_work(here, capsys):
    (here / "raw" / "S1" / "scan_Cy3.tif").write_bytes(b"")
    assert main(["init", "raw"]) == 1
    out = capsys.readouterr().out
    assert "Written: config/config.yaml, config/samples.tsv" in out
    assert "Skipped (1)" in out
    written = (here / "config" / "config.yaml").read_text()
    assert configuration.load(yaml.safe_load(written)) == configuration.load({})
    sheet = here / "config" / "samples.tsv"
    assert "# skipped: raw/S1/scan_Cy3.tif" in sheet.read_text()
    (pair,) = read_sheet(sheet, base=here).pairs
    assert pair.pre == here / "raw" / "S1" / "pre_DAPI.tif"


def test_init_takes_two_images_of_two_channels_for_a_pair_and_writes_no_table(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for word in ("before", "after"):
        ome(tmp_path / f"raw/S 1/S 1 DAPI+GFP {word}.ome.tif", ("DAPI", "GFP"))
    assert main(["init", "raw"]) == 0
    (pair,) = read_sheet(tmp_path / "config/samples.tsv", base=tmp_path).pairs
    assert (pair.sample, pair.dye) == ("S 1", "DAPI+GFP")
    assert not list((tmp_path / "raw").rglob("markers.csv"))


def test_init_keeps_a_link_to_the_images_and_says_what_is_next(here, capsys):
    (here / "raw").rename(here / "elsewhere")
    (here / "work").mkdir()
    (here / "work" / "raw").symlink_to(here / "elsewhere")
    assert main(["init", "work/raw", "--directory", "work"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "Next: `unglow run -n --directory work` shows what a run would do and take."
    written = yaml.safe_load((here / "work" / "config" / "config.yaml").read_text())
    assert written["raw"] == "raw"
    assert main(["init", "elsewhere", "--directory", "work", "--force"]) == 0
    written = yaml.safe_load((here / "work" / "config" / "config.yaml").read_text())
    assert written["raw"] == str(here / "elsewhere")


def test_init_overwrites_only_on_request(here, capsys):
    (here / "config").mkdir()
    (here / "config" / "samples.tsv").write_text("mine")
    assert main(["init", "raw"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("unglow init: config/samples.tsv is there already; use --force")
    assert not (here / "config" / "config.yaml").exists()
    assert (here / "config" / "samples.tsv").read_text() == "mine"
    assert main(["init", "raw", "--force"]) == 0
    assert "S1\tDAPI" in (here / "config" / "samples.tsv").read_text()


def test_init_for_another_working_directory(here, tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    assert main(["init", "raw", "--directory", str(work)]) == 0
    settings = yaml.safe_load((work / "config" / "config.yaml").read_text())
    assert settings["raw"] == str(here / "raw")
    assert len(read_sheet(work / "config" / "samples.tsv", base=work).pairs) == 1


def test_init_without_pairs_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    assert main(["init", "raw"]) == 1
    assert "Nothing written" in capsys.readouterr().out
    assert not (tmp_path / "config").exists()


def test_the_written_configuration_explains_every_key():
    text = config_text("my images")
    assert yaml.safe_load(text)["raw"] == "my images"
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if line.strip() and not line.strip().startswith("#"):
            assert lines[i - 1].strip().startswith("#"), line
    assert max(map(len, lines)) <= 100


def test_version_help_and_mistakes(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"unglow {__version__}\n"
    assert main([]) == 2
    shown = capsys.readouterr().out
    for command in COMMANDS:
        assert command in shown
    for bad in (["nope"], ["survey", "--nope"], ["survey", "raw", "--sheet", "x"], ["init"]):
        with pytest.raises(SystemExit) as end:
            main(bad)
        assert end.value.code == 2
    capsys.readouterr()
    assert main(["survey", "--sheet", "nope.tsv"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("unglow survey: the sample sheet nope.tsv cannot be read")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["staus"], "unglow: no command staus; did you mean 'status'?"),
        (["xyzzyq", "-c1"], "unglow: no command xyzzyq; see `unglow --help`."),
        (
            ["compare", "--tabel=x", "a"],
            "unglow compare: no option --tabel; did you mean '--table'?",
        ),
        (["status", "--qqqqqq"], "unglow status: no option --qqqqqq; see `unglow status --help`."),
    ],
)
def test_a_misspelt_command_or_option_is_answered_in_one_line(words, line, capsys):
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert capsys.readouterr().err == f"{line}\n"


@pytest.mark.parametrize("columns", ["80", "100"])
def test_help_has_a_line_for_each_command(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert all([name, about] in shown for name, (_, about) in COMMANDS.items())
    assert len(COMMANDS) <= 16


@pytest.mark.parametrize(
    ("words", "lacking"), [(["a.ome.zarr"], "the format"), (["--fits", "a.fits"], "what to export")]
)
def test_export_says_what_is_missing_and_what_it_can_do(words, lacking, capsys):
    assert main(["export", *words]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"unglow export: {lacking} is missing: stores go to --tiff, ")
    assert "usage:" not in message


@pytest.mark.parametrize("command", [*COMMANDS, *map(" ".join, MODES)])
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([*command.split(), "--help"])
    assert end.value.code == 0
    assert f"usage: unglow {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        ("--help", ("numpy", "tifffile", "jsonschema", "cv2", "yaml")),
        ("survey", ("cv2", "matplotlib", "scipy", "zarr")),
    ],
)
def test_a_command_imports_nothing_heavy_that_it_does_not_need(here, command, heavy):
    code = (
        "import sys; from unglow.cli import main\n"
        f"try: main([{command!r}])\n"
        "except SystemExit: pass\n"
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]")


def test_export_names_images_by_their_differences(tmp_path):
    stores = [tmp_path / "S 1" / dye / "post.ome.zarr" for dye in ("A", "B")]
    assert image_names(stores) == {"A_post": stores[0], "B_post": stores[1]}
    assert image_names(stores[:1]) == {"post": stores[0]}
    other = tmp_path / "S2" / "A" / "post.ome.zarr"
    assert list(image_names([stores[0], other])) == ["S-1_A_post", "S2_A_post"]
    with pytest.raises(InputError, match=r"post\.ome\.zarr"):
        image_names([stores[0], stores[0]])


CHANNELS = [
    *(("DAPI", "DAPI", 0, 20), ("TRITC", "TRITC", 0, 400)),
    *(("DAPI", "DAPI", 1, 20), ("CD3", "TRITC", 1, 200)),
]


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_slide_gets_a_table_and_a_background_on_request(empty, capsys):
    comet(empty / "raw/s1/a.ome.tif", CHANNELS)
    table = empty / "raw/s1/markers.csv"
    assert main(["init", "raw"]) == 1
    assert table.read_text() == (
        "channel_number,cycle_number,marker_name,Filter,background,exposure,remove\n"
        "1,1,DAPI,DAPI,,20,\n2,1,TRITC,TRITC,,400,\n3,2,DAPI_1,DAPI,,20,\n4,2,CD3,TRITC,,200,\n"
    )
    out = capsys.readouterr().out
    for shown in ("COMET OME-XML", "nearest-earlier", "same-cycle", "first-and-last"):
        assert shown in out
    assert "`unglow init raw --background RULE`" in out
    config = empty / "config/config.yaml"
    config.write_text("raw: raw\n# mine\n")
    assert main(["init", "raw", "--background", "nearest-earlier"]) == 0
    assert "# mine" in config.read_text()
    assert "Taken for blanks: TRITC." in capsys.readouterr().out
    known = Batch.load({}, empty, SLIDES).slides["s1"].slide
    assert known.subtracted == {"CD3": "TRITC"}
    assert [one.exposure for one in known.channels] == [20, 400, 20, 200]
    assert (empty / "raw/s1/markers.csv.before").read_text().endswith("4,2,CD3,TRITC,,200,\n")
    filled = table.read_text()
    assert main(["init", "raw", "--background", "first-and-last"]) == 0  # it names one already
    assert table.read_text() == filled
    assert "first-and-last" not in capsys.readouterr().out


def test_a_rule_that_finds_nothing_changes_nothing(empty, capsys):
    comet(empty / "raw/s1/a.ome.tif", CHANNELS)
    main(["init", "raw"])
    before = (empty / "raw/s1/markers.csv").stat()
    assert main(["init", "raw", "--background", "same-cycle"]) == 1
    assert "No background found for: CD3." in capsys.readouterr().out
    assert (empty / "raw/s1/markers.csv").stat().st_mtime_ns == before.st_mtime_ns
    assert not (empty / "raw/s1/markers.csv.before").exists()


def test_files_of_a_macsima_are_channels_of_their_cycles(empty):
    for n, (marker, kind, cycle) in enumerate(
        [("DAPI", "S", 0), ("CD3", "B", 0), ("CD3", "S", 0), ("CD4", "B", 1), ("CD4", "S", 1)]
    ):
        values = {"Biomarker": marker, "Fluorochrome": "APC", "Cycle": cycle, "ScanType": kind}
        macsima(empty / f"raw/s1/C{n}.ome.tif", {**values, "ExposureTime": 40 + n})
    assert main(["init", "raw", "--background", "same-cycle"]) == 0
    assert not (empty / "raw/s1/markers.csv.before").exists()  # there was none
    known = Batch.load({}, empty, SLIDES).slides["s1"].slide
    assert known.subtracted == {"CD3": "CD3_background", "CD4": "CD4_background"}
    assert [(one.image, one.cycle) for one in known.channels] == [
        *((0, 1), (1, 1), (2, 1), (3, 2), (4, 2))
    ]


def test_a_qptiff_without_exposure_times_leaves_them_empty(empty, capsys):
    pages = [{"Biomarker": name, "Name": "Cy5"} for name in ("Blank", "CD3")]
    qptiff(empty / "raw/s1/a.qptiff", [*pages, {"Name": "CD8", "IsUnmixedComponent": "True"}])
    assert main(["init", "raw", "--background", "nearest-earlier"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Not in the metadata, so empty: exposure; cycle_number; Filter of CD8." in out
    assert "from CD8 already" in out
    known = Batch.load({}, empty, SLIDES).slides["s1"].slide
    assert known.subtracted == {"CD3": "Blank"}
    assert known.channel("CD3").exposure is None


def test_only_slides_without_a_table_get_one(empty, capsys):
    slide(empty, "s1")  # has a table
    pair(empty)
    # two images of one channel are a pair whose names lack pre and post
    for name in ("a_DAPI", "b_DAPI"):
        write_ome(empty / f"raw/p2/{name}.ome.tif", [("DAPI", None)])
    macsima(empty / "raw/p4/a_APC.ome.tif", {"Biomarker": "CD3", "ScanType": "S"})
    # the samples of a colour image are not channels of a slide
    colour = np.zeros((96, 128, 3), np.uint8)
    (empty / "raw/p3").mkdir()
    tifffile.imwrite(empty / "raw/p3/a_HE.ome.tif", colour, metadata={"Channel": {"Name": "HE"}})
    assert main(["init", "raw"]) == 1
    assert (empty / "raw/s1/markers.csv").read_text() == TABLE
    assert sorted(path.parent.name for path in empty.glob("raw/*/markers.csv")) == ["s1"]
    assert "names no background" not in capsys.readouterr().out
