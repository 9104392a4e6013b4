"""Chunks: the bytes that Blosc would write, and px from whatever Blosc could have written."""

from __future__ import annotations

import numpy as np
import pytest
from numcodecs import blosc

from unglow.io.zarr import chunks

RNG = np.random.default_rng(4)
DTYPES = ["u1", "i2", "u4", "f4", "f8"]


def pack_by_blosc(chunk, level=1, block=2**19, shuffle=blosc.BITSHUFFLE, name=b"zstd"):
    ordered = np.ascontiguousarray(chunk)
    packed = blosc.compress(ordered, name, level, shuffle, block, chunk.itemsize)
    return chunks.append_checksum(packed)


def make_noise(shape, dtype, bits):
    """Px of so many random bits: the more of them, the less they shrink."""
    size = np.dtype(dtype).itemsize
    whole = RNG.integers(0, 1 << min(bits, 8 * size - 1), shape, np.uint64)
    return whole.astype(f"u{size}").view(dtype)


def decode(stored, shape, dtype):
    return chunks.decode_chunk(stored, shape, np.empty(shape, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bits", [0, 3, 8, 15, 31, 63])
@pytest.mark.parametrize("shape", [(512, 512), (64, 512), (512, 256), (1, 8), (500, 300)])
def test_bytes_are_those_of_blosc(dtype, bits, shape):
    image = make_noise((shape[0], shape[1] + 5), dtype, bits)[:, 2:-3]
    stored = chunks.encode_chunk(image, shape, 0)
    assert stored == pack_by_blosc(image)
    assert decode(stored, shape, dtype).tobytes() == image.tobytes()
    room = np.zeros((shape[0], shape[1] + 7), dtype)
    found = chunks.decode_chunk(stored, shape, room[:, 3:-4])
    assert np.shares_memory(found, room)
    assert found.tobytes() == image.tobytes()
    assert not room[:, :3].any()
    assert not room[:, -4:].any()


@pytest.mark.parametrize("share", [0.9, 0.96, 0.98, 0.99, 0.995, 1.0])
def test_bytes_are_those_of_blosc_where_little_is_gained(share):
    """Blosc keeps a block as it is if it does not shrink."""
    image = RNG.integers(0, 1 << 16, (512, 512), np.uint16)
    image[int(512 * share) :] = 0
    stored = chunks.encode_chunk(image, image.shape, 0)
    assert stored == pack_by_blosc(image)
    np.testing.assert_array_equal(decode(stored, image.shape, "u2"), image)


@pytest.mark.parametrize(
    "other",
    [
        {"level": 5},
        {"block": 2**17},
        {"shuffle": blosc.SHUFFLE},
        {"shuffle": blosc.NOSHUFFLE},
        {"name": b"lz4"},
    ],
)
def test_chunks_of_other_settings_are_read(other):
    image = make_noise((512, 512), "f4", 12)
    assert decode(pack_by_blosc(image, **other), image.shape, "f4").tobytes() == image.tobytes()


def test_px_beyond_the_image_are_filled():
    image = make_noise((300, 512), "u2", 9)
    found = decode(chunks.encode_chunk(image, (512, 512), 7), (512, 512), "u2")
    np.testing.assert_array_equal(found[:300], image)
    assert (found[300:] == 7).all()


@pytest.mark.parametrize("at", [0, 2, 8, 17, 24, 30, 2000])
def test_no_byte_that_was_changed_gives_px(at):
    """The checksum fits: what is left are headers that lie, and frames that do not decode."""
    image = make_noise((512, 512), "u2", 9)
    content = bytearray(chunks.encode_chunk(image, image.shape, 0)[: -chunks.CRC_BYTES])
    content[at] ^= 0xFF
    try:
        found = decode(chunks.append_checksum(bytes(content)), image.shape, "u2")
    except (chunks.DamagedError, MemoryError):
        return
    assert at in (0, 2000)  # Blosc does not look at that, or the bytes of px are others
    assert found.shape == image.shape
