"""Which kinds of models a stack should have, and whether a temperature helps.

python benchmarks/stack_choices.py --out docs/results/stack_choices.json [--tables concrete yacht]

Tables, held-out rows and seeds are those of `choices.py`, with at most 2,000 training rows. Every
kind of the portfolio is fitted once. Then sets of kinds are weighted by held-out rows and scored on
rows that no fit has seen.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from choices import load
from scipy import special

from ngem.ensemble import stack
from ngem.estimator.portfolio import KINDS, QUALITIES, make_kind
from ngem.estimator.prediction import Model

TABLES = (
    *("autompg", "concrete", "energy-heating", "housing", "kin8nm", "power-plant", "stock"),
    "yacht",
)

#: Sets of kinds to compare, besides those of the presets.
SETS: dict[str, tuple[str, ...]] = {
    **QUALITIES,
    "good, without trees": tuple(name for name in QUALITIES["good"] if name != "trees"),
    "good, without bins": tuple(name for name in QUALITIES["good"] if "bins" not in name),
    "good, without dropout": tuple(name for name in QUALITIES["good"] if "dropout" not in name),
    "bins and trees": ("network with bins", "trees"),
}

#: Factors of the spread of a mixture around its mean.
TEMPERATURES = np.exp(np.linspace(-0.4, 0.4, 17))

#: Rows to use at most, a fifth of them for testing.
_ROWS = 2500


class Fit(NamedTuple):
    """What a fitted kind says of rows that it has not seen.

    Attributes:
        seconds: Time of the fit.
        held_out: Log density of each training row under a member that held it out.
        test: Log density of each test row.
        held_out_at: Mean NLL of held-out rows at each temperature.
        test_at: Mean NLL of test rows at each temperature.
    """

    seconds: float
    held_out: np.ndarray
    test: np.ndarray
    held_out_at: np.ndarray
    test_at: np.ndarray


def nll_at(model: Model, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the NLL of each row at each temperature, (temperatures, rows).

    A temperature t moves each component to mean + t (own mean - mean) and multiplies its scale.
    """
    mixture = model.mixture(x)
    log_weights = np.asarray(mixture.log_weights, float)
    means = np.asarray(mixture.components.mean, float)[..., 0]
    scales = np.asarray(mixture.components.scale, float)[..., 0]
    center = np.sum(np.exp(log_weights) * means, axis=1, keepdims=True)
    return np.array(
        [_nll(log_weights, center + t * (means - center), t * scales, y) for t in TEMPERATURES]
    )


def _nll(
    log_weights: np.ndarray, means: np.ndarray, scales: np.ndarray, y: np.ndarray
) -> np.ndarray:
    z = (y[:, None] - means) / scales
    densities = log_weights - 0.5 * z**2 - np.log(scales) - 0.5 * np.log(2 * np.pi)
    return -special.logsumexp(densities, axis=1)


def fit_kinds(name: str, directory: Path) -> dict[str, Fit]:
    """Return all kinds, fitted to the rows of a table."""
    x, y = load(name, directory)
    order = np.random.default_rng(1000).permutation(len(y))[:_ROWS]
    test, train = np.split(order, [len(order) // 5])
    fits = {}
    for kind in KINDS:
        started = time.perf_counter()
        model = make_kind(kind).set_params(random_state=0).fit(x[train], y[train])
        seconds = time.perf_counter() - started
        parts = [
            nll_at(member, x[train][rows], y[train][rows])
            for rows, member in model.held_out_models()
        ]
        fits[kind] = Fit(
            round(seconds, 1),
            model.oof_log_prob_,
            model.log_prob(x[test], y[test]),
            np.concatenate(parts, axis=1).mean(axis=1),
            nll_at(model.model_, x[test], y[test]).mean(axis=1),
        )
    return fits


def summarize(name: str, fits: dict[str, Fit]) -> dict[str, Any]:
    """Return the NLL of each kind and of each set of kinds, and what a temperature would do."""
    return {
        "table": name,
        "kinds": {kind: _kind(fit) for kind, fit in fits.items()},
        "sets": {one: _set([fits[kind] for kind in kinds]) for one, kinds in SETS.items()},
    }


def _kind(fit: Fit) -> dict[str, float]:
    held_out, best = int(np.argmin(fit.held_out_at)), int(np.argmin(fit.test_at))
    neutral = len(TEMPERATURES) // 2
    return {
        "seconds": fit.seconds,
        "held_out_nll": round(-float(np.nanmean(fit.held_out)), 4),
        "test_nll": round(-float(np.mean(fit.test)), 4),
        "temperature_of_held_out_rows": round(float(TEMPERATURES[held_out]), 3),
        "its_gain_on_test_rows": round(float(fit.test_at[neutral] - fit.test_at[held_out]), 4),
        "temperature_of_test_rows": round(float(TEMPERATURES[best]), 3),
    }


def _set(fits: list[Fit]) -> dict[str, Any]:
    held_out = np.column_stack([fit.held_out for fit in fits])
    stacked = stack(held_out[np.isfinite(held_out).all(axis=1)])
    test = np.column_stack([fit.test for fit in fits])
    joint = special.logsumexp(test, b=stacked.weights, axis=1)
    equal = special.logsumexp(test, axis=1) - np.log(len(fits))
    return {
        "seconds": round(sum(fit.seconds for fit in fits), 1),
        "held_out_nll": round(-float(stacked.log_density.mean()), 4),
        "test_nll": round(-float(joint.mean()), 4),
        "test_nll_of_equal_weights": round(-float(equal.mean()), 4),
        "weights": [round(float(weight), 3) for weight in stacked.weights],
    }


def text(results: list[dict[str, Any]]) -> str:
    """Return means over tables, and how often a temperature of held-out rows helps test rows."""
    lines = [f"{len(results)} tables; mean NLL of held-out and of test rows"]
    for one in SETS:
        rows = [result["sets"][one] for result in results]
        means = [np.mean([row[key] for row in rows]) for key in ("held_out_nll", "test_nll")]
        lines.append(f"{one:<24} {means[0]:.3f} {means[1]:.3f}")
    gains = np.array(
        [kind["its_gain_on_test_rows"] for result in results for kind in result["kinds"].values()]
    )
    lines.append(
        f"Temperature of held-out rows: mean gain on test rows {gains.mean():+.4f} nat, "
        f"better {np.sum(gains > 0.002)}, worse {np.sum(gains < -0.002)} of {len(gains)}"
    )
    return "\n".join(lines)


def main() -> None:
    """Fit all kinds to all tables, and write what follows after each of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/stack_choices.json"))
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    options = parser.parse_args()
    directory = Path(os.environ["NGEM_DATA_DIR"]) / "more"
    results = json.loads(options.out.read_text()) if options.out.exists() else []
    done = {result["table"] for result in results}
    for name in (table for table in options.tables if table not in done):
        results.append(summarize(name, fit_kinds(name, directory)))
        options.out.write_text(json.dumps(results, indent=1) + "\n")
    print(text(results))


if __name__ == "__main__":
    main()
