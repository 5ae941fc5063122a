"""Other libraries' boosted distributions of counts, amounts, shares, times and joint targets.

Each has one distribution for each row. Both libraries see the rows that our models see, and stop by
the same fraction of them.
"""

import importlib.util
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ..boosting import import_lightgbm
from .store import rounded

#: Both libraries round smaller probabilities to zero, here and there.
_LEAST_LOG = -100.0


class Rows(NamedTuple):
    """Features, targets and upper ends of censored targets."""

    x: np.ndarray
    y: np.ndarray
    upper: np.ndarray | None

    def take(self, index: np.ndarray) -> "Rows":
        """Return some of the rows."""
        upper = None if self.upper is None else self.upper[index]
        return Rows(self.x[index], self.y[index], upper)

    @property
    def ends(self) -> dict[str, Any]:
        """What estimators are told of censored targets."""
        return {} if self.upper is None else {"upper": self.upper}

    @property
    def is_known(self) -> np.ndarray:
        """Where a target is not censored."""
        return np.ones(len(self.y), bool) if self.upper is None else np.isfinite(self.upper)


class Limits(NamedTuple):
    """How long a fit may last."""

    max_rounds: int
    patience: int
    learning_rate: float = 0.05


#: Choices that differ from LightGBMLSS's own: where relu gives zero there is no gradient.
_CHOICES = {"NegativeBinomial": {"response_fn_total_count": "softplus"}}

#: Packages that each library needs, and how to install them.
PACKAGES = {
    "ngboost": (("ngboost",), "pip install 'ngem[peers]'"),
    "lightgbmlss": (
        ("lightgbmlss", "pyro", "torch"),
        "pip install --no-deps lightgbmlss pyro-ppl pyro-api",
    ),
}


def run_peer(
    library: str, table: Mapping[str, Any], train: Rows, test: Rows, limits: Limits, seed: int
) -> dict[str, Any]:
    """Return the score of a library's distribution, with a fifth of the rows held out to stop."""
    packages, install = PACKAGES[library]
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        return {"absent": f"{', '.join(missing)} is not installed; try {install}."}
    order = np.random.default_rng(seed).permutation(len(train.y))
    stop, rest = np.split(order, [len(order) // 5])
    fit = {"ngboost": _ngboost, "lightgbmlss": _lightgbmlss}[library]
    log_prob, rounds = fit(table, train.take(rest), train.take(stop), test, limits, seed)
    return {"nll": rounded(-float(np.mean(np.maximum(log_prob, _LEAST_LOG)))), "rounds": rounds}


def log_step(table: Mapping[str, Any], y: np.ndarray, atoms: Any = ()) -> np.ndarray:
    """Return what turns log densities into log probabilities of the values that round to y."""
    step = float(np.log(table["resolution"])) if "resolution" in table else 0.0
    return step * np.sum(~np.isin(y.reshape(len(y), -1), atoms), axis=1)


def _ngboost(
    table: Mapping[str, Any], train: Rows, stop: Rows, test: Rows, limits: Limits, seed: int
) -> tuple[np.ndarray, int]:
    """Return NGBoost's log probability of each test row, and how many rounds it kept."""
    # Its trees take no gaps.
    middle = np.nanmedian(train.x, axis=0)
    fill = lambda x: np.where(np.isnan(x), middle, x)  # noqa: E731
    library = import_module("ngboost")
    distribution = getattr(import_module("ngboost.distns"), table["ngboost"])
    settings = {
        "Dist": distribution(train.y.shape[1]) if train.y.ndim > 1 else distribution,
        "n_estimators": 2 * limits.max_rounds,
        "learning_rate": limits.learning_rate,
        "random_state": seed,
        "verbose": False,
    }
    stopping = {"early_stopping_rounds": limits.patience}
    if test.upper is None:
        model = library.NGBRegressor(**settings)
        model.fit(fill(train.x), train.y, X_val=fill(stop.x), Y_val=stop.y, **stopping)
    else:
        model = library.NGBSurvival(**settings)
        watched = {"X_val": fill(stop.x), "T_val": stop.y, "E_val": stop.is_known}
        model.fit(fill(train.x), train.y, train.is_known, **watched, **stopping)
    best = int(np.argmin(model.evals_result["val"]["LOGSCORE"])) + 1
    predicted = model.pred_dist(fill(test.x), max_iter=best)
    if test.y.ndim > 1:
        return predicted.logpdf(test.y) + log_step(table, test.y), best
    if hasattr(predicted.dist, "logpmf"):
        return predicted.dist.logpmf(test.y), best
    known, later = predicted.dist.logpdf(test.y), predicted.dist.logsf(test.y)
    return np.where(test.is_known, known + log_step(table, test.y), later), best


def _lightgbmlss(
    table: Mapping[str, Any], train: Rows, stop: Rows, test: Rows, limits: Limits, seed: int
) -> tuple[np.ndarray, int]:
    """Return LightGBMLSS's log probability of each test row, and how many rounds it kept."""
    torch, lightgbm = import_module("torch"), import_lightgbm()
    torch.set_num_threads(1)
    name = table["lightgbmlss"]
    made = getattr(import_module(f"lightgbmlss.distributions.{name}"), name)
    distribution = made(stabilization="L2", initialize=True, **_CHOICES.get(name, {}))
    model = import_module("lightgbmlss.model").LightGBMLSS(distribution)
    rows = lightgbm.Dataset(train.x, train.y)
    trees = {"learning_rate": limits.learning_rate, "num_leaves": 31, "min_data_in_leaf": 20}
    fixed = {"max_delta_step": 1.0, "num_threads": 1, "seed": seed, "verbosity": -1}
    model.train(
        {**trees, **fixed},
        rows,
        num_boost_round=2 * limits.max_rounds,
        valid_sets=[lightgbm.Dataset(stop.x, stop.y, reference=rows)],
        callbacks=[lightgbm.early_stopping(limits.patience, verbose=False)],
    )
    values = model.predict(test.x, pred_type="parameters").to_numpy()
    parts = dict(zip(distribution.distribution_arg_names, torch.tensor(values).T, strict=True))
    predicted = distribution.distribution(**parts)
    y = torch.tensor(test.y)
    if "gate" in parts:
        # Its own log probability at zero has the density near zero in it, which has no bound.
        others = predicted.base_dist.log_prob(torch.where(y > 0, y, 0.5))
        others = others + torch.log1p(-parts["gate"])
        log_prob = torch.where(y > 0, others, torch.log(parts["gate"])).numpy()
        offset = log_step(table, test.y, (0.0,))
    else:
        log_prob = predicted.log_prob(y).numpy()
        offset = 0.0 if distribution.discrete else log_step(table, test.y)
    return log_prob + offset, int(model.booster.best_iteration)
