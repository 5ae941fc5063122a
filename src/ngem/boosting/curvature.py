"""Gradient and curvature of the likelihood in raw outputs, for all rows of a table at once.

A leaf of a tree takes the step -sum(gradient) / sum(curvature) over its rows. The second derivative
of a mixture's likelihood is often negative. The complete-data Fisher information, Proposition 4 of
the paper, is positive and has a closed form for each row: it is the curvature here.

Arrays have the rows as their last axis. This is LightGBM's own layout, and the fast one for XLA.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._programs import kept
from ..families import AbstractFamily
from ..geometry import raw_fisher_diagonal
from ..nn import MixtureNetwork
from ..objectives import NLL, split_window

#: Curvatures by name. The last three are baselines, without the Fisher information.
CURVATURES = ("fisher", "em", "hessian", "none", "scaled")

#: Rows that are seen are at least this fraction, for the size of steps.
_LEAST_SEEN = 0.02

#: The clipped second derivative is at least this.
_LEAST_HESSIAN = 1e-3

Raw = Float[Array, "raw batch"]


@dataclass(frozen=True)
class Outputs:
    """What the raw outputs of all trees together stand for: logits first, then each component.

    Attributes:
        n_components: Number of mixture components.
        dim: Number of target columns.
        family: The components' distribution.
    """

    n_components: int
    dim: int
    family: AbstractFamily

    @property
    def head(self) -> MixtureNetwork:
        """The network without a body, which reads mixtures off raw outputs."""
        return MixtureNetwork(_as_they_are, self.n_components, self.dim, self.family)

    @property
    def num_raw(self) -> int:
        """Number of raw outputs."""
        return self.head.num_raw

    @property
    def kinds(self) -> tuple[str, ...]:
        """What each raw output moves: a "weight", a "mean" or a "scale"."""
        own = self.family.raw_kinds(self.dim)
        return ("weight",) * self.n_components + own * self.n_components

    def losses(self, raw: Raw, y: Float[Array, "dim batch"]) -> Float[Array, " batch"]:
        """Return the negative log-likelihood of each row."""
        return NLL().loss(self.family, *self.head.outputs(raw), y)

    def rows_behind(self, raw: Raw, y: Float[Array, "given batch"]) -> Float[Array, "1 #batch"]:
        """Return how many rows there are for each one that is seen: 1 without truncation.

        The complete data of EM hold those that are not seen, too: 1 / P(seen) for each row.
        """
        logits, components = self.head.outputs(raw)
        window = split_window(self.family, components, y)[1]
        if window is None:
            return jnp.ones((1, 1), raw.dtype)
        seen = -NLL().loss(self.family, logits, components, window)
        return jnp.exp(-jnp.maximum(seen, math.log(_LEAST_SEEN)))[None]


@dataclass(frozen=True)
class Curvature:
    """How the steps of leaves are scaled.

    Attributes:
        name: One of `CURVATURES`. "fisher" is weight_k F_k; "em" is responsibility_k F_k, with
            which a leaf's step of a mean is an M-step; both have weight (1 - weight) for the
            logits. "hessian" is the second derivative, clipped below. "none" is one. "scaled" is
            one, with gradients divided by their root mean square over the rows.
        damping: Added to each weight or responsibility, so that a component that has lost its
            weight takes steps of a limited size, and to the curvature of the logits.
        weight_rate: Steps of logits are multiplied by this.
        scale_rate: Steps of scales are multiplied by this.
    """

    name: str = "fisher"
    damping: float = 0.0
    weight_rate: float = 1.0
    scale_rate: float = 1.0

    def rates(self, kinds: Sequence[str]) -> Float[np.ndarray, " raw"]:
        """Return the rate of each raw output, relative to that of means."""
        rates = {"weight": self.weight_rate, "mean": 1.0, "scale": self.scale_rate}
        return np.array([rates[kind] for kind in kinds])


class Newton(NamedTuple):
    """What the trees of one round are grown from.

    Attributes:
        grad: Gradient of each raw output and row.
        curvature: Positive curvature of each raw output and row; its mean over the rows is one, so
            that a penalty has the same meaning for every output.
        nll: Mean negative log-likelihood.
    """

    grad: Raw
    curvature: Raw
    nll: Float[Array, ""]


def _as_they_are(raw: Float[Array, "raw *rows"]) -> Float[Array, "raw *rows"]:
    return raw


@kept()
def newton(
    outputs: Outputs,
    curvature: Curvature,
    raw: Raw,
    y: Float[Array, "dim batch"],
    weights: Float[Array, " batch"],
) -> Newton:
    """Return gradient and curvature of all rows, in units of the mean curvature of each output.

    Args:
        outputs: What the raw outputs stand for.
        curvature: How steps are scaled.
        raw: Raw outputs, rows last.
        y: Targets, rows last.
        weights: How much each row counts.
    """
    return in_units(outputs, curvature, *weighted(outputs, curvature, raw, y, weights))


def weighted(
    outputs: Outputs,
    curvature: Curvature,
    raw: Raw,
    y: Float[Array, "dim batch"],
    weights: Float[Array, " batch"],
) -> tuple[Raw, Raw, Float[Array, " sum"]]:
    """Return weighted gradient and curvature, and sums over the rows: what units depend on.

    The sums are those of the curvature of each output, of the losses, and of the weights.
    """
    losses, grad, positive = row_newton(outputs, curvature, raw, y)
    grad, positive = grad * weights[None], positive * weights[None]
    rest = jnp.stack([jnp.sum(losses * weights), jnp.sum(weights)])
    return grad, positive, jnp.concatenate([jnp.sum(positive, axis=1), rest])


def in_units(
    outputs: Outputs, curvature: Curvature, grad: Raw, positive: Raw, sums: Float[Array, " sum"]
) -> Newton:
    """Return gradient and curvature in units of the mean curvature; the sums are of all rows."""
    unit = sums[:-2, None] / sums[-1]
    unit = jnp.where(unit > 0, unit, 1.0)
    rates = jnp.asarray(curvature.rates(outputs.kinds), grad.dtype)[:, None]
    return Newton(grad * (rates / unit), positive / unit, sums[-2] / sums[-1])


def row_newton(
    outputs: Outputs, curvature: Curvature, raw: Raw, y: Float[Array, "dim batch"]
) -> tuple[Float[Array, " batch"], Raw, Raw]:
    """Return the loss of each row, and its gradient and curvature in raw outputs."""
    losses, pull = jax.vjp(lambda raw: outputs.losses(raw, y), raw)
    (grad,) = pull(jnp.ones_like(losses))
    if curvature.name in ("fisher", "em"):
        positive = _complete_data(outputs, curvature, raw, grad)
        return losses, grad, positive * outputs.rows_behind(raw, y)
    if curvature.name == "hessian":
        return losses, grad, jnp.maximum(_second_derivative(outputs, raw, y), _LEAST_HESSIAN)
    if curvature.name == "scaled":
        size = jnp.sqrt(jnp.mean(grad**2, axis=1, keepdims=True))
        grad = grad / jnp.where(size > 0, size, 1.0)
    return losses, grad, jnp.ones_like(grad)


def _complete_data(outputs: Outputs, curvature: Curvature, raw: Raw, grad: Raw) -> Raw:
    """Return the diagonal of the complete-data Fisher information in raw outputs, damped."""
    logits, components = outputs.head.outputs(raw)
    counts = jax.nn.softmax(logits, axis=0)
    if curvature.name == "em":
        # The gradient of the logits is weight - responsibility.
        counts = jnp.maximum(counts - grad[: outputs.n_components], 0.0)
    own, rest = raw_fisher_diagonal(outputs.family, logits, components, counts + curvature.damping)
    return jnp.concatenate([own + curvature.damping, rest.reshape(-1, raw.shape[1])])


def _second_derivative(outputs: Outputs, raw: Raw, y: Float[Array, "dim batch"]) -> Raw:
    """Return the second derivative of each row's loss in each of its raw outputs."""
    slope = jax.grad(lambda raw: jnp.sum(outputs.losses(raw, y)))

    def one(index: Array) -> Float[Array, " batch"]:
        along = jnp.zeros_like(raw).at[index].set(1.0)
        return jax.jvp(slope, (raw,), (along,))[1][index]

    return jax.lax.map(one, jnp.arange(len(raw)))


@kept()
def row_nll(outputs: Outputs, raw: Raw, y: Float[Array, "dim batch"]) -> Float[Array, " batch"]:
    """Return the negative log-likelihood of each row."""
    return outputs.losses(raw, y)
