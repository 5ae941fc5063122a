"""Bad input: what was expected, what came, what to try."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
