"""Generated bad inputs: to losses, mixtures, scores and estimators, and to the command."""

import warnings
from collections.abc import Callable
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
    if hasattr(value, "components"):
        return all(map(is_answer, jax.tree.leaves(value)))
    array = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    return array.dtype.kind in "fc" and bool(array.size and np.all(np.isfinite(array)))


def losses(package: Any, convert: Callable[[Any], Any]) -> list[tuple[str, Callable, dict]]:
    """Return calls of the losses with arguments that are right."""
    good = {name: convert(value) for name, value in {**MIXTURE, "y": Y}.items()}
    return [
        (f"{package.__name__}.{name}", getattr(package, name), good)
        for name in ("nll_loss", "ngem_loss")
    ]


#: What may be left out, and so be None.
OPTIONAL = (
    *("weights", "upper", "random_state", "sample_weight", "key", "power", "generator"),
    *("eval_set", "quantiles"),
)


def calls() -> list[tuple[str, Callable, dict[str, Any]]]:
    """Return calls that work; one argument of each is replaced by something bad."""
    mixture = ngem.gaussian_mixture(*map(jnp.asarray, MIXTURE.values()))
    pair = jnp.concatenate([jnp.asarray(ROWS), 1 + jnp.asarray(ROWS)], axis=-1)
    joint = ngem.gaussian_mixture(jnp.asarray(ROWS[..., 0]), pair, jnp.exp(pair))
    y, ends = jnp.asarray(Y), mixture.interval(0.9, "equal-tailed")
    names = ("log_prob", "pdf", "cdf", "cdf_before", "crps", "responsibilities", "region_mass")
    tensors = {name: torch.as_tensor(value) for name, value in MIXTURE.items()}
    of_torch = {"cdf": {"y": torch.as_tensor(Y)}, "crps": {"y": torch.as_tensor(Y)}}
    of_torch |= {"quantile": {"q": 0.5}, "distribution": {}}
    values = np.linspace(0.05, 0.95, 9)
    return [
        *losses(ngem, jnp.asarray),
        *losses(ngem.torch, torch.as_tensor),
        *((f"Mixture.{name}", getattr(mixture, name), {"y": y}) for name in names),
        ("Mixture.log_mass", mixture.log_mass, {"lower": y - 1, "upper": y + 1}),
        ("Mixture.quantile", mixture.quantile, {"q": 0.5}),
        ("Mixture.interval", mixture.interval, {"coverage": 0.9, "kind": "hdr"}),
        ("Mixture.sample", mixture.sample, {"key": jax.random.key(0), "shape": (2,)}),
        ("Mixture.marginal", joint.marginal, {"dims": 0}),
        ("Mixture.condition_on", joint.condition_on, {"dims": 0, "y": y}),
        ("Mixture.reduce", mixture.reduce, {"n_components": 1}),
        ("gaussian_mixture", ngem.gaussian_mixture, dict(MIXTURE)),
        ("get_objective", ngem.get_objective, {"objective": "ngem"}),
        ("load", ngem.load, {"path": "none.ngem"}),
        ("metrics.nll", metrics.nll, {"mixture": mixture, "y": y}),
        ("metrics.crps", metrics.crps, {"mixture": mixture, "y": y}),
        ("metrics.pit", metrics.pit, {"mixture": mixture, "y": y}),
        (
            "metrics.energy_score",
            metrics.energy_score,
            {"mixture": mixture, "y": y, "n_samples": 8},
        ),
        ("metrics.covered", metrics.covered, {"intervals": ends, "y": y}),
        ("metrics.coverage", metrics.coverage, {"intervals": ends, "y": y}),
        (
            "metrics.interval_score",
            metrics.interval_score,
            {"intervals": ends, "y": y, "nominal": 0.9},
        ),
        (
            "metrics.reliability",
            metrics.reliability,
            {"pit": values, "levels": [0.5], "kind": "below", "confidence": 0.9},
        ),
        ("metrics.binomial_band", metrics.binomial_band, {"n": 9, "p": 0.5, "confidence": 0.9}),
        ("metrics.pit_uniformity", metrics.pit_uniformity, {"pit": values}),
        *(
            (f"ngem.torch.{name}", getattr(ngem.torch, name), {**tensors, **more})
            for name, more in of_torch.items()
        ),
    ]


