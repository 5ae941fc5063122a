"""Tables of results beside the paper's figures.

Each table has the rows and columns of the paper's, so each has a function of its own. The figures
stand in the specs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .boosting_comparison import curvature_table, peers_table, strength_table
from .objective_comparison import objective_table
from .spec import Spec
from .statistics import root_rule, scores, standard_error
from .store import Results, Run

Table = list[list[str]]  # header first


def mean_std(values: Sequence[float | int] | np.ndarray, digits: int = 3) -> str:
    """Return mean and standard deviation over seeds, as the paper writes them."""
    numbers = np.array(values, float)
    return _pair((numbers.mean(), numbers.std()) if len(numbers) else None, digits)


def entropy_table(spec: Spec, results: Results) -> Table:
    """Return entropies on Two-Gaussians by objective and learning rate (Table 1)."""
    rates = spec.settings["learning_rates"]
    rows = [["objective", *(text for rate in rates for text in (f"{rate:g}", f"{rate:g}, paper"))]]
    for objective in spec.settings["objectives"]:
        row = [objective]
        for rate in rates:
            unit = {"objective": objective, "learning_rate": rate}
            row.append(mean_std(scores(results.select(**unit), "entropy")))
            row.append(_pair(spec.published("entropy", **unit)))
        rows.append(row)
    return rows


def entropy_and_nll_table(spec: Spec, results: Results) -> Table:
    """Return entropies and likelihoods on Two-Sinusoids by objective and rate (Table 2)."""
    rates = spec.settings["learning_rates"]
    headers = (text for rate in rates for text in (f"{rate:g}: entropy", "paper", "NLL"))
    rows = [["objective", *headers]]
    for objective in spec.settings["objectives"]:
        row = [objective]
        for rate in rates:
            unit = {"objective": objective, "learning_rate": rate}
            runs = results.select(**unit)
            row += [
                mean_std(scores(runs, "entropy")),
                _pair(spec.published("entropy", **unit)),
                mean_std(scores(runs, "nll"), 2),
            ]
        rows.append(row)
    return rows


def mnist_table(spec: Spec, results: Results) -> Table:
    """Return likelihoods and entropies on inverse MNIST by objective (Tables 3, 4 and 9)."""
    rows = [["objective", "train NLL", "test NLL", "paper", "entropy", "paper", "seeds"]]
    for objective in spec.settings["objectives"]:
        runs = results.select(objective=objective)
        rows.append(
            [
                objective,
                mean_std(scores(runs, "train_nll"), 1),
                mean_std(scores(runs, "test_nll"), 1),
                _pair(spec.published("test_nll", objective=objective), 1),
                mean_std(scores(runs, "entropy")),
                _pair(spec.published("entropy", objective=objective)),
                str(len(runs)),
            ]
        )
    return rows


def covariance_table(spec: Spec, results: Results) -> Table:
    """Return likelihoods, sizes and times on inverse MNIST by model."""
    rows = [["model", "train NLL", "test NLL", "parameters", "seconds", "entropy", "seeds"]]
    for model in spec.settings["models"]:
        runs = results.select(model=model)
        rows.append(
            [
                model,
                mean_std(scores(runs, "train_nll"), 1),
                mean_std(scores(runs, "test_nll"), 1),
                f"{runs[0]['parameters']:,}",
                mean_std(scores(runs, "cpu_seconds"), 0),
                mean_std(scores(runs, "entropy")),
                str(len(runs)),
            ]
        )
    return rows


#: Scores of Table 5 with their labels and digits.
_SCORES = {
    "nll": ("NLL", 2),
    "nearest_rmse": ("RMSE of the nearest component", 4),
    "rmse": ("RMSE of the mean", 4),
    "crps": ("CRPS", 4),
    "coverage90": ("coverage of 90% intervals", 3),
}

#: A network that predicts a mean only has no density to score.
_SCORES_OF_A_MEAN = ("nearest_rmse", "rmse")


def regression_table(spec: Spec, results: Results) -> Table:
    """Return test scores by optimizer, objective and data set (Table 5)."""
    names = list(spec.settings["datasets"])
    methods = [(o, q) for o in spec.settings["optimizers"] for q in spec.settings["objectives"]]
    methods += [("adam", objective) for objective in spec.settings["single"]]
    rows = [["score", "method", *(text for name in names for text in (name, "paper"))]]
    for score, (label, digits) in _SCORES.items():
        for optimizer, objective in methods:
            row = [label, f"{optimizer} + {objective}"]
            for name in names:
                unit = {"dataset": name, "optimizer": optimizer, "objective": objective}
                applies = objective != "mse" or score in _SCORES_OF_A_MEAN
                row.append(
                    _with_divergence(results.select(**unit), score, digits) if applies else "-"
                )
                row.append(_pair(spec.published(score, **unit), digits))
            rows.append(row)
    return rows


def wall_clock_table(spec: Spec, results: Results) -> Table:
    """Return seconds and their ratio to those of nll by objective and data set (Table 6)."""
    names = list(spec.settings["datasets"])
    headers = (text for name in names for text in (f"{name}, s", "paper, s", "ratio to nll"))
    rows = [["objective", *headers]]
    for objective in spec.settings["objectives"]:
        row = [objective]
        for name in names:
            runs = results.select(dataset=name)
            ratio = np.median(scores(runs, objective) / scores(runs, "nll"))
            row += [
                mean_std(scores(runs, objective), 2),
                _pair(spec.published(objective, dataset=name), 2),
                f"{ratio:.3f}",
            ]
        rows.append(row)
    return rows


def weights_table(spec: Spec, results: Results) -> Table:
    """Return learned weights beside the true ones and beside those of the listing's rule."""
    rows = [["task", "true weight", "objective", "learned weight", "mean error", "root rule"]]
    for task, settings in spec.settings.items():
        for weight in settings["weights"]:
            for objective in settings["objectives"]:
                runs = results.select(task=task, weight=weight, objective=objective)
                learned = scores(runs, "learned_weight")
                rows.append(
                    [
                        task,
                        f"{weight:g}",
                        objective,
                        mean_std(learned),
                        f"{np.mean(np.abs(learned - weight)):.3f}",
                        f"{root_rule(weight):.3f}",
                    ]
                )
    return rows


