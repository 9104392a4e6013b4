"""What registration holds: bounded on the coarse images, and few decoded chunks of the stores."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import array_pixels
import numpy as np
import pytest
from array_pixels import ArrayPixels

from unglow.registration import coarse_guesses as guesses
from unglow.registration.images import thumbnail
from unglow.workflow import stage_memory

pytestmark = pytest.mark.slow

LIBRARIES_MB = 40
CHILD = """
from unglow.core.own_memory import pin_threads
pin_threads()
from unglow.core.process import status_mb
import numpy as np
from array_pixels import ArrayPixels
from unglow.registration.register import register
from unglow.registration.settings import RegisterSettings

def image(seed, rows, cols):
    rng = np.random.default_rng(seed)
    out = rng.normal(0, 3, (rows, cols)).astype(np.float32)
    for s in (4, 16, 64):
        lattice = rng.random((rows // s + 1, cols // s + 1)).astype(np.float32)
        out += 70 * np.kron(lattice, np.ones((s, s), np.float32))[:rows, :cols]
    return out.clip(0, 255).astype(np.uint8)

small = ArrayPixels(image(1, 256, 256))
register(small, small)
shape = {rows}, {cols}
post, pre = (ArrayPixels(image(k, *shape)) for k in (1, {other}))
before = status_mb()["VmRSS"]
settings = RegisterSettings(coarse_px={side}, mirror={mirror})
print(register(post, pre, settings).transform.status, before, status_mb()["VmHWM"])
"""


@pytest.mark.parametrize(
    ("rows", "cols", "other", "mirror", "status"),
    [(1024, 1024, 1, False, "ok"), (560, 560, 2, True, "failed"), (160, 2048, 2, False, "failed")],
)
def test_the_coarse_step_keeps_what_the_model_says(rows, cols, other, mirror, status):
    code = CHILD.format(rows=rows, cols=cols, other=other, mirror=mirror, side=1024)
    path = os.environ | {"PYTHONPATH": str(Path(array_pixels.__file__).parent)}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env=path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    found, before, peak = done.stdout.split()
    assert found == status
    demand = stage_memory.register(((rows, cols), (rows, cols)), 1024, 256)
    taken = float(peak) - float(before)
    # pages of libraries that come back count as well, more of them on some machines than on others
    assert 10 < taken < demand.fixed + demand.each + LIBRARIES_MB
    assert mirror or taken < 100 + LIBRARIES_MB
    assert float(peak) < demand.base + demand.fixed + demand.each


@pytest.mark.parametrize("whole", [False, True])
def test_features_of_a_large_image_give_its_map(whole):
    rng = np.random.default_rng(3)
    scene = sum(
        np.kron(rng.random((1200 // s, 1200 // s)), np.ones((s, s))) for s in (4, 8, 16, 60)
    )
    post, pre = (400 * scene[y : y + 800, x : x + 800] for y, x in ((100, 80), (140, 60)))
    thumbs = [thumbnail(ArrayPixels(i.astype(np.float32)), 0) for i in (post, pre)]
    assert guesses.halvings(*thumbs) == 1
    found = guesses.feature_guess(*thumbs, whole=whole)
    np.testing.assert_allclose(found, [[1, 0, 20], [0, 1, -40], [0, 0, 1]], atol=0.5)
    np.testing.assert_allclose(found[:2, :2], np.eye(2), atol=2e-3)
