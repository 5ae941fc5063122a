"""The estimator: a mixture density network behind scikit-learn's interface."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ..families import settle_name
from ..nn import average
from ..streams import as_stream
from ..training.callbacks import ProgressBar, close
from . import model_file, parameters
from .automatic import known_names
from .continued import go_on, go_on_settings, known_units, networks_of, report_drift
from .member_regressor import MemberRegressor, count_rows, histories, judge, without_guard
from .members import Job, Member, standardized, train_members
from .preprocessing import Inputs, Table, fit_inputs
from .rules import AUTO
from .stream_fit import ToFit, read_stream, refuse_beside_stream
from .targets import TargetUnits, fit_targets, make_model, read_inside


class MDNRegressor(MemberRegressor):
    """Predicts a distribution: a neural network whose output is a mixture for each row.

    Features and targets are standardized inside; everything that goes in or comes out is in the
    user's units. Training and predicting run in single precision, the change of units in double.

    Args:
        n_components (int or None): Components of the mixture of each network; None is 20 for
            several targets of at least 1,000 rows, else 5.
        n_members (int): Networks whose densities are averaged. The rows are divided into as many
            folds, and each network holds out one of them to stop by: all rows train, and every row
            is held out once. They train side by side on all cores.
        hidden_sizes (sequence of int): Widths of the hidden layers.
        activation (str): "gelu", "relu", "silu" or "tanh".
        family (str): Distribution of the components, with options in parentheses: "gaussian";
            "logistic", "laplace", "student(4)" or "student-learned" with heavier tails; "gumbel" or
            "asymmetric-laplace", which are skewed; "lognormal", "gamma", "inverse-gaussian" or
            "weibull" of positive targets; "logitnormal(0, 100)" or "beta(0, 100)" of targets
            between two bounds; "poisson" or "negative-binomial" of counts; "von-mises(360)"
            of directions; "zero-inflated gamma" or "gamma + 0" with a value that has a probability
            of its own. "auto" lets held-out rows choose from what suits the targets. Or one for
            each target column, as a dictionary by name or a list in their order.
        covariance (str or None): "diag"; for Gaussian components also "full", for targets that are
            correlated within a component; "tied", one full covariance for all components of a row;
            "low-rank(4)", four factors that targets share beside a scale of their own, for many
            targets; "spherical", one scale for all targets, in units of their standard deviations.
            None is "full" for 2 to 16 targets of at least 1,000 rows with Gaussian components, else
            "diag".
        objective (str or AbstractObjective): "ngem", "nll" or another name in `ngem.OBJECTIVES`, or
            an objective.
        power (str, float, tuple or None): Strength of the natural gradient. "auto" is the
            objective's own: for "ngem" it falls from one half to zero. A number from 0 (plain
            likelihood) to 1 (the paper's) stays constant. (start, end, fraction of training)
            changes the numbers of the schedule. None is the objective's constant strength, without
            a schedule.
        optimizer (str or optax.GradientTransformation): "adam", "adamw", "sgd", "muon", "soap",
            "kfac", or an optax transformation, which has its own learning rate.
        learning_rate (float or None): Peak learning rate; None is the optimizer's default.
        batch_size (int): Rows per step.
        max_epochs (int or None): Passes over the data at most; None is about 10,000 steps, in 40 to
            1,000 passes.
        early_stopping (bool): Hold rows out, stop when their likelihood stops improving, and keep
            the best parameters.
        validation_fraction (float): Fraction of rows that a single network holds out, at least ten
            rows or a third. With fewer than 15 rows none are held out, and training runs to the
            end. Several members hold out one fold each instead.
        patience (int or None): Epochs without improvement before stopping; None is a fifth of
            `max_epochs`, and at least 300 steps.
        scale_inputs (bool): Standardize features.
        scale_targets (bool): Standardize targets.
        init (str): "random", or "kmeans" to start at clusters of the targets.
        network (callable or None): An Equinox module or function from one row to raw outputs,
            instead of an MLP; needs init="random". It returns `MixtureNetwork.num_raw` numbers.
        n_bins (int or None): Pieces into which each feature is cut, with as many rows each; the
            network reads where in each piece a row lies, beside the feature itself. Try 16 where
            steps and kinks of single features matter. None for no such encoding.
        input_limit (float or None): Features further from their mean than so many standard
            deviations are read on a log scale, so that a row with an extreme feature does not
            disturb what all others learn. None reads them as they are; so do `scale_inputs=False`
            and a `network` of your own.
        separate_networks (bool): One network for the weights and one for the components.
        dropout (str or float): Fraction of hidden units to drop while training. "auto" is 0 or 0.1:
            the first two folds train both, and their held-out rows choose. It is 0 for a single
            network.
        layer_norm (bool): Normalize hidden layers.
        weight_decay (float or None): Decoupled decay of weight matrices; None is the optimizer's
            default.
        clip_norm (float or None): Largest norm of a gradient, or None.
        learning_rate_schedule (str): "cosine" or "constant".
        warmup (float): Fraction of training during which the learning rate rises from zero.
        ema (float or None): Decay of a moving average of parameters to predict with, or None.
        scale_floor (float): Smallest scale of a component, in units of the standardized target.
        guard (bool): Add a linear model and a few wide densities to the mixture, with weights that
            held-out rows choose. They bound what a surprising target costs, take over where
            features lie far outside the training rows, and carry the prediction when rows are few.
            False predicts with the networks alone.
        resolution (float or None): The step to which targets were rounded, such as 1 for whole
            numbers. The model then learns the probability of each step, and `log_prob` is its
            logarithm minus that of the step: bounded, and comparable with other densities. None
            takes targets as exact.
        missing (str): "error", or "impute" to replace NaN in features by the column's median and to
            add an indicator of where that happened. Targets must be complete.
        warm_start (bool): Go on from the networks of the last fit, with its scaling; see
            `partial_fit` for single passes.
        callbacks (sequence of callables): Called with a `training.Progress` after each epoch; those
            with a `close` method are closed when the fit ends.
        checkpoint (path or None): File to save progress in and to resume from; needs an integer
            random_state.
        random_state (int, RandomState or None): Seed of initialization, held-out rows and batches.
        verbose (int): 1 shows a progress bar in a terminal, and lines elsewhere.

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
        covariance_: The covariance of its components, "diag" or "full" if it was None.
        n_features_in_: Number of features.
        feature_names_in_: Their names, if the features came as a table with names.
        table_: How the columns of a table become numbers; None if they came as an array of numbers.
        drift_: Of `partial_fit` and a fit with `warm_start`: how the new rows differ from those
            that fixed the scaling; None for others.
        stream_info_: Of a fit to a stream: rows, row groups, rows of a window, and the seconds that
            the shuffled copy took and that training waited for rows. None for others.
        stream_rows_: Of a fit to a stream: the rows that `folds_` and `oof_log_prob_` number, as
            features and targets. All rows if they fit into memory, else a uniform sample. None for
            others, and in a loaded estimator.
    """

    # Of the last fit, if it was to a stream.
    stream_rows_: Table | None = None
    stream_info_: dict[str, Any] | None = None
    # Of the last rows that a fitted model went on with.
    drift_: dict[str, Any] | None = None

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
        n_bins: Any = None,
        input_limit: Any = 4.0,
        separate_networks: Any = False,
        dropout: Any = "auto",
        layer_norm: Any = False,
        weight_decay: Any = None,
        clip_norm: Any = None,
        learning_rate_schedule: Any = "cosine",
        warmup: Any = 0.0,
        ema: Any = 0.99,
        scale_floor: Any = 1e-4,
        guard: Any = True,
        resolution: Any = None,
        missing: Any = "error",
        warm_start: Any = False,
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
        self.n_bins = n_bins
        self.input_limit = input_limit
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
        self.resolution = resolution
        self.missing = missing
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        *,
        upper: Any = None,
        truncation: Any = None,
    ) -> "MDNRegressor":
        """Train the network.

        Args:
            X: Features, (rows, columns): an array of numbers, or a data frame of pandas or polars,
                which may also hold text, categories, dates, true and false. A text or a category
                becomes one input for each of its values, a date several numbers. Or rows that need
                not fit into memory: a `ngem.streams.Stream`, or anything that it takes.
            y: Targets, (rows,) or (rows, columns). One of several columns may be NaN where it was
                not observed; the likelihood is then that of the others. Of a stream of files, names
                of the target columns.
            sample_weight: How much each row counts; a weight of zero is as if the row were not
                there.
            eval_set: (X, y) for early stopping instead of held-out rows, or (X, y, upper). The
                parameters that are best on these rows are kept; with early_stopping=False training
                still runs to the end.
            truncation: For targets that are only among the rows because they lie in a window:
                (low, high), each a number, an array in the shape of y, or None for no end. The
                model then describes all targets, seen or not, see docs/families.md. There is no
                guard.
            upper: For censored targets: each target lies between y and upper. Both are equal for a
                target that is known, upper is infinite for one that is only known to exceed y, and
                y is -infinity for one that is only known to be below upper.

        Raises:
            ngem.training.FitError: If training diverged; the estimator is then not fitted.
        """
        if isinstance(self.family, str) and self.family == AUTO:
            return self._fit_auto(X, y, sample_weight, eval_set, upper=upper, truncation=truncation)
        settings = self.get_params(deep=False)
        parameters.check(settings)
        units, start = None, None
        if self.warm_start and hasattr(self, "model_"):
            units, start = known_units(self), networks_of(self.model_)
            settings = go_on_settings(self, settings)
        else:
            self.__dict__.pop("model_", None)
        for name in ("drift_", "stream_rows_", "stream_info_"):
            self.__dict__.pop(name, None)
        stream = as_stream(X, y)
        if stream is not None:
            refuse_beside_stream(
                sample_weight=sample_weight, eval_set=eval_set, upper=upper, truncation=truncation
            )
            rows = read_stream(self, stream, settings, units)
            return self._fit_rows(rows._replace(start=start))
        known = None if units is None else self.n_outputs_
        table, target_ndim = self._read_table(
            X, y, sample_weight, upper=upper, truncation=truncation, n_outputs=known
        )
        settings = without_guard(settings, table, eval_set)
        settings["family"] = settle_name(
            settings["family"], table.y, known_names(X, y, table.y.shape[1])
        )
        table = read_inside(parameters.named_family(settings), self._round(table))
        settings = parameters.resolve(
            settings, *table.y.shape[::-1], has_intervals=table.has_intervals
        )
        watched = None if eval_set is None else self._read_eval_set(eval_set, table.y.shape[1])
        seed, held_out, seen = self._hold_out(settings, sample_weight, table, watched)
        n_rows = count_rows(table, sample_weight)
        rows = ToFit(settings, target_ndim, n_rows, table, watched, seed, held_out, seen, units)
        return self._fit_rows(rows._replace(start=start))

    def partial_fit(self, X: Any, y: Any = None, *, n_epochs: int = 1) -> "MDNRegressor":
        """Go on with the fitted networks: a pass over new rows, with the scaling of the fit.

        The learning rate is constant, a tenth of that of `fit`. No rows are held out, the weights
        of the guard stay, and its range grows to hold the new rows. `drift_` says how the new rows
        differ from those of the fit; a `DriftWarning` is given if they differ much. An estimator
        that is not fitted yet is fitted.

        Args:
            X: Features, or a stream, as in `fit`.
            y: Targets, or their names in a stream.
            n_epochs: Passes over the rows.
        """
        if not hasattr(self, "model_"):
            return self.fit(X, y)
        go_on(self, X, y, n_epochs)
        return self

    def _fit_rows(self, given: ToFit) -> "MDNRegressor":
        """Train the members, add the guard, and become a fitted estimator."""
        settings, table, watched, held_out = (
            given.settings,
            given.table,
            given.watched,
            given.held_out,
        )
        inputs, targets = given.units or self._fit_units(settings, given.seen)
        rows = standardized(inputs, targets, table)
        if given.start is not None:
            report_drift(self, rows)
        other = None if watched is None else standardized(inputs, targets, watched)
        job = Job(settings, given.seed, rows, held_out, other, self._callbacks(), given.start)
        members = self._train(job, given.train or train_members)
        judged = judge(
            targets.family.base,
            rows,
            held_out,
            other,
            [member.log_density for member in members],
            guard=settings["guard"],
            widest=targets.widest,
        )
        guard = judged.guard if given.widen is None else given.widen(judged.guard)
        network = average([member.result.network for member in members], guard)
        model = make_model(targets, network, inputs, self.resolution)
        self._keep_log_densities(given.n_rows, targets, table, held_out, judged.log_density)
        return self._keep(
            model,
            settings=settings,
            targets=targets,
            target_ndim=given.target_ndim,
            best=np.array([member.result.best_epoch for member in members]),
            diagnostics={
                **self._diagnose(model, targets, table, judged, held_out, given.seen, watched),
                "dropout": members[0].dropout,
                "skipped_steps": sum(member.result.skipped for member in members),
                **given.facts,
            },
            history={
                "train_nll": histories([member.result.history.train for member in members]),
                "validation_nll": histories(
                    [member.result.history.validation for member in members]
                ),
            },
        )

    def _fit_units(self, settings: dict[str, Any], seen: Table) -> tuple[Inputs, TargetUnits]:
        """Return how features and targets become what networks read, from rows they see."""
        inputs = fit_inputs(seen.x, seen.weights, scale=self.scale_inputs, one_hot=self._one_hot())
        return inputs, fit_targets(parameters.family(settings), seen, scale=self.scale_targets)

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted estimator to one file that holds no code.

        Its parameters are those of the fit, whatever has been set since, with the components and
        the covariance that None stood for, and so is an integer `random_state`. `callbacks`,
        `checkpoint` and `verbose` are not kept. An objective or optimizer that is an object
        without a name becomes "unsaved": the loaded estimator predicts, but must be given another
        before it can be fitted again. A user's own `network` is refused.
        """
        model_file.save(path, self._to_saved())

    @classmethod
    def load(cls, path: str | os.PathLike) -> "MDNRegressor":
        """Return the estimator that `save` wrote.

        Raises:
            ngem.estimator.model_file.FileError: If the file is damaged or not one of ours.
                Loading an untrusted file can fail, but never runs code from the file.
        """
        return cls._from_saved(model_file.load(path))

    @property
    def _takes_gaps(self) -> bool:
        return self.missing == "impute"

    @property
    def covariance_(self) -> str:
        """Covariance of a component."""
        return self.model_.network.family.names[1]

    @property
    def _best(self) -> np.ndarray:
        return self.best_epoch_

    def _keep_best(self, best: np.ndarray) -> None:
        self.best_epoch_ = best
        self.n_iter_ = self.history_["train_nll"].shape[1]

    def _callbacks(self) -> list[Any]:
        return [*self.callbacks, *([ProgressBar()] if self.verbose else [])]

    def _train(self, job: Job, train: Callable[[Job], list[Member]]) -> list[Member]:
        """Train all members; then close the callbacks that can be closed."""
        try:
            return train(job)
        finally:
            close(job.callbacks)
