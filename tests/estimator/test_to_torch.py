"""An estimator as a PyTorch module and as an ONNX file predicts what it did."""

import functools
import json
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone

from ngem import DensityStack, MDNRegressor, MixtureBoostingRegressor

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'ngem[torch]'")
import ngem.torch as ours  # noqa: E402
from ngem.estimator.encoding import encode  # noqa: E402

from ..cases import slow_but  # noqa: E402
from .common import mixed_table, tiny  # noqa: E402
from .test_compatibility import FILES  # noqa: E402

pytestmark = pytest.mark.trains

SETTINGS = {
    "defaults": {},
    "full covariance": {"covariance": "full"},
    "one scale": {"covariance": "spherical"},
    "one covariance": {"covariance": "tied"},
    "networks alone": {"guard": False},
    "one network alone": {"n_members": 1, "guard": False, "covariance": "full"},
    "one network": {"n_members": 1},
    "two networks each": {"separate_networks": True, "activation": "tanh"},
    "normalized layers": {"layer_norm": True, "activation": "silu", "dropout": 0.1, "n_bins": 4},
    "as it comes": {"scale_inputs": False, "scale_targets": False, "activation": "relu"},
    "most at once": {
        "covariance": "full",
        "layer_norm": True,
        "activation": "silu",
        "dropout": 0.1,
        "n_bins": 4,
        "input_limit": 1.0,
    },
}
#: The case of every change: one fit for all tests.
FAST = "most at once"

#: Settings that compile fastest.
ALONE = {"n_members": 1, "guard": False, "early_stopping": False, "hidden_sizes": ()}

#: Weights of networks, linear model and wide densities that let each of them show.
WEIGHTS = (0.5, 0.3, 0.15, 0.05)


@functools.cache
def case(name):
    """One of the settings above after a few steps; tests leave the estimator as it is."""
    return fitted(**SETTINGS[name])