def is_allowed(name: str, which: str, value: Any) -> bool:
    """Return whether an argument of a call may be such a value all the same."""
    if value is None and which in OPTIONAL:
        return True
    is_number = isinstance(value, float | int)
    if name.endswith("gaussian_mixture") and is_number:
        return True  # it broadcasts numbers
    if which == "t" and getattr(value, "shape", None) == (7, 1):
        return True  # seven thresholds of one column
    is_infinite = isinstance(value, float | np.ndarray) and _is_infinite(value)
    return is_infinite and which in LIMITS.get(name, ())


def _is_infinite(value: Any) -> bool:
    array = np.asarray(value)
    return array.dtype.kind == "f" and bool(np.all(np.isinf(array)))


#: What has a limit at infinity, and where.
LIMITS = {
    **dict.fromkeys(("Mixture.cdf", "Mixture.cdf_before", "Mixture.region_mass"), ("y",)),
    **dict.fromkeys(("Mixture.pdf", "Mixture.log_mass"), ("y", "lower", "upper")),
    **dict.fromkeys(("metrics.covered", "metrics.coverage"), ("intervals",)),
    "ngem.torch.cdf": ("y",),
    "MDNRegressor.cdf": ("t",),
    "MixtureBoostingRegressor.cdf": ("t",),
}


def try_bad(
    rng: np.random.Generator, tally: Tally, call: tuple[str, Callable, dict[str, Any]]
) -> None:
    """Replace one argument of a call by something bad."""
    name, function, arguments = call
    which = list(arguments)[rng.integers(len(arguments))]
    value = BAD[rng.integers(len(BAD))]
    if is_allowed(name, which, value):
        return

    def attempt() -> str | None:
        found = function(**{**arguments, which: value})
        return f"a finite answer {found!r:.60}" if is_answer(found) else None

    what = f"{name}({which}={value!r:.60})"
    tally.attempt(what, attempt, ValueError, TypeError, RuntimeError, OSError)


def run_functions(rng: np.random.Generator, count: int, _: Path) -> Tally:
    tally, known = Tally(), calls()
    while tally.tried < count:
        try_bad(rng, tally, known[rng.integers(len(known))])
    return tally


