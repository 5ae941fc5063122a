"""Generated bad inputs: to losses, mixtures, scores and estimators, and to the command."""

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from common import Tally
from typer.testing import CliRunner

import ngem
import ngem.torch
from ngem import metrics
from ngem.cli import app

ROWS = np.random.default_rng(0).normal(size=(3, 2, 1))
MIXTURE = {"logits": ROWS[..., 0], "mean": ROWS, "scale": np.exp(ROWS)}
Y = ROWS[:, 0]

#: Nothing that an argument of ours may be.
BAD = [
    *(None, "", "text", b"bytes", {}, {"a": 1}, set(), object(), print, np, ...),
    *(np.datetime64("2020"), [["a"]], [[1.0], [2.0, 3.0]], np.array("x"), np.array(None)),
    *(1j, np.ones((3, 1)) * 1j, np.zeros((0, 1)), np.zeros((0, 0)), np.zeros((2, 3, 4, 5))),
    *(np.full((3, 1), np.nan), np.full((3, 1), np.inf), np.full((3, 2, 1), np.nan), np.nan, np.inf),
    *(np.zeros((7, 1)), np.zeros((3, 5)), np.full((3, 1), "1"), np.array([[None]] * 3), -np.inf),
]


def is_answer(value: Any) -> bool:
    """Return whether a result holds a finite number, which would be a plausible lie."""
    leaves = [value] if not hasattr(value, "components") else jax.tree.leaves(value)
    for leaf in leaves:
        array = leaf.detach().numpy() if isinstance(leaf, torch.Tensor) else np.asarray(leaf)
        if array.dtype.kind in "fc" and array.size and np.all(np.isfinite(array)):
            return True
    return False


def losses(package: Any, convert: Callable[[Any], Any]) -> list[tuple[str, Callable, dict]]:
    """Return calls of the losses with arguments that are right."""
    good = {name: convert(value) for name, value in {**MIXTURE, "y": Y}.items()}
    return [
        (f"{package.__name__}.{name}", getattr(package, name), good)
        for name in ("nll_loss", "ngem_loss")
    ]


def calls() -> list[tuple[str, Callable, dict[str, Any]]]:
    """Return calls that work; one argument of each is replaced by something bad."""
    mixture = ngem.gaussian_mixture(*map(jnp.asarray, MIXTURE.values()))
    y, names = jnp.asarray(Y), ("log_prob", "cdf", "crps", "responsibilities", "region_mass")
    of_mixture = [(f"Mixture.{name}", getattr(mixture, name), {"y": y}) for name in names]
    return [
        *losses(ngem, jnp.asarray),
        *losses(ngem.torch, torch.as_tensor),
        *of_mixture,
        ("Mixture.quantile", mixture.quantile, {"q": 0.5}),
        ("Mixture.interval", mixture.interval, {"coverage": 0.9}),
        ("metrics.pit", metrics.pit, {"mixture": mixture, "y": y}),
        ("metrics.energy_score", metrics.energy_score, {"mixture": mixture, "y": y}),
        ("gaussian_mixture", ngem.gaussian_mixture, dict(MIXTURE)),
    ]


#: Values of parameters of an estimator that no fit can have.
PARAMETERS = {
    "n_components": [0, -1, 1.5, "many", [3]],
    "hidden_sizes": [0, (0,), (-1,), "big", (1.5,), None, (8,) * 300],
    "activation": ["none", 3, None],
    "family": ["cauchy", 1, None],
    "covariance": ["round", 2],
    "objective": ["best", 7, None],
    "optimizer": ["best", 7, None],
    "learning_rate": [-1.0, "fast", np.nan, np.inf, [1e-3]],
    "batch_size": [0, -5, 2.5, "all"],
    "max_epochs": [0, -1, 2.5, "long"],
    "validation_fraction": [-0.1, 1.5, "half", np.nan],
    "patience": [0, -1, "long"],
    "n_members": [0, -1, 1.5, "all"],
    "dropout": [-0.1, 1.5, "much", np.nan],
    "weight_decay": [-1.0, "much", np.nan],
    "missing": ["guess", 3],
    "random_state": ["seed", -1, 1.5, 2**40],
}


def run_functions(rng: np.random.Generator, count: int, _: Path) -> Tally:
    tally, known = Tally(), calls()
    for _ in range(count):
        name, function, arguments = known[rng.integers(len(known))]
        which = list(arguments)[rng.integers(len(arguments))]
        value = BAD[rng.integers(len(BAD))]
        if name.endswith("gaussian_mixture") and isinstance(value, float | int):
            continue  # it broadcasts numbers

        changed = partial(function, **{**arguments, which: value})

        def call(changed: Any = changed) -> str | None:
            return "a finite answer" if is_answer(changed()) else None

        what = f"{name}({which}={value!r:.60})"
        tally.attempt(what, call, ValueError, TypeError, RuntimeError)
    return tally


def run_estimators(rng: np.random.Generator, count: int, _: Path) -> Tally:
    tally = Tally()
    x, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    quick = {"n_members": 1, "guard": False, "hidden_sizes": (4,), "max_epochs": 1}
    cases = [(name, value) for name, values in PARAMETERS.items() for value in values]
    for index in range(count):
        name, value = cases[index % len(cases)]

        def fit(name: str = name, value: Any = value) -> str | None:
            ngem.MDNRegressor(**{**quick, name: value}).fit(x, y)
            return "a fit"

        tally.attempt(f"MDNRegressor({name}={value!r:.40})", fit, ValueError, TypeError)
        bad = BAD[rng.integers(len(BAD))]
        tally.attempt(
            f"MDNRegressor.fit(y={bad!r:.60})",
            lambda bad=bad: ngem.MDNRegressor(**quick).fit(x, bad) and "a fit",
            *(ValueError, TypeError),
        )
    return tally


WORDS = ["", "x", "-1", "0", "nan", "1e400", "=1+1", "a,b", "../..", "\x00", "é" * 300, "99" * 40]
OPTIONS = {
    "fit": ["--target", "--features", "--exclude", "--epochs", "--hidden", "-k", "--missing"],
    "predict": ["--quantiles", "--interval", "--samples", "--keep", "--seed", "--kind", "--out"],
    "evaluate": ["--missing"],
    "report": ["--out", "--max-rows", "--seed"],
    "tune": ["--budget", "--target", "--seed"],
}


def run_commands(rng: np.random.Generator, count: int, work: Path) -> Tally:
    """Commands with bad options: one paragraph, no traceback, a code other than 0, no new file."""
    tally = Tally()
    (work / "bad.csv").write_text("a,b\n1,x\n2,\n")
    for _ in range(count):
        command = str(rng.choice(list(OPTIONS)))
        files = [str(work / "none.ngem"), str(work / "bad.csv")]
        arguments = [command, *(files[1:] if command in ("fit", "tune") else files)]
        for option in rng.choice(OPTIONS[command], int(rng.integers(1, 3))):
            arguments += [str(option), str(rng.choice(WORDS))]
        before = sorted(work.iterdir())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = CliRunner().invoke(app, arguments)
        foreign = result.exception if not isinstance(result.exception, SystemExit) else None
        if foreign is not None or result.exit_code == 0 or "Traceback" in result.output:
            tally.bad(f"{arguments}: {result.exit_code}, {foreign!r}")
        elif sorted(work.iterdir()) != before:
            tally.bad(f"{arguments}: left a file")
        else:
            tally.good("refused")
    return tally
