"""Gaussian components with a diagonal or a full covariance: everything that depends on which it is.

With responsibilities rho and standardized residuals z = (mean - y) / scale, the gradient of the
negative log-likelihood is rho z / scale for a mean and rho (1 - z^2) / scale for a scale. The
complete-data Fisher information of Proposition 4 is diagonal there, so a power of its inverse only
multiplies by a power of the scale and of the weight. At power 1/2 the scales cancel.
"""

import abc
import math

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, MultivariateNormal, Normal

#: Strength of a preconditioner: a number, or a tensor of shape () if it follows a schedule.
Strength = float | Tensor


class AbstractComponents(abc.ABC):
    """Components as the losses need them, with mean (..., components, dim) and a scale.

    In the gradients, `resp` stands for responsibilities times the gradient of each row's loss, and
    for whatever else multiplies the gradients of a whole component.

    Attributes:
        log_constant: What is subtracted from the log density of each coordinate.
    """

    log_constant: float

    @abc.abstractmethod
    def residual(self, mean: Tensor, scale: Tensor, y: Tensor) -> Tensor:
        """Return the standardized residuals z of targets (..., dim)."""

    @abc.abstractmethod
    def log_diagonal(self, scale: Tensor) -> Tensor:
        """Return the terms (..., components, dim) whose sum is the log-determinant of the scale."""

    @abc.abstractmethod
    def deviance(self, z: Tensor) -> Tensor:
        """Return minus twice the log density of each coordinate at scale 1, plus a constant."""

    def minus_log_prob(self, log_scale: Tensor, z: Tensor) -> Tensor:
        """Return minus the log density of each coordinate, plus a constant."""
        return torch.add(log_scale, self.deviance(z), alpha=0.5)

    @abc.abstractmethod
    def natural_gradients(
        self, z: Tensor, scale: Tensor, resp: Tensor, power: Strength, coordinates: str
    ) -> tuple[Tensor, Tensor]:
        """Return F^-power times the gradients of mean and scale, F that of one component."""

    @abc.abstractmethod
    def weighted_gradients(
        self, z: Tensor, scale: Tensor, resp: Tensor, beta: float
    ) -> tuple[Tensor, Tensor]:
        """Return variance^beta times the gradients of mean and scale."""

    @abc.abstractmethod
    def mean_gradient(self, z: Tensor, scale: Tensor) -> Tensor:
        """Return the gradient of minus the log density with respect to the mean."""


