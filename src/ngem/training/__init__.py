"""The one fit loop: how to train, on what, step by step, and what to do after each epoch."""

from .data import Data, condense, shuffled
from .loop import compiled, fit, fit_many
from .parallel import run_shared, side_by_side
from .plan import Hyper, Plan
from .state import FitError, FitResult, History, Progress, State, initial_state
from .step import mean_nll, row_nll

__all__ = [
    "Data",
    "FitError",
    "FitResult",
    "History",
    "Hyper",
    "Plan",
    "Progress",
    "State",
    "compiled",
    "condense",
    "fit",
    "fit_many",
    "initial_state",
    "mean_nll",
    "row_nll",
    "run_shared",
    "shuffled",
    "side_by_side",
]
