"""The one fit loop: how to train, on what, step by step, and what to do after each epoch."""

from .data import Data, condense, shuffled
from .loop import compiled, fit, fit_many
from .parallel import run_shared, side_by_side
from .plan import Hyper, Plan
from .state import FitError, FitResult, History, Place, Progress, State, initial_state
from .step import mean_nll, row_nll
from .streamed import Feed, fit_stream

__all__ = [
    "Data",
    "Feed",
    "FitError",
    "FitResult",
    "History",
    "Hyper",
    "Place",
    "Plan",
    "Progress",
    "State",
    "compiled",
    "condense",
    "fit",
    "fit_many",
    "fit_stream",
    "initial_state",
    "mean_nll",
    "row_nll",
    "run_shared",
    "shuffled",
    "side_by_side",
]
