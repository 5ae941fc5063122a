"""What peers compute is the likelihood that ours computes."""

import numpy as np
import pytest
from scipy import stats

from ngem.bench import peers


def test_the_pytorch_side_has_the_likelihood():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    rng = np.random.default_rng(0)
    raw, y = rng.standard_normal((4, 10)), rng.standard_normal((4, 2))
    nll = peers._torch_nll(lambda x: x, 2, 2)(torch.as_tensor(raw), torch.as_tensor(y))
    mean, log_scale = raw[:, 2:6].reshape(4, 2, 2), raw[:, 6:].reshape(4, 2, 2)
    density = stats.norm.pdf(y[:, None], mean, np.exp(log_scale)).prod(axis=-1)
    weights = np.exp(raw[:, :2]) / np.exp(raw[:, :2]).sum(axis=1, keepdims=True)
    assert float(nll) == pytest.approx(-np.log((weights * density).sum(axis=1)).mean(), rel=1e-6)


def test_rows_are_standardized_by_training_rows():
    rows = peers.table("toy", 100)
    assert [len(part) for part in rows] == [100] * 4
    full = peers.table("toy")
    np.testing.assert_allclose([full.x.mean(), full.x.std()], [0, 1], atol=1e-9)
    assert 0.01 < abs(full.x_validation.mean()) + abs(full.x_validation.std() - 1) < 0.2


def test_packages_that_are_not_installed_are_named():
    assert peers.absent(["numpy", "no_such_library"]) == ["no_such_library"]
