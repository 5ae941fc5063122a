"""Optimizers by name."""

from typing import Any

import jax
import optax
from optax.contrib import MuonDimensionNumbers, muon

from .adam import adam
from .kfac import kfac
from .soap import soap

#: Learning rates that train a small standardised table well, used where the user gives none.
DEFAULT_LEARNING_RATES = {
    "sgd": 1e-2,
    "adam": 3e-3,
    "adamw": 3e-3,
    "muon": 1e-2,
    "soap": 1e-2,
    "kfac": 1e-2,
}

#: Decoupled weight decay where the user gives none.
DEFAULT_WEIGHT_DECAY = {"adamw": 1e-2}


def make_optimizer(
    name: str, learning_rate: optax.ScalarOrSchedule, hidden: Any
) -> optax.GradientTransformation:
    """Return an optimizer by name.

    Weight decay is left to the training loop, which treats all of them alike.

    Args:
        name: A key of `DEFAULT_LEARNING_RATES`.
        learning_rate: A number, possibly traced, or an optax schedule.
        hidden: A pytree like the parameters that marks hidden weight matrices. Muon takes those;
            biases, norms and heads go to Adam at the same learning rate, as its authors advise.
    """
    if name == "muon":
        # Equinox keeps weights as (out, in), where optax expects (in, out).
        numbers = jax.tree.map(
            lambda is_hidden: MuonDimensionNumbers(1, 0) if is_hidden else None, hidden
        )
        return muon(learning_rate, muon_weight_dimension_numbers=lambda _: numbers)
    makers = {"sgd": optax.sgd, "adam": adam, "adamw": adam, "soap": soap, "kfac": kfac}
    return makers[name](learning_rate)
