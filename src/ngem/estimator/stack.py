"""The stack: several kinds of models, weighted by rows that they have not seen."""

import os
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from ..distributed import active_work
from ..ensemble import MOST_REPEATS
from . import model_file, stack_file, tree_file
from .boosting_regressor import MixtureBoostingRegressor
from .encoding import MOST_CATEGORIES, MOST_CATEGORIES_OF_TREES, Encoded, encode
from .file_parts import need
from .foreign import FoldedRegressor, is_density_estimator
from .interface import check_fitted, cloned
from .member_regressor import MemberRegressor
from .portfolio import KINDS, QUALITIES, make_kind
from .regressor import MDNRegressor
from .rules import (
    POSITIVE,
    Rule,
    check_rules,
    choice,
    integer,
    is_integer,
    number,
    optional,
    plain_value,
)
from .seeds import draw_seed
from .stacking import Combined, choose_repeats, combine, stack_models

#: The kind of model file of each estimator that a stack may hold.
FILE_KINDS: dict[type, str] = {
    MDNRegressor: model_file.KIND,
    MixtureBoostingRegressor: tree_file.KIND,
}

RULES: dict[str, Rule] = {
    "kinds": Rule(
        lambda v: v is None or _is_kinds(v),
        f"None, names among {', '.join(map(repr, KINDS))}, or pairs of a name and an estimator; "
        "no name twice",
        ("network", "trees"),
    ),
    "quality": choice(QUALITIES),
    "budget": optional(number(1e-3, 1e9, "a positive number of seconds", 60.0)),
    "n_members": integer(5, low=2),
    "n_repeats": Rule(
        lambda v: str(v) == "auto" or (is_integer(v, 1) and int(v) <= MOST_REPEATS),
        f"'auto' or an integer from 1 to {MOST_REPEATS}",
        2,
    ),
    "resolution": optional(number(*POSITIVE, 1.0)),
    "random_state": Rule(lambda v: True, "anything that scikit-learn takes", None),
    "verbose": integer(0, low=0),
}


#: What became of a kind, by whether it has a weight.
_OUTCOMES = {True: "used", False: "dropped: its weight was below a thousandth"}
_NO_TIME = "not fitted: the budget was used up"
_NO_LIBRARY = "not fitted: LightGBM is not installed (pip install 'ngem[boost]')"


def check(settings: Mapping[str, Any]) -> None:
    """Refuse a parameter that no fit could use, saying what it may be."""
    check_rules(settings, RULES)


