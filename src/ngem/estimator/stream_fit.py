"""From a stream to what an estimator is fitted to: all rows, or a sample and a feed of the rest."""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import training
from .._machine import claim_process
from ..distributed import active_mesh, active_work
from ..families import order_columns
from ..nn import Guard, MixtureNetwork
from ..streams import Stream, StreamError
from ..training import Progress
from . import encoding, parameters
from .feed import Encoder, StreamFeed
from .members import (
    Job,
    Member,
    checkpoint_file,
    make_checkpoint,
    member_seed,
    others,
    reporter,
    to_device,
    work_name,
)
from .preprocessing import Inputs, Table, check_units, held_out_count
from .schema import Schema
from .seeds import draw_seed
from .survey import Survey, survey, target_scaling
from .targets import TargetUnits, make_units, read_inside

#: Steps of a fit to a stream by default, and the passes that they are at least and at most.
_STEPS, _PASSES = 400_000, (3, 40)


class ToFit(NamedTuple):
    """What a fit needs to know of its rows.

    Attributes:
        settings: The estimator's parameters, resolved.
        target_ndim: 1 if the targets are a vector, 2 if they are columns.
        n_rows: Rows that have a number.
        table: The rows that count; of a stream beyond memory, a sample.
        watched: Rows of the user's to stop by, or None.
        seed: Seed of the first member.
        held_out: Rows of the table that each member holds out.
        seen: Rows that some member sees.
        units: How features and targets become what networks read; None to learn it from `seen`.
        train: Trains the members; None for the rows of the table.
        widen: Tells the guard the range of all rows; None if the table has them all.
        facts: Diagnostics that the table alone would get wrong.
        start: Networks to go on from, one for each member; None starts anew.
    """

    settings: dict[str, Any]
    target_ndim: int
    n_rows: int
    table: Table
    watched: Table | None
    seed: int
    held_out: Sequence[np.ndarray]
    seen: Table
    units: tuple[Inputs, TargetUnits] | None = None
    train: Callable[[Job], list[Member]] | None = None
    widen: Callable[[Guard | None], Guard | None] | None = None
    facts: Mapping[str, Any] = {}
    start: Sequence[MixtureNetwork] | None = None


