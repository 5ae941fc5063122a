"""Inputs, gradients and comparisons that the tests of PyTorch need in several files."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'ngem[torch]'")

import ngem.torch as ours  # noqa: E402
from ngem.torch import _families as families  # noqa: E402, F401
from ngem.torch import _mixture as mixture  # noqa: E402, F401
from ngem.torch import _preconditioners as preconditioners  # noqa: E402, F401

HERE = Path(__file__).parent

LIKELIHOODS = [name for name in ours.OBJECTIVES if name != "mse"]

BOTH_COVARIANCES = pytest.mark.parametrize("full", [False, True], ids=["diag", "full"])


def as_users_call(function):
    """Return a function without the run-time checks of its annotations, which tests alone have."""
    return inspect.unwrap(function)


def inputs(*, full=False, batch=6, comp=3, dim=2, dtype=torch.float64, seed=0):
    """Return logits, mean and scale that require gradients, and targets that do not."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    logits, mean, scale = draw(batch, comp), draw(batch, comp, dim), draw(batch, comp, dim).exp()
    if full:
        scale = torch.diag_embed(scale) + draw(batch, comp, dim, dim).tril(-1)
    leaves = [leaf.to(dtype).requires_grad_() for leaf in (logits, mean, scale)]
    return [*leaves, draw(batch, dim).to(dtype)]


def gradients(leaves, **settings):
    """Return the gradients of logits, mean and scale."""
    loss = ours.mixture_loss(*leaves, **settings)
    return torch.autograd.grad(loss.sum(), leaves[:3], materialize_grads=True)


def assert_same(left, right, **tolerance):
    """Compare tensors pair by pair, to double precision by default."""
    for a, b in zip(left, right, strict=True):
        torch.testing.assert_close(a, b, **({"rtol": 1e-12, "atol": 1e-14} | tolerance))


def component_fisher(mean, scale):
    """Return the Fisher information of one component in (mean, lower entries of the scale).

    It is the Hessian of the Kullback-Leibler divergence, by autodiff of PyTorch's closed form.
    """
    full = scale.dim() == 2
    dim, below = len(mean), torch.tril_indices(len(mean), len(mean))

    def gaussian(vector):
        if not full:
            return torch.distributions.MultivariateNormal(
                vector[:dim], scale_tril=torch.diag(vector[dim:])
            )
        factor = torch.zeros_like(scale).index_put(tuple(below), vector[dim:])
        return torch.distributions.MultivariateNormal(vector[:dim], scale_tril=factor)

    at = flat(mean, scale)
    divergence = lambda vector: torch.distributions.kl_divergence(gaussian(at), gaussian(vector))  # noqa: E731
    return torch.autograd.functional.hessian(divergence, at)


def flat(mean, scale):
    """Return mean and scale of one component as a vector, of a factor the lower entries."""
    if scale.dim() == 2:
        scale = scale[tuple(torch.tril_indices(*scale.shape))]
    return torch.cat([mean, scale])


def start_script(script, *arguments):
    """Start a script as users do: in a process of its own, without type checks at run time."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.Popen(
        [sys.executable, str(HERE / script), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def finish(process):
    """Wait for a script that must succeed."""
    out, error = process.communicate(timeout=200)
    assert process.returncode == 0, error
    assert "done" in out
