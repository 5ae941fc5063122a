"""The one custom derivative: likelihood forwards, natural gradients in closed form backwards.

With responsibilities rho and standardised residuals z = (mean - y) / scale, the likelihood's
gradient is rho z / scale for a mean and rho (1 - z^2) / scale for a scale. The complete-data Fisher
information of Proposition 4 is diagonal there, so that a power of its inverse only multiplies by a
power of the scale and of the weight; at power 1/2 the scales cancel altogether.
"""

import inspect
import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)

Power = float | Tensor


class MixtureNLL(Function):
    """-log sum_k weight_k f_k(y) of each row, equation (3), with a preconditioned gradient.

    Of the outputs only the first is for users: the others are what the backward pass needs, and
    returning them is how PyTorch wants to be told.
    """

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the loss of each row, residuals, responsibilities and weights."""
        logits, mean, scale, y = inputs[:4]
        dim = mean.shape[-1]
        z = mean - y.unsqueeze(-2)
        if scale.dim() > mean.dim():
            z = torch.linalg.solve_triangular(scale, z.unsqueeze(-1), upper=False).squeeze(-1)
            log_scale = scale.diagonal(dim1=-2, dim2=-1).log()
        else:
            z.div_(scale)
            log_scale = scale.log()
        if dim == 1:
            surprise = torch.addcmul(log_scale, z, z, value=0.5).squeeze(-1)
        else:
            surprise = log_scale.sum(-1).add_(z.square().sum(-1), alpha=0.5)
        # Far from every component log densities are huge; were the weights added to them as they
        # are, they would drown in rounding, and with them the responsibilities.
        least = surprise.amin(-1, True)
        log_weights = logits - logits.amax(-1, True)
        joint = log_weights - surprise.sub_(least)
        flattening = inputs[9]
        flat = (joint - flattening * inputs[4] * log_weights).softmax(-1) if flattening else None
        top = joint.amax(-1, True)
        weights, resp = log_weights.exp_(), joint.sub_(top).exp_()
        weights_sum, resp_sum = weights.sum(-1, True), resp.sum(-1, True)
        weights.div_(weights_sum)
        resp = resp.div_(resp_sum) if flat is None else flat
        loss = weights_sum.div_(resp_sum).log_().add_(least.sub_(top)).add_(dim * _LOG_SQRT_2PI)
        return loss.mean() if inputs[10] else loss.squeeze(-1), z, resp, weights

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        """Keep what the backward pass needs and nothing more."""
        _, mean, scale, _, power, ctx.logits_rule, ctx.damping, ctx.beta, *rest = inputs
        ctx.coordinates, _, ctx.averaged = rest
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.full = scale.dim() > mean.dim()
        scheduled = isinstance(power, Tensor)
        ctx.power = None if scheduled else power
        ctx.save_for_backward(*output, scale, power if scheduled else None)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor | None, ...]:
        """Return natural gradients of logits, mean and scale, and the plain one of y."""
        grad = grad_outputs[0]
        if grad is None:
            return (None,) * 11
        loss, z, resp, weights, scale, power = ctx.saved_tensors
        power = ctx.power if power is None else power
        row = grad / (resp.numel() // resp.shape[-1]) if ctx.averaged else grad.unsqueeze(-1)
        share = resp * row
        grads = [_logits_gradient(ctx.logits_rule, weights, share, row)]
        scaled = _over_weights(share, weights, power, ctx.damping, ctx.beta)
        solve = _full_gradients if ctx.full else _diagonal_gradients
        grads += solve(z, scale, scaled, power, ctx.beta, ctx.coordinates)
        if ctx.needs_input_grad[3]:
            grads.append(_target_gradient(z, scale, share))
        if torch.is_grad_enabled():  # create_graph=True
            grads = _Refusal.apply(loss, *grads)
        grad_y = grads[3] if ctx.needs_input_grad[3] else None
        return *grads[:3], grad_y, *(None,) * 7

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *inputs: Any) -> tuple[tuple[Tensor, ...], tuple]:
        """Map over one more leading axis, which all that is computed here takes as it is."""
        if in_dims[4] is not None:
            raise ValueError(
                "power must be one number for all rows, got one for each of vmap's; pass it with "
                "in_dims=None."
            )
        moved = [
            tensor.expand(info.batch_size, *tensor.shape) if at is None else tensor.movedim(at, 0)
            for tensor, at in zip(inputs[:4], in_dims[:4], strict=True)
        ]
        losses, *others = MixtureNLL.apply(*moved, *inputs[4:10], False)
        if inputs[10]:
            losses = losses.reshape(info.batch_size, -1).mean(1)
        return (losses, *others), (0, 0, 0, 0)


# PyTorch inspects the signature in every call, which for small batches takes longer than the
# likelihood: an attribute of this name spares it the trouble.
MixtureNLL.forward.__signature__ = inspect.signature(MixtureNLL.forward)


class _Refusal(Function):
    """The identity on gradients, which refuses to be differentiated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(loss: Tensor, *grads: Tensor) -> tuple[Tensor, ...]:
        return tuple(grad.view_as(grad) for grad in grads)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise RuntimeError(
            "the losses of ngem.torch can be differentiated once, got a second derivative "
            "(double backward): a natural gradient is not the gradient of any function. For "
            "Hessians or gradient penalties try -ngem.torch.distribution(logits, mean, "
            "scale).log_prob(y)."
        )


