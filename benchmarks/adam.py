"""Time of a training step with our Adam and with `optax.adam`.

    python benchmarks/adam.py [--out docs/results/adam.json]

The default network (2 x 128, 5 components) on 6,554 rows of noise with 8 features and one target,
batch 128. Both optimizers run in the same training loop and are timed in turns, so other load on
the machine slows both. The ratio is the median of the ratios of neighboring turns.
"""

import argparse
import dataclasses
import json
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ngem.bench.ours import noise, steps_of
from ngem.bench.timing import Turn, in_turns, seconds
from ngem.nn import mixture_mlp
from ngem.optimizers import OPTIMIZERS, OptimizerSpec
from ngem.training import Data, Plan, fit

ROWS, FEATURES, BATCH, COMPONENTS, HIDDEN = 6554, 8, 128, 5, (128, 128)

OURS = OPTIMIZERS["adam"]
OPTAX = dataclasses.replace(OURS, make=lambda learning_rate, hidden: optax.adam(learning_rate))


def training_turn(spec: OptimizerSpec, number: int, updates: int) -> Turn:
    """Return a function that trains with an optimizer and returns the seconds of one update."""
    data = Data(*map(jnp.asarray, noise(ROWS, FEATURES, 1)))
    network = mixture_mlp(
        FEATURES, 1, n_components=COMPONENTS, hidden_sizes=HIDDEN, key=jax.random.key(0)
    )
    # Equal plans share one compiled program. This setting makes the plans differ and does not
    # change the program.
    plan = Plan(batch_size=BATCH, max_skipped=50 + number)
    epochs, done = steps_of(ROWS, BATCH, updates)

    def train(epochs: int) -> None:
        fit(network, data, plan, key=jax.random.key(0), max_epochs=epochs)

    with mock.patch.dict(OPTIMIZERS, adam=spec):
        train(1)  # compile
    return lambda: seconds(lambda: train(epochs)) / done


def measure(repeats: int, updates: int) -> dict[str, object]:
    """Return the median times of an update, and ratios to `optax.adam` with their quartiles.

    `control` compares `optax.adam` with itself, compiled a second time: its distance from 1 is the
    error of the measurement.
    """
    specs = {"ours": OURS, "optax": OPTAX, "control": OPTAX}
    turns = [training_turn(spec, n, updates) for n, spec in enumerate(specs.values())]
    times = dict(zip(specs, in_turns(turns, repeats).T, strict=True))
    return {
        name: {
            "microseconds": round(1e6 * float(np.median(times[name])), 1),
            "ratio": round(float(np.median(times[name] / times["optax"])), 3),
            "quartiles": np.percentile(times[name] / times["optax"], [25, 75]).round(3).tolist(),
        }
        for name in specs
    }


def main() -> None:
    """Measure, print the result, write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/adam.json"))
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--updates", type=int, default=104, help="updates in a turn")
    arguments = parser.parse_args()
    result = {
        "jax": jax.__version__,
        "optax": optax.__version__,
        "turns": arguments.turns,
        "updates": arguments.updates,
        **measure(arguments.turns, arguments.updates),
    }
    print(json.dumps(result, indent=1))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
