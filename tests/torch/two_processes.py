"""One of two processes: each has half of the rows, the gradients are those of all."""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import ngem.torch

rank, meeting = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
torch.manual_seed(0)
network = torch.nn.Sequential(
    torch.nn.Linear(3, 8), torch.nn.Tanh(), ngem.torch.MixtureDensityHead(8, 3, 2)
).double()
x, y = torch.randn(16, 3).double(), torch.randn(16, 2).double()
parallel = DistributedDataParallel(network)
optimizer = torch.optim.SGD(network.parameters(), 0.1)
for _ in range(3):
    expected = torch.autograd.grad(ngem.torch.ngem_loss(*network(x), y), list(network.parameters()))
    optimizer.zero_grad()
    ngem.torch.NGEMLoss()(*parallel(x[rank::2]), y[rank::2]).backward()
    for parameter, whole in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, whole, rtol=1e-10, atol=1e-13)
    optimizer.step()
dist.destroy_process_group()
print("done")
