"""Several models as one: folds of the rows, weights from held-out rows, and a guard beside them."""

from .folds import MOST_REPEATS, make_folds
from .guard import GuardFit, Rows, fit_guard
from .stack import Part, StackPredictor, stack
from .weights import stacking_weights
from .width import Width, choose_width, has_width, log_densities, narrowed

__all__ = [
    "MOST_REPEATS",
    "GuardFit",
    "Part",
    "Rows",
    "StackPredictor",
    "Width",
    "choose_width",
    "fit_guard",
    "has_width",
    "log_densities",
    "make_folds",
    "narrowed",
    "stack",
    "stacking_weights",
]
