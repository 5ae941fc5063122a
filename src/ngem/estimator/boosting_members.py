"""Training of the members of a boosted estimator: each holds out rows of its own."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .. import _files
from ..boosting import Boosted, Forest, Rows, Team, boost, marginal_start, to_intervals
from ..distributed import active_mesh, active_work
from ..distributed.exchange import process_place
from ..distributed.mesh import agree, check_agreement
from ..families import AbstractFamily
from ..training import Progress, run_shared
from ..training.parallel import Watch
from . import boosting_parameters as parameters
from .deciding import Candidate, train_best
from .members import member_seed, others, work_identity, work_name
from .preprocessing import Inputs, Table, fit_inputs
from .targets import TargetUnits, fit_targets
from .tree_file import forest_arrays, read_forest
from .tree_inputs import TreeInputs

_KIND, _VERSION = "ngem.trees", 1

#: What the file of a member holds beside its trees.
_CURVES = ("train_nll", "validation_nll", "log_density")


class Units(NamedTuple):
    """How a user's rows relate to what members and guard see.

    Attributes:
        plain: How the columns of numbers become the guard's features.
        columns: These columns.
        fill: What replaces a missing value of each column; NaN where the trees have seen some.
        targets: How targets become what trees learn.
    """

    plain: Inputs
    columns: Int[np.ndarray, " number"]
    fill: Float[np.ndarray, " column"]
    targets: TargetUnits

    def of_guard(self, table: Table) -> Table:
        """Return rows as the guard reads them, in single precision."""
        return Table(
            self.plain.forward(table.x[:, self.columns]),
            self.targets.forward(table.y),
            table.weights,
            None if table.ends is None else self.targets.forward_ends(table.ends),
        )

    def inputs(self, forests: tuple[Forest, ...]) -> TreeInputs:
        """Return how features become inputs of the predictor."""
        return TreeInputs(forests, self.plain, self.columns, self.fill)


def fit_units(family: AbstractFamily, seen: Table, coded: Sequence[int]) -> Units:
    """Return the units of the rows that members see; some columns are codes of categories."""
    every = np.arange(seen.x.shape[1])
    # A table of categories alone has no numbers: the guard reads those of the categories.
    columns = others(len(every), np.array(coded, int))
    columns = columns if len(columns) else every
    plain = fit_inputs(seen.x[:, columns], seen.weights)
    fill = np.full(len(every), np.nan)
    fill[columns] = plain.fill
    fill[columns[plain.flagged]] = np.nan
    fill[list(coded)] = np.nan
    return Units(plain, columns, fill, fit_targets(family, seen))


class Job(NamedTuple):
    """What the members have in common.

    Attributes:
        settings: The estimator's parameters.
        seed: Seed of the first member.
        units: Units of the rows.
        categorical: Columns of categories.
        table: All rows.
        held_out: Rows that each member holds out to stop by; may be none.
        watched: Rows of the user's to stop by instead, or None.
    """

    settings: Mapping[str, Any]
    seed: int
    units: Units
    categorical: Sequence[int]
    table: Table
    held_out: Sequence[Int[np.ndarray, " held_out"]]
    watched: Table | None

    def of(self, kind: Mapping[str, Any]) -> "Job":
        """Return the same with some other settings."""
        return self._replace(settings={**self.settings, **kind})


def train_members(
    job: Job, callbacks: Sequence[Callable[[Progress], Any]]
) -> tuple[dict[str, Any], list[Boosted]]:
    """Return the settings that held-out rows of the first folds chose, and all members.

    Members are trained side by side with one core each; one by itself has all cores. On a mesh of
    several processes all of them grow one member at a time, each from its part of the rows.
    """
    cores, team = parameters.cores(job.settings), Team(active_mesh())
    if team.mesh is not None:
        check_agreement(team.mesh, work_identity(*_known(job)))
    rows = _binned(job, job.table, cores)
    watched = None if job.watched is None else _binned(job, job.watched, cores, rows.binned)
    n_members = 1 if team.n_processes > 1 else len(job.held_out)
    threads = parameters.threads(job.settings, n_members, len(job.table.y))
    lock, name = threading.Lock(), _job_name(job)

    def report(progress: Progress) -> None:
        with lock:
            for callback in callbacks:
                callback(progress)

    def train(candidates: list[Candidate]) -> list[Boosted]:
        pieces = {
            f"{name}.{one.number}": partial(
                _train_or_read, job.of(one.kind), one, rows, watched, threads, team, report
            )
            for one in candidates
        }
        return run_shared(pieces, 1 if team.n_processes > 1 else cores)

    return train_best(_kinds(job), len(job.held_out), train, _held_out_loss)


def _kinds(job: Job) -> list[dict[str, Any]]:
    """Return the settings to choose from: several if the user leaves them open."""
    kinds = parameters.kinds(job.settings)
    is_judged = job.watched is not None or len(job.held_out[0]) > 0
    return kinds if len(job.held_out) > 1 and is_judged else kinds[:1]


def _held_out_loss(member: Boosted) -> float:
    """Return the likelihood that stopped a member."""
    return float(np.min(member.validation_nll))


def _job_name(job: Job) -> str:
    """Return the name of the work, where processes share it."""
    if active_work() is None:
        return ""
    return work_name("trees", *_known(job))


def _known(job: Job) -> tuple[dict[str, Any], int, Any]:
    """Return settings, seed and arrays that the members depend on."""
    arrays = (job.table, job.categorical, job.held_out, job.watched)
    settings = {**parameters.plain(job.settings), "categorical": list(job.categorical)}
    return settings, job.seed, arrays


def _train_or_read(
    job: Job,
    candidate: Candidate,
    rows: Rows,
    watched: Rows | None,
    threads: int,
    team: Team,
    report: Callable[[Progress], None],
    file: Path | None,
    watch: Watch,
) -> Boosted:
    """Return a member, from its file if there is one; where processes share work it gets one."""
    # Processes of a team must do the same: the first one tells whether there is a file.
    if file is not None and agree(team.mesh, file.exists()):
        return _read(file, job)
    member = _train(job, candidate, rows, watched, threads, team, report, watch)
    if file is not None and process_place(team.mesh)[0] == 0:
        _write(file, member)
    return member


def _write(file: Path, member: Boosted) -> None:
    arrays = {
        **forest_arrays("forest", member.forest),
        **{name: getattr(member, name) for name in _CURVES},
    }
    header = {"best_round": int(member.best_round)}
    _files.write(file, arrays, header, kind=_KIND, version=_VERSION)


def _read(file: Path, job: Job) -> Boosted:
    arrays, header = _files.read(file, kind=_KIND, version=_VERSION)
    outputs = parameters.outputs(job.settings, job.table.y.shape[1])
    best, n_features = header["best_round"], job.table.x.shape[1]
    forest = read_forest(arrays, "forest", outputs.num_raw, best, n_features, job.settings)
    train, validation, log_density = (arrays[name] for name in _CURVES)
    return Boosted(forest, train, validation, best, log_density)


def _binned(job: Job, table: Table, cores: int, like: Any = None) -> Rows:
    weights = np.ones(len(table.y)) if table.weights is None else table.weights
    return Rows(
        parameters.trees(job.settings).bin_rows(table.x, job.categorical, cores, like),
        np.ascontiguousarray(job.units.targets.forward_given(table).T),
        weights.astype(np.float32),
    )


def _train(
    job: Job,
    candidate: Candidate,
    rows: Rows,
    watched: Rows | None,
    threads: int,
    team: Team,
    report: Callable[[Progress], None],
    watch: Callable[[Progress], None],
) -> Boosted:
    """Train one member."""
    index, started = candidate.member, time.perf_counter()
    seed = member_seed(job.seed, index)
    plan = parameters.plan(job.settings, job.table.y.shape[1], threads, team)
    held_out = job.held_out[index]
    kept = others(len(job.table.y), held_out)
    train, y = rows.take(team.own(kept)), job.units.targets.forward(job.table.y[kept])
    stop_by = rows.take(team.own(held_out)) if len(held_out) else watched
    if stop_by is watched and watched is not None:
        # A copy: members start differently.
        stop_by = watched.take(team.own(np.arange(watched.y.shape[1])))
    weights = rows.weights[kept]
    start = marginal_start(plan.outputs, y, weights, np.random.default_rng(seed))
    if job.table.has_intervals:
        start = to_intervals(plan.outputs, plan.curvature, start, rows.y[:, kept], weights)

    def after_round(number: int, train_nll: float, validation_nll: float, best: float) -> None:
        seconds = time.perf_counter() - started
        progress = Progress(
            number, plan.max_rounds, train_nll, validation_nll, best, 0, seconds, candidate.number
        )
        watch(progress)
        report(progress)

    return boost(plan, train, stop_by, start, seed, after_round)
