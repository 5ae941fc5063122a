"""One function that loads whichever estimator a file holds."""

import os
from typing import Any

from .. import _files
from . import conformal_file, model_file, stack_file, tree_file
from .boosting_regressor import MixtureBoostingRegressor
from .conformal import ConformalRegressor
from .regressor import MDNRegressor
from .stack import DensityStack

#: The estimator in each kind of model file.
MODEL_KINDS = {
    model_file.KIND: MDNRegressor,
    tree_file.KIND: MixtureBoostingRegressor,
    stack_file.KIND: DensityStack,
    conformal_file.KIND: ConformalRegressor,
}


def load(path: str | os.PathLike) -> Any:
    """Return the fitted estimator in a model file, of whichever kind it is.

    Raises:
        ngem.estimator.model_file.FileError: If the file is damaged or not one of ours. Loading an
            untrusted file can fail, but never runs code from the file.
    """
    # A file of no known kind is refused by the estimator, with its reason.
    return MODEL_KINDS.get(_files.read_kind(path) or "", MDNRegressor).load(path)
