"""The stack: several kinds of models, weighted by rows that they have not seen."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from sklearn.base import clone
from sklearn.utils import check_random_state

from ..ensemble import Part, StackPredictor, stack
from .member_regressor import MemberRegressor
from .portfolio import KINDS, QUALITIES, make_kind
from .prediction import Model, Readable
from .preprocessing import Scaling
from .rules import Rule, check_rules, choice, integer, number, optional

RULES: dict[str, Rule] = {
    "kinds": Rule(
        lambda v: v is None or _is_kinds(v),
        f"None, names among {', '.join(map(repr, KINDS))}, or pairs of a name and an estimator",
        ("network", "trees"),
    ),
    "quality": choice(QUALITIES),
    "budget": optional(number(1e-3, 1e9, "a positive number of seconds", 60.0)),
    "n_members": integer(5, low=2),
    "random_state": Rule(lambda v: True, "anything that scikit-learn takes", None),
    "verbose": integer(0, low=0),
}


class KindReport(NamedTuple):
    """What became of a kind.

    Attributes:
        name: Its name.
        seconds: How long its fit took; 0 if it did not run.
        oof_nll: Mean negative log density of held-out rows, in the user's units.
        weight: Its weight in the stack.
        outcome: "used", or why it is not.
    """

    name: str
    seconds: float
    oof_nll: float
    weight: float
    outcome: str


@dataclass(frozen=True)
class StackInputs:
    """Inputs of all parts of a stack, one after the other."""

    parts: tuple[Readable, ...]

    def forward(self, x: np.ndarray) -> Float[np.ndarray, "batch inputs"]:
        """Return the inputs of each row, in single precision."""
        return np.concatenate([part.forward(x) for part in self.parts], axis=1)


class DensityStack(MemberRegressor):
    """Predicts a distribution: networks and boosted trees together, weighted by held-out rows.

    Networks win on smooth tables and trees on stepped ones. Each kind is fitted in the same folds,
    so that every row has a log density from models that have not seen it. The weights maximize the
    log score of these rows. A mixture of mixtures is a mixture, so all predictions stay exact.

    >>> from ngem import DensityStack
    >>> def fit(X, y):
    ...     return DensityStack(quality="good", random_state=0).fit(X, y)

    Args:
        kinds: Names of `ngem.estimator.portfolio.KINDS`, or pairs (name, estimator) of estimators
            that have folds, such as `MDNRegressor` with settings of your own. None takes those of
            `quality`.
        quality: "fast" is one kind of network, "good" adds trees and a network with dropout,
            "best" has all kinds.
        budget: Seconds after which no further kind begins; None for no limit. The first kind always
            runs.
        n_members: Folds, and members of each kind.
        random_state: Seed of folds and of all kinds.
        verbose: 1 shows progress bars where there is a terminal.

    Attributes:
        kinds_: What ran, its held-out likelihood, its weight, and what was dropped and why.
        estimators_: The fitted estimators by name, those in use only.
        oof_log_prob_: Log density of each row under the stack of members that have not seen it.
    """

    estimators_: dict[str, Any]
    kinds_: list[KindReport]

    # Any: scikit-learn leaves the check of parameters to `fit`, which says what they may be.
    def __init__(
        self,
        kinds: Any = None,
        *,
        quality: Any = "good",
        budget: Any = None,
        n_members: Any = 5,
        random_state: Any = None,
        verbose: Any = 0,
    ):
        self.kinds = kinds
        self.quality = quality
        self.budget = budget
        self.n_members = n_members
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "DensityStack":
        """Fit all kinds and weigh them.

        Args:
            X: Features, (rows, columns), numbers; NaN where a value is missing.
            y: Targets, (rows,) or (rows, columns).
            sample_weight: How much each row counts.
        """
        check_rules(self.get_params(deep=False), RULES)
        self.__dict__.pop("model_", None)
        table, target_ndim = self._read_table(X, y, sample_weight)
        fitted, skipped = self._fit_kinds(X, y, sample_weight)
        judged = np.isfinite(next(iter(fitted.values())).model.oof_log_prob_)
        densities = np.column_stack([one.model.oof_log_prob_[judged] for one in fitted.values()])
        counts = None if sample_weight is None else np.asarray(sample_weight, float)[judged]
        stacked = stack(densities, counts)
        self.kinds_ = [
            KindReport(
                name,
                round(one.seconds, 2),
                -float(np.average(column, weights=counts)),
                float(weight),
                "used" if weight else "its weight was below a thousandth",
            )
            for (name, one), weight, column in zip(
                fitted.items(), stacked.weights, densities.T, strict=True
            )
        ] + [KindReport(name, 0.0, float("nan"), 0.0, "the budget was used up") for name in skipped]
        self.estimators_ = {
            kind.name: fitted[kind.name].model for kind in self.kinds_ if kind.weight
        }
        first = next(iter(self.estimators_.values()))
        model = stack_models(
            [one.model_ for one in self.estimators_.values()],
            stacked.weights[stacked.weights > 0],
            table.x[:1],
        )
        self.folds_ = first.folds_
        self.oof_log_prob_ = np.full(len(judged), np.nan)
        self.oof_log_prob_[judged] = stacked.log_density
        return self._keep(
            model,
            settings=self.get_params(deep=False),
            target_ndim=target_ndim,
            best=np.zeros(0, int),
            diagnostics=self._gains(first, counts, judged),
            history={},
        )

    def _fit_kinds(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[dict[str, "_Fitted"], list[str]]:
        """Return the fitted kinds by name, and the names of those that the budget left out."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        fitted: dict[str, _Fitted] = {}
        started, names = time.perf_counter(), list(self._estimators(seed))
        for name, estimator in self._estimators(seed).items():
            spent = time.perf_counter() - started
            if fitted and self.budget is not None and spent >= self.budget:
                break
            model = clone(estimator).set_params(random_state=seed, n_members=self.n_members)
            model.fit(X, y, sample_weight)
            fitted[name] = _Fitted(model, time.perf_counter() - started - spent)
        return fitted, [name for name in names if name not in fitted]

    def _estimators(self, seed: int) -> dict[str, Any]:
        """Return the unfitted estimators by name."""
        kinds = QUALITIES[self.quality] if self.kinds is None else self.kinds
        shared = {"random_state": seed, "verbose": self.verbose, "missing": "impute"}
        return {
            kind if isinstance(kind, str) else kind[0]: make_kind(kind, **shared)
            if isinstance(kind, str)
            else kind[1]
            for kind in kinds
        }

    def _gains(self, first: Any, counts: np.ndarray | None, judged: np.ndarray) -> dict[str, Any]:
        """Return how much better than simple models and than the best kind held-out rows are."""
        nll = -float(np.average(self.oof_log_prob_[judged], weights=counts))
        ran = [kind for kind in self.kinds_ if np.isfinite(kind.oof_nll)]
        best = min(ran, key=lambda kind: kind.oof_nll)
        of_first = next(kind.oof_nll for kind in ran if self.estimators_.get(kind.name) is first)
        gains = {
            name: None
            if first.diagnostics_[name] is None
            else first.diagnostics_[name] + of_first - nll
            for name in ("gain_over_gaussian", "gain_over_linear")
        }
        return {
            **gains,
            "oof_nll": nll,
            "best_kind": best.name,
            "gain_over_best_kind": best.oof_nll - nll,
            "nll_offset": first.diagnostics_["nll_offset"],
            "outlier_rows": first.diagnostics_["outlier_rows"],
            "training_rows": first.diagnostics_["training_rows"],
            "validation_rows": first.diagnostics_["validation_rows"],
        }

    def _keep_best(self, best: np.ndarray) -> None:
        del best

    @property
    def _takes_gaps(self) -> bool:
        return True


