"""Model files: a fitted model and the parameters it was fitted with, in one file without code.

A file is not trusted: each value of its header must obey the rules of the estimator's own
parameters, and each array must have the name, shape and dtype that the header implies, before
anything is built from them.
"""

import itertools
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Int

from .. import _files
from .._files import FileError as FileError
from ..families import is_known
from ..nn import MixtureNetwork, Predictor, num_outputs
from . import parameters
from .file_parts import (
    COMMON_DIAGNOSTICS,
    UNKNOWN,
    FitInfo,
    check_best,
    check_columns,
    check_diagnostics,
    common_arrays,
    common_header,
    is_count,
    leaves,
    need,
    read_file,
    read_fit_info,
    read_guard,
    read_history,
    read_inputs,
    read_parameters,
    read_scaling,
    read_table,
    take,
    take_pit,
)
from .prediction import Model
from .preprocessing import one_hot
from .schema import Schema
from .targets import TargetUnits, make_model, own_predictor

KIND, VERSION = "ngem.MDNRegressor", 3

#: Parameters that older files lack, with the values that were meant.
_ADDED = {
    "family": "gaussian",
    "n_members": 1,
    "guard": False,
    **dict.fromkeys(("n_bins", "input_limit", "resolution")),
}

#: Names of the entries of `diagnostics_`, and the type of each where it is not None.
DIAGNOSTICS = {**COMMON_DIAGNOSTICS, "dropout": float, "skipped_steps": int}


class Saved(NamedTuple):
    """Everything that makes up a fitted estimator.

    Attributes:
        settings: Its parameters.
        model: Network and units.
        targets: How targets become what the network learns.
        feature_names: Names of the columns, if it was fitted on a table that had them.
        target_ndim: 1 if the targets were a vector, 2 if they were columns.
        history: Train and validation likelihood of each member and epoch.
        best_epochs: The epoch whose parameters were kept, of each member; of trees, the round.
        diagnostics: Plain numbers about the fit.
        table: How the columns of a user's file become features, if the model was fitted on one.
        fit_info: How the model came to be.
        held_out_pit: PIT of held-out rows, (rows, dim), for conformal intervals; None if unknown.
    """

    settings: dict[str, Any]
    model: Model
    targets: TargetUnits
    feature_names: list[str] | None
    target_ndim: int
    history: dict[str, np.ndarray]
    best_epochs: Int[np.ndarray, " member"]
    diagnostics: dict[str, Any]
    table: Schema | None = None
    fit_info: FitInfo = UNKNOWN
    held_out_pit: np.ndarray | None = None


def save(path: str | os.PathLike, saved: Saved) -> None:
    """Write a model file.

    Raises:
        ValueError: If the network is the user's own, which a file without code cannot hold.
    """
    _files.write(path, *pack(saved), kind=KIND, version=VERSION)


