"""Time to the first epoch of an estimator: in a new process, and the second time."""

import os
import subprocess
import sys
from typing import Any

import numpy as np

from .timing import Turn, seconds


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
    """Return a turn that starts Python, imports, compiles and trains one epoch.

    A directory for compiled programs that the environment names is not used.
    """
    code = f"from ngem.bench.start import first_epoch; first_epoch({rows}, {features})"
    clean = {k: v for k, v in os.environ.items() if not k.startswith("JAX_COMPILATION_CACHE")}

    def work() -> None:
        done = subprocess.run(
            [sys.executable, "-c", code], env=clean, capture_output=True, text=True, check=False
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
