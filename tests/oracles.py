"""Slow and obvious accounts of what the library computes; scipy, scoringrules and autodiff only."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import scoringrules
from scipy import special, stats

from ngem._defaults import CLIP_MARGIN, HALF_TRUST


def mixture_logpdf(weights, logpdfs):
    """Return log sum_k w_k exp(logpdf_k)."""
    return special.logsumexp(np.asarray(logpdfs), b=np.asarray(weights))


def plain_nll(logits, mean, scale, y):
    """Return the mean NLL of a diagonal Gaussian mixture, from the definition (3), for autodiff."""
    weights = jnp.exp(logits) / jnp.sum(jnp.exp(logits), axis=-1, keepdims=True)
    z = (y[:, None, :] - mean) / scale
    density = jnp.prod(jnp.exp(-(z**2) / 2) / (scale * jnp.sqrt(2 * jnp.pi)), axis=-1)
    return -jnp.mean(jnp.log(jnp.sum(weights * density, axis=-1)))


def seitzer_loss(mean, scale, y, beta):
    """Return beta-NLL of one Gaussian as Seitzer et al. (2022) define it."""
    weight = jax.lax.stop_gradient(scale ** (2 * beta))
    return jnp.mean(jnp.sum(weight * ((y - mean) ** 2 / (2 * scale**2) + jnp.log(scale)), -1))


def listing_gradients(logits, mean, scale, y):
    """Return the gradients that the listing of Appendix C computes, its typos corrected."""

    def surrogate(logits, mean, scale):
        log_weights = jax.nn.log_softmax(logits, axis=-1)
        log_normal = jnp.sum(
            -0.5 * ((y[:, None, :] - mean) / scale) ** 2
            - jnp.log(scale)
            - 0.5 * jnp.log(2 * jnp.pi),
            axis=-1,
        )
        rho = jax.lax.stop_gradient(jax.nn.softmax(log_weights + log_normal, axis=-1))
        pi = jax.lax.stop_gradient(jnp.exp(log_weights))
        return -jnp.mean(jnp.sum(rho / pi * (log_weights + log_normal), axis=-1))

    g_logits, g_mean, g_scale = jax.grad(surrogate, argnums=(0, 1, 2))(logits, mean, scale)
    return g_logits, g_mean * scale**2, g_scale / 2.0 * scale**2


def hermite_points(dim: int, degree: int = 4):
    """Return nodes and weights that integrate polynomials exactly against N(0, I)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(degree)
    weights = weights / weights.sum()
    points = np.array(list(itertools.product(nodes, repeat=dim)))
    return points, np.array([np.prod(w) for w in itertools.product(weights, repeat=dim)])


def product_points(distribution, dim: int, count: int = 40):
    """Return nodes and weights for expectations of independent coordinates of a scipy distribution.

    Gauss-Legendre on either side of zero, where a density may have a kink.
    """
    nodes, weights = np.polynomial.legendre.leggauss(count)
    reach = distribution.isf(1e-16)
    side, mass = 0.5 * reach * (1 + nodes), 0.5 * reach * weights
    points, mass = np.concatenate([-side, side]), np.concatenate([mass, mass])
    mass = mass * distribution.pdf(points)
    grid = np.array(list(itertools.product(points, repeat=dim)))
    return grid, np.prod(list(itertools.product(mass, repeat=dim)), axis=1)


def law_points(laws, step: float = 0.15, kinks=None):
    """Return nodes and weights for expectations of independent coordinates of scipy distributions.

    The tanh-sinh rule over levels of quantiles, on either side of the median or of other levels:
    densities may have a kink there, and tails that no polynomial follows.
    """
    kinks = [0.5] * len(laws) if kinks is None else kinks
    t = np.arange(-4.0, 4.0 + step / 2, step)
    level = special.expit(np.pi * np.sinh(t))
    weight = step * np.pi * np.cosh(t) * level * special.expit(-np.pi * np.sinh(t))
    keep = 0.5 * level > 1e-280
    level, weight = level[keep], weight[keep]
    points = [
        np.concatenate([law.ppf(at * level), law.isf((1 - at) * level)])
        for law, at in zip(laws, kinks, strict=True)
    ]
    weights = [np.concatenate([at * weight, (1 - at) * weight]) for at in kinks]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*points, indexing="ij")], axis=1)
    return grid, np.prod([axis.ravel() for axis in np.meshgrid(*weights, indexing="ij")], axis=0)


class LogitNormal:
    """The distribution of expit(Z) for a Gaussian Z, from its definition."""

    def __init__(self, mean, scale):
        self.logits = stats.norm(mean, scale)

    def logpdf(self, y):
        return self.logits.logpdf(special.logit(y)) - np.log(y) - np.log1p(-y)

    def pdf(self, y):
        return np.exp(self.logpdf(y))

    def cdf(self, y):
        return self.logits.cdf(special.logit(y))

    def ppf(self, q):
        return special.expit(self.logits.ppf(q))

    def isf(self, q):
        return special.expit(self.logits.isf(q))


