"""MNIST: shapes, statistics and labels are those of the published files."""

import numpy as np
import pytest

from ngem.datasets import load_mnist


@pytest.mark.parametrize(
    ("part", "mean", "std", "counts"),
    [
        ("train", 0.13066, 0.30811, [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
        ("test", 0.13251, 0.31048, [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
    ],
)
def test_mnist(part, mean, std, counts, data_dir):
    images, digits = load_mnist(part)
    assert images.shape == (sum(counts), 784)
    assert images.dtype == np.uint8
    assert images.flags.writeable
    # Through the counts of the 256 values: the images as float64 would fill memory.
    fractions, value = np.bincount(images.ravel()) / images.size, np.arange(256) / 255
    measured_mean = fractions @ value
    measured_std = np.sqrt(fractions @ (value - measured_mean) ** 2)
    np.testing.assert_allclose([measured_mean, measured_std], [mean, std], atol=6e-6)
    np.testing.assert_array_equal(np.bincount(digits), counts)
