"""The tables of subtraction, search and honesty, and the page that keeps parts."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from importlib import metadata

import numpy as np
import pytest
from damage.judging import Outcome
from evidence import command, finding, honesty, subtraction
from evidence.peers import formulas
from photometry.spots import Score


@pytest.fixture
def image():
    """An image of 200 x 200 px with one background of gain 1.5, offset 40 and squares of signal."""
    rng = np.random.default_rng(5)
    shared = 500 + 300 * np.kron(rng.random((25, 25)), np.ones((8, 8)))
    signal = np.zeros((200, 200))
    signal[40:60, 40:60], signal[100:120, 100:120] = 60.0, 2000.0
    blank = 100 + shared + rng.normal(0, 10, shared.shape)
    pixels = 1.5 * blank + 40 + signal + rng.normal(0, 20, shared.shape)
    return subtraction.Image(
        pixels,
        blank[None],
        pixels,
        blank[None],
        (150.0, 100.0),
        (2, 1),
        signal,
        shared[None],
        np.array([1.5]),
        40.0,
    )


def test_the_noise_is_that_of_a_px_with_the_right_gain(image):
    assert image.noise == pytest.approx(20.0, rel=0.05)


def test_a_perfect_correction_leaves_nothing(image):
    perfect = image.pixels - 1.5 * image.blanks[0] - 40
    same, level, dim, bright, gain = subtraction.judge(image, perfect, image.gains)
    assert abs(same) < 0.06
    assert abs(level) < 0.02
    assert abs(dim) < 6
    assert abs(bright) < 0.2
    assert gain == 0


def test_a_gain_that_is_too_small_leaves_background(image):
    wrong = image.pixels - 1.2 * image.blanks[0] - 40
    same, level, dim, _, gain = subtraction.judge(image, wrong, np.array([1.2]))
    assert same > 0.9
    assert level == pytest.approx(0.3 * np.mean(image.blanks) / image.noise, rel=0.02)
    assert dim > 300
    assert gain == pytest.approx(20.0)


def test_what_is_cut_off_at_0_has_no_correlation(image):
    nothing = np.zeros_like(image.pixels)
    cells = subtraction.write_cells([subtraction.judge(image, nothing, np.array([np.nan]))])
    assert cells == ["all 0", "+0.00", "-100.0", "-100.0", "-"]


def test_the_worst_image_of_a_scene_is_shown():
    each = [(0.1, 0.0, -2.0, 0.1, 1.0), (-0.4, 0.2, 1.0, -0.3, 0.5)]
    assert subtraction.write_cells(each) == ["-0.40", "+0.20", "-2.0", "-0.3", "1.00"]


def test_interpolation_weighs_by_cycle_and_exposure():
    blanks = np.array([np.full((2, 2), 100.0), np.full((2, 2), 40.0)])
    image, exposures, cycles = (
        np.full((2, 2), 200.0),
        np.array([300.0, 100, 200]),
        np.array([2, 1, 5]),
    )
    left, gains = formulas.interpolate(image, blanks, exposures, cycles)
    assert gains == pytest.approx([0.75 * 3, 0.25 * 1.5])
    assert left == pytest.approx(np.zeros((2, 2)))  # 200 - 225 - 15
    left, gains = formulas.interpolate(image, blanks, exposures, cycles, times=False)
    assert gains == pytest.approx([0.75, 0.25])
    assert left == pytest.approx(np.full((2, 2), 115.0))


def test_mutual_information_is_that_of_the_joint_histogram():
    rng = np.random.default_rng(1)
    a, b = rng.random((400, 400)), rng.random((400, 400))
    assert formulas.mutual_information(a, b) < 0.02
    assert formulas.mutual_information(a, a) > 4.0  # ln 64 for 64 equal bins


def test_unmixing_finds_the_gain_of_independent_images():
    rng = np.random.default_rng(2)
    blank, signal = rng.gamma(2, 100, (256, 256)), rng.gamma(2, 100, (256, 256))
    _, gains = formulas.unmix(signal + 0.6 * blank, blank[None])
    assert gains == pytest.approx([0.6], abs=0.05)


def test_a_weighed_blank_never_takes_more_than_the_signal():
    rng = np.random.default_rng(3)
    blank = rng.random((64, 64)) * 1000
    left, gains = formulas.weigh(0.5 * blank, blank[None])
    assert left.min() == 0
    assert np.isnan(gains).all()


def test_lists_of_another_tool_are_judged_at_the_advised_and_the_best_threshold(tmp_path):
    truth = np.array([[10.0, 10.0], [50.0, 50.0]])
    search = finding.Search(np.zeros((4, 4), np.float32), truth, Score(2, 2, 2), 0.05)
    noise = np.array([[90.0, 5 * n] for n in range(6)])
    np.savez(tmp_path / "found.npz", **{"0-1.0": np.vstack([truth, noise]), "0-2.0": truth + 1})
    cells = finding.judge_lists(tmp_path / "found.npz", [search])
    assert cells == ["8", "1.000", "0.250", "0.400", "claims nothing", "0.750", "1.000 (2 x)"]


def test_claimed_rates_are_weighted_by_candidates():
    lists = [
        finding.Search(np.zeros(1), np.zeros((0, 2)), Score(count, 0, 0), rate)
        for count, rate in ((30, 0.02), (10, 0.06), (0, float("nan")))
    ]
    assert finding.claimed_of(lists) == pytest.approx(0.03)


OUTCOME = Outcome(
    *("fault-1", "swap", 0, "ok", "", 20, 18, 0, 40, 18, 20), *(0.05, 0.0, 0.0, float("nan"), 0.0)
)


@pytest.mark.parametrize(
    ("changed", "worth"),
    [
        ({}, "right"),
        ({"false": 2}, "right"),  # of 20: chance in 26 of 100 lists
        ({"false": 9}, "**wrong without a word**"),
        ({"found": 4}, "**wrong without a word**"),
        ({"false": 9, "status": "suspect"}, "wrong, reported"),
        ({"found": 0, "true": 0, "status": "failed"}, "none"),
    ],
)
def test_a_list_is_right_reported_or_silent(changed, worth):
    outcome = replace(OUTCOME, **changed)
    assert honesty.write_row(outcome)[-1] == worth
    silent = worth.startswith("**")
    row = honesty.sum_up([outcome], Counter({"failed": 3}), ["**wrong without a word**"])
    count = 3 + (worth != "right")
    assert row[1] == f"{count - silent} of {count} wrong results reported"
    assert row[-1] == "0 of 1 wrong maps reported"


def test_parts_that_are_not_measured_stay_as_they_are(tmp_path, monkeypatch):
    page = tmp_path / "evidence.md"
    kept = command.SECTIONS[0].title
    page.write_text(f"# Evidence\n\nOld.\n\n## {kept}\n\nfirst\n\n| a |\n|---|\n| 1 |\n")
    done = replace(command.SECTIONS[1], measure=lambda options: (f"{options.full}", True))
    monkeypatch.setattr(command, "SECTIONS", (command.SECTIONS[0], done))
    assert command.main(["--only", done.key, "--page", str(page)]) == 0
    parts = command.read_parts(page)
    assert list(parts) == [kept, done.title]
    assert parts[kept] == "first\n\n| a |\n|---|\n| 1 |"
    assert "\n\nFalse\n\n" in parts[done.title]
    assert "Old." not in page.read_text()


def test_a_part_says_how_it_was_measured(tmp_path, monkeypatch, capsys):
    section = replace(command.SECTIONS[0], measure=lambda _: ("| a |", True), after="Words after.")
    monkeypatch.setattr(command, "SECTIONS", (section,))
    page = tmp_path / "evidence.md"
    assert command.main(["--full", "--only", section.key, "--page", str(page)]) == 0
    *_, table, how, after = command.read_parts(page)[section.title].split("\n\n")
    assert (table, after) == ("| a |", "Words after.")
    how = " ".join(how.split())
    assert f'`make evidence ARGS="--only {section.key} --full"`' in how
    assert f"Python {platform.python_version()}, snakemake {metadata.version('snakemake')}" in how
    assert re.search(r"\d min of CPU, [\d.]+ min with a load of \d+ on \d+ processors \(", how)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["part", section.key, "all"]


def test_times_of_parts_are_added_up():
    rows = [("gain", 1.0, 2.0), ("cost", 0.5, 0.25)]
    lines = [line.split() for line in command.table_of_times(rows).splitlines()]
    assert lines[1:] == [
        ["gain", "1.00", "2.00"],
        ["cost", "0.50", "0.25"],
        ["all", "1.50", "2.25"],
    ]


def test_processor_time_has_that_of_commands_that_ended():
    before = command.cpu_seconds()
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    assert command.cpu_seconds() > before


def test_a_part_that_stops_fails_the_command(tmp_path, monkeypatch):
    failing = replace(command.SECTIONS[2], measure=lambda _: ("", False))
    monkeypatch.setattr(command, "SECTIONS", (failing,))
    assert command.main(["--page", str(tmp_path / "evidence.md")]) == 1


def test_tools_that_are_not_there_say_why(tmp_path, image):
    slide = subtraction.Scene("slide", tmp_path, [image], ["M01"])
    missing = {tool.name: tool.missing for tool in subtraction.list_removers(tmp_path, slide)}
    assert missing["Backsub 0.5.2"] == "no environment backsub"
    assert missing["SAIBR 0.1.6, without one"] == "no environment saibr"
    pair = subtraction.Scene("pair", tmp_path, [image])
    missing = {tool.name: tool.missing for tool in subtraction.list_removers(tmp_path, pair)}
    assert missing["Backsub 0.5.2"] == "needs exposure times"
    assert missing["PICASSO (formula)"] == ""


def test_the_cost_of_a_run_is_that_of_the_command_and_its_largest_job():
    rules = [{"peak_mb": 90.0, "declared_mb": 120.0}, {"peak_mb": 200.0, "declared_mb": 250.0}]
    run = {
        "case": {"rows": 1000, "cols": 2000, "dtype": "uint8"},
        "pair": {"pixels": 4_000_000},
        "floor": {"read_s": 0.1, "write_s": 0.4},
        "rules": rules,
        "wall_s": 20.0,
        "cpu_s": 30.0,
    }
    row = command.write_cost(run)
    assert row == ["1000 x 2000 px, uint8", "4.0", "20.0", "30.0", "200", "250", "5.000", "40.0"]
