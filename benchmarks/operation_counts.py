"""Count the floating-point operations of loss and gradient, nGEM beside NLL.

    python benchmarks/operation_counts.py [--out docs/results/operation_counts.json]

Counts come from XLA's analysis of the compiled program, so they repeat exactly and are not times.
A second pass through the likelihood would give a ratio near 2.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import ngem
from ngem.objectives import ANNEALED, DERIVED, LISTING, NGEM, NLL, AbstractObjective

SHAPES = {"K = 3, D = 1": (3, 1), "K = 20, D = 784": (20, 784)}
BATCH = 256
OBJECTIVES = {
    "nll": NLL(),
    "ngem": NGEM(),
    "ngem, power 1": NGEM(power=1.0),
    "ngem-derived": DERIVED,
    "ngem-listing": LISTING,
}


def count(
    objective: AbstractObjective, n_components: int, dim: int, *, scheduled: bool = False
) -> dict[str, float]:
    """Return flops and transcendental calls of one value and gradient."""
    shape = (BATCH, n_components, dim)
    arrays = (jnp.zeros(shape[:2]), jnp.zeros(shape), jnp.ones(shape))

    def loss(arrays: Any, y: Any, power: Any) -> Any:
        return objective(ngem.gaussian_mixture(*arrays), y, power=power if scheduled else None)

    step = jax.jit(jax.value_and_grad(loss))
    y = jnp.zeros((BATCH, dim))
    analysis = step.lower(arrays, y, jnp.array(0.5)).compile().cost_analysis() or {}
    return {key: float(analysis[key]) for key in ("flops", "transcendentals") if key in analysis}


def table() -> dict[str, dict[str, dict[str, float]]]:
    """Return the counts by shape and objective."""
    result = {}
    for label, (n_components, dim) in SHAPES.items():
        counts = {name: count(o, n_components, dim) for name, o in OBJECTIVES.items()}
        counts["ngem, as trained"] = count(ANNEALED, n_components, dim, scheduled=True)
        result[label] = counts
    return result


def main() -> None:
    """Print the table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/operation_counts.json"))
    arguments = parser.parse_args()
    result = table()
    for label, counts in result.items():
        print(f"{label}, batch {BATCH}")
        for name, row in counts.items():
            ratio = row["flops"] / counts["nll"]["flops"]
            print(
                f"  {name:24s} {row['flops']:12,.0f} flops ({ratio:.3f})"
                f" {row.get('transcendentals', 0):10,.0f} transcendental"
            )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(
        json.dumps({"jax": jax.__version__, "counts": result}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
