"""The estimator on trees: a boosted mixture behind scikit-learn's interface."""

import os
from typing import Any

import numpy as np

from .. import _errors, boosting
from ..families import settle_name
from ..training.callbacks import ProgressBar, close
from . import boosting_parameters as parameters
from . import tree_file
from .automatic import known_names
from .boosting_members import Job, fit_units, train_members
from .encoding import MOST_CATEGORIES_OF_TREES
from .interface import check_fitted
from .member_regressor import MemberRegressor, count_rows, histories, judge, without_guard
from .rules import AUTO
from .targets import make_model, read_inside


class MixtureBoostingRegressor(MemberRegressor):
    """Predicts a distribution: boosted trees whose outputs are a mixture for each row.

    Each round grows one tree for every raw output: logits, means and log scales. Leaves take Newton
    steps with the complete-data Fisher information as curvature, which is positive and known in
    closed form. Trees are LightGBM's: they take features in any units, missing values and
    categories as they are. Everything that goes in or comes out is in the user's units.

    Args:
        n_components (int or None): Components of the mixture of each member. None is 5 or 3: the
            first two members are trained with both, and their held-out rows choose. It is 5 where
            there is one member or no row is held out.
        n_members (int): Models whose densities are averaged. The rows are divided into as many
            folds, and each member holds out one of them to stop by: all rows train, and every row
            is held out once. They train side by side on all cores.
        family (str): Distribution of the components, with options in parentheses: "gaussian";
            "logistic", "laplace", "student(4)" or "student-learned" with heavier tails; "gumbel" or
            "asymmetric-laplace", which are skewed; "lognormal", "gamma", "inverse-gaussian" or
            "weibull" of positive targets; "logitnormal(0, 100)" or "beta(0, 100)" of targets
            between two bounds; "poisson" or "negative-binomial" of counts; "von-mises(360)"
            of directions; "zero-inflated gamma" or "gamma + 0" with a value that has a probability
            of its own. "auto" lets held-out rows choose from what suits the targets. Or one for
            each target column, as a dictionary by name or a list in their order. Several target
            columns are independent within a component.
        curvature (str): "fisher", the weight of a component times its Fisher information; or "em",
            with responsibilities in place of weights, so that a leaf's step of a mean is an M-step.
            For comparison: "hessian", the second derivative clipped below; "none", plain gradients;
            "scaled", gradients divided by their root mean square.
        learning_rate (float): Fraction of each step that is taken.
        max_rounds (int): Rounds at most.
        num_leaves (int): Leaves of a tree at most.
        min_rows_in_leaf (int): Rows of a leaf at least.
        l2 (float): Penalty of squared steps, in rows: a leaf of so many rows takes half its step.
        damping (float): Added to weights or responsibilities in the curvature. It keeps the steps
            of a component small that has lost its weight.
        weight_rate (float or None): Learning rate of the logits, relative to that of the means.
            None is 0.1 or 1, chosen like `n_components`; it is 0.1 where there is no choice.
        scale_rate (float): Learning rate of the scales, relative to that of the means. Scales
            overfit first: with equal rates they shrink to the errors of training rows.
        row_fraction (float): Fraction of the rows that each round sees.
        column_fraction (float): Fraction of the columns that each tree sees.
        max_bins (int): Distinct values of a column at most, after binning.
        early_stopping (bool): Hold rows out, stop when their likelihood stops improving, and keep
            the best round.
        validation_fraction (float): Fraction of rows that a single member holds out, at least ten
            rows or a third. With fewer than 15 rows none are held out, and boosting runs to the
            end. Several members hold out one fold each instead.
        patience (int): Rounds without improvement before stopping.
        scale_floor (float): Smallest scale of a component, in units of the standardized target.
        guard (bool): Add a linear model and a few wide densities to the mixture, with weights that
            held-out rows choose. They bound what a surprising target costs, take over where
            features lie far outside the training rows, and carry the prediction when rows are few.
        resolution (float or None): The step to which targets were rounded, such as 1 for whole
            numbers; see `MDNRegressor`. None takes targets as exact.
        categorical_features (str or list): "auto" for the columns of text and of a categorical
            dtype of a data frame; or a list of names or numbers of further columns.
        callbacks (sequence of callables): Called with a `training.Progress` after each round; those
            with a `close` method are closed when the fit ends.
        n_jobs (int or None): Cores to use; None or -1 for all of them.
        random_state (int, RandomState or None): Seed of held-out rows, of the start and of sampled
            rows and columns.
        verbose (int): 1 shows a progress bar in a terminal, and lines elsewhere.

    Attributes:
        model_: The trees and their units.
        history_: "train_nll" and "validation_nll" of each member after each round, the first before
            any, mean negative log-likelihoods in standardized units, NaN after a member's end; add
            `diagnostics_["nll_offset"]` for the user's.
        diagnostics_: See `ngem.estimator.diagnostics.diagnose`.
        n_iter_: Rounds run by the member that ran longest.
        best_round_: For each member, how many rounds were kept.
        folds_: For each member, the rows that it held out, ascending; None in a loaded estimator.
        validation_rows_: All rows that some member held out, ascending; None in a loaded estimator.
        oof_log_prob_: Log density of each row from a member that had not seen it, in the user's
            units; NaN for rows that were never held out. None in a loaded estimator.
        table_: How the columns of a table become numbers, with the categories of each; None if they
            came as an array of numbers.
        feature_importances_: Fraction of the gain that each column has, for "weights", "means" and
            "scales".
        weight_rate_: Learning rate of the logits that was given or chosen.
        n_outputs_: Number of target columns.
        n_features_in_: Number of features.
        feature_names_in_: Their names, if the features came as a table with names.
    """

    _most_categories = MOST_CATEGORIES_OF_TREES

    # Any: scikit-learn leaves the check of parameters to `fit`, which says what they may be.
    def __init__(
        self,
        n_components: Any = None,
        *,
        n_members: Any = 5,
        family: Any = "gaussian",
        curvature: Any = "em",
        learning_rate: Any = 0.1,
        max_rounds: Any = 2000,
        num_leaves: Any = 31,
        min_rows_in_leaf: Any = 20,
        l2: Any = 0.0,
        damping: Any = 0.0,
        weight_rate: Any = None,
        scale_rate: Any = 0.05,
        row_fraction: Any = 0.7,
        column_fraction: Any = 0.7,
        max_bins: Any = 255,
        early_stopping: Any = True,
        validation_fraction: Any = 0.1,
        patience: Any = 50,
        scale_floor: Any = 1e-3,
        guard: Any = True,
        resolution: Any = None,
        categorical_features: Any = "auto",
        callbacks: Any = (),
        n_jobs: Any = None,
        random_state: Any = None,
        verbose: Any = 0,
    ):
        self.n_components = n_components
        self.n_members = n_members
        self.family = family
        self.curvature = curvature
        self.learning_rate = learning_rate
        self.max_rounds = max_rounds
        self.num_leaves = num_leaves
        self.min_rows_in_leaf = min_rows_in_leaf
        self.l2 = l2
        self.damping = damping
        self.weight_rate = weight_rate
        self.scale_rate = scale_rate
        self.row_fraction = row_fraction
        self.column_fraction = column_fraction
        self.max_bins = max_bins
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.scale_floor = scale_floor
        self.guard = guard
        self.resolution = resolution
        self.categorical_features = categorical_features
        self.callbacks = callbacks
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        eval_set: Any = None,
        *,
        upper: Any = None,
        truncation: Any = None,
    ) -> "MixtureBoostingRegressor":
        """Grow the trees.

        Args:
            X: Features, (rows, columns): an array of numbers, or a data frame of pandas or polars,
                which may also hold text, categories, dates, true and false.
            y: Targets, (rows,) or (rows, columns); NaN as in `MDNRegressor.fit`.
            sample_weight: How much each row counts; a weight of zero is as if the row were not
                there.
            eval_set: (X, y) for early stopping instead of held-out rows, or (X, y, upper). The
                round that is best on these rows is kept; with early_stopping=False boosting still
                runs to the end.
            upper: Upper ends of censored targets, see `MDNRegressor.fit`.
            truncation: Windows in which targets had to lie, see `MDNRegressor.fit`.

        Raises:
            ImportError: If LightGBM is not installed.
        """
        boosting.import_lightgbm()
        if isinstance(self.family, str) and self.family == AUTO:
            return self._fit_auto(X, y, sample_weight, eval_set, upper=upper, truncation=truncation)
        settings = self.get_params(deep=False)
        parameters.check(settings)
        self.__dict__.pop("model_", None)
        table, target_ndim = self._read_table(
            X, y, sample_weight, upper=upper, truncation=truncation
        )
        settings = without_guard(settings, table, eval_set)
        settings["family"] = settle_name(
            settings["family"], table.y, known_names(X, y, table.y.shape[1])
        )
        family = parameters.family(settings)
        table = read_inside(family, self._round(table))
        watched = None if eval_set is None else self._read_eval_set(eval_set, table.y.shape[1])
        seed, held_out, seen = self._hold_out(settings, sample_weight, table, watched)
        coded = [] if self.table_ is None else self.table_.coded
        units = fit_units(family, seen, coded)
        job = Job(settings, seed, units, coded, table, held_out, watched)
        chosen, members = self._train(job)
        settings |= chosen
        outputs = parameters.outputs(settings, table.y.shape[1])
        judged = judge(
            outputs.family,
            units.of_guard(table),
            held_out,
            None if watched is None else units.of_guard(watched),
            [member.log_density for member in members],
            guard=settings["guard"],
            widest=units.targets.widest,
        )
        forests = tuple(member.forest for member in members)
        network = boosting.tree_predictor(
            outputs, len(members), units.plain.n_columns, judged.guard
        )
        targets, n_rows = units.targets, count_rows(table, sample_weight)
        model = make_model(targets, network, units.inputs(forests), self.resolution)
        self._keep_log_densities(n_rows, targets, table, held_out, judged.log_density)
        return self._keep(
            model,
            settings=settings,
            targets=targets,
            target_ndim=target_ndim,
            best=np.array([member.best_round for member in members]),
            diagnostics=self._diagnose(model, targets, table, judged, held_out, seen, watched),
            history={
                "train_nll": histories([member.train_nll for member in members]),
                "validation_nll": histories([member.validation_nll for member in members]),
            },
        )

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted estimator to one file that holds no code.

        Its parameters are those of the fit, whatever has been set since. `callbacks`, `n_jobs` and
        `verbose` are not kept, nor is a `random_state` that is no integer.
        """
        tree_file.save(path, self._to_saved())

    @classmethod
    def load(cls, path: str | os.PathLike) -> "MixtureBoostingRegressor":
        """Return the estimator that `save` wrote.

        Raises:
            ngem.estimator.model_file.FileError: If the file is damaged or not one of ours.
                Loading an untrusted file can fail, but never runs code from the file.
        """
        return cls._from_saved(tree_file.load(path))

    @property
    def weight_rate_(self) -> float:
        """Learning rate of the logits, relative to that of the means."""
        check_fitted(self)
        return float(self._fit_settings["weight_rate"])

    @property
    def feature_importances_(self) -> dict[str, np.ndarray]:
        """Fraction of the gain of all splits that each column has: of weights, means and scales."""
        check_fitted(self)
        outputs, n_features = self._outputs, self.model_.inputs.n_features
        gains = np.zeros((outputs.num_raw, n_features))
        for forest in self.model_.inputs.forests:
            gains += forest.trees.gains(outputs.num_raw, n_features)
        return {name: _fractions(gains[rows].sum(axis=0)) for name, rows in self._places.items()}

    def shap_values(self, X: Any, of: str = "means") -> np.ndarray:
        """Return what each column adds to the raw outputs of each member: exact SHAP values.

        The sum over the last axis is the raw output itself, in units of the standardized target:
        a mean, the logarithm of a scale (above `scale_floor`), or the logarithm of a weight up to
        a constant for each row. The predicted mean, sum of weight times mean, is no sum of trees:
        it has no such exact values unless there is one component.

        Args:
            X: Features.
            of: "weights", "means" or "scales".

        Returns:
            (rows, members, outputs, columns + 1); the last column is what is there without any.
        """
        x = self._read_features(X)
        places = self._places[_errors.check_choice("of", of, self._places)]
        inputs = self.model_.inputs
        read = inputs.complete(x)
        each = [forest.contributions(read)[:, places] for forest in inputs.forests]
        return np.stack(each, axis=1)

    @property
    def _outputs(self) -> boosting.Outputs:
        return parameters.outputs(self._fit_settings, self.n_outputs_)

    @property
    def _places(self) -> dict[str, np.ndarray]:
        """Places of the weights, means and scales among the raw outputs."""
        kinds = np.array(self._outputs.kinds)
        return {f"{kind}s": np.flatnonzero(kinds == kind) for kind in ("weight", "mean", "scale")}

    @property
    def _best(self) -> np.ndarray:
        return self.best_round_

    def _keep_best(self, best: np.ndarray) -> None:
        self.best_round_ = best
        self.n_iter_ = self.history_["train_nll"].shape[1] - 1

    @property
    def _takes_gaps(self) -> bool:
        return True

    def _train(self, job: Job) -> tuple[dict[str, Any], list[boosting.Boosted]]:
        """Train all members; then close the callbacks that can be closed."""
        bars = [ProgressBar("trees {}, round")] if self.verbose else []
        callbacks = [*self.callbacks, *bars]
        try:
            return train_members(job, callbacks)
        finally:
            close(callbacks)


def _fractions(gains: np.ndarray) -> np.ndarray:
    """Return gains that sum to one; zeros where no tree has split."""
    return gains / (gains.sum() or 1.0)