class KindReport(NamedTuple):
    """What became of a kind.

    Attributes:
        name: Its name.
        seconds: How long its fit took; 0 if it did not run.
        oof_nll: Mean negative log density of held-out rows, in the user's units.
        weight: Its weight in the stack.
        outcome: "used", or why it is not.
    """

    name: str
    seconds: float
    oof_nll: float
    weight: float
    outcome: str

    @property
    def ran(self) -> bool:
        """Whether it was fitted."""
        return not np.isnan(self.oof_nll)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON can hold it: None for the likelihood of a kind that did not run."""
        return {**self._asdict(), "oof_nll": self.oof_nll if self.ran else None}


class DensityStack(MemberRegressor):
    """Predicts a distribution: networks and boosted trees together, weighted by held-out rows.

    Networks win on smooth tables and trees on stepped ones. Each kind is fitted in the same folds,
    so that every row has a log density from models that have not seen it. The weights maximize the
    log score of these rows. A mixture of mixtures is a mixture, so all predictions stay exact.

    >>> from ngem import DensityStack
    >>> def fit(X, y):
    ...     return DensityStack(quality="good", random_state=0).fit(X, y)

    Args:
        kinds (list or None): Names of `ngem.estimator.portfolio.KINDS`, or pairs of a name and an
            estimator: an `MDNRegressor` or `MixtureBoostingRegressor` with settings of your own, or
            any other with `fit` and a `predict_distribution` that returns a Gaussian `Mixture`.
            Those have no file format, so a stack that uses one cannot be saved. None takes those of
            `quality`.
        quality (str): "fast" is one kind of network, "good" adds trees and a network with dropout,
            "best" has all kinds.
        budget (float or None): Seconds after which no further kind begins; None for no limit. The
            first kind always runs.
        n_members (int): Folds: each member holds one part in so many of the rows out.
        n_repeats (int or "auto"): How many members of each kind hold each row out, so each kind has
            `n_members * n_repeats` members. Only rows that several members have not seen tell how
            wide the average of many should be. "auto" is 3 for up to 1,000 rows, 2 for up to
            20,000, and 1 for more rows, for very few, and for quality "fast".
        resolution (float or None): The step to which targets were rounded, such as 1 for whole
            numbers; see `MDNRegressor`. None takes targets as exact.
        random_state (int, RandomState or None): Seed of folds and of all kinds.
        verbose (int): 1 shows progress bars in a terminal, and lines elsewhere.

    Attributes:
        kinds_: What ran, its held-out likelihood, its weight, and what was dropped and why.
        estimators_: The fitted estimators by name, those in use only.
        width_: Factor of the scales of all components, chosen by held-out rows; 1 at most.
        oof_log_prob_: Log density of each row under the stack of members that have not seen it.
    """

    _most_categories = MOST_CATEGORIES_OF_TREES
    _common_categories = MOST_CATEGORIES

    estimators_: dict[str, Any]
    kinds_: list[KindReport]

    # Any: scikit-learn leaves the check of parameters to `fit`, which says what they may be.
    def __init__(
        self,
        kinds: Any = None,
        *,
        quality: Any = "good",
        budget: Any = None,
        n_members: Any = 5,
        n_repeats: Any = "auto",
        resolution: Any = None,
        random_state: Any = None,
        verbose: Any = 0,
    ):
        self.kinds = kinds
        self.quality = quality
        self.budget = budget
        self.n_members = n_members
        self.n_repeats = n_repeats
        self.resolution = resolution
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, upper: Any = None
    ) -> "DensityStack":
        """Fit all kinds and weigh them.

        Args:
            X: Features, (rows, columns): an array of numbers, NaN where a value is missing, or a
                data frame of pandas or polars, which may also hold text, categories, dates, true
                and false. Networks read an input for each category, trees read categories as they
                are.
            y: Targets, (rows,) or (rows, columns); NaN as in `MDNRegressor.fit`.
            sample_weight: How much each row counts.
            upper: Upper ends of censored targets, see `MDNRegressor.fit`.
        """
        settings = self.get_params(deep=False)
        check(settings)
        self.__dict__.pop("model_", None)
        table, target_ndim = self._read_table(X, y, sample_weight, upper=upper)
        if self.table_ is not None and not isinstance(X, Encoded):
            X = Encoded(encode(X, self.table_.features), self.table_)
        self._repeats = self._choose_repeats(len(table.y))
        fitted, skipped = self._fit_kinds(X, y, sample_weight, upper)
        models = [one.model for one in fitted.values()]
        combined = combine(models, self._round(table), sample_weight, self._repeats)
        self.kinds_ = [
            KindReport(name, one.seconds, float(nll), float(weight), _OUTCOMES[bool(weight)])
            for (name, one), nll, weight in zip(
                fitted.items(), combined.nll, combined.weights, strict=True
            )
        ]
        self.kinds_ += [
            KindReport(name, 0.0, np.nan, 0.0, reason) for name, reason in skipped.items()
        ]
        self.estimators_ = {
            kind.name: fitted[kind.name].model for kind in self.kinds_ if kind.weight
        }
        self.folds_, self.oof_log_prob_ = models[0].folds_, combined.log_density
        return self._keep(
            combined.model,
            settings=settings,
            target_ndim=target_ndim,
            best=np.zeros(0, int),
            diagnostics=self._gains(combined),
            history={},
        )

    def _choose_repeats(self, n_rows: int) -> int:
        """Return how many members of each kind hold each row out."""
        if self.n_repeats != "auto":
            return int(self.n_repeats)
        if self.kinds is None and self.quality == "fast":
            return 1
        return choose_repeats(n_rows)

    def _fit_kinds(
        self, X: Any, y: Any, sample_weight: Any, upper: Any
    ) -> tuple[dict[str, "_Fitted"], dict[str, str]]:
        """Return the fitted kinds by name, and why others were not fitted."""
        seed = draw_seed(self.random_state)
        unfitted = dict(map(self._estimator, self.kinds or QUALITIES[self.quality]))
        fitted: dict[str, _Fitted] = {}
        skipped: dict[str, str] = {}
        start = time.perf_counter()
        for name in _in_turn(list(unfitted)):
            before, model = time.perf_counter(), unfitted[name]
            if fitted and self.budget is not None and before - start >= self.budget:
                skipped[name] = _NO_TIME
                continue
            if self.kinds is None and not _has_library(model):
                skipped[name] = _NO_LIBRARY
                continue
            shared = {"n_members": self.n_members, "resolution": self.resolution}
            model._repeats = self._repeats
            model.set_params(random_state=seed, **shared).fit(X, y, sample_weight, upper=upper)
            fitted[name] = _Fitted(model, round(time.perf_counter() - before, 2))
        return {name: fitted[name] for name in unfitted if name in fitted}, skipped

    def _estimator(self, kind: Any) -> tuple[str, Any]:
        """Return the name and a new estimator of a kind."""
        if not isinstance(kind, str):
            is_ours = type(kind[1]) in FILE_KINDS
            return kind[0], cloned(kind[1]) if is_ours else FoldedRegressor(cloned(kind[1]))
        return kind, make_kind(kind, verbose=self.verbose, missing="impute")

    def _gains(self, combined: Combined) -> dict[str, Any]:
        """Return how much better than simple models and than the best kind held-out rows are."""
        nll = combined.all_nll
        ran = [kind for kind in self.kinds_ if kind.ran]
        best = min(ran, key=lambda kind: kind.oof_nll)
        used = next(kind for kind in ran if kind.weight)
        facts = self.estimators_[used.name].diagnostics_
        gains = {
            name: None if facts[name] is None else facts[name] + used.oof_nll - nll
            for name in ("gain_over_gaussian", "gain_over_linear")
        }
        kept = ("nll_offset", "outlier_rows", "training_rows", "validation_rows")
        return {
            **gains,
            **{name: facts[name] for name in kept},
            "oof_nll": nll,
            "best_kind": best.name,
            "gain_over_best_kind": best.oof_nll - nll,
            "width": combined.width.factor,
            "gain_of_width": combined.width.gain,
        }

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted stack to one file that holds no code.

        `verbose` is not kept, nor is a `random_state` that is no integer.
        """
        stack_file.save(path, self._to_saved())

    def _to_saved(self) -> Any:
        check_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        kept = stack_file.SETTINGS
        return stack_file.SavedStack(
            settings={name: plain_value(self._fit_settings[name]) for name in kept},
            parts=[self._to_part(kind) for kind in self.kinds_ if kind.weight],
            reports=[list(kind.plain().values()) for kind in self.kinds_],
            feature_names=None if names is None else [str(name) for name in names],
            n_features=self.model_.inputs.n_features,
            target_ndim=self.target_ndim_,
            diagnostics=self.diagnostics_,
            table=self.table_,
            fit_info=self.fit_info_,
            held_out_pit=self.held_out_pit_,
        )

    def _to_part(self, kind: KindReport) -> stack_file.SavedPart:
        estimator = self.estimators_[kind.name]
        if type(estimator) not in FILE_KINDS:
            raise ValueError(
                "a stack must hold kinds of ngem's own to be saved, because a file holds no code, "
                f"got {kind.name!r}; fit it without that kind, or keep it in memory."
            )
        return stack_file.SavedPart(
            kind.name, FILE_KINDS[type(estimator)], kind.weight, estimator._to_saved()
        )

    @classmethod
    def load(cls, path: str | os.PathLike) -> "DensityStack":
        """Return the stack that `save` wrote; its `kinds` are those in use.

        Raises:
            ngem.estimator.model_file.FileError: If the file is damaged or not one of ours.
                Loading an untrusted file can fail, but never runs code from the file.
        """
        return cls._from_saved(stack_file.load(path))

    @classmethod
    def _from_saved(cls, saved: Any) -> "DensityStack":
        for name, value in saved.settings.items():
            need(RULES[name].test(value), f"{name} of {RULES[name].expected}", value)
        kinds = {kind: estimator for estimator, kind in FILE_KINDS.items()}
        estimators = {part.name: kinds[part.kind]._from_saved(part.saved) for part in saved.parts}
        unfitted = [(name, cloned(estimator)) for name, estimator in estimators.items()]
        self = cls(unfitted, **saved.settings, random_state=saved.fit_info.random_state)
        self._know_columns(saved.table, saved.feature_names, saved.n_features)
        self.estimators_ = estimators
        self.kinds_ = [
            KindReport(name, seconds, np.nan if nll is None else nll, weight, outcome)
            for name, seconds, nll, weight, outcome in saved.reports
        ]
        self._keep(
            stack_models(
                [one.model_ for one in estimators.values()],
                np.array([part.weight for part in saved.parts]),
                np.zeros((1, saved.n_features)),
                saved.diagnostics["width"],
            ),
            settings=self.get_params(deep=False),
            target_ndim=saved.target_ndim,
            best=np.zeros(0, int),
            diagnostics=saved.diagnostics,
            history={},
        )
        self.fit_info_, self.held_out_pit_ = saved.fit_info, saved.held_out_pit
        self.folds_ = self.oof_log_prob_ = None
        return self

    @property
    def width_(self) -> float:
        """Factor of the scales of all components, chosen by held-out rows; 1 at most."""
        return self.diagnostics_["width"]

    @property
    def n_components_(self) -> int:
        """Components of the mixture of all members together."""
        return self.model_.network.n_components

    @property
    def _best(self) -> np.ndarray:
        return np.zeros(0, int)

    def _keep_best(self, best: np.ndarray) -> None:
        del best

    @property
    def _takes_gaps(self) -> bool:
        return True


def _in_turn(names: list[str]) -> list[str]:
    """Return the kinds in the order of fitting: each process that shares work begins elsewhere."""
    work = active_work()
    first = 0 if work is None else work.turn % len(names)
    return names[first:] + names[:first]


def _has_library(model: Any) -> bool:
    """Return whether what a kind needs is installed; trees need an extra."""
    return not isinstance(model, MixtureBoostingRegressor) or bool(find_spec("lightgbm"))


class _Fitted(NamedTuple):
    """A fitted estimator and how long its fit took."""

    model: Any
    seconds: float


def _is_kinds(value: Any) -> bool:
    listed = isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0
    if not (listed and all(map(_is_kind, value))):
        return False
    names = [kind if isinstance(kind, str) else kind[0] for kind in value]
    return len(set(names)) == len(names)


def _is_kind(value: Any) -> bool:
    if isinstance(value, str):
        return value in KINDS
    is_pair = isinstance(value, Sequence) and len(value) == 2 and isinstance(value[0], str)
    return is_pair and is_density_estimator(value[1])
