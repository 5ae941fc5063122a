"""Why the train likelihood jumps, and what remedies cost on held-out rows.

python benchmarks/jumps.py --out docs/results/jumps.json [--variants ...] [--tables ...] [--seed 0]

One network, without dropout and guard, on at most 4,000 training rows of the first published split.
A fifth of these rows is held out and judges, a tenth of the others stops the training. Test rows
are not read. After each epoch three train likelihoods are compared: of the batches as training saw
them, of all training rows under the newest parameters, and of all under their moving average,
which validation and predictions use.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from variants import differences, read_arguments, run_missing, summary

from ngem import MDNRegressor
from ngem.datasets import load_uci, uci_splits
from ngem.estimator import parameters
from ngem.estimator.members import standardized, to_device
from ngem.estimator.preprocessing import Table, fit_inputs, split_rows
from ngem.estimator.targets import fit_targets
from ngem.objectives import DEFAULT, AbstractObjective
from ngem.training import Data, History, State, fit, loop, mean_nll, row_nll

TABLES = ("yacht", "naval", "energy-heating", "protein")

#: Differences up to this many nats count as level.
_LEVEL = 0.01

#: Rates of the default and of the slower variant.
_RATE, _SLOW = 3e-3, 1e-3

#: Decay of the recent norm, and what a gradient may be in its units.
_RECENT, _AT_MOST = 0.99, 2.0

#: Weight of the Cauchy density beside which a row's step is judged.
_TAIL = 0.01


class Norm(NamedTuple):
    """A moving average of the norm of gradients."""

    recent: Any


def clip_by_recent_norm() -> optax.GradientTransformation:
    """Return a transformation: no gradient longer than twice the recent ones."""

    def update(grads: Any, state: Norm, params: Any = None) -> tuple[Any, Norm]:
        del params
        norm = optax.tree.norm(grads)
        recent = jnp.where(state.recent == 0, norm, state.recent)
        length = jnp.minimum(norm, _AT_MOST * recent)
        scale = length / jnp.maximum(norm, jnp.finfo(norm.dtype).tiny)
        clipped = jax.tree.map(lambda leaf: leaf * scale, grads)
        return clipped, Norm(_RECENT * recent + (1 - _RECENT) * length)

    return optax.GradientTransformation(lambda params: Norm(jnp.zeros(())), update)


@dataclass(frozen=True)
class BoundedRows(AbstractObjective):
    """Another objective; the less a row is likely beside a wide density, the less it moves."""

    inner: AbstractObjective = DEFAULT

    @property
    def schedule(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.schedule

    def as_scheduled(self) -> "BoundedRows":
        return BoundedRows(self.inner.as_scheduled())

    def loss(
        self, family: Any, logits: Any, components: Any, y: Any, power: Any = None
    ) -> jax.Array:
        value = self.inner.loss(family, logits, components, y, power)
        wide = -jnp.sum(jnp.log(jnp.pi) + jnp.log1p(y**2), axis=0)
        odds = jnp.log(1 - _TAIL) - value - jnp.log(_TAIL) - wide
        weight = jax.lax.stop_gradient(jax.nn.sigmoid(odds))
        return jax.lax.stop_gradient(value * (1 - weight)) + weight * value


def recent(n_steps: int) -> optax.GradientTransformation:
    rate = optax.cosine_decay_schedule(_RATE, n_steps)
    return optax.chain(clip_by_recent_norm(), optax.adam(rate))


#: Settings to compare with the defaults; a function makes an optimizer of so many steps.
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "clip_norm 1": {"clip_norm": 1.0},
    "clip_norm 0.1": {"clip_norm": 0.1},
    "clip at twice the recent norm": {"optimizer": recent},
    "learning_rate 1e-3": {"learning_rate": _SLOW},
    "warmup 0.1": {"warmup": 0.1},
    "a bound on each row": {"objective": BoundedRows()},
}


class Rows(NamedTuple):
    """Rows to learn from, to stop by and to judge by."""

    train: Table
    stop: Table
    judge: Table


def load(name: str, seed: int, settings: dict[str, Any]) -> Rows:
    """Return standardized rows of a table."""
    table, known = load_uci(name), uci_splits(name)[0].train
    order = np.random.default_rng(2000 + seed).permutation(known)[:5000]
    judge, others = np.split(order, [len(order) // 5])
    seen, stop = (
        others[part] for part in split_rows(len(others), 0.1, np.random.default_rng(seed))
    )
    rows = [Table(table.x[part], table.y[part, :1]) for part in (seen, stop, judge)]
    inputs = fit_inputs(rows[0].x)
    targets = fit_targets(parameters.family(settings), rows[0])
    return Rows(*(standardized(inputs, targets, part) for part in rows))


def rises(nll: np.ndarray) -> dict[str, float]:
    """Return how often a curve rose by more than a nat in one epoch, and by how much at most."""
    steps = np.diff(nll)
    return {"rises": int(np.sum(steps > 1)), "largest": float(np.max(steps, initial=0.0))}


def curves(rows: Data) -> tuple[Callable[[State, History], None], dict[str, list[float]]]:
    """Return a function to call after each epoch, and the likelihoods that it collects."""
    found: dict[str, list[float]] = {"newest": [], "average": []}

    @eqx.filter_jit
    def both(static: Any, *params: Any) -> list[jax.Array]:
        return [mean_nll(eqx.combine(one, static), rows) for one in params]

    def collect(static: Any, state: State) -> None:
        for values, value in zip(
            found.values(), both(static, state.params, state.average), strict=True
        ):
            values.append(float(value))

    return collect, found


def run(name: str, variant: str, seed: int) -> dict[str, Any]:
    """Return how a variant's train likelihood moved, and the likelihood of rows not seen."""
    settings = {**MDNRegressor().get_params(deep=False), "n_members": 1, "dropout": 0.0}
    settings |= VARIANTS[variant]
    settings = parameters.resolve(settings, 1, 1)
    rows = load(name, seed, {**settings, "objective": "ngem"})
    train, stop, judge = map(to_device, rows)
    epochs = parameters.max_epochs(settings, len(train.y))
    if callable(settings["optimizer"]):
        settings["optimizer"] = settings["optimizer"](epochs * -(-len(train.y) // 128))
    start = parameters.start_network(settings, rows.train.x, rows.train.y, seed)
    static = eqx.filter(start, eqx.is_inexact_array, inverse=True)
    collect, found = curves(train)
    loop._CHUNK_SECONDS = 0.0  # states are seen between chunks: one epoch each
    result = fit(
        start,
        train,
        parameters.plan(settings, len(train.y)),
        key=jax.random.key(seed),
        max_epochs=epochs,
        learning_rate=settings["learning_rate"],
        validation=stop,
        save=lambda state, _: collect(static, state),
    )
    shown = {"batches": result.history.train, **found}
    return {
        "nll": round(float(np.mean(row_nll(result.network, judge))), 4),
        "epochs": len(result.history.train),
        **{
            f"{kind} {key}": value
            for kind, curve in shown.items()
            for key, value in rises(np.array(curve)).items()
        },
    }


def main() -> None:
    """Run what is missing, one result at a time, and print the summary."""
    runs = run_missing(read_arguments(__doc__, VARIANTS, TABLES), run)
    print(summary("the default", differences(runs, VARIANTS), _LEVEL))
    for variant in VARIANTS:
        some = [one for one in runs if one["variant"] == variant]
        kinds = {
            kind: sum(one[f"{kind} rises"] for one in some)
            for kind in ("batches", "newest", "average")
        }
        print(variant, kinds, "in", sum(one["epochs"] for one in some), "epochs")


if __name__ == "__main__":
    main()
