"""Train one PyTorch network in several processes, each with its own part of the rows.

torchrun --nproc-per-node 2 examples/torch_processes.py
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ngem.datasets import two_sinusoids
from ngem.torch import MixtureDensityHead, NGEMLoss, PowerSchedule


def read_shard(number: int, count: int, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return this process's rows; with real data it reads its own files here."""
    x, y = (torch.tensor(part, dtype=torch.float32) for part in two_sinusoids(rows, seed=0))
    return x[number::count], y[number::count]


def main() -> None:
    """Train, then print the likelihood of all rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=256, help="rows of all processes together")
    parser.add_argument("--save", help="file for the parameters")
    arguments = parser.parse_args()
    # torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
    dist.init_process_group("gloo")
    number, count = dist.get_rank(), dist.get_world_size()
    x, y = read_shard(number, count, arguments.rows)

    # One unit for all: the sums of all shards, not those of the own.
    sums = torch.stack([x.sum(), (x**2).sum(), torch.tensor(float(len(x)))])
    dist.all_reduce(sums)
    mean = sums[0] / sums[2]
    x = (x - mean) / (sums[1] / sums[2] - mean**2).sqrt()

    torch.manual_seed(0)  # all start from the same parameters
    network = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), MixtureDensityHead(64, 2, 1))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    power = PowerSchedule(arguments.steps)
    loss_of = NGEMLoss(power=power)
    # All take batches of one size, because DDP averages the means of the processes.
    size = arguments.batch // count
    shortest = torch.tensor(len(x))
    dist.all_reduce(shortest, dist.ReduceOp.MIN)
    for step in range(arguments.steps):
        first = step * size % (int(shortest) - size + 1)
        rows = slice(first, first + size)
        loss = loss_of(*model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()  # DDP averages the gradients of all processes here
        optimizer.step()
        power.step()

    with torch.no_grad():
        total = torch.stack(
            [NGEMLoss(reduction="sum")(*network(x), y), torch.tensor(float(len(x)))]
        )
    dist.all_reduce(total)
    if number == 0:
        print(f"{count} processes, negative log-likelihood {total[0] / total[1]:.3f}")
        if arguments.save:
            temporary = f"{arguments.save}.part"
            torch.save(network.state_dict(), temporary)
            os.replace(temporary, arguments.save)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
