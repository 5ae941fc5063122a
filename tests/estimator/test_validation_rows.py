"""Which rows a fit held out."""

import numpy as np
import pytest

from ngem import MDNRegressor, training


class _Stop(Exception):
    pass


def held_out(monkeypatch, *arguments, **settings):
    """Return the validation rows of a fit that stops before the training."""

    def stop(*_, **__):
        raise _Stop

    monkeypatch.setattr(training, "fit", stop)
    estimator = MDNRegressor(
        **{"n_members": 1, "hidden_sizes": (2,), "random_state": 0, **settings}
    )
    with pytest.raises(_Stop):
        estimator.fit(*arguments)
    return estimator.validation_rows_


X = np.arange(40.0)[:, None]


def test_a_fraction_of_the_rows_is_held_out(monkeypatch):
    rows = held_out(monkeypatch, X, X[:, 0], validation_fraction=0.3)
    assert len(rows) == 12
    assert list(rows) == sorted(set(rows))
    assert set(rows) < set(range(40))


def test_rows_are_counted_as_given_although_some_have_no_weight(monkeypatch):
    weights = np.arange(40) % 2
    rows = held_out(monkeypatch, X, X[:, 0], weights, validation_fraction=0.6)
    assert len(rows) == 12
    assert np.all(weights[rows] == 1)


def test_no_rows_are_held_out_without_early_stopping_or_with_an_eval_set(monkeypatch):
    assert len(held_out(monkeypatch, X, X[:, 0], early_stopping=False)) == 0
    assert len(held_out(monkeypatch, X, X[:, 0], None, (X, X[:, 0]))) == 0


def test_members_hold_out_a_fold_each(monkeypatch):
    rows = held_out(monkeypatch, X, X[:, 0], n_members=3)
    assert list(rows) == list(range(40))
