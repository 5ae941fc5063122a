"""Fits to streams: the same as in memory where rows fit, resumable, and clear about bad rows."""

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import jax
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ngem import MDNRegressor
from ngem.estimator import stream_fit
from ngem.estimator.encoding import describe, encode
from ngem.estimator.feed import is_in
from ngem.estimator.preprocessing import fit_inputs, one_hot
from ngem.estimator.survey import survey
from ngem.families import get_family
from ngem.streams import Stream, StreamError
from ngem.training import checkpoints

pytestmark = pytest.mark.trains

TINY = {
    "n_components": 2,
    "n_members": 1,
    "hidden_sizes": (8,),
    "batch_size": 32,
    "max_epochs": 3,
    "patience": 3,
    "learning_rate": 1e-2,
    "random_state": 0,
}

#: Bytes of about 256 rows of three numbers, so that 900 rows are several windows.
SMALL = 256 * 12


def branches(n_rows=900, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.5, 2, (n_rows, 2))
    y = rng.choice([-1, 1], n_rows) * x[:, 0] + 0.1 * rng.standard_normal(n_rows)
    return pa.table({"a": x[:, 0], "b": x[:, 1], "y": y})


@pytest.fixture(name="path")
def _path(tmp_path):
    pq.write_table(branches(), tmp_path / "rows.parquet", row_group_size=100)
    return tmp_path / "rows.parquet"


