"""Model files: a fitted model and the parameters it was fitted with, in one file without code.

A file is not trusted: each value of its header must obey the rules of the estimator's own
parameters, and each array must have the name, shape and dtype that the header implies, before
anything is built from them.
"""

import itertools
import os
import reprlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from .. import _files
from .._files import FileError
from ..families import FAMILIES
from ..nn import Guard, MixtureNetwork, Predictor
from . import parameters
from .prediction import Model
from .preprocessing import Inputs, Scaling
from .schema import Schema

_KIND, _VERSION = "ngem.MDNRegressor", 3

#: Parameters that files of versions 1 and 2 lack, with the values that were meant.
_ADDED = {"family": "gaussian", "n_members": 1, "guard": False}

#: Names of the entries of `diagnostics_`, and the type of each where it is not None.
_DIAGNOSTICS = {
    "effective_components": float,
    "dead_components": list,
    "gain_over_gaussian": float,
    "gain_over_linear": float,
    "dropout": float,
    "outlier_rows": list,
    "target_location": list,
    "target_scale": list,
    "nll_offset": float,
    "skipped_steps": int,
    "training_rows": int,
    "validation_rows": int,
}


class Saved(NamedTuple):
    """Everything that makes up a fitted estimator.

    Attributes:
        settings: Its parameters.
        model: Network and units.
        feature_names: Names of the columns, if it was fitted on a table that had them.
        target_ndim: 1 if the targets were a vector, 2 if they were columns.
        history: Train and validation likelihood of each member and epoch.
        best_epochs: The epoch whose parameters were kept, of each member.
        diagnostics: Plain numbers about the fit.
        table: How the columns of a user's file become features, if the model was fitted on one.
    """

    settings: dict[str, Any]
    model: Model
    feature_names: list[str] | None
    target_ndim: int
    history: dict[str, np.ndarray]
    best_epochs: Int[np.ndarray, " member"]
    diagnostics: dict[str, Any]
    table: Schema | None = None


def save(path: str | os.PathLike, saved: Saved) -> None:
    """Write a model file.

    Raises:
        ValueError: If the network is the user's own, which a file without code cannot hold.
    """
    if saved.settings["network"] is not None:
        raise ValueError(
            "a model file can hold our own networks only, got a network of type "
            f"{type(saved.settings['network']).__name__}; keep that one with pickle, or its "
            "parameters with equinox.tree_serialise_leaves."
        )
    header = {
        "parameters": parameters.plain(saved.settings),
        "feature_names": saved.feature_names,
        "n_features": len(saved.model.inputs.fill),
        "n_outputs": saved.model.network.dim,
        "target_ndim": saved.target_ndim,
        "best_epochs": saved.best_epochs.tolist(),
        "diagnostics": saved.diagnostics,
    }
    if saved.table is not None:
        header["table"] = saved.table.to_header()
    _files.write(path, _arrays(saved), header, kind=_KIND, version=_VERSION)


def load(path: str | os.PathLike) -> Saved:
    """Return what a model file holds.

    Raises:
        FileError: If the file is damaged, of another kind or newer, or if its parts do not fit
            together. No code of the file's is ever run.
    """
    arrays, header = _files.read(path, kind=_KIND, version=_VERSION)
    arrays, header = _as_version_3(arrays, header)
    settings = _read_settings(header)
    if isinstance(header["diagnostics"], dict):
        # Files from before dropout was chosen by held-out rows have it among the parameters only.
        from_parameters = settings["dropout"]
        if not isinstance(from_parameters, str):
            from_parameters = float(from_parameters)
        header["diagnostics"] = {"dropout": from_parameters, **header["diagnostics"]}
    _check_header(header, settings, arrays)
    inputs = _read_inputs(arrays, header["n_features"])
    targets = _read_scaling(arrays, "targets", header["n_outputs"])
    members = len(header["best_epochs"])
    trained_with = {**settings, "dropout": header["diagnostics"]["dropout"]}
    network = Predictor(
        _read_networks(arrays, trained_with, inputs.n_columns, header["n_outputs"], members),
        _read_guard(arrays, settings, inputs.n_columns, header["n_outputs"]),
    )
    history = _read_history(arrays, members)
    _need(not arrays, "no arrays beyond those of the model", sorted(arrays))
    best_epochs = np.array(header["best_epochs"])
    within = np.all(best_epochs < history["train_nll"].shape[1])
    _need(within, "best epochs within the history", best_epochs)
    return Saved(
        settings=settings,
        model=Model(network, inputs, targets),
        feature_names=header["feature_names"],
        target_ndim=header["target_ndim"],
        history=history,
        best_epochs=best_epochs,
        diagnostics=header["diagnostics"],
        table=_read_table(header),
    )


