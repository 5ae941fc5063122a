"""Preconditioners: how an objective turns the likelihood's gradient into the one it sends back."""

import abc
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from .. import _defaults
from ._families import AbstractComponents, Strength, power_of


class Evaluation(NamedTuple):
    """A mixture at its targets, as the backward pass needs it.

    Attributes:
        z: Standardized residuals, (..., components, dim).
        scale: Scales of the components.
        weights: Weights, (..., components).
        resp: Responsibilities times `total`, (..., components).
        total: Gradient of each row's loss, (..., 1), or one for all rows, ().
    """

    z: Tensor
    scale: Tensor
    weights: Tensor
    resp: Tensor
    total: Tensor


class AbstractPreconditioner(abc.ABC):
    """What an objective does to the gradients of logits, means and scales.

    Preconditioners are frozen dataclasses of static settings. A strength that follows a schedule
    is not one of them: it is passed to the methods as a tensor.
    """

    power: float

    @property
    @abc.abstractmethod
    def takes_power(self) -> bool:
        """Whether a caller's power replaces the preconditioner's own."""

    def with_settings(
        self, coordinates: str | None, flattening: float | None
    ) -> "AbstractPreconditioner":
        """Return the preconditioner with other settings, or itself if it has no such settings.

        Args:
            coordinates: Coordinates of the scale; None keeps them.
            flattening: Flattening of the weights; None keeps it.
        """
        return self

    @abc.abstractmethod
    def flatten(self, joint: Tensor, log_weights: Tensor, power: Strength) -> Tensor | None:
        """Return the log densities that responsibilities are computed from, None for `joint`."""

    @abc.abstractmethod
    def gradients(
        self, family: AbstractComponents, at: Evaluation, power: Strength
    ) -> list[Tensor]:
        """Return the gradients of logits, mean and scale."""


@dataclass(frozen=True)
class Preconditioner(AbstractPreconditioner):
    """(weight_k F_k)^-power on the components, and a rule of its own for the logits.

    Attributes:
        power: Strength on the components. 0 is the likelihood's own gradient.
        logits_rule: What the logits receive: "plain", "listing" (Appendix C) or "derived" (B.7).
        damping: Weights are inverted as (weight + damping) / (1 + damping).
        coordinates: Coordinates of the scale in which F_k is taken: "scale" is the paper's,
            see `_defaults.COORDINATE_CHOICES`.
        flattening: Responsibilities are computed with weight^(1 - flattening * power).
    """

    power: float = 0.0
    logits_rule: str = "plain"
    damping: float = 0.0
    coordinates: str = "scale"
    flattening: float = 0.0

    @property
    def takes_power(self) -> bool:
        """Whether the strength can be set: "nll", of strength 0, stays as it is."""
        return self.power > 0

    def with_settings(self, coordinates: str | None, flattening: float | None) -> "Preconditioner":
        # Cheaper in every step than dataclasses.replace.
        return Preconditioner(
            self.power,
            self.logits_rule,
            self.damping,
            self.coordinates if coordinates is None else coordinates,
            self.flattening if flattening is None else flattening,
        )

    def flatten(self, joint: Tensor, log_weights: Tensor, power: Strength) -> Tensor | None:
        if self.flattening == 0:
            return None
        return joint - self.flattening * power * log_weights

    def gradients(
        self, family: AbstractComponents, at: Evaluation, power: Strength
    ) -> list[Tensor]:
        resp = self._over_weights(at.resp, at.weights, power)
        return [
            _LOGITS_RULES[self.logits_rule](at),
            *family.natural_gradients(at.z, at.scale, resp, power, self.coordinates),
        ]

    def _over_weights(self, resp: Tensor, weights: Tensor, power: Strength) -> Tensor:
        """Return the responsibilities divided by the damped weights^power."""
        if not isinstance(power, Tensor) and power == 0:
            return resp
        if self.damping > 0:  # (weight + damping) / (1 + damping), in one operation
            total = 1 + self.damping
            weights = torch.rsub(weights, self.damping / total, alpha=-1 / total)
        return resp * power_of(weights, -power)


@dataclass(frozen=True)
class VarianceWeights(AbstractPreconditioner):
    """variance^beta on the components: beta-NLL (Seitzer et al., 2022).

    Attributes:
        beta: 0 is the likelihood's own gradient.
    """

    beta: float = _defaults.BETA
    power: float = field(default=0.0, init=False)

    @property
    def takes_power(self) -> bool:
        return False

    def flatten(self, joint: Tensor, log_weights: Tensor, power: Strength) -> None:
        return None

    def gradients(
        self, family: AbstractComponents, at: Evaluation, power: Strength
    ) -> list[Tensor]:
        return [_plain_logits(at), *family.weighted_gradients(at.z, at.scale, at.resp, self.beta)]


def _plain_logits(at: Evaluation) -> Tensor:
    """Return weight - responsibility, the likelihood's own gradient."""
    return (at.weights * at.total).sub_(at.resp)


def _listing_logits(at: Evaluation) -> Tensor:
    """Return the plain rule applied to responsibility / weight, Appendix C."""
    ratio = at.resp / at.weights
    return (at.weights * ratio.sum(-1, keepdim=True)).sub_(ratio)


def _derived_logits(at: Evaluation) -> Tensor:
    """Return 1 - responsibility / weight, Appendix B.7."""
    return at.total - at.resp / at.weights


_LOGITS_RULES = {
    "plain": _plain_logits,
    "listing": _listing_logits,
    "derived": _derived_logits,
}
