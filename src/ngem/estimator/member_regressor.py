"""What estimators of several members share: folds, held-out rows, and what is kept of a fit."""

import abc
import os
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from ..ensemble import GuardFit, Rows, fit_guard
from ..families import AbstractFamily
from .automatic import choose_candidates, fit_best
from .density_regressor import DensityRegressor
from .diagnostics import diagnose
from .file_parts import FitInfo, fit_info
from .frames import are_given
from .interface import check_fitted
from .members import choose_held_out, others
from .model_file import Saved
from .observations import round_ends
from .pools import find_pools
from .prediction import Model
from .preprocessing import OneHot, Table, one_hot
from .schema import Schema
from .seeds import draw_seed, to_key
from .targets import TargetUnits


class MemberRegressor(DensityRegressor):
    """Averages the densities of members, each stopped by rows that it has not seen.

    Attributes:
        folds_: For each member, the rows that it held out, ascending; None in a loaded estimator.
        validation_rows_: All rows that some member held out, ascending; None in a loaded estimator.
        oof_log_prob_: Log density of each row from a member that had not seen it, in the user's
            units; NaN for rows that were never held out. None in a loaded estimator.
        history_: Train and validation likelihood of each member.
        diagnostics_: Plain numbers about the fit.
        fit_info_: Version of the library, date and seed of the fit.
        held_out_pit_: PIT of held-out rows, if `ngem fit` made this model: it calibrates intervals.
        family_reason_: Why `family="auto"` chose its family, one sentence; None otherwise.
    """

    family_reason_: str | None = None

    #: How many members hold each row out; a stack divides the rows more than once.
    _repeats: int = 1

    history_: dict[str, np.ndarray]
    diagnostics_: dict[str, Any]
    fit_info_: FitInfo
    held_out_pit_: np.ndarray | None
    folds_: list[np.ndarray] | None
    oof_log_prob_: np.ndarray | None

    @property
    def family_(self) -> str | tuple[str, ...]:
        """Distribution of the components, as `family` names it; one for each column if it does."""
        return self._fit_settings["family"]

    def _fit_auto(self, X: Any, y: Any, *rows: Any, upper: Any, truncation: Any = None) -> Any:
        """Become the estimator of the family that suits the targets best."""
        known = (upper, truncation, self.get_params(deep=False)["resolution"])
        has_intervals = any(part is not None for part in known)
        candidates = choose_candidates(X, y, has_intervals=has_intervals)
        best, reason = fit_best(self, candidates, X, y, *rows, upper=upper, truncation=truncation)
        own = self.get_params(deep=False)
        self.__dict__.update({k: value for k, value in vars(best).items() if k not in own})
        self.family_reason_ = reason
        return self

    @property
    def n_components_(self) -> int:
        """Components of the mixture of each member."""
        return self.model_.network.member_components

    @property
    def validation_rows_(self) -> np.ndarray | None:
        """All rows that some member held out, ascending; None in a loaded estimator."""
        return None if self.folds_ is None else np.unique(np.concatenate(self.folds_))

    def held_out_models(self) -> Iterator[tuple[np.ndarray, Model]]:
        """Yield rows, and the members that have not seen them, with the guard, as one model.

        Each row that was held out comes once. What the model predicts for it is what the estimator
        would have predicted had it not seen it, but for the other members.
        """
        check_fitted(self)
        if self.folds_ is None:
            raise ValueError(
                "the estimator must know which rows it held out, got one that was loaded from a "
                "file; fit it again, or judge it by new rows."
            )
        for rows, members in find_pools(self.folds_, self._repeats).groups():
            yield rows, self.model_.member(*members)

    def held_out_region_mass(
        self, X: Any, y: Any, n_samples: int = 1000, random_state: Any = None
    ) -> np.ndarray:
        """Return the mass of the smallest region that holds each row's targets, (rows,).

        Each row is judged by a member that has not seen it; NaN for rows that were never held out.
        For several target columns it is that of the joint region, estimated from samples.

        Args:
            X: Features of the rows that the estimator was fitted to.
            y: Their targets.
            n_samples: Samples per row for joint regions.
            random_state: Seed of these samples.
        """
        table, key = self._read_known(X, y), to_key(random_state)
        masses = np.full(len(table.x), np.nan)
        for rows, model in self.held_out_models():
            held_out = table.x[rows], table.y[rows]
            masses[rows] = (
                model.region_mass(*held_out)[:, 0]
                if self.n_outputs_ == 1
                else model.sampled_region_mass(*held_out, n_samples, key)
            )
        return masses

    def to_torch(self) -> Any:
        """Return the fitted model as a `torch.nn.Module` with the same predictions.

        It takes features in the user's units, missing values included, and returns logits, means
        and scales in the user's units; see `ngem.torch.MixtureDensityNetwork`. Needs PyTorch. Trees
        are refused.
        """
        from .to_torch import to_torch

        check_fitted(self)
        return to_torch(self.model_)

    def to_onnx(
        self,
        path: str | os.PathLike,
        *,
        quantiles: Any = (),
        cdf: bool = False,
        dtype: str = "float64",
    ) -> None:
        """Write the fitted model to one ONNX file, which predicts without Python or JAX.

        Its input `x` has any number of rows, with features in the user's units and NaN where a
        value is missing. All outputs are in the user's units: `mean` (rows, columns), and the
        mixture as `weights` (rows, components), `component_means` and `component_scales`. Needs
        the extra `onnx`. Trees are refused.

        Args:
            path: The file.
            quantiles: Probabilities of an output `quantiles`, (rows, probabilities, columns).
                They are exact to 1e-6 in probability.
            cdf: Whether there is a second input `y`, (rows, columns), and an output `cdf` with
                P(Y <= y) of each target column.
            dtype: Type of inputs and outputs, "float64" or "float32".
        """
        from .to_torch import write_onnx

        check_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        columns = None if names is None else [str(name) for name in names]
        if self.table_ is not None:
            columns = [column._asdict() for column in self.table_.features]
        write_onnx(
            path,
            self.model_,
            n_features=self.model_.inputs.n_features,
            quantiles=quantiles,
            cdf=cdf,
            dtype=dtype,
            notes={"features": columns},
        )

    def _hold_out(
        self,
        settings: dict[str, Any],
        sample_weight: Any,
        table: Table,
        watched: Table | None,
    ) -> tuple[int, list[np.ndarray], Table]:
        """Choose a seed, the rows that each member holds out, and the rows that members see."""
        seed = draw_seed(settings["random_state"])
        held_out = choose_held_out(
            settings,
            len(table.x),
            is_watched=watched is not None,
            seed=seed,
            repeats=self._repeats,
        )
        weights = np.asarray(sample_weight)
        kept = np.flatnonzero(weights) if weights.ndim else np.arange(len(table.x))
        self.folds_ = [kept[rows] for rows in held_out]
        # Several members see all rows between them, one by itself those that it does not hold out.
        seen = table if len(held_out) > 1 else table.take(others(len(table.x), held_out[0]))
        return seed, held_out, seen

    def _read_eval_set(self, eval_set: Any, n_outputs: int) -> Table:
        """Return the rows that the user wants to stop by."""
        if not isinstance(eval_set, tuple | list) or len(eval_set) not in (2, 3):
            raise ValueError(
                f"eval_set must be (X, y) or (X, y, upper), got {type(eval_set).__name__} of "
                "another form; pass eval_set=(X_val, y_val)."
            )
        x, y, *rest = eval_set
        upper = rest[0] if rest else None
        table = self._read_table(x, y, upper=upper, n_outputs=n_outputs, name="eval_set ")[0]
        return self._round(table)

    def _round(self, table: Table) -> Table:
        """Return rows whose targets are the intervals of values that round to them."""
        resolution = self.get_params(deep=False)["resolution"]
        if resolution is None:
            return table
        if table.ends is not None:
            raise ValueError(
                "resolution must be None where targets are intervals or missing, got "
                f"{resolution:g}; give the ends of rounded targets in y and upper instead."
            )
        return table._replace(ends=round_ends(table.y, float(resolution)))

    def _outliers(self, judged: GuardFit) -> list[int]:
        """Return the held-out rows that only the widest densities explain, ascending."""
        rows = np.concatenate(self.folds_ or [np.empty(0, int)])
        # Rows of the user's own to stop by have no number among these.
        surprising = judged.surprise > 0.5 if len(rows) else np.zeros(0, bool)
        return np.unique(rows[surprising]).tolist()

    def distill(self, X: Any, **settings: Any) -> Any:
        """Return one network, an `MDNRegressor`, that has learned what this model predicts.

        It is quicker and smaller, and can be exported. See `ngem.estimator.distill.distill`.

        Args:
            X: Features like those of the fit; no targets are needed.
            settings: `n_rows` to learn from, `random_state`, and parameters of `MDNRegressor`.
        """
        from .distill import distill  # it needs the networks' estimator, a subclass of this one

        return distill(self, X, **settings)

    def _keep_log_densities(
        self,
        n_rows: int,
        targets: TargetUnits,
        table: Table,
        held_out: Sequence[np.ndarray],
        own: Any,
    ) -> None:
        """Keep the log density of each held-out row; the mean density of rows held out twice.

        Args:
            n_rows: Rows that the user gave.
            targets: How targets become what members learn.
            table: The rows that count.
            held_out: Rows that each member held out, among those that count.
            own: Log density of each held-out row, in units of the networks.
        """
        places = np.concatenate(held_out)
        log_density = own
        if len(places):
            resolution = self.get_params(deep=False)["resolution"]
            log_density = own - targets.log_units(table.take(places), resolution)
        rows = np.concatenate(self.folds_ or [np.empty(0, int)])
        total = np.full(n_rows, -np.inf)
        if len(rows):
            np.logaddexp.at(total, rows, log_density)
        times = np.bincount(rows, minlength=n_rows)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.oof_log_prob_ = np.where(times > 0, total - np.log(times), np.nan)

    def _diagnose(
        self,
        model: Model,
        targets: TargetUnits,
        table: Table,
        judged: GuardFit,
        held_out: Sequence[np.ndarray],
        seen: Table,
        watched: Table | None,
    ) -> dict[str, Any]:
        """Return the diagnostics that all estimators have."""
        validation = np.unique(np.concatenate(held_out)) if watched is None else watched.y
        return {
            **diagnose(model, targets, table, judged),
            "outlier_rows": self._outliers(judged),
            "training_rows": len(seen.x),
            "validation_rows": len(validation),
        }

    def _keep(
        self,
        model: Model,
        *,
        settings: dict,
        targets: TargetUnits | None = None,
        target_ndim: int,
        best: np.ndarray,
        diagnostics: dict,
        history: dict,
    ) -> Any:
        """Become a fitted estimator."""
        self.model_ = model
        self._targets = targets
        self._fit_settings = settings
        self.fit_info_ = fit_info(settings["random_state"])
        self.held_out_pit_ = None
        self.target_ndim_ = target_ndim
        self.n_outputs_ = model.network.dim
        self.history_ = history
        self.diagnostics_ = diagnostics
        self._keep_best(best)
        return self

    def _to_saved(self) -> Saved:
        """Return everything that a model file holds."""
        check_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        return Saved(
            settings=self._fit_settings,
            model=self.model_,
            targets=cast(TargetUnits, self._targets),
            feature_names=None if names is None else [str(name) for name in names],
            target_ndim=self.target_ndim_,
            history=self.history_,
            best_epochs=self._best,
            diagnostics=self.diagnostics_,
            table=self.table_,
            fit_info=self.fit_info_,
            held_out_pit=self.held_out_pit_,
        )

    @classmethod
    def _from_saved(cls, saved: Saved) -> Any:
        """Return the estimator that a model file holds."""
        self = cls(**saved.settings)
        self._know_columns(saved.table, saved.feature_names, saved.model.inputs.n_features)
        self._keep(
            saved.model,
            settings=saved.settings,
            targets=saved.targets,
            target_ndim=saved.target_ndim,
            best=saved.best_epochs,
            diagnostics=saved.diagnostics,
            history=saved.history,
        )
        self.fit_info_, self.held_out_pit_ = saved.fit_info, saved.held_out_pit
        self.folds_ = self.oof_log_prob_ = None
        return self

    def _know_columns(
        self, table: Schema | None, names: Sequence[str] | None, n_features: int
    ) -> None:
        """Know the columns that a model file tells of.

        Args:
            table: How the columns of a table become numbers, if the model was fitted to one.
            names: Names of the columns; None for those of an array.
            n_features: How many numbers there are.
        """
        self.table_ = table
        self.n_features_in_ = n_features if table is None else len(table.features)
        if names is None and table is not None and are_given(table.names):
            names = table.names  # files of version 0.1 name them in the table alone
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _one_hot(self) -> OneHot | None:
        """Return how codes of categories become inputs of networks."""
        return None if self.table_ is None else one_hot(self.table_.sizes, self.table_.widths)

    @property
    @abc.abstractmethod
    def _best(self) -> np.ndarray:
        """The epoch or round of each member whose state predicts."""

    @abc.abstractmethod
    def _keep_best(self, best: np.ndarray) -> None:
        """Keep the epoch or round of each member whose state predicts, and how many were run."""


