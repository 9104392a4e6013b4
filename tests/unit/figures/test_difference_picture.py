"""A difference as a picture: stain stands out of noise, spoilt places are hatched."""

import numpy as np
import pytest

from unglow.figures.difference_picture import HATCH, NO_DATA, NoiseColours, hatch, spoilt_px
from unglow.images.artefacts import SavedPlace


@pytest.fixture
def scene():
    """A difference whose noise is 1 grey level on the left and 10 on the right, its background."""
    draw = np.random.default_rng(3)
    background = np.repeat(np.float32([[10.0, 200.0]]), 200, axis=1) + np.zeros((300, 1), "f4")
    noise = np.where(background > 100, 10.0, 1.0)
    return (noise * draw.standard_normal(background.shape)).astype(np.float32), background


def brightness(pixels):
    return pixels.astype(int).sum(axis=-1)


def test_stain_stands_out_of_noise_that_depends_on_the_background(scene):
    difference, background = scene
    difference[100:104, 50:54] = 12.0
    difference[100:104, 250:254] = 12.0
    colours = NoiseColours.from_difference(difference, background)
    assert colours.normalise(difference, background)[101, 51] == pytest.approx(12, rel=0.1)
    shown = brightness(colours.shades(colours.normalise(difference, background)))
    assert shown[100:104, 50:54].min() > 300
    assert shown[100:104, 250:254].max() < 30  # as bright, but no more than noise there
    assert np.mean(shown > 100) < 0.005


def test_negative_values_are_seen_and_darker_than_stain(scene):
    colours = NoiseColours.from_difference(*scene)
    dark, black, bright = (colours.shades(np.float32([v]))[0] for v in (-15, 1, 15))
    assert black.tolist() == [0, 0, 0]
    assert dark.argmax() == 2
    assert brightness(black) < brightness(dark) < brightness(bright) / 2


def test_what_is_no_data_is_grey_and_nothing_but_it_can_be_drawn(scene):
    difference, background = scene
    difference[:5] = np.nan
    shown = NoiseColours.from_difference(difference, background).pixels(difference, background)
    assert shown[2, 2].tolist() == [*NO_DATA]
    nothing = np.full((3, 4), np.nan, np.float32)
    assert (NoiseColours.from_difference(nothing).pixels(nothing) == NO_DATA).all()
    flat = np.zeros((3, 4), np.float32)
    assert (NoiseColours.from_difference(flat).pixels(flat) == 0).all()


def test_the_section_is_dim_where_there_is_only_noise(scene):
    difference, background = scene
    shown = NoiseColours.from_difference(difference, background).pixels(0 * difference, background)
    assert 0 < brightness(shown)[0, -1] < 150


def test_spoilt_places_are_hatched_where_they_are():
    ring = np.array([(40, 80), (80, 80), (80, 160), (40, 160), (40, 80)], np.float64)
    spoilt = spoilt_px([SavedPlace("lost", 1.0, 3200, ((ring,),))], (100, 100), 2)
    assert spoilt[40:80, 20:40].all()
    assert spoilt.sum() == 800
    shown = hatch(np.zeros((100, 100, 3), np.uint8), spoilt)
    green = (shown == HATCH).all(axis=-1)
    assert 0.1 < green[spoilt].mean() < 0.5
    assert not green[~spoilt].any()
    assert green[40, 20:40].all()
