"""Model files of boosted estimators: what is saved comes back, what is hostile is refused."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ngem
from ngem import MDNRegressor, MixtureBoostingRegressor, _files
from ngem.estimator import tree_file

pytest.importorskip("lightgbm")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.uniform(size=(80, 2)), columns=["a", "b"])
    x.loc[::7, "b"] = np.nan
    x["c"] = pd.Categorical(rng.choice(list("uvw"), 80))
    y = np.where(x["c"] == "u", 3.0, 0.0) + x["a"] + 0.1 * rng.standard_normal(80)
    settings = {"n_components": 2, "n_members": 2, "max_rounds": 3, "min_rows_in_leaf": 5}
    model = MixtureBoostingRegressor(**settings, num_leaves=6, random_state=0).fit(x, y)
    path = tmp_path_factory.mktemp("trees") / "model"
    model.save(path)
    return model, path, x, y


def test_what_is_saved_comes_back(saved, tmp_path):
    model, path, x, y = saved
    for loaded in (ngem.load(path), MixtureBoostingRegressor.load(path)):
        np.testing.assert_array_equal(loaded.log_prob(x, y), model.log_prob(x, y))
        np.testing.assert_array_equal(loaded.best_round_, model.best_round_)
        np.testing.assert_array_equal(loaded.shap_values(x), model.shap_values(x))
        for name, values in model.feature_importances_.items():
            np.testing.assert_array_equal(loaded.feature_importances_[name], values)
        assert loaded.table_ == model.table_
        assert list(loaded.feature_names_in_) == ["a", "b", "c"]
        chosen = {"weight_rate": model.weight_rate_}
        assert loaded.get_params() == model.get_params() | chosen
        loaded.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_the_other_estimator_refuses_the_file(saved):
    with pytest.raises(_files.FileError, match=r"must hold a ngem\.MDNRegressor, got a 'ngem\.Mix"):
        MDNRegressor.load(saved[1])


def test_damaged_bytes_are_refused(saved, tmp_path):
    content, rng = saved[1].read_bytes(), np.random.default_rng(0)
    path = tmp_path / "damaged"
    for position in rng.integers(len(content), size=200):
        flipped = bytearray(content)
        flipped[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        with pytest.raises(_files.FileError):
            ngem.load(path)


@pytest.mark.parametrize(
    "columns", [[], [[0, 1]], [1, 0], [0, 0], [-1, 0], [0, 3], [1, -(2**63)], [2**63 - 1]]
)
def test_columns_that_cannot_be_are_refused(columns, saved, tmp_path):
    arrays, header = _files.read(saved[1], kind=tree_file.KIND, version=1)
    arrays = {**arrays, "columns": np.array(columns, np.int64)}
    _files.write(tmp_path / "changed", arrays, header, kind=tree_file.KIND, version=1)
    with pytest.raises(_files.FileError, match="a model file must hold columns of numbers"):
        ngem.load(tmp_path / "changed")


def changed(forest, **arrays):
    return forest._replace(**{name: np.array(array) for name, array in arrays.items()})


def test_each_fault_of_trees_has_a_name(saved):
    model = saved[0]
    trees = model.model_.inputs.forests[0].trees
    kinds = {"n_trees": len(trees.num_leaves), "n_features": 3, "most_leaves": 6}
    assert trees.fault(**kinds) is None
    assert trees.num_cat.sum() > 0
    first = int(np.argmax(trees.num_leaves > 2))
    node = int(np.sum(trees.num_leaves[:first] - 1))
    circle, shared, far = (trees.left_child.copy() for _ in range(3))
    circle[node] = 0
    shared[node] = trees.right_child[node]
    far[node] = -100
    by_category = np.flatnonzero(trees.decision_type & 1)[0]
    sets = trees.threshold.copy()
    sets[by_category] = 99
    for fault, broken in (
        ("children that are no nodes", changed(trees, left_child=circle)),
        ("children with two parents", changed(trees, left_child=shared)),
        ("children that are no leaves", changed(trees, left_child=far)),
        ("splits of other columns", changed(trees, split_feature=trees.split_feature + 3)),
        ("unknown decisions", changed(trees, decision_type=trees.decision_type + np.int8(12))),
        ("numbers that are not finite", changed(trees, leaf_value=trees.leaf_value * np.nan)),
        ("nodes without rows", changed(trees, leaf_count=0 * trees.leaf_count)),
        ("sets of categories that are not there", changed(trees, threshold=sets)),
        ("empty sets of categories", changed(trees, cat_boundaries=0 * trees.cat_boundaries)),
        ("other sets of categories", changed(trees, cat_threshold=trees.cat_threshold[:-1])),
        ("other numbers of nodes", changed(trees, leaf_value=trees.leaf_value[:-1])),
        ("impossible numbers of leaves", changed(trees, num_leaves=0 * trees.num_leaves)),
    ):
        assert broken.fault(**kinds) == fault


@pytest.mark.parametrize(("count", "seed"), [(100, 0), (2000, 1)])
@pytest.mark.slow
def test_hostile_files_with_right_checksums_crash_nothing(count, seed, saved):
    program = [sys.executable, "-m", "tests.estimator.hostile_trees"]
    done = subprocess.run(
        [*program, str(saved[1]), str(count), str(seed)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith(f"survived {count} files")
