"""The guard of trained networks, against refits one row at a time and against scipy."""

import itertools

import numpy as np
import pytest
from scipy import special
from sklearn.linear_model import Ridge

from ngem.ensemble import Rows, fit_guard
from ngem.families import DiagonalGaussian
from ngem.nn import WIDTHS

from .. import oracles
from ..cases import FAMILIES, LOCATION_SCALE, families_but_slow, slow_but

PENALTIES = [10.0**power for power in range(-3, 5)]


def random_rows(n_rows=40, n_features=3, dim=2, *, weighted=False, seed=0):
    """Return rows with linear means, and log densities that networks might give them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n_rows, n_features))
    y = x[:, :1] * np.linspace(0.5, 1, dim) + 0.5 * rng.standard_normal((n_rows, dim))
    counts = rng.uniform(0.2, 3, n_rows) if weighted else np.ones(n_rows)
    return Rows(x, y, counts), rng.normal(-1.5, 1, n_rows)


def left_out_errors(rows, penalty):
    """Return the error of each row under a model that is fitted without it."""
    errors = []
    for row in range(len(rows.y)):
        x, y, counts = (np.delete(part, row, axis=0) for part in rows[:3])
        model = Ridge(penalty).fit(x, y, counts)
        errors.append(rows.y[row] - model.predict(rows.x[row : row + 1]).reshape(-1))
    return np.array(errors)


def widened(variance, n_rows):
    """Return the variance of a prediction from so many rows, as a Student-t distribution's."""
    return variance * (n_rows + 1) / (n_rows - 3)


def best_linear(rows):
    """Return penalty and errors that are smallest when each row is left out."""
    errors = {penalty: left_out_errors(rows, penalty) for penalty in PENALTIES}
    return min(errors.items(), key=lambda pair: (rows.counts @ pair[1] ** 2).sum())


