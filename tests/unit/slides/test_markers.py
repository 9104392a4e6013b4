"""Tables of markers: all their forms, and what is wrong with them by line and column."""

from __future__ import annotations

import pytest

from unglow.core.errors import InputError
from unglow.slides.markers import number_repeated, read_markers, set_backgrounds

HEAD = "channel_number,cycle_number,marker_name,background,exposure,remove"
GOOD = f"{HEAD}\n1,1,DAPI,,20,\n2,1,AF,,100,TRUE\n3,2,CD3,AF,150,\n"


@pytest.fixture
def table(tmp_path):
    def write(text, coding="utf-8"):
        path = tmp_path / "markers.csv"
        path.write_bytes(text.encode(coding))
        return path

    return write


def list_values(markers):
    return [(m.name, m.cycle, m.background, m.exposure, m.removed) for m in markers]


def test_a_table_as_backsub_has_it(table):
    assert list_values(read_markers(table(GOOD))) == [
        ("DAPI", 1, None, 20.0, False),
        ("AF", 1, None, 100.0, True),
        ("CD3", 2, "AF", 150.0, False),
    ]


@pytest.mark.parametrize(
    ("text", "coding"),
    [
        (GOOD.replace(",", ";"), "utf-8-sig"),
        (GOOD.replace(",", "\t"), "utf-16"),
        (GOOD.replace("\n", "\r\n").replace(",20,", ",20.0,NaN") + ",,,,,\n", "utf-8"),
        (GOOD.replace("marker_name", "Marker_Name").replace("background", " Background "), "utf-8"),
    ],
)
def test_what_spreadsheets_make_of_a_table_is_the_same_table(table, text, coding):
    path = table(text, coding)
    assert list_values(read_markers(path)) == list_values(read_markers(table(GOOD)))


def test_a_channel_called_like_an_empty_cell_is_no_background(table):
    named = GOOD.replace("AF", "NA")
    with pytest.raises(InputError, match=r"line 4, column background: 'NA' means that there is no"):
        read_markers(table(named))
    kept = read_markers(table(named.replace("NA,150", "DAPI,150")))
    assert [m.name for m in kept] == ["DAPI", "NA", "CD3"]


def test_the_older_form_names_backgrounds_by_their_filter(table):
    text = (
        "cycle_number,marker_name,Filter,background,exposure\n1,DAPI,DAPI,FALSE,20\n"
        "1,AF488,FITC,TRUE,100\n1,AF647,Cy5,TRUE,100\n2,CD3,FITC,,150\n2,CD8,Cy5,false,150\n"
    )
    found = {m.name: m.background for m in read_markers(table(text))}
    assert found == {"DAPI": None, "AF488": None, "AF647": None, "CD3": "AF488", "CD8": "AF647"}


@pytest.mark.parametrize(
    ("wrong", "right", "sentence"),
    [
        (",AF,150", ",AF1,150", "background: no channel is called 'AF1'; did you mean 'AF'?"),
        (",AF,150", ",CD3,150", "line 4, column background: CD3 is named as its own background;"),
        (",AF,150", ",,150", "names no background, so there is nothing to subtract;"),
        ("2,1,AF", "2,1,DAPI", "line 3, column marker_name: 'DAPI' is already the name in line 2"),
        ("2,1,AF", "2,1,", "line 3, column marker_name: the cell is empty;"),
        (",100,", ",0,", "line 3, column exposure: '0' is no time above 0;"),
        (",100,", ",long,", "line 3, column exposure: 'long' is no time above 0;"),
        ("TRUE", "yes", "line 3, column remove: 'yes' is neither TRUE nor FALSE;"),
        ("3,2,CD3", "3,two,CD3", "line 4, column cycle_number: 'two' is no whole number from 1;"),
        ("3,2,CD3", f"3,{'9' * 5000},CD3", "line 4, column cycle_number: '9999"),
        ("2,1,AF", "1,1,AF", "line 3, column channel_number: 1 follows 1; rows stand for"),
        ("background", "backgroud", "line 1, column 4: there is no column 'backgroud'; did"),
        ("marker_name", "name of it", "line 1: no column marker_name;"),
        ("exposure", "background", "line 1, column 5: 'background' is there twice;"),
        (",150,", ",150,,more", "line 4 has 7 cells for 6 columns;"),
        ("CD3,", '"CD3,', "line 4: the quotation marks do not match;"),
        (",AF,150", ",TRUE,150", "line 4, column background: TRUE says that this channel is"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_reported_with_its_place(table, wrong, right, sentence):
    path = table(GOOD.replace(wrong, right, 1))
    with pytest.raises(InputError) as error:
        read_markers(path)
    assert str(error.value).startswith(str(path))
    assert sentence in str(error.value)
    assert str(error.value)[-1] in ".?"


@pytest.mark.parametrize(
    ("backgrounds", "found"),
    [
        ({"AF": "all"}, {"DAPI": "AF", "AF": None, "CD3": "AF"}),
        ({"AF": ["CD3"]}, {"DAPI": None, "AF": None, "CD3": "AF"}),
        ({"AF": "all", "DAPI": ["CD3"]}, {"DAPI": None, "AF": None, "CD3": "DAPI"}),
    ],
)
def test_a_configuration_names_backgrounds_too(table, backgrounds, found):
    markers = set_backgrounds(read_markers(table(GOOD)), backgrounds)
    assert {m.name: m.background for m in markers} == found


def test_a_name_with_accents_is_the_same_however_it_is_written(table):
    apart, composed = "AFe\u0301", "AF\u00e9"
    text = GOOD.replace("2,1,AF", f"2,1,{apart}").replace(",AF,150", f",{composed},150")
    markers = read_markers(table(text))
    assert [m.background for m in markers] == [None, None, markers[1].name]
    for key in (apart, composed):
        named = set_backgrounds(markers, {key: ["CD3"]})
        assert [m.background for m in named] == [None, None, markers[1].name]
    assert number_repeated([apart, composed])[0] == composed


@pytest.mark.parametrize(
    ("backgrounds", "sentence"),
    [
        ({"Af": ["CD3"]}, "names 'Af', which is no channel; did you mean 'AF'?"),
        ({"AF": ["CD3"], "DAPI": ["CD3"]}, "gives CD3 two backgrounds"),
        ({"AF": "all", "DAPI": "all"}, "gives all to AF and DAPI"),
    ],
)
def test_backgrounds_that_do_not_fit_are_reported(table, backgrounds, sentence):
    with pytest.raises(ValueError, match=sentence.replace("?", r"\?")):
        set_backgrounds(read_markers(table(GOOD)), backgrounds)


@pytest.mark.parametrize("cell", ["9" * 20_000 + "x", '"a\nb"', "x" * 20_000])
def test_a_sentence_about_a_cell_is_one_short_line(table, cell):
    path = table(GOOD.replace("\n3,", f"\n{cell},"))
    with pytest.raises(InputError) as error:
        read_markers(path)
    text = str(error.value)
    assert text.startswith(f"{path}, line 4")
    assert "\n" not in text
    assert len(text) < 700 + len(str(path))
