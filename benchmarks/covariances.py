"""Time of a loss with its gradient in raw outputs: by the number of targets and factors, by family.

    python benchmarks/covariances.py [--out docs/results/covariances.json]

Low-rank components: slopes on logarithmic axes over targets and over factors; 1 is linear. Every
family: the time relative to diagonal Gaussians with as many raw outputs. The objective is the
default as a fit trains with it, `ANNEALED`, at a strength that follows a schedule. Sides are timed
in turns, by processor time; ratios are medians over turns.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from ngem.bench.timing import Turn, in_turns, slope
from ngem.families import FAMILIES, AbstractFamily, DiagonalGaussian, LowRankGaussian
from ngem.nn import MixtureNetwork
from ngem.objectives import ANNEALED

TARGETS, RANKS = (64, 128, 256, 512, 784), (1, 2, 4, 8)

#: Rows, components and targets of the comparison of families.
ROWS, COMPONENTS, DIM = 256, 5, 7


def turn(family: AbstractFamily, rows: int, components: int, dim: int, calls: int) -> Turn:
    """Return a function that computes losses and gradients and returns the seconds of one call."""
    head = MixtureNetwork(lambda raw: raw, components, dim, family)
    rng = np.random.default_rng(0)
    raw = jnp.asarray(0.3 * rng.standard_normal((rows, head.num_raw)), jnp.float32)
    y = family.link.backward(jnp.asarray(rng.standard_normal((rows, dim)), jnp.float32))

    @jax.jit
    def run(raw: jax.Array, power: jax.Array) -> jax.Array:
        return jax.grad(lambda raw: jnp.mean(ANNEALED.losses(jax.vmap(head)(raw), y, power)))(raw)

    power = jnp.asarray(0.3, jnp.float32)
    jax.block_until_ready(run(raw, power))

    def measure() -> float:
        started = time.process_time()
        jax.block_until_ready([run(raw, power) for _ in range(calls)])
        return (time.process_time() - started) / calls

    return measure


def same_outputs(family: AbstractFamily, calls: int) -> list[Turn]:
    """Return a family and diagonal Gaussians with as many raw outputs, or one more."""
    dim = -(-family.num_raw(DIM) // 2)
    own = turn(family, ROWS, COMPONENTS, DIM, calls)
    return [own, turn(DiagonalGaussian(), ROWS, COMPONENTS, dim, calls)]


def main() -> None:
    """Measure, print the result, write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/covariances.json"))
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--calls", type=int, default=20, help="calls in a turn")
    arguments = parser.parse_args()
    result: dict = {"jax": jax.__version__, "turns": arguments.turns}

    def milliseconds(turns: list[Turn]) -> list[float]:
        return [1e3 * float(np.median(one)) for one in in_turns(turns, arguments.turns).T]

    calls = max(1, arguments.calls // 10)
    large = [turn(LowRankGaussian(rank=4), 32, 10, 784, calls)]
    large += [turn(DiagonalGaussian(), 32, 10, 3 * 784, calls)]
    own, diagonal = in_turns(large, arguments.turns).T
    by_dim = milliseconds([turn(LowRankGaussian(rank=4), 32, 10, dim, calls) for dim in TARGETS])
    by_rank = milliseconds([turn(LowRankGaussian(rank=rank), 32, 10, 784, calls) for rank in RANKS])
    result["low-rank(4), K=10, 32 rows: milliseconds by targets"] = {
        str(dim): round(value, 2) for dim, value in zip(TARGETS, by_dim, strict=True)
    }
    result["slope over targets"] = round(slope(TARGETS, by_dim), 2)
    result["low-rank, D=784, K=10, 32 rows: milliseconds by rank"] = {
        str(rank): round(value, 2) for rank, value in zip(RANKS, by_rank, strict=True)
    }
    result["slope over ranks"] = round(slope(RANKS, by_rank), 2)
    result["low-rank(4), D=784, relative to diagonal Gaussians with as many raw outputs"] = round(
        float(np.median(own / diagonal)), 2
    )
    shape = f"{ROWS} rows, K={COMPONENTS}, D={DIM}"
    ratios = {}
    for name, kind in FAMILIES.items():
        own, diagonal = in_turns(same_outputs(kind(), arguments.calls), arguments.turns).T
        ratios[name] = round(float(np.median(own / diagonal)), 2)
    result[f"time relative to diagonal Gaussians with as many raw outputs, {shape}"] = ratios
    print(json.dumps(result, indent=1))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
