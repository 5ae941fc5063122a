"""Training of the members of an estimator: each holds out rows of its own."""

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from .. import training
from .._machine import available_cores
from ..distributed import active_mesh, active_work
from ..ensemble import make_folds
from ..nn import MixtureNetwork
from ..training import Progress
from ..training.checkpoints import (
    Checkpoint,
    arrays_identity,
    optimizer_identity,
    program_identity,
)
from ..training.parallel import Watch
from . import parameters
from .deciding import Candidate, train_best
from .preprocessing import Inputs, Table, split_rows
from .targets import TargetUnits

#: From one member to the next, the seed of its start and of its batches grows by this.
_NEXT_SEED = 1_000_003

#: What dropout="auto" chooses from.
_DROPOUTS = (0.0, 0.1)


class Job(NamedTuple):
    """What the members have in common.

    Attributes:
        settings: The estimator's parameters.
        seed: Seed of the first member.
        rows: All rows, as the networks read them.
        held_out: Rows that each member holds out to stop by; may be none.
        watched: Rows of the user's to stop by instead, or None.
        callbacks: Called after each epoch of each member.
        start: Networks to go on from, one for each member; None starts anew.
    """

    settings: Mapping[str, Any]
    seed: int
    rows: Table
    held_out: Sequence[Int[np.ndarray, " held_out"]]
    watched: Table | None
    callbacks: Sequence[Callable[[Progress], Any]]
    start: Sequence[MixtureNetwork] | None = None

    def start_network(self, number: int, rows: Table, seed: int) -> MixtureNetwork:
        """Return where a member starts from."""
        if self.start is not None:
            return self.start[number]
        return parameters.start_network(self.settings, rows.x, rows.y, seed)


class Member(NamedTuple):
    """A trained network, the log density of the rows that stopped it, and its dropout."""

    result: training.FitResult
    log_density: Float[np.ndarray, " held_out"]
    dropout: float


def choose_held_out(
    settings: Mapping[str, Any], n_rows: int, *, is_watched: bool, seed: int, repeats: int = 1
) -> list[Int[np.ndarray, " held_out"]]:
    """Return the rows that each member holds out, ascending; none if the user gives others.

    With `repeats` there are so many times more members, and so many of them hold each row out.
    """
    n_members = min(int(settings["n_members"]), n_rows)
    if is_watched or not settings["early_stopping"]:
        return [np.empty(0, int)] * (n_members * repeats)
    rng = np.random.default_rng(seed)
    if n_members == 1:
        return [split_rows(n_rows, float(settings["validation_fraction"]), rng)[1]]
    return list(make_folds(n_rows, n_members, rng, repeats))


def train_members(job: Job) -> list[Member]:
    """Return all members, trained side by side on all cores.

    With dropout="auto" held-out rows of the first folds choose it.
    """
    dropouts = _dropouts(job)
    return train_best(dropouts, len(job.held_out), partial(_train_all, job), _held_out_loss)[1]


def _dropouts(job: Job) -> tuple[float, ...]:
    """Return the dropouts to choose from: several if the user leaves it to held-out rows."""
    if job.settings["dropout"] != "auto":
        return (float(job.settings["dropout"]),)
    is_judged = job.watched is not None or len(job.held_out[0]) > 0
    has_choice = len(job.held_out) > 1 and is_judged and job.settings["network"] is None
    return _DROPOUTS if has_choice else _DROPOUTS[:1]


def _held_out_loss(member: Member) -> float:
    """Return the loss that stopped a member, in which no single row decides."""
    return float(member.result.state.best_loss)


def _train_all(job: Job, networks: Sequence[Candidate]) -> list[Member]:
    lock, name = threading.Lock(), _job_name(job)
    pieces = {
        f"{name}.{network.number}": partial(_train, job, network, lock) for network in networks
    }
    # On a mesh all devices work on one network at a time.
    return training.run_shared(pieces, 1 if active_mesh() is not None else available_cores())


def _job_name(job: Job) -> str:
    """Return the name of the work, where processes share it."""
    if active_work() is None:
        return ""
    settings = {**parameters.plain(job.settings), "network": job.settings["network"] is None}
    return work_name("networks", settings, job.seed, (job.rows, job.held_out, job.watched))


def work_name(kind: str, settings: Mapping[str, Any], seed: int, arrays: Any) -> str:
    """Return a name that work with other settings or rows does not have."""
    return f"{kind}-{work_identity(settings, seed, arrays)[:16]}"


