"""Time to shuffle the rows of an epoch, by our permutation and by `jax.random.permutation`.

    python benchmarks/shuffle.py [--out docs/results/shuffle.json]

6,554 rows in batches of 128. Both shuffles and a whole epoch of the default network (2 x 128,
5 components, 8 features, one target) are timed in turns, so other load on the machine slows all.
The epoch includes our shuffle. Fractions are medians over turns: time of a shuffle divided by the
time that the epoch takes with this shuffle.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ngem.bench import ours
from ngem.bench.timing import Turn, in_turns, seconds
from ngem.training import shuffled

ROWS, BATCH = 6554, 128

#: Row numbers of an epoch: the last batch is filled up.
PLACES = -(-ROWS // BATCH) * BATCH

Shuffle = Callable[[PRNGKeyArray], Array]


def by_sorting(key: PRNGKeyArray) -> Array:
    """Return the row numbers of an epoch in random order, by `jax.random.permutation`."""
    order = jax.random.permutation(key, ROWS)
    return jnp.concatenate([order, order[: PLACES - ROWS]])


def shuffle_turn(shuffle: Shuffle, calls: int) -> Turn:
    """Return a function that shuffles many times and returns the seconds of one shuffle."""

    @jax.jit
    def run(key: PRNGKeyArray) -> Array:
        # The sum over all orders uses every result, so XLA cannot drop any of them.
        body = lambda total, key: (total + shuffle(key), None)  # noqa: E731
        return jax.lax.scan(body, jnp.zeros(PLACES, jnp.int32), jax.random.split(key, calls))[0]

    work = lambda: run(jax.random.key(0)).block_until_ready()  # noqa: E731
    work()  # compile
    return lambda: seconds(work) / calls


def measure(repeats: int, calls: int) -> dict[str, object]:
    """Return the median times, and each shuffle's fraction of its epoch."""
    steps = -(-ROWS // BATCH)
    train = ours.train(
        rows=ROWS,
        features=8,
        dim=1,
        components=5,
        hidden=(128, 128),
        batch=BATCH,
        updates=5 * steps,
    )
    turns = [
        shuffle_turn(partial(shuffled, count=ROWS, places=PLACES), calls),
        shuffle_turn(by_sorting, calls),
        lambda: steps * train(),
    ]
    feistel, sorting, epoch = in_turns(turns, repeats).T
    with_sorting = epoch - feistel + sorting
    median = lambda values, digits: round(float(np.median(values)), digits)  # noqa: E731
    return {
        "microseconds": {
            "ours": median(1e6 * feistel, 1),
            "jax.random.permutation": median(1e6 * sorting, 1),
            "epoch": median(1e6 * epoch, 1),
        },
        "ratio": median(feistel / sorting, 3),
        "fraction of an epoch": {
            "ours": median(feistel / epoch, 4),
            "jax.random.permutation": median(sorting / with_sorting, 4),
        },
    }


def main() -> None:
    """Measure, print the result, write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/shuffle.json"))
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--calls", type=int, default=100, help="shuffles in a turn")
    arguments = parser.parse_args()
    result = {
        "jax": jax.__version__,
        "rows": ROWS,
        "batch": BATCH,
        "turns": arguments.turns,
        **measure(arguments.turns, arguments.calls),
    }
    print(json.dumps(result, indent=1))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
