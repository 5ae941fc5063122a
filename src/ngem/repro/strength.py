"""Networks, boosted mixtures and stacks beside other methods, on published splits."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..estimator.observations import round_ends
from ..estimator.portfolio import QUALITIES, make_kind
from ..estimator.prediction import Model
from ..estimator.preprocessing import Table
from ..estimator.regressor import MDNRegressor
from ..estimator.stacking import choose_repeats, combine
from . import boosting_peers
from .boosting_study import Problem, problem
from .store import Run, Unit, rounded

#: The unit in which all kinds of a stack are fitted, and from which the stacks follow.
PORTFOLIO = "portfolio"


@dataclass(frozen=True)
class Settings:
    """What is fitted to which sets.

    Attributes:
        datasets: UCI sets, each with its number of published splits, the first ones.
        resolutions: Steps of targets that are rounded, by set, for ours; others are exact.
        single: By method: a kind by itself.
        stacks: By method: the preset whose kinds are stacked. All kinds of all presets are fitted
            once.
        networks: By method: parameters of `MDNRegressor` that differ from its defaults. Of several
            "choices" of further ones, held-out rows take the best.
        peers: By method: "library", and its parameters.
        leaves: Leaves of a tree to choose from, for peers.
        max_rounds: Rounds of peers at most.
        patience: Their rounds without improvement before stopping.
        validation_fraction: Fraction of the training rows that stops peers and chooses leaves.
        published_nll: The best NLL that others have published, by set.
        published_crps: The best CRPS that others have published, by set.
    """

    datasets: dict[str, int]
    resolutions: dict[str, float]
    single: dict[str, str]
    stacks: dict[str, str]
    networks: dict[str, dict[str, Any]]
    peers: dict[str, dict[str, Any]]
    leaves: list[int]
    max_rounds: int
    patience: int
    validation_fraction: float
    published_nll: dict[str, float]
    published_crps: dict[str, float]


def units(settings: Settings) -> list[Unit]:
    """Return one unit for each set, split and method; all sets of a split come first."""
    methods = [PORTFOLIO, *settings.single, *settings.networks, *settings.peers]
    return [
        {"dataset": name, "method": method, "seed": seed}
        for seed in range(max(settings.datasets.values()))
        for name, splits in settings.datasets.items()
        if seed < splits
        for method in methods
    ]


def run(settings: Settings, unit: Unit) -> dict[str, Any]:
    """Return the test scores of a method on a split, in the set's units; nothing is chosen."""
    method, seed = unit["method"], unit["seed"]
    rows = problem(unit["dataset"], seed)
    shared = {"resolution": settings.resolutions.get(unit["dataset"]), "random_state": seed}
    if method == PORTFOLIO:
        return {"scores": _portfolio(settings, rows, unit["dataset"], shared)}
    if method in settings.single:
        kind = make_kind(settings.single[method], **shared).fit(rows.x, rows.y)
        return _scores(settings, kind.model_, rows, unit["dataset"])
    if method in settings.networks:
        model = _network({**settings.networks[method], **shared}, rows)
        return _scores(settings, model.model_, rows, unit["dataset"])
    peers = boosting_peers.Settings(
        datasets=settings.datasets,
        methods=settings.peers,
        leaves=settings.leaves,
        max_rounds=settings.max_rounds,
        patience=settings.patience,
        validation_fraction=settings.validation_fraction,
    )
    scored = boosting_peers.run(peers, unit)
    if "crps" not in scored and "quantile_crps" in scored:
        scored["crps"] = scored["quantile_crps"]
    return scored


def derived(runs: list[Run]) -> list[Run]:
    """Return a run for each method that follows from the fitted kinds."""
    return [
        {"dataset": run["dataset"], "seed": run["seed"], "method": method, **scores}
        for run in runs
        if run["method"] == PORTFOLIO
        for method, scores in run["scores"].items()
    ]


def _network(parameters: dict[str, Any], rows: Problem) -> MDNRegressor:
    """Return the network that held-out rows prefer among the choices."""
    plain = {name: value for name, value in parameters.items() if name != "choices"}
    fitted = [
        MDNRegressor(**{**plain, **choice}).fit(rows.x, rows.y)
        for choice in parameters.get("choices", [{}])
    ]

    def held_out(model: MDNRegressor) -> float:
        return float(np.nanmean(np.asarray(model.oof_log_prob_)))

    return max(fitted, key=held_out)


def _portfolio(
    settings: Settings, rows: Problem, name: str, shared: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Fit every kind once, as often as a stack does; return the scores of all stacks."""
    repeats = choose_repeats(len(rows.y))
    table = Table(rows.x, rows.y[:, None])
    if shared["resolution"] is not None:
        table = table._replace(ends=round_ends(table.y, shared["resolution"]))
    fitted: dict[str, Any] = {}
    scores = {}
    for method, preset in settings.stacks.items():
        for kind in QUALITIES[preset]:
            if kind not in fitted:
                fitted[kind] = make_kind(kind, repeats=repeats, **shared).fit(rows.x, rows.y)
        kinds = [fitted[kind] for kind in QUALITIES[preset]]
        combined = combine(kinds, table, None, repeats)
        scores[method] = {
            **_scores(settings, combined.model, rows, name),
            "held_out_nll": rounded(combined.all_nll),
            "width": rounded(combined.width.factor),
            "weights": dict(zip(QUALITIES[preset], rounded(combined.weights, 3), strict=True)),
        }
    return scores


def _scores(settings: Settings, model: Model, rows: Problem, name: str) -> dict[str, Any]:
    """Return the scores of the test rows."""
    x, y = rows.x_test, rows.y_test[:, None]
    crps, depth = model.crps(x, y), np.abs(model.pit(x, y) - 0.5)
    measured = {
        "test_rows": len(y),
        "nll": -float(np.mean(model.log_prob(x, y))),
        "crps": float(np.mean(crps)),
        "rmse": float(np.sqrt(np.mean((model.mean(x) - y) ** 2))),
        "largest_crps": float(np.max(crps) / np.ptp(np.concatenate([rows.y, rows.y_test]))),
        **{f"coverage{level}": float(np.mean(depth <= level / 200)) for level in (50, 90, 99)},
    }
    bars = {"nll": settings.published_nll, "crps": settings.published_crps}
    against = {
        f"{score}_against_published": measured[score] - bar[name]
        for score, bar in bars.items()
        if name in bar
    }
    return {score: rounded(value) for score, value in {**measured, **against}.items()}
