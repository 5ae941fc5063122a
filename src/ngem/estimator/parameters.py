"""What each parameter of the estimator may be, and the objects that its values stand for.

A model file holds the same parameters, and the same rules check them.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..families import (
    COVARIANCE_NAMES,
    FAMILY_NAMES,
    AbstractFamily,
    covariances_of,
    get_family,
    parse_name,
)
from ..nn import ACTIVATIONS, MixtureNetwork, initialize_head, mixture_mlp, with_bins
from ..objectives import (
    OBJECTIVES,
    AbstractLikelihood,
    AbstractObjective,
    Schedule,
    get_objective,
)
from ..optimizers import DEFAULT_LEARNING_RATES
from ..training import Plan
from .rules import (
    ALMOST,
    AUTO,
    POSITIVE,
    SHARED,
    Rule,
    check_rules,
    choice,
    flag,
    integer,
    is_integer,
    is_number,
    number,
    optional,
    plain_value,
)

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
    "warm_start": False,
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

#: Layers at most. Hundreds of them do not train, and a file with thousands would take long to load.
_MOST_LAYERS = 256


def _is_sizes(value: Any) -> bool:
    listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    listed |= isinstance(value, np.ndarray) and value.ndim == 1
    return listed and len(value) <= _MOST_LAYERS and all(is_integer(size, 1) for size in value)


def _is_covariance(value: Any) -> bool:
    """Return whether a value names a covariance; `get_family` says what is wrong with options."""
    return isinstance(value, str) and parse_name(value)[0] in (*COVARIANCE_NAMES, OLD_LOGISTIC)


def _is_power(value: Any) -> bool:
    if isinstance(value, str) or value is None:
        return value in (None, "auto")
    if not isinstance(value, Sequence):
        return is_number(value, 0.0, 1.0)
    return len(value) == 3 and all(is_number(part, 0.0, 1.0) for part in value) and value[2] > 0


def _is_transformation(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "init") and hasattr(value, "update")


RULES: dict[str, Rule] = {
    **SHARED,
    "n_components": optional(integer(5)),
    "hidden_sizes": Rule(
        _is_sizes, f"a sequence of at most {_MOST_LAYERS} positive integers", (128, 128)
    ),
    "activation": choice(ACTIVATIONS),
    "covariance": Rule(
        lambda v: v is None or _is_covariance(v),
        f"None or one of {', '.join(map(repr, COVARIANCE_NAMES))}, with its options",
        "diag",
    ),
    "objective": choice(OBJECTIVES, AbstractObjective, otherwise=" or an objective"),
    "power": Rule(
        _is_power, "'auto', None, a number from 0 to 1 or three: start, end and fraction", "auto"
    ),
    "optimizer": Rule(
        lambda v: _is_transformation(v) or (isinstance(v, str) and v in DEFAULT_LEARNING_RATES),
        f"one of {', '.join(map(repr, DEFAULT_LEARNING_RATES))} or an optax transformation",
        "adam",
    ),
    "learning_rate": optional(number(*POSITIVE, 1e-3)),
    "batch_size": integer(128),
    "max_epochs": optional(integer(1000)),
    "patience": optional(integer(200)),
    "scale_inputs": flag(),
    "scale_targets": flag(),
    "init": choice(("kmeans", "random")),
    "network": Rule(lambda v: v is None or callable(v), "None or a callable", None),
    "n_bins": optional(integer(16)),
    "input_limit": optional(number(*POSITIVE, 4.0)),
    "separate_networks": flag(),
    "dropout": Rule(
        lambda v: (isinstance(v, str) and v == "auto") or is_number(v, 0.0, ALMOST),
        "'auto' or a number of at least 0 and below 1",
        0.1,
    ),
    "layer_norm": flag(),
    "weight_decay": optional(number(0.0, 1e30, "a number of at least 0", 1e-2)),
    "clip_norm": optional(number(*POSITIVE, 1.0)),
    "learning_rate_schedule": choice(("constant", "cosine")),
    "warmup": number(0.0, 1.0, "a number from 0 to 1", 0.0),
    "ema": optional(number(0.0, ALMOST, "a number of at least 0 and below 1", 0.99)),
    "missing": choice(("error", "impute")),
    "warm_start": flag(),
    "checkpoint": Rule(
        lambda v: v is None or isinstance(v, str | os.PathLike), "None or a path", None
    ),
}


def check(settings: Mapping[str, Any]) -> None:
    """Refuse a parameter that no fit could use, saying what it may be."""
    check_rules(settings, RULES)
    if settings["covariance"] == OLD_LOGISTIC:
        warnings.warn(
            "covariance='logistic' is a family, not a covariance; pass family='logistic'.",
            FutureWarning,
            stacklevel=3,
        )
    if settings["family"] == AUTO:
        settings = {**settings, "family": FAMILY_NAMES[0]}
    family(resolve(settings, dim=1, n_rows=1))  # refuses a covariance that the family does not have
    if settings["network"] is not None and settings["init"] != "random":
        raise ValueError(
            "init must be 'random' with a network of your own, because nothing tells which of its "
            f"parameters are the head, got {settings['init']!r}; pass init='random'."
        )
    if settings["network"] is not None and settings["n_bins"] is not None:
        raise ValueError(
            "n_bins must be None with a network of your own, which reads the features as they are, "
            f"got {settings['n_bins']!r}; encode them inside the network with ngem.nn.Bins."
        )
    if settings["checkpoint"] is not None and not is_integer(settings["random_state"], 0):
        raise ValueError(
            "random_state must be an integer with a checkpoint, so that a resumed run holds out "
            f"the same rows, got {settings['random_state']!r}; for example random_state=0."
        )


def resolve(
    settings: Mapping[str, Any], dim: int, n_rows: int, *, has_intervals: bool = False
) -> dict[str, Any]:
    """Return the parameters with components and covariance chosen for so many targets and rows.

    Several targets of many rows get more components and, if Gaussian, a full covariance. A network
    of the user's own has a fixed number of outputs, so there the choice is that of one target.

    Args:
        settings: The estimator's parameters.
        dim: Number of target columns.
        n_rows: Number of rows.
        has_intervals: Whether some targets are known by intervals only. The probability of a box
            needs independent coordinates, and a loss that is a likelihood.
    """
    if has_intervals:
        _check_intervals(settings)
    is_joint = dim > 1 and n_rows >= _JOINT_ROWS and settings["network"] is None
    is_independent = "full" not in covariances_of(settings["family"]) or has_intervals
    is_full = is_joint and dim <= _FULL_DIM and not is_independent
    chosen = {
        "n_components": _JOINT_COMPONENTS if is_joint else _COMPONENTS,
        "covariance": "full" if is_full else "diag",
    }
    missing = {name: value for name, value in chosen.items() if settings[name] is None}
    return {**settings, **missing}


def _check_intervals(settings: Mapping[str, Any]) -> None:
    """Refuse what cannot learn from rounded, censored or missing targets."""
    if not named_family(settings).has_boxes:
        raise ValueError(
            "covariance must be 'diag' for rounded, censored or missing targets, because the "
            "probability of a box has no closed form otherwise, got "
            f"{settings['covariance']!r}; pass covariance='diag'."
        )
    if not isinstance(get_objective(settings["objective"]), AbstractLikelihood):
        raise ValueError(
            "objective must be a likelihood for rounded, censored or missing targets, got "
            f"{settings['objective']!r}; for example objective='ngem'."
        )


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters as JSON can hold them: names instead of objects, lists, numbers."""
    kept = {name: value for name, value in settings.items() if name not in TRANSIENT}
    for name in ("objective", "optimizer"):
        kept[name] = kept[name] if isinstance(kept[name], str) else _name_of(kept[name])
    return {name: plain_value(value) for name, value in kept.items()}


