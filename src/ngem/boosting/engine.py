"""LightGBM, and all that the library knows of it: tables, rounds of trees, and their outputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from .curvature import Curvature, Newton, Outputs, in_units, newton, row_nll, weighted
from .evaluate import Evaluator, suits
from .team import ALONE, Team
from .trees import Trees, parse_trees

#: Trees of 31 leaves that fit into a core's fastest cache.
_FEW_TREES = 16

#: Up to so many rows, LightGBM takes all trees at once.
_FEW_ROWS = 64

#: Rows, at least, that tell whether a tree has changed any.
_FEW_CHANGES = 1000

#: A common step of raw outputs that is not worth a round.
_LEAST_STEP = 1e-6


_weighted = jax.jit(weighted, static_argnums=(0, 1))
_in_units = jax.jit(in_units, static_argnums=(0, 1))


def import_lightgbm() -> Any:
    """Return LightGBM, or say how to install it."""
    try:
        import lightgbm
    except ImportError as error:
        raise ImportError(
            "MixtureBoostingRegressor needs LightGBM, which is not installed; try "
            "pip install 'ngem[boost]'."
        ) from error
    return lightgbm


@dataclass(frozen=True)
class TreeSettings:
    """How trees are grown.

    Attributes:
        learning_rate: Fraction of each step that is taken.
        num_leaves: Leaves of a tree at most.
        min_rows_in_leaf: Rows of a leaf at least.
        l2: Penalty of a leaf's squared step, in rows: a leaf of so many rows takes half its step.
        row_fraction: Fraction of the rows that a round sees.
        column_fraction: Fraction of the columns that a tree sees, two of them at least.
        max_bins: Distinct values of a column at most, after binning.
    """

    learning_rate: float = 0.05
    num_leaves: int = 31
    min_rows_in_leaf: int = 20
    l2: float = 0.0
    row_fraction: float = 1.0
    column_fraction: float = 1.0
    max_bins: int = 255

    def to_lightgbm(
        self, num_raw: int, shape: tuple[int, int], seed: int, threads: int
    ) -> dict[str, Any]:
        """Return LightGBM's parameters; the same trees for any number of threads.

        Args:
            num_raw: Raw outputs, each of which has a tree in a round.
            shape: Rows and columns.
            seed: Seed of the rows and columns that a round sees.
            threads: Threads to use.
        """
        n_rows, n_columns = shape
        # LightGBM chooses one of two or four columns by the last bits of its random numbers, which
        # repeat. With an even number of trees a round, an output would see one column forever.
        column_fraction = min(1.0, max(self.column_fraction, 2 / n_columns))
        samples_rows = self.row_fraction < 1 <= self.row_fraction * n_rows
        return {
            "objective": "none",
            "num_class": num_raw,
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "min_data_in_leaf": self.min_rows_in_leaf,
            "min_sum_hessian_in_leaf": 1e-3,
            "lambda_l2": self.l2,
            "bagging_fraction": self.row_fraction,
            "bagging_freq": int(samples_rows),
            "feature_fraction": column_fraction,
            "seed": seed,
            "num_threads": threads,
            **self._of_tables(),
        }

    def _of_tables(self) -> dict[str, Any]:
        """Return the parameters that also decide how a table is binned."""
        return {
            "max_bin": self.max_bins,
            "feature_pre_filter": False,
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }

    def bin_rows(
        self, x: np.ndarray, categorical: Sequence[int], threads: int, like: Any = None
    ) -> Any:
        """Return rows as LightGBM keeps them, binned as another table if one is given."""
        return (
            import_lightgbm()
            .Dataset(
                x,
                reference=like,
                categorical_feature=list(categorical),
                params={**self._of_tables(), "num_threads": threads},
            )
            .construct()
        )


@dataclass
class Forest:
    """Trees of all raw outputs, and the raw outputs that they start from.

    Attributes:
        start: Raw outputs before the first round.
        trees: The trees, one for each raw output in a round.
        n_columns: Columns of the rows that they split.
    """

    start: Float[np.ndarray, " raw"]
    trees: Trees
    n_columns: int
    _booster: Any = field(default=None, repr=False, compare=False)
    _evaluators: tuple[Evaluator | None, ...] = field(default=(), repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_booster": None, "_evaluators": ()}

    @property
    def booster(self) -> Any:
        """LightGBM's own object, made from the trees on first use."""
        if self._booster is None:
            text = self.trees.to_text(len(self.start), self.n_columns)
            self._booster = import_lightgbm().Booster(model_str=text)
        return self._booster

    @property
    def evaluator(self) -> Evaluator | None:
        """What evaluates the trees, made on first use; None if LightGBM must."""
        if not self._evaluators:
            trees = self.trees
            self._evaluators = (Evaluator(trees, len(self.start)) if suits(trees) else None,)
        return self._evaluators[0]

    def raw(self, x: np.ndarray) -> Float[np.ndarray, "batch raw"]:
        """Return the raw outputs of each row, in single precision, by one thread."""
        if not self._is_grown or not len(x):
            steps = np.zeros((len(x), len(self.start)))
        elif self.evaluator is not None:
            steps = self.evaluator(x)
        else:
            steps = self._by_lightgbm(x)
        return (steps + self.start).astype(np.float32)

    @property
    def _is_grown(self) -> bool:
        return len(self.trees.num_leaves) > 0

    def _by_lightgbm(self, x: np.ndarray) -> Float[np.ndarray, "batch raw"]:
        """Return the sums of steps; many rows go through a few trees at a time."""
        if len(x) <= _FEW_ROWS:
            return self.booster.predict(x, raw_score=True, num_threads=1)
        # A few trees fit into a core's cache. But each call copies all rows.
        rounds = -(-max(_FEW_TREES, x.shape[1] // 4) // len(self.start))
        steps = np.zeros((len(x), len(self.start)))
        for first in range(0, self.booster.current_iteration(), rounds):
            steps += self.booster.predict(
                x, raw_score=True, num_threads=1, start_iteration=first, num_iteration=rounds
            )
        return steps

    def contributions(self, x: np.ndarray) -> Float[np.ndarray, "batch raw terms"]:
        """Return what each column adds to each raw output, and last what is there without any.

        LightGBM's exact SHAP values: their sum is the raw output.
        """
        terms = np.zeros((len(x), len(self.start), x.shape[1] + 1))
        if self._is_grown and len(x):
            terms += self.booster.predict(x, pred_contrib=True).reshape(terms.shape)
        terms[:, :, -1] += self.start
        return terms


class Rows(NamedTuple):
    """Binned rows with standardized targets.

    Attributes:
        binned: LightGBM's table.
        y: Targets, rows last, in single precision.
        weights: How much each row counts, in single precision.
    """

    binned: Any
    y: Float[np.ndarray, "dim batch"]
    weights: Float[np.ndarray, " batch"]

    @property
    def can_split(self) -> bool:
        """Whether any column has two values; LightGBM may refuse to grow trees without one."""
        columns = range(self.binned.num_feature())
        return any(self.binned.feature_num_bin(column) > 1 for column in columns)

    def take(self, rows: Int[np.ndarray, " part"]) -> "Rows":
        """Return some of the rows, binned as all of them; rows are ascending."""
        part = self.binned.subset(rows).construct()
        return Rows(part, np.ascontiguousarray(self.y[:, rows]), self.weights[rows])


class Boosted(NamedTuple):
    """A trained member.

    Attributes:
        forest: Its trees up to the best round.
        train_nll: Mean negative log-likelihood of the training rows after each round, from none on.
        validation_nll: The same for the rows that stop it; NaN without such rows.
        best_round: Rounds that are kept.
        log_density: Log density of each row that stops it.
    """

    forest: Forest
    train_nll: Float[np.ndarray, " round"]
    validation_nll: Float[np.ndarray, " round"]
    best_round: int
    log_density: Float[np.ndarray, " held_out"]


@dataclass(frozen=True)
class Plan:
    """How to boost.

    Attributes:
        outputs: What the raw outputs stand for.
        curvature: How steps are scaled.
        trees: How trees are grown.
        max_rounds: Rounds at most.
        patience: Rounds without improvement before stopping; None runs to the end.
        threads: Threads of one member.
        team: The processes that grow a member together, each from its own rows.
    """

    outputs: Outputs
    curvature: Curvature
    trees: TreeSettings
    max_rounds: int
    patience: int | None
    threads: int
    team: Team = ALONE


class _Judge:
    """Likelihood of the rows that stop a member, after each round."""

    def __init__(self, plan: Plan, rows: Rows | None, start: np.ndarray) -> None:
        self._outputs, self._team, self._rows = plan.outputs, plan.team, rows
        self.curve: list[float] = []
        self.best = 0
        self.log_density = np.empty(0)
        if rows is not None:
            self._y, self._weights = jnp.asarray(rows.y), rows.weights.astype(np.float64)
            self.add(np.broadcast_to(start[None], (rows.y.shape[1], len(start))), None)
        else:
            self.curve.append(float("nan"))

    def add(
        self, raw: np.ndarray, data: Any, shift: float | np.ndarray = 0.0
    ) -> tuple[str, float, bool]:
        """Take in the raw outputs after a round, as LightGBM hands them out, and their shift."""
        del data
        losses = np.asarray(row_nll(self._outputs, _single(raw + shift), self._y), np.float64)
        sums = np.array([np.sum(losses * self._weights), np.sum(self._weights)])
        nll = float(np.divide(*self._team.added(sums)))
        if not self.curve or nll < self.curve[self.best]:
            self.best, self.log_density = len(self.curve), -losses
        self.curve.append(nll)
        return "nll", nll, False


class _Grower:
    """Rounds of trees, and steps that all rows of an output take together.

    LightGBM drops a tree without a split. But where all rows ask for the same step, no split gains
    anything: once every error is small, all log scales should fall alike. Such an output takes the
    step of a leaf that holds all rows.

    Attributes:
        shift: Sum of these steps, for each raw output.
        curve: Mean negative log-likelihood of the training rows before each round.
        until: For each number of rounds, how many of LightGBM's are kept, and the shift.
    """

    def __init__(self, plan: Plan, rows: Rows) -> None:
        self._plan, self._y, self._weights = plan, jnp.asarray(rows.y), jnp.asarray(rows.weights)
        self._every = max(1, rows.y.shape[1] // _FEW_CHANGES)
        self.shift = np.zeros(plan.outputs.num_raw)
        self.curve: list[float] = []
        self.until: list[tuple[int, np.ndarray]] = [(0, self.shift)]

    def grow(self, booster: Any) -> bool:
        """Add a round; return whether it moved any output."""
        with self._plan.team.talking():
            booster.update(fobj=self.step)
        booster.eval_train(self._shift_unsplit)
        self.until.append((booster.current_iteration(), self.shift))
        return self._moved

    def step(self, raw: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient and curvature of all rows, as LightGBM asks for them."""
        del data
        plan, rows = self._plan, _single(raw + self.shift)
        step = self._newton(rows)
        grad, curvature = np.asarray(step.grad), np.asarray(step.curvature)
        slope, total = plan.team.added(
            np.stack([part.sum(axis=1, dtype=np.float64) for part in (grad, curvature)])
        )
        total = total + plan.trees.l2
        leaf = -slope / np.where(total > 0, total, 1.0)
        self._common, self._before = plan.trees.learning_rate * leaf, raw[:: self._every].copy()
        self.curve.append(float(step.nll))
        return grad.T, curvature.T

    def _newton(self, raw: Any) -> Newton:
        """Return gradient and curvature of this process's rows, in units of those of all rows."""
        plan = self._plan
        of, given = (plan.outputs, plan.curvature), (raw, self._y, self._weights)
        if plan.team.n_processes == 1:
            return newton(*of, *given)
        grad, positive, sums = _weighted(*of, *given)
        return _in_units(*of, grad, positive, plan.team.added(np.asarray(sums)).astype(np.float32))

    def _shift_unsplit(self, raw: np.ndarray, data: Any) -> tuple[str, float, bool]:
        """Take the common step of each output whose tree has not changed any row."""
        del data
        is_split = (raw[:: self._every] != self._before).any(axis=0)
        is_split = self._plan.team.added(is_split.astype(float)) > 0
        steps = np.where(is_split, 0.0, self._common)
        self.shift = self.shift + steps
        self._moved = bool(is_split.any() or (abs(steps) > _LEAST_STEP).any())
        return "shift", 0.0, False


def boost(
    plan: Plan,
    train: Rows,
    held_out: Rows | None,
    start: Float[np.ndarray, " raw"],
    seed: int,
    report: Callable[[int, float, float, float], None] = lambda *_: None,
) -> Boosted:
    """Return a member, grown round by round and stopped by the likelihood of held-out rows.

    Args:
        plan: How to boost.
        train: Rows to grow trees from.
        held_out: Rows to stop by, or None.
        start: Raw outputs before the first round.
        seed: Seed of rows and columns that a round sees.
        report: Called after each round with its number, both likelihoods and the best so far.
    """
    booster = _start_booster(plan, train, held_out, start, seed)
    grower, judge = _Grower(plan, train), _Judge(plan, held_out, start)
    rounds, most = 0, plan.max_rounds if train.can_split else 0
    while rounds < most and grower.grow(booster):
        if not np.isfinite(grower.curve[-1]):
            rounds -= 1  # the last round has gone too far
            break
        rounds += 1
        if held_out is not None:
            booster.eval_valid(partial(judge.add, shift=grower.shift))
        report(rounds, grower.curve[-1], judge.curve[-1], judge.curve[judge.best])
        if held_out and plan.patience and rounds - judge.best >= plan.patience:
            break
    if len(grower.curve) == rounds:  # unless a round that moved nothing has ended the loop
        booster.eval_train(lambda raw, data: ("nll", float(grower.step(raw, data)[0][0, 0]), False))
    best = max(judge.best if held_out is not None else rounds, 0)
    grown, shift = grower.until[best]
    text = booster.model_to_string(num_iteration=grown) if grown > 0 else None
    curve = judge.curve if held_out is not None else [float("nan")] * (rounds + 1)
    return Boosted(
        Forest(start + shift, parse_trees(text), train.binned.num_feature()),
        np.array(grower.curve)[: rounds + 1],
        np.array(curve)[: rounds + 1],
        best,
        plan.team.joined(judge.log_density),
    )


def _start_booster(
    plan: Plan, train: Rows, held_out: Rows | None, start: np.ndarray, seed: int
) -> Any:
    for rows in filter(None, (train, held_out)):
        rows.binned.set_init_score(np.repeat(start, rows.y.shape[1]))
    shape = (train.y.shape[1], train.binned.num_feature())
    settings = plan.trees.to_lightgbm(plan.outputs.num_raw, shape, seed, plan.threads)
    with plan.team.connecting() as network:
        booster = import_lightgbm().Booster(settings | network, train.binned)
    if held_out is not None:
        booster.add_valid(held_out.binned, "held out")
    return booster


def _single(raw: np.ndarray) -> Any:
    """Return raw outputs with the rows last, in single precision, without turning memory round."""
    return jnp.asarray(raw.T.astype(np.float32))
