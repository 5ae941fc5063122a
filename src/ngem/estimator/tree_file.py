"""Model files of boosted estimators: trees as arrays, units and parameters, without code."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _files
from ..boosting import DTYPES, Forest, Trees, own_guard, tree_predictor
from ..families import is_known
from . import boosting_parameters as parameters
from .file_parts import (
    COMMON_DIAGNOSTICS,
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
from .model_file import Saved
from .targets import TargetUnits, make_model, own_predictor
from .tree_inputs import TreeInputs

KIND, VERSION = "ngem.MixtureBoostingRegressor", 1

_HEADER = {
    "parameters",
    "feature_names",
    "n_features",
    "n_outputs",
    "target_ndim",
    "best_rounds",
    "diagnostics",
}


def save(path: str | os.PathLike, saved: Saved) -> None:
    """Write a model file."""
    _files.write(path, *pack(saved), kind=KIND, version=VERSION)


def pack(saved: Saved) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the header of a model file."""
    header = {
        **common_header(saved, parameters.plain(saved.settings)),
        "best_rounds": saved.best_epochs.tolist(),
    }
    return _arrays(saved), header


def load(path: str | os.PathLike) -> Saved:
    """Return what a model file holds.

    Raises:
        FileError: If the file is damaged, of another kind or newer, or if its parts do not fit
            together. No code of the file's is ever run, and LightGBM reads only what was checked.
    """
    return unpack(*read_file(path, kind=KIND, version=VERSION))


def unpack(named: Mapping[str, np.ndarray], header: Any) -> Saved:
    """Return what the arrays and the header of a model file hold, after checking them."""
    arrays = dict(named)
    settings = _read_settings(header)
    _check_header(header, settings, arrays)
    n_features, dim = header["n_features"], header["n_outputs"]
    outputs = parameters.outputs(settings, dim)
    columns = _read_columns(arrays, n_features)
    plain = read_inputs(arrays, len(columns))
    fill = take(arrays, "fill", (n_features,), np.float64, finite=False)
    targets = TargetUnits(parameters.family(settings), read_scaling(arrays, "targets", dim))
    guard = read_guard(arrays, settings["guard"], plain.n_columns, dim)
    history = read_history(arrays, len(header["best_rounds"]))
    forests = tuple(
        read_forest(arrays, f"forest.{index}", outputs.num_raw, rounds, n_features, settings)
        for index, rounds in enumerate(header["best_rounds"])
    )
    held_out_pit = take_pit(arrays, dim)
    info = read_fit_info(header)
    need(not arrays, "no arrays beyond those of the model", sorted(arrays))
    best = np.array(header["best_rounds"])
    need(np.all(best < history["train_nll"].shape[1]), "best rounds within the history", best)
    predictor = tree_predictor(outputs, len(forests), plain.n_columns, guard)
    return Saved(
        settings={**settings, "random_state": info.random_state},
        model=make_model(
            targets, predictor, TreeInputs(forests, plain, columns, fill), settings["resolution"]
        ),
        targets=targets,
        feature_names=header["feature_names"],
        target_ndim=header["target_ndim"],
        history=history,
        best_epochs=best,
        diagnostics=header["diagnostics"],
        table=read_table(header, one_hot=False),
        fit_info=info,
        held_out_pit=held_out_pit,
    )


def _arrays(saved: Saved) -> dict[str, np.ndarray]:
    inputs = saved.model.inputs
    guard = own_guard(own_predictor(saved.model), inputs.plain.n_columns)
    arrays = {
        **common_arrays(inputs.plain, saved.targets.scaling, saved),
        **{name: np.asarray(leaf) for name, leaf in leaves("guard", guard)},
        "columns": inputs.columns.astype(np.int64),
        "fill": inputs.fill,
    }
    for index, forest in enumerate(inputs.forests):
        arrays |= forest_arrays(f"forest.{index}", forest)
    return arrays


def forest_arrays(name: str, forest: Forest) -> dict[str, np.ndarray]:
    """Return the trees of a member as arrays, each with the name in front of its own."""
    parts = forest.trees._asdict()
    return {f"{name}.start": forest.start, **{f"{name}.{part}": parts[part] for part in parts}}


def _read_settings(header: Any) -> dict[str, Any]:
    saved = read_parameters(
        header, _HEADER, parameters.RULES, parameters.TRANSIENT, added={"resolution": None}
    )
    known = is_known(saved["family"], "diag", header["n_outputs"])
    need(known, "a known family", saved["family"])
    if isinstance(saved["family"], list):
        saved["family"] = tuple(saved["family"])
    return {**saved, **parameters.TRANSIENT}


def _check_header(header: dict, settings: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse what cannot be, above all sizes that the file's own arrays do not have."""
    most = sum(array.size for array in arrays.values())
    for size in (settings["n_components"], header["n_features"], header["n_outputs"]):
        need(is_count(size, 1, most), "sizes within those of the arrays", size)
    check_columns(header)
    check_best(header["best_rounds"], most)
    check_diagnostics(header["diagnostics"], COMMON_DIAGNOSTICS)


def _read_columns(arrays: dict[str, np.ndarray], n_features: int) -> np.ndarray:
    columns = arrays.get("columns", np.zeros(0))
    columns = take(arrays, "columns", columns.shape, np.int64)
    need(columns.ndim == 1 and len(columns) > 0, "columns of numbers", columns.shape)
    # Each of them first: differences of huge numbers overflow and look ordered.
    within = np.all((columns >= 0) & (columns < n_features))
    need(within and np.all(np.diff(columns) > 0), "columns of numbers in order", columns)
    return columns


def read_forest(
    arrays: dict[str, np.ndarray],
    name: str,
    num_raw: int,
    rounds: int,
    n_features: int,
    settings: Mapping[str, Any],
) -> Forest:
    """Return the trees of a member; nothing of them reaches LightGBM before it is checked."""
    start = take(arrays, f"{name}.start", (num_raw,), np.float64)
    parts = {}
    for part, dtype in DTYPES.items():
        shape = arrays.get(f"{name}.{part}", np.zeros(0)).shape
        parts[part] = take(arrays, f"{name}.{part}", shape, dtype, finite=False)
        need(parts[part].ndim == 1, f"{name}.{part} of one axis", shape)
    trees = Trees(**parts)
    fault = trees.fault(
        n_trees=rounds * num_raw, n_features=n_features, most_leaves=settings["num_leaves"]
    )
    need(fault is None, "whole trees", fault)
    return Forest(start, trees, n_features)