def _exponents(power: Power, beta: float | None, coordinates: str) -> tuple[Power, Power]:
    """Return e of mean and scale: scale^e is what gradients in units of z are multiplied by."""
    if beta is not None:
        return 2 * beta - 1, 2 * beta - 1
    return 2 * power - 1, 2 * power - 1 if coordinates == "scale" else -1.0


def _power_of(x: Tensor, exponent: Power) -> Tensor:
    """Return x ** exponent for positive x, exactly at halves and whole numbers."""
    if not isinstance(exponent, Tensor):
        # The compiler keeps exponentials of weights, but would take roots again for each dimension.
        if exponent == -0.5 and not torch.compiler.is_compiling():
            return x.rsqrt()
        if float(2 * exponent).is_integer() and exponent != -0.5:
            return x.pow(exponent)
    # Compiled, this is many times faster than a power.
    return (x.log() * exponent).exp_()


def _over_weights(
    share: Tensor, weights: Tensor, power: Power, damping: float, beta: float | None
) -> Tensor:
    """Return the shares, divided by the damped weights^power."""
    if beta is not None or (not isinstance(power, Tensor) and power == 0):
        return share
    if damping > 0:  # (weight + damping) / (1 + damping), in one operation
        weights = torch.rsub(weights, damping / (1 + damping), alpha=-1 / (1 + damping))
    return share * _power_of(weights, -power)


def _logits_gradient(rule: str, weights: Tensor, share: Tensor, total: Tensor) -> Tensor:
    """Return what the logits receive, given each component's share of a row's gradient."""
    if rule == "plain":  # weight - responsibility
        return (weights * total).sub_(share)
    ratio = share / weights
    if rule == "listing":  # the plain rule of responsibility / weight, Appendix C
        return (weights * ratio.sum(-1, keepdim=True)).sub_(ratio)
    return total - ratio  # 1 - responsibility / weight, Appendix B.7


def _diagonal_gradients(
    z: Tensor,
    scale: Tensor,
    scaled: Tensor,
    power: Power,
    beta: float | None,
    coordinates: str,
) -> list[Tensor]:
    """Return gradients of mean and scale; F is 1/scale^2 and 2/scale^2, equation (21)."""
    scaled = scaled.unsqueeze(-1)
    grad_mean = z * scaled
    if isinstance(power, Tensor):
        grad_scale = torch.addcmul(scaled, grad_mean, z, value=-1).mul_(torch.exp2(-power))
    else:
        halve = 1.0 if beta is not None else 2**-power
        grad_scale = torch.addcmul(halve * scaled, grad_mean, z, value=-halve)
    for_mean, for_scale = _exponents(power, beta, coordinates)
    if beta is None and coordinates == "variance":
        grad_scale = grad_scale.mul_(_power_of(scale.clamp(max=1.0), 4 * power))
    return [_times_power(grad_mean, scale, for_mean), _times_power(grad_scale, scale, for_scale)]


