"""What exists: one entry per family and per extreme. The laws run over these tables."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import stats

from ngem.families import AbstractFamily, DiagonalGaussian, FullGaussian, Laplace, Logistic
from ngem.mixture import Mixture

from . import oracles


def slow_but(names, *fast) -> list:
    """Return test parameters: every change runs the fast ones, `make test-all` the others too."""
    missing = [name for name in fast if name not in names]
    assert not missing, missing
    return [
        pytest.param(
            *(name if isinstance(name, tuple) else (name,)),
            marks=[] if name in fast else pytest.mark.slow,
        )
        for name in names
    ]


class FamilyCase(NamedTuple):
    """A family with scipy's account of it."""

    family: AbstractFamily
    scipy_logpdf: Callable  # (params as numpy, y) -> number
    standard: Any  # scipy's distribution of a residual with location 0 and scale 1
    from_residuals: Callable = lambda p, z: p.mean + p.scale * z  # (params, residuals) -> targets
    dim: int = 3

    def scipy_1d(self, params) -> Any:
        """Return scipy's distribution of a one-dimensional component."""
        return self.standard(np.ravel(params.mean)[0], np.ravel(params.scale)[0])

    def quadrature(self, params, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """Return targets and weights that give expectations under a component."""
        z, weights = oracles.product_points(self.standard(), dim)
        return self.from_residuals(jax.tree.map(np.asarray, params), z), weights

    def raw_fisher(self, raw, dim: int) -> np.ndarray:
        """Return E[score score^T] in raw outputs: autodiff, averaged by quadrature."""
        y, weights = self.quadrature(_constrain(self.family, dim, raw), dim)
        scores = self.scores(raw, y)
        return np.einsum("n,ni,nj->ij", weights, scores, scores)

    def scores(self, raw, y) -> jax.Array:
        """Return the gradient of the log density in raw outputs, for each of the targets."""
        return _scores(self.family, y.shape[-1], raw, y)

    def jacobian(self, raw, dim: int) -> np.ndarray:
        """Return the derivative of all parameters, as one vector, in the raw outputs."""
        return np.asarray(_jacobian(self.family, dim, raw))


FAMILIES = {
    "diag": FamilyCase(
        DiagonalGaussian(), lambda p, y: stats.norm(p.mean, p.scale).logpdf(y).sum(), stats.norm
    ),
    "full": FamilyCase(
        FullGaussian(),
        lambda p, y: stats.multivariate_normal(p.mean, p.scale @ p.scale.T).logpdf(y),
        stats.norm,
        lambda p, z: p.mean + z @ p.scale.T,
    ),
    "logistic": FamilyCase(
        Logistic(),
        lambda p, y: stats.logistic(p.mean, p.scale).logpdf(y).sum(),
        stats.logistic,
    ),
    "laplace": FamilyCase(
        Laplace(), lambda p, y: stats.laplace(p.mean, p.scale).logpdf(y).sum(), stats.laplace
    ),
}


def families_but_slow(*fast) -> pytest.MarkDecorator:
    """Return all families, for code that treats them alike: every change runs the fast ones."""
    marks = {name: [] if name in fast else pytest.mark.slow for name in FAMILIES}
    cases = [pytest.param(case, marks=marks[name], id=name) for name, case in FAMILIES.items()]
    return pytest.mark.parametrize("case", cases)


def random_raw(family: AbstractFamily, dim: int, key, shape=(), dtype=jnp.float64) -> jax.Array:
    """Return raw outputs with leading axes `shape`."""
    return 0.7 * standard_normal(key, (*shape, family.num_raw(dim)), dtype)


def random_params(family: AbstractFamily, dim: int, key, shape=(), dtype=jnp.float64):
    """Return parameters with leading axes `shape`."""
    return _constrain(family, dim, random_raw(family, dim, key, shape, dtype))


def random_mixture(family, key, *, batch=(), comp=3, dim=2, dtype=jnp.float64) -> Mixture:
    """Return a mixture with well-spread weights and overlapping components."""
    logits = standard_normal(jax.random.fold_in(key, 1), (*batch, comp), dtype)
    return Mixture(logits, random_params(family, dim, key, (*batch, comp), dtype), family)


def standard_normal(key, shape, dtype=jnp.float64) -> jax.Array:
    """Return draws of numpy, since those of JAX need a compiled program for every shape."""
    seed = np.asarray(jax.random.key_data(key))
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


@partial(jax.jit, static_argnums=(0, 1))
def _constrain(family: AbstractFamily, dim: int, raw):
    constrain = lambda row: family.constrain(row, dim)  # noqa: E731
    for _ in raw.shape[:-1]:
        constrain = jax.vmap(constrain)
    return constrain(raw)


@partial(jax.jit, static_argnums=(0, 1))
def _scores(family: AbstractFamily, dim: int, raw, y):
    log_prob = lambda raw, y: family.log_prob(family.constrain(raw, dim), y)  # noqa: E731
    return jax.vmap(jax.grad(log_prob), in_axes=(None, 0))(raw, y)


@partial(jax.jit, static_argnums=(0, 1))
def _jacobian(family: AbstractFamily, dim: int, raw):
    return jax.jacobian(lambda raw: ravel_pytree(family.constrain(raw, dim))[0])(raw)


#: Numbers of components and dimensions, small and large.
SHAPES = [(1, 1), (512, 1), (1, 4096), (8, 512)]

#: From logits, mean, scale and y of a diagonal mixture, batch 8, 3 components, to what is hard.
EXTREMES = {
    "logits 1e4": lambda a: ([1e4, -1e4, 0.0], a[1], a[2], a[3]),
    "tiny scales": lambda a: (a[0], a[1], 1e-12 * np.ones_like(a[2]), a[1][:, 0] + 1e-4),
    "huge scales": lambda a: (a[0], a[1], 1e12 * np.ones_like(a[2]), a[3] + 1e20),
    "mixed scales": lambda a: (
        a[0],
        a[1],
        np.full_like(a[2], 1.0) * [[[1e-12], [1], [1e12]]],
        a[3],
    ),
    "targets 1e8 scales away": lambda a: (a[0], a[1], a[2], a[1][:, 0] + 1e8 * a[2][:, 0]),
    "targets 1e8 largest scales away": lambda a: (
        a[0],
        a[1],
        np.full_like(a[2], 1.0) * [[[1e-12], [1], [1e12]]],
        a[3] + 1e20,
    ),
    "underflowing responsibilities": lambda a: (
        a[0],
        np.zeros_like(a[1]) + np.array([[[-1e3], [0], [1e3]]]),
        a[2],
        a[3],
    ),
    "hopeless component takes all": lambda a: (
        [0.0, 0.0, -1e4],
        np.zeros_like(a[1]) + np.array([[[-1e6], [1e6], [0]]]),
        np.ones_like(a[2]),
        0.5 * np.ones_like(a[3]),
    ),
}


def extreme_inputs(name: str, start: list[np.ndarray]) -> list[np.ndarray]:
    """Return logits, mean, scale and y at an extreme, from those of an ordinary mixture."""
    logits, *rest = EXTREMES[name](start)
    logits = np.broadcast_to(np.asarray(logits, float), start[0].shape)
    return [np.asarray(leaf, float) for leaf in (logits, *rest)]
