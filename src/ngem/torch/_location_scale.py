"""Components that are not Gaussian, for the losses: Laplace, logistic and Student's t.

With z = (mean - y) / scale and s the derivative of minus the log density in z, the gradient of the
negative log-likelihood is rho s / scale for a mean and rho (1 - z s) / scale for a scale. The
Fisher information is a / scale^2 and b / scale^2, as for Gaussians with a = 1 and b = 2.
"""

import abc
import math
import re

import torch
from torch import Tensor

from .._errors import check_choice
from ._families import AbstractComponents, Strength, family_of, precondition, times_power

_NAME = re.compile(r"\s*(\w+)\s*(?:\(\s*(?:df\s*=)?([^()]*)\))?\s*")


class AbstractLocationScale(AbstractComponents):
    """Independent symmetric coordinates; the scale has the shape of the mean.

    Attributes:
        fisher: Fisher information of location and scale at scale 1.
        variance: Variance at scale 1.
    """

    fisher: tuple[float, float]
    variance: float

    @abc.abstractmethod
    def score(self, z: Tensor) -> Tensor:
        """Return the derivative of half the deviance."""

    def residual(self, mean: Tensor, scale: Tensor, y: Tensor) -> Tensor:
        return (mean - y.unsqueeze(-2)).div_(scale)

    def log_diagonal(self, scale: Tensor) -> Tensor:
        return scale.log()

    def natural_gradients(
        self, z: Tensor, scale: Tensor, resp: Tensor, power: Strength, coordinates: str
    ) -> tuple[Tensor, Tensor]:
        grads = self._in_units_of_z(z, resp)
        for grad, information in zip(grads, self.fisher, strict=True):
            grad.mul_(information**-power)
        return precondition(*grads, scale, power, coordinates)

    def weighted_gradients(
        self, z: Tensor, scale: Tensor, resp: Tensor, beta: float
    ) -> tuple[Tensor, Tensor]:
        grad_mean, grad_scale = self._in_units_of_z(z, resp * self.variance**beta)
        exponent = 2 * beta - 1
        return times_power(grad_mean, scale, exponent), times_power(grad_scale, scale, exponent)

    def mean_gradient(self, z: Tensor, scale: Tensor) -> Tensor:
        return self.score(z) / scale

    def _in_units_of_z(self, z: Tensor, resp: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of mean and scale times the scale."""
        resp = resp.unsqueeze(-1)
        grad_mean = self.score(z) * resp
        return grad_mean, torch.addcmul(resp, grad_mean, z, value=-1)


class Laplace(AbstractLocationScale):
    """Density exp(-|z|) / (2 scale)."""

    log_constant = math.log(2)
    fisher = (1.0, 1.0)
    variance = 2.0

    def deviance(self, z: Tensor) -> Tensor:
        return 2 * z.abs()

    def score(self, z: Tensor) -> Tensor:
        return z.sign()


class Logistic(AbstractLocationScale):
    """Density sigmoid(z) sigmoid(-z) / scale."""

    log_constant = 0.0
    fisher = (1 / 3, (3 + math.pi**2) / 9)
    variance = math.pi**2 / 3

    def deviance(self, z: Tensor) -> Tensor:
        size = z.abs()
        return 2 * size + 4 * (-size).exp().log1p()

    def score(self, z: Tensor) -> Tensor:
        return (0.5 * z).tanh()


class Student(AbstractLocationScale):
    """Density proportional to (1 + z^2 / df)^(-(df + 1) / 2) / scale.

    Args:
        df: Degrees of freedom.
    """

    def __init__(self, df: float = 5.0) -> None:
        self.df = df
        self.log_constant = (
            0.5 * math.log(df * math.pi) + math.lgamma(df / 2) - math.lgamma((df + 1) / 2)
        )
        self.fisher = (df + 1) / (df + 3), 2 * df / (df + 3)
        self.variance = df / (df - 2)

    def deviance(self, z: Tensor) -> Tensor:
        return (self.df + 1) * (z.square() / self.df).log1p()

    def score(self, z: Tensor) -> Tensor:
        return (self.df + 1) * z / (self.df + z.square())


#: Families that losses take by name; a `Student` with other degrees of freedom joins when used.
_KNOWN: dict[str, AbstractLocationScale] = {
    "laplace": Laplace(),
    "logistic": Logistic(),
    "student": Student(),
}

FAMILY_NAMES = ("gaussian", *_KNOWN)


def components_of(family: str, mean: Tensor, scale: Tensor) -> AbstractComponents:
    """Return the components of a loss, from the name of their family and the shape of scales."""
    if family == "gaussian":
        return family_of(mean, scale)
    found = _KNOWN.get(family) if isinstance(family, str) else None
    found = read_family(family) if found is None else found
    if found is None:
        return family_of(mean, scale)
    if scale.dim() > mean.dim():
        raise ValueError(
            f"scale must have the shape of mean, {tuple(mean.shape)}, for family={family!r}, got "
            f"{tuple(scale.shape)}; Cholesky factors are for family='gaussian'."
        )
    return found


def read_family(family: str) -> AbstractLocationScale | None:
    """Return a family by name, with the options that may follow; None for Gaussians."""
    match = _NAME.fullmatch(family) if isinstance(family, str) else None
    name, option = match.groups() if match else (family, None)
    check_choice("family", name, FAMILY_NAMES)
    if name != "student" and option is not None:
        raise ValueError(
            f"family {name!r} must have no options, got {option!r}; for example {name}."
        )
    if option is None:
        return _KNOWN.get(name)
    if family not in _KNOWN:
        _KNOWN[family] = Student(_degrees_of_freedom(option))
    return _KNOWN[family]


def _degrees_of_freedom(option: str) -> float:
    try:
        df = float(option)
    except ValueError:
        df = math.nan
    if not 2 < df <= 1e6:
        raise ValueError(
            "df of family 'student' must be a number above 2 and at most 1e6, got "
            f"{option!r}; for example student(5). Above 100 the Gaussian family is the same."
        )
    return df