def fitted(**settings):
    """An estimator after a few steps, on rows with gaps and targets far from zero."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 3)) * [1, 100, 0.01]
    y = np.stack([x[:, 0], 1e-3 * x[:, 1]], 1) + rng.standard_normal((200, 2)) * [1, 0.01]
    # Without a scale of their own, targets so far away have too few digits in single precision.
    y[:, 0] += 5e4 if settings.get("scale_targets", True) else 5
    x[rng.uniform(size=x.shape) < 0.1] = np.nan
    x[:, 0] = np.nan_to_num(x[:, 0])
    common = {"n_components": 3, "hidden_sizes": (8, 8), "max_epochs": 2, "missing": "impute"}
    model = MDNRegressor(
        **common | {"n_members": 2, "dropout": 0.0, "random_state": 0} | settings
    ).fit(x, y)
    if model.guard:
        weights = jnp.log(jnp.asarray(WEIGHTS, jnp.float32))
        network = eqx.tree_at(lambda tree: tree.guard.log_weights, model.model_.network, weights)
        model.model_ = replace(model.model_, network=network)
    return model, *with_rows_outside(x[:50], y[:50])


def with_rows_outside(x, y):
    """Append rows just outside the training range, far outside and beyond all bounds."""
    far = [x[:10] + np.array([2, 0, 0]), x[:10] * [10, 1, -10], x[:10] * 1e3, x[:2] * 1e20]
    return np.concatenate([x, *far]), np.concatenate([y, *[y[: len(part)] for part in far]])


@pytest.mark.parametrize("name", slow_but(SETTINGS, FAST))
def test_the_module_predicts_what_the_estimator_does(name):
    model, x, y = case(name)
    module = model.to_torch()
    assert not module.training
    expected = model.predict_distribution(x)
    with torch.no_grad():
        found = module(torch.tensor(x))
        mean = module.predict(torch.tensor(x))
    for left, right in zip(found, (expected.logits, *expected.components), strict=True):
        assert left.dtype == torch.float64
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean, model.predict(x), rtol=1e-5, atol=1e-6)
    log_prob = ours.distribution(*found).log_prob(torch.tensor(y))
    np.testing.assert_allclose(log_prob, model.log_prob(x, y), rtol=1e-4, atol=1e-3)
    with torch.no_grad():
        assert module(torch.tensor(x, dtype=torch.float32)).mean.dtype == torch.float32


@pytest.mark.slow
def test_the_module_can_be_trained_further():
    model, x, y = case(FAST)
    x, y = x[:50], y[:50]
    module = model.to_torch().train()
    guard = {name: array.clone() for name, array in module.guard.state_dict().items()}
    before = ours.ngem_loss(*module(torch.tensor(x)), torch.tensor(y))
    optimizer = torch.optim.Adam(module.parameters(), 1e-2)
    for _ in range(30):
        optimizer.zero_grad()
        loss = ours.ngem_loss(*module(torch.tensor(x)), torch.tensor(y))
        loss.backward()
        optimizer.step()
    assert loss < before - 0.05
    assert all(torch.equal(guard[name], part) for name, part in module.guard.state_dict().items())


def test_the_module_survives_a_file(tmp_path):
    model, x, _ = case(FAST)
    module = model.to_torch()
    other = fitted(**SETTINGS[FAST], random_state=1)[0].to_torch()
    torch.save(module.state_dict(), tmp_path / "weights.pt")
    other.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    with torch.no_grad():
        for left, right in zip(module(torch.tensor(x)), other(torch.tensor(x)), strict=True):
            assert torch.equal(left, right)


def test_what_cannot_be_converted_is_refused():
    with pytest.raises(ValueError, match="Gaussian components only, got family='logistic'"):
        MDNRegressor.load(FILES / "logistic_0_1.ngem").to_torch()
    body = lambda x: jnp.zeros(15, x.dtype) + x.sum()  # noqa: E731
    with pytest.raises(ValueError, match=r"only our own networks.*network=None"):
        fitted(network=body, init="random", **ALONE)[0].to_torch()
    module = case(FAST)[0].to_torch()
    with pytest.raises(ValueError, match=r"x must have shape \(rows, 3\), got \(3,\).*unsqueeze"):
        module(torch.zeros(3))


@functools.cache
def exported(name):
    """A module as a program of PyTorch for any number of rows."""
    model, x, _ = case(name)
    rows = torch.export.Dim("rows")
    return torch.export.export(
        model.to_torch(), (torch.tensor(x[:7]),), dynamic_shapes=({0: rows},)
    )


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.slow
def test_the_module_is_one_graph_for_any_number_of_rows(name):
    model, x, _ = case(name)
    module, x = model.to_torch(), torch.tensor(x)
    torch.compiler.reset()  # it recompiles one class of modules only a few times
    # Graph breaks show before the C++ compiler runs.
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    with torch.no_grad():
        for function in (exported(name).module(), compiled):
            torch.testing.assert_close(tuple(function(x)), tuple(module(x)))


@pytest.mark.parametrize("common", [None, 1])
@pytest.mark.slow
def test_a_module_reads_codes_of_categories(common):
    table, y = mixed_table()
    model = tiny(missing="impute", max_epochs=3, guard=True, n_members=2)
    model._common_categories = common  # as networks of a stack have it
    model.fit(table, y)
    x = encode(table, model.table_.features)
    assert x.shape[1] == 7  # a date is three numbers
    with torch.no_grad():
        found = model.to_torch().predict(torch.tensor(x))[:, 0]
    np.testing.assert_allclose(found, model.predict(table), rtol=1e-5, atol=1e-5)


def open_onnx(write, place):
    """Return a session of the file that a function writes, which is alone in its directory."""
    pytest.importorskip(
        "onnxscript", reason="onnxscript is not installed: pip install 'ngem[onnx]'"
    )
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    write(place)
    assert list(place.parent.iterdir()) == [place]
    return runtime.InferenceSession(place, providers=["CPUExecutionProvider"])


def run_onnx(session, **inputs):
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.slow
def test_an_onnx_file_predicts_what_the_estimator_does(name, tmp_path):
    model, x, y = case(name)
    levels = [0.01, 0.5, 0.9]
    session = open_onnx(
        lambda place: model.to_onnx(place, quantiles=levels, cdf=True), tmp_path / "model.onnx"
    )
    assert json.loads(session.get_modelmeta().custom_metadata_map["quantiles"]) == levels
    for rows in (1, len(x)):
        found = run_onnx(session, x=x[:rows], y=y[:rows])
        mixture = model.predict_distribution(x[:rows])
        expected = {
            "mean": model.predict(x[:rows]),
            "weights": mixture.weights,
            "component_means": mixture.components.mean,
            "component_scales": mixture.components.scale,
        }
        for output, values in expected.items():
            np.testing.assert_allclose(found[output], values, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found["cdf"], model.pit(x[:rows], y[:rows]), atol=1e-5)
        # Where the density is low a quantile may be off by more than its probability is. In the
        # last 12 rows, networks alone have components as narrow as the spacing of single floats.
        near = slice(rows if model.guard else min(rows, len(x) - 12))
        reached = [model.pit(x[near], found["quantiles"][near, index]) for index in range(3)]
        for level, probability in zip(levels, reached, strict=True):
            np.testing.assert_allclose(probability[..., 0], level, atol=1e-5)


@pytest.mark.slow  # the test above writes such a file too
def test_an_onnx_file_of_a_stack_without_trees(tmp_path):
    x, y = np.random.default_rng(0).standard_normal((2, 60, 1))
    small = MDNRegressor(2, hidden_sizes=(4,), max_epochs=2, dropout=0.0, missing="impute")
    kinds = [("one", small), ("two", clone(small).set_params(n_components=1))]
    stack = DensityStack(kinds, n_members=2, random_state=0).fit(x, y[:, 0])
    with torch.no_grad():
        np.testing.assert_allclose(
            stack.to_torch().predict(torch.tensor(x))[:, 0], stack.predict(x), rtol=1e-5, atol=1e-6
        )
    write = functools.partial(stack.to_onnx, dtype="float32")
    found = run_onnx(open_onnx(write, tmp_path / "a.onnx"), x=x.astype(np.float32))
    assert set(found) == {"mean", "weights", "component_means", "component_scales"}
    np.testing.assert_allclose(found["mean"][:, 0], stack.predict(x), rtol=1e-4, atol=1e-5)
    assert found["mean"].dtype == np.float32


@pytest.mark.slow
def test_what_cannot_become_an_onnx_file_is_refused(tmp_path):
    model = case("full covariance")[0]
    with pytest.raises(ValueError, match=r"dtype must be one of 'float64', 'float32', got 'int8'"):
        model.to_onnx(tmp_path / "a.onnx", dtype="int8")
    with pytest.raises(ValueError, match=r"quantiles must be .* both excluded, got \[0, 1\]"):
        model.to_onnx(tmp_path / "a.onnx", quantiles=[0, 1])
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    x, y = np.random.default_rng(0).standard_normal((2, 60, 1))
    trees = MixtureBoostingRegressor(1, n_members=2, max_rounds=1).fit(x, y[:, 0])
    with pytest.raises(ValueError, match=r"got boosted trees; fit an MDNRegressor"):
        trees.to_onnx(tmp_path / "a.onnx")
    assert not list(tmp_path.iterdir())