def networks(model):
    """All parameters of the networks of a model."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(model.model_.network)]


def assert_same(first, second):
    for one, other in zip(networks(first), networks(second), strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_that_fit_into_the_window_give_the_bits_of_a_fit_in_memory(path):
    streamed = MDNRegressor(**TINY, guard=False).fit(path, "y")
    rows, held_out = branches().to_pandas(), streamed.folds_[0]
    assert len(held_out) == 90
    seen = np.setdiff1d(np.arange(900), held_out)
    x, y = rows[["a", "b"]], rows["y"]
    in_memory = MDNRegressor(**TINY, guard=False).fit(
        x.iloc[seen], y.iloc[seen], eval_set=(x.iloc[held_out], y.iloc[held_out])
    )
    assert_same(streamed, in_memory)
    np.testing.assert_array_equal(streamed.predict(x[:5]), in_memory.predict(x[:5]))
    assert streamed.feature_names_in_.tolist() == ["a", "b"]
    assert streamed.table_.targets == ("y",)


@pytest.mark.slow
def test_members_of_a_stream_that_fits_are_those_of_memory(path, monkeypatch):
    settings = {**TINY, "n_members": 3}
    streamed = MDNRegressor(**settings).fit(path, "y")
    assert sorted(np.concatenate(streamed.folds_)) == list(range(900))
    folds = "ngem.estimator.member_regressor.choose_held_out"
    monkeypatch.setattr(folds, lambda *_, **__: streamed.folds_)
    rows = branches().to_pandas()
    in_memory = MDNRegressor(**settings).fit(rows[["a", "b"]], rows["y"])
    assert_same(streamed, in_memory)
    np.testing.assert_array_equal(streamed.oof_log_prob_, in_memory.oof_log_prob_)


@pytest.fixture(name="model", scope="module")
def _model(promotes, tmp_path_factory):
    path = tmp_path_factory.mktemp("stream") / "rows.parquet"
    pq.write_table(branches(), path, row_group_size=100)
    with promotes():
        return MDNRegressor(**TINY).fit(Stream(path, "y", window=SMALL))


@pytest.mark.slow
def test_a_stream_beyond_the_window_predicts_and_knows_what_it_held_out(model, tmp_path):
    assert model.stream_info_["window_rows"] == 256
    assert not model.stream_info_["in_memory"]
    assert len(model.folds_[0]) == 90
    assert np.isfinite(model.oof_log_prob_[model.folds_[0]]).all()
    assert model.diagnostics_["training_rows"] == 810
    rows = branches(200, seed=1).to_pandas()
    model.save(tmp_path / "model")
    loaded = MDNRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    # The range of features is that of all rows, not of the sample's.
    edge = pd.DataFrame({"a": [branches()["a"].to_numpy().max()], "b": [1.0]})
    assert not model.predict(edge, return_outside=True)[1].any()


def windows_of(path, epoch, skip=0, **settings):
    """The windows of an epoch, as pairs of features and targets."""
    made, seen = [], stream_fit.StreamFeed

    class Spy(seen):
        def windows(self, epoch, skip, stop):
            made.append(self)
            return super().windows(epoch, skip, stop)

    stream_fit.StreamFeed = Spy
    try:
        MDNRegressor(**{**TINY, "max_epochs": 1, **settings}).fit(Stream(path, "y", window=SMALL))
    finally:
        stream_fit.StreamFeed = seen
    with made[0].windows(epoch, skip, epoch + 1) as windows:
        return made[0], [np.column_stack(window[:2]) for window in windows]


def test_an_epoch_has_every_training_row_once_and_no_other(path, model):
    feed, windows = windows_of(path, 0)
    assert [len(window) for window in windows] == [256] * 4
    rows = np.concatenate(windows)[: feed.n_rows]
    assert len(np.unique(rows, axis=0)) == feed.n_rows == 810
    forward = model.model_.targets.forward
    left = np.setdiff1d(forward(branches()["y"].to_numpy()), rows[:, 2])
    held_out = model.stream_rows_.y[model.folds_[0], 0]
    np.testing.assert_array_equal(left, np.unique(forward(held_out)))
    _, later = windows_of(path, 0, skip=2)
    np.testing.assert_array_equal(later, windows[2:])
    _, other = windows_of(path, 1)
    assert not np.array_equal(other, windows)


class Stopped(Exception):
    """What stands for a crash."""


def test_a_fit_that_stops_within_an_epoch_goes_on_to_the_same_bits(
    path, model, tmp_path, monkeypatch
):
    clock = itertools.count(0, 100)  # every state is written
    monkeypatch.setattr(checkpoints, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    settings, count, save = (
        {**TINY, "checkpoint": tmp_path / "run"},
        [],
        checkpoints.Checkpoint.save,
    )

    def stop(self, state, history, place=None):
        save(self, state, history, place)
        count.append(place)
        if len(count) in (2, 5):
            raise Stopped

    monkeypatch.setattr(checkpoints.Checkpoint, "save", stop)
    for _ in range(2):
        with pytest.raises(Stopped):
            MDNRegressor(**settings).fit(Stream(path, "y", window=SMALL))
    assert [place.window for place in count] == [1, 2, 3, 0, 1]
    resumed = MDNRegressor(**settings).fit(Stream(path, "y", window=SMALL))
    assert_same(resumed, model)
    np.testing.assert_array_equal(resumed.history_["train_nll"], model.history_["train_nll"])


@pytest.mark.slow
def test_a_checkpoint_of_another_stream_is_refused(path, tmp_path):
    settings = {**TINY, "max_epochs": 1, "checkpoint": tmp_path / "run"}
    MDNRegressor(**settings).fit(Stream(path, "y", window=SMALL))
    pq.write_table(branches(seed=1), path, row_group_size=100)
    with pytest.raises(ValueError, match="same settings and data, got other values of data"):
        MDNRegressor(**settings).fit(Stream(path, "y", window=SMALL))


@pytest.mark.slow
def test_a_file_that_vanishes_ends_a_fit_that_goes_on_when_it_is_back(tmp_path, monkeypatch):
    folder, away = tmp_path / "rows", tmp_path / "away"
    folder.mkdir()
    for name, rows in (("a", branches()[:500]), ("b", branches()[500:])):
        pq.write_table(rows, folder / f"{name}.parquet", row_group_size=100)
    settings = {**TINY, "checkpoint": tmp_path / "run"}

    def stop(progress):
        raise Stopped

    def vanishing(*arguments, **more):
        found = survey(*arguments, **more)
        (folder / "b.parquet").rename(away)
        return found

    with pytest.raises(Stopped):
        MDNRegressor(**settings, callbacks=[stop]).fit(Stream(folder, "y", window=SMALL))
    monkeypatch.setattr(stream_fit, "survey", vanishing)
    stopped = MDNRegressor(**settings)
    with pytest.raises(StreamError, match=r"rows/b.parquet must be there until the fit ends"):
        stopped.fit(Stream(folder, "y", window=SMALL))
    assert not hasattr(stopped, "model_")
    monkeypatch.undo()
    away.rename(folder / "b.parquet")
    resumed = MDNRegressor(**settings).fit(Stream(folder, "y", window=SMALL))
    assert_same(resumed, MDNRegressor(**TINY).fit(Stream(folder, "y", window=SMALL)))


KILLED = """
import sys
import numpy as np
from ngem import MDNRegressor
from ngem.streams import Stream
from ngem.training import checkpoints

