"""Names of objects that are the same in every process, and pytree definitions in files."""

import functools
import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ngem import _lasting
from ngem._lasting import lasting_name, read_tree, write_tree
from ngem.families import DiagonalGaussian, FullGaussian, get_family
from ngem.objectives import OBJECTIVES
from ngem.optimizers import OPTIMIZERS
from ngem.training import Plan


def of_our_own(x):
    return x


#: Things on which programs depend; each differs from all others.
DIFFERENT = {
    "none": None,
    "one": 1,
    "true": True,
    "float": 1.0,
    "text": "1",
    "tuple": (1,),
    "list": [1],
    "nested": ((1,), 2),
    "flat": (1, 2),
    "mapping": {"a": 1},
    "family": DiagonalGaussian(),
    "its setting": DiagonalGaussian(scale_floor=0.5),
    "other family": FullGaussian(),
    "with parameters": get_family("student(4)"),
    "plan": Plan(),
    "batch": Plan(batch_size=7),
    "optimizer": Plan(optimizer=optax.adam(1e-3)),
    "rate in a closure": Plan(optimizer=optax.adam(1e-2)),
    "function": jax.nn.gelu,
    "other function": jax.nn.relu,
    "partial": functools.partial(jax.nn.gelu, approximate=True),
    "ufunc": np.add,
    "dtype": np.dtype("f4"),
    "array's form": jax.typeof(jnp.zeros(3, "f4")),
    "other shape": jax.typeof(jnp.zeros((3, 1), "f4")),
    "other dtype": jax.typeof(jnp.zeros(3, "i4")),
    "tree": jax.tree.structure({"a": 1, "b": (2, None)}),
    "other tree": jax.tree.structure({"a": 1, "c": (2, None)}),
    **{f"objective {name}": value for name, value in OBJECTIVES.items() if name != "ngem"},
    **{f"optimizer {name}": value for name, value in OPTIMIZERS.items()},
}


@functools.cache
def names_elsewhere(seed):
    """Return the names in a new process, where sets have another order and objects other places."""
    code = (
        "from tests.test_lasting import DIFFERENT, lasting_name\n"
        "print(*map(lasting_name, DIFFERENT.values()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(DIFFERENT, done.stdout.split(), strict=True))


def test_different_things_have_different_names():
    names = names_elsewhere("1")
    assert [key for key, name in names.items() if name == "None"] == []
    assert len(set(names.values())) == len(DIFFERENT)


def test_names_are_the_same_in_another_process():
    assert names_elsewhere("1") == names_elsewhere("2")


@pytest.mark.parametrize(
    "value",
    [of_our_own, functools.partial(of_our_own, 1), (1, {"a": lambda x: x}), object(), iter(())],
    ids=["function", "inside", "lambda", "object", "iterator"],
)
def test_what_may_change_has_no_name(value):
    assert lasting_name(value) is None


def test_another_version_gives_another_name(monkeypatch):
    before = lasting_name(1)
    monkeypatch.setattr(_lasting, "_surroundings", lambda: ("another",))
    assert lasting_name(1) != before


class Unknown(eqx.Module):
    """A module with a function that no other process knows."""

    function: object = eqx.field(static=True)


@pytest.mark.parametrize(
    "value",
    [
        (1, [2, None], {"a": 3}),
        eqx.nn.Linear(2, 3, key=jax.random.key(0)),
        optax.adam(1e-3).init(jnp.zeros(3)),
        eqx.nn.MLP(1, 1, 4, 2, activation=jax.nn.gelu, key=jax.random.key(0)),
    ],
    ids=["plain", "module", "state", "function"],
)
def test_a_tree_comes_back_equal(value):
    tree = jax.tree.structure(value)
    content = write_tree(tree)
    assert content is not None
    assert read_tree(content) == tree


def test_a_tree_that_would_not_come_back_equal_is_not_written():
    assert write_tree(jax.tree.structure(Unknown(lambda x: x))) is None
