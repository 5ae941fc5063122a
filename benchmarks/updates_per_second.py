"""Updates per second at kin8nm's setting of Table 10, beside an ordinary PyTorch loop.

    python benchmarks/updates_per_second.py [--out docs/results/updates_per_second.json]

Adam, 2 x 128 GELU, K = 3, 8 features, 1 target, batch 128, 6,528 rows. Ratios within one run: the
methods take turns, and medians of the repeats are compared. Each method has a process of its own,
since a process fixes its number of threads once: "one thread" rows have `NPROC=1` in the
environment, which is XLA's name for it; PyTorch runs eagerly on one thread, its fastest for
matrices this small, and is skipped where it is not installed.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from ngem.nn import mixture_mlp
from ngem.objectives import NGEM, NLL
from ngem.training import Data, Plan, fit, fit_many

ROWS, FEATURES, COMPONENTS, BATCH = 6528, 8, 3, 128
STEPS_PER_EPOCH = ROWS // BATCH
SEEDS = 5


def data() -> tuple[np.ndarray, np.ndarray]:
    """Return rows of noise: the cost of a step does not depend on what is learned."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((ROWS, FEATURES)), rng.standard_normal((ROWS, 1))


def ours(objective, *, seeds: int, together: bool) -> Callable[[int], float]:
    """Return a function that trains for some epochs and says how many updates a second it did."""
    x, y = (jnp.asarray(part, jnp.float32) for part in data())
    keys = [jax.random.key(seed) for seed in range(seeds)]
    networks = [mixture_mlp(FEATURES, 1, key=key, n_components=COMPONENTS) for key in keys]
    plan = Plan(objective=objective, batch_size=BATCH)

    def run(epochs: int) -> float:
        started = time.perf_counter()
        if together:
            fit_many(networks, Data(x, y), plan, keys=keys, max_epochs=epochs)
        else:
            for network, key in zip(networks, keys, strict=True):
                fit(network, Data(x, y), plan, key=key, max_epochs=epochs)
        return seeds * epochs * STEPS_PER_EPOCH / (time.perf_counter() - started)

    run(1)  # compile
    return run


def eager_torch() -> Callable[[int], float]:
    """Return the same for a plain PyTorch loop with a logsumexp likelihood."""
    import torch

    torch.set_num_threads(1)
    x, y = (torch.tensor(part, dtype=torch.float32) for part in data())
    net = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 128),
        torch.nn.GELU(),
        torch.nn.Linear(128, 128),
        torch.nn.GELU(),
        torch.nn.Linear(128, 3 * COMPONENTS),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step(rows):
        logits, mean, log_scale = net(x[rows]).chunk(3, dim=-1)
        z = (y[rows] - mean) * torch.exp(-log_scale)
        log_density = -0.5 * z**2 - log_scale - 0.9189385
        joint = torch.log_softmax(logits, dim=-1) + log_density
        loss = -torch.logsumexp(joint, dim=-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def run(epochs: int) -> float:
        started = time.perf_counter()
        for _ in range(epochs):
            for rows in torch.randperm(ROWS).split(BATCH):
                step(rows)
        return epochs * STEPS_PER_EPOCH / (time.perf_counter() - started)

    run(1)
    return run


METHODS: dict[str, Callable[[], Callable[[int], float]]] = {
    "ngem, one thread": lambda: ours(NGEM(), seeds=1, together=False),
    "nll, one thread": lambda: ours(NLL(), seeds=1, together=False),
    "ngem, all threads": lambda: ours(NGEM(), seeds=1, together=False),
    "ngem, five seeds in sequence": lambda: ours(NGEM(), seeds=SEEDS, together=False),
    "ngem, five seeds in sequence, one thread": lambda: ours(NGEM(), seeds=SEEDS, together=False),
    "ngem, five seeds together": lambda: ours(NGEM(), seeds=SEEDS, together=True),
    "nll, five seeds together": lambda: ours(NLL(), seeds=SEEDS, together=True),
    "nll, eager PyTorch, one thread": eager_torch,
}

RATIOS = {
    "ngem / nll": ("ngem, one thread", "nll, one thread"),
    "ngem / eager PyTorch, one thread each": ("ngem, one thread", "nll, eager PyTorch, one thread"),
    "ngem with all threads / eager PyTorch": (
        "ngem, all threads",
        "nll, eager PyTorch, one thread",
    ),
    "five seeds together / in sequence": (
        "ngem, five seeds together",
        "ngem, five seeds in sequence",
    ),
    "five seeds together / in sequence on one thread": (
        "ngem, five seeds together",
        "ngem, five seeds in sequence, one thread",
    ),
}


class Worker:
    """A process that holds one method and measures it when asked."""

    def __init__(self, name: str):
        threads = {"NPROC": "1"} if "one thread" in name else {}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | threads,
        )

    def measure(self, epochs: int) -> float:
        """Return updates per second over some epochs."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(epochs, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def close(self) -> None:
        """Let the process end."""
        self.process.communicate()


def work(name: str) -> None:
    """Answer each number of epochs on standard input with updates per second."""
    run = METHODS[name]()
    for line in sys.stdin:
        print(run(int(line)), flush=True)


def main() -> None:
    """Measure in turns, print medians and ratios, write them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/updates_per_second.json"))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--worker", choices=METHODS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        work(arguments.worker)
        return
    names = list(METHODS)
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: its row is left out.")
        names.remove("nll, eager PyTorch, one thread")
    workers = {name: Worker(name) for name in names}
    samples: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(arguments.repeats):
        for name, worker in workers.items():
            samples[name].append(worker.measure(arguments.epochs))
    for worker in workers.values():
        worker.close()
    result = {
        name: {"median": float(np.median(v)), "low": min(v), "high": max(v)}
        for name, v in samples.items()
    }
    for name, row in result.items():
        spread = f"{row['low']:,.0f} to {row['high']:,.0f}"
        print(f"{name:42s} {row['median']:8,.0f} updates/s ({spread})")
    ratios = {
        name: result[a]["median"] / result[b]["median"]
        for name, (a, b) in RATIOS.items()
        if b in result
    }
    for name, value in ratios.items():
        print(f"{name:50s} {value:.2f}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    report = {"jax": jax.__version__, "updates per second": result, "ratios": ratios}
    arguments.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
