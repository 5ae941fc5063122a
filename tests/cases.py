"""What exists: one entry per family and per extreme. The laws run over these tables."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import special, stats

from ngem.families import (
    AbstractFamily,
    AsymmetricLaplace,
    Beta,
    Binomial,
    Categorical,
    DiagonalGaussian,
    FullGaussian,
    Gamma,
    Gumbel,
    InverseGaussian,
    Laplace,
    LearnedStudent,
    LogGamma,
    Logistic,
    LogitBeta,
    LogitNormal,
    LogNormal,
    LowRankGaussian,
    NegativeBinomial,
    Ordinal,
    Poisson,
    SphericalGaussian,
    Student,
    TiedGaussian,
    Weibull,
    get_family,
)
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
    law: Callable  # parameters as numpy -> scipy's distribution of each coordinate
    standard: Any = None  # scipy's distribution of a residual with location 0 and scale 1
    logpdf: Callable | None = None  # (parameters, y) -> number, where coordinates depend
    from_residuals: Callable | None = None  # (parameters, residuals) -> targets, likewise
    targets: Callable = lambda z: z  # from any numbers to where targets lie
    moments: tuple = ((1.0, -2.0, 0.5), (0.3, 2.0, 1.0))  # a mean and a variance that it can have
    kink: Callable | None = None  # parameters -> level where the density has one, if not 0.5
    n_draws: int = 200_000  # fewer where drawing is slow
    dim: int = 3
    has_own_metric: bool = False  # whether the laws of its Fisher solve are in a file of its own

    @property
    def is_on_line(self) -> bool:
        """Whether targets may be any numbers."""
        return self.family.base is self.family

    def scipy_logpdf(self, params, y) -> float:
        """Return scipy's log density of one target."""
        return self.logpdf(params, y) if self.logpdf else self.law(params).logpdf(y).sum()

    def scipy_1d(self, params) -> Any:
        """Return scipy's distribution of a one-dimensional component."""
        return self.law(jax.tree.map(lambda leaf: leaf[0], params))

    def mild_params(self, dim: int, key):
        """Return parameters of small scales, so that moments of samples converge."""
        raw = random_raw(self.family, dim, key)
        return _constrain(self.family, dim, raw.at[dim : 2 * dim].set(-1.2))

    def quadrature(self, params, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """Return targets and weights that give expectations under a component."""
        params = jax.tree.map(np.asarray, params)
        if self.from_residuals:
            z, weights = oracles.product_points(self.standard(), dim)
            return self.from_residuals(params, z), weights
        laws = [self.law(jax.tree.map(lambda leaf, d=d: leaf[d], params)) for d in range(dim)]
        kinks = None if self.kink is None else self.kink(params)
        return oracles.law_points(laws, kinks=kinks)

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


class LogGridCase(FamilyCase):
    """A family of positive targets whose quantiles scipy does not know far out."""

    def quadrature(self, params, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """Return targets and weights by the trapezoidal rule in the logarithm."""
        params = jax.tree.map(np.asarray, params)
        laws = [self.law(jax.tree.map(lambda leaf, d=d: leaf[d], params)) for d in range(dim)]
        step = 16 / 200
        axes = [np.exp(location + np.arange(-8, 8, step)) for location in params.mean]
        masses = [step * y * law.pdf(y) for y, law in zip(axes, laws, strict=True)]
        both = [np.meshgrid(*parts, indexing="ij") for parts in (axes, masses)]
        points, weights = (np.stack([axis.ravel() for axis in part], axis=1) for part in both)
        return points, np.prod(weights, axis=1)


def _location_scale(family: AbstractFamily, standard: Any) -> FamilyCase:
    return FamilyCase(family, lambda p: standard(p.mean, p.scale), standard)


def _cholesky(family: AbstractFamily) -> FamilyCase:
    return FamilyCase(
        family,
        lambda p: stats.norm(p.mean, p.scale[..., 0]),
        stats.norm,
        lambda p, y: stats.multivariate_normal(p.mean, p.scale @ p.scale.T).logpdf(y),
        lambda p, z: p.mean + z @ p.scale.T,
    )


def low_rank_covariance(params) -> np.ndarray:
    """Return diag(scale^2) + W W^T."""
    return np.diag(params.scale**2) + params.factors @ params.factors.T


def _beta_shapes(params) -> tuple:
    return (1 + np.exp(params.mean)) / params.scale**2, (1 + np.exp(-params.mean)) / params.scale**2


def _asymmetric_laplace(params) -> Any:
    above, below = special.expit(params.shape), special.expit(-params.shape)
    # scipy's kappa^2 is the ratio of both exponentials.
    return stats.laplace_asymmetric(
        np.sqrt(below / above), params.mean, params.scale * np.sqrt(above * below)
    )


EULER = np.euler_gamma
POSITIVE_MOMENTS = ((1.0, 2.0, 0.5), (0.3, 2.0, 0.1))
SHARE_MOMENTS = ((0.5, 0.3, 0.8), (0.02, 0.03, 0.01))

FAMILIES = {
    "diag": _location_scale(DiagonalGaussian(), stats.norm),
    "full": _cholesky(FullGaussian()),
    "tied": _cholesky(TiedGaussian())._replace(has_own_metric=True),
    "spherical": _location_scale(SphericalGaussian(), stats.norm)._replace(has_own_metric=True),
    "low-rank": FamilyCase(
        LowRankGaussian(),
        lambda p: stats.norm(p.mean, np.sqrt(p.scale**2 + np.sum(p.factors**2, axis=-1))),
        stats.norm,
        lambda p, y: stats.multivariate_normal(p.mean, low_rank_covariance(p)).logpdf(y),
        lambda p, z: p.mean + z @ np.linalg.cholesky(low_rank_covariance(p)).T,
        has_own_metric=True,
    ),
    "logistic": _location_scale(Logistic(), stats.logistic),
    "laplace": _location_scale(Laplace(), stats.laplace),
    "student": _location_scale(Student(df=5.0), partial(stats.t, 5)),
    "gumbel": FamilyCase(
        Gumbel(), lambda p: stats.gumbel_r(p.mean + (1 - EULER) * p.scale, p.scale)
    ),
    "student-learned": FamilyCase(
        LearnedStudent(), lambda p: stats.t(2 + np.exp(p.shape), p.mean, p.scale)
    ),
    "asymmetric-laplace": FamilyCase(
        AsymmetricLaplace(), _asymmetric_laplace, kink=lambda p: special.expit(-p.shape)
    ),
    "log-gamma": FamilyCase(
        LogGamma(),
        lambda p: stats.loggamma(p.scale**-2, p.mean + 2 * np.log(p.scale)),
        n_draws=10_000,
    ),
    "lognormal": FamilyCase(
        LogNormal(),
        lambda p: stats.lognorm(p.scale, scale=np.exp(p.mean)),
        targets=np.exp,
        moments=POSITIVE_MOMENTS,
    ),
    "gamma": FamilyCase(
        Gamma(),
        lambda p: stats.gamma(p.scale**-2, scale=np.exp(p.mean) * p.scale**2),
        targets=np.exp,
        moments=POSITIVE_MOMENTS,
        n_draws=10_000,
    ),
    "weibull": FamilyCase(
        Weibull(),
        lambda p: stats.weibull_min(1 / p.scale, scale=np.exp(p.mean - (1 - EULER) * p.scale)),
        targets=np.exp,
        moments=POSITIVE_MOMENTS,
    ),
    "logitnormal": FamilyCase(
        LogitNormal(),
        lambda p: oracles.LogitNormal(p.mean, p.scale),
        targets=special.expit,
        moments=SHARE_MOMENTS,
    ),
    "inverse-gaussian": LogGridCase(
        InverseGaussian(),
        lambda p: stats.invgauss(p.scale**2, scale=np.exp(p.mean) / p.scale**2),
        targets=np.exp,
        moments=POSITIVE_MOMENTS,
    ),
    "logit-beta": FamilyCase(
        LogitBeta(),
        lambda p: oracles.LogitBeta(*_beta_shapes(p)),
        n_draws=10_000,
    ),
    "beta": FamilyCase(
        Beta(),
        lambda p: stats.beta(*_beta_shapes(p)),
        targets=special.expit,
        moments=SHARE_MOMENTS,
        n_draws=10_000,
        has_own_metric=True,  # that of "logit-beta": near 1 a double cannot tell shares apart
    ),
}


class CountCase(FamilyCase):
    """A family of counts with scipy's account of it."""

    def points(self, law) -> tuple[np.ndarray, np.ndarray]:
        """Return all integers with a probability worth counting, and the probabilities."""
        y = np.arange(law.isf(1e-16) + 2)
        return y, law.pmf(y)

    def nearest(self, y: float) -> float:
        """Return a possible count."""
        return min(y, getattr(self.family, "most", y))


class AtomCase(FamilyCase):
    """A family with atoms, and `oracles.WithAtoms`."""

    def points(self, law) -> tuple[np.ndarray, np.ndarray]:
        """Return the atoms and points of quadrature, and their weights."""
        y, weights = oracles.law_points([law.smooth])
        atoms = np.array(self.family.atoms)
        masses = np.array([law.mass(atom) for atom in atoms])
        return np.r_[atoms, y[:, 0]], np.r_[masses, (1 - masses.sum()) * weights]

    def nearest(self, y: float) -> float:
        """Return a possible target."""
        return float(np.clip(y, 0.0, self.family.atoms[-1] or np.inf))


def _flat(params) -> list[float]:
    return [float(np.ravel(leaf)[0]) for leaf in jax.tree.leaves(params)]


def _negative_binomial(location: float, scale: float) -> Any:
    return stats.nbinom(scale**-2, 1 / (1 + scale**2 * np.exp(location)))


def _classes(params) -> Any:
    """Return the distribution of classes that a broken stick gives."""
    taken = special.expit(np.ravel(params.logits))
    left = np.concatenate([[1.0], np.cumprod(1 - taken)])
    return stats.rv_discrete(values=(np.arange(len(left)), left * np.append(taken, 1.0)))


def _with_zero(params) -> oracles.WithAtoms:
    logit, location, scale = _flat(params)
    law = stats.gamma(scale**-2, scale=np.exp(location) * scale**2)
    return oracles.WithAtoms(law, {0.0: special.expit(logit)}, (0.0, law.isf(1e-13)))


def _with_two(params) -> oracles.WithAtoms:
    first, second, location, scale = _flat(params)
    at = special.expit(first), special.expit(-first) * special.expit(second)
    law = oracles.LogitNormal(location, scale)
    return oracles.WithAtoms(law, dict(zip((0.0, 1.0), at, strict=True)), (0.0, 1.0))


#: Families of counts.
COUNTS = {
    "poisson": CountCase(
        Poisson(),
        lambda p: stats.poisson(np.exp(_flat(p)[0])),
        moments=((1.0, 2.0, 0.5), (1.0, 2.0, 0.5)),
    ),
    "negative-binomial": CountCase(
        NegativeBinomial(),
        lambda p: _negative_binomial(*_flat(p)),
        moments=((1.0, 2.0, 0.5), (1.5, 4.0, 0.7)),
    ),
    "ordinal": CountCase(Ordinal(classes=4.0), _classes, moments=()),
    "categorical": CountCase(Categorical(classes=5.0), _classes, moments=()),
    "binomial": CountCase(
        Binomial(trials=7.0),
        lambda p: stats.binom(7, special.expit(_flat(p)[0])),
        moments=((1.0, 2.0, 0.5), (6 / 7, 10 / 7, 13 / 28)),
    ),
}

#: Families with atoms.
ATOMS = {
    "zero-inflated gamma": AtomCase(
        get_family("zero-inflated gamma"),
        _with_zero,
        moments=((1.0, 2.0, 0.5), (2.0, 7.0, 0.4)),
    ),
    "logitnormal + 0 + 1": AtomCase(
        get_family("logitnormal + 0:0.2 + 1:0.3"),
        _with_two,
        moments=((0.5, 0.45, 0.6), (0.13, 0.14, 0.14)),
    ),
}


#: Families with a location and a scale: what stands for all others in code that treats them alike.
LOCATION_SCALE = {name: case for name, case in FAMILIES.items() if case.standard}


def families_but_slow(*fast, among=LOCATION_SCALE) -> pytest.MarkDecorator:
    """Return families, for code that treats them alike: every change runs the fast ones."""
    marks = {name: [] if name in fast else pytest.mark.slow for name in among}
    cases = [pytest.param(case, marks=marks[name], id=name) for name, case in among.items()]
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
