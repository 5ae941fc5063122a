"""Model files: what is saved comes back, and what is damaged or hostile is refused."""

import itertools
import json
import os
import pickle
import time

import numpy as np
import pytest
from safetensors.numpy import save

import ngem
from ngem import MDNRegressor, _files
from ngem._files import FileError

from ..cases import slow_but

pytestmark = pytest.mark.trains

KIND, VERSION = "ngem.MDNRegressor", 3


@pytest.fixture(scope="module", name="model")
def _model(promotes):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 2))
    y = np.stack([x[:, 0] + rng.standard_normal(40), x[:, 1]], axis=1)
    # The rate is written with an exponent, where a flip from e to E changes no value.
    settings = {"hidden_sizes": (3,), "max_epochs": 2, "covariance": "full", "random_state": 0}
    settings |= {"n_members": 2, "dropout": 0.0}
    settings["learning_rate"] = 1e-5
    with promotes():
        return MDNRegressor(2, **settings).fit(x, y)


@pytest.fixture(scope="module", name="content")
def _content(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model"
    model.save(path)
    return path.read_bytes()


@pytest.fixture(name="parts")
def _parts(content, tmp_path):
    path = tmp_path / "whole"
    path.write_bytes(content)
    arrays, header = _files.read(path, kind=KIND, version=VERSION)
    return arrays, header, tmp_path / "changed"


def test_what_is_saved_comes_back(model, content, tmp_path):
    (tmp_path / "model").write_bytes(content)
    loaded = MDNRegressor.load(tmp_path / "model")
    x = np.random.default_rng(1).standard_normal((5, 2))
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
    np.testing.assert_array_equal(loaded.log_prob(x, x), model.log_prob(x, x))
    for name in model.history_:
        np.testing.assert_array_equal(loaded.history_[name], model.history_[name])
    assert loaded.get_params() == model.get_params()
    assert loaded.fit_info_ == model.fit_info_ == (ngem.__version__, "2023-11-14T22:13:20", 0)
    assert loaded.diagnostics_.keys() == model.diagnostics_.keys()


def damaged(content, rng):
    """Yield some 6,000 files that are nearly right."""
    size = len(content)
    header = 8 + int.from_bytes(content[:8], "little")
    for cut in {
        0,
        1,
        7,
        8,
        9,
        header - 1,
        header,
        header + 1,
        size - 1,
        *rng.integers(0, size, 400),
    }:
        yield content[:cut]
    # Every byte of the header, where meaning is denser than in the arrays: a bit of it at random,
    # and the one that only turns e to E.
    flips = [(position, bit) for position in range(header) for bit in {5, int(rng.integers(8))}]
    flips += zip(rng.integers(header, size, 500), rng.integers(0, 8, 500), strict=True)
    for position, bit in flips:
        flipped = bytearray(content)
        flipped[position] ^= 1 << int(bit)
        yield bytes(flipped)
    for position in rng.integers(0, size, 200):
        yield content[:position] + bytes([int(rng.integers(256))]) + content[position:]
        yield content[:position] + content[position + 1 :]
    yield from (content + b"\0", content * 2, b"", b"\0" * size, rng.bytes(size), pickle.dumps({}))


@pytest.mark.parametrize("every", slow_but([1, 10], 10))
def test_thousands_of_damaged_files_are_refused(every, content, tmp_path):
    """With a clear error, and never anything else, even where no value has changed."""
    path, count = tmp_path / "damaged", 0
    for variant in itertools.islice(damaged(content, np.random.default_rng(0)), 0, None, every):
        assert variant != content
        path.write_bytes(variant)
        with pytest.raises(FileError, match=r"must"):
            MDNRegressor.load(path)
        count += 1
    assert count >= 5_000 / every


HOSTILE = {
    "n_components": [10**9, 0, -1, 2.5, "2", None, [2], True, 3],
    "hidden_sizes": [[10**9], [0], [-3], "33", [3, 3], [], None, [3.5], [[3]]],
    "covariance": ["diag", "../x", 3, None, "__import__('os')"],
    "family": ["normal", 3, None, "laplace"],
    "objective": ["os.system", None, {}],
    "activation": ["eval", 1],
    "scale_floor": [float("nan"), -1, "x"],
    "optimizer": ["rm -rf", 1.0],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in HOSTILE.items() for v in vs])
def test_hostile_settings_are_refused_before_anything_is_built(name, value, parts):
    arrays, header, path = parts
    header["parameters"][name] = value
    _files.write(path, arrays, header, kind=KIND, version=VERSION)
    with pytest.raises(FileError):
        MDNRegressor.load(path)


@pytest.mark.parametrize(
    "field", ["n_features", "n_outputs", "target_ndim", "best_epochs", "parameters"]
)
@pytest.mark.parametrize("value", [10**9, -1, 1.5, "2", None, [], {}])
def test_hostile_headers_are_refused(field, value, parts):
    arrays, header, path = parts
    header[field] = value
    _files.write(path, arrays, header, kind=KIND, version=VERSION)
    with pytest.raises(FileError):
        MDNRegressor.load(path)
    del header[field]
    _files.write(path, arrays, header, kind=KIND, version=VERSION)
    with pytest.raises(FileError):
        MDNRegressor.load(path)


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"version": "1", "date": "x", "random_state": -1},
        {"version": 1, "date": "x", "random_state": 0},
        {"version": "1", "date": 200 * "x", "random_state": 0},
        {"version": "1", "date": "x", "random_state": 0, "more": 1},
    ],
)
def test_hostile_information_on_a_fit_is_refused(value, parts):
    arrays, header, path = parts
    header["fit_info"] = value
    _files.write(path, arrays, header, kind=KIND, version=VERSION)
    with pytest.raises(FileError):
        MDNRegressor.load(path)
    del header["fit_info"]  # as older files
    _files.write(path, arrays, header, kind=KIND, version=VERSION)
    assert MDNRegressor.load(path).fit_info_ == ("unknown", "unknown", None)


