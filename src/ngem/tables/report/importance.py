"""How much each column matters: what predictions lose if its values are shuffled among the rows."""

from typing import NamedTuple

import numpy as np

from ...estimator.prediction import Model
from ...estimator.schema import Schema
from .figures import Bar, Bars, number

#: Columns that a table lists at most.
_MOST_COLUMNS = 12


class Importance(NamedTuple):
    """What shuffled columns cost, the most important column first.

    Attributes:
        rises: Rise of the NLL of all targets for each column.
        error: Mean absolute error of the predicted means of each target, (dim,).
        errors: The same with a shuffled column, (dim,), for each column.
    """

    rises: dict[str, float]
    error: np.ndarray
    errors: dict[str, np.ndarray]


def importance_of(model: Model, x: np.ndarray, y: np.ndarray, schema: Schema) -> Importance:
    """Return how much worse a model predicts some rows without each of their columns."""
    order = np.random.default_rng(1).permutation(len(x))
    log_prob, error = _scores(model, x, y)
    rises, errors = {}, {}
    for name, inputs in schema.places.items():
        shuffled = x.copy()
        shuffled[:, inputs] = x[order][:, inputs]
        without, errors[name] = _scores(model, shuffled, y)
        rises[name] = log_prob - without
    return Importance(dict(sorted(rises.items(), key=lambda item: -item[1])), error, errors)


def _scores(model: Model, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the mean log density of some rows, and the mean absolute error of each target."""
    model, inputs = model.encoded(x)
    errors = np.mean(np.abs(model.mean(inputs) - y), axis=0)
    return float(np.mean(model.log_prob(inputs, y))), errors


def importance_bars(importance: Importance, name: str, target: int) -> Bars:
    """Return a table of the columns that matter most for a target, in its units."""
    rises = {
        column: float(errors[target] - importance.error[target])
        for column, errors in importance.errors.items()
    }
    listed = sorted(list(importance.rises)[:_MOST_COLUMNS], key=lambda column: -rises[column])
    longest = max((rises[column] for column in listed), default=0.0) or 1.0
    lines = [
        Bar(
            column,
            [_signed(rises[column]), _falls_to(importance.rises[column])],
            min(max(rises[column] / longest, 0.0), 1.0),
        )
        for column in listed
    ]
    title = (
        f"What a column is worth for {name}: predicted means are off by "
        f"{number(importance.error[target], 3)} on average, and by this much more if the column is "
        "shuffled among the rows"
    )
    header = ("column", f"more error, in units of {name}", "density at the true values falls to")
    return Bars(title, header, lines)


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else ''}{number(value, 3)}"


def _falls_to(rise: float) -> str:
    """Return the typical density without a column relative to the density with it, in words."""
    return "no less" if rise <= 0.005 else f"{100 * np.exp(-rise):.2g} %"
