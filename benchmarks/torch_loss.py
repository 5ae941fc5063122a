"""Time loss and backward pass of nGEM in PyTorch against a likelihood written with logsumexp.

    python benchmarks/torch_loss.py [--out docs/results/torch_loss.json]

Batch 256, one thread, single precision, eager and with torch.compile. All losses take logits, means
and scales. They are timed in turns of a few calls: a ratio is the median over the ratios of
neighboring turns, so that other load on the machine slows both alike. Compiled code is compared
with compiled code.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ngem.bench.timing import in_turns
from ngem.torch import ngem_loss, nll_loss

BATCH = 256

#: Components, dimensions, and calls per turn.
SHAPES = {"K = 3, D = 1": (3, 1, 5), "K = 20, D = 784": (20, 784, 1)}

#: A strength in a tensor, as in a schedule.
SCHEDULED = torch.tensor(0.4)

#: The highest ratio of "ngem" to the plain likelihood that we accept.
TARGETS = {"eager": 1.0, "compiled": 1.05}


def plain_nll(logits: Tensor, mean: Tensor, scale: Tensor, y: Tensor) -> Tensor:
    """Return the mean negative log-likelihood, in its usual form."""
    z = (y.unsqueeze(-2) - mean) / scale
    log_density = (-0.5 * z**2 - scale.log() - 0.5 * math.log(2 * math.pi)).sum(-1)
    return -torch.logsumexp(torch.log_softmax(logits, -1) + log_density, -1).mean()


LOSSES: dict[str, Callable[..., Tensor]] = {
    "plain nll": plain_nll,
    "ngem": ngem_loss,
    "nll": nll_loss,
    "ngem, power 1": lambda *parts: ngem_loss(*parts, power=1.0),
    "ngem, scheduled": lambda *parts: ngem_loss(*parts, power=SCHEDULED),
}


def inputs(n_components: int, dim: int) -> list[Tensor]:
    """Return logits, means and scales that require gradients, and targets."""
    torch.manual_seed(0)
    logits, mean = torch.randn(BATCH, n_components), torch.randn(BATCH, n_components, dim)
    leaves = [logits, mean, 0.5 + torch.rand_like(mean)]
    return [*(leaf.requires_grad_() for leaf in leaves), torch.randn(BATCH, dim)]


def turn(loss: Callable[..., Tensor], parts: list[Tensor], calls: int) -> float:
    """Return seconds for one loss and its gradients."""
    started = time.perf_counter()
    for _ in range(calls):
        loss(*parts).backward()
        for leaf in parts[:3]:
            leaf.grad = None
    return (time.perf_counter() - started) / calls


def measure(
    losses: dict[str, Callable[..., Tensor]], parts: list[Tensor], calls: int, turns: int
) -> dict[str, dict[str, float]]:
    """Return the median time of each loss and its ratio to the plain likelihood's."""
    for loss in losses.values():
        turn(loss, parts, 3)
    takers = [partial(turn, loss, parts, calls) for loss in losses.values()]
    times = in_turns(takers, turns)
    ratios = times / times[:, :1]
    return {
        name: {
            "microseconds": round(1e6 * float(np.median(times[:, index])), 1),
            "ratio": round(float(np.median(ratios[:, index])), 3),
        }
        for index, name in enumerate(losses)
    }


def main() -> None:
    """Measure, print a table, write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/torch_loss.json"))
    parser.add_argument(
        "--turns",
        type=int,
        default=2000,
        help="turns per loss; large shapes take a fiftieth of them",
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    report: dict = {"torch": torch.__version__.split("+")[0], "batch": BATCH, "targets": TARGETS}
    for mode in TARGETS:
        report[mode] = {}
        for label, (n_components, dim, calls) in SHAPES.items():
            torch.compiler.reset()
            losses = LOSSES
            if mode == "compiled":
                losses = {
                    name: torch.compile(LOSSES[name], fullgraph=True)
                    for name in ("plain nll", "ngem", "nll")
                }
            turns = arguments.turns if calls > 1 else arguments.turns // 50
            rows = measure(losses, inputs(n_components, dim), calls, turns)
            report[mode][label] = rows
            for name, row in rows.items():
                duration = f"{row['microseconds']:12,.1f} us"
                print(f"{mode:9s} {label:16s} {name:16s} {duration}   {row['ratio']:.3f}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
