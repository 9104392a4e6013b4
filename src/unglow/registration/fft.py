"""Fourier transforms of real float32 images by numpy alone: scipy takes 0.3 s to import.

Each divides by the number of px: numpy computes in single precision only what it has to divide, and
anything else in double precision, which takes up to six times as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def forward(image: NDArray[np.float32], shape: tuple[int, int]) -> NDArray[np.complex64]:
    """Half spectrum of an image padded with zeros to ``shape``, divided by the number of px.

    Returns
    -------
    (rows, columns // 2 + 1) complex64; zero frequency is the mean.
    """
    rows = image.shape[0]
    spectrum: Any = np.zeros((shape[0], shape[1] // 2 + 1), np.complex64)  # typed as complex128
    np.fft.rfft(image, shape[1], axis=1, norm="forward", out=spectrum[:rows])
    np.fft.fft(spectrum, axis=0, norm="forward", out=spectrum)
    return np.asarray(spectrum, dtype=np.complex64)


def backward(spectrum: NDArray[np.complex64], shape: tuple[int, int]) -> NDArray[np.float32]:
    """Image of ``shape`` with a half spectrum from `forward`; overwrites the spectrum."""
    columns: Any = spectrum
    np.fft.ifft(columns, axis=0, out=columns)
    image = np.asarray(np.fft.irfft(columns, shape[1], axis=1), dtype=np.float32)
    image *= np.float32(shape[0] * shape[1])
    return image


def cross_spectrum(
    one: NDArray[np.float32], other: NDArray[np.float32], shape: tuple[int, int]
) -> NDArray[np.complex64]:
    """Half spectrum of the correlation of two images padded to ``shape``, see `forward`."""
    product, factor = forward(one, shape), forward(other, shape)
    product *= np.conj(factor, out=factor)
    return product
