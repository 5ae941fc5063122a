"""Compiled programs that are kept in files: found again, never trusted blindly, never too many."""

import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from ngem import _lasting, _programs
from ngem._programs import Kept
from ngem.families import DiagonalGaussian

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """Where programs go, without JAX's own cache, which would keep them instead."""
    tmp_path.chmod(0o700)
    monkeypatch.setattr(_programs, "cache_directory", lambda kind: tmp_path)
    before = jax.config.jax_compilation_cache_dir
    use_own_cache(None)
    yield tmp_path
    use_own_cache(before)


def use_own_cache(directory):
    """Set where JAX keeps programs; what it has opened before it uses until it is reset."""
    jax.config.update("jax_compilation_cache_dir", directory)
    compilation_cache.reset_cache()


def scaled(first, rest):
    """Something with arrays, numbers and functions among its arguments."""
    values, function, power = first
    return {"sum": function(values) ** power + rest, "rest": rest}


FIRST = (jnp.arange(5.0), jnp.sin, 2)


def count_compilations(monkeypatch):
    calls = []
    whole = _programs._compile
    monkeypatch.setattr(_programs, "_compile", lambda *args: calls.append(1) or whole(*args))
    return calls


def test_a_program_is_compiled_once_and_found_again(directory, monkeypatch):
    compilations = count_compilations(monkeypatch)
    expected = jnp.sin(jnp.arange(5.0)) ** 2 + 1.0
    for _ in range(2):  # the second has a memory of its own, as a new process has
        result = Kept(scaled)(FIRST, jnp.ones(5))
        np.testing.assert_array_equal(result["sum"], expected)
    assert len(compilations) == len(list(directory.iterdir())) == 1


def test_other_arguments_are_other_programs(directory, monkeypatch):
    compilations, function = count_compilations(monkeypatch), Kept(scaled)
    for values in (jnp.arange(5.0), jnp.arange(3.0), jnp.arange(5.0) + 1):
        for power in (2, 3):
            result = function((values, jnp.sin, power), jnp.ones(len(values)))
            np.testing.assert_allclose(result["sum"], np.sin(values) ** power + 1, rtol=1e-12)
    assert len(compilations) == 4


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_file_is_compiled_again(damage, directory):
    expected = Kept(scaled)(FIRST, jnp.ones(5))["sum"]
    (file,) = directory.iterdir()
    content = file.read_bytes()
    changed = content[:100] + bytes([content[100] ^ 1]) + content[101:]
    file.write_bytes({"cut": content[:-7], "changed": changed, "empty": b""}[damage])
    np.testing.assert_array_equal(Kept(scaled)(FIRST, jnp.ones(5))["sum"], expected)
    assert file.read_bytes()[:32] == _programs.hashlib.sha256(file.read_bytes()[32:]).digest()


MODEL = DiagonalGaussian()
VALUES = (MODEL, jnp.array([[0.5, 1.0]]), jnp.array([[2.0, 3.0]]))


def moments(family, mean, variance):
    """A function whose place is known to last, as ours are; see `known`."""
    return jax.vmap(family.from_moments)(mean, variance)


@pytest.fixture
def known(monkeypatch):
    """Let what this file defines have lasting names."""
    monkeypatch.setattr(_lasting, "_KNOWN", {*_lasting._KNOWN, __name__.split(".")[0]})


def test_a_known_program_is_found_without_tracing(directory, known, monkeypatch):
    expected = Kept(moments)(*VALUES)
    assert sorted(len(file.name) for file in directory.iterdir()) == [64, 64 + len(".note")]
    monkeypatch.setattr(Kept, "_jitted", lambda *args: pytest.fail("traced"))
    found = Kept(moments)(*VALUES)
    assert type(found) is type(expected)
    np.testing.assert_array_equal(found.scale, expected.scale)


def test_another_form_or_setting_is_another_note(directory, known):
    Kept(moments)(*VALUES)
    Kept(moments)(DiagonalGaussian(scale_floor=0.5), *VALUES[1:])
    Kept(moments)(MODEL, *(jnp.concatenate([value] * 2) for value in VALUES[1:]))
    with jax.default_matmul_precision("float32"):
        Kept(moments)(*VALUES)
    assert len(list(directory.glob("*.note"))) == 4


@pytest.mark.parametrize("kind", ["note", "program"])
def test_a_damaged_file_of_a_known_program_is_replaced(kind, directory, known):
    expected = Kept(moments)(*VALUES)
    (file,) = [f for f in directory.iterdir() if (f.suffix == ".note") == (kind == "note")]
    good = file.read_bytes()
    for bad in (b"", good[:-3], good[:40] + b"x" + good[41:]):
        file.write_bytes(bad)
        np.testing.assert_array_equal(Kept(moments)(*VALUES).mean, expected.mean)
        content = file.read_bytes()
        assert content[:32] == _programs.hashlib.sha256(content[32:]).digest()


def test_a_note_without_its_program_is_no_harm(directory, known):
    expected = Kept(moments)(*VALUES)
    (file,) = [file for file in directory.iterdir() if file.suffix != ".note"]
    file.unlink()
    np.testing.assert_array_equal(Kept(moments)(*VALUES).mean, expected.mean)
    assert file.exists()