def count_rows(table: Table, sample_weight: Any) -> int:
    """Return how many rows a fit was given, those with a weight of zero included."""
    weights = np.asarray(sample_weight)
    return len(weights) if weights.ndim else len(table.x)


def judge(
    family: AbstractFamily,
    rows: Table,
    held_out: Sequence[np.ndarray],
    watched: Table | None,
    densities: Sequence[np.ndarray],
    *,
    guard: bool,
    widest: np.ndarray | None = None,
) -> GuardFit:
    """Return the guard beside the members, and what held-out rows say of all together.

    Args:
        family: Distribution of the components.
        rows: All rows that some member has seen, as the guard reads them.
        held_out: Rows that each member held out.
        watched: Rows of the user's that stopped all members instead, or None.
        densities: Log density that each member gives to the rows that stopped it.
        guard: Whether the guard is wanted.
        widest: See `fit_guard`.
    """
    train = _counted(rows)
    if watched is None:
        judged_by = np.concatenate(held_out)
        counts, log_density = train.counts[judged_by], np.concatenate(densities)
    else:
        judged_by = _counted(watched)
        counts = judged_by.counts
        log_density = np.logaddexp.reduce(densities, axis=0) - np.log(len(densities))
    judged = fit_guard(family, train, judged_by, log_density, widest)
    return judged if guard else judged.without_guard(log_density, counts)


def without_guard(settings: dict[str, Any], table: Table, eval_set: Any) -> dict[str, Any]:
    """Return the parameters without a guard where targets were seen through a window.

    The guard's densities describe the targets that were seen, and the model all of them.
    """
    if table.window is None:
        return settings
    if eval_set is not None:
        raise ValueError(
            "eval_set must be None with truncation, got rows whose windows are not known; leave it "
            "out, and rows are held out with their windows."
        )
    return {**settings, "guard": False}


def _counted(rows: Table) -> Rows:
    counts = np.ones(len(rows.y)) if rows.weights is None else rows.weights
    return Rows(rows.x, rows.y, counts, rows.ends)


def histories(curves: Sequence[np.ndarray]) -> np.ndarray:
    """Return curves of different lengths as rows of one array, NaN after their ends."""
    padded = np.full((len(curves), max(map(len, curves))), np.nan)
    for row, curve in zip(padded, curves, strict=True):
        row[: len(curve)] = curve
    return padded
