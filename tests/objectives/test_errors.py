"""Bad input: what was expected, what came, what to try."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ngem

GOOD = {
    "logits": np.zeros((4, 3)),
    "mean": np.zeros((4, 3, 2)),
    "scale": np.ones((4, 3, 2)),
    "y": np.zeros((4, 2)),
}

BAD = {
    "flat y": ({"y": np.zeros(4)}, ValueError, r"y must have shape \(4, 2\), got \(4,\)"),
    "wrong columns": ({"y": np.zeros((4, 3))}, ValueError, "targets with 2 columns"),
    "wrong rows": ({"y": np.zeros((5, 2))}, ValueError, "one target per row"),
    "flat mean": ({"mean": np.zeros((4, 3))}, ValueError, r"mean\[\.\.\., None\]"),
    "other components": ({"mean": np.zeros((4, 2, 2))}, ValueError, "to fit logits"),
    "wrong scale": ({"scale": np.ones((4, 3))}, ValueError, "lower Cholesky factors"),
    "scalar logits": ({"logits": np.zeros(())}, ValueError, "at least one component"),
    "no components": (
        {"logits": np.zeros((4, 0)), "mean": np.zeros((4, 0, 2)), "scale": np.ones((4, 0, 2))},
        ValueError,
        "at least one component",
    ),
    "zero scale": ({"scale": np.zeros((4, 3, 2))}, ValueError, "positive everywhere.*softplus"),
    "negative scale": ({"scale": -np.ones((4, 3, 2))}, ValueError, "from -1.0 to -1.0"),
    "nan scale": ({"scale": np.full((4, 3, 2), np.nan)}, ValueError, "positive everywhere"),
    "upper factor": (
        {"scale": np.ones((4, 3, 2, 2))},
        ValueError,
        r"above the diagonal.*cholesky\(covariance\)",
    ),
    "empty batch": (
        {key: value[:0] for key, value in GOOD.items()},
        ValueError,
        "at least one row.*skip empty batches",
    ),
    "integer y": ({"y": np.zeros((4, 2), int)}, TypeError, r"got dtype int64; try y\.astype"),
    "complex mean": ({"mean": np.zeros((4, 3, 2), complex)}, TypeError, "mean must hold real"),
    "three axes": (
        {"mean": np.zeros((4, 3, 1)), "scale": np.ones((4, 3, 1)), "y": np.zeros((4, 1, 1))},
        ValueError,
        r"y must have shape \(4, 1\), got \(4, 1, 1\).*one target per row",
    ),
    "one row": ({"y": np.zeros((1, 2))}, ValueError, "one target per row"),
    "one target": ({"y": np.zeros(2)}, ValueError, "one target per row"),
    "no y": ({"y": None}, TypeError, "y must hold real floating-point numbers, got NoneType"),
    "text": ({"logits": "abc"}, TypeError, "logits must hold real floating-point numbers, got str"),
    "ragged mean": ({"mean": [[0.0], [0.0, 1.0]]}, TypeError, "mean must hold real"),
    "object scale": ({"scale": object()}, TypeError, "scale must hold real .* got object"),
    "text as weights": ({"weights": ["a"] * 4}, TypeError, "weights must hold real"),
    "mean at infinity": (
        {"mean": np.where(np.eye(4, 3)[..., None] > 0, np.inf, np.zeros(2))},
        ValueError,
        "mean must hold finite numbers, got values from 0.0 to inf",
    ),
    "infinite scale": ({"scale": np.full((4, 3, 2), np.inf)}, ValueError, "scale must hold finite"),
    "infinite weight": ({"weights": np.array([1, 1, 1, np.inf])}, ValueError, "must be finite"),
    "nan weight": ({"weights": np.array([1, 1, 1, np.nan])}, ValueError, "must be finite"),
    "weights shape": ({"weights": np.ones((4, 1))}, ValueError, "one entry per row"),
    "negative weights": ({"weights": -np.ones(4)}, ValueError, "non-negative"),
    "no weight": ({"weights": np.zeros(4)}, ValueError, "at least one positive"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("loss", [ngem.nll_loss, ngem.ngem_loss])
def test_bad_input_is_refused(loss, name):
    change, error, message = BAD[name]
    with pytest.raises(error, match=f"(?s){message}"):
        loss(**{**GOOD, **change})


@pytest.mark.parametrize("power", [-0.1, 1.5, float("nan")])
def test_power_outside_its_range_is_refused(power):
    with pytest.raises(ValueError, match="power must lie between 0 and 1, got"):
        ngem.ngem_loss(**GOOD, power=power)


@pytest.mark.parametrize("power", ["half", [0.1, "a"], object()])
def test_a_power_that_is_no_number_is_refused(power):
    with pytest.raises(TypeError, match="power must hold real floating-point numbers, got"):
        ngem.ngem_loss(**GOOD, power=power)


def test_a_power_for_each_row_is_refused():
    with pytest.raises(ValueError, match=r"power must be a number or an array of shape \(\), got"):
        ngem.ngem_loss(**GOOD, power=np.full(4, 0.5))


@pytest.mark.parametrize("power", [-0.1, 1.5, float("nan")])
def test_an_objective_refuses_a_power_outside_its_range(power):
    with pytest.raises(ValueError, match="power must lie between 0 and 1, got"):
        ngem.objectives.NGEM(power=power)


BAD_VALUES = {
    "a mean at infinity": ("mean", np.inf),
    "a scale at infinity": ("scale", np.inf),
    "a negative weight": ("weights", -1.0),
    "an infinite weight": ("weights", np.inf),
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_one_bad_value_under_jit_is_never_a_plausible_number(name):
    part, value = BAD_VALUES[name]
    arrays = {**GOOD, "weights": np.ones(4)}
    arrays[part] = arrays[part].copy()
    arrays[part].flat[0] = value
    assert np.isnan(jax.jit(ngem.ngem_loss)(**arrays))


@pytest.mark.parametrize("power", [5.0, -1.0, np.nan])
def test_a_bad_power_under_jit_is_never_a_plausible_number(power):
    def loss(mean, power):
        return ngem.ngem_loss(**{**GOOD, "mean": mean, "y": np.ones((4, 2))}, power=power)

    ask = jax.jit(jax.value_and_grad(loss))
    value, gradient = ask(GOOD["mean"], power)
    assert np.isnan(value)
    assert np.isnan(gradient).any()
    assert np.isfinite(ask(GOOD["mean"], 0.5)[0])


def test_a_flat_y_of_one_column_is_taken():
    column = {**GOOD, "mean": GOOD["mean"][..., :1], "scale": GOOD["scale"][..., :1]}
    y = np.arange(4.0)
    flat, full = (ngem.nll_loss(**{**column, "y": part}) for part in (y, y[:, None]))
    assert flat == full


def test_shapes_are_checked_under_jit_too():
    with pytest.raises(ValueError, match="one target per row"):
        jax.jit(ngem.ngem_loss)(**{**GOOD, "y": np.zeros((5, 2))})


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_a_bad_scale_under_jit_is_never_a_plausible_number(scale):
    arrays = {**GOOD, "scale": np.full((4, 3, 2), scale), "y": np.ones((4, 2))}
    assert not np.isfinite(jax.jit(ngem.ngem_loss)(**arrays))


def test_unknown_objective_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'nll', 'sgem', 'ngem'.*got 'gem'"):
        ngem.get_objective("gem")


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nglem_loss'"):
        _ = ngem.nglem_loss


def test_targets_of_lower_precision_are_promoted():
    value = ngem.nll_loss(**{**GOOD, "y": jnp.zeros((4, 2), jnp.float32)})
    assert value.dtype == jnp.float64


def test_ends_of_intervals_have_twice_the_columns():
    """The loss of an interval is minus the log of its probability, from scipy."""
    mean, scale = np.array([[0.0], [1.0], [-2.0]]), np.array([[1.0], [0.5], [2.0]])
    mixture = ngem.gaussian_mixture(np.zeros((3, 1)), mean[:, None], scale[:, None])
    ends = np.array([[-0.5, 0.5], [0.0, 3.0], [-3.0, 1.0]])
    law = stats.norm(mean[:, 0], scale[:, 0])
    expected = -np.log(law.cdf(ends[:, 1]) - law.cdf(ends[:, 0]))
    np.testing.assert_allclose(
        ngem.get_objective("nll").losses(mixture, jnp.asarray(ends)), expected, rtol=1e-6
    )
    with pytest.raises(ValueError, match=r"y must have shape \(3, 1\), got \(3, 3\)"):
        ngem.get_objective("nll").losses(mixture, jnp.zeros((3, 3)))
