"""What the estimator's defaults work out to."""

import pytest

from ngem import MDNRegressor, _defaults
from ngem.estimator.parameters import max_epochs, plan


@pytest.mark.parametrize(
    ("n_rows", "epochs", "patience"),
    [(5, 1000, 300), (900, 1000, 200), (7373, 172, 35), (10**6, 40, 8)],
)
def test_the_length_of_training_follows_from_the_rows(n_rows, epochs, patience):
    settings = MDNRegressor().get_params()
    assert max_epochs(settings, n_rows) == epochs
    # A fifth of the epochs, but at least 300 steps.
    assert plan(settings, n_rows).patience == patience


def test_what_the_user_asks_for_is_kept():
    settings = MDNRegressor(max_epochs=7, patience=3).get_params()
    assert max_epochs(settings, 10**6) == 7
    assert plan(settings, 10**6).patience == 3
    assert plan({**settings, "early_stopping": False}, 100).patience is None
    schedule = plan(settings, 100).resolved_objective.schedule
    assert schedule.numbers() == _defaults.POWER_SCHEDULE
    constant = plan({**settings, "power": 0.3}, 100).resolved_objective
    assert (constant.power, constant.schedule) == (0.3, None)
    assert plan({**settings, "objective": "nll"}, 100).resolved_objective.schedule is None