def _arrays(saved: Saved) -> dict[str, np.ndarray]:
    model = saved.model
    named = {
        "inputs.fill": model.inputs.fill,
        "inputs.flagged": model.inputs.flagged.astype(np.int64),
        "inputs.location": model.inputs.scaling.location,
        "inputs.scale": model.inputs.scaling.scale,
        "targets.location": model.targets.location,
        "targets.scale": model.targets.scale,
        "history.train_nll": saved.history["train_nll"],
        "history.validation_nll": saved.history["validation_nll"],
    }
    parts = {"network": model.network.members, "guard": model.network.guard}
    return named | {
        name: np.asarray(leaf)
        for prefix, part in parts.items()
        for name, leaf in _leaves(prefix, part)
    }


def _leaves(prefix: str, part: MixtureNetwork | Guard | None) -> list[tuple[str, Any]]:
    """Return the parameters of the networks or of the guard with their names in a file."""
    params = eqx.filter(part, lambda leaf: hasattr(leaf, "shape"))
    pairs = jax.tree_util.tree_leaves_with_path(params)
    return [(prefix + jax.tree_util.keystr(path), leaf) for path, leaf in pairs]


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
    # Models that were not fitted on a file of columns have no table.
    known = isinstance(header, dict) and set(header) - {"table"} == names
    _need(known, f"a header with {names}", header)
    _need(isinstance(header["parameters"], dict), "parameters by name", header["parameters"])
    saved, rules = {**_ADDED, **header["parameters"]}, parameters.RULES
    _need(set(saved) == set(rules) - set(parameters.TRANSIENT), "the known parameters", set(saved))
    for name, value in saved.items():
        is_unsaved = value == parameters.UNSAVED and name in ("objective", "optimizer")
        # Every rule is a test that raises for no value, whatever JSON holds.
        _need(is_unsaved or rules[name].test(value), f"{name} of {rules[name].expected}", value)
    if saved["covariance"] == parameters.OLD_LOGISTIC:
        saved |= {"family": "logistic", "covariance": "diag"}
    names = saved["family"], saved["covariance"]
    _need(names in {kind.names for kind in FAMILIES.values()}, "a known family", names)
    tuples = {name: tuple(value) for name, value in saved.items() if isinstance(value, list)}
    return {**saved, **tuples, **parameters.TRANSIENT}


