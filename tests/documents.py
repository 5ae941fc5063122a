"""The code blocks of documents, and the settings under which tests run them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import matplotlib as mpl
import pytest

from ngem.estimator import member_regressor, parameters

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

#: JAX's own defaults.
_USERS = {
    "jax_enable_x64": False,
    "jax_numpy_rank_promotion": "allow",
    "jax_numpy_dtype_promotion": "standard",
}

#: Enough epochs to learn something, few enough for a test.
EPOCHS = 10


def blocks(page):
    """Return the Python blocks of a document."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M)


def run(page, names):
    """Run the blocks of a page in order, as a reader would."""
    assert blocks(page)
    for block in blocks(page):
        exec(compile(block, page.name, "exec"), names)
    return names


@contextmanager
def as_user(monkeypatch, directory) -> Iterator[None]:
    """Use JAX's own defaults, float32 among them, and few epochs unless the document sets them.

    Two members are enough to show what a document shows, and compile faster than five.
    """
    choose = member_regressor.choose_held_out
    monkeypatch.setattr(
        member_regressor,
        "choose_held_out",
        lambda settings, *args, **rest: choose(
            {**settings, "n_members": min(2, settings["n_members"])}, *args, **rest
        ),
    )
    max_epochs = parameters.max_epochs
    monkeypatch.setattr(parameters, "max_epochs", lambda *args: min(EPOCHS, max_epochs(*args)))
    monkeypatch.chdir(directory)
    before = {name: getattr(jax.config, name) for name in _USERS}
    _configure(_USERS)  # not contexts: the threads in which members train see this too
    try:
        with mpl.rc_context({"backend": "agg"}):
            yield
    finally:
        _configure(before)


def _configure(settings):
    for name, value in settings.items():
        jax.config.update(name, value)


def seeded_torch():
    """Return PyTorch with a fixed seed, on one thread: test processes already fill the cores."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    return torch