def _times_power(grad: Tensor, scale: Tensor, exponent: Power) -> Tensor:
    """Multiply a gradient by scale^exponent in place."""
    if not isinstance(exponent, Tensor) and exponent == 0:
        return grad
    if not isinstance(exponent, Tensor) and exponent == -1:
        return grad.div_(scale)
    return grad.mul_(_power_of(scale, exponent))


def _full_gradients(
    z: Tensor, factor: Tensor, scaled: Tensor, power: Power, beta: float | None, coordinates: str
) -> list[Tensor]:
    """Return gradients of mean and Cholesky factor L: L^-T z, and 1 / L_ii - tril(L^-T z z^T)."""
    scaled = scaled.unsqueeze(-1)
    diagonal = factor.diagonal(dim1=-2, dim2=-1)
    grad_mean = torch.linalg.solve_triangular(factor.mT, z.unsqueeze(-1), upper=True).squeeze(-1)
    grad_mean = grad_mean * scaled
    outer = (grad_mean.unsqueeze(-1) * z.unsqueeze(-2)).tril()
    grad_factor = torch.diag_embed(scaled / diagonal) - outer
    if beta is not None:
        weight = factor.square().sum(-1).pow(beta)
        return [grad_mean * weight, grad_factor * weight.unsqueeze(-1)]
    if not isinstance(power, Tensor) and power == 0:
        return [grad_mean, grad_factor]
    # Under autocast matrix products would be rounded to three digits.
    with torch.autocast(factor.device.type, enabled=False):
        return _full_fisher_solve(factor, grad_mean, grad_factor, power, coordinates)


def _full_fisher_solve(
    factor: Tensor, grad_mean: Tensor, grad_factor: Tensor, power: Power, coordinates: str
) -> list[Tensor]:
    """Return F^-power times the gradients, exactly at power 0 and 1.

    With S the standard deviations and L = S C, the inverse metrics are S C C^T S for the mean and
    S C phi(tril(C^T S g)) for the factor, phi halving the diagonal. Between 0 and 1 the power acts
    on S and on the 2 as such, and on the correlation by interpolation with the identity. In another
    coordinate of the factor's diagonal, where it changes by J per unit, the power of the inverse
    metric is taken as J^-power F^-power J^-power.
    """
    deviation = torch.linalg.vector_norm(factor, dim=-1, keepdim=True)
    correlation = factor / deviation
    stretch = _power_of(deviation, power)
    mean = stretch * grad_mean.unsqueeze(-1)
    mean = (1 - power) * mean + power * (correlation @ (correlation.mT @ mean))
    eye = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    halve = torch.exp2(-power / 2) if isinstance(power, Tensor) else 2 ** (-power / 2)
    own = factor.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
    change = own if coordinates == "log_scale" else torch.maximum(own, 1 / own)
    scale = grad_factor
    if coordinates != "scale":
        scale = scale * (1 + eye * (_power_of(change, 1 - power) - 1))
    scale = stretch * scale * (1 + eye * (halve - 1))
    root = 1 + eye * (math.sqrt(2) - 1)
    inner = (correlation.mT @ (scale * root)).tril() * (1 - 0.5 * eye)
    scale = (1 - power) * scale + power * ((correlation @ inner) * root)
    scale = stretch * scale * (1 + eye * (halve - 1))
    if coordinates != "scale":
        scale = scale * (1 + eye * (1 / _power_of(change, 1 + power) - 1))
        if isinstance(power, Tensor):  # free of rounding there
            scale = torch.where(power == 0, grad_factor, scale)
    return [(stretch * mean).squeeze(-1), scale]


def _target_gradient(z: Tensor, scale: Tensor, share: Tensor) -> Tensor:
    """Return the gradient of the targets, the likelihood's own."""
    if scale.dim() > z.dim():
        z = torch.linalg.solve_triangular(scale.mT, z.unsqueeze(-1), upper=True).squeeze(-1)
    else:
        z = z / scale
    return (z * share.unsqueeze(-1)).sum(-2).neg_()
