"""Bright-field images are recognised by their pixels; nothing meant for fluorescence is said."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest
from made_plan import plan_content

from unglow.core.errors import StoreError
from unglow.images.channel_signal import count_overflows, is_bright_field, sample_squares
from unglow.photometry.gain import bright_field
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.scale import PairScaleSettings, Scale
from unglow.photometry.joint_histogram import JointStatistics


def section(covered: float, seed: int = 3) -> np.ndarray:
    """Density of a section with nuclei of 6 px, 0 to 1; it covers that part of the image."""
    rng = np.random.default_rng(seed)
    inside = np.kron(rng.random((16, 16)) < covered, np.ones((32, 32)))
    nuclei = cv2.GaussianBlur((rng.random((512, 512)) < 0.01).astype(np.float64), None, 2.0) * 9
    return inside * (0.1 + nuclei)


def seen(density: np.ndarray, *, transmitted: bool, dtype: str = "uint8") -> np.ndarray:
    """The image of a section in either light, with noise."""
    top = 255 if dtype == "uint8" else 4000
    light = 0.92 * top * 10**-density if transmitted else 0.02 * top + 0.6 * top * density
    noisy = light + np.random.default_rng(1).normal(0, 0.005 * top, density.shape)
    return np.clip(np.rint(noisy), 0, top).astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("covered", [0.03, 0.3, 0.7])
def test_either_light_is_recognised(covered, dtype):
    density = section(covered)
    assert is_bright_field([seen(density, transmitted=True, dtype=dtype)])
    assert not is_bright_field([seen(density, transmitted=False, dtype=dtype)])


@pytest.mark.parametrize("kind", ["uint8", "int16", "uint16"])
@pytest.mark.parametrize("over", [1.3, 2.5])
def test_values_that_overflowed_are_counted(kind, over):
    bright = (0.1 + section(0.7)) * over * 2.0 ** (8 * np.dtype(kind).itemsize)
    bright += np.random.default_rng(2).normal(0, 0.01 * bright.max(), bright.shape)
    wrapped = bright.astype(np.int64).astype(kind)
    assert count_overflows([wrapped], wrapped.dtype) > 100


def test_edges_holes_and_hot_pixels_are_no_overflow():
    clean = seen(section(0.7), transmitted=False)
    rng = np.random.default_rng(4)
    for make in ("clean", "saturated", "fill", "hot", "bar", "jpeg"):
        image = clean.copy()
        if make == "saturated":
            image = np.clip(image.astype(int) * 4, 0, 255).astype(np.uint8)
        elif make == "fill":
            image[100:300, 100:300], image[350:400, 350:400] = 255, 0
        elif make == "hot":
            image[rng.integers(0, 512, 900), rng.integers(0, 512, 900)] = 255
        elif make in ("bar", "jpeg"):
            image[480:490, 300:500] = 255
            cv2.putText(image, "100 um", (300, 470), cv2.FONT_HERSHEY_SIMPLEX, 1.5, 255, 3)
        if make == "jpeg":
            image = cv2.imdecode(cv2.imencode(".jpg", image, [1, 60])[1], 0)
        assert count_overflows([image], image.dtype) < 100, make


def test_full_or_saturated_fluorescence_and_images_without_content_are_none():
    for covered in (0.9, 1.0):
        assert not is_bright_field([seen(section(covered), transmitted=False)])
    image = np.minimum(seen(section(0.9), transmitted=False), 100)
    for pixels in (image, np.zeros((64, 64), "u1"), np.full((64, 64), 255, "u1"), image[:, :3]):
        assert not is_bright_field([pixels])
    assert not is_bright_field([np.full((64, 64), np.nan, "f4")])
    assert not is_bright_field([])


def test_the_sample_covers_small_images_and_edges():
    class Image:
        levels, shape = 1, (70, 300)

        def read(self, window, level=0):
            assert window.clip(self.shape) == window
            return np.zeros(window.shape)

    blocks = list(sample_squares(Image()))
    assert len(blocks) == 8
    assert {block.shape for block in blocks} == {(70, 128)}


def estimated(roles: tuple[str, ...], top: float = 255.0) -> Scale:
    """Scale of a pair whose post has a third of its px at its largest value."""
    rng = np.random.default_rng(1)
    pre = np.rint(rng.uniform(20, 250, (256, 256))).astype(np.float32)
    post = np.minimum(np.rint(1.2 * pre), 190 if top else 255).astype(np.float32)
    made = JointStatistics.create(
        post_range=(0.0, float(post.max())), pre_range=(0.0, 255.0), grey_level=1.0, integer=True
    )
    made.add(post, pre)
    settings = PairScaleSettings(("moffat", "percentile"), bright_field=roles)
    return estimate(Evidence(made), settings)


def test_no_advice_for_fluorescence_is_given_to_a_bright_field_pair(tmp_path):
    plain = estimated(())
    assert plain.reasons[-1].key == "saturated"
    both = estimated(("post", "pre"))
    assert both.reasons == ()
    assert [one.key for one in both.notes] == ["bright_field", "white_glass"]
    assert both.notes[1].numbers == "40 % of the post pixels have its largest value (190)."
    assert both.methods == plain.methods
    one = estimated(("pre",))
    assert [s[:43] for s in one.reasons] == ["Only the pre-stain image is bright-field, s"]
    assert one.notes == ()
    refused = Scale.make_failed("No map.", PairScaleSettings(bright_field=("post",)))
    assert "Only the post-stain image is bright-field" in refused.reasons[1]
    for scale in (plain, both, one, refused):
        scale.save(tmp_path / "scale.json")
        assert Scale.load(tmp_path / "scale.json").bright_field == scale.bright_field
    assert "bright_field" not in (plain.save(tmp_path / "a"), (tmp_path / "a").read_text())[1]


def test_the_configuration_goes_before_the_pixels(tmp_path):
    plan = tmp_path / "plan.json"
    assert bright_field.find_roles(plan, "auto") == ()
    plan.write_text(json.dumps(plan_content(bright_field=("post",))))
    assert bright_field.find_roles(plan, "auto") == ("post",)
    assert bright_field.find_roles(plan, "fluorescence") == ()
    assert bright_field.find_roles(plan, "bright-field") == ("post", "pre")
    for content in ("{", '{"images": {"post": {"bright_field": "no"}}}'):
        plan.write_text(content)
        with pytest.raises(StoreError, match=r"plan\.json"):
            bright_field.find_roles(plan, "auto")


@pytest.mark.parametrize("seed", range(10))
def test_bright_hot_pixels_are_no_overflow_by_any_chance(seed):
    rng = np.random.default_rng(seed)
    image = rng.normal(250, 20, (640, 512)).astype(np.uint16)
    image[rng.integers(0, 640, 20), rng.integers(0, 512, 20)] = 60000
    assert count_overflows([image], image.dtype) == 0