def refuse_beside_stream(**given: Any) -> None:
    """Refuse arguments of `fit` that a stream cannot have."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"{name} must be None with a stream, got {type(value).__name__}; leave it out, or "
                "read the rows into memory."
            )


def read_stream(
    estimator: Any,
    stream: Stream,
    settings: dict[str, Any],
    units: tuple[Inputs, TargetUnits] | None = None,
) -> ToFit:
    """Return the rows of a stream to fit an estimator to, after one pass over it.

    Rows that fit into the window are read into memory. Then the fit is the same as of a table, but
    for the rows that are held out.

    Args:
        estimator: The estimator, which learns what the columns hold.
        stream: The rows.
        settings: Its parameters.
        units: Units of a fitted estimator that goes on; None to learn them.
    """
    claim_process()
    settings = {**settings, "family": order_columns(settings["family"], stream.targets)}
    family = parameters.named_family(settings)
    takes_gaps = settings["missing"] == "impute"
    is_rounded = settings["resolution"] is not None
    found = survey(stream, family, takes_gaps=takes_gaps, is_rounded=is_rounded)
    seed = draw_seed(settings["random_state"])
    if found.is_whole:
        return _in_memory(estimator, found, settings, seed, units)
    if is_rounded and family.base is not family:
        raise StreamError(
            f"resolution must be None for family={settings['family']!r} and rows beyond memory, "
            f"got {settings['resolution']!r}; leave one of them out."
        )
    return _beyond_memory(estimator, found, settings, seed, units)


def _in_memory(
    estimator: Any, found: Survey, settings: dict[str, Any], seed: int, units: Any
) -> ToFit:
    stream, rows = found.stream, found.sample.table
    x: Any = rows.select(stream.features)
    if stream.source.is_array:
        x = np.column_stack([column.to_numpy() for column in x.columns])
    elif units is None:
        categorical = stream.categorical or "auto"
        columns = encoding.describe(x, categorical=categorical, most=estimator._most_categories)
        gaps = "impute" if settings["missing"] == "impute" else "error"
        schema = Schema(columns, tuple(stream.targets), gaps)
        x = encoding.Encoded(encoding.encode(x, columns), schema)
    y = np.column_stack([rows[name].to_numpy() for name in stream.targets]).astype(float)
    y = y[:, 0] if stream.target_ndim == 1 else y
    known = None if units is None else estimator.n_outputs_
    table, target_ndim = estimator._read_table(x, y, n_outputs=known)
    table = read_inside(parameters.named_family(settings), estimator._round(table))
    dim, n_rows = table.y.shape[1], len(table.y)
    settings = parameters.resolve(settings, dim, n_rows, has_intervals=table.ends is not None)
    order = np.argsort(found.sample.hashes, kind="stable")
    folds = hold_out(found.sample.hashes[order], n_rows, settings, most=n_rows)
    held_out = [np.sort(order[rows]) for rows in folds]
    estimator.folds_ = held_out
    estimator.stream_rows_, estimator.stream_info_ = table, _info(found, None)
    seen = table if len(held_out) > 1 else table.take(others(n_rows, held_out[0]))
    return ToFit(settings, target_ndim, n_rows, table, None, seed, held_out, seen, units)


def _beyond_memory(
    estimator: Any, found: Survey, settings: dict[str, Any], seed: int, units: Any
) -> ToFit:
    stream = found.stream
    columns = found.columns(estimator._most_categories)
    if units is not None:
        columns = columns if estimator.table_ is None else estimator.table_.features
        _check_known(estimator, stream)
    elif stream.source.is_array:
        estimator.table_, estimator.n_features_in_ = None, len(columns)
    else:
        gaps = "impute" if settings["missing"] == "impute" else "error"
        estimator.table_ = Schema(columns, tuple(stream.targets), gaps)
        estimator._name_columns(estimator.table_)
    encoder = Encoder(stream, columns, settings["resolution"])
    rows = found.sample.table
    y = np.column_stack([rows[name].to_numpy() for name in stream.targets]).astype(float)
    table = encoder.table(rows, y)
    settings = parameters.resolve(
        settings, y.shape[1], found.n_rows, has_intervals=table.ends is not None
    )
    settings["max_epochs"] = max_epochs(settings, found.n_rows)
    if settings["dropout"] == "auto":
        settings["dropout"] = 0.0  # rows are plenty, and choosing would take four more runs
    units = units or _units(found, columns, table, settings)
    held_out = hold_out(found.sample.hashes, found.n_rows, settings, most=len(table.y) // 2)
    estimator.folds_, estimator.stream_rows_ = list(held_out), table
    estimator.stream_info_ = info = _info(found, encoder)
    return ToFit(
        settings,
        stream.target_ndim,
        len(table.y),
        table,
        None,
        seed,
        held_out,
        table,
        units,
        partial(_train_members, found, encoder, units, info),
        partial(_widen, found, columns, units),
        {"training_rows": found.n_rows - (len(held_out[0]) if len(held_out) == 1 else 0)},
    )


def _check_known(estimator: Any, stream: Stream) -> None:
    """Refuse a stream without the columns that a fitted estimator knows."""
    known = stream.features if estimator.table_ is None else estimator.table_.names
    fits = len(known) == estimator.n_features_in_ and len(stream.targets) == estimator.n_outputs_
    if not fits or set(known) - set(stream.features):
        raise StreamError(
            f"the stream must have the columns of the fitted model, {known}, and "
            f"{estimator.n_outputs_} targets, got {stream.features} and {stream.targets}."
        )


def _info(found: Survey, encoder: Encoder | None) -> dict[str, Any]:
    return {
        "rows": found.n_rows,
        "in_memory": encoder is None,
        "row_groups": len(found.stream.source.pieces),
        "window_rows": found.n_rows,
        "copy_seconds": 0.0,
        "wait_seconds": 0.0,
    }


def max_epochs(settings: Mapping[str, Any], n_rows: int) -> int:
    """Return how many passes over a stream to make: about 400,000 steps, in 3 to 40 passes."""
    if settings["max_epochs"] is not None:
        return int(settings["max_epochs"])
    steps = -(-n_rows // int(settings["batch_size"]))
    return int(np.clip(_STEPS // steps, *_PASSES))


def hold_out(
    hashes: np.ndarray, n_rows: int, settings: Mapping[str, Any], *, most: int
) -> list[np.ndarray]:
    """Return the rows that each member holds out, by their place in the order of hashes.

    They are those with the smallest hashes. Rows of equal hashes stay together.

    Args:
        hashes: The smallest hashes of the stream, ascending.
        n_rows: Rows of the stream.
        settings: The estimator's parameters.
        most: Rows to hold out at most, of all members together.
    """
    n_members = min(int(settings["n_members"]), n_rows)
    if not settings["early_stopping"]:
        return [np.empty(0, int)] * n_members
    fraction = float(settings["validation_fraction"])
    count = min(most, held_out_count(n_rows, fraction) if n_members == 1 else n_rows)
    distinct, first = np.unique(hashes, return_index=True)
    if count == 0:
        return [np.empty(0, int)] * n_members
    if len(distinct) == len(hashes) and n_members == 1:
        return [np.arange(count)]
    if len(distinct) == len(hashes):
        size = -(-count // n_members)
        return list(np.sort(np.resize(np.arange(count), (n_members, size)), axis=1))
    ends = np.append(first[1:], len(hashes))
    # The last group may go on among rows that are not here, and one network must see some group.
    available = len(distinct) - (len(hashes) < n_rows or n_members == 1)
    groups = min(available, max(n_members, int(np.sum(ends <= count))))
    if groups < n_members:
        raise StreamError(
            f"key must have many values of few rows each, got {len(distinct)} in the first "
            f"{len(hashes):,} rows for {n_members} networks; choose another key, or none."
        )
    parts = np.array_split(np.arange(groups), n_members)
    return [np.arange(int(first[part[0]]), int(ends[part[-1]])) for part in parts]


def _units(
    found: Survey, columns: Sequence[Any], table: Table, settings: Mapping[str, Any]
) -> tuple[Inputs, TargetUnits]:
    """Return how features and targets become what networks read, from the statistics."""
    family = parameters.family(dict(settings))
    ends = np.stack([found.summary.targets.low, found.summary.targets.high])
    y = family.link.backward(ends)
    family.check_targets(y, "y")
    check_units(y)
    inputs = found.inputs(columns, table.x, scale=settings["scale_inputs"])
    location, size = target_scaling(found.summary.targets)
    return inputs, make_units(family, location, size, scale=settings["scale_targets"])


def _widen(
    found: Survey,
    columns: Sequence[Any],
    units: tuple[Inputs, TargetUnits],
    guard: Guard | None,
) -> Guard | None:
    """Return the guard with the range of all features, not only of the sample's."""
    if guard is None:
        return None
    low, high = (jnp.asarray(end, jnp.float32) for end in found.input_range(columns, units[0]))
    ranges = (jnp.minimum(low, guard.low), jnp.maximum(high, guard.high))
    return eqx.tree_at(lambda tree: (tree.low, tree.high), guard, ranges)


