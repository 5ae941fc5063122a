"""Model files of calibrated models: the file of the model, and the scores that calibrate it."""

import os
from typing import Any

import numpy as np

from .. import _files
from . import model_file, stack_file, tree_file
from .boosting_regressor import MixtureBoostingRegressor
from .file_parts import is_count, need, take
from .regressor import MDNRegressor
from .stack import DensityStack

KIND, _VERSION = "ngem.ConformalRegressor", 1

#: Estimators that a file can hold, with the kind of their own files and how these are packed.
_FORMATS: dict[str, tuple[type, Any]] = {
    model_file.KIND: (MDNRegressor, model_file),
    tree_file.KIND: (MixtureBoostingRegressor, tree_file),
    stack_file.KIND: (DensityStack, stack_file),
}

_PREFIX = "model/"

#: Samples for joint regions at most: more would not fit into memory.
_MOST_SAMPLES = 10**7


def save(
    path: str | os.PathLike, model: Any, scores: np.ndarray, n_samples: int, random_state: int
) -> None:
    """Write a model file.

    Raises:
        ValueError: If the model is none of ours, which a file without code cannot hold.
    """
    kind = next((kind for kind, (known, _) in _FORMATS.items() if type(model) is known), None)
    if kind is None:
        raise ValueError(
            "a model file can hold an estimator of ngem, got a model of type "
            f"{type(model).__name__}; keep that one with pickle, or calibrate its last step."
        )
    own, header = _FORMATS[kind][1].pack(model._to_saved())
    arrays = {f"{_PREFIX}{name}": array for name, array in own.items()}
    settings = {"n_samples": n_samples, "random_state": random_state}
    _files.write(
        path,
        {**arrays, "scores": scores},
        {**settings, "kind": kind, "model": header},
        kind=KIND,
        version=_VERSION,
    )


def load(path: str | os.PathLike) -> tuple[Any, np.ndarray, int, int]:
    """Return the model, its scores, the number of samples and their seed.

    Raises:
        FileError: If the file is damaged, of another kind or newer, or if its parts do not fit
            together. No code of the file's is ever run.
    """
    arrays, header = _files.read(path, kind=KIND, version=_VERSION)
    names = {"n_samples", "random_state", "kind", "model"}
    need(isinstance(header, dict) and set(header) == names, f"a header with {names}", header)
    need(is_count(header["n_samples"], 1, _MOST_SAMPLES), "a number of samples", header)
    need(is_count(header["random_state"], 0, 2**32 - 1), "a seed", header)
    kind = header["kind"]
    need(isinstance(kind, str) and kind in _FORMATS, "a model of a known kind", kind)
    shape = arrays.get("scores", np.zeros(0)).shape
    scores = take(arrays, "scores", shape, np.float64)
    ordered = len(shape) == 1 and shape[0] > 0 and np.all(np.diff(scores) >= 0)
    need(ordered and scores[0] >= 0 and scores[-1] <= 1, "scores in order", scores)
    need(all(name.startswith(_PREFIX) for name in arrays), "arrays of its model", list(arrays)[:5])
    estimator, form = _FORMATS[kind]
    own = {name[len(_PREFIX) :]: array for name, array in arrays.items()}
    model = estimator._from_saved(form.unpack(own, header["model"]))
    return model, scores, header["n_samples"], header["random_state"]