def methods(work: Path) -> list[tuple[str, Callable, dict[str, Any]]]:
    """Return calls of the methods of fitted estimators, with arguments that are right."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    quick = {"n_members": 2, "n_components": 2, "random_state": 0}
    models = [
        ngem.MDNRegressor(hidden_sizes=(4,), max_epochs=2, dropout=0.0, **quick).fit(x, y),
        ngem.MixtureBoostingRegressor(max_rounds=2, **quick).fit(x, y),
    ]
    rows, targets = x[:3], y[:3]
    more: dict[str, dict[str, Any]] = {
        "predict": {"quantiles": [0.5]},
        "predict_quantiles": {"q": [0.1, 0.5]},
        "predict_interval": {"coverage": 0.9, "kind": "equal-tailed"},
        "cdf": {"t": 0.0},
        "sample": {"n_samples": 2, "random_state": 0},
        "predict_uncertainty": {"n_samples": 2, "random_state": 0},
        "log_prob": {"y": targets, "upper": targets},
        "pit": {"y": targets, "random_state": 0},
        "joint_region_mass": {"y": targets, "n_samples": 4, "random_state": 0},
        "score": {"y": targets, "sample_weight": np.ones(3)},
        **{name: {"y": targets} for name in ("crps", "region_mass")},
    }
    found = [
        (f"{type(model).__name__}.{name}", getattr(model, name), {"X": rows, **settings})
        for model in models
        for name, settings in more.items()
    ]
    conformal = ngem.ConformalRegressor(models[0]).calibrate(x, y)
    of_conformal = {"calibrate": {"y": targets}, "contains": {"y": targets, "coverage": 0.5}}
    return [
        *found,
        *(
            (f"ConformalRegressor.{name}", getattr(conformal, name), {"X": rows, **settings})
            for name, settings in of_conformal.items()
        ),
        ("ConformalRegressor.mass", conformal.mass, {"coverage": 0.5}),
    ]


def run_methods(rng: np.random.Generator, count: int, work: Path) -> Tally:
    tally, known = Tally(), methods(work)
    while tally.tried < count:
        try_bad(rng, tally, known[rng.integers(len(known))])
    return tally


#: Values of parameters that no fit can have, beside those that no parameter can have.
PARAMETERS: dict[str, list[Any]] = {
    "n_components": [0, -1, 1.5, "many", [3]],
    "hidden_sizes": [0, (0,), (-1,), "big", (1.5,), (8,) * 300],
    "activation": ["none", 3],
    "family": ["cauchy", 1, "student(x)", "gamma + x", "poisson(1)"],
    "covariance": ["round", 2, "low-rank(0)"],
    "objective": ["best", 7],
    "optimizer": ["best", 7],
    "learning_rate": [-1.0, "fast", [1e-3]],
    "batch_size": [0, -5, 2.5, "all"],
    "max_epochs": [0, -1, 2.5, "long"],
    "validation_fraction": [-0.1, 1.5, "half"],
    "patience": [0, -1, "long"],
    "n_members": [0, -1, 1.5, "all"],
    "dropout": [-0.1, 1.5, "much"],
    "weight_decay": [-1.0, "much"],
    "missing": ["guess", 3],
    "random_state": ["seed", -1, 1.5, 2**40],
    "num_leaves": [0, 1, 2.5, 10**9],
    "max_rounds": [0, -1, 1.5],
    "max_bins": [0, 1, 10**9],
    "row_fraction": [0.0, 1.5],
    "column_fraction": [0.0, 1.5],
    "categorical_features": ["kind", 3, [7], ["none"]],
    "curvature": ["best", 3],
    "kinds": ["network", ["none"], [("a", 3)], []],
    "quality": ["worst", 3],
    "budget": [0.0, -1.0, "long"],
}

#: What no parameter can be, and parameters that may be so all the same.
ODD = [{}, set(), object(), b"bytes", ..., 1j, np.datetime64("2020"), np.nan, np.inf, -np.inf]
FREE = {"network", "callbacks", "checkpoint"}


def estimators() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return estimators by name, with settings that let a fit end soon."""
    return {
        "MDNRegressor": (
            ngem.MDNRegressor,
            {"n_members": 1, "guard": False, "hidden_sizes": (4,), "max_epochs": 1},
        ),
        "MixtureBoostingRegressor": (
            ngem.MixtureBoostingRegressor,
            {"n_members": 1, "guard": False, "max_rounds": 1},
        ),
        "DensityStack": (ngem.DensityStack, {"n_members": 2, "budget": 1e-3}),
    }


def run_estimators(rng: np.random.Generator, count: int, _: Path) -> Tally:
    tally = Tally()
    x, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    cases = [
        (name, kind, quick, parameter, value)
        for name, (kind, quick) in estimators().items()
        for parameter in kind().get_params(deep=False)
        for value in [*PARAMETERS.get(parameter, []), *(() if parameter in FREE else ODD)]
    ]
    rng.shuffle(cases)
    for name, kind, quick, parameter, value in cases[:count]:
        unfitted = kind(**{**quick, parameter: value})
        what = f"{name}({parameter}={value!r:.40})"
        tally.attempt(what, fit_of(unfitted, {"X": x, "y": y}), ValueError, TypeError)
    kinds = list(estimators().items())
    while tally.tried < count:
        name, (kind, quick) = kinds[rng.integers(len(kinds))]
        bad = BAD[rng.integers(len(BAD))]
        arguments = {"X": x, "y": y, "sample_weight": np.ones(40)}
        which = list(arguments)[rng.integers(len(arguments))]
        if not is_allowed("fit", which, bad):
            attempt = fit_of(kind(**quick), {**arguments, which: bad})
            tally.attempt(f"{name}.fit({which}={bad!r:.60})", attempt, ValueError, TypeError)
    return tally


def fit_of(unfitted: Any, arguments: dict[str, Any]) -> Callable[[], str]:
    """Return a fit that must be refused."""

    def attempt() -> str:
        unfitted.fit(**arguments)
        return "a fit"

    return attempt


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