def work_identity(settings: Mapping[str, Any], seed: int, arrays: Any) -> str:
    """Return a hash of all that work depends on."""
    known = f"{sorted(settings.items())} {seed} {arrays_identity(arrays)}"
    return hashlib.sha256(known.encode()).hexdigest()


def standardized(inputs: Inputs, targets: TargetUnits, table: Table) -> Table:
    """Return rows as the networks read them, in single precision."""
    weights = None if table.weights is None else np.asarray(table.weights, np.float32)
    intervals = (None if part is None else targets.forward_ends(part) for part in table[3:])
    return Table(inputs.forward(table.x), targets.forward(table.y), weights, *intervals)


def member_seed(seed: int, index: int) -> int:
    """Return the seed of a member's start and of its batches."""
    return (seed + index * _NEXT_SEED) % (2**31 - 1)


def others(n_rows: int, held_out: Int[np.ndarray, " held_out"]) -> Int[np.ndarray, " rest"]:
    """Return the rows that are not held out, ascending."""
    return np.setdiff1d(np.arange(n_rows), held_out, assume_unique=True)


def _train(
    job: Job, network: Candidate, lock: threading.Lock, file: Path | None, watch: Watch
) -> Member:
    """Train one network, whose kind is its dropout; a file keeps its progress."""
    job = job._replace(settings={**job.settings, "dropout": network.kind})
    settings, held_out = job.settings, job.held_out[network.member]
    seed = member_seed(job.seed, network.member)
    rows = job.rows.take(others(len(job.rows.y), held_out))
    train = to_device(rows)
    watched = job.rows.take(held_out) if len(held_out) else job.watched
    validation = None if watched is None else to_device(watched)
    start = job.start_network(network.member, rows, seed)
    plan, key = parameters.plan(settings, len(train.y)), jax.random.key(seed)
    resume = save = None
    file = checkpoint_file(settings, network.number) or file
    if file is not None:
        data = arrays_identity((train, validation))
        checkpoint = make_checkpoint(job, file, plan, start, train.x[0], data, seed)
        resume = checkpoint.load(training.initial_state(start, plan, key))
        save = checkpoint.save

    result = training.fit(
        start,
        train,
        plan,
        key=key,
        max_epochs=parameters.max_epochs(settings, len(train.y)),
        learning_rate=settings["learning_rate"],
        weight_decay=settings["weight_decay"],
        validation=validation,
        callbacks=[reporter(job, network.number, lock, watch)],
        resume=resume,
        save=save,
        mesh=active_mesh(),
    )
    if validation is None:
        return Member(result, np.empty(0), network.kind)
    log_density = -np.asarray(training.row_nll(result.network, validation), float)
    return Member(result, log_density, network.kind)


def reporter(
    job: Job, number: int, lock: threading.Lock, watch: Callable[[Progress], None]
) -> Callable[[Progress], None]:
    """Return what calls the callbacks after each epoch of a network, one network at a time."""

    def report(progress: Progress) -> None:
        watch(progress)
        with lock:
            for callback in job.callbacks:
                callback(progress._replace(member=number))

    return report


def to_device(rows: Table) -> training.Data:
    return training.Data(*jax.device_put((rows.x, rows.given, rows.weights)))


def checkpoint_file(settings: Mapping[str, Any], number: int) -> Path | None:
    """Return where a network keeps its progress: the user's file, or one beside it."""
    path = settings["checkpoint"]
    return None if path is None else Path(f"{path}.{number}" if number else path)


def make_checkpoint(
    job: Job,
    file: Path,
    plan: training.Plan,
    network: MixtureNetwork,
    row: Float[Array, " features"],
    data: str,
    seed: int,
) -> Checkpoint:
    """Return the checkpoint of a network.

    Args:
        job: What the members have in common.
        file: Where it is.
        plan: How the network is trained.
        network: Where it starts from.
        row: The inputs of a row.
        data: A hash of the rows.
        seed: Seed of the network.
    """
    known = {
        **parameters.plain(job.settings),
        "objective": repr(plan.resolved_objective),
        "optimizer": optimizer_identity(plan, network),
        "network": _network_identity(job.settings, network, row),
        "data": data,
        "seed": seed,
    }
    return Checkpoint(file, known)


def _network_identity(
    settings: Mapping[str, Any], network: MixtureNetwork, row: Float[Array, " features"]
) -> str:
    """Return what tells a network from others: its parameters, and what a user's own computes."""
    arrays = arrays_identity(network)
    if settings["network"] is None:
        return arrays
    return f"{arrays} {program_identity(lambda row: network(row), row)}"
