"""Updates per second at kin8nm's setting of Table 10, beside an ordinary PyTorch loop.

    python benchmarks/updates_per_second.py [--out docs/results/updates_per_second.json]

Adam, 2 x 128 GELU, K = 3, 8 features, 1 target, batch 128, 6,528 rows. Ratios within one run: the
methods take turns, and medians of the repeats are compared. PyTorch runs eagerly on one thread,
which is its fastest for matrices this small, and is skipped where it is not installed.
"""

import argparse
import importlib.util
import json
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


def main() -> None:
    """Measure in turns, print medians and ratios, write them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/updates_per_second.json"))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()
    methods = {
        "ngem, one seed": ours(NGEM(), seeds=1, together=False),
        "nll, one seed": ours(NLL(), seeds=1, together=False),
        "ngem, five seeds in sequence": ours(NGEM(), seeds=SEEDS, together=False),
        "ngem, five seeds together": ours(NGEM(), seeds=SEEDS, together=True),
        "nll, five seeds together": ours(NLL(), seeds=SEEDS, together=True),
    }
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: its row is left out.")
    else:
        methods["nll, eager PyTorch, one seed"] = eager_torch()
    samples = {name: [] for name in methods}
    for _ in range(arguments.repeats):
        for name, run in methods.items():
            samples[name].append(run(arguments.epochs))
    result = {
        name: {"median": float(np.median(v)), "low": min(v), "high": max(v)}
        for name, v in samples.items()
    }
    for name, row in result.items():
        spread = f"{row['low']:,.0f} to {row['high']:,.0f}"
        print(f"{name:32s} {row['median']:8,.0f} updates/s ({spread})")
    ratio = lambda a, b: result[a]["median"] / result[b]["median"]  # noqa: E731
    ratios = {
        "ngem / nll, one seed": ratio("ngem, one seed", "nll, one seed"),
        "five seeds together / in sequence": ratio(
            "ngem, five seeds together", "ngem, five seeds in sequence"
        ),
    }
    if "nll, eager PyTorch, one seed" in result:
        ratios["ngem / eager PyTorch"] = ratio("ngem, one seed", "nll, eager PyTorch, one seed")
    for name, value in ratios.items():
        print(f"{name:36s} {value:.2f}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    report = {"jax": jax.__version__, "updates per second": result, "ratios": ratios}
    arguments.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
