"""The estimator: a mixture density network behind scikit-learn's interface."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, check_is_fitted

from ..ensemble import GuardFit, Rows, fit_guard
from ..nn import average
from ..training.callbacks import ProgressBar
from . import model_file, parameters
from .density_regressor import DensityRegressor, to_key
from .diagnostics import diagnose
from .members import Job, Member, choose_held_out, others, standardized, train_members
from .prediction import Model
from .preprocessing import Table, fit_inputs, fit_scaling, no_scaling
from .schema import Schema


class MDNRegressor(DensityRegressor):
    """Predicts a distribution: a neural network whose output is a mixture for each row.

    Features and targets are standardized inside; everything that goes in or comes out is in the
    user's units. Training and predicting run in single precision, the change of units in double.

    Args:
        n_components: Components of the mixture of each network; None is 20 for
            several targets of at least 1,000 rows, else 5.
        n_members: Networks whose densities are averaged. The rows are divided into as many folds,
            and each network holds out one of them to stop by: all rows train, and every row is
            held out once. They train side by side on all cores.
        hidden_sizes: Widths of the hidden layers.
        activation: "gelu", "relu", "silu" or "tanh".
        family: Distribution of the components: "gaussian"; "logistic" with heavier tails;
            "laplace" with a sharp peak and heavier tails still.
        covariance: "diag", or "full" for targets that are correlated within a Gaussian component.
            None is "full" for 2 to 16 targets of at least 1,000 rows with Gaussian components,
            else "diag".
        objective: "ngem", "nll" or another name in `ngem.OBJECTIVES`, or an objective.
        power: Strength of the natural gradient. "auto" is the objective's own: for "ngem" it falls
            from one half to zero. A number from 0 (plain likelihood) to 1 (the paper's) stays
            constant. (start, end, fraction of training) changes the numbers of the schedule. None
            is the objective's constant strength, without a schedule.
        optimizer: "adam", "adamw", "sgd", "muon", "soap", "kfac", or an optax transformation,
            which has its own learning rate.
        learning_rate: Peak learning rate; None is the optimizer's default.
        batch_size: Rows per step.
        max_epochs: Passes over the data at most; None is about 10,000 steps, in 40 to 1,000 passes.
        early_stopping: Hold rows out, stop when their likelihood stops improving, and keep the
            best parameters.
        validation_fraction: Fraction of rows that a single network holds out, at least ten rows or
            a third. With fewer than 15 rows none are held out, and training runs to the end.
            Several members hold out one fold each instead.
        patience: Epochs without improvement before stopping; None is a fifth of `max_epochs`, and
            at least 300 steps.
        scale_inputs: Standardize features.
        scale_targets: Standardize targets.
        init: "random", or "kmeans" to start at clusters of the targets.
        network: An Equinox module or function from one row to raw outputs, instead of an MLP;
            needs init="random". It returns `MixtureNetwork.num_raw` numbers.
        separate_networks: One network for the weights and one for the components.
        dropout: Fraction of hidden units to drop while training.
        layer_norm: Normalize hidden layers.
        weight_decay: Decoupled decay of weight matrices; None is the optimizer's default.
        clip_norm: Largest norm of a gradient, or None.
        learning_rate_schedule: "cosine" or "constant".
        warmup: Fraction of training during which the learning rate rises from zero.
        ema: Decay of a moving average of parameters to predict with, or None.
        scale_floor: Smallest scale of a component, in units of the standardized target.
        guard: Add a linear model and a few wide densities to the mixture, with weights that
            held-out rows choose. They bound what a surprising target costs, take over where
            features lie far outside the training rows, and carry the prediction when rows are few.
            False predicts with the networks alone.
        missing: "error", or "impute" to replace NaN in features by the column's median and to add
            an indicator of where that happened. Targets must be complete.
        callbacks: Called with a `training.Progress` after each epoch; those with a `close` method
            are closed when the fit ends.
        checkpoint: File to save progress in and to resume from; needs an integer random_state.
        random_state: Seed of initialization, held-out rows and batches.
        verbose: 1 shows a progress bar where there is a terminal.

    Attributes:
        model_: The trained network and its units.
        history_: "train_nll" and "validation_nll" of each member and epoch, mean negative
            log-likelihoods in standardized units, NaN after a member's end; add
            `diagnostics_["nll_offset"]` for the user's.
        diagnostics_: See `ngem.estimator.diagnostics.diagnose`, and how many steps were skipped.
        n_iter_: Epochs run by the member that ran longest.
        best_epoch_: For each member, the epoch whose parameters were kept.
        folds_: For each member, the rows that it held out, ascending; None in a loaded estimator.
        validation_rows_: All rows that some member held out, ascending; None in a loaded estimator.
        oof_log_prob_: Log density of each row from a member that had not seen it, in the user's
            units; NaN for rows that were never held out. None in a loaded estimator.
        n_outputs_: Number of target columns.
        n_components_: Components of the mixture of each network.
        covariance_: "diag" or "full", the covariance of its components.
        n_features_in_: Number of features.
        feature_names_in_: Their names, if the features came as a table with names.
        table_: How columns of a file become features, if `ngem fit` made this model; else None.
    """

    n_features_in_: int
    feature_names_in_: np.ndarray
    table_: Schema | None
    folds_: list[np.ndarray] | None
    oof_log_prob_: np.ndarray | None

    # Any: scikit-learn leaves the check of parameters to `fit`, which says what they may be.
    def __init__(
        self,
        n_components: Any = None,
        *,
        n_members: Any = 5,
        hidden_sizes: Any = (128, 128),
        activation: Any = "gelu",
        family: Any = "gaussian",
        covariance: Any = None,
        objective: Any = "ngem",
        power: Any = "auto",
        optimizer: Any = "adam",
        learning_rate: Any = None,
        batch_size: Any = 128,
        max_epochs: Any = None,
        early_stopping: Any = True,
        validation_fraction: Any = 0.1,
        patience: Any = None,
        scale_inputs: Any = True,
        scale_targets: Any = True,
        init: Any = "random",
        network: Any = None,
        separate_networks: Any = False,
        dropout: Any = 0.0,
        layer_norm: Any = False,
        weight_decay: Any = None,
        clip_norm: Any = None,
        learning_rate_schedule: Any = "cosine",
        warmup: Any = 0.0,
        ema: Any = 0.99,
        scale_floor: Any = 1e-4,
        guard: Any = True,
        missing: Any = "error",
        callbacks: Any = (),
        checkpoint: Any = None,
        random_state: Any = None,
        verbose: Any = 0,
    ):
        self.n_components = n_components
        self.n_members = n_members
        self.hidden_sizes = hidden_sizes
        self.activation = activation
        self.family = family
        self.covariance = covariance
        self.objective = objective
        self.power = power
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.scale_inputs = scale_inputs
        self.scale_targets = scale_targets
        self.init = init
        self.network = network
        self.separate_networks = separate_networks
        self.dropout = dropout
        self.layer_norm = layer_norm
        self.weight_decay = weight_decay
        self.clip_norm = clip_norm
        self.learning_rate_schedule = learning_rate_schedule
        self.warmup = warmup
        self.ema = ema
        self.scale_floor = scale_floor
        self.guard = guard
        self.missing = missing
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None
    ) -> "MDNRegressor":
        """Train the network.

        Args:
            X: Features, (rows, columns).
            y: Targets, (rows,) or (rows, columns).
            sample_weight: How much each row counts; a weight of zero is as if the row were not
                there.
            eval_set: (X, y) for early stopping instead of held-out rows. The parameters that are
                best on these rows are kept; with early_stopping=False training still runs to the
                end.

        Raises:
            ngem.training.FitError: If training diverged; the estimator is then not fitted.
        """
        settings = self.get_params(deep=False)
        parameters.check(settings)
        self.__dict__.pop("model_", None)
        table, target_ndim = self._read_table(X, y, sample_weight)
        settings = parameters.resolve(settings, table.y.shape[1], len(table.y))
        watched = None if eval_set is None else self._read_eval_set(eval_set, table.y.shape[1])
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        held_out = choose_held_out(
            settings, len(table.x), is_watched=watched is not None, seed=seed
        )
        n_rows, weights = _num_samples(X), np.asarray(sample_weight)
        kept = np.flatnonzero(weights) if weights.ndim else np.arange(n_rows)
        self.folds_ = [kept[rows] for rows in held_out]
        # Several members see all rows between them, one by itself those that it does not hold out.
        seen = table if len(held_out) > 1 else table.take(others(len(table.x), held_out[0]))
        inputs = fit_inputs(seen.x, seen.weights, scale=self.scale_inputs)
        targets = no_scaling(table.y.shape[1])
        if self.scale_targets:
            targets = fit_scaling(seen.y, seen.weights)
        rows = standardized(inputs, targets, table)
        other = None if watched is None else standardized(inputs, targets, watched)
        members = self._train(Job(settings, seed, rows, held_out, other, self._callbacks()))
        judged = _judge(settings, rows, held_out, other, members)
        network = average([member.result.network for member in members], judged.guard)
        model = Model(network, inputs, targets)
        self._keep_log_densities(n_rows, judged.log_density - targets.log_volume)
        return self._keep(
            model,
            settings=settings,
            target_ndim=target_ndim,
            best_epochs=np.array([member.result.best_epoch for member in members]),
            diagnostics={
                **diagnose(model, table, judged),
                "outlier_rows": self._outliers(judged),
                "skipped_steps": sum(member.result.skipped for member in members),
                "training_rows": len(seen.x),
                "validation_rows": len(
                    np.unique(np.concatenate(held_out)) if other is None else other.y
                ),
            },
            history={
                "train_nll": _histories([member.result.history.train for member in members]),
                "validation_nll": _histories(
                    [member.result.history.validation for member in members]
                ),
            },
        )

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted estimator to one file that holds no code.

        Its parameters are those of the fit, whatever has been set since, with the components and
        the covariance that None stood for. `callbacks`, `checkpoint`, `random_state` and `verbose`
        are not kept. An objective or optimizer that is an object without a name becomes "unsaved":
        the loaded estimator predicts, but must be given another before it can be fitted again. A
        user's own `network` is refused.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        saved = model_file.Saved(
            settings=self._fit_settings,
            model=self.model_,
            feature_names=None if names is None else [str(name) for name in names],
            target_ndim=self.target_ndim_,
            history=self.history_,
            best_epochs=self.best_epoch_,
            diagnostics=self.diagnostics_,
            table=self.table_,
        )
        model_file.save(path, saved)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "MDNRegressor":
        """Return the estimator that `save` wrote.

        Raises:
            ngem.estimator.model_file.FileError: If the file is damaged or not one of ours.
                Loading an untrusted file can fail, but never runs code from the file.
        """
        saved = model_file.load(path)
        self = cls(**saved.settings)
        self.n_features_in_ = len(saved.model.inputs.fill)
        if saved.feature_names is not None:
            self.feature_names_in_ = np.array(saved.feature_names, dtype=object)
        self._keep(
            saved.model,
            settings=saved.settings,
            target_ndim=saved.target_ndim,
            best_epochs=saved.best_epochs,
            diagnostics=saved.diagnostics,
            history=saved.history,
        )
        self.table_ = saved.table
        self.folds_ = self.oof_log_prob_ = None
        return self

    @property
    def validation_rows_(self) -> np.ndarray | None:
        """All rows that some member held out, ascending; None in a loaded estimator."""
        return None if self.folds_ is None else np.unique(np.concatenate(self.folds_))

    def held_out_models(self) -> Iterator[tuple[np.ndarray, Model]]:
        """Yield the rows that each member held out, and this member with the guard as a model.

        What it predicts for these rows is what the estimator would have predicted had it not seen
        them, but for the other members.
        """
        check_is_fitted(self)
        if self.folds_ is None:
            raise ValueError(
                "the estimator must know which rows it held out, got one that was loaded from a "
                "file; fit it again, or judge it by new rows."
            )
        for index, rows in enumerate(self.folds_):
            if len(rows):
                yield rows, self.model_.member(index)

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
        table, key = self._read_rows(X, y), to_key(random_state)
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
        and scales in the user's units; see `ngem.torch.MixtureDensityNetwork`. Needs PyTorch.
        """
        from .to_torch import to_torch

        check_is_fitted(self)
        return to_torch(self.model_)

    def _keep(
        self,
        model: Model,
        *,
        settings: dict,
        target_ndim: int,
        best_epochs: np.ndarray,
        diagnostics: dict,
        history: dict,
    ) -> "MDNRegressor":
        """Become a fitted estimator."""
        self.model_ = model
        self._fit_settings = settings
        self.target_ndim_ = target_ndim
        self.n_outputs_ = model.network.dim
        self.n_components_ = model.network.members.n_components
        self.covariance_ = model.network.members.family.names[1]
        self.history_ = history
        self.n_iter_ = history["train_nll"].shape[1]
        self.best_epoch_ = best_epochs
        self.diagnostics_ = diagnostics
        self.table_ = None
        return self

    def _callbacks(self) -> list[Any]:
        return [*self.callbacks, *([ProgressBar()] if self.verbose else [])]

    def _train(self, job: Job) -> list[Member]:
        """Train all members; then close the callbacks that can be closed."""
        try:
            return train_members(job)
        finally:
            # A clone's callbacks are copies, which nobody else can close.
            for callback in job.callbacks:
                getattr(callback, "close", lambda: None)()

    def _read_eval_set(self, eval_set: Any, n_outputs: int) -> Table:
        """Return the rows that the user wants to stop by."""
        if not isinstance(eval_set, tuple | list) or len(eval_set) != 2:
            raise ValueError(
                f"eval_set must be a pair (X, y), got {type(eval_set).__name__} of another "
                "form; pass eval_set=(X_val, y_val)."
            )
        return self._read_table(*eval_set, n_outputs=n_outputs, name="eval_set ")[0]

    def _outliers(self, judged: GuardFit) -> list[int]:
        """Return the held-out rows that only the widest densities explain, ascending."""
        rows = np.concatenate(self.folds_ or [np.empty(0, int)])
        # Rows of the user's own to stop by have no number among these.
        surprising = judged.surprise > 0.5 if len(rows) else np.zeros(0, bool)
        return np.unique(rows[surprising]).tolist()

    def _keep_log_densities(self, n_rows: int, log_density: np.ndarray) -> None:
        """Keep the log density of each held-out row; the mean density of rows held out twice."""
        rows = np.concatenate(self.folds_ or [np.empty(0, int)])
        total = np.full(n_rows, -np.inf)
        if len(rows):
            np.logaddexp.at(total, rows, log_density)
        times = np.bincount(rows, minlength=n_rows)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.oof_log_prob_ = np.where(times > 0, total - np.log(times), np.nan)


def _judge(
    settings: dict[str, Any],
    rows: Table,
    held_out: Sequence[np.ndarray],
    watched: Table | None,
    members: Sequence[Member],
) -> GuardFit:
    """Return the guard beside the members, and what held-out rows say of all together."""
    densities, train = [member.log_density for member in members], _counted(rows)
    if watched is None:
        judged_by = np.concatenate(held_out)
        counts, log_density = train.counts[judged_by], np.concatenate(densities)
    else:
        judged_by = _counted(watched)
        counts = judged_by.counts
        log_density = np.logaddexp.reduce(densities, axis=0) - np.log(len(members))
    judged = fit_guard(parameters.family(settings), train, judged_by, log_density)
    return judged if settings["guard"] else judged.without_guard(log_density, counts)


def _counted(rows: Table) -> Rows:
    return Rows(rows.x, rows.y, np.ones(len(rows.y)) if rows.weights is None else rows.weights)


def _histories(curves: Sequence[np.ndarray]) -> np.ndarray:
    """Return curves of different lengths as rows of one array, NaN after their ends."""
    padded = np.full((len(curves), max(map(len, curves))), np.nan)
    for row, curve in zip(padded, curves, strict=True):
        row[: len(curve)] = curve
    return padded