def _name_of(value: Any) -> str:
    names = [name for name, known in OBJECTIVES.items() if type(known) is type(value)]
    return next((name for name in names if OBJECTIVES[name] == value), UNSAVED)


def family(settings: Mapping[str, Any]) -> AbstractFamily:
    """Return the components' distribution, in the user's units."""
    floor = float(settings["scale_floor"])
    if settings["covariance"] == OLD_LOGISTIC:
        return get_family("logistic", scale_floor=floor)
    return get_family(settings["family"], settings["covariance"], scale_floor=floor)


def named_family(settings: Mapping[str, Any]) -> AbstractFamily:
    """Return the components' distribution before a covariance is chosen: where targets may lie."""
    return family({**settings, "covariance": settings["covariance"] or "diag"})


def architecture(
    settings: Mapping[str, Any], n_inputs: int, dim: int, key: PRNGKeyArray
) -> MixtureNetwork:
    """Return the network with random weights, in single precision whatever JAX's default is."""
    n_components = int(settings["n_components"])
    if settings["network"] is not None:
        made = MixtureNetwork(settings["network"], n_components, dim, family(settings).base)
    else:
        made = mixture_mlp(
            n_inputs,
            dim,
            key=key,
            n_components=n_components,
            hidden_sizes=tuple(map(int, settings["hidden_sizes"])),
            family=family(settings).base,
            separate=bool(settings["separate_networks"]),
            n_bins=int(settings["n_bins"] or 0),
            input_limit=_input_limit(settings),
            activation=settings["activation"],
            dropout=0.0 if settings["dropout"] == "auto" else float(settings["dropout"]),
            layer_norm=bool(settings["layer_norm"]),
        )
    return jax.tree.map(
        lambda leaf: leaf.astype(jnp.float32) if eqx.is_inexact_array(leaf) else leaf, made
    )


