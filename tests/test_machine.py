"""Cores, forks, and the directory of files for one kind of processor."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import platformdirs
import pytest

from ngem import _machine


@pytest.fixture(autouse=True)
def _environment(monkeypatch, tmp_path):
    """An environment in which nothing says where compiled programs go."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    monkeypatch.setattr(os, "environ", kept)  # changes do not outlive the test
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / name)


def test_available_cores_are_those_of_this_process(monkeypatch):
    assert 1 <= _machine.available_cores() <= (os.cpu_count() or 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 7}, raising=False)
    assert _machine.available_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert _machine.available_cores() == 1


def test_files_go_to_the_users_cache_directory(tmp_path):
    directory = _machine.cache_directory("programs")
    assert directory is not None
    assert directory.parent == tmp_path / "ngem" / "programs"
    assert directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("obstacle", ["file", "read-only"])
def test_a_directory_that_cannot_be_written_is_no_error(obstacle, tmp_path, monkeypatch):
    if obstacle == "file":
        (tmp_path / "ngem").write_text("in the way")
    else:
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert _machine.cache_directory("programs") is None


def test_each_kind_of_processor_has_its_own_directory(monkeypatch):
    for machine in ("x86_64", "aarch64", "aarch64"):
        monkeypatch.setattr(_machine.platform, "machine", lambda machine=machine: machine)
        _machine.cache_directory("programs")
    directory = _machine.cache_directory("programs")
    assert directory is not None
    assert len(list(directory.parent.iterdir())) == 2


FORKS = """
    import multiprocessing, sys, warnings
    import numpy as np
    import ngem
    from ngem import MDNRegressor

    warnings.simplefilter("ignore")  # JAX warns of every fork
    context = multiprocessing.get_context("fork")
    path, x = sys.argv[1], np.zeros((3, 1))

    def load_and_predict():
        return ngem.load(path).predict(x)

    def predict():
        return model.predict(x)

    def fit():
        return MDNRegressor(2, n_members=1, max_epochs=1).fit(x, np.arange(3.0))

    def train():
        from ngem import training
        data = training.Data(np.zeros((3, 1)), np.zeros((3, 1)))
        return training.fit(None, data, training.Plan(), key=None)

    def ask(function):
        with context.Pool(1) as pool:
            try:
                # A child that waits forever is killed with the pool.
                return pool.apply_async(function).get(60)
            except RuntimeError as error:
                return str(error)

    # Nothing has been computed before this fork.
    early = ask(load_and_predict)
    assert isinstance(early, np.ndarray), early

    if sys.argv[2] == "jax alone":
        import jax.numpy as jnp
        (jnp.zeros(3) + 1).block_until_ready()
        forbidden = (load_and_predict, fit)
    else:
        model = ngem.load(path)
        np.testing.assert_array_equal(predict(), early)
        forbidden = (predict, load_and_predict, fit, train)
    for function in forbidden:
        answer = ask(function)
        assert isinstance(answer, str), (function, answer)
        assert "must compute in a process that was not forked after JAX had started" in answer
        assert 'get_context("spawn")' in answer
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("who", ["ngem", "jax alone"])
@pytest.mark.slow
def test_a_fork_after_jax_has_started_is_refused_at_once(who):
    """And one before it is not. A child that computes would wait forever."""
    model = Path(__file__).parent / "estimator/files/gaussian_0_1.ngem"
    command = [sys.executable, "-c", textwrap.dedent(FORKS), str(model), who]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stderr
