"""The estimator: a mixture density network behind scikit-learn's interface."""

import hashlib
import os
from typing import Any

import equinox as eqx
import jax
import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .. import training
from ..training.callbacks import ProgressBar
from ..training.checkpoints import Checkpoint
from . import model_file, parameters
from .density_regressor import DensityRegressor
from .diagnostics import diagnose
from .prediction import Model
from .preprocessing import Table, fit_inputs, fit_scaling, no_scaling, split_rows
from .schema import Schema


class MDNRegressor(DensityRegressor):
    """Predicts a distribution: a neural network whose output is a mixture for each row.

    Features and targets are standardized inside; everything that goes in or comes out is in the
    user's units. Training and predicting run in single precision, the change of units in double.

    Args:
        n_components: Components of the mixture.
        hidden_sizes: Widths of the hidden layers.
        activation: "gelu", "relu", "silu" or "tanh".
        family: Distribution of the components: "gaussian"; "logistic" with heavier tails;
            "laplace" with a sharp peak and heavier tails still.
        covariance: "diag", or "full" for targets that are correlated within a Gaussian component.
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
        validation_fraction: Fraction of rows to hold out, at least ten rows or a third. With fewer
            than 15 rows none are held out, and training runs to the end.
        patience: Epochs without improvement before stopping; None is a fifth of `max_epochs`.
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
        missing: "error", or "impute" to replace NaN in features by the column's median and to add
            an indicator of where that happened. Targets must be complete.
        callbacks: Called with a `training.Progress` after each epoch; those with a `close` method
            are closed when the fit ends.
        checkpoint: File to save progress in and to resume from; needs an integer random_state.
        random_state: Seed of initialization, held-out rows and batches.
        verbose: 1 shows a progress bar where there is a terminal.

    Attributes:
        model_: The trained network and its units.
        history_: "train_nll" and "validation_nll" of each epoch, mean negative log-likelihoods in
            standardized units; add `diagnostics_["nll_offset"]` for the user's.
        diagnostics_: See `ngem.estimator.diagnostics.diagnose`, and how many steps were skipped.
        n_iter_: Epochs run.
        best_epoch_: Index in `history_` of the parameters that were kept.
        validation_rows_: Indices of the rows that the fit held out, in ascending order; empty if
            there are none, None in a loaded estimator.
        n_outputs_: Number of target columns.
        n_features_in_: Number of features.
        feature_names_in_: Their names, if the features came as a table with names.
        table_: How columns of a file become features, if `ngem fit` made this model; else None.
    """

    n_features_in_: int
    feature_names_in_: np.ndarray
    table_: Schema | None
    validation_rows_: np.ndarray | None

    # Any: scikit-learn leaves the check of parameters to `fit`, which says what they may be.
    def __init__(
        self,
        n_components: Any = 5,
        *,
        hidden_sizes: Any = (128, 128),
        activation: Any = "gelu",
        family: Any = "gaussian",
        covariance: Any = "diag",
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
        missing: Any = "error",
        callbacks: Any = (),
        checkpoint: Any = None,
        random_state: Any = None,
        verbose: Any = 0,
    ):
        self.n_components = n_components
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
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.validation_rows_ = np.empty(0, int)
        train, held_out = self._hold_out(table, eval_set, seed)
        weights = np.asarray(sample_weight)
        if weights.ndim:  # rows of weight zero were left out before the split
            self.validation_rows_ = np.flatnonzero(weights)[self.validation_rows_]
        inputs = fit_inputs(train.x, train.weights, scale=self.scale_inputs)
        targets = no_scaling(train.y.shape[1])
        if self.scale_targets:
            targets = fit_scaling(train.y, train.weights)
        start = parameters.start_network(settings, inputs.n_columns, targets.forward(train.y), seed)
        model = Model(start, inputs, targets)
        result = self._train(model, train, held_out, settings, seed)
        model = Model(result.network, inputs, targets)
        counts = {
            "skipped_steps": result.skipped,
            "training_rows": len(train.x),
            "validation_rows": 0 if held_out is None else len(held_out.x),
        }
        return self._keep(
            model,
            settings=settings,
            target_ndim=target_ndim,
            best_epoch=result.best_epoch,
            diagnostics={**diagnose(model, train, held_out), **counts},
            history={
                "train_nll": result.history.train.astype(np.float64),
                "validation_nll": result.history.validation.astype(np.float64),
            },
        )

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted estimator to one file that holds no code.

        Its parameters are those of the fit, whatever has been set since. `callbacks`, `checkpoint`,
        `random_state` and `verbose` are not kept. An objective or optimizer that is an object
        without a name becomes "unsaved": the loaded estimator predicts, but must be given another
        before it can be fitted again. A user's own `network` is refused.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        saved = model_file.Saved(
            settings=self._fit_settings,
            model=self.model_,
            feature_names=None if names is None else [str(name) for name in names],
            target_ndim=self.target_ndim_,
            history=self.history_,
            best_epoch=self.best_epoch_,
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
            best_epoch=saved.best_epoch,
            diagnostics=saved.diagnostics,
            history=saved.history,
        )
        self.table_ = saved.table
        self.validation_rows_ = None
        return self

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
        best_epoch: int,
        diagnostics: dict,
        history: dict,
    ) -> "MDNRegressor":
        """Become a fitted estimator."""
        self.model_ = model
        self._fit_settings = settings
        self.target_ndim_ = target_ndim
        self.n_outputs_ = model.network.dim
        self.history_ = history
        self.n_iter_ = len(history["train_nll"])
        self.best_epoch_ = best_epoch
        self.diagnostics_ = diagnostics
        self.table_ = None
        return self

    def _train(
        self, model: Model, train: Table, held_out: Table | None, settings: dict, seed: int
    ) -> training.FitResult:
        """Run the fit loop, with a progress bar and a checkpoint if asked for."""
        plan, key = parameters.plan(settings, len(train.x)), jax.random.key(seed)
        data = _to_device(model, train)
        validation = None if held_out is None else _to_device(model, held_out)
        callbacks = [*self.callbacks, *([ProgressBar()] if self.verbose else [])]
        resume = save = None
        if self.checkpoint is not None:
            known = {
                **parameters.plain(settings),
                # In the words of 0.1, whose objectives had no schedule.
                "objective": repr(plan.objective.without_schedule()).replace(", schedule=None", ""),
                "schedule": repr(plan.resolved_objective.schedule),
                "network": _fingerprint(model.network),
                "data": _fingerprint((data, validation)),
                "seed": seed,
            }
            checkpoint = Checkpoint(self.checkpoint, known, added=("family", "schedule"))
            resume = checkpoint.load(training.initial_state(model.network, plan, key))
            save = checkpoint.save
        try:
            return training.fit(
                model.network,
                data,
                plan,
                key=key,
                max_epochs=parameters.max_epochs(settings, len(train.x)),
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
                validation=validation,
                callbacks=callbacks,
                resume=resume,
                save=save,
            )
        finally:
            # A clone's callbacks are copies, which nobody else can close.
            for callback in callbacks:
                getattr(callback, "close", lambda: None)()

    def _hold_out(self, table: Table, eval_set: Any, seed: int) -> tuple[Table, Table | None]:
        """Return the rows to train on, and those for early stopping."""
        if eval_set is not None:
            if not isinstance(eval_set, tuple | list) or len(eval_set) != 2:
                raise ValueError(
                    f"eval_set must be a pair (X, y), got {type(eval_set).__name__} of another "
                    "form; pass eval_set=(X_val, y_val)."
                )
            dim = table.y.shape[1]
            return table, self._read_table(*eval_set, n_outputs=dim, name="eval_set ")[0]
        if not self.early_stopping:
            return table, None
        rng = np.random.default_rng(seed)
        rows, rest = split_rows(len(table.x), float(self.validation_fraction), rng)
        self.validation_rows_ = rest
        return table.take(rows), table.take(rest) if len(rest) else None


def _to_device(model: Model, table: Table) -> training.Data:
    """Return rows as the network reads them."""
    weights = None if table.weights is None else np.asarray(table.weights, np.float32)
    rows = model.inputs.forward(table.x), model.targets.forward(table.y), weights
    return training.Data(*jax.device_put(rows))


def _fingerprint(tree: Any) -> str:
    digest = hashlib.sha256()
    for leaf in filter(eqx.is_array, jax.tree.leaves(tree)):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()
