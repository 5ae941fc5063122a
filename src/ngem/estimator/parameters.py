"""What each parameter of the estimator may be, and the objects that its values stand for.

A model file holds the same parameters, and the same rules check them.
"""

import numbers
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..families import COVARIANCE_NAMES, FAMILY_NAMES, AbstractFamily, get_family
from ..nn import ACTIVATIONS, MixtureNetwork, initialize_head, mixture_mlp
from ..objectives import OBJECTIVES, AbstractObjective, get_objective
from ..optimizers import DEFAULT_LEARNING_RATES
from ..training import Plan

#: Stands in a file for an object that has no name. The model predicts, but cannot be fitted again.
UNSAVED = "unsaved"

#: How version 0.1 asked for the logistic family: as a covariance.
OLD_LOGISTIC = "logistic"

#: Parameters that say how to run rather than what to do. A file never holds them.
TRANSIENT = {
    "callbacks": (),
    "checkpoint": None,
    "network": None,
    "random_state": None,
    "verbose": 0,
}


#: Steps without improvement that a fit waits for at least, before it stops.
_LEAST_STEPS = 300

#: Components by default, of one target and of several.
_COMPONENTS, _JOINT_COMPONENTS = 5, 20

#: Gaussians of up to this many targets have a full covariance by default. Its outputs grow as the
#: square of the targets: 152 for each component at 16 of them, against 32 of a diagonal one.
_FULL_DIM = 16

#: Rows from which several targets get more than one target would. A cautious number: the larger
#: model has many more outputs to learn, and `benchmarks/several_targets.py` trains on 1,500 rows.
_JOINT_ROWS = 1000


class Rule(NamedTuple):
    """A test that raises for no value, and the words for what passes it."""

    test: Callable[[Any], bool]
    expected: str
    example: Any


def _is_integer(value: Any, low: int) -> bool:
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return is_whole and low <= int(value) < 2**31


def _is_number(value: Any, low: float, high: float) -> bool:
    is_real = isinstance(value, int | float | np.integer | np.floating)
    return is_real and not isinstance(value, bool) and bool(low <= value <= high)


def _is_sizes(value: Any) -> bool:
    listed = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
    return listed and all(_is_integer(size, 1) for size in value)


def _is_power(value: Any) -> bool:
    if isinstance(value, str) or value is None:
        return value in (None, "auto")
    if not isinstance(value, Sequence):
        return _is_number(value, 0.0, 1.0)
    return len(value) == 3 and all(_is_number(part, 0.0, 1.0) for part in value) and value[2] > 0


def _is_transformation(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "init") and hasattr(value, "update")


def _integer(example: int, low: int = 1) -> Rule:
    return Rule(lambda v: _is_integer(v, low), f"an integer of at least {low}", example)


def _number(low: float, high: float, expected: str, example: float) -> Rule:
    return Rule(lambda v: _is_number(v, low, high), expected, example)


def _flag() -> Rule:
    return Rule(lambda v: isinstance(v, bool | np.bool_), "True or False", True)


def _choice(choices: Any, *kinds: type, otherwise: str = "") -> Rule:
    names = tuple(choices)
    expected = f"one of {', '.join(map(repr, names))}{otherwise}"
    return Rule(
        lambda v: isinstance(v, kinds) or (isinstance(v, str) and v in names), expected, names[0]
    )


def _optional(rule: Rule) -> Rule:
    return Rule(lambda v: v is None or rule.test(v), f"None or {rule.expected}", None)


# Open ends of intervals: the least positive number, and the greatest below one.
_TINY, _ALMOST = float(np.finfo(np.float32).tiny), 1 - float(np.finfo(np.float32).eps)
_POSITIVE = (_TINY, 1e30, "a positive number")

