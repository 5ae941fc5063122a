"""Whether the disagreement of members should narrow their average.

python benchmarks/sharpening.py --out docs/results/sharpening.json [--tables concrete]

A member's width covers its own error. The average of members errs less than each, yet its density
is wider than theirs: with S the mean variance of members and V the variance of their means, the
average has the variance S + V, where errors that members do not share would leave S - V. Rules
that narrow an average use both of each row, so they need no further rows. They are scored on rows
that no fit has seen, at most 500 of each table.
"""

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from choices import load
from scipy import special
from variants import differences, read_arguments, run_missing, summary

from ngem.estimator.portfolio import make_kind

TABLES = (
    *("autompg", "concrete", "energy-heating", "housing", "kin8nm", "pendulum", "power-plant"),
    *("skillcraft", "stock", "yacht"),
)

KINDS = {"networks": "network", "trees": "trees"}

#: Standard deviations keep at least this fraction.
_LEAST = 0.5

_ROWS, _LEVEL = 2500, 0.005


class Members(NamedTuple):
    """Mixtures of each member for each row, (member, row, component)."""

    log_weights: np.ndarray
    means: np.ndarray
    scales: np.ndarray


def densities(members: Members, y: np.ndarray) -> np.ndarray:
    """Return the log density of each row under the average."""
    z = (y[None, :, None] - members.means) / members.scales
    log = members.log_weights - 0.5 * z**2 - np.log(members.scales) - 0.5 * np.log(2 * np.pi)
    return special.logsumexp(log, axis=(0, 2)) - np.log(len(z))


def depths(members: Members, y: np.ndarray) -> np.ndarray:
    """Return how far each target is from the median, in probability."""
    below = special.ndtr((y[None, :, None] - members.means) / members.scales)
    pit = np.mean(np.sum(np.exp(members.log_weights) * below, axis=2), axis=0)
    return np.abs(pit - 0.5)


def rules(members: Members) -> dict[str, Members]:
    """Return the average under each rule."""
    weights = np.exp(members.log_weights)
    own = np.sum(weights * members.means, axis=2, keepdims=True)
    spread = np.sum(weights * (members.scales**2 + (members.means - own) ** 2), axis=2)
    center, inner = own.mean(axis=0, keepdims=True), spread.mean(axis=0)[None, :, None]
    outer = own.var(axis=0, keepdims=True)
    moved = members.means - own + center

    def shrink(means: np.ndarray, wanted: np.ndarray, given: np.ndarray) -> Members:
        factor = np.sqrt(np.maximum(wanted / given, _LEAST**2))
        return Members(
            members.log_weights, center + factor * (means - center), factor * members.scales
        )

    narrow = np.sqrt(np.maximum((inner - outer) / (inner + outer), _LEAST**2))
    return {
        "average": members,
        "members moved to a common mean": members._replace(means=moved),
        "to the variance of a member": shrink(members.means, inner, inner + outer),
        "to what is shared": shrink(members.means, inner - outer, inner + outer),
        "moved, to what is shared": shrink(moved, inner - outer, inner),
        "narrower components, not moved": members._replace(scales=narrow * members.scales),
        "half of that": members._replace(scales=np.sqrt(narrow) * members.scales),
    }


def run(table: str, kind: str, seed: int) -> list[dict[str, Any]]:
    """Return the scores of each rule."""
    x, y = load(table, Path(os.environ["NGEM_DATA_DIR"]) / "more")
    order = np.random.default_rng(1000 + seed).permutation(len(y))[:_ROWS]
    new, old = np.split(order, [len(order) // 5])
    began = time.process_time()
    model = make_kind(KINDS[kind]).set_params(random_state=seed).fit(x[old], y[old])
    seconds = round(time.process_time() - began, 1)
    mixtures = [model.model_.member(index).mixture(x[new]) for index in range(5)]
    members = Members(
        np.stack([np.asarray(one.log_weights, float) for one in mixtures]),
        np.stack([np.asarray(one.components.mean, float)[..., 0] for one in mixtures]),
        np.stack([np.asarray(one.components.scale, float)[..., 0] for one in mixtures]),
    )
    return [
        {
            "variant": name,
            "cpu_seconds": seconds,
            "nll": round(-float(densities(one, y[new]).mean()), 4),
            **{
                f"coverage{level}": round(float(np.mean(depths(one, y[new]) <= level / 200)), 3)
                for level in (50, 90, 99)
            },
        }
        for name, one in rules(members).items()
    ]


def main() -> None:
    """Fit what is missing, and print how rules compare with the plain average."""
    arguments = read_arguments(__doc__, KINDS, TABLES)

    def scores(table: str, kind: str, seed: int) -> dict[str, Any]:
        return {"rules": run(table, kind, seed)}

    fits = run_missing(arguments, scores)
    names = [rule["variant"] for rule in fits[0]["rules"]]
    for kind in KINDS:
        runs = [
            {"table": fit["table"], "seed": fit["seed"], **rule}
            for fit in fits
            if fit["variant"] == kind
            for rule in fit["rules"]
        ]
        print(summary(f"{kind}: the average", differences(runs, names), _LEVEL))


if __name__ == "__main__":
    main()
