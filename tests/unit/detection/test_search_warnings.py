"""What makes a list doubtful is said, with its cause and place; a good search has no doubt."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from unglow.core.reasons import split_notes
from unglow.detection.rates import Sides
from unglow.detection.settings import DetectSettings
from unglow.detection.source_photometry import FLAGS, LISTED
from unglow.detection.warnings import (
    check_width,
    find_cluster,
    search_warnings,
    warn_of_dirt,
    warn_of_lines,
)
from unglow.photometry.imaging import NoiseModel
from unglow.spoilt.places import REASONS, Places


def result(bright=(), dark=(), negatives=None, searched_px=10_000_000):
    sides = Sides.create(3.5)
    sides.add(np.array(bright, float), np.array(dark, float))
    if negatives is None:
        negatives = [(100.0 * k, 50.0, snr) for k, snr in enumerate(sorted(dark)[::-1][:20])]
    threshold = sides.choose(0.05)
    found = np.array(negatives, float).reshape(-1, 3)
    return SimpleNamespace(
        sides=sides, negatives=found, threshold=threshold, searched_px=searched_px
    )


def scene(moved=5.0, gain=1.3, post_read=4.0, **settings):
    return SimpleNamespace(
        post=SimpleNamespace(shape=(1000, 1200)),
        transform=SimpleNamespace(map=lambda points: points + moved),
        gain=gain,
        noise=NoiseModel(post_read, 0.0, 1.0, 0.1),
        settings=DetectSettings(**settings),
    )


def places(spoilt=0, below=0.0):
    labels = np.zeros((10, 10), np.int32)
    labels.ravel()[:spoilt] = 1
    reasons = np.full(1 if spoilt else 0, REASONS.index("lost"), np.uint8)
    return Places(32, labels, reasons, reasons.astype("f4"), {}, below, 100)


GOOD = result(bright=np.linspace(4, 30, 100), dark=[3.7, 3.9, 4.2])


def said(found=GOOD, spoilt=None, of=None, step=1.0, pre_step=1.0):
    return search_warnings(found, spoilt or places(), of or scene(), (step, pre_step), (50.0, 40.0))


def test_a_good_search_has_no_doubt():
    assert said() == []


def test_images_that_look_swapped():
    [sentence] = said(result(bright=[8] * 3, dark=np.linspace(7.5, 40, 30)))
    assert sentence.key == "swapped"
    assert "30 against 3" in sentence.numbers


def test_no_threshold_though_both_signs_reach_beyond_the_noise():
    bright, dark = np.linspace(4, 30, 40), np.linspace(4, 90, 40)
    [sentence] = said(result(bright, dark, [(812.0, 576.0, 90.0)]))
    assert sentence.key == "none_listed"
    assert "strongest has 90" in sentence.numbers
    assert sentence.at == (812, 576)
    # without stain there is nothing to find, which casts no doubt
    assert said(result(bright=[3.6, 3.8], dark=[3.7, 4.1])) == []


@pytest.mark.parametrize(
    ("dark", "hiding", "honest"), [(8, 38, 9), (12, 25, 20), (5, 15, 11), (40, 80, 60)]
)
def test_stain_that_dark_sources_hide_is_a_doubt_and_an_honest_empty_list_is_none(
    dark, hiding, honest
):
    """As dust on the sensor does: dark sources as strong as the strongest of the bright ones."""
    of_dust = np.linspace(20, 50, dark)
    [hidden] = said(result(np.linspace(8, 30, hiding), of_dust, [(1.0, 2.0, 50.0)]))
    [honest] = said(result(np.linspace(8, 30, honest), of_dust, [(1.0, 2.0, 50.0)]))
    assert (hidden.key, honest.key) == ("stain_hidden", "none_listed")
    assert split_notes([hidden, honest]) == ([hidden], [honest])


@pytest.mark.parametrize(
    ("widths", "spread", "keys"),
    [
        # a gamma of 0.9, sharpened, a brain in two colours, a phantom
        ({"slope": 3.8, "focus": 2.3, "level": 1.9}, 1.35, ["processed"]),
        ({"slope": 2.1, "focus": 2.9, "level": 0.7}, 1.0, ["processed"]),
        ({"slope": 5.8, "focus": 3.7, "level": 23.0}, 2.3, []),
        ({"slope": 1.4, "focus": 1.4, "level": 0.7}, 1.0, []),
        ({}, 1.0, []),
    ],
)
def test_blocks_of_a_processed_image_depart_from_pre_beyond_its_background(widths, spread, keys):
    noisy = scene()
    noisy.noise = replace(noisy.noise, spread=spread, post_shot=0.1)
    found = said(spoilt=replace(places(), widths=widths), of=noisy)
    assert [one.key for one in found] == keys


@pytest.mark.parametrize(
    ("noise", "keys"),
    [
        (NoiseModel(4e5, 0.0, -2000.0, 8.0, spread=5.0), ["gamma"]),
        (NoiseModel(-60.0, 6.0, 300.0, 0.0, spread=3.0), ["gamma"]),
        (NoiseModel(4e5, 0.0, -2000.0, 8.0, spread=1.0), []),  # the background follows
        (NoiseModel(4e5, 0.0, 4e5, 0.5, spread=5.0), []),  # of neither it is shot noise
        (NoiseModel(-200.0, 7.0, 400.0, 2.0, spread=5.0), []),
    ],
)
def test_noise_that_grows_with_the_level_of_one_image_alone_is_that_of_a_gamma(noise, keys):
    found = search_warnings(
        GOOD, places(), SimpleNamespace(**vars(scene()) | {"noise": noise}), (0.0, 0.0), (5e4, 4e3)
    )
    assert [one.key for one in found] == keys


@pytest.mark.parametrize(
    ("width", "searched", "words"),
    [(8.2, 3.0, "Set detect.fwhm_px: 8.2."), (2.0, 4.0, "Set detect.fwhm_px: 2."), (4.0, 3.0, ""),
     (None, 3.0, "")],
)  # fmt: skip
def test_spots_of_another_width_than_searched_are_a_note(width, searched, words):
    found = check_width(width, searched)
    assert len(found) == bool(words)
    assert all(words in one for one in found)
    assert split_notes(found) == ([], found)


def test_a_threshold_far_beyond_the_noise():
    bright, dark = np.linspace(4, 60, 80), np.linspace(4, 18, 30)
    found = result(bright, dark, [(812.0, 576.0, 18.0)])
    assert found.threshold > 10
    [sentence] = said(found)
    assert f"is a signal-to-noise ratio of {found.threshold:.3g} " in sentence.numbers
    assert "dark spot has 18" in sentence.numbers
    assert sentence.at == (812, 576)


def test_dark_sources_around_one_place():
    dark = [9.0, 8.0, 7.0, 6.5, 6.1, 6.0]
    around = [(500.0 + 30 * k, 400.0, snr) for k, snr in enumerate(dark)]
    crowd = result(np.linspace(5, 60, 400), dark, around)
    [sentence] = said(crowd)
    assert sentence.numbers == "6 of the strongest dark spots lie within 256 px."
    assert sentence.at == (500, 400)
    apart = [(1000.0 * k, 400.0, snr) for k, snr in enumerate(dark)]
    assert said(result(np.linspace(5, 60, 400), dark, apart)) == []
    assert find_cluster(crowd.negatives, None, 256) is None
    # in a small image any two places are near
    assert said(result(np.linspace(5, 60, 400), dark, around, searched_px=200_000)) == []


@pytest.mark.parametrize(("most", "doubtful"), [(0.2, True), (0.3, False)])
def test_more_of_the_section_is_spoilt_than_a_setting_allows(most, doubtful):
    found = said(spoilt=places(25), of=scene(max_spoilt=most))
    assert bool(found) == doubtful
    if doubtful:
        assert found[0].numbers.startswith("25 % (lost 25.0 %)")


def test_post_that_is_cut_off_at_its_dark_end():
    [sentence] = said(spoilt=places(below=0.004))
    assert "0.4 % of the section" in sentence.numbers
    assert said(spoilt=places(below=0.0005)) != []  # the gain is 0.2 % off
    assert said(spoilt=places(below=0.0002)) == []


def test_noise_of_few_grey_levels():
    [sentence] = said(of=scene(post_read=0.16 + 1 / 12))  # what rounding adds is taken off
    assert sentence.numbers.startswith("The noise of post is 0.4 grey levels")
    assert said(of=scene(post_read=0.5**2 + 1 / 12)) != []
    assert said(of=scene(post_read=0.6**2 + 1 / 12)) == []
    assert said(of=scene(post_read=0.16 + 1 / 12), step=0.0) == []  # of floats there are none


def test_steps_of_several_values_and_a_coarser_pre():
    """Noise of pre is 2.2 values."""
    [sentence] = said(pre_step=3.0)
    assert sentence.numbers.startswith("The noise of pre is 0.69 grey levels")
    assert said(pre_step=2.0, step=2.0) == []  # as coarse as post: rounding is equal in both
    [sentence] = said(of=scene(post_read=9.0), pre_step=2.2)
    assert sentence.numbers.startswith("The noise of pre is 0.97 grey levels")


def test_copies_lie_on_each_other_and_are_equally_bright():
    [sentence] = said(of=scene(moved=0.002, gain=1.0001))
    assert "copy" in sentence
    # channels of one acquisition are not moved either
    assert said(of=scene(moved=0.0, gain=0.92)) == []


def as_debris(blocks):
    found = places(blocks)
    return replace(found, reasons=np.full_like(found.reasons, REASONS.index("debris")))


def listed(marked, others):
    rows = np.zeros(marked + others, LISTED)
    rows["flags"][:marked] = FLAGS["stain_or_dirt"]
    return rows


@pytest.mark.parametrize(("blocks", "doubts"), [(0, 0), (2, 0), (3, 1)])
def test_more_than_two_percent_of_debris_is_said(blocks, doubts):
    found = list(warn_of_dirt(as_debris(blocks), places(), listed(0, 50)))
    assert [one.key for one in found] == doubts * ["debris"]
    assert not list(warn_of_dirt(places(blocks), places(), listed(0, 50)))


@pytest.mark.parametrize(("marked", "doubts"), [(0, 0), (2, 0), (3, 1), (50, 1)])
def test_candidates_that_may_be_dirt_are_asked_about_and_doubted_if_they_are_many(marked, doubts):
    found = list(warn_of_dirt(places(), as_debris(4), listed(marked, 50 - marked)))
    assert [one.key for one in found] == [("stain_or_dirt", "much_stain_or_dirt")[doubts]]
    assert "ense stain or debris near (64, 16)" in found[0]
    assert found[0].at == (64, 16)
    assert f"{2 * marked} % of the candidates" in found[0].numbers


def candidates_at(x, y, flags=0):
    rows = np.zeros(len(x), LISTED)
    rows["x"], rows["y"], rows["flags"] = x, y, flags
    return rows


def crowd(count, side, seed=2):
    return np.random.default_rng(seed).uniform(0, side, (2, count))


@pytest.mark.parametrize("width_px", [3.0, 8.0])
def test_pieces_of_a_fibre_among_candidates_are_doubted_and_found(width_px):
    rng = np.random.default_rng(4)
    along = np.sort(rng.uniform(0, 120, 40)) * width_px
    fibre = 200 + along, 300 + along**2 / (400 * width_px) + rng.normal(0, 0.3, 40) * width_px / 3
    x, y = np.concatenate([crowd(100, 400 * width_px), fibre], axis=1)
    (found,) = warn_of_lines(candidates_at(x, y), width_px)
    assert found.key == "in_lines"
    on = np.hypot(fibre[0] - found.at[0], fibre[1] - found.at[1])
    assert on.min() < 4 * width_px
    left_out = np.where(np.arange(140) < 100, 0, FLAGS["sharp"])
    assert not list(warn_of_lines(candidates_at(x, y, left_out), width_px))


@pytest.mark.parametrize("side", [100, 400, 1000, 30000])
def test_candidates_in_clusters_or_by_chance_are_not_in_lines(side):
    assert not list(warn_of_lines(candidates_at(*crowd(1000, side)), 3.0))
    assert not list(warn_of_lines(candidates_at([5.0], [7.0]), 3.0))
    cells = [158.0, 137.7, 112.3, 96.4], [271.6, 275.0, 275.9, 279.4]
    assert not list(warn_of_lines(candidates_at(*cells), 3.0))
    assert not list(warn_of_lines(candidates_at([], []), 3.0))