checkpoints.Checkpoint.__init__.__kwdefaults__["every"] = 0.0
settings = dict({settings}, checkpoint=sys.argv[2] or None)
model = MDNRegressor(**settings).fit(Stream(sys.argv[1], "y", window={window}))
model.save(sys.argv[3])
"""


@pytest.mark.slow
def test_a_fit_that_is_killed_at_random_moments_ends_with_the_same_bits(path, tmp_path):
    script = tmp_path / "run.py"
    settings = {**TINY, "max_epochs": 60, "early_stopping": False}
    script.write_text(KILLED.format(settings=settings, window=SMALL))

    def start(checkpoint, out):
        arguments = [script, path, checkpoint, tmp_path / out]
        return subprocess.Popen([sys.executable, *map(str, arguments)])

    assert start("", "whole").wait(300) == 0
    checkpoint, rng, kills = tmp_path / "checkpoint", random.Random(0), 0
    while not (tmp_path / "parts").exists():
        child = start(checkpoint, "parts")
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while kills < 3 and child.poll() is None:
            # Some moment after the run has gone on from where it was.
            if checkpoint.exists() and checkpoint.stat().st_mtime_ns > before:
                time.sleep(rng.uniform(0, 0.2))
                child.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.01)
        child.wait(300)
    assert kills >= 1
    first, second = (MDNRegressor.load(tmp_path / name) for name in ("whole", "parts"))
    assert_same(first, second)
    assert sorted(os.listdir(tmp_path)) == sorted(
        ["rows.parquet", "run.py", "checkpoint", "whole", "parts"]
    )


def mixed(n_rows=400):
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, n_rows), "D")
    table = pd.DataFrame(
        {
            "size": rng.standard_normal(n_rows) * 5 + 3,
            "place": rng.choice(["north", "south", "west"], n_rows),
            "when": days,
            "wet": rng.random(n_rows) < 0.5,
            "y": rng.standard_normal(n_rows),
        }
    )
    table.loc[::7, "size"] = np.nan
    table.loc[::11, "place"] = None
    return table


def test_the_statistics_of_a_pass_are_those_of_the_rows_in_memory(tmp_path):
    rows = mixed()
    rows.to_parquet(tmp_path / "mixed.parquet", row_group_size=50)
    stream = Stream(tmp_path / "mixed.parquet", "y", window=1000)
    found = survey(stream, get_family("gaussian"), takes_gaps=True)
    assert not found.is_whole
    assert found.n_rows == 400
    columns, features = found.columns(100), rows.drop(columns="y")
    assert columns == describe(features)
    x = encode(features, columns)
    coder = one_hot(
        [len(c.labels) if c.kind == "category" else 0 for c in columns for _ in c.numbers]
    )
    expected = fit_inputs(x, one_hot=coder)
    got = found.inputs(columns, x, scale=True)
    np.testing.assert_array_equal(got.flagged, expected.flagged)
    np.testing.assert_array_equal(got.fill, expected.fill)
    np.testing.assert_allclose(
        got.scaling.location, expected.scaling.location, rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(got.scaling.scale, expected.scaling.scale, rtol=1e-12)
    low, high = found.input_range(columns, got)
    inputs = expected.forward(x)
    np.testing.assert_allclose(low, inputs.min(axis=0), atol=1e-6)
    np.testing.assert_allclose(high, inputs.max(axis=0), atol=1e-6)
    np.testing.assert_allclose(found.summary.targets.mean, [rows["y"].mean()], rtol=1e-12)


@pytest.mark.slow
def test_a_mixed_table_beyond_the_window_trains(tmp_path):
    mixed().to_parquet(tmp_path / "mixed.parquet", row_group_size=50)
    stream = Stream(tmp_path / "mixed.parquet", "y", window=4000)
    model = MDNRegressor(**TINY, missing="impute", resolution=0.01).fit(stream)
    assert np.isfinite(model.predict(mixed(50).drop(columns="y"))).all()
    assert not model.stream_info_["in_memory"]


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("y", np.nan, r"column 'y' .*, got nan in row group 3 of .*rows.parquet, row 350"),
        ("a", np.inf, r"column 'a' .*, got inf in row group 3 of .*rows.parquet, row 350"),
        ("a", np.nan, r"column 'a' .* got nan in row group 3 .* or pass missing='impute'"),
    ],
)  # fmt: skip
def test_a_bad_value_is_named_with_file_row_group_and_row(path, column, value, words):
    rows = branches().to_pandas()
    rows.loc[350, column] = value
    pq.write_table(pa.Table.from_pandas(rows), path, row_group_size=100)
    with pytest.raises(StreamError, match=words):
        MDNRegressor(**TINY).fit(path, "y")


def test_targets_must_lie_where_the_family_has_its_probability(path):
    with pytest.raises(StreamError, match=r"row group 0 of .*rows.parquet: y must"):
        MDNRegressor(**TINY, family="lognormal").fit(path, "y")


def test_numbers_may_be_categories_in_memory_and_beyond(tmp_path):
    rows = branches().append_column("c", pa.array(np.arange(900) % 3))
    pq.write_table(rows, tmp_path / "c.parquet")
    for window in (SMALL, None):
        stream = Stream(tmp_path / "c.parquet", "y", categorical=["c"], window=window)
        settings = {**TINY, "random_state": 0}
        given = stream_fit.read_stream(MDNRegressor(**settings), stream, {**SETTINGS, **settings})
        assert set(np.unique(given.table.x[:, 2])) == {0, 1, 2}
        inputs = given.units[0].n_columns if given.units else 5
        assert inputs == 5


SETTINGS = MDNRegressor().get_params()


def test_what_a_stream_cannot_have_is_refused(path):
    with pytest.raises(ValueError, match="sample_weight must be None with a stream"):
        MDNRegressor(**TINY).fit(path, "y", sample_weight=np.ones(900))


def test_a_source_that_changes_between_passes_is_refused():
    rows, passes = branches().to_pandas(), []

    def batches():
        passes.append(1)
        most = 900 if len(passes) < 4 else 600
        yield rows[["a", "b"]].to_numpy()[:most], rows["y"].to_numpy()[:most]

    with pytest.raises(StreamError, match=r"same rows in every pass, got fewer than 810 rows"):
        MDNRegressor(**TINY).fit(Stream(batches, window=SMALL))


HOLD = {"n_members": 1, "early_stopping": True, "validation_fraction": 0.1}


def test_rows_of_one_key_are_held_out_together():
    keys = np.sort(np.random.default_rng(0).integers(0, 2**63, 50)).astype(np.uint64)
    hashes = np.repeat(keys, np.random.default_rng(1).integers(1, 40, 50))
    for n_members in (1, 4):
        settings = {**HOLD, "n_members": n_members}
        folds = stream_fit.hold_out(hashes, len(hashes), settings, most=len(hashes))
        assert len(folds) == n_members
        for fold in folds:
            inside = np.zeros(len(hashes), bool)
            inside[fold] = True
            assert not set(hashes[inside]) & set(hashes[~inside])
    assert 0 < len(stream_fit.hold_out(hashes, len(hashes), HOLD, most=len(hashes))[0]) < 200
    with pytest.raises(StreamError, match="key must have many values of few rows each"):
        stream_fit.hold_out(hashes[hashes == keys[0]].repeat(2), 10**6, HOLD, most=5)


def test_few_hashes_are_found_among_many():
    rng = np.random.default_rng(0)
    hashes = rng.integers(0, 1000, 500).astype(np.uint64)
    held_out = np.unique(rng.integers(0, 300, 40)).astype(np.uint64)
    np.testing.assert_array_equal(is_in(hashes, held_out), np.isin(hashes, held_out))
    assert not is_in(hashes, held_out[:0]).any()


@pytest.mark.slow
def test_a_stream_learns_as_well_as_memory_from_rows_sorted_by_target(tmp_path):
    rows = branches(20_000).sort_by("y")
    pq.write_table(rows, tmp_path / "sorted.parquet", row_group_size=2000)
    test = branches(5000, seed=1).to_pandas()
    settings = {**TINY, "n_components": 3, "hidden_sizes": (32,), "max_epochs": 10}

    def score(model):
        return -model.log_prob(test[["a", "b"]], test["y"]).mean()

    def streamed(seed):
        stream = Stream(tmp_path / "sorted.parquet", "y", window=2000 * 12)
        return score(MDNRegressor(**{**settings, "random_state": seed}).fit(stream))

    frame = rows.to_pandas()
    in_memory = [
        score(MDNRegressor(**{**settings, "random_state": seed}).fit(frame[["a", "b"]], frame["y"]))
        for seed in range(3)
    ]
    assert np.mean([streamed(seed) for seed in range(3)]) < np.mean(in_memory) + 0.02
