"""Time of a loss with its gradient, with rows as the last axis and with rows mapped by vmap.

    python benchmarks/layout.py [--out docs/results/layout.json]

The figures behind the limits in `ngem.objectives.layout`: 256 rows of a user's arrays, rows first,
at the default strength. Both layouts are timed in turns; ratios are medians over turns.
"""

import argparse
import json
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import ngem
from ngem.bench.timing import Turn, in_turns, seconds
from ngem.objectives import NGEM, base

ROWS = 256

#: Components and targets.
SHAPES = ((3, 1), (10, 1), (5, 2), (10, 4), (3, 16), (10, 16), (5, 64))


def turn(components: int, dim: int, calls: int, *, last: bool) -> Turn:
    """Return a function that computes losses and gradients and returns the seconds of one call."""
    key = jax.random.key(0)
    logits, mean = (jax.random.normal(key, (ROWS, components, *more)) for more in ((), (dim,)))
    mixture = ngem.gaussian_mixture(logits, mean, jnp.exp(0.3 * mean))
    y = jax.random.normal(key, (ROWS, dim))
    objective = NGEM()
    run = jax.jit(jax.grad(lambda mixture: jnp.mean(objective.losses(mixture, y))))
    with mock.patch.object(base, "rows_go_last", return_value=last):
        jax.block_until_ready(run(mixture))

    def work() -> None:
        for _ in range(calls):
            result = run(mixture)
        jax.block_until_ready(result)

    return lambda: seconds(work) / calls


def main() -> None:
    """Measure, print the result, write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/layout.json"))
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--calls", type=int, default=50, help="calls in a turn")
    arguments = parser.parse_args()
    result: dict = {"jax": jax.__version__, "rows": ROWS, "turns": arguments.turns}
    for components, dim in SHAPES:
        turns = [turn(components, dim, arguments.calls, last=last) for last in (True, False)]
        last, first = in_turns(turns, arguments.turns).T
        result[f"K={components}, D={dim}"] = {
            "microseconds, rows last": round(1e6 * float(np.median(last)), 1),
            "microseconds, rows first": round(1e6 * float(np.median(first)), 1),
            "first / last": round(float(np.median(first / last)), 2),
        }
    print(json.dumps(result, indent=1))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
