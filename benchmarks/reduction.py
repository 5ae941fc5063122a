"""What a stack's mixtures lose with fewer components, beside the bound that `reduce` gives.

python benchmarks/reduction.py --out docs/results/reduction.json [--tables concrete]

Tables and stacks are those of `distillation.py`. The loss is KL(before, after), by draws from the
stack at rows that it has not seen; the bound is the mean of `reduce`'s over these rows.
"""

from typing import Any

import jax
import numpy as np
from distillation import TABLES, fitted
from variants import read_arguments, run_missing

#: Components that are left.
COUNTS = (3, 5, 10, 20)

#: Draws of each row.
_DRAWS = 400


def run(table: str, seed: int) -> dict[str, Any]:
    """Return bounds and losses for each number of components."""
    case = fitted(table, seed)
    before = case.stack.predict_distribution(case.new_x)
    draws = before.sample(jax.random.key(seed), (_DRAWS,))
    known = case.new_y[:, None].astype(np.float32)
    found = []
    for count in COUNTS:
        after, bound = before.reduce(count)
        lost = np.asarray(before.log_prob(draws) - after.log_prob(draws), float).mean(axis=0)
        found.append(
            {
                "components": count,
                "bound": round(float(np.mean(bound)), 4),
                "loss": round(float(lost.mean()), 4),
                "largest_loss": round(float(lost.max()), 3),
                "lost_on_new_rows": round(
                    float(np.mean(before.log_prob(known) - after.log_prob(known))), 4
                ),
            }
        )
    return {"rows": len(case.new_y), "components": before.n_components, "reduced": found}


def main() -> None:
    """Run what is missing, one table at a time, and print it."""
    arguments = read_arguments(__doc__, ("stack",), TABLES)
    for one in run_missing(arguments, lambda table, _, seed: run(table, seed)):
        for count in one["reduced"]:
            print(one["table"], f"{one['components']} components:", count)


if __name__ == "__main__":
    main()
