"""What later answers of a model wait for: no compilation, and no second copy of the network."""

import contextlib
import pickle

import jax
import numpy as np
import pytest

from ngem import MDNRegressor
from ngem.estimator.prediction import Prepared

from .common import fitted

pytestmark = pytest.mark.trains

X, _ = np.random.default_rng(0).uniform(0.5, 2, (2, 700, 2))

#: Predictions, and the arguments that may change from call to call.
CALLS = {
    "predict": lambda model, x, n: model.predict(x, return_std=True),
    "quantiles": lambda model, x, n: model.predict_quantiles(x, np.linspace(0.1, 0.9, 4 * n)),
    "interval": lambda model, x, n: model.predict_interval(x, 0.5 + 0.01 * n),
    "sample": lambda model, x, n: model.sample(x, 256 + n, random_state=n),
    "log_prob": lambda model, x, n: model.log_prob(x, x[:, 0]),
    "cdf": lambda model, x, n: model.cdf(x, list(range(n))),
    "crps": lambda model, x, n: model.crps(x, x[:, 0]),
}


@contextlib.contextmanager
def compilations():
    """Count what JAX compiles."""
    counted = []

    def count(event, duration, **_):
        counted.extend([event] * event.endswith("backend_compile_duration"))

    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        yield counted
    finally:
        jax.monitoring.unregister_event_duration_listener(count)


@pytest.mark.parametrize("name", CALLS)
def test_another_batch_size_or_number_of_draws_compiles_nothing(name):
    model, call = fitted("one"), CALLS[name]
    for rows in (1, 100, 300):  # a size for few rows, for more and for many
        call(model, X[:rows], 1)
    with compilations() as counted:
        for rows, n in ((2, 3), (7, 2), (8, 5), (9, 7), (256, 4), (257, 6), (700, 8)):
            call(model, X[:rows], n)
    assert counted == []


def test_what_is_compiled_is_counted():
    with compilations() as counted:
        jax.jit(lambda x: x * 3.25 + 1.125)(np.ones(11))
    assert len(counted) >= 1


def test_a_pickle_holds_the_network_once():
    model = fitted("one")
    model.predict(X[:3])
    copy = pickle.loads(pickle.dumps(model))
    assert not any(isinstance(value, Prepared) for value in vars(copy.model_).values())
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert isinstance(copy, MDNRegressor)
