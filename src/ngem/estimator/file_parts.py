"""Parts that the model files of all estimators share, with the checks of each.

A file is not trusted: each value of its header must obey the rules of the estimator's own
parameters, and each array must have the name, shape and dtype that the header implies.
"""

import os
import reprlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from .. import __version__, _files
from .._files import FileError
from .._machine import claim_process
from ..nn import Guard, MixtureNetwork
from .parameters import UNSAVED
from .preprocessing import Inputs, Scaling
from .rules import Rule
from .schema import Schema

#: Name of the array of held-out probabilities.
_PIT = "held_out_pit"

#: Entries that a header may lack: models of arrays have no table, older files no information.
OPTIONAL = {"table", "fit_info"}

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


def common_arrays(inputs: Inputs, targets: Scaling, saved: Any) -> dict[str, np.ndarray]:
    """Return the arrays of units and history with their names in a file.

    Args:
        inputs: How features become inputs.
        targets: Units of the targets.
        saved: A `model_file.Saved`.
    """
    return {
        "inputs.fill": inputs.fill,
        "inputs.flagged": inputs.flagged.astype(np.int64),
        "inputs.location": inputs.scaling.location,
        "inputs.scale": inputs.scaling.scale,
        "targets.location": targets.location,
        "targets.scale": targets.scale,
        "history.train_nll": saved.history["train_nll"],
        "history.validation_nll": saved.history["validation_nll"],
        **pit_arrays(saved.held_out_pit),
    }


def pit_arrays(pit: np.ndarray | None) -> dict[str, np.ndarray]:
    """Return the PIT of held-out rows with its name in a file, if it is known."""
    return {} if pit is None else {_PIT: pit.astype(np.float32)}


def take_pit(arrays: dict[str, np.ndarray], dim: int) -> np.ndarray | None:
    """Return the PIT of held-out rows and remove it from the list; None if there is none."""
    if _PIT not in arrays:
        return None
    shape = arrays[_PIT].shape
    need(len(shape) == 2 and shape[1] == dim, "a PIT of each target", shape)
    pit = take(arrays, _PIT, shape, np.float32)
    need(np.all((pit >= 0) & (pit <= 1)), "probabilities of held-out rows", pit)
    return pit


class FitInfo(NamedTuple):
    """How a model came to be.

    Attributes:
        version: Version of the library.
        date: When it was fitted, in UTC: 2026-01-31T12:00:00.
        random_state: The seed, or None if it was not one number.
    """

    version: str
    date: str
    random_state: int | None


#: Of files from before it was kept.
UNKNOWN = FitInfo("unknown", "unknown", None)


def fit_info(random_state: Any) -> FitInfo:
    """Return how a model comes to be that is fitted now, with this random state.

    SOURCE_DATE_EPOCH sets the date, in seconds since 1970, for files that must be the same again.
    """
    is_number = isinstance(random_state, int | np.integer)
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    date = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return FitInfo(__version__, date, int(random_state) if is_number else None)


def read_fit_info(header: Mapping[str, Any]) -> FitInfo:
    """Return how the model of a file came to be."""
    if "fit_info" not in header:
        return UNKNOWN
    entries = header["fit_info"]
    known = isinstance(entries, dict) and set(entries) == set(FitInfo._fields)
    need(known, f"a header with {FitInfo._fields}", entries)
    info = FitInfo(**entries)
    texts = all(isinstance(text, str) and len(text) < 100 for text in (info.version, info.date))
    seeded = info.random_state is None or is_count(info.random_state, 0, 2**32 - 1)
    need(texts and seeded, "a version, a date and a seed", entries)
    return info


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
        "fit_info": saved.fit_info._asdict(),
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
    known = isinstance(header, dict) and set(header) - OPTIONAL == names
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
    # A column of a table may be several features.
    fits = listed and ("table" in header or len(names) == header["n_features"])
    fits = names is None or fits
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


def read_table(header: dict, *, one_hot: bool) -> Schema | None:
    """Return how columns become features, refusing what does not fit the model.

    Args:
        header: The header of a model file.
        one_hot: Whether each code of a category is a feature of the model by itself.
    """
    if "table" not in header:
        return None
    try:
        schema = Schema.from_header(header["table"])
    except ValueError as error:
        raise FileError(f"{error}; the model file is damaged: fit the model again.") from error
    features = schema.inputs if one_hot else schema.numbers
    need(len(features) == header["n_features"], "a table of its features", schema.features)
    names = header["feature_names"]
    need(names is None or names == schema.names, "the names of its table", names)
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
    # Checked as numpy arrays: JAX would compile a program for each comparison.
    found = {
        name: take(arrays, f"guard.{name}", shape, np.float32)
        for name, shape in Guard.shapes(n_inputs, dim).items()
    }
    variances = np.all(found["noise"] > 0) and np.all(found["widths"] > 0)
    need(variances, "positive variances", found)
    need(np.all(found["low"] <= found["high"]), "ranges of features", found)
    need(np.all(found["unit"] > 0), "positive units of features", found)
    need(np.all(found["floor"] < found["ceiling"]), "a range of targets", found)
    return Guard(**jax.device_put(found))


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