def uci_table(spec: Spec, results: Results) -> Table:
    """Return mean test scores with standard errors by data set and method."""
    rows = [["set", "method", "NLL", "RMSE", "CRPS", "50% intervals", "90% intervals", "splits"]]
    names = ("nll", "rmse", "crps", "coverage50", "coverage90")
    for name in spec.settings["datasets"]:
        for objective in spec.settings["objectives"]:
            runs = results.select(dataset=name, objective=objective)
            columns = [scores(runs, score) for score in names]
            cells = [f"{v.mean():.4g} ± {standard_error(v):.2g}" for v in columns]
            rows.append([name, objective, *cells, str(len(runs))])
    return rows


def families_table(spec: Spec, results: Results) -> Table:
    """Return mean test scores of each family by table."""
    rows = [["targets", "method", "NLL", "minus Gaussian's", "rounds"]]
    for name, table in spec.settings["tables"].items():
        base = scores(results.select(dataset=name, method="gaussian"), "nll")
        for method in ("gaussian", "family", "second", "ngboost", "lightgbmlss"):
            runs = results.select(dataset=name, method=method)
            if not runs or "absent" in runs[0]:
                continue
            nll = scores(runs, "nll")
            own = {
                "gaussian": "gaussian",
                "ngboost": f"NGBoost {table.get('ngboost')}",
                "lightgbmlss": f"LightGBMLSS {table.get('lightgbmlss')}",
            }
            rows.append(
                [
                    name,
                    own.get(method) or _family_name(table[method]),
                    f"{nll.mean():.3f}",
                    f"{(nll - base).mean():+.3f}",
                    f"{scores(runs, 'rounds').mean():.0f}",
                ]
            )
    return rows


def _family_name(family: str | list[str]) -> str:
    return family if isinstance(family, str) else ", ".join(family)


def densities_table(spec: Spec, results: Results) -> Table:
    """Return how well one Gaussian and the mixture fit (Fig. 1)."""
    (run,) = results.select()
    at_mean = run["density_at_mean"]
    return [
        ["density", "negative log-likelihood of its draws", "density at the shared mean"],
        ["mixture", f"{run['nll_mixture']:.3f}", f"{at_mean['mixture']:.4f}"],
        ["one Gaussian", f"{run['nll_gaussian']:.3f}", f"{at_mean['gaussian']:.4f}"],
    ]


def _pair(pair: tuple[float, float] | None, digits: int = 3) -> str:
    return "-" if pair is None else f"{pair[0]:.{digits}f} ± {pair[1]:.{digits}f}"


def _with_divergence(runs: list[Run], score: str, digits: int) -> str:
    """Return mean and standard deviation of the runs that ended, and how many diverged."""
    ended = [run[score] for run in runs if "diverged" not in run]
    n_diverged = len(runs) - len(ended)
    note = f" ({n_diverged} of {len(runs)} diverged)" if n_diverged else ""
    return mean_std(ended, digits) + note


TABLES: dict[str, Callable[[Spec, Results], Any]] = {
    "boosting": curvature_table,
    "boosting_peers": peers_table,
    "families": families_table,
    "families_more": families_table,
    "fig1": densities_table,
    "low_rank": covariance_table,
    "objectives": objective_table,
    "pruning": objective_table,
    "strength": strength_table,
    "table1": entropy_table,
    "table2": entropy_and_nll_table,
    "table3": mnist_table,
    "table4": mnist_table,
    "table5": regression_table,
    "table6": wall_clock_table,
    "table9": mnist_table,
    "uci": uci_table,
    "weights": weights_table,
}
