"""Parts that the model files of all estimators share, with the checks of each.

A file is not trusted: each value of its header must obey the rules of the estimator's own
parameters, and each array must have the name, shape and dtype that the header implies.
"""

import os
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import _files
from .._files import FileError
from .._machine import claim_process
from ..nn import Guard, MixtureNetwork
from .parameters import UNSAVED
from .preprocessing import Inputs, Scaling
from .rules import Rule
from .schema import Schema

#: Names of the entries of `diagnostics_`, and the type of each where it is not None.
COMMON_DIAGNOSTICS: dict[str, type] = {
    "effective_components": float,
    "dead_components": list,
    "gain_over_gaussian": float,
    "gain_over_linear": float,
    "outlier_rows": list,
    "target_location": list,
    "target_scale": list,
    "nll_offset": float,
    "training_rows": int,
    "validation_rows": int,
}


def read_file(
    path: str | os.PathLike, *, kind: str, version: int
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the header of a model file, from which JAX's arrays are then made."""
    claim_process()
    return _files.read(path, kind=kind, version=version)


def common_arrays(
    inputs: Inputs, targets: Scaling, history: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the arrays of units and history with their names in a file."""
    return {
        "inputs.fill": inputs.fill,
        "inputs.flagged": inputs.flagged.astype(np.int64),
        "inputs.location": inputs.scaling.location,
        "inputs.scale": inputs.scaling.scale,
        "targets.location": targets.location,
        "targets.scale": targets.scale,
        "history.train_nll": history["train_nll"],
        "history.validation_nll": history["validation_nll"],
    }


def common_header(saved: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that the headers of all model files have.

    Args:
        saved: A `model_file.Saved`.
        parameters: Its parameters as JSON can hold them.
    """
    header = {
        "parameters": dict(parameters),
        "feature_names": saved.feature_names,
        "n_features": len(saved.model.inputs.fill),
        "n_outputs": saved.model.network.dim,
        "target_ndim": saved.target_ndim,
        "diagnostics": saved.diagnostics,
    }
    return header if saved.table is None else {**header, "table": saved.table.to_header()}


def leaves(prefix: str, part: MixtureNetwork | Guard | None) -> list[tuple[str, Any]]:
    """Return the parameters of the networks or of the guard with their names in a file."""
    params = eqx.filter(part, lambda leaf: hasattr(leaf, "shape"))
    pairs = jax.tree_util.tree_leaves_with_path(params)
    return [(prefix + jax.tree_util.keystr(path), leaf) for path, leaf in pairs]


def read_parameters(
    header: Any,
    names: set[str],
    rules: Mapping[str, Rule],
    transient: Mapping[str, Any],
    *,
    added: Mapping[str, Any] | None = None,
    unsaved: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the parameters in a header that has these names, checked by their rules.

    Args:
        header: Anything that JSON can hold.
        names: Entries that the header must have.
        rules: Rules of the parameters.
        transient: Parameters that a file does not hold.
        added: Parameters that older files lack, with the values that were meant.
        unsaved: Parameters that may stand for an object without a name.
    """
    # Models that were not fitted on a file of columns have no table.
    known = isinstance(header, dict) and set(header) - {"table"} == names
    need(known, f"a header with {names}", header)
    need(isinstance(header["parameters"], dict), "parameters by name", header["parameters"])
    missing = {
        key: value for key, value in (added or {}).items() if key not in header["parameters"]
    }
    saved = {**header["parameters"], **missing}
    need(set(saved) == set(rules) - set(transient), "the known parameters", set(saved))
    for name, value in saved.items():
        is_unsaved = value == UNSAVED and name in unsaved
        # Every rule is a test that raises for no value, whatever JSON holds.
        need(is_unsaved or rules[name].test(value), f"{name} of {rules[name].expected}", value)
    return saved


def check_columns(header: Mapping[str, Any]) -> None:
    """Refuse names of features and axes of targets that cannot be."""
    names = header["feature_names"]
    listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
    fits = names is None or (listed and len(names) == header["n_features"])
    need(fits, "a name for each feature", names)
    one = header["n_outputs"] == 1
    need(is_count(header["target_ndim"], 1 if one else 2, 2), "1 or 2 axes of targets", header)


def check_best(best: Any, most: int) -> None:
    """Refuse epochs or rounds of the members that cannot be."""
    counted = isinstance(best, list) and all(is_count(number, 0, most) for number in best)
    need(counted and 1 <= len(best) <= most, "a best epoch of each member", best)


def check_diagnostics(saved: Any, known: Mapping[str, type]) -> None:
    """Refuse diagnostics of other names or types."""
    need(isinstance(saved, dict) and set(saved) == set(known), "known diagnostics", saved)
    for name, value in saved.items():
        parts = value if isinstance(value, list) else [value]
        has_type = value is None or type(value) is known[name]
        is_plain = all(type(part) in (int, float, str, type(None)) for part in parts)
        need(has_type and is_plain, f"{name} of type {known[name].__name__}", value)


def read_table(header: dict) -> Schema | None:
    """Return how columns become features, refusing what does not fit the network."""
    if "table" not in header:
        return None
    try:
        schema = Schema.from_header(header["table"])
    except ValueError as error:
        raise FileError(f"{error}; the model file is damaged: fit the model again.") from error
    need(schema.n_features == header["n_features"], "a table of its features", schema.features)
    need(len(schema.targets) == header["n_outputs"], "a table of its targets", schema.targets)
    return schema


def read_inputs(arrays: dict[str, np.ndarray], n_features: int) -> Inputs:
    """Return how features become inputs."""
    flagged = arrays.get("inputs.flagged", np.zeros(0))
    flagged = take(arrays, "inputs.flagged", flagged.shape, np.int64)
    ordered = flagged.ndim == 1 and np.all(np.diff(flagged) > 0)
    within = ordered and np.all((flagged >= 0) & (flagged < n_features))
    need(within, "flagged columns in order", flagged)
    fill = take(arrays, "inputs.fill", (n_features,), np.float64)
    return Inputs(fill, flagged, read_scaling(arrays, "inputs", n_features))


def read_scaling(arrays: dict[str, np.ndarray], name: str, size: int) -> Scaling:
    """Return a change of units."""
    location = take(arrays, f"{name}.location", (size,), np.float64)
    scale = take(arrays, f"{name}.scale", (size,), np.float64)
    need(np.all(scale > 0), f"positive {name}.scale", scale)
    return Scaling(location, scale)


def read_history(arrays: dict[str, np.ndarray], members: int) -> dict[str, np.ndarray]:
    """Return the likelihoods of each member."""
    shape = arrays.get("history.train_nll", np.zeros((0, 0))).shape
    need(len(shape) == 2 and shape[0] == members, "a history of each member", shape)
    return {
        name: take(arrays, f"history.{name}", shape, np.float64, finite=False)
        for name in ("train_nll", "validation_nll")
    }


def read_guard(
    arrays: dict[str, np.ndarray], is_there: bool, n_inputs: int, dim: int
) -> Guard | None:
    """Return the guard, if there is one."""
    if not is_there:
        return None
    guard = Guard(
        **{
            name: jnp.asarray(take(arrays, f"guard.{name}", shape, np.float32))
            for name, shape in Guard.shapes(n_inputs, dim).items()
        }
    )
    need(np.all(guard.noise > 0) and np.all(guard.widths > 0), "positive variances", guard)
    need(np.all(guard.low <= guard.high), "ranges of features", guard)
    need(np.all(guard.unit > 0), "positive units of features", guard)
    need(np.all(guard.floor < guard.ceiling), "a range of targets", guard)
    return guard


def take(
    arrays: dict[str, np.ndarray], name: str, shape: tuple, dtype: Any, *, finite: bool = True
) -> np.ndarray:
    """Return an array and remove it from the list, refusing one that is not as it should be."""
    need(name in arrays, f"an array {name}", sorted(arrays))
    array = arrays.pop(name)
    need(array.dtype == dtype, f"{name} of dtype {np.dtype(dtype)}", array.dtype)
    need(array.shape == shape, f"{name} of shape {shape}", array.shape)
    need(not finite or np.all(np.isfinite(array)), f"finite numbers in {name}", "others")
    return array


def is_count(value: Any, low: int, high: int) -> bool:
    """Return whether a value is an integer from `low` to `high`."""
    return type(value) is int and low <= value <= high


def need(condition: Any, expected: str, got: Any) -> None:
    """Refuse a file, saying what it must hold and what it holds."""
    if not condition:
        raise FileError(
            f"a model file must hold {expected}, got {reprlib.repr(got)}; it was not written by "
            "ngem, or by another version: save the model again."
        )
