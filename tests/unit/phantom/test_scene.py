"""The section of a phantom: a pure function of place, rich at every scale, black outside."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from unglow.core.windows import Window, grid
from unglow.phantom.render import COVERAGE, Renderer, Scene
from unglow.phantom.spec import PhantomSpec
from unglow.phantom.texture import Camera, Shading, add_noise, derive_key, fill_dark


def _mesh(rows, cols, step=1.0):
    y, x = np.mgrid[0:rows, 0:cols] * step
    return x.ravel().astype(float), y.ravel().astype(float)


@pytest.mark.parametrize("spacing", [3.6, 33.0])
def test_noise_has_unit_variance_and_no_mean(spacing):
    x, y = _mesh(400, 400, spacing / 4)
    out = np.zeros(x.size)
    add_noise(x, y, spacing, derive_key(1, 2), 1.0, out)
    assert abs(out.mean()) < 0.03
    assert 0.97 < out.std() < 1.03


@pytest.mark.parametrize("shape", [(500, 500), (600, 300), (20000, 17000)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_section_covers_its_part_and_is_black_outside(shape, seed):
    scene = Scene(PhantomSpec(shape=shape, seed=seed))
    rows, cols = np.linspace(0, shape[0] - 1, 150), np.linspace(0, shape[1] - 1, 150)
    x, y = np.meshgrid(cols, rows)
    brightness = scene.background(x, y)
    assert abs((brightness > 0).mean() - COVERAGE) < 0.05
    assert (brightness[0] == 0).mean() > 0.5
    inside = brightness[brightness > 1]
    assert 20 < np.percentile(inside, 25) < np.percentile(inside, 75) < 120


def test_texture_is_rich_at_every_scale():
    """Differences between neighbouring averages, from 2 to 256 px, all carry structure."""
    scene = Scene(PhantomSpec(shape=(3000, 3000)))
    x, y = np.meshgrid(np.arange(1000.0, 2024.0), np.arange(1000.0, 2024.0))
    level = scene.background(x, y)
    for _ in range(8):
        level = level.reshape(len(level) // 2, 2, -1, 2).mean(axis=(1, 3))
        assert np.abs(np.diff(level, axis=0)).mean() > 0.5


def test_texture_is_sampled_well_enough_to_be_resampled():
    """Less than 1 % of the texture's power lies in the upper half of the frequencies."""
    scene = Scene(PhantomSpec(shape=(3000, 3000)))
    x, y = np.meshgrid(np.arange(1000.0, 1512.0), np.arange(1000.0, 1512.0))
    level = scene.background(x, y)
    window = np.outer(np.hanning(512), np.hanning(512))
    power = np.abs(np.fft.fft2((level - level.mean()) * window)) ** 2
    f = np.abs(np.fft.fftfreq(512))
    assert power[np.maximum.outer(f, f) > 0.25].sum() < 0.01 * power.sum()


@pytest.mark.parametrize("image", ["pre", "post"])
@pytest.mark.parametrize("block", [(64, 64), (7, 300), (300, 11)])
def test_pixels_do_not_depend_on_the_blocks(image, block):
    spec = PhantomSpec(shape=(300, 280), deform_px=3.0, shading=0.2, grains_per_mpx=2000, seed=4)
    renderer = Renderer(spec)
    whole = renderer.pixels(image, Window.from_shape(renderer.shape(image)))
    for window in grid(renderer.shape(image), block):
        np.testing.assert_array_equal(renderer.pixels(image, window), whole[window.slices])


@pytest.mark.parametrize("deform", [0.0, 12.0])
def test_pre_is_the_scene_at_the_mapped_place(deform):
    """Truth maps each post point to the pre pixel that shows it: no interpolation, no error."""
    spec = PhantomSpec(shape=(400, 400), deform_px=deform, grains_per_mpx=1000, shift_px=(9, 5))
    renderer = Renderer(spec)
    window = Window(150, 250, 120, 260)
    pre = renderer.background("pre", window)
    cols, rows = np.meshgrid(np.arange(120.0, 260.0), np.arange(150.0, 250.0))
    pixels = np.column_stack([cols.ravel(), rows.ravel()])
    places = renderer.map.to_post(pixels)
    assert np.abs(renderer.map.to_pre(places) - pixels).max() < 1e-6
    scene = renderer.scene.background(places[:, 0], places[:, 1])
    for n in range(len(renderer.grains)):
        g = renderer.grains
        dx, dy = places[:, 0] - g.x[n], places[:, 1] - g.y[n]
        c, s = np.cos(g.theta[n]), np.sin(g.theta[n])
        along, across = (c * dx + s * dy) / g.sigma_long[n], (c * dy - s * dx) / g.sigma[n]
        scene += g.peak[n] * np.exp(-(along**2 + across**2) / 2)
    assert pre.max() > 100
    np.testing.assert_allclose(pre.ravel(), scene, atol=1e-3)


WINDOW = Window(0, 400, 0, 400)
KEY = derive_key(7)


def _camera(electrons=8.0, read=0.5, scale=1, dtype=np.uint8):
    return Camera(electrons, read, scale, np.dtype(dtype))


