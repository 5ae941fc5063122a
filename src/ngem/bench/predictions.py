"""Quantiles, cdf, CRPS, samples and regions of many mixtures: ours, a scipy loop, and skpro."""

import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..mixture import Mixture, gaussian_mixture
from .timing import Turn, seconds

#: Level of the quantiles, and probability of the regions.
LEVEL = 0.9


def draw(rows: int, components: int) -> tuple[np.ndarray, ...]:
    """Return weights, means and scales, (rows, comp) each, and one target for each row."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(components), rows)
    mean = 2 * rng.standard_normal((rows, components))
    scale = rng.uniform(0.2, 1.5, (rows, components))
    return weights, mean, scale, 2 * rng.standard_normal(rows)


def answer_ours(*, question: str, components: int, rows: int, sample: int = 0) -> Turn:
    """Return a turn that answers for all rows at once; it gives seconds per row."""
    answer, mixture, y = ours(question, rows, components)
    work = lambda: jax.block_until_ready(answer(mixture, y))  # noqa: E731
    work()
    return lambda: seconds(work) / rows


def answer_scipy(*, question: str, components: int, sample: int, rows: int = 0) -> Turn:
    """Return a turn that answers row by row with scipy, for `sample` rows only."""
    parts = draw(sample, components)
    one = SCIPY[question]
    return lambda: seconds(lambda: [one(*row) for row in zip(*parts, strict=True)]) / sample


def answer_skpro(*, question: str, components: int, sample: int, rows: int = 0) -> Turn:
    """Return a turn that answers with skpro's mixture of normals, for `sample` rows only."""
    answer = skpro(question, sample, components)
    return lambda: seconds(answer) / sample


def ours(question: str, rows: int, components: int) -> tuple[Callable, Mixture, Any]:
    """Return the call that a user makes, with its mixture and targets."""
    weights, mean, scale, y = (jnp.asarray(part, float) for part in draw(rows, components))
    mixture = gaussian_mixture(jnp.log(weights), mean[..., None], scale[..., None])
    questions: dict[str, Callable] = {
        "cdf": lambda mixture, y: mixture.cdf(y),
        "quantile": lambda mixture, y: mixture.quantile(LEVEL),
        "crps": lambda mixture, y: mixture.crps(y),
        "sample": lambda mixture, y: mixture.sample(jax.random.key(0)),
        "region": lambda mixture, y: mixture.interval(LEVEL),
    }
    return questions[question], mixture, y[:, None]


def _cdf(weights: np.ndarray, mean: np.ndarray, scale: np.ndarray, y: float) -> Any:
    from scipy import stats

    return weights @ stats.norm.cdf(y, mean, scale)


def _quantile(weights: np.ndarray, mean: np.ndarray, scale: np.ndarray, y: float) -> Any:
    from scipy import optimize, stats

    ends = stats.norm.ppf(LEVEL, mean, scale)
    above = lambda at: weights @ stats.norm.cdf(at, mean, scale) - LEVEL  # noqa: E731
    return optimize.brentq(above, ends.min() - 1e-6, ends.max() + 1e-6)


def _crps(weights: np.ndarray, mean: np.ndarray, scale: np.ndarray, y: float) -> Any:
    """Return the closed form: mean distance to y less half the mean distance of two draws."""
    from scipy import stats

    def distance(center: np.ndarray, width: np.ndarray) -> np.ndarray:
        z = center / width
        return center * (2 * stats.norm.cdf(z) - 1) + 2 * width * stats.norm.pdf(z)

    pairs = distance(mean[:, None] - mean, np.hypot(scale[:, None], scale))
    return weights @ distance(y - mean, scale) - 0.5 * weights @ pairs @ weights


def _sample(weights: np.ndarray, mean: np.ndarray, scale: np.ndarray, y: float) -> Any:
    from scipy import stats

    picked = stats.rv_discrete(values=(np.arange(len(weights)), weights)).rvs()
    return stats.norm.rvs(mean[picked], scale[picked])


def _region(weights: np.ndarray, mean: np.ndarray, scale: np.ndarray, y: float) -> Any:
    """Return the highest-density region: a threshold from a grid, then a root at each end."""
    from scipy import optimize, stats

    pdf = lambda at: weights @ stats.norm.pdf(at, mean, scale)  # noqa: E731
    grid = np.linspace((mean - 5 * scale).min(), (mean + 5 * scale).max(), 2001)
    density = weights @ stats.norm.pdf(grid, mean[:, None], scale[:, None])
    highest = np.sort(density)[::-1]
    mass = np.cumsum(highest) * (grid[1] - grid[0])
    at = np.searchsorted(mass, LEVEL)
    level = (highest[at] + highest[at + 1]) / 2
    (cells,) = np.nonzero(np.diff(density > level))
    above = lambda at: pdf(at) - level  # noqa: E731
    ends: Any = [optimize.brentq(above, grid[cell], grid[cell + 1]) for cell in cells]
    return np.reshape(ends, (-1, 2))


#: The questions, answered by scipy for one row.
SCIPY: dict[str, Callable] = {
    "cdf": _cdf,
    "quantile": _quantile,
    "crps": _crps,
    "sample": _sample,
    "region": _region,
}


def skpro(question: str, rows: int, components: int) -> Callable[[], Any]:
    """Return skpro's answer to one question."""
    frame = importlib.import_module("pandas").DataFrame
    normal_mixture = importlib.import_module("skpro.distributions.normal_mixture")
    weights, mean, scale, y = draw(rows, components)
    mixture = normal_mixture.NormalMixture(weights, mean[..., None], scale[..., None])
    targets = frame(y[:, None])
    questions: dict[str, Callable] = {
        "cdf": lambda: mixture.cdf(targets),
        "quantile": lambda: mixture.quantile([LEVEL]),
        # skpro's energy of the mixture with itself is an approximation that ignores the means.
        "crps": lambda: np.asarray(mixture.energy(targets)) - 0.5 * np.asarray(mixture.energy()),
        "sample": lambda: mixture.sample(),
    }
    return questions[question]
