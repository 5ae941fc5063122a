"""Going on with a fitted model: `partial_fit`, `warm_start`, and drift of new rows."""

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ngem import MDNRegressor
from ngem.estimator.continued import DriftWarning, networks_of
from ngem.streams import Stream

from .common import branches

pytestmark = pytest.mark.trains

TINY = {
    "n_components": 2,
    "n_members": 1,
    "hidden_sizes": (8,),
    "batch_size": 32,
    "max_epochs": 60,
    "learning_rate": 1e-2,
    "random_state": 0,
}


def fitted(**settings):
    return MDNRegressor(**{**TINY, **settings}).fit(*branches(300))


def scales(model):
    return [*model.model_.inputs.scaling, *model._targets.scaling]


@pytest.mark.slow
def test_a_pass_over_new_rows_improves_them_and_leaves_the_scaling():
    model = fitted()
    before, x_y = scales(model), branches(600, seed=3)
    first = model.log_prob(*x_y).mean()
    expected = model.diagnostics_["training_rows"] + 600
    model.partial_fit(*x_y, n_epochs=20)
    assert model.log_prob(*x_y).mean() > first + 0.01
    for old, new in zip(before, scales(model), strict=True):
        np.testing.assert_array_equal(old, new)
    assert model.diagnostics_["training_rows"] == expected
    assert model.folds_ is None
    # Rows like those of the fit have not drifted.
    assert max(map(abs, model.drift_["feature_shift"].values())) < 0.3
    assert model.drift_["features_outside"] < 0.05


@pytest.mark.slow
def test_drift_is_measured_in_standard_deviations_and_warned_of():
    model = fitted(max_epochs=2)
    x, y = branches(200, seed=4)
    unit = branches(300)[0].std(axis=0)[0]
    words = r"the mean of x0 moved by \+3\.\d deviations.*rows have features outside the range"
    with pytest.warns(DriftWarning, match=words):
        model.partial_fit(x + np.array([3 * unit, 0.0]), y)
    assert model.drift_["rows"] == 200
    np.testing.assert_allclose(model.drift_["feature_shift"]["x0"], 3, atol=0.35)
    assert abs(model.drift_["target_shift"][0]) < 0.3
    assert model.drift_["features_outside"] > 0.5


@pytest.mark.slow
def test_the_range_grows_with_new_rows_and_a_file_keeps_all(tmp_path):
    model, (x, y) = fitted(), branches(200, seed=4)
    moved = x + np.array([3.0, 0.0])
    with pytest.warns(DriftWarning):
        model.partial_fit(moved, y)
    assert not model.predict(moved, return_outside=True)[1].any()
    model.save(tmp_path / "model")
    loaded = MDNRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))


@pytest.mark.slow
def test_a_warm_start_goes_on_from_the_networks():
    model = fitted(warm_start=True)
    first = [np.asarray(leaf) for leaf in jax.tree.leaves(networks_of(model.model_))]
    units = scales(model)
    model.set_params(max_epochs=1, learning_rate=1e-9).fit(*branches(300, seed=1))
    again = jax.tree.leaves(networks_of(model.model_))
    for old, new in zip(first, again, strict=True):
        np.testing.assert_allclose(old, new, atol=1e-6)
    for old, new in zip(units, scales(model), strict=True):
        np.testing.assert_array_equal(old, new)
    assert model.drift_["rows"] == 300
    model.set_params(warm_start=False).fit(*branches(300, seed=1))
    assert model.drift_ is None
    assert not np.array_equal(units[0], scales(model)[0])


def test_what_cannot_change_is_refused():
    model = fitted(warm_start=True, max_epochs=1)
    with pytest.raises(ValueError, match="n_members must stay 1 to go on with a fitted"):
        model.set_params(n_members=2).fit(*branches(300))
    with pytest.raises(ValueError, match="n_epochs must be a positive integer, got 0"):
        model.partial_fit(*branches(300), n_epochs=0)


@pytest.mark.slow
def test_a_fitted_model_goes_on_with_a_stream(tmp_path):
    x, y = branches(900, seed=5)
    rows = pa.table({"a": x[:, 0], "b": x[:, 1], "y": y})
    pq.write_table(rows, tmp_path / "new.parquet", row_group_size=100)
    names = rows.drop(["y"]).to_pandas()
    for window in (256 * 12, None):
        model = MDNRegressor(**TINY).fit(names[:300], y[:300])
        first = model.log_prob(names, y).mean()
        model.partial_fit(Stream(tmp_path / "new.parquet", "y", window=window), n_epochs=5)
        assert model.stream_info_["in_memory"] == (window is None)
        assert model.log_prob(names, y).mean() > first
        model.set_params(warm_start=True).fit(Stream(tmp_path / "new.parquet", "y", window=window))
        assert model.drift_["rows"] == 900
