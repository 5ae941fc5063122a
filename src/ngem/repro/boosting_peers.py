"""Boosted mixtures beside other boosted densities: same rows, each stopped by the same fraction."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import metrics
from ..estimator.boosting_regressor import MixtureBoostingRegressor
from ..estimator.preprocessing import Scaling, fit_scaling
from ..estimator.regressor import MDNRegressor
from .boosted_densities import DENSITIES, Job, fit_quantile, sorted_quantiles
from .boosting_study import Problem, held_out_nll, problem, test_scores
from .store import Unit, rounded

#: Levels of quantile regressions: midpoints of ten equal parts.
LEVELS = (np.arange(10) + 0.5) / 10

#: LightGBMLSS asks for older versions of what we use, and works with ours.
_INSTALL = (
    "pip install 'ngem[peers]', or for LightGBMLSS pip install --no-deps lightgbmlss pyro-ppl "
    "pyro-api"
)


@dataclass(frozen=True)
class Settings:
    """Which methods are fitted to which sets.

    Attributes:
        datasets: UCI sets, each with its number of published splits, the first ones.
        methods: By name: "library", and its parameters; "not_on" are sets to leave out.
        leaves: Leaves of a tree to choose from, for every method.
        max_rounds: Rounds at most.
        patience: Rounds without improvement before stopping.
        validation_fraction: Fraction of the training rows that stops and chooses.
    """

    datasets: dict[str, int]
    methods: dict[str, dict[str, Any]]
    leaves: list[int]
    max_rounds: int
    patience: int
    validation_fraction: float


#: The libraries that are ours, and the one that has quantiles and no density.
OURS, NETWORKS, QUANTILES = "ngem", "ngem networks", "lightgbm quantiles"


def units(settings: Settings) -> list[Unit]:
    """Return one unit for each set, split and method; all sets of a split come first."""
    return [
        {"dataset": name, "method": method, "seed": seed}
        for seed in range(max(settings.datasets.values()))
        for name, splits in settings.datasets.items()
        if seed < splits
        for method in settings.methods
        if name not in settings.methods[method].get("not_on", [])
    ]


def run(settings: Settings, unit: Unit) -> dict[str, Any]:
    """Return test scores of a method; of its sizes of trees, held-out rows chose the best.

    A library that is not installed is skipped: the result says so.
    """
    method = dict(settings.methods[unit["method"]])
    library = method.pop("library")
    method.pop("not_on", None)
    rows = problem(unit["dataset"], unit["seed"])
    if library == OURS:
        return _run_ours(settings, rows, unit["seed"], method)
    if library == NETWORKS:
        networks = MDNRegressor(**method, random_state=unit["seed"]).fit(rows.x, rows.y)
        return _scores_of_ours(networks, rows)
    if library == QUANTILES:
        return _run_quantiles(settings, rows, unit["seed"], method)
    packages, fit = DENSITIES[library]
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        return {"absent": f"{', '.join(missing)} is not installed; try {_INSTALL}."}
    jobs, units_of_y = _jobs(settings, rows, unit["seed"])
    fitted = [fit(job, **method) for job in jobs]
    losses = [
        _mean(metrics.nll(predict(job.x_stop), job.y_stop))
        for job, predict in zip(jobs, fitted, strict=True)
    ]
    best = int(np.argmin(losses))
    mixture, y = fitted[best](rows.x_test), _forward(units_of_y, rows.y_test)[:, None]
    scale = np.exp(units_of_y.log_volume)
    return {
        "nll": rounded(_mean(metrics.nll(mixture, y)) + units_of_y.log_volume),
        "crps": rounded(_mean(metrics.crps(mixture, y)) * scale),
        "validation_nll": rounded(losses[best] + units_of_y.log_volume),
        "leaves": settings.leaves[best],
    }


def _run_ours(
    settings: Settings, rows: Problem, seed: int, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return scores of our boosted mixtures, which hold out the same fraction, or a fold a member.

    One member chooses the size of trees for several. Parameters of a method come before what all
    methods have.
    """
    limits = {"max_rounds": settings.max_rounds, "patience": settings.patience}

    def fit(leaves: int, n_members: int) -> MixtureBoostingRegressor:
        return MixtureBoostingRegressor(
            **{**limits, **parameters, "n_members": n_members},
            num_leaves=leaves,
            validation_fraction=settings.validation_fraction,
            n_jobs=1,
            random_state=seed,
        ).fit(rows.x, rows.y)

    single = [fit(leaves, 1) for leaves in settings.leaves]
    losses = [held_out_nll(model) for model in single]
    best = int(np.argmin(losses))
    several = parameters["n_members"] > 1
    model = fit(settings.leaves[best], parameters["n_members"]) if several else single[best]
    return {**_scores_of_ours(model, rows), "leaves": settings.leaves[best]}


def _scores_of_ours(model: Any, rows: Problem) -> dict[str, Any]:
    """Return test scores of one of our estimators."""
    quantiles = model.predict_quantiles(rows.x_test, LEVELS)
    return {
        **test_scores(model, rows),
        "quantile_crps": rounded(quantile_crps(quantiles, rows.y_test)),
        "validation_nll": held_out_nll(model),
    }


def _run_quantiles(
    settings: Settings, rows: Problem, seed: int, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the CRPS of one LightGBM regression for each level, each with its own best round."""
    jobs, units_of_y = _jobs(settings, rows, seed)
    fitted = [[fit_quantile(job, level, **parameters) for level in LEVELS] for job in jobs]
    losses = [
        quantile_crps(sorted_quantiles(models, job.x_stop), job.y_stop)
        for job, models in zip(jobs, fitted, strict=True)
    ]
    best = int(np.argmin(losses))
    y = _forward(units_of_y, rows.y_test)
    loss = quantile_crps(sorted_quantiles(fitted[best], rows.x_test), y) * np.exp(
        units_of_y.log_volume
    )
    return {"quantile_crps": rounded(float(loss)), "leaves": settings.leaves[best]}


def quantile_crps(quantiles: np.ndarray, y: np.ndarray) -> float:
    """Return twice the mean pinball loss over `LEVELS`.

    The CRPS is twice the integral of the pinball loss over levels from 0 to 1; this is its midpoint
    rule.
    """
    error = y[:, None] - quantiles
    return 2 * float(np.mean(np.maximum(LEVELS * error, (LEVELS - 1) * error)))


def _jobs(settings: Settings, rows: Problem, seed: int) -> tuple[list[Job], Scaling]:
    """Return one job for each size of trees, and the scaling of targets."""
    order = np.random.default_rng(seed).permutation(len(rows.y))
    count = round(settings.validation_fraction * len(order))
    stop, train = order[:count], order[count:]
    units_of_y = fit_scaling(rows.y[train, None])
    y = _forward(units_of_y, rows.y)
    parts = (rows.x[train], y[train], rows.x[stop], y[stop])
    limits = (settings.max_rounds, settings.patience, seed)
    return [Job(*parts, leaves, *limits) for leaves in settings.leaves], units_of_y


def _forward(units_of_y: Scaling, y: np.ndarray) -> np.ndarray:
    return units_of_y.forward(y[:, None])[:, 0].astype(np.float64)


def _mean(values: Any) -> float:
    return float(np.mean(np.asarray(values, np.float64)))