@pytest.mark.parametrize("level", [0.05, 0.5, 1.9, 2.1, 40.0, 180.0])
def test_shot_and_read_noise_have_their_mean_and_variance(level):
    """Counts of 64 per level make rounding negligible; the variance is that of both noises."""
    offset = 5.0
    camera = _camera(scale=64, dtype=np.uint16)
    counts = camera.expose(np.full((400, 400), level), offset, WINDOW, KEY) / 64.0
    variance = level / 8.0 + 0.25
    assert abs(counts.mean() - level - offset) < 4 * np.sqrt(variance / counts.size)
    # The kurtosis of a Poisson variate adds 1/mean to the relative variance of a variance.
    spread = np.sqrt((2 + 1 / (8.0 * level)) / counts.size)
    assert abs(counts.var() / variance - 1) < 4.5 * spread


@pytest.mark.parametrize("mean", [0.3, 4.0, 15.9, 16.1, 60.0])
def test_photons_follow_the_poisson_distribution(mean):
    camera = _camera(electrons=1.0, read=0.0)
    counts = camera.expose(np.full((400, 400), mean), 0.0, WINDOW, KEY)
    edges = np.arange(0, counts.max() + 2)
    seen = np.bincount(counts.ravel(), minlength=len(edges))
    expected = stats.poisson.pmf(edges, mean) * counts.size
    keep = expected > 20
    chi2 = ((seen - expected)[keep] ** 2 / expected[keep]).sum()
    assert chi2 < keep.sum() + 5 * np.sqrt(2 * keep.sum())


def test_noise_of_neighbours_is_independent():
    camera = _camera(scale=64, dtype=np.uint16)
    noise = camera.expose(np.full((400, 400), 50.0), 0.0, WINDOW, KEY) / 64.0 - 50.0
    noise -= noise.mean()
    for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1), (0, 2)):
        shifted = np.roll(noise, (dy, dx), (0, 1))
        assert abs((noise * shifted).mean() / noise.var()) < 0.012


def test_without_noise_counts_are_rounded_and_clipped():
    light = np.array([[-3.0, 0.0, 0.29, 0.31, 99.7, 254.4, 300.0]])
    counts = _camera(0.0, 0.0).expose(light, 0.2, Window(0, 1, 0, 7), KEY)
    np.testing.assert_array_equal(counts, [[0, 0, 0, 1, 100, 255, 255]])
    counts = _camera(0.0, 0.0, 64, np.uint16).expose(light, 0.2, Window(0, 1, 0, 7), KEY)
    np.testing.assert_array_equal(counts, [[0, 13, 31, 33, 6394, 16294, 19213]])


def test_dark_channels_are_almost_black():
    camera = _camera()
    out = np.full((400, 400, 3), 9, np.uint8)
    fill_dark(camera.dark_table(0.05), WINDOW, KEY, out)
    assert (out[..., 1] == 9).all()
    for channel in (0, 2):
        assert 0.1 < out[..., channel].mean() < 0.3
        assert out[..., channel].max() <= 3
    assert abs(np.corrcoef(out[..., 0].ravel(), out[..., 2].ravel())[0, 1]) < 0.012


def test_shading_is_smooth_and_bounded():
    shading = Shading(0.1, 0.3, -0.4, (500, 700))
    whole = shading.evaluate(Window(0, 500, 0, 700))
    assert 0.9 <= whole.min() < 0.97
    assert 1.09 < whole.max() <= 1.1
    assert np.abs(np.diff(whole, axis=1)).max() < 1e-3
    np.testing.assert_array_equal(shading.evaluate(Window(90, 95, 30, 37)), whole[90:95, 30:37])


@pytest.mark.parametrize("gain", [0.8, 1.0, 1.7])
def test_regression_finds_gain_and_offset(gain):
    """Identity map, no microbes: post is a line in pre, with the slope and offset of the truth."""
    spec = PhantomSpec(
        shape=(300, 300), pre_shape=(300, 300), rotation_deg=0, scale=1, shear=0, shift_px=(0, 0),
        gain=gain, offset_pre=1.5, offset_post=4.0, microbes_per_mpx=0,
    )  # fmt: skip
    renderer = Renderer(spec)
    window = Window.from_shape(spec.shape)
    pre, post = ((renderer.light(i, window) + renderer.offset(i)).ravel() for i in ("pre", "post"))
    ok = (post < 250) & (pre > 10)
    slope, offset = np.polyfit(pre[ok], post[ok], 1)
    assert abs(slope - gain) < 1e-9
    assert abs(offset - (4.0 - gain * 1.5)) < 1e-7


def test_shading_multiplies_the_background():
    plain = PhantomSpec(shape=(300, 300), microbes_per_mpx=0)
    shaded = PhantomSpec(shape=(300, 300), microbes_per_mpx=0, shading=0.3)
    renderers = Renderer(plain), Renderer(shaded)
    for image in ("pre", "post"):
        window = Window(100, 200, 100, 200)
        without, light = (r.light(image, window) for r in renderers)
        illumination = renderers[1].shading[image].evaluate(window)
        np.testing.assert_allclose(light, without * illumination, rtol=1e-12)
        assert without.mean() > 5
        assert 0.02 < abs(illumination - 1).max() <= 0.15