RULES: dict[str, Rule] = {
    "n_components": _optional(_integer(5)),
    "n_members": _integer(5),
    "hidden_sizes": Rule(_is_sizes, "a sequence of positive integers", (128, 128)),
    "activation": _choice(ACTIVATIONS),
    "family": _choice(FAMILY_NAMES),
    "covariance": Rule(
        lambda v: v is None or (isinstance(v, str) and v in (*COVARIANCE_NAMES, OLD_LOGISTIC)),
        f"None or one of {', '.join(map(repr, COVARIANCE_NAMES))}",
        "diag",
    ),
    "objective": _choice(OBJECTIVES, AbstractObjective, otherwise=" or an objective"),
    "power": Rule(
        _is_power, "'auto', None, a number from 0 to 1 or three: start, end and fraction", "auto"
    ),
    "optimizer": Rule(
        lambda v: _is_transformation(v) or (isinstance(v, str) and v in DEFAULT_LEARNING_RATES),
        f"one of {', '.join(map(repr, DEFAULT_LEARNING_RATES))} or an optax transformation",
        "adam",
    ),
    "learning_rate": _optional(_number(*_POSITIVE, 1e-3)),
    "batch_size": _integer(128),
    "max_epochs": _optional(_integer(1000)),
    "early_stopping": _flag(),
    "validation_fraction": _number(_TINY, _ALMOST, "a number between 0 and 1", 0.1),
    "patience": _optional(_integer(200)),
    "scale_inputs": _flag(),
    "scale_targets": _flag(),
    "init": _choice(("kmeans", "random")),
    "network": Rule(lambda v: v is None or callable(v), "None or a callable", None),
    "separate_networks": _flag(),
    "dropout": _number(0.0, _ALMOST, "a number of at least 0 and below 1", 0.1),
    "layer_norm": _flag(),
    "weight_decay": _optional(_number(0.0, 1e30, "a number of at least 0", 1e-2)),
    "clip_norm": _optional(_number(*_POSITIVE, 1.0)),
    "learning_rate_schedule": _choice(("constant", "cosine")),
    "warmup": _number(0.0, 1.0, "a number from 0 to 1", 0.0),
    "ema": _optional(_number(0.0, _ALMOST, "a number of at least 0 and below 1", 0.99)),
    "scale_floor": _number(*_POSITIVE, 1e-4),
    "guard": _flag(),
    "missing": _choice(("error", "impute")),
    "callbacks": Rule(
        lambda v: isinstance(v, Sequence) and all(map(callable, v)), "a sequence of callables", ()
    ),
    "checkpoint": Rule(
        lambda v: v is None or isinstance(v, str | os.PathLike), "None or a path", None
    ),
    "random_state": Rule(lambda v: True, "anything that scikit-learn takes", None),
    "verbose": Rule(
        lambda v: isinstance(v, bool | np.bool_) or _is_integer(v, 0), "an integer of at least 0", 0
    ),
}


def check(settings: Mapping[str, Any]) -> None:
    """Refuse a parameter that no fit could use, saying what it may be."""
    for name, value in settings.items():
        rule = RULES[name]
        if not rule.test(value):
            raise ValueError(
                f"{name} must be {rule.expected}, got {value!r}; for example {name}="
                f"{rule.example!r}."
            )
    if settings["covariance"] == OLD_LOGISTIC:
        warnings.warn(
            "covariance='logistic' is a family, not a covariance; pass family='logistic'.",
            FutureWarning,
            stacklevel=3,
        )
    family(resolve(settings, dim=1, n_rows=1))  # refuses a covariance that the family does not have
    if settings["network"] is not None and settings["init"] != "random":
        raise ValueError(
            "init must be 'random' with a network of your own, because nothing tells which of its "
            f"parameters are the head, got {settings['init']!r}; pass init='random'."
        )
    if settings["checkpoint"] is not None and not _is_integer(settings["random_state"], 0):
        raise ValueError(
            "random_state must be an integer with a checkpoint, so that a resumed run holds out "
            f"the same rows, got {settings['random_state']!r}; for example random_state=0."
        )


