"""Loads damaged model files whose checksums are right, and predicts with those that are accepted.

python -m tests.estimator.hostile_trees MODEL COUNT SEED

A crash of LightGBM's would end the process, so the test runs this in one of its own.
"""

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import ngem
from ngem import _files
from ngem.estimator import tree_file

#: Numbers that break what trusts them.
NASTY = (-1, 0, 1, 2, 7, 11, 63, 2**31 - 1, -(2**31), 1e308, -np.inf, np.inf, np.nan)


def mutate(arrays, rng):
    """Return the arrays with one or two of them changed: values, lengths, order."""
    arrays = dict(arrays)
    for _ in range(rng.integers(1, 3)):
        name = rng.choice([name for name in arrays if arrays[name].size])
        array = arrays[name].copy().ravel()
        kind = rng.integers(5)
        if kind < 3:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values = np.array(rng.choice(NASTY, 1 + rng.integers(2))).astype(array.dtype)
            array[rng.integers(len(array), size=len(values))] = values
        elif kind == 3:
            array = array[: rng.integers(len(array))]
        else:
            array = rng.permutation(array)
        arrays[name] = (
            array.reshape(arrays[name].shape) if len(array) == arrays[name].size else array
        )
    return arrays


def main(model, count, seed):
    arrays, header = _files.read(model, kind=tree_file.KIND, version=1)
    rng, accepted = np.random.default_rng(seed), 0
    rows = rng.normal(size=(4, header["n_features"]))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model"
        for _ in range(count):
            _files.write(path, mutate(arrays, rng), header, kind=tree_file.KIND, version=1)
            try:
                loaded = ngem.load(path)
            except _files.FileError:
                continue
            inputs = loaded.model_.inputs  # past the columns' names, to LightGBM itself
            for forest in inputs.forests:
                forest.contributions(inputs.complete(rows))
            assert inputs.forward(rows).shape[0] == 4
            accepted += 1
    print(f"survived {count} files, {accepted} accepted")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
