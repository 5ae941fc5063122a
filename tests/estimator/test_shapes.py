"""What is no table of features or targets is refused: expected, got, try."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ngem import ConformalRegressor, DensityStack, MDNRegressor

X, Y = np.random.default_rng(0).normal(size=(2, 6, 2))

FILE = Path(__file__).parent / "files/gaussian_0_1.ngem"


@pytest.fixture(scope="module")
def loaded():
    return MDNRegressor.load(FILE)


@pytest.mark.parametrize(
    ("x", "y", "match"),
    [
        (None, Y, r"X must be .*\(rows, columns\), got None; check"),
        ("a.parquet", Y, "y must name the target columns of a stream, got ndarray; for example"),
        (X[None], Y, r"X must have two axes, .* got shape \(1, 6, 2\)\. Reshape .*reshape\(len"),
        (
            X[:, 0],
            Y,
            r"X must have two axes, .* got shape \(6,\)\. Reshape your data: X\[:, None\]",
        ),
        (3.0, Y, r"X must have two axes, .* got shape \(\)"),
        ([[1.0, 2.0], [3.0]], [1.0, 2.0], "X must be .* got rows of different lengths; give"),
        (pl.DataFrame(X).lazy(), Y, "y must name the target columns of a stream, got ndarray"),
        ((row for row in X), Y, "X must be .* got a generator; collect"),
        (X + 1j, Y, r"Complex data not supported: X must hold real .* got complex128; try X\.real"),
        (X, None, "requires y to be passed, but the target y is None: .* got None; give"),
        (X, "price", "y must be .* got 'price'; read"),
        (X, Y[:, :, None], r"y must have one or two axes, .* got shape \(6, 2, 1\); for several"),
        (X, 1.0, r"y must have one or two axes, .* got shape \(\)"),
        (X, Y[:4], "X and y must have equally many rows, got 6 and 4; check"),
        (pl.DataFrame(X), Y[:4], "X and y must have equally many rows, got 6 and 4; check"),
    ],
)
def test_features_and_targets_of_another_shape_are_refused(x, y, match):
    with pytest.raises(ValueError, match=match):
        MDNRegressor().fit(x, y)


@pytest.mark.parametrize(
    ("x", "match"),
    [
        (None, "X must be .* got None; check"),
        ("a.csv", r"X must be .* got 'a.csv'; read the file first"),
        (pl.DataFrame(X).lazy(), "X must be .* got a LazyFrame; collect"),
        (np.ones((2, 3, 1)), r"X must have two axes, .* got shape \(2, 3, 1\)"),
        (np.ones((2, 9)), r"X has 9 features, but MDNRegressor is expecting \d features .* order"),
    ],
)
def test_predictions_refuse_them_too(loaded, x, match):
    for name in ("predict", "predict_distribution", "predict_interval", "sample"):
        with pytest.raises(ValueError, match=match):
            getattr(loaded, name)(x)
    with pytest.raises(ValueError, match=match):
        loaded.predict_quantiles(x, 0.5)


def test_scores_refuse_targets_of_other_rows(loaded):
    x = np.ones((3, loaded.n_features_in_))
    for name in ("log_prob", "pit", "crps", "region_mass", "score"):
        with pytest.raises(ValueError, match="equally many rows, got 3 and 2; check"):
            getattr(loaded, name)(x, np.ones(2))
        with pytest.raises(ValueError, match="requires y to be passed"):
            getattr(loaded, name)(x, None)


@pytest.mark.parametrize("seed", ["a", -1, 2**40, 1.5])
def test_seeds_that_are_none_are_refused(loaded, seed):
    x = np.ones((3, loaded.n_features_in_))
    calls = [
        lambda: loaded.sample(x, 2, random_state=seed),
        lambda: loaded.pit(x, np.ones(3), random_state=seed),
        lambda: MDNRegressor(random_state=seed).fit(X, Y),
        lambda: DensityStack(random_state=seed).fit(X, Y),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"random_state must be None, an integer .* try"):
            call()


@pytest.mark.parametrize("seed", [None, "a", -1, 2**40, 1.5])
def test_seeds_of_conformal_regions_are_integers(loaded, seed):
    conformal = ConformalRegressor(loaded, random_state=seed)
    with pytest.raises(ValueError, match=r"random_state must be an integer .* try"):
        conformal.calibrate_held_out(np.ones((3, loaded.n_features_in_)), np.ones(3))


def test_scores_refuse_what_holds_no_numbers(loaded):
    """The number that a text spells would pass for a target or an end."""
    x, y = np.ones((3, loaded.n_features_in_)), np.ones(3)
    for bad in (print, ["1", "2", "3"], 1j * y):
        with pytest.raises((TypeError, ValueError), match=r"y must|Complex data|real numbers"):
            loaded.score(x, bad)
        with pytest.raises(TypeError, match="upper must hold real numbers, got"):
            loaded.log_prob(x, y, upper=bad)
        with pytest.raises(TypeError, match="sample_weight must hold real numbers, got"):
            loaded.score(x, y, sample_weight=bad)
        with pytest.raises(ValueError, match="t must be a number or one sequence of them, got"):
            loaded.cdf(x, bad)
    with pytest.raises(ValueError, match=r"X must have two axes, .* got shape \(\)"):
        loaded.predict(np)


@pytest.mark.parametrize("weights", ["a", [None] * 6, [np.nan] * 6])
def test_weights_that_are_no_numbers_are_refused(weights):
    with pytest.raises(
        ValueError, match="sample_weight must hold a finite number for each of the 6"
    ):
        MDNRegressor().fit(X, Y, sample_weight=weights)
