"""The one fit loop: how to train, on what, step by step, and what to do after each epoch."""

from .loop import (
    Data,
    FitError,
    FitResult,
    History,
    Hyper,
    Plan,
    Progress,
    State,
    apply,
    compiled,
    condense,
    fit,
    fit_many,
    initial_state,
    mean_nll,
    shuffled,
)

__all__ = [
    "Data",
    "FitError",
    "FitResult",
    "History",
    "Hyper",
    "Plan",
    "Progress",
    "State",
    "apply",
    "compiled",
    "condense",
    "fit",
    "fit_many",
    "initial_state",
    "mean_nll",
    "shuffled",
]