def _input_limit(settings: Mapping[str, Any]) -> float | None:
    """Return the limit beyond which inputs are squashed: None where they have the user's units."""
    return _optional_float(settings["input_limit"]) if settings["scale_inputs"] else None


def start_network(
    settings: Mapping[str, Any], inputs: np.ndarray, targets: np.ndarray, seed: int
) -> MixtureNetwork:
    """Return the network from which training starts."""
    network = architecture(settings, inputs.shape[1], targets.shape[1], jax.random.key(seed))
    if settings["n_bins"] is not None:
        body = with_bins(network.body, inputs)
        network = eqx.tree_at(lambda tree: tree.body, network, body)
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


def default_patience(settings: Mapping[str, Any], n_rows: int) -> int:
    """Return the default patience: a fifth of the epochs, and enough of them to learn something."""
    steps = -(-n_rows // int(settings["batch_size"]))
    return max(-(-max_epochs(settings, n_rows) // 5), -(-_LEAST_STEPS // steps))


def plan(settings: Mapping[str, Any], n_rows: int) -> Plan:
    """Return how to train on so many rows."""
    patience = settings["patience"] or default_patience(settings, n_rows)
    return Plan(
        objective=_objective(settings),
        power=settings["power"],
        optimizer=settings["optimizer"],
        batch_size=int(settings["batch_size"]),
        learning_rate_schedule=settings["learning_rate_schedule"],
        warmup=float(settings["warmup"]),
        clip_norm=_optional_float(settings["clip_norm"]),
        ema=_optional_float(settings["ema"]),
        patience=int(patience) if settings["early_stopping"] else None,
    )


def _objective(settings: Mapping[str, Any]) -> AbstractObjective:
    """Return what to minimize.

    Flattening keeps all components alive at first. Full covariances have many components, and
    those which are kept alive hinder each other there: without flattening the held-out likelihood
    is better in 15 of 24 fits and worse in 5 (`benchmarks/several_targets.py`).
    """
    objective = get_objective(settings["objective"])
    is_default = settings["objective"] == "ngem" and settings["power"] == "auto"
    if settings["covariance"] == "full" and is_default:
        return objective.with_power(Schedule(flattening=0.0))
    return objective


def _optional_float(value: Any) -> float | None:
    return None if value is None else float(value)
