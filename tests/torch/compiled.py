"""Losses compile without a graph break, in one program for a whole schedule."""

import torch

import ngem.torch

torch.manual_seed(0)
criteria = {name: ngem.torch.NGEMLoss(objective=name) for name in ngem.torch.OBJECTIVES}
families = [
    ngem.torch.NGEMLoss(family=name) for name in ("laplace", "logistic", "student", "student(3)")
]


def losses(logits, mean, scale, y):
    """Return the loss of every objective: one program is cheaper to compile than seven."""
    chosen = [*criteria.values(), *(families if scale.dim() == mean.dim() else [])]
    return [criterion(logits, mean, scale, y) for criterion in chosen]


def gradients(outputs):
    """Return the gradients of each loss by itself."""
    return [
        torch.autograd.grad(output, leaves, retain_graph=True, materialize_grads=True)
        for output in outputs
    ]


for full in (False, True):
    logits, mean, y = (
        torch.randn(shape, dtype=torch.float64) for shape in ((6, 3), (6, 3, 2), (6, 2))
    )
    scale = torch.randn_like(mean).exp()
    if full:
        scale = torch.diag_embed(scale) + 0.3 * torch.ones(2, 2).tril(-1)
    leaves = [leaf.requires_grad_() for leaf in (logits, mean, scale)]
    # Graph breaks show before the C++ compiler runs, so the benchmark alone runs that.
    compiled = torch.compile(losses, fullgraph=True, backend="aot_eager")
    outputs, expected = compiled(*leaves, y), losses(*leaves, y)
    torch.testing.assert_close(outputs, expected, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(gradients(outputs), gradients(expected), rtol=1e-12, atol=1e-14)

schedule = ngem.torch.PowerSchedule(5)
counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
criterion = ngem.torch.NGEMLoss(power=schedule)
compiled = torch.compile(criterion, fullgraph=True, backend=counter)
for _ in range(5):
    grads = [torch.autograd.grad(loss(*leaves, y), leaves) for loss in (compiled, criterion)]
    torch.testing.assert_close(*grads, rtol=1e-12, atol=1e-14)
    schedule.step()
assert counter.frame_count == 1, counter.frame_count
print("done")