class LogitBeta:
    """The distribution of logit(Y) for a beta variable Y, from its definition."""

    def __init__(self, a, b):
        self.shares, self.others = stats.beta(a, b), stats.beta(b, a)

    def logpdf(self, z):
        y = special.expit(z)
        return self.shares.logpdf(y) + special.log_expit(z) + special.log_expit(-z)

    def pdf(self, z):
        return np.exp(self.logpdf(z))

    def cdf(self, z):
        return self.shares.cdf(special.expit(z))

    def ppf(self, q):
        return special.logit(self.shares.ppf(q))

    def isf(self, q):
        return -special.logit(self.others.ppf(q))


class WithAtoms:
    """A distribution of scipy's beside single values with probabilities of their own."""

    def __init__(self, smooth, atoms, ends):
        self.smooth, self.atoms, self.ends = smooth, atoms, ends
        self.rest = 1 - sum(atoms.values())

    def mass(self, y):
        return self.atoms[y]

    def cdf(self, y):
        return sum(p for atom, p in self.atoms.items() if atom <= y) + self.rest * self._below(y)

    def _below(self, y):
        low, high = self.ends
        return 0.0 if y <= low else 1.0 if y >= high else float(self.smooth.cdf(y))


def gaussian_mixture_1d(weights, means, scales):
    """Return pdf and cdf of a one-dimensional Gaussian mixture."""
    weights, means, scales = map(np.asarray, (weights, means, scales))

    def pdf(x):
        return np.sum(weights * stats.norm.pdf(np.asarray(x)[..., None], means, scales), -1)

    def cdf(x):
        return np.sum(weights * stats.norm.cdf(np.asarray(x)[..., None], means, scales), -1)

    return pdf, cdf


def guarded_density(guard, networks, x, y):
    """Return the density of one row under Gaussian networks with a guard, from the definition.

    Args:
        guard: Arrays by the names of `ngem.nn.Guard`, with `stds` of the linear model and of each
            wide density in place of variances.
        networks: (weight, mean, covariance) of each component of the networks, at clipped features.
        x: Features of the row.
        y: Its target.
    """
    low, high, floor, ceiling = (guard[name] for name in ("low", "high", "floor", "ceiling"))
    varies = high > low
    distance = (np.abs(x - np.clip(x, low, high)) / guard["unit"])[varies].max()
    trust = 1 / (1 + (distance / HALF_TRUST) ** 2)
    whole, linear, wide, *wider = np.exp(guard["log_weights"])
    weights = [trust * linear, wide + (1 - trust) * (whole + linear), *wider]
    line = np.clip(guard["slope"] @ clipped(guard, x) + guard["intercept"], floor, ceiling)
    means = [line] + [guard["center"]] * (1 + len(wider))
    total = sum(
        weight * stats.norm(mean, std).pdf(y).prod()
        for weight, mean, std in zip(weights, means, guard["stds"], strict=True)
    )
    for weight, mean, covariance in networks:
        shrink = np.diag(np.minimum(1, (ceiling - floor) / np.sqrt(np.diag(covariance))))
        bounded = np.clip(mean, floor, ceiling), shrink @ covariance @ shrink
        total += trust * whole * weight * stats.multivariate_normal(*bounded).pdf(y)
    return total


def clipped(guard, x):
    """Return features within a margin of the range of training rows."""
    nearest = np.minimum(np.maximum(x, guard["low"]), guard["high"])
    margin = CLIP_MARGIN * guard["unit"]
    return nearest + margin * np.tanh((x - nearest) / margin)


def far_and_faint(n_rows=400, seed=0):
    """Return float32 logits, means, scales and targets: one component near, two far and faint.

    The two halves of a CRPS, E|Y - y| and E|Y - Y'| / 2, then agree in all digits of float32.
    """
    rng = np.random.default_rng(seed)
    logits = np.log(np.c_[np.ones(n_rows), 10 ** rng.uniform(-6, -2, (n_rows, 2))])
    far = rng.choice([-1, 1], (n_rows, 2)) * 10 ** rng.uniform(8, 12, (n_rows, 2))
    mean = np.c_[rng.normal(size=n_rows), far]
    scale = np.c_[np.full(n_rows, 0.1), 10 ** rng.uniform(-3, 8, (n_rows, 2))]
    y = mean[:, 0] + 0.1 * rng.normal(size=n_rows)
    return tuple(part.astype(np.float32) for part in (logits, mean, scale, y))


def crps_of(logits, mean, scale, y):
    """Return the CRPS of Gaussian mixtures in double precision, by scoringrules."""
    logits, mean, scale, y = (np.asarray(part, np.float64) for part in (logits, mean, scale, y))
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return scoringrules.crps_mixnorm(y, mean, scale, weights)