def test_many_processes_may_keep_one_program(directory):
    """All at once: each finds a whole file or none."""
    code = f"""
import sys, pathlib
from ngem import _lasting, _programs
_programs.cache_directory = lambda kind: pathlib.Path({str(directory)!r})
import numpy as np
from ngem.ensemble import guard
from ngem.families import DiagonalGaussian
ones = np.ones((1, 3, 2), np.float32)
print(guard._around_zero(DiagonalGaussian(), ones, ones[0]).sum())
"""
    env = {name: value for name, value in os.environ.items() if not name.startswith("JAX_COMP")}
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env)
        for _ in range(3)
    ]
    results = {process.communicate()[0] for process in started}
    assert all(process.returncode == 0 for process in started)
    assert len(results) == 1
    assert len(list(directory.glob("*.note"))) == 1


def test_each_device_has_a_program_of_its_own(directory):
    """A program holds the number of its device, which another process may not have."""
    code = f"""
import sys, pathlib
import jax
from ngem import _programs
_programs.cache_directory = lambda kind: pathlib.Path({str(directory)!r})
device = jax.devices()[int(sys.argv[1])]
result = _programs.Kept(lambda x: x + 1)(jax.device_put(1.0, device))
assert result.devices() == {{device}}, result.devices()
"""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    env = {name: value for name, value in os.environ.items() if not name.startswith("JAX_COMP")}
    for device in ("1", "0", "1"):
        subprocess.run([sys.executable, "-c", code, device], env=env | flags, check=True)
    assert len([file for file in directory.iterdir() if file.suffix != ".note"]) == 2


def test_several_processes_keep_no_programs(directory, monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    np.testing.assert_array_equal(Kept(scaled)(FIRST, jnp.ones(5))["rest"], 1)
    assert not list(directory.iterdir())


def test_a_directory_that_others_can_write_to_is_not_used(directory):
    directory.chmod(0o777)
    np.testing.assert_array_equal(Kept(scaled)(FIRST, jnp.ones(5))["rest"], 1)
    assert not list(directory.iterdir())


def test_part_of_another_program_is_left_to_jax(directory):
    function = Kept(scaled)
    grad = jax.grad(lambda values: function((values, jnp.sin, 2), 0.0)["sum"].sum())
    np.testing.assert_allclose(grad(jnp.arange(3.0)), np.sin(2 * np.arange(3.0)), rtol=1e-12)
    assert not list(directory.iterdir())


def test_a_program_that_is_kept_may_be_part_of_another_one_later(directory):
    """As when a model is loaded where one was fitted: shapes are the same, values are not there."""
    function = Kept(scaled)
    result = function(FIRST, 0.0)
    shapes = jax.eval_shape(lambda values: function((values, jnp.sin, 2), 0.0), FIRST[0])
    assert shapes["sum"].shape == result["sum"].shape
    again = jax.jit(lambda values: function((values, jnp.sin, 2), 0.0))(FIRST[0])
    np.testing.assert_allclose(again["sum"], result["sum"], rtol=1e-12)


def test_the_switch_turns_it_off(directory, monkeypatch):
    monkeypatch.setenv("NGEM_PROGRAMS", "off")
    np.testing.assert_array_equal(Kept(scaled)(FIRST, jnp.ones(5))["rest"], 1)
    assert not list(directory.iterdir())


def test_files_that_were_not_used_for_longest_go_first(directory, monkeypatch):
    monkeypatch.setattr(_programs, "_MOST_BYTES", 250)
    for age in range(4):
        file = directory / f"{age:064}"
        file.write_bytes(bytes(100))
        os.utime(file, (1e9 - age, 1e9 - age))
    (directory / "other").write_bytes(bytes(1000))
    _programs._shrink(directory)
    assert sorted(file.name[-1] for file in directory.iterdir()) == ["0", "1", "r"]


def test_a_full_disk_is_said_and_loses_nothing(directory, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_programs._files, "replace", full)
    with pytest.warns(UserWarning, match="compiled programs must be written to"):
        result = Kept(scaled)(FIRST, jnp.ones(5))
    np.testing.assert_array_equal(result["rest"], 1)


def test_threads_that_want_one_program_compile_it_once(directory, monkeypatch):
    compilations, function, results = count_compilations(monkeypatch), Kept(scaled), []
    threads = [
        threading.Thread(target=lambda: results.append(function(FIRST, jnp.ones(5))["rest"]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert len(compilations) == 1


def test_memory_of_later_arguments_is_reused(directory):
    rest = jnp.ones(5)
    Kept(scaled, donate_rest=True)(FIRST, rest)
    assert rest.is_deleted()


def test_the_oldest_programs_leave_memory(directory, monkeypatch):
    monkeypatch.setattr(_programs, "_MOST_PROGRAMS", 2)
    compilations, function = count_compilations(monkeypatch), Kept(scaled)
    for power in (1, 2, 3, 3):
        result = function((jnp.arange(5.0), jnp.sin, power), 0.0)["sum"]
        np.testing.assert_allclose(result, np.sin(np.arange(5.0)) ** power, rtol=1e-12)
        assert function.n_programs <= 2
    assert len(compilations) == 3
