"""An estimator of the user's own as one kind of a stack."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from ..boosting import Outputs, tree_predictor
from ..families import DiagonalGaussian
from ..mixture import Mixture
from .interface import cloned
from .member_regressor import MemberRegressor, count_rows, judge
from .members import others, standardized
from .preprocessing import OneHot, Scaling, Table, fit_inputs
from .targets import fit_targets, make_model

#: What an estimator of the user's own must have.
METHODS = ("fit", "predict_distribution", "get_params")


def is_density_estimator(value: Any) -> bool:
    """Return whether an object can be a kind of a stack."""
    return not isinstance(value, type) and all(hasattr(value, name) for name in METHODS)


@dataclass(frozen=True)
class ForeignInputs:
    """From features to raw outputs: the densities that fitted estimators predict.

    Attributes:
        members: Fitted estimators.
        targets: Units of the raw outputs.
        family: Distribution of the components.
        n_features: Number of features.
        one_hot: How codes of categories become what the estimators read; None if there are none.
    """

    members: tuple[Any, ...]
    targets: Scaling
    family: DiagonalGaussian
    n_features: int
    one_hot: OneHot | None = None

    def forward(self, x: np.ndarray) -> Float[np.ndarray, "batch inputs"]:
        """Return the raw outputs of each member, in single precision."""
        read = x if self.one_hot is None else self.one_hot.forward(x)
        return np.concatenate([self._raw(member, read) for member in self.members], axis=1)

    def _raw(self, member: Any, x: np.ndarray) -> np.ndarray:
        mixture = read_mixture(member, x, len(self.targets.scale))
        mean, scale = mixture.components
        params = type(mixture.components)(
            (np.asarray(mean, float) - self.targets.location) / self.targets.scale,
            np.asarray(scale, float) / self.targets.scale,
        )
        raw = np.asarray(jax.vmap(jax.vmap(self.family.unconstrain))(params))
        logits = np.asarray(mixture.log_weights)
        return np.concatenate([logits, raw.reshape(len(x), -1)], axis=1).astype(np.float32)


def read_mixture(member: Any, x: np.ndarray, dim: int) -> Mixture:
    """Return what an estimator predicts, refusing what is not a finite Gaussian mixture."""
    mixture, name = member.predict_distribution(x), type(member).__name__
    known = isinstance(mixture, Mixture) and isinstance(mixture.family, DiagonalGaussian)
    if not known or mixture.batch_shape != (len(x),) or mixture.dim != dim:
        raise ValueError(
            f"predict_distribution of {name} must return an ngem.Mixture of Gaussians with "
            f"{len(x)} rows and {dim} target columns, got {_describe(mixture)}; make one with "
            "ngem.gaussian_mixture(logits, mean, scale)."
        )
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(mixture)):
        raise ValueError(
            f"predict_distribution of {name} must be finite, got NaN or infinity; check its "
            "features and scales."
        )
    return mixture


def _describe(value: Any) -> str:
    if not isinstance(value, Mixture):
        return type(value).__name__
    family = type(value.family).__name__
    return f"{family} with rows {value.batch_shape} and {value.dim} columns"


class FoldedRegressor(MemberRegressor):
    """Fits an estimator of the user's own once for each fold, and averages the densities.

    Args:
        estimator: Has `fit(X, y)`, `predict_distribution(X)`, which returns a Gaussian `Mixture` in
            the units of y, and scikit-learn's `get_params`.
        n_members: Folds.
        resolution: Must be None: only our own kinds learn from rounded targets.
        random_state: Seed of the folds.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_members: Any = 5,
        resolution: Any = None,
        random_state: Any = None,
    ):
        self.estimator = estimator
        self.n_members = n_members
        self.resolution = resolution
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, upper: Any = None
    ) -> "FoldedRegressor":
        """Fit the estimator to all rows but those of each fold in turn."""
        if upper is not None or self.resolution is not None:
            raise ValueError(
                f"{type(self.estimator).__name__} must have targets that are known, got rounded or "
                "censored ones; leave it out of the stack."
            )
        settings = {**self.get_params(deep=False), "early_stopping": True}
        table, target_ndim = self._read_table(X, y, sample_weight)
        _, held_out, seen = self._hold_out(settings, sample_weight, table, None)
        targets = fit_targets(DiagonalGaussian(scale_floor=0.0), seen)
        members = tuple(
            self._fit_member(table.take(others(len(table.y), rows)), target_ndim)
            for rows in held_out
        )
        first = read_mixture(members[0], self._read_by_members(table.x[:1]), table.y.shape[1])
        family = DiagonalGaussian(scale_floor=0.0)
        outputs = Outputs(first.n_components, first.dim, family)
        network = tree_predictor(outputs, len(members), 0, None)
        inputs = ForeignInputs(members, targets.scaling, family, table.x.shape[1], self._one_hot())
        model = make_model(targets, network, inputs, None)
        densities = [
            model.member(index).log_prob(table.x[rows], table.y[rows]) + targets.scaling.log_volume
            for index, rows in enumerate(held_out)
        ]
        plain = fit_inputs(table.x, table.weights, one_hot=self._one_hot())
        rows = standardized(plain, targets, table)
        judged = judge(outputs.family, rows, held_out, None, densities, guard=False)
        n_rows = count_rows(table, sample_weight)
        self._keep_log_densities(n_rows, targets, table, held_out, judged.log_density)
        return self._keep(
            model,
            settings=settings,
            target_ndim=target_ndim,
            best=np.zeros(0, int),
            diagnostics=self._diagnose(model, targets, table, judged, held_out, seen, None),
            history={},
        )

    def _fit_member(self, table: Table, target_ndim: int) -> Any:
        y = table.y[:, 0] if target_ndim == 1 else table.y
        weights = {} if table.weights is None else {"sample_weight": table.weights}
        estimator: Any = cloned(self.estimator)
        return estimator.fit(self._read_by_members(table.x), y, **weights)

    def _read_by_members(self, x: np.ndarray) -> np.ndarray:
        """Return features as the estimators read them: an input for each category."""
        one_hot = self._one_hot()
        return x if one_hot is None else one_hot.forward(x)

    @property
    def _takes_gaps(self) -> bool:
        return True

    @property
    def _best(self) -> np.ndarray:
        return np.zeros(0, int)

    def _keep_best(self, best: np.ndarray) -> None:
        del best
