"""Several models as one: folds of the rows, weights from held-out rows, and a guard beside them."""

from .folds import make_folds
from .guard import GuardFit, Rows, fit_guard
from .stack import Part, StackPredictor, stack
from .weights import stacking_weights

__all__ = [
    "GuardFit",
    "Part",
    "Rows",
    "StackPredictor",
    "fit_guard",
    "make_folds",
    "stack",
    "stacking_weights",
]
