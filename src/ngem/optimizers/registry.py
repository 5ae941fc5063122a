"""Optimizers by name, and what the training loop must know about each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import optax
from optax.contrib import MuonDimensionNumbers, muon

from .. import _errors
from .kfac import kfac
from .soap import soap

#: Takes a learning rate and a pytree that marks the hidden weight matrices.
Maker = Callable[[optax.ScalarOrSchedule, Any], optax.GradientTransformation]


@dataclass(frozen=True)
class OptimizerSpec:
    """An optimizer, its defaults, and the properties that the training loop relies on.

    Attributes:
        make: Takes a learning rate, possibly traced, and a pytree shaped like the parameters that
            marks the hidden weight matrices. Returns the transformation, without weight decay: the
            training loop applies weight decay, in the same way for all optimizers.
        learning_rate: Default learning rate. It trains a small standardized table well.
        weight_decay: Default decoupled weight decay.
        is_elementwise: The update of a parameter depends on the gradients of that parameter alone,
            so the loop may pass all parameters as one vector.
        has_bounded_steps: Steps are at most a few learning rates long, so finite gradients do not
            make parameters overflow.
        needs_curvature: `update` takes the `LayerStatistics` of each layer as `curvature`.
    """

    make: Maker
    learning_rate: float
    weight_decay: float = 0.0
    is_elementwise: bool = False
    has_bounded_steps: bool = False
    needs_curvature: bool = False


def _make_muon(learning_rate: optax.ScalarOrSchedule, hidden: Any) -> optax.GradientTransformation:
    """Return Muon for the hidden matrices, with Adam at the same rate for all other parameters.

    This is what Muon's authors advise for biases, norms and heads.
    """
    # Equinox stores weights as (out, in); optax expects (in, out).
    numbers = jax.tree.map(
        lambda is_hidden: MuonDimensionNumbers(1, 0) if is_hidden else None, hidden
    )
    return muon(learning_rate, muon_weight_dimension_numbers=lambda _: numbers)


def _for_all(make: Callable[..., optax.GradientTransformation]) -> Maker:
    """Return a maker for an optimizer that treats hidden matrices like all other parameters."""
    return lambda learning_rate, hidden: make(learning_rate)


#: All optimizers that have a name.
OPTIMIZERS = {
    "sgd": OptimizerSpec(_for_all(optax.sgd), 1e-2, is_elementwise=True),
    "adam": OptimizerSpec(_for_all(optax.adam), 3e-3, is_elementwise=True, has_bounded_steps=True),
    "adamw": OptimizerSpec(
        _for_all(optax.adam), 3e-3, weight_decay=1e-2, is_elementwise=True, has_bounded_steps=True
    ),
    "muon": OptimizerSpec(_make_muon, 1e-2),
    "soap": OptimizerSpec(_for_all(soap), 1e-2),
    "kfac": OptimizerSpec(_for_all(kfac), 1e-2, needs_curvature=True),
}

#: Learning rate of each named optimizer if the user gives none.
DEFAULT_LEARNING_RATES = {name: spec.learning_rate for name, spec in OPTIMIZERS.items()}

#: Decoupled weight decay if the user gives none, of the named optimizers that have one.
DEFAULT_WEIGHT_DECAY = {
    name: spec.weight_decay for name, spec in OPTIMIZERS.items() if spec.weight_decay
}


def get_optimizer(optimizer: str | optax.GradientTransformation) -> OptimizerSpec:
    """Return the specification of an optimizer.

    Args:
        optimizer: A key of `OPTIMIZERS`; or an optax transformation, which has its own learning
            rate and ignores the one that `make` is given.
    """
    if isinstance(optimizer, str):
        return OPTIMIZERS[_errors.check_choice("optimizer", optimizer, OPTIMIZERS)]
    return OptimizerSpec(lambda learning_rate, hidden: optimizer, learning_rate=1.0)


def make_optimizer(
    name: str, learning_rate: optax.ScalarOrSchedule, hidden: Any
) -> optax.GradientTransformation:
    """Return a named optimizer; see `OptimizerSpec.make`."""
    return get_optimizer(name).make(learning_rate, hidden)