def resolve(settings: Mapping[str, Any], dim: int, n_rows: int) -> dict[str, Any]:
    """Return the parameters with components and covariance chosen for so many targets and rows.

    Several targets of many rows get more components and, if Gaussian, a full covariance. A network
    of the user's own has a fixed number of outputs, so there the choice is that of one target.
    """
    is_joint = dim > 1 and n_rows >= _JOINT_ROWS and settings["network"] is None
    is_full = is_joint and dim <= _FULL_DIM and settings["family"] == "gaussian"
    chosen = {
        "n_components": _JOINT_COMPONENTS if is_joint else _COMPONENTS,
        "covariance": "full" if is_full else "diag",
    }
    missing = {name: value for name, value in chosen.items() if settings[name] is None}
    return {**settings, **missing}


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters as JSON can hold them: names instead of objects, lists, numbers."""
    kept = {name: value for name, value in settings.items() if name not in TRANSIENT}
    for name in ("objective", "optimizer"):
        kept[name] = kept[name] if isinstance(kept[name], str) else _name_of(kept[name])
    return {name: _plain_value(value) for name, value in kept.items()}


def _name_of(value: Any) -> str:
    names = [name for name, known in OBJECTIVES.items() if type(known) is type(value)]
    return next((name for name in names if OBJECTIVES[name] == value), UNSAVED)


def _plain_value(value: Any) -> Any:
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        return [_plain_value(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def family(settings: Mapping[str, Any]) -> AbstractFamily:
    """Return the components' distribution."""
    floor = float(settings["scale_floor"])
    if settings["covariance"] == OLD_LOGISTIC:
        return get_family("logistic", scale_floor=floor)
    return get_family(settings["family"], settings["covariance"], scale_floor=floor)


def architecture(
    settings: Mapping[str, Any], n_inputs: int, dim: int, key: PRNGKeyArray
) -> MixtureNetwork:
    """Return the network with random weights, in single precision whatever JAX's default is."""
    n_components = int(settings["n_components"])
    if settings["network"] is not None:
        made = MixtureNetwork(settings["network"], n_components, dim, family(settings))
    else:
        made = mixture_mlp(
            n_inputs,
            dim,
            key=key,
            n_components=n_components,
            hidden_sizes=tuple(map(int, settings["hidden_sizes"])),
            family=family(settings),
            separate=bool(settings["separate_networks"]),
            activation=settings["activation"],
            dropout=float(settings["dropout"]),
            layer_norm=bool(settings["layer_norm"]),
        )
    return jax.tree.map(
        lambda leaf: leaf.astype(jnp.float32) if eqx.is_inexact_array(leaf) else leaf, made
    )


def start_network(
    settings: Mapping[str, Any], n_inputs: int, targets: np.ndarray, seed: int
) -> MixtureNetwork:
    """Return the network from which training starts."""
    network = architecture(settings, n_inputs, targets.shape[1], jax.random.key(seed))
    if settings["init"] == "random":
        return network
    return initialize_head(network, targets.astype(np.float64), np.random.default_rng(seed))


def max_epochs(settings: Mapping[str, Any], n_rows: int) -> int:
    """Return how many passes to make at most.

    By default about 10,000 steps, in no more than 1,000 passes and no fewer than 40.
    """
    if settings["max_epochs"] is not None:
        return int(settings["max_epochs"])
    steps = -(-n_rows // int(settings["batch_size"]))
    return int(np.clip(10_000 // steps, 40, 1000))


def _patience(settings: Mapping[str, Any], n_rows: int) -> int:
    """Return the default patience: a fifth of the epochs, and enough of them to learn something."""
    steps = -(-n_rows // int(settings["batch_size"]))
    return max(-(-max_epochs(settings, n_rows) // 5), -(-_LEAST_STEPS // steps))


def plan(settings: Mapping[str, Any], n_rows: int) -> Plan:
    """Return how to train on so many rows."""
    patience = settings["patience"] or _patience(settings, n_rows)
    return Plan(
        objective=get_objective(settings["objective"]),
        power=settings["power"],
        optimizer=settings["optimizer"],
        batch_size=int(settings["batch_size"]),
        learning_rate_schedule=settings["learning_rate_schedule"],
        warmup=float(settings["warmup"]),
        clip_norm=_optional_float(settings["clip_norm"]),
        ema=_optional_float(settings["ema"]),
        patience=int(patience) if settings["early_stopping"] else None,
    )


def _optional_float(value: Any) -> float | None:
    return None if value is None else float(value)
