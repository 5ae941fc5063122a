"""The one custom derivative: the likelihood forward, preconditioned gradients backward."""

import inspect
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from ._families import AbstractComponents, Strength
from ._preconditioners import AbstractPreconditioner, Evaluation


class MixtureNLL(Function):
    """-log sum_k weight_k f_k(y) of each row, equation (3), with a preconditioned gradient.

    Only the first output is for callers. The others are tensors that the backward pass needs:
    function transforms require that a Function saves nothing but its inputs and outputs.
    """

    @staticmethod
    def forward(
        logits: Tensor,
        mean: Tensor,
        scale: Tensor,
        y: Tensor,
        power: Strength,
        preconditioner: AbstractPreconditioner,
        family: AbstractComponents,
        averaged: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the loss, residuals, responsibilities and weights.

        Args:
            logits: Unnormalized log weights, (..., components).
            mean: Means, (..., components, dim).
            scale: Scales of the components.
            y: Targets, (..., dim).
            power: Strength, a tensor if it follows a schedule, so that a change of its value needs
                no new compilation.
            preconditioner: What the backward pass does to the gradient.
            family: The distribution of the components.
            averaged: Whether to return the mean over rows: cheaper here than in a second node.
        """
        dim = mean.shape[-1]
        z = family.residual(mean, scale, y)
        log_diagonal = family.log_diagonal(scale)
        if dim == 1:
            negative = family.minus_log_prob(log_diagonal, z).squeeze(-1)
            finite = (z + log_diagonal).squeeze(-1).sum(-1, True)
        else:
            negative = log_diagonal.sum(-1)
            finite = torch.add(negative, z.sum(-1)).sum(-1, True)
            negative = negative.add_(family.deviance(z).sum(-1), alpha=0.5)
        # A component at infinity has no weight in the sum below, but its gradient is NaN. So is
        # the loss then, and with a strength that is NaN: 0, or NaN where something is not finite.
        zero = finite.mul_(power * 0 if isinstance(power, Tensor) else 0)
        # Far from every component, log densities are huge. Subtract the largest before the log
        # weights are added: otherwise rounding removes them, and responsibilities are wrong.
        least = negative.amin(-1, True)
        log_weights = logits - logits.amax(-1, True)
        joint = log_weights - negative.sub_(least)
        flat = preconditioner.flatten(joint, log_weights, power)
        top = joint.amax(-1, True)
        weights, resp = log_weights.exp_(), joint.sub_(top).exp_()
        weights_sum, resp_sum = weights.sum(-1, True), resp.sum(-1, True)
        weights.div_(weights_sum)
        resp = resp.div_(resp_sum) if flat is None else flat.softmax(-1)
        loss = weights_sum.div_(resp_sum).log_().add_(least.sub_(top)).add_(zero)
        loss.add_(dim * family.log_constant)
        return loss.mean() if averaged else loss.squeeze(-1), z, resp, weights

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        """Keep what the backward pass needs and nothing more."""
        _, _, scale, _, power, ctx.preconditioner, ctx.family, ctx.averaged = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        scheduled = isinstance(power, Tensor)
        ctx.power = None if scheduled else power
        ctx.save_for_backward(*output, scale, power if scheduled else None)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor | None, ...]:
        """Return preconditioned gradients of logits, mean and scale, and the plain one of y."""
        grad = grad_outputs[0]
        if grad is None:
            return (None,) * 8
        loss, z, resp, weights, scale, power = ctx.saved_tensors
        total = grad / (resp.numel() // resp.shape[-1]) if ctx.averaged else grad.unsqueeze(-1)
        at = Evaluation(z, scale, weights, resp * total, total)
        power = ctx.power if power is None else power
        grads = ctx.preconditioner.gradients(ctx.family, at, power)
        if ctx.needs_input_grad[3]:
            grad_mean = ctx.family.mean_gradient(z, scale)
            grads.append((grad_mean * at.resp.unsqueeze(-1)).sum(-2).neg_())
        if torch.is_grad_enabled():  # create_graph=True
            grads = _RefuseSecondDerivative.apply(loss, *grads)
        grad_y = grads[3] if ctx.needs_input_grad[3] else None
        return *grads[:3], grad_y, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *inputs: Any) -> tuple[tuple[Tensor, ...], tuple]:
        """Map over one more leading axis, which the computation accepts as it is."""
        if in_dims[4] is not None:
            raise ValueError(
                "power must be one number for all rows, got one for each of vmap's; pass it with "
                "in_dims=None."
            )
        moved = [
            tensor.expand(info.batch_size, *tensor.shape) if at is None else tensor.movedim(at, 0)
            for tensor, at in zip(inputs[:4], in_dims[:4], strict=True)
        ]
        *settings, averaged = inputs[4:]
        losses, *others = MixtureNLL.apply(*moved, *settings, False)
        if averaged:
            losses = losses.reshape(info.batch_size, -1).mean(1)
        return (losses, *others), (0, 0, 0, 0)


# PyTorch binds the arguments to the signature of `forward` in every call, which for small batches
# takes longer than the likelihood. A signature that is known and has one parameter is cheapest.
MixtureNLL.forward.__signature__ = inspect.signature(lambda *inputs: None)


class _RefuseSecondDerivative(Function):
    """The identity on gradients; its own derivative is an error."""

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
