"""Cores, and the cache of compiled programs."""

import os

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


def test_programs_are_cached_in_the_users_cache_directory(tmp_path):
    _machine.keep_compiled_programs()
    (directory,) = (tmp_path / "ngem" / "compiled").iterdir()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(directory)
    assert int(os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"]) == 256 * 2**20
    assert float(os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"]) == 0.1


def test_a_directory_that_the_user_names_is_kept(tmp_path):
    os.environ["JAX_COMPILATION_CACHE_DIR"] = "elsewhere"
    _machine.keep_compiled_programs()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "elsewhere"
    assert not list(tmp_path.iterdir())


def test_limits_that_the_user_sets_are_kept():
    os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"] = "7"
    _machine.keep_compiled_programs()
    assert os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"] == "7"


@pytest.mark.parametrize("obstacle", ["file", "read-only"])
def test_a_cache_that_cannot_be_written_is_no_error(obstacle, tmp_path, monkeypatch):
    if obstacle == "file":
        (tmp_path / "ngem").write_text("in the way")
    else:
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    _machine.keep_compiled_programs()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_each_kind_of_processor_has_its_own_programs(tmp_path, monkeypatch):
    for machine in ("x86_64", "aarch64", "aarch64"):
        monkeypatch.setattr(_machine.platform, "machine", lambda machine=machine: machine)
        os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
        _machine.keep_compiled_programs()
    assert len(list((tmp_path / "ngem" / "compiled").iterdir())) == 2
