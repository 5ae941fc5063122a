"""Tables of the studies of boosted mixtures and stacks, beside other methods."""

from collections.abc import Sequence

import numpy as np

from .boosting_study import CHOSEN, NGEM
from .spec import Spec
from .statistics import scores, standard_error
from .store import Results, Run

Table = list[list[str]]  # header first


def curvature_table(spec: Spec, results: Results) -> Table:
    """Return the mean test NLL with its standard error by set, K and curvature.

    A row where K is chosen by held-out rows has the choice between both kinds of Fisher information
    too.
    """
    kinds = list(spec.settings["curvatures"])
    has_choice = set(NGEM) <= set(kinds)
    rows = [["set", "K", *kinds, *(["fisher or em"] if has_choice else []), "splits"]]
    for name, one in spec.settings["datasets"].items():
        counts = one["components"]
        for count in [*sorted(counts), *([CHOSEN] if len(counts) > 1 else [])]:
            unit = {"dataset": name, "components": count}
            shown = [*kinds, *(["ngem"] if has_choice else [])]
            cells = [_cell(results.select(**unit, curvature=kind), "nll") for kind in shown]
            n_splits = len(results.select(**unit, curvature=kinds[0]))
            rows.append([name, str(count), *cells, str(n_splits)])
    return rows


def peers_table(spec: Spec, results: Results) -> Table:
    """Return mean test scores with standard errors by set and method."""
    rows = [["set", "method", "NLL", "CRPS", "CRPS of ten quantiles", "splits"]]
    for name in spec.settings["datasets"]:
        for method in spec.settings["methods"]:
            runs = results.select(dataset=name, method=method)
            if not runs:  # left out by the spec
                continue
            cells = [_cell(runs, score) for score in ("nll", "crps", "quantile_crps")]
            rows.append([name, method, *cells, str(len(runs))])
    return rows


def strength_table(spec: Spec, results: Results) -> Table:
    """Return mean test scores with standard errors by data set and method."""
    names = ("nll", "crps", "rmse", "coverage50", "coverage90", "coverage99")
    rows = [["set", "method", "NLL", "CRPS", "RMSE", "50%", "90%", "99% intervals", "splits"]]
    kinds = ("stacks", "single", "networks", "peers")
    methods = [method for kind in kinds for method in spec.settings[kind]]
    for name in spec.settings["datasets"]:
        for method in methods:
            runs = results.select(dataset=name, method=method)
            cells = [_cell(runs, score) for score in names]
            rows.append([name, method, *cells, str(len(runs))])
    return rows


def _cell(runs: Sequence[Run], score: str) -> str:
    """Return mean and standard error, or why there are none."""
    if runs and "absent" in runs[0]:
        return "not installed"
    if not runs or any(score not in run for run in runs):
        return "-"
    values = scores(runs, score)
    error = f" ± {standard_error(values):.2g}" if len(values) > 1 else ""
    return f"{np.mean(values):.4g}{error}"