class _Fitted(NamedTuple):
    """A fitted estimator and how long its fit took."""

    model: Any
    seconds: float


def stack_models(
    models: Sequence[Model], weights: Float[np.ndarray, " part"], row: np.ndarray
) -> Model:
    """Return several models as one, in the units of the first.

    Args:
        models: Models of one family.
        weights: The weight of each.
        row: One row of features, from which the number of inputs of each is read.
    """
    units = models[0].targets
    parts = tuple(
        Part(model.network, *_relative(model.targets, units), model.inputs.forward(row).shape[1])
        for model in models
    )
    log_weights = jnp.log(jnp.asarray(weights, jnp.float32))
    inputs = StackInputs(tuple(model.inputs for model in models))
    return Model(StackPredictor(parts, log_weights), inputs, units)


def _relative(own: Scaling, units: Scaling) -> tuple[Any, Any]:
    """Return location and scale of some units in others, in single precision."""
    location = (own.location - units.location) / units.scale
    return jnp.asarray(location, jnp.float32), jnp.asarray(own.scale / units.scale, jnp.float32)


def _is_kinds(value: Any) -> bool:
    listed = isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0
    return listed and all(map(_is_kind, value))


def _is_kind(value: Any) -> bool:
    if isinstance(value, str):
        return value in KINDS
    is_pair = isinstance(value, Sequence) and len(value) == 2 and isinstance(value[0], str)
    return is_pair and hasattr(value[1], "n_members") and hasattr(value[1], "fit")
