"""What a person waits for: the first epoch of an estimator, and predictions of one row."""

import os
import subprocess
import sys
from typing import Any

import numpy as np

from .timing import Turn, seconds

#: How often a turn asks for one row.
_ASKED = 50


class _FirstEpoch(Exception):
    """The first epoch is over."""


def _raise_at_once(progress: Any) -> None:
    raise _FirstEpoch


def first_epoch(rows: int, features: int) -> None:
    """Fit a default estimator until the end of its first epoch."""
    from ..estimator.regressor import MDNRegressor

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((rows, features)), rng.standard_normal(rows)
    try:
        MDNRegressor(callbacks=[_raise_at_once], random_state=0).fit(x, y)
    except _FirstEpoch:
        return
    raise RuntimeError("expected a call after the first epoch, got none.")


def cold(*, rows: int, features: int) -> Turn:
    """Return a turn that starts Python, imports, compiles and trains one epoch."""
    return _new_process(rows, features, NGEM_PROGRAMS="off")


def kept(*, rows: int, features: int) -> Turn:
    """Return the same where an earlier process has left its compiled programs."""
    turn = _new_process(rows, features)
    turn()
    return turn


def _new_process(rows: int, features: int, **changes: str) -> Turn:
    """Return a turn that starts Python and trains one epoch.

    A directory for compiled programs that the environment names is not used.
    """
    code = f"from ngem.bench.start import first_epoch; first_epoch({rows}, {features})"
    clean = {k: v for k, v in os.environ.items() if not k.startswith("JAX_COMPILATION_CACHE")}

    def work() -> None:
        words = [sys.executable, "-c", code]
        done = subprocess.run(
            words, env={**clean, **changes}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"a first fit failed: {done.stderr.strip().splitlines()[-1]}")

    return lambda: seconds(work)


def bare_import(**_: int) -> Turn:
    """Return a turn that starts Python and imports the estimator, nothing else."""
    code = "import ngem; ngem.MDNRegressor"
    return lambda: seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True))


def warm(*, rows: int, features: int) -> Turn:
    """Return a turn that repeats a fit of one epoch."""
    first_epoch(rows, features)

    return lambda: seconds(lambda: first_epoch(rows, features))


def one_row(*, rows: int, features: int, method: str, arguments: list[Any]) -> Turn:
    """Return a turn that gives the seconds of a thousand predictions of one row each."""
    from ..estimator.regressor import MDNRegressor

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((rows, features)), rng.standard_normal(rows)
    model = MDNRegressor(max_epochs=5, random_state=0).fit(x, y)
    ask = getattr(model, method)

    def work() -> None:
        for _ in range(_ASKED):
            ask(x[:1], *arguments)

    work()
    return lambda: seconds(work) * 1000 / _ASKED
