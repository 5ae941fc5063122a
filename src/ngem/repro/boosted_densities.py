"""Other boosted densities: NGBoost, CatBoost, LightGBMLSS, and LightGBM's quantile regressions.

Each library is imported by the function that needs it. None of them is needed by the others.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ..boosting import import_lightgbm
from ..mixture import Mixture, gaussian_mixture

#: Rows of a leaf at least.
LEAST_ROWS = 10


class Job(NamedTuple):
    """Standardized rows for one fit, and how long it may last."""

    x: np.ndarray
    y: np.ndarray
    x_stop: np.ndarray
    y_stop: np.ndarray
    leaves: int
    max_rounds: int
    patience: int
    seed: int

    @property
    def depth(self) -> int:
        """Depth of a tree with as many leaves, rounded down."""
        return self.leaves.bit_length() - 1

    def tables(self) -> list[Any]:
        """Return LightGBM's tables for training and for stopping."""
        lightgbm = import_lightgbm()
        train = lightgbm.Dataset(self.x, self.y)
        return [train, lightgbm.Dataset(self.x_stop, self.y_stop, reference=train)]

    def lightgbm(self, **changes: Any) -> dict[str, Any]:
        """Return parameters of LightGBM's trees."""
        shape = {"num_leaves": self.leaves, "min_data_in_leaf": LEAST_ROWS, "num_threads": 1}
        return {**shape, "seed": self.seed, "verbosity": -1, **changes}

    def stop(self) -> list[Any]:
        """Return LightGBM's callback that stops early."""
        return [import_lightgbm().early_stopping(self.patience, verbose=False)]


#: From features to densities, in the units of a job.
Predict = Callable[[np.ndarray], Mixture]


def _ngboost(job: Job, *, learning_rate: float) -> Predict:
    """Return NGBoost's Normal, by natural gradients."""
    trees = import_module("sklearn.tree")
    model = import_module("ngboost").NGBRegressor(
        Base=trees.DecisionTreeRegressor(max_depth=job.depth, min_samples_leaf=LEAST_ROWS),
        n_estimators=job.max_rounds,
        learning_rate=learning_rate,
        random_state=job.seed,
        verbose=False,
    )
    model.fit(
        job.x,
        job.y,
        X_val=job.x_stop,
        Y_val=job.y_stop,
        early_stopping_rounds=job.patience,
    )
    best = int(np.argmin(model.evals_result["val"]["LOGSCORE"])) + 1

    def predict(x: np.ndarray) -> Mixture:
        params = model.pred_dist(x, max_iter=best).params
        return _gaussian(params["loc"], params["scale"])

    return predict


def _catboost(job: Job, *, learning_rate: float) -> Predict:
    """Return CatBoost's Normal, RMSEWithUncertainty."""
    model = (
        import_module("catboost")
        .CatBoostRegressor(
            loss_function="RMSEWithUncertainty",
            iterations=job.max_rounds,
            learning_rate=learning_rate,
            depth=job.depth,
            random_seed=job.seed,
            thread_count=1,
            verbose=False,
            allow_writing_files=False,
        )
        .fit(
            job.x,
            job.y,
            eval_set=(job.x_stop, job.y_stop),
            early_stopping_rounds=job.patience,
        )
    )

    def predict(x: np.ndarray) -> Mixture:
        mean, variance = model.predict(x).T
        return _gaussian(mean, np.sqrt(variance))

    return predict


def _lightgbmlss(
    job: Job,
    *,
    learning_rate: float,
    n_components: int,
    max_delta_step: float,
    **choices: Any,
) -> Predict:
    """Return LightGBMLSS's Normal or mixture of Normals.

    Args:
        job: What to fit.
        learning_rate: Fraction of each step that is taken.
        n_components: Components; one is its Normal.
        max_delta_step: Bound of a leaf's step; without it, mixtures diverge.
        **choices: Of its distribution, see `_lss_law`.
    """
    import_module("torch").set_num_threads(1)
    model = import_module("lightgbmlss.model").LightGBMLSS(_lss_law(n_components, **choices))
    train, stop = job.tables()
    model.train(
        job.lightgbm(learning_rate=learning_rate, max_delta_step=max_delta_step),
        train,
        num_boost_round=job.max_rounds,
        valid_sets=[stop],
        callbacks=job.stop(),
    )

    def predict(x: np.ndarray) -> Mixture:
        values = model.predict(x, pred_type="parameters").to_numpy()
        values = values.reshape(len(x), -1, n_components)
        mean, scale = values[:, 0], values[:, 1]
        weights = values[:, 2] if n_components > 1 else np.ones_like(mean)
        logits = np.log(np.maximum(weights, 1e-30))
        return gaussian_mixture(logits, mean[..., None], scale[..., None])

    return predict


def _lss_law(
    n_components: int, *, stabilization: str, initialize: bool, tau: float | None = None
) -> Any:
    """Return a distribution of LightGBMLSS.

    Args:
        n_components: Components; one is its Normal.
        stabilization: How gradients are scaled: "None", "L2" or "MAD".
        initialize: Whether it starts at the marginal distribution.
        tau: Temperature of the mixture's weights. The package adds fixed noise to their logits; a
            high temperature makes it small.
    """
    laws = "lightgbmlss.distributions"
    normal = import_module(f"{laws}.Gaussian").Gaussian
    if n_components == 1:
        return normal(stabilization=stabilization, initialize=initialize)
    mixture = import_module(f"{laws}.Mixture").Mixture
    one = normal(stabilization=stabilization)
    return mixture(one, M=n_components, tau=tau, initialize=initialize)


def _gaussian(mean: np.ndarray, scale: np.ndarray) -> Mixture:
    shape = (len(mean), 1, 1)
    return gaussian_mixture(np.zeros(shape[:2]), mean.reshape(shape), scale.reshape(shape))


#: Packages and a function that fits, by library.
DENSITIES: dict[str, tuple[tuple[str, ...], Callable[..., Predict]]] = {
    "ngboost": (("ngboost",), _ngboost),
    "catboost": (("catboost",), _catboost),
    "lightgbmlss": (("lightgbmlss", "pyro", "torch"), _lightgbmlss),
}


def fit_quantile(job: Job, level: float, *, learning_rate: float) -> Any:
    """Return LightGBM's own quantile regression at one level."""
    train, stop = job.tables()
    return import_lightgbm().train(
        job.lightgbm(learning_rate=learning_rate, objective="quantile", alpha=level),
        train,
        num_boost_round=job.max_rounds,
        valid_sets=[stop],
        callbacks=job.stop(),
    )


def sorted_quantiles(models: list[Any], x: np.ndarray) -> np.ndarray:
    """Return quantiles of each row, ascending: those of separate models can cross."""
    return np.sort(np.stack([model.predict(x) for model in models], axis=1), axis=1)
