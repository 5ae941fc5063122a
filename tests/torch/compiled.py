"""Losses compile without a graph break, in one program for a whole schedule."""

import torch

import ngem.torch

torch.manual_seed(0)
shapes = (6, 3), (6, 3, 2), (6, 2)
for full in (False, True):
    logits, mean, y = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    scale = torch.randn_like(mean).exp()
    if full:
        scale = torch.diag_embed(scale) + 0.3 * torch.ones(2, 2).tril(-1)
    leaves = [leaf.requires_grad_() for leaf in (logits, mean, scale)]
    for objective in ngem.torch.OBJECTIVES:
        torch._dynamo.reset()
        criterion = ngem.torch.NGEMLoss(objective=objective)
        # The compiler of C++ is left to the benchmark: breaks show before it is reached.
        compiled = torch.compile(criterion, fullgraph=True, backend="aot_eager")
        wanted = leaves[:2] if objective == "mse" else leaves
        eager = torch.autograd.grad(criterion(*leaves, y), wanted)
        for left, right in zip(
            torch.autograd.grad(compiled(*leaves, y), wanted), eager, strict=True
        ):
            torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-14)

schedule = ngem.torch.PowerSchedule(5)
counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
compiled = torch.compile(ngem.torch.NGEMLoss(power=schedule), fullgraph=True, backend=counter)
for _ in range(5):
    compiled(*leaves, y).backward()
    schedule.step()
assert counter.frame_count == 1, counter.frame_count
print("done")