def _train_members(
    found: Survey,
    encoder: Encoder,
    units: tuple[Inputs, TargetUnits],
    info: dict[str, Any],
    job: Job,
) -> list[Member]:
    """Train the members one after another, each on windows of its own.

    One window at a time bounds the memory, however many members there are.
    """
    name = ""
    if active_work() is not None:
        known = {**parameters.plain(job.settings), "stream": found.identity}
        name = work_name("stream", known, job.seed, job.held_out)
    pieces = {
        f"{name}.{number}": partial(_train, found, encoder, units, info, job, number)
        for number in range(len(job.held_out))
    }
    return training.run_shared(pieces, 1)


def _train(
    found: Survey,
    encoder: Encoder,
    units: tuple[Inputs, TargetUnits],
    info: dict[str, Any],
    job: Job,
    number: int,
    file: Path | None,
    watch: Callable[[Progress], None],
) -> Member:
    settings, held_out = job.settings, job.held_out[number]
    seed = member_seed(job.seed, number)
    rows = job.rows.take(others(len(job.rows.y), held_out))
    validation = to_device(job.rows.take(held_out)) if len(held_out) else None
    feed = StreamFeed(
        encoder,
        *units,
        found.sample.hashes[held_out],
        run_rows=found.rows_without(held_out),
        batch_size=int(settings["batch_size"]),
        seed=seed,
        mesh=active_mesh(),
    )
    info["window_rows"] = feed.window_rows
    start = job.start_network(number, rows, seed)
    plan, key = parameters.plan(settings, feed.n_rows), jax.random.key(seed)
    resume = save = None
    file = checkpoint_file(settings, number) or file
    if file is not None:
        data = f"{found.identity} {feed.window_rows}"
        row = jnp.asarray(job.rows.x[0])
        checkpoint = make_checkpoint(job, file, plan, start, row, data, seed)
        resume = checkpoint.load_place(training.initial_state(start, plan, key))
        save = checkpoint.save
    result = training.fit_stream(
        start,
        feed,
        plan,
        key=key,
        max_epochs=int(settings["max_epochs"]),
        learning_rate=settings["learning_rate"],
        weight_decay=settings["weight_decay"],
        validation=validation,
        callbacks=[reporter(job, number, threading.Lock(), watch)],
        resume=resume,
        save=save,
        mesh=active_mesh(),
    )
    info["copy_seconds"] += feed.copied
    info["wait_seconds"] += feed.waited
    dropout = float(settings["dropout"])
    if validation is None:
        return Member(result, np.empty(0), dropout)
    log_density = -np.asarray(training.row_nll(result.network, validation), float)
    return Member(result, log_density, dropout)