class AbstractGaussian(AbstractComponents):
    """Gaussians with mean (..., components, dim) and a scale of the family's own shape."""

    log_constant = 0.5 * math.log(2 * math.pi)

    def deviance(self, z: Tensor) -> Tensor:
        return z.square()

    def minus_log_prob(self, log_scale: Tensor, z: Tensor) -> Tensor:
        return torch.addcmul(log_scale, z, z, value=0.5)  # one operation

    @abc.abstractmethod
    def num_raw(self, dim: int) -> int:
        """Return the number of raw outputs for the scale of one component."""

    @abc.abstractmethod
    def entry_index(self, dim: int) -> Tensor:
        """Return the position of each entry of the scale among (positive, rest, zero)."""

    @abc.abstractmethod
    def assemble(self, positive: Tensor, rest: Tensor, index: Tensor) -> Tensor:
        """Return the scale, given its positive entries and its other raw outputs.

        Args:
            positive: Entries that must be positive, (..., components, dim).
            rest: The other raw outputs.
            index: What `entry_index` returns, on the device of the others.
        """

    @abc.abstractmethod
    def rescale(self, scale: Tensor, factor: Tensor) -> Tensor:
        """Return the scale of targets that are multiplied by a factor for each column."""

    @abc.abstractmethod
    def bound_scale(self, scale: Tensor, largest: Tensor) -> Tensor:
        """Return the scale with standard deviations of at most `largest`, (dim,)."""

    @abc.abstractmethod
    def univariate_scale(self, scale: Tensor) -> Tensor:
        """Return the standard deviations (..., components) of one-dimensional components."""

    @abc.abstractmethod
    def marginal_scale(self, scale: Tensor) -> Tensor:
        """Return the standard deviation of each target, (..., components, dim)."""

    @abc.abstractmethod
    def distribution(self, mean: Tensor, scale: Tensor) -> Distribution:
        """Return the components as a PyTorch distribution with events of shape (dim,)."""

    @abc.abstractmethod
    def transform(self, noise: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
        """Return draws, given standard normal noise of the shape of the mean."""


class DiagonalGaussian(AbstractGaussian):
    """N(mean, diag(scale^2)); the scale holds standard deviations, (..., components, dim)."""

    def num_raw(self, dim: int) -> int:
        return dim

    def entry_index(self, dim: int) -> Tensor:
        return torch.arange(dim)

    def assemble(self, positive: Tensor, rest: Tensor, index: Tensor) -> Tensor:
        return positive  # already in their places

    def rescale(self, scale: Tensor, factor: Tensor) -> Tensor:
        return factor * scale

    def bound_scale(self, scale: Tensor, largest: Tensor) -> Tensor:
        return torch.minimum(scale, largest)

    def univariate_scale(self, scale: Tensor) -> Tensor:
        return scale.squeeze(-1)

    def marginal_scale(self, scale: Tensor) -> Tensor:
        return scale

    def residual(self, mean: Tensor, scale: Tensor, y: Tensor) -> Tensor:
        return (mean - y.unsqueeze(-2)).div_(scale)

    def log_diagonal(self, scale: Tensor) -> Tensor:
        return scale.log()

    def natural_gradients(
        self, z: Tensor, scale: Tensor, resp: Tensor, power: Strength, coordinates: str
    ) -> tuple[Tensor, Tensor]:
        """Return F^-power times the gradients; F is 1/scale^2 and 2/scale^2, equation (21)."""
        return precondition(*_in_units_of_z(z, resp, power), scale, power, coordinates)

    def weighted_gradients(
        self, z: Tensor, scale: Tensor, resp: Tensor, beta: float
    ) -> tuple[Tensor, Tensor]:
        grad_mean, grad_scale = _in_units_of_z(z, resp, 0.0)
        exponent = 2 * beta - 1
        return times_power(grad_mean, scale, exponent), times_power(grad_scale, scale, exponent)

    def mean_gradient(self, z: Tensor, scale: Tensor) -> Tensor:
        return z / scale

    def distribution(self, mean: Tensor, scale: Tensor) -> Distribution:
        return Independent(Normal(mean, scale), 1)

    def transform(self, noise: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
        return mean + scale * noise


class FullGaussian(AbstractGaussian):
    """N(mean, L L^T); the scale is the lower Cholesky factor L, (..., components, dim, dim)."""

    def num_raw(self, dim: int) -> int:
        return dim * (dim + 1) // 2

    def entry_index(self, dim: int) -> Tensor:
        """Return the positions: positive on the diagonal, the rest below it, row by row."""
        n_below = dim * (dim - 1) // 2
        index = torch.full((dim, dim), dim + n_below)
        index[tuple(torch.tril_indices(dim, dim, -1))] = dim + torch.arange(n_below)
        return index.diagonal_scatter(torch.arange(dim)).flatten()

    def assemble(self, positive: Tensor, rest: Tensor, index: Tensor) -> Tensor:
        dim, zero = positive.shape[-1], torch.zeros_like(positive[..., :1])
        entries = torch.cat([positive, rest.to(positive.dtype), zero], -1)
        return entries.index_select(-1, index).unflatten(-1, (dim, dim))

    def rescale(self, scale: Tensor, factor: Tensor) -> Tensor:
        return factor.unsqueeze(-1) * scale  # rows of the factor belong to columns of y

    def bound_scale(self, scale: Tensor, largest: Tensor) -> Tensor:
        shrink = (largest / self.marginal_scale(scale)).clamp(max=1.0)
        return shrink.unsqueeze(-1) * scale

    def univariate_scale(self, scale: Tensor) -> Tensor:
        return scale.squeeze((-2, -1))

    def marginal_scale(self, scale: Tensor) -> Tensor:
        return torch.linalg.vector_norm(scale, dim=-1)

    def residual(self, mean: Tensor, scale: Tensor, y: Tensor) -> Tensor:
        residual = (mean - y.unsqueeze(-2)).unsqueeze(-1)
        return torch.linalg.solve_triangular(scale, residual, upper=False).squeeze(-1)

    def log_diagonal(self, scale: Tensor) -> Tensor:
        return _diagonal(scale).log()

    def natural_gradients(
        self, z: Tensor, scale: Tensor, resp: Tensor, power: Strength, coordinates: str
    ) -> tuple[Tensor, Tensor]:
        """Return F^-power times the gradients, exactly at power 0 and 1."""
        grads = self._plain_gradients(z, scale, resp)
        if not isinstance(power, Tensor) and power == 0:
            return grads
        # Autocast would round matrix products to three digits.
        with torch.autocast(scale.device.type, enabled=False):
            return _full_fisher_solve(scale, *grads, power, coordinates)

    def weighted_gradients(
        self, z: Tensor, scale: Tensor, resp: Tensor, beta: float
    ) -> tuple[Tensor, Tensor]:
        grad_mean, grad_factor = self._plain_gradients(z, scale, resp)
        weight = scale.square().sum(-1).pow(beta)
        return grad_mean * weight, grad_factor * weight.unsqueeze(-1)

    def mean_gradient(self, z: Tensor, scale: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(scale.mT, z.unsqueeze(-1), upper=True).squeeze(-1)

    def distribution(self, mean: Tensor, scale: Tensor) -> Distribution:
        return MultivariateNormal(mean, scale_tril=scale)

    def transform(self, noise: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
        return mean + (scale @ noise.unsqueeze(-1)).squeeze(-1)

    def _plain_gradients(self, z: Tensor, scale: Tensor, resp: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of mean and factor: L^-T z, and 1 / L_ii - tril(L^-T z z^T)."""
        resp = resp.unsqueeze(-1)
        grad_mean = self.mean_gradient(z, scale) * resp
        outer = (grad_mean.unsqueeze(-1) * z.unsqueeze(-2)).tril()
        return grad_mean, torch.diag_embed(resp / _diagonal(scale)) - outer


#: Families by the name of their covariance.
COVARIANCES: dict[str, AbstractGaussian] = {"diag": DiagonalGaussian(), "full": FullGaussian()}

_DIAGONAL, _FULL = COVARIANCES.values()


def family_of(mean: Tensor, scale: Tensor) -> AbstractGaussian:
    """Return the family that a scale belongs to; nothing else decides it from shapes."""
    return _FULL if scale.dim() > mean.dim() else _DIAGONAL


def power_of(x: Tensor, exponent: Strength) -> Tensor:
    """Return x ** exponent for positive x, exact for halves and whole numbers."""
    if not isinstance(exponent, Tensor):
        # Compiled, exponentials of weights are kept, but roots are taken again for each dimension.
        if exponent == -0.5 and not torch.compiler.is_compiling():
            return x.rsqrt()
        if float(2 * exponent).is_integer() and exponent != -0.5:
            return x.pow(exponent)
    # Compiled, this is many times faster than a power.
    return (x.log() * exponent).exp_()


def precondition(
    grad_mean: Tensor, grad_scale: Tensor, scale: Tensor, power: Strength, coordinates: str
) -> tuple[Tensor, Tensor]:
    """Return scale^(2 power) times gradients that are given times the scale, in place."""
    if coordinates == "variance":
        grad_scale = grad_scale.mul_(power_of(scale.clamp(max=1.0), 4 * power))
    exponent = 2 * power - 1 if coordinates == "scale" else -1.0
    return (
        times_power(grad_mean, scale, 2 * power - 1),
        times_power(grad_scale, scale, exponent),
    )


def times_power(grad: Tensor, scale: Tensor, exponent: Strength) -> Tensor:
    """Multiply a gradient by scale^exponent in place."""
    if not isinstance(exponent, Tensor) and exponent == 0:
        return grad
    if not isinstance(exponent, Tensor) and exponent == -1:
        return grad.div_(scale)
    return grad.mul_(power_of(scale, exponent))


def _in_units_of_z(z: Tensor, resp: Tensor, power: Strength) -> tuple[Tensor, Tensor]:
    """Return rho z and 2^-power rho (1 - z^2): gradients of mean and scale times the scale.

    The 2 is that of the scale's Fisher information, 2 / scale^2.
    """
    resp = resp.unsqueeze(-1)
    grad_mean = z * resp
    if isinstance(power, Tensor):
        return grad_mean, torch.addcmul(resp, grad_mean, z, value=-1).mul_(torch.exp2(-power))
    half = 2**-power
    return grad_mean, torch.addcmul(half * resp, grad_mean, z, value=-half)


def _diagonal(factor: Tensor) -> Tensor:
    return factor.diagonal(dim1=-2, dim2=-1)


def _full_fisher_solve(
    factor: Tensor, grad_mean: Tensor, grad_factor: Tensor, power: Strength, coordinates: str
) -> tuple[Tensor, Tensor]:
    """Return F^-power times the gradients of a mean and a Cholesky factor L.

    With S the standard deviations and L = S C, the inverse metrics are S C C^T S for the mean and
    S C phi(tril(C^T S g)) for the factor, where phi halves the diagonal. Between 0 and 1 the power
    acts on S and on the 2 as it is, and on the correlation by interpolation with the identity. In
    coordinates of the log scale, with the diagonal J of the factor, the power of the inverse metric
    is taken as P = J^-power F^-power J^-power. In those of the variance it is A P A, where A slows
    narrow scales down: symmetric and positive definite in raw outputs.
    """
    deviation = torch.linalg.vector_norm(factor, dim=-1, keepdim=True)
    correlation, stretch = factor / deviation, power_of(deviation, power)
    mean = stretch * grad_mean.unsqueeze(-1)
    mean = (1 - power) * mean + power * (correlation @ (correlation.mT @ mean))
    mean = (stretch * mean).squeeze(-1)
    eye = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    half = torch.exp2(-power / 2) if isinstance(power, Tensor) else 2 ** (-power / 2)
    outer = stretch * (1 + eye * (half - 1))
    if coordinates == "scale":
        return mean, outer * _interpolate(correlation, outer * grad_factor, eye, power)
    own = _diagonal(factor).unsqueeze(-1)
    slow = power_of(own.clamp(max=1), 2 * power) if coordinates == "variance" else 1
    scale = grad_factor * (1 + eye * (slow * power_of(own, 1 - power) - 1))
    scale = outer * _interpolate(correlation, outer * scale, eye, power)
    scale = scale * (1 + eye * (slow / power_of(own, 1 + power) - 1))
    if isinstance(power, Tensor):  # no rounding error at power 0
        scale = torch.where(power == 0, grad_factor, scale)
    return mean, scale


def _interpolate(correlation: Tensor, grad: Tensor, eye: Tensor, power: Strength) -> Tensor:
    """Return (1 - power) g + power C phi(tril(C^T g)), normalized to be g where C = I."""
    root = 1 + eye * (math.sqrt(2) - 1)
    inner = (correlation.mT @ (grad * root)).tril() * (1 - 0.5 * eye)
    return (1 - power) * grad + power * ((correlation @ inner) * root)