@pytest.mark.parametrize("value", [np.full((3, 2), 1.5), np.full((3, 1), 0.5), np.full(3, 0.5)])
def test_hostile_held_out_rows_are_refused(value, parts):
    arrays, header, path = parts
    good = np.full((3, 2), 0.5, np.float32)
    _files.write(path, {**arrays, "held_out_pit": good}, header, kind=KIND, version=VERSION)
    np.testing.assert_array_equal(MDNRegressor.load(path).held_out_pit_, good)
    bad = {**arrays, "held_out_pit": value.astype(np.float32)}
    _files.write(path, bad, header, kind=KIND, version=VERSION)
    with pytest.raises(FileError):
        MDNRegressor.load(path)


def test_arrays_that_do_not_fit_are_refused(parts):
    arrays, header, path = parts
    for name, array in arrays.items():
        changes = [None, array[..., None], array.astype(np.int32)]
        if not name.startswith("history"):
            changes.append(np.full_like(array, np.nan))
        for change in changes:
            variant = {key: value for key, value in arrays.items() if key != name}
            if change is not None:
                variant[name] = change
            if change is not None and change.dtype == array.dtype and array.dtype.kind == "i":
                continue
            _files.write(path, variant, header, kind=KIND, version=VERSION)
            with pytest.raises(FileError):
                MDNRegressor.load(path)
    _files.write(path, {**arrays, "extra": np.zeros(1)}, header, kind=KIND, version=VERSION)
    with pytest.raises(FileError):
        MDNRegressor.load(path)


def test_a_header_of_another_model_is_refused(parts, model, tmp_path):
    arrays, _, path = parts
    settings = {**model.get_params(), "n_components": 3, "max_epochs": 1}
    settings |= {"early_stopping": False, "objective": "nll"}  # compile faster
    other = MDNRegressor(**settings)
    x = np.random.default_rng(1).standard_normal((40, 2))
    other.fit(x, x).save(tmp_path / "other")
    theirs, header = _files.read(tmp_path / "other", kind=KIND, version=VERSION)
    _files.write(path, arrays, header, kind=KIND, version=VERSION)
    with pytest.raises(FileError, match="a model file must hold"):
        MDNRegressor.load(path)
    _files.write(path, {**theirs, **arrays}, header, kind=KIND, version=VERSION)
    with pytest.raises(FileError, match="a model file must hold"):
        MDNRegressor.load(path)


def test_thousands_of_layers_are_refused_at_once(parts):
    """With all their arrays, each as it should be: only their number is not."""
    arrays, header, path = parts
    header["parameters"]["hidden_sizes"] = [1] * 3000
    more = {f"layer {index}": np.zeros((1, 1), np.float32) for index in range(6000)}
    _files.write(path, {**arrays, **more}, header, kind=KIND, version=VERSION)
    begun = time.process_time()
    with pytest.raises(FileError, match="hidden_sizes of a sequence of at most 256"):
        MDNRegressor.load(path)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("depth", [100, 900, 5_000, 200_000])
def test_endless_nesting_is_refused(depth, tmp_path):
    nested = "[" * depth + "]" * depth
    body = f'{{"kind": "{KIND}", "version": 1, "header": {nested}, "sha256": ""}}'
    (tmp_path / "inner").write_bytes(save({"a": np.zeros(1)}, metadata={"ngem": body}))
    (tmp_path / "outer").write_bytes(len(nested).to_bytes(8, "little") + nested.encode())
    for name in ("inner", "outer"):
        with pytest.raises(FileError):
            MDNRegressor.load(tmp_path / name)


def test_other_kinds_and_newer_versions_are_refused(parts, tmp_path):
    arrays, header, path = parts
    _files.write(path, arrays, header, kind="ngem.checkpoint", version=VERSION)
    with pytest.raises(FileError, match=r"must hold a ngem.MDNRegressor, got a 'ngem.checkpoint'"):
        MDNRegressor.load(path)
    _files.write(path, arrays, header, kind=KIND, version=VERSION + 1)
    with pytest.raises(FileError, match="version 3 or older, got version 4; upgrade ngem"):
        MDNRegressor.load(path)
    with pytest.raises(FileNotFoundError):
        MDNRegressor.load(tmp_path / "nowhere")


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
def test_a_file_is_as_open_to_others_as_any_other(tmp_path, model):
    model.save(tmp_path / "model")
    (tmp_path / "other").touch()
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_failed_write_leaves_the_old_file(tmp_path, model):
    path = tmp_path / "model"
    model.save(path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        _files.write(path, {}, {"not json": object()}, kind=KIND, version=VERSION)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    assert json.loads(json.dumps(model.diagnostics_)) is not None