def pack(saved: Saved) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the header of a model file."""
    if saved.settings["network"] is not None:
        raise ValueError(
            "a model file can hold our own networks only, got a network of type "
            f"{type(saved.settings['network']).__name__}; keep that one with pickle, or its "
            "parameters with equinox.tree_serialise_leaves."
        )
    header = common_header(saved, parameters.plain(saved.settings))
    return _arrays(saved), {**header, "best_epochs": saved.best_epochs.tolist()}


def load(path: str | os.PathLike) -> Saved:
    """Return what a model file holds.

    Raises:
        FileError: If the file is damaged, of another kind or newer, or if its parts do not fit
            together. No code of the file's is ever run.
    """
    return unpack(*read_file(path, kind=KIND, version=VERSION))


def unpack(arrays: Mapping[str, np.ndarray], header: Any) -> Saved:
    """Return what the arrays and the header of a model file hold, after checking them."""
    arrays, header = _as_version_3(arrays, header)
    settings = _read_settings(header)
    if isinstance(header["diagnostics"], dict):
        # Files from before dropout was chosen by held-out rows have it among the parameters only.
        from_parameters = settings["dropout"]
        if not isinstance(from_parameters, str):
            from_parameters = float(from_parameters)
        header["diagnostics"] = {"dropout": from_parameters, **header["diagnostics"]}
    _check_header(header, settings, arrays)
    table = read_table(header, one_hot=True)
    inputs = read_inputs(arrays, header["n_features"])
    if table is not None:
        inputs = inputs._replace(one_hot=one_hot(table.sizes, table.widths))
    units = TargetUnits(
        parameters.family(settings), read_scaling(arrays, "targets", header["n_outputs"])
    )
    members = len(header["best_epochs"])
    trained_with = {**settings, "dropout": header["diagnostics"]["dropout"]}
    network = Predictor(
        _read_networks(arrays, trained_with, inputs.n_columns, header["n_outputs"], members),
        read_guard(arrays, settings["guard"], inputs.n_columns, header["n_outputs"]),
    )
    history = read_history(arrays, members)
    held_out_pit = take_pit(arrays, header["n_outputs"])
    info = read_fit_info(header)
    need(not arrays, "no arrays beyond those of the model", sorted(arrays))
    best_epochs = np.array(header["best_epochs"])
    within = np.all(best_epochs < history["train_nll"].shape[1])
    need(within, "best epochs within the history", best_epochs)
    return Saved(
        settings={**settings, "random_state": info.random_state},
        model=make_model(units, network, inputs, settings["resolution"]),
        targets=units,
        feature_names=header["feature_names"],
        target_ndim=header["target_ndim"],
        history=history,
        best_epochs=best_epochs,
        diagnostics=header["diagnostics"],
        table=table,
        fit_info=info,
        held_out_pit=held_out_pit,
    )


def _arrays(saved: Saved) -> dict[str, np.ndarray]:
    model = saved.model
    named = common_arrays(model.inputs, saved.targets.scaling, saved)
    predictor = own_predictor(model)
    parts = {"network": predictor.members, "guard": predictor.guard}
    return named | {
        name: np.asarray(leaf)
        for prefix, part in parts.items()
        for name, leaf in leaves(prefix, part)
    }


def _as_version_3(
    arrays: Mapping[str, np.ndarray], header: Any
) -> tuple[dict[str, np.ndarray], Any]:
    """Return what a file of an older version would hold today: one member, without a guard."""
    is_old = isinstance(header, dict) and "best_epoch" in header and "best_epochs" not in header
    if not is_old:
        return dict(arrays), header
    has_members = ("network", "history")
    arrays = {
        name: array[None] if name.startswith(has_members) else array
        for name, array in arrays.items()
    }
    diagnostics = header.get("diagnostics")
    if isinstance(diagnostics, dict):
        diagnostics = {**diagnostics, "outlier_rows": []}
        diagnostics.pop("gain_rows", None)
    header = {**header, "best_epochs": [header["best_epoch"]], "diagnostics": diagnostics}
    header.pop("best_epoch")
    return arrays, header


def _read_settings(header: Any) -> dict[str, Any]:
    names = {
        "parameters",
        "feature_names",
        "n_features",
        "n_outputs",
        "target_ndim",
        "best_epochs",
        "diagnostics",
    }
    saved = read_parameters(
        header,
        names,
        parameters.RULES,
        parameters.TRANSIENT,
        added=_ADDED,
        unsaved=("objective", "optimizer"),
    )
    if saved["covariance"] == parameters.OLD_LOGISTIC:
        saved |= {"family": "logistic", "covariance": "diag"}
    names = saved["family"], saved["covariance"]
    need(is_known(*names, header["n_outputs"]), "a known family", names)
    tuples = {name: tuple(value) for name, value in saved.items() if isinstance(value, list)}
    return {**saved, **tuples, **parameters.TRANSIENT}


def _check_header(header: dict, settings: dict, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse what cannot be, above all sizes that the file's own arrays do not have."""
    most = sum(array.size for array in arrays.values())
    sizes = (settings["n_components"], *settings["hidden_sizes"])
    for size in (*sizes, settings["n_bins"] or 1, header["n_features"], header["n_outputs"]):
        need(is_count(size, 1, most), "sizes within those of the arrays", size)
    need(2 * len(sizes) <= len(arrays), "arrays for each layer", len(arrays))
    check_columns(header)
    check_best(header["best_epochs"], most)
    check_diagnostics(header["diagnostics"], DIAGNOSTICS)
    dropout = header["diagnostics"]["dropout"]
    known = type(dropout) is float and parameters.RULES["dropout"].test(dropout)
    need(known, "the dropout of its networks", dropout)


def _read_networks(
    arrays: dict[str, np.ndarray],
    settings: dict[str, Any],
    n_inputs: int,
    dim: int,
    members: int,
) -> MixtureNetwork:
    """Return the networks that the settings describe, filled from the file."""
    most = sum(array.size for array in arrays.values())
    last = num_outputs(parameters.family(settings), settings["n_components"], dim)
    widths = (n_inputs * (1 + (settings["n_bins"] or 0)), *settings["hidden_sizes"], last)
    need(all(a * b <= most for a, b in itertools.pairwise(widths)), "its own weights", widths)
    # Shapes only: nothing is allocated until every array of the file has been checked.
    like = eqx.filter_eval_shape(
        parameters.architecture, settings, n_inputs, dim, jax.eval_shape(lambda: jax.random.key(0))
    )
    params, static = eqx.partition(like, lambda leaf: hasattr(leaf, "shape"))
    found = [
        take(arrays, name, (members, *leaf.shape), np.float32)
        for name, leaf in leaves("network", like)
    ]
    filled = jax.tree.unflatten(jax.tree.structure(params), jax.device_put(found))
    return eqx.combine(filled, static)
