"""Whether the disagreement of members should narrow their average.

python benchmarks/sharpening.py --out docs/results/sharpening.json [--tables concrete]

A member's width covers its own error. The average of members errs less than each, yet its density
is wider than theirs: with S the mean variance of members and V the variance of their means, the
average has the variance S + V, where errors that members do not share would leave S - V. Rules
that narrow an average use both of each row, so they need no further rows. They are scored on rows
that no fit has seen, at most 500 of each table.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from choices import load
from scipy import special
from variants import differences, read_arguments, run_missing, summary

from ngem.ensemble import stack
from ngem.estimator.portfolio import make_kind

TABLES = (
    *("autompg", "concrete", "energy-heating", "housing", "kin8nm", "pendulum", "power-plant"),
    *("skillcraft", "stock", "yacht"),
)

#: Kinds that are fitted. A stack of both has weights from held-out rows.
KINDS = {"networks": "network", "trees": "trees"}

#: Standard deviations keep at least this fraction.
_LEAST = 0.5

#: Rows to use at most, and differences that count as level, in nats.
_ROWS, _LEVEL = 2500, 0.002


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


def below(members: Members, y: np.ndarray) -> np.ndarray:
    """Return the probability of smaller values than each target, of the average."""
    parts = special.ndtr((y[None, :, None] - members.means) / members.scales)
    return np.mean(np.sum(np.exp(members.log_weights) * parts, axis=2), axis=0)


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
        "beyond that": shrink(members.means, inner - 2 * outer, inner + outer),
        "moved, to what is shared": shrink(moved, inner - outer, inner),
        "narrower components, not moved": members._replace(scales=narrow * members.scales),
        "half of that": members._replace(scales=np.sqrt(narrow) * members.scales),
    }


def read_members(model: Any, x: np.ndarray) -> Members:
    """Return the mixtures of the members, with the guard in each."""
    parts = [model.model_.member(index).mixture(x) for index in range(len(model.folds_))]
    return Members(
        np.stack([np.asarray(one.log_weights, float) for one in parts]),
        np.stack([np.asarray(one.components.mean, float)[..., 0] for one in parts]),
        np.stack([np.asarray(one.components.scale, float)[..., 0] for one in parts]),
    )


def run(table: str, seed: int) -> list[dict[str, Any]]:
    """Return the scores of each rule for each kind and for a stack of them."""
    x, y = load(table, Path(os.environ["NGEM_DATA_DIR"]) / "more")
    order = np.random.default_rng(1000 + seed).permutation(len(y))[:_ROWS]
    new, old = np.split(order, [len(order) // 5])
    fitted = [
        make_kind(kind).set_params(random_state=seed).fit(x[old], y[old]) for kind in KINDS.values()
    ]
    weights = stack(np.column_stack([model.oof_log_prob_ for model in fitted])).weights
    each = [rules(read_members(model, x[new])) for model in fitted]
    found = []
    for rule in each[0]:
        log = [densities(one[rule], y[new]) for one in each]
        pit = [below(one[rule], y[new]) for one in each]
        for kind, one, probability in zip(
            [*KINDS, "stack"],
            [*log, special.logsumexp(log, b=weights[:, None], axis=0)],
            [*pit, np.tensordot(weights, pit, 1)],
            strict=True,
        ):
            found.append({"kind": kind, "rule": rule, **scores(one, probability)})
    return found


def scores(log_density: np.ndarray, pit: np.ndarray) -> dict[str, float]:
    """Return the NLL, and how many targets lie in central intervals."""
    inside = {level: np.mean(np.abs(pit - 0.5) <= level / 200) for level in (50, 90, 99)}
    return {
        "nll": round(-float(log_density.mean()), 4),
        **{f"coverage{level}": round(float(part), 3) for level, part in inside.items()},
    }


def main() -> None:
    """Fit what is missing, and print how rules compare with the plain average."""
    arguments = read_arguments(__doc__, ("default",), TABLES)
    fits = run_missing(arguments, lambda table, _, seed: {"scores": run(table, seed)})
    names = list(dict.fromkeys(one["rule"] for one in fits[0]["scores"]))
    for kind in (*KINDS, "stack"):
        runs = [
            {"table": fit["table"], "seed": fit["seed"], "variant": one["rule"], **one}
            for fit in fits
            for one in fit["scores"]
            if one["kind"] == kind
        ]
        print(summary(f"{kind}, NLL of the average", differences(runs, names), _LEVEL))


if __name__ == "__main__":
    main()