def _check_header(header: dict, settings: dict, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse what cannot be, above all sizes that the file's own arrays do not have."""
    most = sum(array.size for array in arrays.values())
    sizes = (settings["n_components"], *settings["hidden_sizes"])
    for size in (*sizes, header["n_features"], header["n_outputs"]):
        _need(_is_count(size, 1, most), "sizes within those of the arrays", size)
    _need(2 * len(sizes) <= len(arrays), "arrays for each layer", len(arrays))
    names = header["feature_names"]
    listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
    fits = names is None or (listed and len(names) == header["n_features"])
    _need(fits, "a name for each feature", names)
    one = header["n_outputs"] == 1
    _need(_is_count(header["target_ndim"], 1 if one else 2, 2), "1 or 2 axes of targets", header)
    epochs = header["best_epochs"]
    counted = isinstance(epochs, list) and all(_is_count(epoch, 0, most) for epoch in epochs)
    _need(counted and 1 <= len(epochs) <= most, "a best epoch of each member", epochs)
    _check_diagnostics(header["diagnostics"])


def _read_table(header: dict) -> Schema | None:
    """Return how columns become features, refusing what does not fit the network."""
    if "table" not in header:
        return None
    try:
        schema = Schema.from_header(header["table"])
    except ValueError as error:
        raise FileError(f"{error}; the model file is damaged: fit the model again.") from error
    _need(schema.n_features == header["n_features"], "a table of its features", schema.features)
    _need(len(schema.targets) == header["n_outputs"], "a table of its targets", schema.targets)
    return schema


def _check_diagnostics(saved: Any) -> None:
    _need(isinstance(saved, dict) and set(saved) == set(_DIAGNOSTICS), "known diagnostics", saved)
    for name, value in saved.items():
        parts = value if isinstance(value, list) else [value]
        has_type = value is None or type(value) is _DIAGNOSTICS[name]
        is_plain = all(type(part) in (int, float, str, type(None)) for part in parts)
        _need(has_type and is_plain, f"{name} of type {_DIAGNOSTICS[name].__name__}", value)
    dropout = saved["dropout"]
    known = type(dropout) is float and parameters.RULES["dropout"].test(dropout)
    _need(known, "the dropout of its networks", dropout)


def _read_inputs(arrays: dict[str, np.ndarray], n_features: int) -> Inputs:
    flagged = arrays.get("inputs.flagged", np.zeros(0))
    flagged = _take(arrays, "inputs.flagged", flagged.shape, np.int64)
    ordered = flagged.ndim == 1 and np.all(np.diff(flagged) > 0)
    within = ordered and np.all((flagged >= 0) & (flagged < n_features))
    _need(within, "flagged columns in order", flagged)
    fill = _take(arrays, "inputs.fill", (n_features,), np.float64)
    return Inputs(fill, flagged, _read_scaling(arrays, "inputs", n_features))


def _read_scaling(arrays: dict[str, np.ndarray], name: str, size: int) -> Scaling:
    location = _take(arrays, f"{name}.location", (size,), np.float64)
    scale = _take(arrays, f"{name}.scale", (size,), np.float64)
    _need(np.all(scale > 0), f"positive {name}.scale", scale)
    return Scaling(location, scale)


def _read_history(arrays: dict[str, np.ndarray], members: int) -> dict[str, np.ndarray]:
    shape = arrays.get("history.train_nll", np.zeros((0, 0))).shape
    _need(len(shape) == 2 and shape[0] == members, "a history of each member", shape)
    return {
        name: _take(arrays, f"history.{name}", shape, np.float64, finite=False)
        for name in ("train_nll", "validation_nll")
    }


def _read_networks(
    arrays: dict[str, np.ndarray],
    settings: dict[str, Any],
    n_inputs: int,
    dim: int,
    members: int,
) -> MixtureNetwork:
    """Return the networks that the settings describe, filled from the file."""
    most = sum(array.size for array in arrays.values())
    last = settings["n_components"] * parameters.family(settings).num_raw(dim)
    widths = (n_inputs, *settings["hidden_sizes"], last)
    _need(all(a * b <= most for a, b in itertools.pairwise(widths)), "its own weights", widths)
    # Shapes only: nothing is allocated until every array of the file has been checked.
    like = eqx.filter_eval_shape(
        parameters.architecture, settings, n_inputs, dim, jax.random.key(0)
    )
    params, static = eqx.partition(like, lambda leaf: hasattr(leaf, "shape"))
    leaves = [
        _take(arrays, name, (members, *leaf.shape), np.float32)
        for name, leaf in _leaves("network", like)
    ]
    filled = jax.tree.unflatten(jax.tree.structure(params), list(map(jnp.asarray, leaves)))
    return eqx.combine(filled, static)


def _read_guard(
    arrays: dict[str, np.ndarray], settings: dict[str, Any], n_inputs: int, dim: int
) -> Guard | None:
    if not settings["guard"]:
        return None
    guard = Guard(
        **{
            name: jnp.asarray(_take(arrays, f"guard.{name}", shape, np.float32))
            for name, shape in Guard.shapes(n_inputs, dim).items()
        }
    )
    _need(np.all(guard.noise > 0) and np.all(guard.widths > 0), "positive variances", guard)
    _need(np.all(guard.low <= guard.high), "ranges of features", guard)
    _need(np.all(guard.unit > 0), "positive units of features", guard)
    _need(np.all(guard.floor < guard.ceiling), "a range of targets", guard)
    return guard


def _take(
    arrays: dict[str, np.ndarray], name: str, shape: tuple, dtype: Any, *, finite: bool = True
) -> np.ndarray:
    """Return an array and remove it from the list, refusing one that is not as it should be."""
    _need(name in arrays, f"an array {name}", sorted(arrays))
    array = arrays.pop(name)
    _need(array.dtype == dtype, f"{name} of dtype {np.dtype(dtype)}", array.dtype)
    _need(array.shape == shape, f"{name} of shape {shape}", array.shape)
    _need(not finite or np.all(np.isfinite(array)), f"finite numbers in {name}", "others")
    return array


def _is_count(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _need(condition: Any, expected: str, got: Any) -> None:
    if not condition:
        raise FileError(
            f"a model file must hold {expected}, got {reprlib.repr(got)}; it was not written by "
            "ngem, or by another version: save the model again."
        )
