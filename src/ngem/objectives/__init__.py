"""Objectives by name, one per file, and the losses for a user's own training loop."""

from typing import Any

from jaxtyping import Array, Float

from .. import _defaults
from .._errors import check_choice
from ..mixture import gaussian_mixture
from .base import AbstractLikelihood, AbstractLoss, AbstractObjective, split_window
from .beta_nll import BetaNLL
from .mse import MSE
from .ngem import ANNEALED, DEFAULT, DERIVED, LISTING, NGEM
from .nll import NLL
from .schedule import Schedule
from .sgem import SGEM

OBJECTIVES: dict[str, AbstractObjective] = {
    "nll": NLL(),
    "sgem": SGEM(),
    "ngem": DEFAULT,
    "ngem-listing": LISTING,
    "ngem-derived": DERIVED,
    "beta-nll": BetaNLL(),
    "mse": MSE(),
}


def get_objective(objective: str | AbstractObjective) -> AbstractObjective:
    """Return an objective from its name, or as it is."""
    if isinstance(objective, AbstractObjective):
        return objective
    return OBJECTIVES[check_choice("objective", objective, OBJECTIVES)]


def nll_loss(
    logits: Any, mean: Any, scale: Any, y: Any, *, weights: Any | None = None
) -> Float[Array, ""]:
    """Return the mean negative log-likelihood of a Gaussian mixture, equation (3).

    Args:
        logits: Unnormalized log weights, (..., components).
        mean: Means, (..., components, dim).
        scale: Standard deviations, (..., components, dim), or lower Cholesky factors,
            (..., components, dim, dim).
        y: Targets, (..., dim).
        weights: Sample weights, (...,); the mean is weighted by them.
    """
    return NLL()(gaussian_mixture(logits, mean, scale), y, weights=weights)


def ngem_loss(
    logits: Any,
    mean: Any,
    scale: Any,
    y: Any,
    *,
    power: Any = _defaults.POWER,
    weights: Any | None = None,
    coordinates: str = _defaults.COORDINATES,
    flattening: float = 0.0,
) -> Float[Array, ""]:
    """Return the mean negative log-likelihood, sending natural gradients back.

    The value is that of `nll_loss`; only the gradient differs. The natural gradient is taken with
    respect to `mean` and the logarithm of `scale`, and the chain rule goes on from there.

    Args:
        logits: Unnormalized log weights, (..., components).
        mean: Means, (..., components, dim).
        scale: Standard deviations, (..., components, dim), or lower Cholesky factors,
            (..., components, dim, dim).
        y: Targets, (..., dim).
        power: Strength on the Gaussians, (weight_k F_k)^-power: 0 is NLL, 1 the paper's, None the
            default. It may be traced, to follow a schedule.
        weights: Sample weights, (...,); the mean is weighted by them.
        coordinates: "log_scale" for a scale that is exp or softplus of what is learned; "scale",
            the paper's, for a scale that is learned itself; "variance", with targets of the order
            of one, to let components find their places before they narrow.
        flattening: With a power that falls to zero over training, 1 keeps components alive while
            they find their places. At a constant power it is biased, see `NGEM`.

    >>> import jax, jax.numpy as jnp
    >>> logits, mean, scale = jnp.zeros((1, 1)), jnp.zeros((1, 1, 1)), 2 * jnp.ones((1, 1, 1))
    >>> loss = lambda mean: ngem_loss(logits, mean, scale, jnp.ones((1, 1)), power=1.0)
    >>> float(jax.grad(loss)(mean)[0, 0, 0])  # mean - y: the variance has canceled
    -1.0
    """
    power = _defaults.POWER if power is None else power
    objective = NGEM(coordinates=coordinates, flattening=flattening)
    return objective(gaussian_mixture(logits, mean, scale), y, weights=weights, power=power)


__all__ = [
    "ANNEALED",
    "DEFAULT",
    "DERIVED",
    "LISTING",
    "MSE",
    "NGEM",
    "NLL",
    "OBJECTIVES",
    "SGEM",
    "AbstractLikelihood",
    "AbstractLoss",
    "AbstractObjective",
    "BetaNLL",
    "Schedule",
    "get_objective",
    "ngem_loss",
    "nll_loss",
    "split_window",
]