@pytest.mark.parametrize("weighted", slow_but([False, True], True))
@pytest.mark.parametrize("shape", [(40, 3, 2), (40, 3, 1), (12, 20, 2)], ids=str)
def test_the_linear_model_is_the_best_on_rows_left_out(shape, weighted):
    rows, log_density = random_rows(*shape, weighted=weighted)
    guard = fit_guard(DiagonalGaussian(), rows, np.arange(len(rows.y)), log_density).guard
    penalty, errors = best_linear(rows)
    model = Ridge(penalty).fit(rows.x, rows.y, rows.counts)
    np.testing.assert_allclose(guard.slope, np.atleast_2d(model.coef_), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(guard.intercept, np.ravel(model.intercept_), rtol=1e-4, atol=1e-6)
    noise = np.average(errors**2, axis=0, weights=rows.counts)
    np.testing.assert_allclose(guard.noise, widened(noise, len(rows.y)), rtol=1e-5)


def test_wide_densities_and_bounds_come_from_the_targets():
    rows, log_density = random_rows(weighted=True)
    guard = fit_guard(DiagonalGaussian(), rows, np.arange(40), log_density).guard
    center = np.average(rows.y, axis=0, weights=rows.counts)
    variance = widened(np.average((rows.y - center) ** 2, axis=0, weights=rows.counts), 40)
    np.testing.assert_allclose(guard.center, center, rtol=1e-5)
    np.testing.assert_allclose(guard.widths, np.outer(np.square(WIDTHS), variance), rtol=1e-5)
    assert np.all(np.asarray(guard.floor) < rows.y.min(axis=0))
    assert np.all(np.asarray(guard.ceiling) > rows.y.max(axis=0))
    np.testing.assert_allclose(guard.low, rows.x.min(axis=0), rtol=1e-6)
    np.testing.assert_allclose(guard.high, rows.x.max(axis=0), rtol=1e-6)


# Weights do not meet the family, so those of one family are enough for every change.
@pytest.mark.parametrize(
    ("name", "weighted"),
    slow_but(
        [*itertools.product(LOCATION_SCALE, (False, True))], ("full", True), ("laplace", False)
    ),
)
def test_a_training_row_is_judged_by_densities_without_it(name, weighted):
    """Networks as given, the linear model and the mean of the targets without the row."""
    case = FAMILIES[name]
    rows, log_density = random_rows(weighted=weighted)
    held_out = np.array([3, 0, 17, 17, 39, *range(5, 15)])
    log_density = log_density[held_out]
    result = fit_guard(case.family, rows, held_out, log_density)
    errors = [best_linear(rows)[1]]
    for _ in WIDTHS:
        means = [
            np.average(np.delete(rows.y, row, 0), axis=0, weights=np.delete(rows.counts, row))
            for row in range(40)
        ]
        errors.append(rows.y - means)
    stds = np.sqrt([result.guard.noise, *result.guard.widths])
    unit = case.standard().std()
    simple = [
        case.standard(0, std / unit).logpdf(error[held_out]).sum(1)
        for error, std in zip(errors, stds, strict=True)
    ]
    check_mixture(result, np.column_stack([log_density, *simple]), rows.counts[held_out])


def check_mixture(result, joint, counts):
    """Compare what was reported with a mixture of these log densities."""
    weights = np.exp(np.asarray(result.guard.log_weights, float))
    assert weights.sum() == pytest.approx(1, abs=1e-6)
    expected = special.logsumexp(joint, b=weights, axis=1)
    np.testing.assert_allclose(result.log_density, expected, rtol=1e-4, atol=1e-4)
    assert result.networks == pytest.approx(np.average(expected, weights=counts), abs=1e-4)
    resp = special.softmax(joint + np.log(weights), axis=1)
    np.testing.assert_allclose(result.surprise, resp[:, 3:].sum(1), atol=1e-4)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_other_rows_are_judged_by_the_guard_itself(weighted):
    train, _ = random_rows()
    held_out, log_density = random_rows(25, weighted=weighted, seed=1)
    held_out.x[:5] *= 10  # outside
    result = fit_guard(DiagonalGaussian(), train, held_out, log_density)
    guard = {name: np.asarray(array, float) for name, array in vars(result.guard).items()}
    guard["stds"] = np.sqrt([guard["noise"], *guard["widths"]])
    joint = [log_density]
    for kind in range(3):
        # Clipped features lie inside: no weight has moved.
        alone = guard | {"log_weights": np.log(np.eye(4)[kind + 1] + 1e-300)}
        wide = alone | {"low": np.full(3, -np.inf), "high": np.full(3, np.inf)}
        joint.append(
            [
                np.log(oracles.guarded_density(wide, [], oracles.clipped(guard, x), y))
                for x, y in zip(held_out.x, held_out.y, strict=True)
            ]
        )
    check_mixture(result, np.column_stack(joint), held_out.counts)


def test_what_explains_the_rows_gets_the_weight():
    rows, _ = random_rows(200)
    for quality, low, high in ((5.0, 0.95, 1.0), (-20.0, 0.0, 0.05), (-2000.0, 0.0, 0.05)):
        result = fit_guard(DiagonalGaussian(), rows, np.arange(200), np.full(200, quality))
        assert low <= np.exp(result.guard.log_weights[0]) <= high
        assert np.all(np.isfinite(result.guard.log_weights))  # a model file refuses others
        assert result.linear > result.gaussian
    assert result.log_density.min() > -20  # an outlier of the networks


def test_a_surprising_target_is_found():
    rows, log_density = random_rows(200, dim=1)
    rows.y[7], log_density[7] = 8.0, -500.0
    result = fit_guard(DiagonalGaussian(), rows, np.arange(200), log_density)
    assert np.flatnonzero(result.surprise > 0.5).tolist() == [7]
    assert result.log_density[7] > -30


def test_a_row_without_weight_is_as_if_it_were_not_there():
    rows, log_density = random_rows(30, weighted=True)
    rows.counts[5:8] = 0
    kept = np.flatnonzero(rows.counts)
    fewer = Rows(*(part[kept] for part in rows[:3]))
    with_them = fit_guard(DiagonalGaussian(), rows, kept, log_density[kept])
    without = fit_guard(DiagonalGaussian(), fewer, np.arange(len(kept)), log_density[kept])
    for name in ("slope", "intercept", "center"):
        np.testing.assert_allclose(getattr(with_them.guard, name), getattr(without.guard, name))


def test_without_held_out_rows_the_networks_keep_most_of_the_weight():
    rows, _ = random_rows(20)
    result = fit_guard(DiagonalGaussian(), rows, np.empty(0, int), np.empty(0))
    assert np.exp(result.guard.log_weights[0]) > 0.9
    assert len(result.log_density) == 0
    assert np.isnan(result.networks)


@families_but_slow("full")
@pytest.mark.parametrize(
    "change",
    ["nothing", "five rows", "two rows", "constant targets", "constant feature", "far away"],
)
def test_degenerate_rows_give_finite_densities(case, change):
    rows, log_density = random_rows({"five rows": 5, "two rows": 2}.get(change, 30))
    if change == "constant targets":
        rows.y[:] = 0.3
    elif change == "constant feature":
        rows.x[:, 1] = 7.0
    elif change == "far away":
        rows.x[0], rows.y[0] = 1e12, 1e6
    result = fit_guard(case.family, rows, np.arange(len(rows.y)), log_density)
    arrays = {name: np.asarray(array) for name, array in vars(result.guard).items()}
    assert np.exp(arrays["log_weights"]).sum() == pytest.approx(1, abs=1e-6)
    assert all(np.all(np.isfinite(array)) for array in arrays.values())
    assert np.all(np.isfinite(result.log_density))
    assert np.all(np.isfinite([result.networks, result.linear, result.gaussian]))
    assert arrays["noise"].min() > 0
    assert arrays["widths"].min() > 0


@pytest.mark.parametrize("dim", [1, 2])
def test_few_rows_are_predicted_about_as_well_as_by_one_gaussian(dim):
    """Held-out densities of networks that overfit badly: the wide density carries the mixture."""
    for n_rows in (5, 10, 30):
        rows, _ = random_rows(n_rows, dim=dim)
        result = fit_guard(DiagonalGaussian(), rows, np.arange(n_rows), np.full(n_rows, -500.0))
        assert result.networks > result.gaussian - 0.2
