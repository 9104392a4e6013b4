"""What is read: compared with what was written, or refused in one sentence."""

from __future__ import annotations

import numpy as np
import pytest

from unglow.core.errors import InputError
from unglow.core.windows import Window
from unglow.images.tiff import open_reader, read_header


def assert_same(path, want, windows=12, **choice):
    """Compare random windows and channels with (channels, rows, cols)."""
    header = read_header(path, **choice)
    assert (len(header.channels), *header.shape) == want.shape
    rng = np.random.default_rng(3)
    with open_reader(header) as reader:
        whole = reader.read(Window.from_shape(header.shape))
        assert whole.dtype == header.dtype
        assert whole.dtype.isnative
        np.testing.assert_array_equal(whole, want)
        for _ in range(windows):
            y0, y1 = sorted(int(v) for v in rng.integers(0, header.shape[0] + 1, 2))
            x0, x1 = sorted(int(v) for v in rng.integers(0, header.shape[1] + 1, 2))
            channels = rng.permutation(len(want))[: rng.integers(1, len(want) + 1)].tolist()
            got = reader.read(Window(y0, y1, x0, x1), channels)
            np.testing.assert_array_equal(got, want[channels, y0:y1, x0:x1])
    return header


def read_all(path):
    """Return all pixels."""
    with open_reader(read_header(path)) as reader:
        return reader.read(Window.from_shape(reader.header.shape))


def refusal(path, **choice):
    """Return why an image is refused, without the path that begins the sentence."""
    with pytest.raises(InputError) as caught:
        read_header(path, **choice)
    text = str(caught.value)
    assert text.startswith(f"'{path}' ")
    assert text.endswith(".")
    assert "\n" not in text
    return text.removeprefix(f"'{path}' ")
